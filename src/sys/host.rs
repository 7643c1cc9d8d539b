//! What the supervisor does with paths of the host, all of it before it confines itself: its own program, its socket's
//! folder, the roots' descriptors. Nothing here ever sees a client's path.

use std::{
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
#[allow(clippy::unnecessary_cast)]
pub fn identity(fd: impl AsFd) -> Result<(u64, u64), Errno> {
    fs::fstat(fd).map(|stat| (stat.st_dev as u64, stat.st_ino))
}

pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    fs::open(path, FOLDER | OFlags::CLOEXEC, Mode::empty())
}

pub fn open_null() -> Result<OwnedFd, Errno> {
    fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// This process, or the whole machine, can open nothing more.
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
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

/// For appending, made with mode 0600 if it is not there; never waits (a FIFO without reader is an error).
pub fn open_log(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::RUSR | Mode::WUSR)
}

/// One record, whole; false if the other end does not take it now. A terminal or a journal takes short lines whole.
pub fn append(to: impl AsFd, line: &[u8]) -> bool {
    let mut ready = [rustix::event::PollFd::new(&to, rustix::event::PollFlags::OUT)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let writable = matches!(rustix::event::poll(&mut ready, Some(&now)), Ok(1));
    writable && rustix::io::write(to, line) == Ok(line.len())
}

/// Descriptor 0 becomes `/dev/null`.
pub fn replace_stdin_with_null() -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(open_null()?)
}
