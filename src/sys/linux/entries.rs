//! Runs in the worker alone: the entries of a folder.

use std::{
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{AtFlags, FileType, RawDir, StatxAttributes, StatxFlags};

use crate::sys::{
    Errno,
    fs::{FileKind, FileStat, Mounts},
};

/// Statx of one name in `dir`. It costs a third of an open, an fstat and a close. On a network file system the numbers may be
/// old, because the server is not asked; a caller that opens the name examines it again.
pub fn stat_name(dir: BorrowedFd<'_>, name: &[u8], mounts: Mounts) -> Result<FileStat, Errno> {
    stat_with(dir, name, mounts, AtFlags::STATX_DONT_SYNC)
}

/// Like `stat_name`, but asks the server of a network file system for the current state.
pub fn stat_name_fresh(dir: BorrowedFd<'_>, name: &[u8], mounts: Mounts) -> Result<FileStat, Errno> {
    stat_with(dir, name, mounts, AtFlags::empty())
}

/// Like `stat_name`, for an entry of a listing. XDEV if the entry is a mount point: its file system may be dead, so the call
/// must not ask that file system. A local file system answers without asking anyone, except for one whose driver is a program
/// (ntfs-3g), where the numbers may be old.
pub fn stat_entry(dir: BorrowedFd<'_>, name: &[u8]) -> Result<FileStat, Errno> {
    let seen = stat_name(dir, name, Mounts::Refuse)?;
    let is_on_disk = rustix::fs::major(seen.dev) != 0;
    if is_on_disk { Ok(seen) } else { stat_name_fresh(dir, name, Mounts::Refuse) }
}

fn stat_with(dir: BorrowedFd<'_>, name: &[u8], mounts: Mounts, sync: AtFlags) -> Result<FileStat, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | sync;
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
    if mounts == Mounts::Refuse && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(Errno::XDEV);
    }
    Ok(FileStat {
        dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        ino: found.stx_ino,
        kind: FileType::from_raw_mode(found.stx_mode.into()).into(),
        mode: u32::from(found.stx_mode) & 0o777,
        nlink: found.stx_nlink.into(),
        size_bytes: found.stx_size,
        mtime: found.stx_mtime.tv_sec,
        mtime_ns: found.stx_mtime.tv_nsec,
        ctime: found.stx_ctime.tv_sec,
        ctime_ns: found.stx_ctime.tv_nsec,
        uid: found.stx_uid,
        gid: found.stx_gid,
        is_setgid: found.stx_mode & 0o2000 != 0,
    })
}

/// getdents64 from where the descriptor stands, through `buffer`, until the end or until `visit` breaks.
/// `.` and `..` are left out.
pub fn read_dir<B>(
    fd: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut visit: impl FnMut(&[u8], FileKind, u64) -> ControlFlow<B>,
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
