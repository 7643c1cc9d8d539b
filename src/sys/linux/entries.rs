//! Runs in the worker alone: the entries of a folder.

use std::{mem::MaybeUninit, ops::ControlFlow, os::fd::AsFd};

use rustix::fs::RawDir;

use crate::sys::{Errno, fs::Kind};

/// getdents64 from where the descriptor stands, through `buffer`, until the end or until `visit` breaks.
/// `.` and `..` are left out.
pub fn read_dir<B>(
    fd: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut visit: impl FnMut(&[u8], Kind, u64) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, Errno> {
    let mut entries = RawDir::new(fd, buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if let ControlFlow::Break(value) = visit(name, entry.file_type().into(), entry.ino()) {
            return Ok(ControlFlow::Break(value));
        }
    }
    Ok(ControlFlow::Continue(()))
}
