//! The audit file that several supervisors append to and rotate; each of them serves one command of the same user.
//! A writer holds a shared lock on the folder, a rotation an exclusive one, so that no line goes to a file that rotation has
//! just removed.

use std::{
    ffi::OsString,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use crate::sys::{
    Errno,
    host::{self, FolderLock},
};

/// A file that has reached this size is rotated before the next write.
pub const MAX_AUDIT_FILE_BYTES: u64 = 10 << 20;
/// Old files that are kept. `NAME.1` is the newest.
pub const MAX_OLD_FILES: usize = 4;
/// Pause between two attempts to take a lock.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Rotation {
    /// The folder of the files, for renames and opens.
    folder: OwnedFd,
    /// The same folder, opened for the lock.
    lock_folder: OwnedFd,
    name: OsString,
    max_bytes: u64,
}

/// A lock. Dropping this value releases it.
#[derive(Debug)]
pub struct RotationLock<'r>(&'r OwnedFd);

impl Drop for RotationLock<'_> {
    fn drop(&mut self) {
        let _ = host::lock(self.0, FolderLock::None);
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
        Ok(Self { folder, lock_folder: locked, name, max_bytes })
    }

    /// Makes `fd` the current file, and locks out rotation until the result is dropped. Rotates a full file first; if that is
    /// not possible now, the full file is used. EAGAIN if another process holds the lock for longer than `patience`.
    pub fn lock_current_file(
        &self,
        fd: &mut OwnedFd,
        torn: &mut bool,
        patience: Duration,
    ) -> Result<RotationLock<'_>, Errno> {
        let held = self.lock(FolderLock::Shared, patience)?;
        self.reopen_if_rotated(fd, torn);
        if !self.is_full(fd) {
            return Ok(held);
        }
        // flock does not upgrade a lock atomically: a failed attempt can lose the lock that is held.
        drop(held);
        if let Ok(held) = self.lock(FolderLock::Exclusive, Duration::ZERO) {
            self.reopen_if_rotated(fd, torn);
            self.rotate(fd, torn);
            return Ok(held);
        }
        let held = self.lock(FolderLock::Shared, patience)?;
        self.reopen_if_rotated(fd, torn);
        Ok(held)
    }

    fn is_full(&self, fd: &OwnedFd) -> bool {
        host::size(fd).is_ok_and(|size| size >= self.max_bytes)
    }

    fn lock(&self, lock: FolderLock, patience: Duration) -> Result<RotationLock<'_>, Errno> {
        let until = Instant::now() + patience;
        loop {
            match host::lock(&self.lock_folder, lock) {
                Ok(()) => return Ok(RotationLock(&self.lock_folder)),
                Err(Errno::AGAIN | Errno::INTR) if Instant::now() < until => std::thread::sleep(LOCK_RETRY_PAUSE),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Reopens the file if another process has rotated it. Keeps the old file if that cannot be seen (the folder is root's, and
    /// this process is no longer root), or if the new file cannot be opened.
    fn reopen_if_rotated(&self, fd: &mut OwnedFd, torn: &mut bool) {
        let is_other = match host::facts_at(&self.folder, &self.name) {
            Ok(now) => host::identity(&*fd) != Ok(now.id),
            Err(errno) => errno == Errno::NOENT,
        };
        if is_other && let Ok((new, _)) = host::open_log(&self.folder, &self.name) {
            // A confined supervisor may not read the file to see whether its last line is complete. The process that wrote a
            // part of a line also completes it.
            (*fd, *torn) = (new, false);
        }
    }

    /// Call this only with the exclusive lock, and with `fd` as the current file.
    fn rotate(&self, fd: &mut OwnedFd, torn: &mut bool) {
        if !self.is_full(fd) {
            return;
        }
        for number in (1..MAX_OLD_FILES).rev() {
            let (from, to) = (old_name(&self.name, number), old_name(&self.name, number + 1));
            if !matches!(host::rename(&self.folder, &from, &to), Ok(()) | Err(Errno::NOENT)) {
                return;
            }
        }
        if host::rename(&self.folder, &self.name, &old_name(&self.name, 1)).is_ok() {
            self.reopen_if_rotated(fd, torn);
        }
    }
}

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;
