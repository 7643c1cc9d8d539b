//! Opening beneath a directory descriptor. All safe; the calls are rustix's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, ResolveFlags, StatxFlags};

use super::Errno;

pub use super::opened::{Kind, Stat, look, read_at, read_dir, rewind_dir, stat};
pub use rustix::fs::OFlags;

// Bounded: the kernel answers EAGAIN when a rename anywhere on the host meets the walk. Unbounded retry would let a
// local user stall us; 32 proved too low for others who met rename storms.
const EAGAIN_RETRIES: usize = 128;

/// Whether a walk may pass a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    Refuse,
    Cross,
}

/// Who refuses links and mount points on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// The kernel, in one openat2 call.
    Kernel,
    /// We, one name at a time: where there is no openat2.
    ByHand,
}

/// The rules of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beneath {
    pub walk: Walk,
    pub mounts: Mounts,
}

/// Never follows a link, never leaves `dir`. CLOEXEC, NOCTTY and NONBLOCK are always on.
pub fn open_beneath(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, how: Beneath) -> Result<OwnedFd, Errno> {
    open_with_mode(dir, path, flags, 0, how)
}

/// The same for a file that is made by the open. `mode` is exact: the worker has no umask.
pub(super) fn open_with_mode(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: u32,
    Beneath { walk, mounts }: Beneath,
) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(mode);
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
    if super::weakened::is_off(super::weakened::CHECKS) {
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

/// Only one name: with more of them plain openat would follow links before the last.
fn open_name(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
    mounts: Mounts,
) -> Result<OwnedFd, Errno> {
    if name == b".." || memchr::memchr(b'/', name).is_some() {
        return Err(Errno::LOOP);
    }
    let flags = flags | OFlags::NOFOLLOW;
    let fd = rustix::io::retry_on_intr(|| rustix::fs::openat(dir, name, flags, mode))?;
    if mounts == Mounts::Refuse && mount_of(dir)? != mount_of(fd.as_fd())? {
        return Err(Errno::XDEV);
    }
    Ok(fd)
}

/// Equal for two descriptors of one mount. The device is the second choice: bind mounts share it.
fn mount_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // Without asking the file system: a dead network or FUSE mount would never answer.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    match rustix::fs::statx(fd, c"", flags, StatxFlags::MNT_ID) {
        // KERNEL(5.8): older ones do not tell the mount.
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Ok(found.stx_mnt_id),
        Ok(_) | Err(Errno::NOSYS) => Ok(rustix::fs::fstat(fd)?.st_dev),
        Err(errno) => Err(errno),
    }
}

/// Where a link points; EINVAL for anything else.
pub fn read_link(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(dir, name, Vec::new()).map(std::ffi::CString::into_bytes)
}
