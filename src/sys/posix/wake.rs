//! A wake descriptor (pipe): lets one thread wake another that polls descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::{Errno, socket::set_nonblocking};

/// The last descriptor that a new worker has when its bell is made: the channel, `/dev/null` twice, the pipe's two ends.
pub const WAKE_FD: i32 = 4;
/// Rings that are taken back at once.
const WAKES_PER_READ: usize = 64;

#[derive(Debug)]
pub struct WakeDescriptor {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl WakeDescriptor {
    pub fn new() -> Result<Self, Errno> {
        let (hear, ring) = std::io::pipe().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        let bell = Self { read_end: hear.into(), write_end: ring.into() };
        set_nonblocking(&bell.read_end, true)?;
        set_nonblocking(&bell.write_end, true)?;
        Ok(bell)
    }

    /// Heard once, however often it rings.
    pub fn wake(&self) {
        // The write fails only if the pipe is full. It is readable then, which is all that a wake-up needs.
        let _ = rustix::io::write(&self.write_end, b"!");
    }

    pub fn clear(&self) {
        // Empty if it did not ring.
        let mut rings = [0; WAKES_PER_READ];
        while rustix::io::read(&self.read_end, &mut rings) == Ok(WAKES_PER_READ) {}
    }
}

impl AsFd for WakeDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read_end.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll::is_readable;

    #[test]
    fn it_rings_until_it_is_silenced_however_often_it_was_rung() {
        let wake = WakeDescriptor::new().unwrap();
        for rings in [1, WAKES_PER_READ, 200_000] {
            assert!(!is_readable(wake.as_fd()));
            for _ in 0..rings {
                wake.wake();
            }
            assert!(is_readable(wake.as_fd()));
            wake.clear();
        }
        assert!(!is_readable(wake.as_fd()));
        wake.clear();
    }
}
