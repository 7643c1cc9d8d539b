//! A wake descriptor (eventfd): lets one thread wake another that polls descriptors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::sys::Errno;

/// The number that the seccomp list allows to be written to: the first one free in a new worker.
pub const WAKE_FD: i32 = 3;

#[derive(Debug)]
pub struct WakeDescriptor(OwnedFd);

impl WakeDescriptor {
    /// To be made first of all descriptors: it must get `WAKE_FD`.
    pub fn new() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        if fd.as_raw_fd() == WAKE_FD { Ok(Self(fd)) } else { Err(Errno::BADF) }
    }

    /// Makes the descriptor readable. Several wake-ups before the next read count as one.
    pub fn wake(&self) {
        // The write fails only if the counter is full after four billion unread wake-ups. The descriptor is readable then,
        // which is all that a wake-up needs.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        // Empty if it did not ring.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for WakeDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
