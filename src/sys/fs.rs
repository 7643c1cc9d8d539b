//! Opening beneath a directory descriptor. All safe; the calls are rustix's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::Mode;

use super::{Errno, system};

pub use super::opened::{FileKind, FileStat, open_to_list, open_to_read, read_at, rewind_dir, stat};
pub(in crate::sys) use super::system::fs::open_with_mode;
pub use super::system::{
    entries::{read_dir, stat_entry, stat_name, stat_name_fresh},
    fs::{FOLDER_FLAGS, NameHandle, open_handle},
};
pub use rustix::fs::OFlags;

/// Whether a walk may pass a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    Refuse,
    Cross,
}

/// How a path below a folder is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolveMethod {
    /// By the kernel, in one openat2 call.
    Openat2,
    /// By this program, one name at a time, where the kernel has no openat2.
    Stepwise,
}

/// The rules of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRules {
    pub method: ResolveMethod,
    pub mounts: Mounts,
}

/// Never follows a link, never leaves `dir`. CLOEXEC, NOCTTY and NONBLOCK are always on.
pub fn open_beneath(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, how: OpenRules) -> Result<OwnedFd, Errno> {
    open_with_mode(dir, path, flags, Mode::empty(), how)
}

/// Only one name: with more of them plain openat would follow links before the last.
pub(in crate::sys) fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name == b".." || memchr::memchr(b'/', name).is_some() { Err(Errno::LOOP) } else { Ok(()) }
}

pub(in crate::sys) fn open_name(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
    mounts: Mounts,
) -> Result<OwnedFd, Errno> {
    check_name(name)?;
    let flags = flags | OFlags::NOFOLLOW;
    let fd = rustix::io::retry_on_intr(|| rustix::fs::openat(dir, name, flags, mode))?;
    if mounts == Mounts::Refuse && system::fs::mount_of(dir)? != system::fs::mount_of(fd.as_fd())? {
        return Err(Errno::XDEV);
    }
    Ok(fd)
}

/// The target of a symbolic link; EINVAL for anything else.
pub fn read_link(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(dir, name, Vec::new()).map(std::ffi::CString::into_bytes)
}
