//! Opens the worker's program where the system cannot execute a file by its descriptor.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags};

use crate::sys::{Errno, host};

/// O_NONBLOCK, so that a FIFO under this name does not block the open.
pub fn open_program(folder: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// The path to execute: the name, if it still means the file that was examined. A process that may write to its folder can
/// replace it after this check.
pub fn executable(path: &Path, program: &OwnedFd) -> io::Result<PathBuf> {
    if host::identity(open_program(CWD, path)?)? == host::identity(program)? {
        Ok(path.to_path_buf())
    } else {
        Err(io::Error::other("was replaced since the start; restart the service"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_not_executed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, b"one").unwrap();
        let held = open_program(CWD, &path).unwrap();
        assert_eq!(executable(&path, &held).unwrap(), path);
        std::fs::write(dir.path().join("new"), b"two").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(executable(&path, &held).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(executable(&path, &held).is_err());
    }
}
