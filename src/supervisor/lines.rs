//! Lines that leave the supervisor: its log and its audit. The event loop puts them into a bounded queue; a thread of its
//! own writes them, and may wait for a slow reader, a full disk or a dead network file system. Nothing else does.
//! Never lets half a line run into the next one.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::rotation::Rotation;
use crate::sys::{Errno, host};

/// Longest line, and most that is written at once: a pipe takes as much whole or not at all.
pub const MAX_LINE_BYTES: usize = 4096;
/// What may wait to be written; beyond it lines are lost.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// Between two attempts to write where the last one failed.
const RETRY: Duration = Duration::from_millis(250);
/// After each round of writing, so that a busy service wakes the writer a hundred times a second and not for every line.
const LINGER: Duration = Duration::from_millis(10);
/// What a service that ends waits for its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Where lines go, and whether the last one there lacks its end.
#[derive(Debug)]
pub struct Sink {
    pub fd: OwnedFd,
    pub torn: bool,
    /// Set for a file that several processes append to.
    pub rotation: Option<Rotation>,
}

impl From<OwnedFd> for Sink {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, torn: false, rotation: None }
    }
}

impl Sink {
    /// Whole lines in, whole lines done. One that was written in part stays as it is, on a line of its own, and is written
    /// again: its rest could end up behind somebody else's line, or in a file that was emptied meanwhile.
    fn append(&mut self, lines: &[u8], patience: Duration) -> Result<usize, Errno> {
        let _held = match &self.rotation {
            Some(rotation) => Some(rotation.hold(&mut self.fd, &mut self.torn, patience)?),
            None => None,
        };
        let end: &[u8] = if self.torn { b"\n" } else { b"" };
        let written = host::append(&self.fd, &[end, lines].concat(), patience)?;
        let Some(written) = written.checked_sub(end.len()) else { return Ok(0) };
        let whole = lines_end(&lines[..written]);
        self.torn = whole < written;
        Ok(whole)
    }
}

fn lines_end(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1)
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<u8>,
    /// The writer has nothing to do and waits to be told.
    idle: bool,
    /// The service ends: no more lingering.
    hurry: bool,
    /// Until there is a writer, lines are written by whoever has them.
    direct: Option<Sink>,
    /// What the writer goes on with, once it is done with the line in its hands.
    next: Option<Sink>,
}

#[derive(Debug, Clone)]
pub struct Lines(Arc<(Mutex<Queue>, Condvar)>);

impl Lines {
    /// Without a writer yet: the start of a process is single-threaded.
    pub fn new(sink: Sink) -> Self {
        let queue = Queue { direct: Some(sink), ..Queue::default() };
        Self(Arc::new((Mutex::new(queue), Condvar::new())))
    }

    /// To be called once confined: a thread has the rights of the one that starts it. Twice does no harm.
    pub fn start_writer(&self) -> io::Result<()> {
        let Some(sink) = self.lock().direct.take() else { return Ok(()) };
        let lines = self.clone();
        std::thread::Builder::new().name("lines".into()).spawn(move || lines.write(sink)).map(drop)
    }

    /// Never waits. False: the line is lost.
    pub fn push(&self, line: &[u8]) -> bool {
        let mut queue = self.lock();
        if line.len() > MAX_LINE_BYTES || queue.waiting.len() + line.len() > MAX_WAITING_BYTES {
            return false;
        }
        if let Some(sink) = &mut queue.direct {
            return sink.append(line, Duration::ZERO) == Ok(line.len());
        }
        queue.waiting.extend_from_slice(line);
        if queue.idle {
            self.0.1.notify_all();
        }
        true
    }

    /// From the next line on; those that wait go there, too.
    pub fn replace(&self, sink: Sink) {
        let mut queue = self.lock();
        match &mut queue.direct {
            Some(direct) => *direct = sink,
            None => queue.next = Some(sink),
        }
        self.0.1.notify_all();
    }

    /// For the end of the service: waits a little until everything is written. False: not everything is.
    pub fn finish(&self) -> bool {
        let until = Instant::now() + LAST_LINES;
        let mut queue = self.lock();
        queue.hurry = true;
        self.0.1.notify_all();
        while queue.direct.is_none() && !(queue.idle && queue.waiting.is_empty()) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            queue = self.0.1.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, mut sink: Sink) {
        loop {
            let mut queue = self.lock();
            while queue.waiting.is_empty() {
                queue.idle = true;
                self.0.1.notify_all();
                queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.idle = false;
            let lines = std::mem::take(&mut queue.waiting);
            drop(queue);
            self.write_all(&mut sink, &lines);
            self.pause(LINGER, |queue| queue.hurry);
        }
    }

    fn write_all(&self, sink: &mut Sink, mut lines: &[u8]) {
        while !lines.is_empty() {
            let mut queue = self.lock();
            if let Some(next) = queue.next.take() {
                *sink = next;
            }
            drop(queue);
            let together = lines_end(&lines[..lines.len().min(MAX_LINE_BYTES)]);
            match sink.append(&lines[..together], RETRY) {
                // A reader that takes nothing has been waited for already.
                Err(Errno::AGAIN) => {}
                Ok(0) | Err(_) => self.pause(RETRY, |queue| queue.next.is_some()),
                Ok(done) => lines = &lines[done..],
            }
        }
    }

    fn pause(&self, longest: Duration, until: impl Fn(&Queue) -> bool) {
        drop(self.0.1.wait_timeout_while(self.lock(), longest, |queue| !until(queue)));
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
