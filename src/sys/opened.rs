//! Opens files and folders for reading, stats them and reads them. Runs in the worker alone; the supervisor never reads content.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{FileType, OFlags, SeekFrom};

use super::{
    Errno,
    fs::{OpenRules, open_beneath},
    system::fs::KEEP_ATIME,
};

/// Value of `REFUSED_OWNER` that is no uid: those have 32 bits.
const NO_OWNER: u64 = u64::MAX;
/// Owner of the last file or folder that the kernel refused to open with O_NOATIME. A hint that saves system calls:
/// `open_to_read` returns an equivalent descriptor whatever the value is.
static REFUSED_OWNER: AtomicU64 = AtomicU64::new(NO_OWNER);

/// The kind of a directory entry. A link counts as a link, never as its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Dir,
    Symlink,
    Fifo,
    Socket,
    Device,
    /// Only for a directory entry whose file system does not report kinds.
    Unknown,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::Unknown => Self::Unknown,
        }
    }
}

/// The part of `struct stat` that we show or compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    pub dev: u64,
    pub ino: u64,
    pub kind: FileKind,
    /// The nine permission bits.
    pub mode: u32,
    pub nlink: u64,
    pub size_bytes: u64,
    /// Whole seconds since 1970, and the remainder in nanoseconds.
    pub mtime: i64,
    pub mtime_ns: u32,
    /// Like `mtime`, for the last change of anything, including names and modes.
    pub ctime: i64,
    pub ctime_ns: u32,
    pub uid: u32,
    pub gid: u32,
    /// The setgid bit, which on a folder means that new entries get its group.
    pub is_setgid: bool,
}

impl FileStat {
    /// Stat of a file that does not exist yet; device and inode are 0.
    pub fn planned(kind: FileKind, mode: u32, size_bytes: u64) -> Self {
        let (dev, ino, nlink, mtime, mtime_ns) = (0, 0, 1, 0, 0);
        let (ctime, ctime_ns, uid, gid, hands_group_down) = (0, 0, 0, 0, false);
        Self {
            dev,
            ino,
            kind,
            mode,
            nlink,
            size_bytes,
            mtime,
            mtime_ns,
            ctime,
            ctime_ns,
            uid,
            gid,
            is_setgid: hands_group_down,
        }
    }

    /// The kind, too: the number of a file that is gone may have been given to a FIFO. If it was given to another file
    /// in the same folder, the caller gets what has that name now.
    pub fn is_same_file(&self, other: &FileStat) -> bool {
        (self.dev, self.ino, self.kind) == (other.dev, other.ino, other.kind)
    }

    /// Whether the mode certainly lets this user read the file. Rights of a group do not count, because the user may not be
    /// in it.
    pub fn is_surely_readable_by(&self, uid: u32) -> bool {
        let needed = if uid == self.uid { 0o400 } else { 0o044 };
        self.mode & needed == needed
    }

    /// Whether both are the same file with the same content, as far as a stat can tell.
    pub fn is_same_content(&self, other: &FileStat) -> bool {
        let content = |stat: &FileStat| (stat.size_bytes, stat.mtime, stat.mtime_ns);
        self.is_same_file(other) && self.kind == other.kind && content(self) == content(other)
    }

    /// And nothing else about it has changed either.
    pub fn is_unchanged(&self, other: &FileStat) -> bool {
        self.is_same_content(other) && (self.ctime, self.ctime_ns) == (other.ctime, other.ctime_ns)
    }
}

/// Opens a file for its content. Never follows a link, never leaves `dir`.
pub fn open_to_read(dir: BorrowedFd<'_>, path: &[u8], how: OpenRules) -> Result<OwnedFd, Errno> {
    open_keeping_atime(dir, path, OFlags::RDONLY | OFlags::NOFOLLOW, how)
}

/// Opens a folder for its entries. Never follows a link, never leaves `dir`.
pub fn open_to_list(dir: BorrowedFd<'_>, path: &[u8], how: OpenRules) -> Result<OwnedFd, Errno> {
    open_keeping_atime(dir, path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY, how)
}

/// Opens with O_NOATIME if our user owns the file, so that reading does not change its access time. The kernel answers EPERM
/// for files of other users; those are opened without the flag.
///
/// Files in one folder mostly have one owner, so few files are opened twice: after a refusal the plain open comes first, and
/// the flag is tried again only if the file has another owner than the one that was refused.
fn open_keeping_atime(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, how: OpenRules) -> Result<OwnedFd, Errno> {
    let open = |flags| open_beneath(dir, path, flags, how);
    let owner = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|stat| u64::from(stat.st_uid));
    let refused = REFUSED_OWNER.load(Ordering::Relaxed);
    let mut plain = None;
    if refused != NO_OWNER {
        let fd = open(flags)?;
        if owner(&fd)? == refused {
            return Ok(fd);
        }
        plain = Some(fd);
    }
    match open(flags | KEEP_ATIME) {
        Err(Errno::PERM) => {
            let fd = plain.map_or_else(|| open(flags), Ok)?;
            REFUSED_OWNER.store(owner(&fd)?, Ordering::Relaxed);
            Ok(fd)
        }
        opened => {
            // Not stored at every open, because the other threads read the same cache line.
            if refused != NO_OWNER {
                REFUSED_OWNER.store(NO_OWNER, Ordering::Relaxed);
            }
            opened
        }
    }
}

/// fstat; works on O_PATH descriptors, links included.
pub fn stat(fd: impl AsFd) -> Result<FileStat, Errno> {
    rustix::fs::fstat(fd).map(FileStat::from)
}

impl From<rustix::fs::Stat> for FileStat {
    // The casts widen: field widths differ between systems, none is wider than ours.
    #[allow(clippy::unnecessary_cast)]
    fn from(raw: rustix::fs::Stat) -> Self {
        Self {
            dev: raw.st_dev as u64,
            ino: raw.st_ino as u64,
            kind: FileType::from_raw_mode(raw.st_mode).into(),
            mode: raw.st_mode as u32 & 0o777,
            nlink: raw.st_nlink as u64,
            size_bytes: u64::try_from(raw.st_size).unwrap_or(0),
            mtime: raw.st_mtime as i64,
            mtime_ns: raw.st_mtime_nsec as u32,
            ctime: raw.st_ctime as i64,
            ctime_ns: raw.st_ctime_nsec as u32,
            uid: raw.st_uid,
            gid: raw.st_gid,
            is_setgid: raw.st_mode as u32 & 0o2000 != 0,
        }
    }
}

/// pread: fills as much of `buffer` as one call gives; 0 = end of file.
pub fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    loop {
        match rustix::io::pread(&fd, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Back to the first entry.
pub fn rewind_dir(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::seek(fd, SeekFrom::Start(0)).map(drop)
}
