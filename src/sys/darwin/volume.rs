//! What the file system of a folder does with names and with access times.

use std::os::fd::BorrowedFd;

use crate::sys::Errno;

/// The file systems of macOS ignore case unless they were made otherwise, so a refusal would leave no root to serve.
/// SECURITY.md names what deny globs do not recognise here.
pub fn name_folding(_folder: BorrowedFd<'_>) -> Result<Option<&'static str>, Errno> {
    Ok(None)
}

/// Taken for granted: statvfs has no flag for it here.
pub fn records_access_times(_folder: BorrowedFd<'_>) -> bool {
    true
}
