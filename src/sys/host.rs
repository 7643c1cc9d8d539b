//! What the supervisor does with paths of the host, nearly all of it before it confines itself: its own program, its
//! socket's folder, the roots' descriptors; later, on reload, its policy and its audit beneath folders that it kept.
//! Nothing here ever sees a client's path.

use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::fs::{self, AtFlags, CWD, Mode, OFlags};

use super::{Errno, system::fs::FOLDER};

pub use super::system::program::{executable, open_program};

/// Who may do what with a file of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    pub uid: u32,
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Socket,
    Other,
}

impl From<fs::Stat> for Facts {
    // Some systems have narrower modes.
    #[allow(clippy::unnecessary_cast)]
    fn from(stat: fs::Stat) -> Self {
        let kind = match fs::FileType::from_raw_mode(stat.st_mode) {
            fs::FileType::RegularFile => Kind::File,
            fs::FileType::Directory => Kind::Directory,
            fs::FileType::Socket => Kind::Socket,
            _ => Kind::Other,
        };
        Self { kind, uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode as u32 & 0o7777 }
    }
}

pub fn facts(fd: impl AsFd) -> Result<Facts, Errno> {
    fs::fstat(fd).map(Facts::from)
}

/// Of the name itself, not of what a link points to.
pub fn facts_at(path: &Path) -> Result<Facts, Errno> {
    fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map(Facts::from)
}

/// Device and inode: what a name means at this moment.
pub fn identity(fd: impl AsFd) -> Result<(u64, u64), Errno> {
    fs::fstat(fd).map(|stat| numbers(&stat))
}

// Some systems have narrower devices.
#[allow(clippy::unnecessary_cast)]
fn numbers(stat: &fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino)
}

pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    fs::open(path, FOLDER | OFlags::CLOEXEC, Mode::empty())
}

/// A file of a folder that was opened before, for reading. Never waits.
pub fn open_beside(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    fs::openat(folder, name, flags, Mode::empty())
}

pub fn open_null() -> Result<OwnedFd, Errno> {
    fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// This process, or the whole machine, can open nothing more.
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// Held until dropped; EAGAIN while another process has it. Only those who ask for it are kept out.
pub fn lock_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let directory = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    fs::flock(&directory, fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

pub fn make_private_directory(path: &Path) -> Result<(), Errno> {
    fs::mkdir(path, Mode::RWXU)
}

pub fn remove(path: &Path) -> Result<(), Errno> {
    fs::unlink(path)
}

/// Gives a name we have just made to somebody; a mode beyond the default only together with its group.
pub fn hand_over(path: &Path, uid: u32, gid: u32, mode: u32) -> Result<(), Errno> {
    fs::chown(path, Some(fs::Uid::from_raw(uid)), Some(fs::Gid::from_raw(gid)))?;
    fs::chmod(path, Mode::from_raw_mode(mode as fs::RawMode))
}

/// Runs `make` with a umask that leaves the owner alone.
pub fn with_private_umask<T>(make: impl FnOnce() -> T) -> T {
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let made = make();
    rustix::process::umask(before);
    made
}

pub fn duplicate_stderr() -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3)
}

/// For appending, made with mode 0600 if it is not there; never a link, never waits (a FIFO without reader is an error).
/// And whether what is there ends in the middle of a line; one that cannot be read may.
pub fn open_log(folder: impl AsFd, name: &Path) -> Result<(OwnedFd, bool), Errno> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let append = flags | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let fd = fs::openat(&folder, name, append, Mode::RUSR | Mode::WUSR)?;
    let size = fs::fstat(&fd)?.st_size as u64;
    if size == 0 {
        return Ok((fd, false));
    }
    let mut end = [0];
    let content = fs::openat(&folder, name, flags | OFlags::RDONLY, Mode::empty());
    let read = content.and_then(|content| rustix::io::pread(content, &mut end, size - 1));
    Ok((fd, read.is_err() || end != *b"\n"))
}

/// Device and inode of a name in a folder, of a link itself.
pub fn identity_at(folder: impl AsFd, name: &Path) -> Result<(u64, u64), Errno> {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| numbers(&stat))
}

/// How much of `bytes` was taken; EAGAIN if the other end takes nothing for so long. Up to 4096 bytes a pipe takes whole.
pub fn append(to: impl AsFd, bytes: &[u8], patience: std::time::Duration) -> Result<usize, Errno> {
    let mut ready = [rustix::event::PollFd::new(&to, rustix::event::PollFlags::OUT)];
    let patience = rustix::event::Timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: patience.subsec_nanos().into(),
    };
    match rustix::event::poll(&mut ready, Some(&patience))? {
        0 => Err(Errno::AGAIN),
        _ => rustix::io::write(to, bytes),
    }
}

/// Descriptor 0 becomes `/dev/null`.
pub fn replace_stdin_with_null() -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(open_null()?)
}
