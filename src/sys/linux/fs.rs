//! openat2, and O_PATH: a handle on a name that gives no right to what it stands for.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};

use crate::sys::{
    Errno,
    fs::{Beneath, Mounts, Stat, Walk, open_beneath, open_name, read_link, stat},
};

/// A folder to go on from, and nothing else: it can be neither listed nor written through its descriptor.
pub const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

// Bounded: the kernel answers EAGAIN when a rename anywhere on the host meets the walk. Unbounded retry would let a
// local user stall us; 32 proved too low for others who met rename storms.
const EAGAIN_RETRIES: usize = 128;

/// `mode` of a file that is made by the open, exactly: the worker has no umask.
pub(in crate::sys) fn open_with_mode(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    Beneath { walk, mounts }: Beneath,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if mounts == Mounts::Refuse {
        resolve |= ResolveFlags::NO_XDEV;
    }
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NOCTTY | OFlags::NONBLOCK;
    }
    if walk == Walk::ByHand {
        return open_name(dir, path, flags, mode, mounts);
    }
    #[cfg(feature = "weakened")]
    if crate::sys::weakened::is_off(crate::sys::weakened::CHECKS) {
        // Links and `..` are followed to wherever they lead: Landlock must hold alone.
        resolve = ResolveFlags::empty();
        flags -= OFlags::NOFOLLOW;
    }
    for _ in 0..EAGAIN_RETRIES {
        match rustix::fs::openat2(dir, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Equal for two descriptors of one mount. The device is the second choice: bind mounts share it.
pub(in crate::sys) fn mount_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // Without asking the file system: a dead network or FUSE mount would never answer.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    match rustix::fs::statx(fd, c"", flags, StatxFlags::MNT_ID) {
        // KERNEL(5.8): older ones do not tell the mount.
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Ok(found.stx_mnt_id),
        Ok(_) | Err(Errno::NOSYS) => Ok(rustix::fs::fstat(fd)?.st_dev),
        Err(errno) => Err(errno),
    }
}

/// A name as itself, whatever it is. Held: an inode that is held cannot be given to another file.
#[derive(Debug, Clone)]
pub struct Held(Arc<OwnedFd>);

/// Without opening it for anything: no device acts, no FIFO waits, no link is followed.
pub fn hold(dir: BorrowedFd<'_>, name: &[u8], how: Beneath) -> Result<Held, Errno> {
    open_beneath(dir, name, OFlags::PATH | OFlags::NOFOLLOW, how).map(|fd| Held(Arc::new(fd)))
}

impl Held {
    pub fn folder(fd: &Arc<OwnedFd>) -> Self {
        Self(Arc::clone(fd))
    }

    pub fn stat(&self) -> Result<Stat, Errno> {
        stat(&*self.0)
    }

    pub fn is_folder(&self) -> bool {
        rustix::fs::fstat(&*self.0)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Of the very link that is held; EINVAL or ENOENT for anything else.
    pub fn target(&self) -> Result<Vec<u8>, Errno> {
        read_link(self.0.as_fd(), b"")
    }
}
