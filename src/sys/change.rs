//! Runs in the worker alone: every call that changes something on disk. All safe; the calls are rustix's.
//! Names are single names beneath a descriptor that the supervisor resolved, or that was opened beneath one: none of
//! these calls follows a link as its last name, and there is no other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, RenameFlags, Uid, XattrFlags};

use super::{
    Errno,
    fs::{self, OFlags, OpenRules},
    system,
};

/// The kernel's own limits for one attribute and for the list of their names.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// What a rename does if the new name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfNameTaken {
    /// It is replaced, at once and for good.
    Replace,
    /// EEXIST.
    Refuse,
    /// The two change places: what was there is not lost.
    Exchange,
}

/// Every call below goes through here: a test build may end the process at any of them, or make any of them fail.
fn change_call<T>(name: &'static str, call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    #[cfg(feature = "weakened")]
    super::fault::before(name)?;
    let _ = name;
    let result = rustix::io::retry_on_intr(call);
    #[cfg(feature = "weakened")]
    super::fault::after(name);
    result
}

// Some systems have narrower modes; ours are permission bits.
#[allow(clippy::unnecessary_cast)]
fn mode_of(mode: u32) -> Mode {
    Mode::from_raw_mode(mode as rustix::fs::RawMode)
}

/// Creates a file without a name, for reading and writing. It disappears when it is closed unless `link_unnamed` gives it a
/// name. EOPNOTSUPP, or EISDIR on old kernels, if the file system does not support this.
pub fn create_unnamed(dir: BorrowedFd<'_>, mode: u32, how: OpenRules) -> Result<OwnedFd, Errno> {
    let mode = mode_of(mode);
    change_call("create_unnamed", || system::change::create_unnamed(dir, mode, how))
}

/// Creates a file. EEXIST if anything has the name already.
pub fn create(dir: BorrowedFd<'_>, name: &[u8], mode: u32, how: OpenRules) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
    change_call("create", || fs::open_with_mode(dir, name, flags, mode_of(mode), how))
}

/// Gives an unnamed file its name. Never overwrites: EEXIST.
pub fn link_unnamed(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    change_call("link_unnamed", || system::change::link_unnamed(file, dir, name))
}

/// A second name for what is no folder; of a link as itself. Never overwrites: EEXIST.
pub fn link(from: (BorrowedFd<'_>, &[u8]), to: (BorrowedFd<'_>, &[u8])) -> Result<(), Errno> {
    change_call("link", || rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty()))
}

pub fn rename(from: (BorrowedFd<'_>, &[u8]), to: (BorrowedFd<'_>, &[u8]), taken: IfNameTaken) -> Result<(), Errno> {
    let (name, flags) = match taken {
        IfNameTaken::Replace => ("rename", RenameFlags::empty()),
        IfNameTaken::Refuse => ("rename_to_free", RenameFlags::NOREPLACE),
        IfNameTaken::Exchange => ("exchange", RenameFlags::EXCHANGE),
    };
    change_call(name, || rustix::fs::renameat_with(from.0, from.1, to.0, to.1, flags))
}

pub fn make_dir(dir: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<(), Errno> {
    change_call("make_dir", || rustix::fs::mkdirat(dir, name, mode_of(mode)))
}

/// Creates a symbolic link with the content `target`.
pub fn make_link(dir: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> Result<(), Errno> {
    change_call("make_link", || rustix::fs::symlinkat(target, dir, name))
}

/// Anything but a folder; a link as itself.
pub fn remove_file(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    change_call("remove_file", || rustix::fs::unlinkat(dir, name, AtFlags::empty()))
}

/// An empty folder.
pub fn remove_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    change_call("remove_dir", || rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
}

pub fn write_all_at(fd: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = change_call("write", || rustix::io::pwrite(fd, bytes, offset))?;
        if written == 0 {
            return Err(Errno::IO);
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Content and everything needed to find it again.
pub fn sync(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    change_call("sync", || system::change::sync(fd))
}

pub fn set_owner(fd: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<(), Errno> {
    change_call("set_owner", || rustix::fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))
}

/// The names of a file's attributes, those that we may see.
pub fn attribute_names(fd: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut list = Vec::new();
    match rustix::fs::flistxattr(fd, rustix::buffer::spare_capacity(reserved(&mut list))) {
        Ok(_) => {}
        Err(errno) if errno == Errno::OPNOTSUPP || errno == Errno::NOTSUP => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    }
    Ok(list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn reserved(list: &mut Vec<u8>) -> &mut Vec<u8> {
    list.reserve_exact(MAX_ATTRIBUTE_BYTES);
    list
}

pub fn copy_attribute(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let mut value = Vec::new();
    rustix::fs::fgetxattr(from, name, rustix::buffer::spare_capacity(reserved(&mut value)))?;
    change_call("set_attribute", || rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty()))
}

/// True if both files have the attribute with the same value, because the system labelled the new file already.
pub fn has_same_attribute(a: BorrowedFd<'_>, b: BorrowedFd<'_>, name: &[u8]) -> bool {
    let value = |fd| {
        let mut value = Vec::new();
        rustix::fs::fgetxattr(fd, name, rustix::buffer::spare_capacity(reserved(&mut value))).map(|_| value)
    };
    matches!((value(a), value(b)), (Ok(a), Ok(b)) if a == b)
}

/// Locks the file for this descriptor, without waiting. True if no other descriptor holds the lock. The lock lasts until the
/// descriptor is closed or the process ends.
pub fn try_lock(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A temporary name of the service: 128 random bits as 32 hex digits, which other processes cannot guess.
pub fn random_name() -> Result<String, Errno> {
    let mut bytes = [0u8; 16];
    system::change::fill_random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The folder behind an O_PATH descriptor, opened so that it can be synced.
pub fn sync_folder(dir: BorrowedFd<'_>, how: OpenRules) -> Result<(), Errno> {
    let open = fs::open_beneath(dir, b".", OFlags::RDONLY | OFlags::DIRECTORY, how)?;
    match sync(open.as_fd()) {
        // Some file systems have nothing to sync about a folder.
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}
