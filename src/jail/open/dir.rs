//! A folder, open for listing.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    super::{Call, Clock, Halt, Jail},
    File, refusal,
};
use crate::{
    path::{Hardlinks, JailPath},
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

/// Why a walk does not read what it met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unopened {
    /// It has gone, or become a link or a folder, since it was listed.
    Changed,
    Unreadable,
    /// FIFO, socket, device, or something is mounted there.
    Special,
}

impl From<Errno> for Unopened {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR => Self::Changed,
            Errno::XDEV | Errno::NXIO => Self::Special,
            _ => Self::Unreadable,
        }
    }
}

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
    pub(in crate::jail) fn new(fd: OwnedFd, sent: String, real: JailPath, how: Beneath) -> Self {
        Self { fd, sent, real, how }
    }

    /// A folder below this one; `path` are names that a walk has found, `sent` is what error texts call it.
    pub fn open_dir(&self, path: &[u8], sent: String) -> Result<Dir> {
        match self.open_below(path) {
            Ok(dir) => Ok(Self { sent, ..dir }),
            Err(errno) => Err(unlisted(&sent, errno)),
        }
    }

    /// Like `open_dir`, but returns the errno.
    // By its whole path and not from a descriptor per level: a walk then holds few descriptors at any depth, and the
    // kernel checks every step at this moment, so that what was tested lexically is what is opened.
    pub(in crate::jail) fn open_below(&self, path: &[u8]) -> std::result::Result<Dir, Errno> {
        let (above, rest) = self.above(path, fs::FOLDER | OFlags::NOFOLLOW)?;
        let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        let fd = fs::open_to_list(from, rest, self.how)?;
        Ok(Self::new(fd, String::new(), self.real.join(path), self.how))
    }

    /// This folder again, from its first entry on.
    pub(in crate::jail) fn open_again(&self) -> std::result::Result<Dir, Errno> {
        let fd = fs::open_to_list(self.fd.as_fd(), b".", self.how)?;
        Ok(Self::new(fd, String::new(), self.real.clone(), self.how))
    }

    /// A regular file of this folder, as a walk met it. One look more than the open itself: a name can have changed hands
    /// since it was listed, and nothing but a regular file is ever read. The open does not wait for a FIFO.
    fn open_file(&self, name: &[u8], hardlinks: Hardlinks) -> std::result::Result<File, Unopened> {
        let fd = fs::open_to_read(self.fd.as_fd(), name, self.how)?;
        let stat = fs::stat(&fd)?;
        match stat.kind {
            Kind::File if hardlinks == Hardlinks::Refuse && stat.nlink > 1 => Err(Unopened::Unreadable),
            // Without a name for error texts: a walk counts what it cannot read.
            Kind::File => Ok(File::new(fd, stat, String::new())),
            _ => Err(Unopened::Special),
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

    pub(in crate::jail) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(in crate::jail) fn how(&self) -> Beneath {
        self.how
    }

    /// What a caller who knows this folder as `sent` is told about it or a folder below it.
    pub(in crate::jail) fn failed(&self, errno: Errno) -> Error {
        unlisted(&self.sent, errno)
    }

    /// Where the folder really is, once links were followed: what its entries are denied by.
    pub fn path(&self) -> &JailPath {
        &self.real
    }

    /// Visits every entry from the first on, in directory order, until `visit` breaks.
    pub fn for_each(&self, call: &Call, visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>) -> Result<()> {
        // NOENT is what the kernel says about a folder that was removed after its open.
        let failed = |errno| self.failed(errno);
        self.rewind().map_err(failed)?;
        let read = self.read_entries(call.clock(), &mut Vec::new(), visit).map_err(failed)?;
        read.map_err(|halt| call.clock().error(halt))
    }

    /// The next reading begins with the first entry.
    pub(in crate::jail) fn rewind(&self) -> std::result::Result<(), Errno> {
        fs::rewind_dir(&self.fd)
    }

    /// From where the descriptor stands; a walk opens a folder and reads it once. `buffer` is room that can be used again.
    pub(in crate::jail) fn read_entries(
        &self,
        clock: &Clock,
        buffer: &mut Vec<u8>,
        mut visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> std::result::Result<std::result::Result<(), Halt>, Errno> {
        buffer.clear();
        buffer.reserve(BUFFER_BYTES);
        let mut seen = 0u32;
        let end = fs::read_dir(&self.fd, buffer.spare_capacity_mut(), |name, kind, ino| {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(CHECK_EVERY)
                && let Err(halt) = clock.check()
            {
                return ControlFlow::Break(Some(halt));
            }
            visit(DirEntry { name, kind, ino }).map_break(|()| None)
        })?;
        Ok(end.break_value().flatten().map_or(Ok(()), Err))
    }

    /// Looks at one entry, links as themselves. None when it has gone or may not be looked at.
    pub fn stat_entry(&self, name: &[u8]) -> Option<Seen> {
        self.stat_below(name)
    }

    /// The same for what lies deeper: names that a walk has found.
    pub fn stat_below(&self, path: &[u8]) -> Option<Seen> {
        let folder = fs::FOLDER | OFlags::NOFOLLOW;
        let (mut above, mut rest) = self.above(path, folder).ok()?;
        if self.how.mounts == Mounts::Cross
            && let Some(slash) = memchr::memrchr(b'/', rest)
        {
            // Only the last name may be a mount point that is to be found.
            let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            above = Some(fs::open_beneath(from, &rest[..slash], folder, self.how).ok()?);
            rest = &rest[slash + 1..];
        }
        let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        // Mounts are refused whatever the root's rule: this is how they are found.
        let seen = match memchr::memchr(b'/', rest) {
            // A name alone leads nowhere, and costs one call instead of three.
            None => fs::look_at_entry(from, rest),
            Some(_) => fs::hold(from, rest, Beneath { mounts: Mounts::Refuse, ..self.how })
                .and_then(|held| held.stat()),
        };
        match seen {
            Ok(stat) => Some(Seen::Entry(stat)),
            Err(Errno::XDEV) => Some(Seen::MountPoint),
            Err(_) => None,
        }
    }
}

impl Jail {
    /// A regular file of a folder, as a walk met it, under the rules of the innermost root that holds the folder.
    pub fn open_file(&self, dir: &Dir, name: &[u8]) -> std::result::Result<File, Unopened> {
        dir.open_file(name, self.roots.rules(dir.path()).hardlinks)
    }

    /// A folder below `top`; `below` are names that a walk has found. Where an inner root lies on the way, its rules hold
    /// from there on.
    pub(in crate::jail) fn open_below(&self, top: &Dir, below: &[u8]) -> std::result::Result<Dir, Errno> {
        if !self.roots.is_nested() {
            return top.open_below(below);
        }
        let path = top.path().join(below);
        let start = path.rel().len() - below.len();
        let (mut from, mut inner) = (start, None::<Dir>);
        for end in self.roots.inner_roots(&path).into_iter().filter(|end| *end > start) {
            let outer = inner.as_ref().unwrap_or(top);
            let dir = outer.open_below(&path.rel()[from..end])?;
            inner = Some(Dir { how: self.how(dir.path()), ..dir });
            from = end + 1;
        }
        match (inner, path.rel().get(from..)) {
            (None, _) => top.open_below(below),
            (Some(inner), None) => Ok(inner),
            (Some(inner), Some(rest)) => inner.open_below(rest),
        }
    }
}

/// For a caller who knows a folder as `sent` that cannot be opened or read.
pub fn unlisted(sent: &str, errno: Errno) -> Error {
    match errno {
        Errno::NOENT => Error::not_found(sent),
        other => refusal::io(sent, other),
    }
}
