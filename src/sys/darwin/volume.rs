//! Like `linux/volume.rs`, for macOS: folding of names and access times of a file system.

use std::os::fd::BorrowedFd;

use crate::sys::Errno;

/// Never reports folding: macOS file systems ignore case by default, so a refusal would leave no root to serve.
/// SECURITY.md names what deny globs do not recognise here.
pub fn name_folding(_folder: BorrowedFd<'_>) -> Result<Option<&'static str>, Errno> {
    Ok(None)
}

/// Always true: statvfs has no flag for it on macOS.
pub fn records_access_times(_folder: BorrowedFd<'_>) -> bool {
    true
}
