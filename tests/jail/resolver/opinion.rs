//! What a path means: according to us, as the supervisor and the worker together would open it, and according to the
//! kernel, asked through a binding that is not ours.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

use rustix::fs::OFlags;
use stockade::internals::{
    broker::Refusal,
    path::{Root, Symlinks},
    resolve::{LeafLinkRule, Openat2Resolver, PathResolver, StepwiseResolver, follow_links},
    sys::{
        Errno,
        fs::{Mounts, OpenRules, ResolveMethod, open_beneath},
        host,
    },
};

/// Renames that one walk may meet.
const EAGAIN_RETRIES: usize = 10_000;

/// Device and inode, or why not.
pub type Opinion = Result<(u64, u64), Refusal>;

/// A resolver and the way a worker opens leaves beside it.
pub const OURS: [(&dyn PathResolver, ResolveMethod); 2] =
    [(&Openat2Resolver, ResolveMethod::Openat2), (&StepwiseResolver, ResolveMethod::Stepwise)];

/// The supervisor's part and the worker's: the folder by the resolver, the leaf beneath it.
pub fn ours(
    (resolver, walk): (&dyn PathResolver, ResolveMethod),
    root: &OwnedFd,
    path: &[u8],
    rules: &Root,
) -> Opinion {
    let followed;
    let path = match rules.symlinks {
        Symlinks::Refuse => path,
        Symlinks::Beneath => {
            followed = follow_links(root.as_fd(), path, rules, LeafLinkRule::Follow, |_| false)?;
            &followed
        }
    };
    let (parent, leaf) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (resolver.open_directory(root.as_fd(), &path[..slash], rules)?, &path[slash + 1..]),
        None => (root.try_clone().unwrap(), path),
    };
    if leaf.is_empty() {
        return Ok(host::identity(parent).unwrap());
    }
    let mounts = if rules.cross_mounts { Mounts::Cross } else { Mounts::Refuse };
    open_beneath(parent.as_fd(), leaf, OFlags::PATH | OFlags::NOFOLLOW, OpenRules { method: walk, mounts })
        .map(|fd| host::identity(fd).unwrap())
        .map_err(|errno| refusal(errno.raw_os_error()))
}

/// The folder alone, as the resolver finds it.
pub fn folder(resolver: &dyn PathResolver, root: &OwnedFd, path: &[u8], rules: &Root) -> Opinion {
    resolver.open_directory(root.as_fd(), path, rules).map(|fd| host::identity(fd).unwrap())
}

/// The kernel's own opinion. EXDEV is `Mount`; where links are followed it may also mean `Escape`.
pub fn kernel(root: &OwnedFd, path: &[u8], rules: &Root, flags: OFlags) -> Opinion {
    use ::openat2::{OpenHow, ResolveFlags, openat2};
    let mut how = OpenHow::new((OFlags::PATH | flags).bits() as i32, 0);
    how.resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if rules.symlinks == Symlinks::Refuse {
        how.resolve |= ResolveFlags::NO_SYMLINKS;
    }
    if !rules.cross_mounts {
        how.resolve |= ResolveFlags::NO_XDEV;
    }
    // The kernel gives up a walk with `..`, which only it makes here, when a rename anywhere on the machine meets it;
    // the swap tests rename all the time.
    let mut answers = (0..EAGAIN_RETRIES).map(|_| openat2(Some(root.as_raw_fd()), OsStr::from_bytes(path), &how));
    let is_final = |answer: &std::io::Result<_>| !matches!(answer, Err(e) if e.raw_os_error() == Some(libc::EAGAIN));
    match answers.find(is_final).expect("the kernel finishes a walk now and then") {
        Ok(raw) => {
            // SAFETY: the crate returns a descriptor that nobody else owns.
            let fd = unsafe { OwnedFd::from_raw_fd(raw) };
            Ok(host::identity(fd).unwrap())
        }
        Err(error) => Err(refusal(error.raw_os_error().expect("an errno"))),
    }
}

fn refusal(errno: i32) -> Refusal {
    match errno {
        libc::ENOENT | libc::EACCES => Refusal::NotFound,
        libc::ELOOP => Refusal::Escape,
        libc::EXDEV => Refusal::Mount,
        libc::ENOTDIR => Refusal::NotDirectory,
        other => Refusal::Io(other),
    }
}

/// Whether the kernel's answer and ours are the same one.
pub fn is_same(ours: Opinion, kernel: Opinion, rules: &Root) -> bool {
    // Leaving the root through a link is EXDEV, too.
    let left = rules.symlinks == Symlinks::Beneath && kernel == Err(Refusal::Mount);
    ours == kernel || (left && ours == Err(Refusal::Escape))
}

pub const NAME_TOO_LONG: Refusal = Refusal::Io(Errno::NAMETOOLONG.raw_os_error());
