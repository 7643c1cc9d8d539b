//! Waiting for descriptors. What stands here runs in the worker alone, which waits for two of them; the supervisor
//! waits in its event loop, and never here.

use std::{os::fd::BorrowedFd, time::Duration};

use rustix::event::{self, PollFd, PollFlags, Timespec};

use super::Errno;

use super::system::hangups::is_hung_up;
pub use super::{ready::is_readable, system::hangups::HangUps};

/// What `wait_for` found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    pub channel: bool,
    pub stream: bool,
    /// The far end of the stream is gone altogether, not only done with sending.
    pub hung_up: bool,
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
    Ok(Ready {
        channel: !fds[0].revents().is_empty(),
        stream: used == 2 && !fds[1].revents().is_empty(),
        hung_up: used == 2 && is_hung_up(watched, fds[1].revents()),
    })
}

/// The same while another thread sits at the channel.
pub fn wait_for_stream(stream: BorrowedFd<'_>, timeout: Duration) -> Result<Ready, Errno> {
    let mut fds = [PollFd::from_borrowed_fd(stream, PollFlags::IN)];
    poll(&mut fds, Some(timeout))?;
    Ok(Ready {
        channel: false,
        stream: !fds[0].revents().is_empty(),
        hung_up: is_hung_up(stream, fds[0].revents()),
    })
}

/// An interruption looks like a timeout: the callers come back anyway.
fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
    let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    match event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
