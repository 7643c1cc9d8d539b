//! What the supervisor does with paths of the host: its own program, the folder of its socket, the descriptors of the roots,
//! and on reload the policy and the audit, which lie in folders that it keeps open. Nearly all of it runs before the
//! supervisor confines itself. Never sees a path of a client.

use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::fs::{self, AtFlags, Mode, OFlags};

use super::{
    Errno,
    system::fs::{FOLDER_FLAGS, KEEP_ATIME},
};

pub use super::system::{
    fs::has_acl,
    program::{executable, open_program},
    volume::{name_folding, records_access_times},
};

pub use rustix::fs::FileType as HostFileKind;

/// Whether this system lets the owner of a file read it without changing its access time.
pub const OWNER_KEEPS_ATIME: bool = !KEEP_ATIME.is_empty();

const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Kind, owner, group, mode and identity of a host file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    pub kind: HostFileKind,
    pub uid: u32,
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Device and inode.
    pub id: (u64, u64),
}

impl From<fs::Stat> for FileFacts {
    // Some systems have narrower modes and devices.
    #[allow(clippy::unnecessary_cast)]
    fn from(stat: fs::Stat) -> Self {
        let kind = fs::FileType::from_raw_mode(stat.st_mode);
        let mode = stat.st_mode as u32 & 0o7777;
        Self { kind, uid: stat.st_uid, gid: stat.st_gid, mode, id: (stat.st_dev as u64, stat.st_ino) }
    }
}

pub fn facts(fd: impl AsFd) -> Result<FileFacts, Errno> {
    fs::fstat(fd).map(FileFacts::from)
}

/// Facts about the name itself: a link is not followed.
pub fn facts_at(folder: impl AsFd, name: &OsStr) -> Result<FileFacts, Errno> {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(FileFacts::from)
}

/// Device and inode: what a name means at this moment.
pub fn identity(fd: impl AsFd) -> Result<(u64, u64), Errno> {
    facts(fd).map(|facts| facts.id)
}

pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    fs::open(path, FOLDER_FLAGS | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a file for reading and never blocks. Follows a link: only for a confined supervisor.
pub fn open_beside(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    fs::openat(folder, name, READ, Mode::empty())
}

/// Like `open_beside`, but refuses a link.
pub fn open_file(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    fs::openat(folder, name, READ | OFlags::NOFOLLOW, Mode::empty())
}

pub fn open_null() -> Result<OwnedFd, Errno> {
    fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// This process, or the whole machine, can open nothing more.
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// At most `most` names of a folder, in no order.
pub fn names(folder: impl AsFd, most: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let entries = open_to_list(folder, Path::new("."))?;
    entries.take(most).map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec())).collect()
}

/// Lists with O_NOATIME if our user owns the folder, and without it otherwise (EPERM).
pub(super) fn open_to_list(folder: impl AsFd, path: &Path) -> Result<fs::Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| fs::openat(&folder, path, flags, Mode::empty());
    match open(flags | KEEP_ATIME) {
        Err(Errno::PERM) => open(flags),
        opened => opened,
    }
    .and_then(fs::Dir::new)
}

/// Locks a folder until the result is dropped; EAGAIN while another process has the lock. Excludes only processes that
/// ask for the lock.
pub fn lock_directory(folder: impl AsFd) -> Result<OwnedFd, Errno> {
    let directory = open_to_lock(folder)?;
    lock(&directory, FolderLock::Exclusive)?;
    Ok(directory)
}

/// The lock of a folder's descriptor after `lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderLock {
    Shared,
    Exclusive,
    None,
}

/// Opens another descriptor of an open folder, for `lock`.
pub fn open_to_lock(folder: impl AsFd) -> Result<OwnedFd, Errno> {
    fs::openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Changes the lock of a descriptor (flock) and never waits: EAGAIN while another process holds a conflicting lock.
pub fn lock(folder: impl AsFd, lock: FolderLock) -> Result<(), Errno> {
    let operation = match lock {
        FolderLock::Shared => fs::FlockOperation::NonBlockingLockShared,
        FolderLock::Exclusive => fs::FlockOperation::NonBlockingLockExclusive,
        FolderLock::None => fs::FlockOperation::NonBlockingUnlock,
    };
    fs::flock(folder, operation)
}

/// Renames a file within its folder. Replaces a file that has the new name.
pub fn rename(folder: impl AsFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    fs::renameat(&folder, from, &folder, to)
}

pub fn size(fd: impl AsFd) -> Result<u64, Errno> {
    fs::fstat(fd).map(|stat| stat.st_size as u64)
}

/// Makes a folder with exactly this mode.
pub fn make_directory(folder: impl AsFd, name: &OsStr, mode: u32) -> Result<(), Errno> {
    with_umask(0, || fs::mkdirat(folder, name, Mode::from_raw_mode(mode as fs::RawMode)))
}

pub fn remove(folder: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    fs::unlinkat(folder, name, AtFlags::empty())
}

/// Gives a file of the service to one of the process's own groups, and then sets the mode. Works without privileges. The mode
/// is set by name, so nobody else may be able to change the folder.
pub fn give_to_group(folder: impl AsFd, name: &OsStr, gid: u32, mode: u32) -> Result<(), Errno> {
    let gid = Some(fs::Gid::from_raw(gid));
    fs::chownat(&folder, name, None, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    fs::chmodat(&folder, name, Mode::from_raw_mode(mode as fs::RawMode), AtFlags::empty())
}

/// Runs `make` with this umask. The umask belongs to the whole process: for the start alone, where no other thread makes
/// files.
pub fn with_umask<T>(mask: u32, make: impl FnOnce() -> T) -> T {
    let before = rustix::process::umask(Mode::from_raw_mode(mask as fs::RawMode));
    let made = make();
    rustix::process::umask(before);
    made
}

/// Runs `act` with `folder` as the working directory, so that a relative name is a name in that folder. For calls that
/// take no descriptor.
pub fn in_directory<T>(folder: impl AsFd, act: impl FnOnce() -> T) -> Result<T, Errno> {
    let before = open_directory(Path::new("."));
    rustix::process::fchdir(folder)?;
    let done = act();
    // The old working directory may not be accessible any more; then use `/`.
    before.and_then(rustix::process::fchdir).or_else(|_| rustix::process::chdir("/"))?;
    Ok(done)
}

pub fn duplicate_stderr() -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 3)
}

/// For appending, made with mode 0600 if it is not there; never a link, never waits (a FIFO without reader is an error).
/// And whether what is there ends in the middle of a line; one that cannot be read may.
pub fn open_log(folder: impl AsFd, name: &OsStr) -> Result<(OwnedFd, bool), Errno> {
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

/// Appends `bytes` and returns how many were written. EAGAIN if the other end accepts nothing within the timeout. A pipe
/// accepts up to 4,096 bytes as a whole.
pub fn append(to: impl AsFd, bytes: &[u8], patience: std::time::Duration) -> Result<usize, Errno> {
    let mut ready = [rustix::event::PollFd::new(&to, rustix::event::PollFlags::OUT)];
    let patience =
        rustix::event::Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    match rustix::event::poll(&mut ready, Some(&patience))? {
        0 => Err(Errno::AGAIN),
        _ => rustix::io::write(to, bytes),
    }
}

/// Descriptor 0 becomes `/dev/null`.
pub fn replace_stdin_with_null() -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(open_null()?)
}
