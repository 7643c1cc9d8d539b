//! Runs in the worker alone: looking at what was opened, and reading it. The supervisor never does either.

use std::{
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{FileType, RawDir, SeekFrom};

use super::{Errno, fs::Mounts};

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
    /// The kind, too: the number of a file that is gone may have been given to a FIFO. If it was given to another file
    /// in the same folder, the caller gets what has that name now.
    pub fn is_same_file(&self, other: &Stat) -> bool {
        (self.dev, self.ino, self.kind) == (other.dev, other.ino, other.kind)
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
    let raw = rustix::fs::fstat(fd)?;
    // The casts widen: field widths differ between architectures, none is wider than ours.
    #[allow(clippy::unnecessary_cast)]
    Ok(Stat {
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
    })
}

/// What one name in `dir` stands for, without opening it: a third of the calls that an open, an fstat and a close
/// would be. The numbers may be old on a network file system, which is not asked; whoever opens the name looks again.
#[cfg(target_os = "linux")]
pub fn look(dir: BorrowedFd<'_>, name: &[u8], mounts: Mounts) -> Result<Stat, Errno> {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
    if mounts == Mounts::Refuse && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(Errno::XDEV);
    }
    Ok(Stat {
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
        hands_group_down: found.stx_mode & 0o2000 != 0,
    })
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

/// getdents64 from where the descriptor stands, through `buffer`, until the end or until `visit` breaks.
/// `.` and `..` are left out.
pub fn read_dir<B>(
    fd: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut visit: impl FnMut(&[u8], Kind, u64) -> ControlFlow<B>,
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

/// Back to the first entry.
pub fn rewind_dir(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::seek(fd, SeekFrom::Start(0)).map(drop)
}
