//! Whether the far end of a stream is gone: one kqueue for all of them.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::Duration,
};

use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent, kqueue};

use crate::sys::Errno;

/// Hang-ups taken at a time.
const EVENTS: usize = 64;

/// Notices that the far end of a stream is gone without ever being woken by data on it.
#[derive(Debug)]
pub struct HangUps {
    queue: OwnedFd,
}

impl HangUps {
    pub fn new() -> Result<Self, Errno> {
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self { queue })
    }

    /// Registers the socket for writing: EOF for writing means that the far end is closed, while EOF for reading could also
    /// be a half-close. EV_CLEAR reports a writable stream once, and again only after its far end has read.
    pub fn watch(&self, socket: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        let token = usize::try_from(token).map_err(|_| Errno::OVERFLOW)?;
        let flags = EventFlags::ADD | EventFlags::CLEAR;
        let event = Event::new(EventFilter::Write(socket.as_raw_fd()), flags, std::ptr::without_provenance_mut(token));
        // SAFETY: the descriptor is open now, and a descriptor that is closed leaves the queue by itself.
        unsafe { kevent(&self.queue, &[event], &mut [] as &mut [Event], Some(Duration::ZERO)) }.map(drop)
    }

    /// Tokens of the streams that hung up since the last call; never waits.
    pub fn take(&self) -> Result<Vec<u64>, Errno> {
        let mut gone = Vec::new();
        loop {
            let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
            let spare = rustix::buffer::spare_capacity(&mut events);
            // SAFETY: no change is made, so no descriptor is named.
            let count = unsafe { kevent(&self.queue, &[], spare, Some(Duration::ZERO)) }?;
            let ended = events.iter().filter(|event| event.flags().contains(EventFlags::EOF));
            gone.extend(ended.map(|event| event.udata().addr() as u64));
            // Those that can only be written filled the list; behind them may be others.
            if count < EVENTS {
                return Ok(gone);
            }
        }
    }
}

impl AsFd for HangUps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for HangUps {
    fn as_raw_fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }
}
