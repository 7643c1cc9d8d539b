//! Whether the far end of a stream is gone: one epoll for all of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use crate::sys::Errno;

/// Notices that the far end of a stream is gone without ever being woken by data on it.
#[derive(Debug)]
pub struct HangUps {
    epoll: OwnedFd,
}

impl HangUps {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// events = 0: HUP and ERR are always reported, readability never is. RDHUP would also fire on a half-close.
    pub fn watch(&self, socket: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), epoll::EventFlags::ONESHOT)
    }

    /// Tokens of the streams that hung up since the last call; never waits.
    pub fn take(&self) -> Result<Vec<u64>, Errno> {
        let mut events = Vec::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now))?;
        Ok(events.iter().map(|event: &epoll::Event| event.data.u64()).collect())
    }
}

impl AsFd for HangUps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl std::os::fd::AsRawFd for HangUps {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.epoll.as_raw_fd()
    }
}
