//! Waiting for descriptors: `poll` for the worker's two, an epoll of hang-ups for the supervisor's many.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::event::{self, PollFd, PollFlags, Timespec, epoll};

use super::Errno;

/// What `wait_two` found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    pub first: bool,
    pub second: bool,
}

/// Waits until either is readable, closed or broken. `None` waits for ever. A descriptor left out (`None`) never fires.
pub fn wait_two(
    first: Option<BorrowedFd<'_>>,
    second: BorrowedFd<'_>,
    timeout: Option<Duration>,
) -> Result<Ready, Errno> {
    let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    let mut fds =
        [PollFd::from_borrowed_fd(second, PollFlags::IN), PollFd::from_borrowed_fd(second, PollFlags::IN)];
    if let Some(first) = first {
        fds[1] = PollFd::from_borrowed_fd(first, PollFlags::IN);
    }
    let used = if first.is_some() { 2 } else { 1 };
    match event::poll(&mut fds[..used], timeout.as_ref()) {
        Ok(_) => Ok(Ready {
            first: used == 2 && !fds[1].revents().is_empty(),
            second: !fds[0].revents().is_empty(),
        }),
        Err(Errno::INTR) => Ok(Ready::default()),
        Err(errno) => Err(errno),
    }
}

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

    pub fn forget(&self, socket: BorrowedFd<'_>) {
        // Closing the last descriptor forgets it, too; this is for sockets that live on elsewhere.
        let _ = epoll::delete(&self.epoll, socket);
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
