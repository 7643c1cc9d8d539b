//! Runs in the worker alone: making a change last.

use std::os::fd::BorrowedFd;

use crate::sys::{Errno, posix::change};

pub use change::{create_unnamed, fill_with_chance, link_unnamed};

/// fsync leaves the content in the drive's own memory here; this call does not. Not every file system has it.
pub fn sync(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::fs::fcntl_fullfsync(fd) {
        Err(errno) if errno == Errno::NOTSUP || errno == Errno::INVAL || errno == Errno::NOTTY => change::sync(fd),
        other => other,
    }
}
