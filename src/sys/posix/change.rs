//! Runs in the worker alone: every file has a name from the beginning.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::sys::{Errno, fs::OpenRules};

pub fn create_unnamed(_dir: BorrowedFd<'_>, _mode: Mode, _how: OpenRules) -> Result<OwnedFd, Errno> {
    Err(Errno::OPNOTSUPP)
}

pub fn link_unnamed(_file: BorrowedFd<'_>, _dir: BorrowedFd<'_>, _name: &[u8]) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

pub fn sync(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsync(fd)
}

/// Fills the buffer with random bytes that other processes cannot guess.
pub fn fill_random(bytes: &mut [u8; 16]) -> Result<(), Errno> {
    let chance = rustix::fs::open("/dev/urandom", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::io::retry_on_intr(|| rustix::io::read(&chance, &mut bytes[..]))? {
        16 => Ok(()),
        _ => Err(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_not_the_same_twice() {
        let (mut one, mut other) = ([0; 16], [0; 16]);
        fill_random(&mut one).unwrap();
        fill_random(&mut other).unwrap();
        assert!(one != other && one != [0; 16]);
    }
}
