//! Runs in the worker: lists an open folder, and opens entries of it for a walk.
//! Does not trust names or kinds that a listing returned: an entry can have changed since. Never follows a link, and never opens
//! anything but regular files and folders.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    super::{Call, Clock, HaltReason, Jail},
    JailFile, refusal,
};
use crate::{
    path::{Hardlinks, JailPath},
    sys::{
        Errno,
        fs::{self, FileKind, FileStat, Mounts, OFlags, OpenRules, ResolveMethod},
    },
    wire::{Error, Result},
};

/// Bytes of directory entries fetched at a time: about a thousand names.
const BUFFER_BYTES: usize = 32 * 1024;
/// Entries between two checks of the deadline.
const CHECK_EVERY: u32 = 1024;
/// Longest path of one open: PATH_MAX without its NUL.
const MAX_OPEN_BYTES: usize = 4095;

/// The descriptor of the folder that the rest of the path starts from, if it is not the folder itself; and that rest.
type FolderAndRest<'p> = std::result::Result<(Option<OwnedFd>, &'p [u8]), Errno>;

/// Why a walk does not read an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOpenError {
    /// The entry was removed, or became a link or a folder, since it was listed.
    Changed,
    Unreadable,
    /// The entry is a FIFO, socket or device, or something is mounted there.
    Special,
}

impl From<Errno> for EntryOpenError {
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
    real_path: JailPath,
    open_rules: OpenRules,
}

/// An entry as getdents returns it, without a stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'a> {
    pub name: &'a [u8],
    pub kind: FileKind,
    pub ino: u64,
}

/// The result of a stat of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryStat {
    Entry(FileStat),
    /// Something is mounted here. Not stat-ed: a dead network or FUSE mount would hang the call.
    MountPoint,
}

impl Dir {
    pub(in crate::jail) fn new(fd: OwnedFd, sent: String, real: JailPath, how: OpenRules) -> Self {
        Self { fd, sent, real_path: real, open_rules: how }
    }

    /// Opens a folder below this one. `path` consists of names that a walk has found; error texts call the folder `sent`.
    pub fn open_dir(&self, path: &[u8], sent: String) -> Result<Dir> {
        match self.open_below(path) {
            Ok(dir) => Ok(Self { sent, ..dir }),
            Err(errno) => Err(folder_list_error(&sent, errno)),
        }
    }

    /// Like `open_dir`, but returns the errno.
    // By its whole path and not from a descriptor per level: a walk then holds few descriptors at any depth, and the
    // kernel checks every step at this moment, so that what was tested lexically is what is opened.
    pub(in crate::jail) fn open_below(&self, path: &[u8]) -> std::result::Result<Dir, Errno> {
        let (above, rest) = self.open_above(path, fs::FOLDER_FLAGS | OFlags::NOFOLLOW)?;
        let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        let fd = fs::open_to_list(from, rest, self.open_rules)?;
        Ok(Self::new(fd, String::new(), self.real_path.join(path), self.open_rules))
    }

    /// Opens this folder again; the new descriptor reads from the first entry.
    pub(in crate::jail) fn open_again(&self) -> std::result::Result<Dir, Errno> {
        let fd = fs::open_to_list(self.fd.as_fd(), b".", self.open_rules)?;
        Ok(Self::new(fd, String::new(), self.real_path.clone(), self.open_rules))
    }

    /// Opens a regular file of this folder for a walk. Examines the descriptor after the open, because the name can have been given
    /// to something else since it was listed, and only regular files are read. The open does not block on a FIFO.
    fn open_file(&self, name: &[u8], hardlinks: Hardlinks) -> std::result::Result<JailFile, EntryOpenError> {
        let fd = fs::open_to_read(self.fd.as_fd(), name, self.open_rules)?;
        let stat = fs::stat(&fd)?;
        match stat.kind {
            FileKind::File if hardlinks == Hardlinks::Refuse && stat.nlink > 1 => Err(EntryOpenError::Unreadable),
            // The file has no name for error texts, because a walk only counts what it cannot read.
            FileKind::File => Ok(JailFile::new(fd, stat, String::new())),
            _ => Err(EntryOpenError::Special),
        }
    }

    /// Opens folders on the way until the rest of the path is short enough for one call. Bounded, because each step removes whole
    /// names.
    fn open_above<'p>(&self, path: &'p [u8], flags: OFlags) -> FolderAndRest<'p> {
        let (mut above, mut rest) = (None::<OwnedFd>, path);
        while let Some(slash) = self.step_len(rest)? {
            let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            above = Some(fs::open_beneath(from, &rest[..slash], flags, self.open_rules)?);
            rest = &rest[slash + 1..];
        }
        Ok((above, rest))
    }

    /// The length of the next step of `open_above`; None if the rest fits into one call.
    fn step_len(&self, path: &[u8]) -> std::result::Result<Option<usize>, Errno> {
        match self.open_rules.method {
            ResolveMethod::Stepwise => Ok(memchr::memchr(b'/', path)),
            ResolveMethod::Openat2 if path.len() <= MAX_OPEN_BYTES => Ok(None),
            ResolveMethod::Openat2 => {
                memchr::memrchr(b'/', &path[..MAX_OPEN_BYTES]).map(Some).ok_or(Errno::NAMETOOLONG)
            }
        }
    }

    pub(in crate::jail) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(in crate::jail) fn open_rules(&self) -> OpenRules {
        self.open_rules
    }

    /// The error about this folder or one below it, for a caller who named it `sent`.
    pub(in crate::jail) fn list_error(&self, errno: Errno) -> Error {
        folder_list_error(&self.sent, errno)
    }

    /// The real path of the folder, by which its entries are denied.
    pub fn path(&self) -> &JailPath {
        &self.real_path
    }

    /// Visits every entry from the first on, in directory order, until `visit` breaks.
    pub fn for_each(&self, call: &Call, visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>) -> Result<()> {
        // The kernel returns ENOENT for a folder that was removed after its open.
        let failed = |errno| self.list_error(errno);
        self.rewind().map_err(failed)?;
        let read = self.read_entries(call.clock(), &mut Vec::new(), visit).map_err(failed)?;
        read.map_err(|halt| call.clock().error(halt))
    }

    /// Sets the descriptor back to the first entry.
    pub(in crate::jail) fn rewind(&self) -> std::result::Result<(), Errno> {
        fs::rewind_dir(&self.fd)
    }

    /// Reads on from the offset of the descriptor; a walk opens a folder and reads it once. `buffer` can be used again.
    pub(in crate::jail) fn read_entries(
        &self,
        clock: &Clock,
        buffer: &mut Vec<u8>,
        mut visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> std::result::Result<std::result::Result<(), HaltReason>, Errno> {
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

    /// Stats one entry without following links. None if it is gone or may not be examined.
    pub fn stat_entry(&self, name: &[u8]) -> Option<EntryStat> {
        self.stat_below(name)
    }

    /// Like `stat_entry`, for a path of names that a walk has found.
    pub fn stat_below(&self, path: &[u8]) -> Option<EntryStat> {
        let folder = fs::FOLDER_FLAGS | OFlags::NOFOLLOW;
        let (mut above, mut rest) = self.open_above(path, folder).ok()?;
        if self.open_rules.mounts == Mounts::Cross
            && let Some(slash) = memchr::memrchr(b'/', rest)
        {
            // Folders on the way are opened under the root's rules; only the last name is tested for a mount point.
            let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            above = Some(fs::open_beneath(from, &rest[..slash], folder, self.open_rules).ok()?);
            rest = &rest[slash + 1..];
        }
        let from = above.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        // This open refuses mount points whatever the root's rule is, because that is how they are detected.
        let seen = match memchr::memchr(b'/', rest) {
            // A single name cannot cross a mount point on the way, so one call is enough instead of three.
            None => fs::stat_entry(from, rest),
            Some(_) => fs::open_handle(from, rest, OpenRules { mounts: Mounts::Refuse, ..self.open_rules })
                .and_then(|held| held.stat()),
        };
        match seen {
            Ok(stat) => Some(EntryStat::Entry(stat)),
            Err(Errno::XDEV) => Some(EntryStat::MountPoint),
            Err(_) => None,
        }
    }
}

impl Jail {
    /// Opens a regular file of a folder for a walk, under the rules of the innermost root that holds the folder.
    pub fn open_file(&self, dir: &Dir, name: &[u8]) -> std::result::Result<JailFile, EntryOpenError> {
        dir.open_file(name, self.roots.rules(dir.path()).hardlinks)
    }

    /// Opens a folder below `top`. `below` consists of names that a walk has found. Where an inner root lies on the way, its rules
    /// hold from there on.
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
            inner = Some(Dir { open_rules: self.open_rules(dir.path()), ..dir });
            from = end + 1;
        }
        match (inner, path.rel().get(from..)) {
            (None, _) => top.open_below(below),
            (Some(inner), None) => Ok(inner),
            (Some(inner), Some(rest)) => inner.open_below(rest),
        }
    }
}

/// The error about a folder that cannot be opened or read, for a caller who named it `sent`.
pub fn folder_list_error(sent: &str, errno: Errno) -> Error {
    match errno {
        Errno::NOENT => Error::not_found(sent),
        other => refusal::io(sent, other),
    }
}
