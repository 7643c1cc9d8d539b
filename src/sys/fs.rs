//! Opening beneath a directory descriptor, and looking at what was opened. All safe; the calls are rustix's.

use std::{
    mem::MaybeUninit,
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{AtFlags, FileType, Mode, RawDir, ResolveFlags, SeekFrom, StatxFlags};

use super::Errno;

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
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    Beneath { walk, mounts }: Beneath,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if mounts == Mounts::Refuse {
        resolve |= ResolveFlags::NO_XDEV;
    }
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NOCTTY | OFlags::NONBLOCK;
    }
    if walk == Walk::ByHand {
        return open_name(dir, path, flags, mounts);
    }
    #[cfg(feature = "weakened")]
    if super::weakened::is_off(super::weakened::CHECKS) {
        // Links and `..` are followed to wherever they lead: Landlock must hold alone.
        resolve = ResolveFlags::empty();
        flags -= OFlags::NOFOLLOW;
    }
    for _ in 0..EAGAIN_RETRIES {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Only one name: with more of them plain openat would follow links before the last.
fn open_name(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags, mounts: Mounts) -> Result<OwnedFd, Errno> {
    if name == b".." || memchr::memchr(b'/', name).is_some() {
        return Err(Errno::LOOP);
    }
    let flags = flags | OFlags::NOFOLLOW;
    let fd = rustix::io::retry_on_intr(|| rustix::fs::openat(dir, name, flags, Mode::empty()))?;
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
        Ok(_) | Err(Errno::NOSYS) => stat(fd).map(|stat| stat.dev),
        Err(errno) => Err(errno),
    }
}

/// Where a link points; EINVAL for anything else.
pub fn read_link(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(dir, name, Vec::new()).map(std::ffi::CString::into_bytes)
}

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
}

impl Stat {
    pub fn is_same_file(&self, other: &Stat) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
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
