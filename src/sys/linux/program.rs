//! The worker's program: a descriptor that was opened once, so that an upgrade never mixes two versions.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use crate::sys::Errno;

/// O_PATH is enough to execute it, and cannot read it.
pub fn open_program(folder: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The path to execute: the file behind the descriptor, whatever its name means by now.
pub fn executable(_path: &Path, program: &OwnedFd) -> io::Result<PathBuf> {
    Ok(format!("/proc/self/fd/{}", program.as_raw_fd()).into())
}
