//! The state of a descriptor at this moment, without waiting. Runs in every process.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether the far end of a stream or channel is closed completely, not only for sending. Polls for writing, because macOS
/// reports HUP in both cases to a poll for reading.
pub fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Readable right now; for a pidfd: the process has ended.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_far_end_that_only_stopped_sending_is_still_there() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(!is_hung_up(ours.as_fd()));
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!is_hung_up(ours.as_fd()));
        drop(theirs);
        assert!(is_hung_up(ours.as_fd()));
    }
}
