//! Waits for descriptors, and receives from the client's stream. Code of this file runs in the worker alone; the supervisor waits
//! in its event loop and receives nothing from clients. Does not trust what it receives.

use std::{os::fd::BorrowedFd, time::Duration};

use rustix::{
    event::{self, PollFd, PollFlags, Timespec},
    net::{self, RecvFlags},
};

use super::Errno;

pub use super::{
    ready::{is_hung_up, is_readable},
    system::hangups::HangUps,
};

/// Which of the descriptors is ready after `wait_for`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PollReady {
    pub channel: bool,
    pub stream: bool,
}

/// Waits until the channel, or the stream if it is polled, is readable. `None` waits without a limit.
pub fn wait_for(
    channel: BorrowedFd<'_>,
    stream: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Result<PollReady, Errno> {
    let watched = stream.unwrap_or(channel);
    let mut fds = [PollFd::from_borrowed_fd(channel, PollFlags::IN), PollFd::from_borrowed_fd(watched, PollFlags::IN)];
    let used = if stream.is_some() { 2 } else { 1 };
    poll(&mut fds[..used], timeout)?;
    Ok(PollReady { channel: !fds[0].revents().is_empty(), stream: used == 2 && !fds[1].revents().is_empty() })
}

/// Waits until the stream is readable. A blocking read would also wake up whenever the far end takes data that was written to
/// it, and sleep again, which costs two context switches. `None` waits without a limit.
pub fn wait_for_stream(stream: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<(), Errno> {
    poll(&mut [PollFd::from_borrowed_fd(stream, PollFlags::IN)], timeout)
}

/// Waits until one of the two descriptors is readable.
pub fn wait_for_either(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<(), Errno> {
    let watched = [one, other];
    poll(&mut watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)), None)
}

/// Receives bytes of a stream without waiting for them. `Ok(0)` is the end. The kernel drops attached descriptors.
pub fn receive_stream(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Ok((_, len)) => return Ok(len),
            Err(errno) => return Err(errno),
        }
    }
}

/// An interrupted poll counts as a timeout, because all callers poll again.
fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
    let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    match event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
