//! Runs in the worker alone: files that have no name yet.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::sys::{
    Errno,
    fs::{OpenRules, open_with_mode},
};

pub fn create_unnamed(dir: BorrowedFd<'_>, mode: Mode, how: OpenRules) -> Result<OwnedFd, Errno> {
    open_with_mode(dir, b".", OFlags::TMPFILE | OFlags::RDWR, mode, how)
}

pub fn link_unnamed(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::linkat(file, c"", dir, name, AtFlags::EMPTY_PATH) {
        // KERNEL(6.10): older kernels allow this only with a capability. The magic link of the descriptor names the same
        // file.
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(rustix::fs::CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

pub fn sync(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsync(fd)
}

/// Fills the buffer with random bytes that other processes cannot guess.
pub fn fill_random(bytes: &mut [u8; 16]) -> Result<(), Errno> {
    // The kernel gives up to 256 bytes whole or not at all.
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())? {
        16 => Ok(()),
        _ => Err(Errno::IO),
    }
}
