//! What the process that started this one passed to it: descriptors, environment variables, signal settings. Read once, at
//! the start.

use std::{
    ffi::OsString,
    os::fd::{FromRawFd, OwnedFd},
};

pub(super) fn is_open(fd: i32) -> bool {
    // SAFETY: F_GETFD takes no pointer and changes nothing.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Takes over a descriptor that was open when this process began. `None` if it is not open. Close-on-exec from now on.
pub fn take_inherited(fd: i32) -> Option<OwnedFd> {
    // SAFETY: the descriptor is open, and nothing in this process owns it: callers run at the start, once for each number.
    let fd = is_open(fd).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(fd)
}

/// Takes an environment variable that was meant for this process alone, so that its children do not see it.
pub fn take_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    // SAFETY: only the start of the supervisor takes variables, before it has a second thread.
    unsafe { std::env::remove_var(name) };
    Some(value)
}
