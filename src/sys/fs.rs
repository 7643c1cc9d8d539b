//! Opening beneath a directory descriptor, and looking at what was opened. All safe; the calls are rustix's.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::Errno;

// Bounded: the kernel answers EAGAIN when a rename anywhere on the host meets the walk. Unbounded retry would let a
// local user stall us; 32 proved too low for others who met rename storms.
const EAGAIN_RETRIES: usize = 128;

/// Whether a walk may pass a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    Refuse,
    Cross,
}

/// openat2 with BENEATH, NO_SYMLINKS and NO_MAGICLINKS always on; CLOEXEC, NOCTTY and NONBLOCK as well.
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mounts: Mounts,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if mounts == Mounts::Refuse {
        resolve |= ResolveFlags::NO_XDEV;
    }
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NOCTTY | OFlags::NONBLOCK;
    }
    for _ in 0..EAGAIN_RETRIES {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}
