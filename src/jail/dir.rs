//! A folder, open for listing.

use std::{
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd, OwnedFd},
};

use super::{Call, refusal};
use crate::{
    path::JailPath,
    sys::{
        Errno,
        fs::{self, Beneath, Kind, Mounts, OFlags, Stat, Walk},
    },
    wire::{Error, Result},
};

/// Bytes of directory entries fetched at a time: about a thousand names.
const BUFFER_BYTES: usize = 32 * 1024;
/// Entries between two looks at the deadline.
const CHECK_EVERY: u32 = 1024;

#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    sent: String,
    real: JailPath,
    walk: Walk,
}

/// An entry as the directory itself tells it: nothing has been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'a> {
    pub name: &'a [u8],
    pub kind: Kind,
    pub ino: u64,
}

/// What a look at an entry found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Entry(Stat),
    /// Something is mounted here. Not stat-ed: a dead network or FUSE mount would hang the call.
    MountPoint,
}

impl Dir {
    pub(super) fn new(fd: OwnedFd, sent: String, real: JailPath, walk: Walk) -> Self {
        Self { fd, sent, real, walk }
    }

    /// Where the folder really is, once links were followed: what its entries are denied by.
    pub fn path(&self) -> &JailPath {
        &self.real
    }

    /// Visits every entry from the first on, in directory order, until `visit` breaks.
    pub fn for_each(
        &self,
        call: &Call,
        mut visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let failed = |errno| match errno {
            // What the kernel says about a folder that was removed after its open.
            Errno::NOENT => Error::not_found(&self.sent),
            other => refusal::io(&self.sent, other),
        };
        fs::rewind_dir(&self.fd).map_err(failed)?;
        let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER_BYTES);
        let buffer: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
        let mut seen = 0u32;
        let end: ControlFlow<Option<Error>> = fs::read_dir(&self.fd, buffer, |name, kind, ino| {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(CHECK_EVERY)
                && let Err(error) = call.checkpoint()
            {
                return ControlFlow::Break(Some(error));
            }
            match visit(DirEntry { name, kind, ino }) {
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
                ControlFlow::Break(()) => ControlFlow::Break(None),
            }
        })
        .map_err(failed)?;
        match end {
            ControlFlow::Break(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Looks at one entry, links as themselves. None when it has gone or may not be looked at.
    pub fn stat_entry(&self, name: &[u8]) -> Option<Seen> {
        // Mounts are refused whatever the root's rule: this is how they are found.
        let how = Beneath { walk: self.walk, mounts: Mounts::Refuse };
        match fs::open_beneath(self.fd.as_fd(), name, OFlags::PATH | OFlags::NOFOLLOW, how) {
            Ok(fd) => fs::stat(&fd).ok().map(Seen::Entry),
            Err(Errno::XDEV) => Some(Seen::MountPoint),
            Err(_) => None,
        }
    }
}
