//! A folder, open for listing.

use std::{
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
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
/// Longest path of one open: PATH_MAX without its NUL.
const MAX_OPEN_BYTES: usize = 4095;

/// The descriptor to go on from, if not the folder's own, and what is left of the path.
type Above<'p> = std::result::Result<(Option<OwnedFd>, &'p [u8]), Errno>;

#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    sent: String,
    real: JailPath,
    how: Beneath,
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
    pub(super) fn new(fd: OwnedFd, sent: String, real: JailPath, how: Beneath) -> Self {
        Self { fd, sent, real, how }
    }

    /// A folder below this one; `path` are names that a walk has found, `sent` is what error texts call it.
    // By its whole path and not from a descriptor per level: a walk then holds two descriptors at any depth, and the
    // kernel checks every step at this moment, so that what was tested lexically is what is opened.
    pub fn open_dir(&self, path: &[u8], sent: String) -> Result<Dir> {
        let folder = OFlags::NOFOLLOW | OFlags::DIRECTORY;
        let opened = self.above(path, fs::FOLDER | folder).and_then(|(above, rest)| {
            let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            fs::open_beneath(from, rest, OFlags::RDONLY | folder, self.how)
        });
        match opened {
            Ok(fd) => {
                let names = path.split(|byte| *byte == b'/');
                let real = names.fold(self.real.clone(), |path, name| path.join(name));
                Ok(Self::new(fd, sent, real, self.how))
            }
            Err(errno) => Err(failed(&sent, errno)),
        }
    }

    /// Goes down until one call can open the rest of the path. Bounded: each step takes whole names off.
    fn above<'p>(&self, path: &'p [u8], flags: OFlags) -> Above<'p> {
        let (mut above, mut rest) = (None::<OwnedFd>, path);
        while let Some(slash) = self.step(rest)? {
            let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            above = Some(fs::open_beneath(from, &rest[..slash], flags, self.how)?);
            rest = &rest[slash + 1..];
        }
        Ok((above, rest))
    }

    /// Where the next step ends; None if no step is needed.
    fn step(&self, path: &[u8]) -> std::result::Result<Option<usize>, Errno> {
        match self.how.walk {
            Walk::ByHand => Ok(memchr::memchr(b'/', path)),
            Walk::Kernel if path.len() <= MAX_OPEN_BYTES => Ok(None),
            Walk::Kernel => {
                memchr::memrchr(b'/', &path[..MAX_OPEN_BYTES]).map(Some).ok_or(Errno::NAMETOOLONG)
            }
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn how(&self) -> Beneath {
        self.how
    }

    pub(super) fn sent(&self) -> &str {
        &self.sent
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
        // NOENT is what the kernel says about a folder that was removed after its open.
        let failed = |errno| failed(&self.sent, errno);
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
        let how = Beneath { mounts: Mounts::Refuse, ..self.how };
        match fs::hold(self.fd.as_fd(), name, how) {
            Ok(held) => held.stat().ok().map(Seen::Entry),
            Err(Errno::XDEV) => Some(Seen::MountPoint),
            Err(_) => None,
        }
    }
}

fn failed(sent: &str, errno: Errno) -> Error {
    match errno {
        Errno::NOENT => Error::not_found(sent),
        other => refusal::io(sent, other),
    }
}
