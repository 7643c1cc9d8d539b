//! Asked in passing, without waiting.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Readable right now; for a pidfd: the process has ended.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}
