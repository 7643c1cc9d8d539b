//! Waiting for descriptors: `poll` for the worker's two, an epoll of hang-ups for the supervisor's many.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::event::{self, PollFd, PollFlags, Timespec, epoll};

use super::Errno;

/// What `wait_for` found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    pub channel: bool,
    pub stream: bool,
}

/// Waits until the channel or the stream (if it is looked at) has something to say. `None` waits for ever.
pub fn wait_for(
    channel: BorrowedFd<'_>,
    stream: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Result<Ready, Errno> {
    let watched = stream.unwrap_or(channel);
    let mut fds =
        [PollFd::from_borrowed_fd(channel, PollFlags::IN), PollFd::from_borrowed_fd(watched, PollFlags::IN)];
    let used = if stream.is_some() { 2 } else { 1 };
    poll(&mut fds[..used], timeout)?;
    Ok(Ready { channel: !fds[0].revents().is_empty(), stream: used == 2 && !fds[1].revents().is_empty() })
}

/// Sleeps until one of the two has something to say.
pub fn wait_for_either(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<(), Errno> {
    let watched = [one, other];
    poll(&mut watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)), None)
}

/// Whether the far end of a stream is gone altogether, not only done with sending.
pub fn is_hung_up(stream: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stream, PollFlags::empty())];
    poll(&mut fds, Some(Duration::ZERO)).is_ok()
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// An interruption looks like a timeout: the callers come back anyway.
fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
    let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    match event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Readable right now; for a pidfd: the process has ended.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
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
