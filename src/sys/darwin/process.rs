//! What macOS lets a process restrict about itself. macOS has no capabilities, no ban on new privileges and no death signal
//! when the parent ends. Privileges that cannot be dropped here must not be there at the start.

use nix::unistd::{Gid, Uid};
use rustix::{
    fs::OFlags,
    process::{self, Resource, Rlimit},
};

use crate::sys::{Errno, process::GiveUp};

/// Memory is not limited: address space is all that could be, and the system's own libraries take more of it than a
/// worker may have, so that the kernel refuses.
pub const ADDRESS_SPACE: Option<Resource> = None;
/// OPEN_MAX: the kernel refuses a larger limit, and calls its own hard limit infinite.
const MAX_OPEN_FILES: u64 = 10_240;

/// Lets this process hold as many descriptors as the system gives without more ado; the default is 256.
pub fn raise_open_files() {
    let limit = process::getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(MAX_OPEN_FILES, |most| most.min(MAX_OPEN_FILES));
    // A lower soft limit only means an earlier EMFILE, which the accept loop survives.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
}

/// The privileges that every process drops, whatever its role.
pub const PRIVILEGE_DROPS: &[GiveUp] =
    &[("macOS has no way to give up the powers of uid 0; the primary root needs another owner", refuse_root)];

fn refuse_root() -> Result<(), Errno> {
    if process::geteuid().is_root() { Err(Errno::NOTSUP) } else { Ok(()) }
}

/// Does nothing on macOS: a worker ends when its channel is closed. A worker that is stuck in a system call ends only after
/// that call.
pub fn die_with_parent() -> Result<(), Errno> {
    Ok(())
}

/// There is none.
pub fn drop_bounding_set() {}

/// Does nothing on macOS, where a nice value applies to the whole process.
pub fn lower_thread_priority() {}

/// Changes to another user for good, and drops supplementary groups. For root, `setuid` and `setgid` change all three ids in
/// all threads.
pub fn become_user(uid: u32, gid: u32) -> Result<(), Errno> {
    // SAFETY: the pointer is to one live gid, as the count says. (nix leaves this call out on macOS, where its effect
    // goes beyond POSIX: the directory service is no longer asked for the user's groups. Exactly what is wanted.)
    if unsafe { libc::setgroups(1, &raw const gid) } != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM));
    }
    nix::unistd::setgid(Gid::from_raw(gid))
        .and_then(|()| nix::unistd::setuid(Uid::from_raw(uid)))
        .map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// Uid 0, who can become every other user.
pub fn is_privileged() -> bool {
    process::geteuid().is_root()
}

/// Runs `act` with the rights of another user. New files belong to that user from the start, and to the group of the folder
/// that they are in, whatever `gid` says. No right is overridden.
pub fn with_file_owner<T>(uid: u32, gid: u32, _overrides: bool, act: impl FnOnce() -> T) -> Result<T, Errno> {
    let failed = |errno: nix::errno::Errno| Errno::from_raw_os_error(errno as i32);
    let before = (nix::unistd::geteuid(), nix::unistd::getegid());
    nix::unistd::setegid(Gid::from_raw(gid)).and_then(|()| nix::unistd::seteuid(Uid::from_raw(uid))).map_err(failed)?;
    let done = act();
    nix::unistd::seteuid(before.0).and_then(|()| nix::unistd::setegid(before.1)).map_err(failed)?;
    Ok(done)
}

/// Closes every descriptor from `first` on; a descriptor leaked by a shell must not reach a worker.
pub fn close_from(first: u32) -> Result<(), Errno> {
    let listed = rustix::fs::open("/dev/fd", OFlags::DIRECTORY | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    let mut open = Vec::new();
    for entry in rustix::fs::Dir::new(listed)? {
        open.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    for fd in open.into_iter().filter(|fd| *fd >= first) {
        // The list's own number is among them and closed already: an error that does no harm.
        // SAFETY: called first thing in `main`, before this process has opened anything that it owns.
        unsafe { libc::close(fd as i32) };
    }
    Ok(())
}
