//! Runs in the worker alone: looking at what was opened, and reading it. The supervisor never does either.

use std::os::fd::AsFd;

use rustix::fs::{FileType, SeekFrom};

use super::Errno;

/// What a name stands for; never what a link points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    Symlink,
    Fifo,
    Socket,
    Device,
    /// Only from a directory entry whose file system does not say.
    Unknown,
}

impl From<FileType> for Kind {
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
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub kind: Kind,
    /// The nine permission bits.
    pub mode: u32,
    pub nlink: u64,
    pub size_bytes: u64,
    /// Whole seconds since 1970, and the remainder in nanoseconds.
    pub mtime: i64,
    pub mtime_ns: u32,
    /// The same for the last change of anything, names and modes included.
    pub ctime: i64,
    pub ctime_ns: u32,
    pub uid: u32,
    pub gid: u32,
    /// The setgid bit, which on a folder means that new entries get its group.
    pub hands_group_down: bool,
}

impl Stat {
    /// Stat of a file that does not exist yet; device and inode are 0.
    pub fn planned(kind: Kind, mode: u32, size_bytes: u64) -> Self {
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
            hands_group_down,
        }
    }

    /// The kind, too: the number of a file that is gone may have been given to a FIFO. If it was given to another file
    /// in the same folder, the caller gets what has that name now.
    pub fn is_same_file(&self, other: &Stat) -> bool {
        (self.dev, self.ino, self.kind) == (other.dev, other.ino, other.kind)
    }

    /// Whether the mode lets this user read it for certain. What a group alone may says nothing: we may not be in it.
    pub fn is_surely_readable_by(&self, uid: u32) -> bool {
        let needed = if uid == self.uid { 0o400 } else { 0o044 };
        self.mode & needed == needed
    }

    /// The same file with the same content, as far as can be told without reading it.
    pub fn is_same_content(&self, other: &Stat) -> bool {
        let content = |stat: &Stat| (stat.size_bytes, stat.mtime, stat.mtime_ns);
        self.is_same_file(other) && self.kind == other.kind && content(self) == content(other)
    }

    /// And nothing else about it has changed either.
    pub fn is_unchanged(&self, other: &Stat) -> bool {
        self.is_same_content(other) && (self.ctime, self.ctime_ns) == (other.ctime, other.ctime_ns)
    }
}

/// fstat; works on O_PATH descriptors, links included.
pub fn stat(fd: impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::fstat(fd).map(Stat::from)
}

impl From<rustix::fs::Stat> for Stat {
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
            hands_group_down: raw.st_mode as u32 & 0o2000 != 0,
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
