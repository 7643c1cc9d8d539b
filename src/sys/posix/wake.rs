//! A bell between threads that one of them can hear while it waits for other descriptors: a pipe.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::{Errno, socket::set_nonblocking};

/// The last descriptor that a new worker has when its bell is made: the channel, `/dev/null` twice, the pipe's two ends.
pub const WAKE_FD: i32 = 4;
/// Rings that are taken back at once.
const RINGS: usize = 64;

#[derive(Debug)]
pub struct Wake {
    hear: OwnedFd,
    ring: OwnedFd,
}

impl Wake {
    pub fn new() -> Result<Self, Errno> {
        let (hear, ring) =
            std::io::pipe().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        let bell = Self { hear: hear.into(), ring: ring.into() };
        set_nonblocking(&bell.hear, true)?;
        set_nonblocking(&bell.ring, true)?;
        Ok(bell)
    }

    /// Heard once, however often it rings.
    pub fn ring(&self) {
        // Full means that nobody has listened for long: it is still ringing.
        let _ = rustix::io::write(&self.ring, b"!");
    }

    pub fn silence(&self) {
        // Empty if it did not ring.
        let mut rings = [0; RINGS];
        while rustix::io::read(&self.hear, &mut rings) == Ok(RINGS) {}
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hear.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll::is_readable;

    #[test]
    fn it_rings_until_it_is_silenced_however_often_it_was_rung() {
        let wake = Wake::new().unwrap();
        for rings in [1, RINGS, 200_000] {
            assert!(!is_readable(wake.as_fd()));
            for _ in 0..rings {
                wake.ring();
            }
            assert!(is_readable(wake.as_fd()));
            wake.silence();
        }
        assert!(!is_readable(wake.as_fd()));
        wake.silence();
    }
}
