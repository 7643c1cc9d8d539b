//! Whether the far end of a stream is gone.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Gone altogether: a far end that is only done with sending is not. macOS says HUP to both when it is asked about
/// reading; asked about writing it says HUP only when nobody will ever read.
pub fn is_hung_up(stream: BorrowedFd<'_>, revents: PollFlags) -> bool {
    let gone = PollFlags::HUP | PollFlags::ERR;
    if !revents.intersects(gone) {
        return false;
    }
    let mut writing = [PollFd::from_borrowed_fd(stream, PollFlags::OUT)];
    poll(&mut writing, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
        && writing[0].revents().intersects(gone)
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_far_end_that_only_stopped_sending_is_still_there() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        // What macOS says about this, and Linux does not.
        assert!(!is_hung_up(ours.as_fd(), PollFlags::HUP | PollFlags::IN));
        drop(theirs);
        assert!(is_hung_up(ours.as_fd(), PollFlags::HUP | PollFlags::IN));
        assert!(!is_hung_up(ours.as_fd(), PollFlags::IN), "nothing was said");
    }
}
