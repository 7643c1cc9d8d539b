//! A file that several supervisors append to, and that they rotate: each of them serves one command of the same user.
//! A shared lock on the folder is held while lines are written, an exclusive one while files are renamed, so that no line is
//! written to a file that has been dropped meanwhile.

use std::{
    ffi::OsString,
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

use crate::sys::{
    Errno,
    host::{self, Lock},
};

/// A file that has become this large gets another name before the next line.
pub const MAX_BYTES: u64 = 10 << 20;
/// Old files, `NAME.1` being the newest of them.
pub const KEPT: usize = 4;
/// Between two attempts to take a lock.
const RETRY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Rotation {
    /// What the files are names in.
    folder: OwnedFd,
    /// The same folder, opened to be locked.
    locked: OwnedFd,
    name: OsString,
    max_bytes: u64,
}

/// The lock is given back with this value.
#[derive(Debug)]
pub struct Held<'r>(&'r OwnedFd);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = host::lock(self.0, Lock::None);
    }
}

/// The name of an old file.
pub fn old_name(name: &OsString, number: usize) -> OsString {
    let mut old = name.clone();
    old.push(format!(".{number}"));
    old
}

impl Rotation {
    pub fn new(folder: OwnedFd, name: OsString, max_bytes: u64) -> Result<Self, Errno> {
        let locked = host::open_to_lock(&folder)?;
        Ok(Self { folder, locked, name, max_bytes })
    }

    /// Makes `fd` the file that has the name now, and keeps it there until the result is dropped. A file that is too large is
    /// rotated first; if that is not possible now, it is still written to. EAGAIN if another process has the lock for so long.
    pub fn hold(&self, fd: &mut OwnedFd, torn: &mut bool, patience: Duration) -> Result<Held<'_>, Errno> {
        let held = self.lock(Lock::Shared, patience)?;
        self.follow(fd, torn);
        if !self.is_full(fd) {
            return Ok(held);
        }
        // A lock is not changed in place: an attempt that fails would lose the one that is held.
        drop(held);
        if let Ok(held) = self.lock(Lock::Exclusive, Duration::ZERO) {
            self.follow(fd, torn);
            self.rotate(fd, torn);
            return Ok(held);
        }
        let held = self.lock(Lock::Shared, patience)?;
        self.follow(fd, torn);
        Ok(held)
    }

    fn is_full(&self, fd: &OwnedFd) -> bool {
        host::size(fd).is_ok_and(|size| size >= self.max_bytes)
    }

    fn lock(&self, lock: Lock, patience: Duration) -> Result<Held<'_>, Errno> {
        let until = Instant::now() + patience;
        loop {
            match host::lock(&self.locked, lock) {
                Ok(()) => return Ok(Held(&self.locked)),
                Err(Errno::AGAIN | Errno::INTR) if Instant::now() < until => std::thread::sleep(RETRY),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Another process may have rotated. Where that cannot be seen (the folder is root's, and this process is not any more), or
    /// the new file not opened, the old one is written to.
    fn follow(&self, fd: &mut OwnedFd, torn: &mut bool) {
        let now = host::identity_at(&self.folder, Path::new(&self.name));
        let is_other = match now {
            Ok(now) => host::identity(&*fd) != Ok(now),
            Err(errno) => errno == Errno::NOENT,
        };
        if is_other && let Ok((new, _)) = host::open_log(&self.folder, Path::new(&self.name)) {
            // Its last line cannot be read by a confined supervisor; whoever wrote a part of one also ends it.
            (*fd, *torn) = (new, false);
        }
    }

    /// Only with the exclusive lock, once `fd` is the file that has the name.
    fn rotate(&self, fd: &mut OwnedFd, torn: &mut bool) {
        if !self.is_full(fd) {
            return;
        }
        for number in (1..KEPT).rev() {
            let (from, to) = (old_name(&self.name, number), old_name(&self.name, number + 1));
            if !matches!(host::rename(&self.folder, &from, &to), Ok(()) | Err(Errno::NOENT)) {
                return;
            }
        }
        if host::rename(&self.folder, &self.name, &old_name(&self.name, 1)).is_ok() {
            self.follow(fd, torn);
        }
    }
}

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;
