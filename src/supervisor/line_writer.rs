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
const MAX_UNWRITTEN_BYTES: usize = 1 << 20;
/// Between two attempts to write where the last one failed.
const WRITE_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// After each round of writing, so that a busy service wakes the writer a hundred times a second and not for every line.
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// What a service that ends waits for its last lines.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Where lines go, and whether the last one there lacks its end.
#[derive(Debug)]
pub struct LineSink {
    pub fd: OwnedFd,
    pub ends_mid_line: bool,
    /// Set for a file that several processes append to.
    pub rotation: Option<Rotation>,
}

impl From<OwnedFd> for LineSink {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, ends_mid_line: false, rotation: None }
    }
}

impl LineSink {
    /// Whole lines in, whole lines done. One that was written in part stays as it is, on a line of its own, and is written
    /// again: its rest could end up behind somebody else's line, or in a file that was emptied meanwhile.
    fn append(&mut self, lines: &[u8], patience: Duration) -> Result<usize, Errno> {
        let _held = match &self.rotation {
            Some(rotation) => Some(rotation.lock_current_file(&mut self.fd, &mut self.ends_mid_line, patience)?),
            None => None,
        };
        let end: &[u8] = if self.ends_mid_line { b"\n" } else { b"" };
        let written = host::append(&self.fd, &[end, lines].concat(), patience)?;
        let Some(written) = written.checked_sub(end.len()) else { return Ok(0) };
        let whole = end_of_last_line(&lines[..written]);
        self.ends_mid_line = whole < written;
        Ok(whole)
    }
}

fn end_of_last_line(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1)
}

#[derive(Debug, Default)]
struct LineQueue {
    unwritten: Vec<u8>,
    /// The writer has nothing to do and waits to be told.
    is_idle: bool,
    /// The service ends: no more lingering.
    is_finishing: bool,
    /// Until there is a writer, lines are written by whoever has them.
    direct_sink: Option<LineSink>,
    /// What the writer goes on with, once it is done with the line in its hands.
    next_sink: Option<LineSink>,
}

#[derive(Debug, Clone)]
pub struct LineWriter(Arc<(Mutex<LineQueue>, Condvar)>);

impl LineWriter {
    /// Without a writer yet: the start of a process is single-threaded.
    pub fn new(sink: LineSink) -> Self {
        let queue = LineQueue { direct_sink: Some(sink), ..LineQueue::default() };
        Self(Arc::new((Mutex::new(queue), Condvar::new())))
    }

    /// To be called once confined: a thread has the rights of the one that starts it. Twice does no harm.
    pub fn start_writer(&self) -> io::Result<()> {
        let Some(sink) = self.lock().direct_sink.take() else { return Ok(()) };
        let lines = self.clone();
        std::thread::Builder::new().name("lines".into()).spawn(move || lines.run_writer(sink)).map(drop)
    }

    /// Never waits. False: the line is lost.
    pub fn push(&self, line: &[u8]) -> bool {
        let mut queue = self.lock();
        if line.len() > MAX_LINE_BYTES || queue.unwritten.len() + line.len() > MAX_UNWRITTEN_BYTES {
            return false;
        }
        if let Some(sink) = &mut queue.direct_sink {
            return sink.append(line, Duration::ZERO) == Ok(line.len());
        }
        queue.unwritten.extend_from_slice(line);
        if queue.is_idle {
            self.0.1.notify_all();
        }
        true
    }

    /// From the next line on; those that wait go there, too.
    pub fn replace_sink(&self, sink: LineSink) {
        let mut queue = self.lock();
        match &mut queue.direct_sink {
            Some(direct) => *direct = sink,
            None => queue.next_sink = Some(sink),
        }
        self.0.1.notify_all();
    }

    /// For the end of the service: waits a little until everything is written. False: not everything is.
    pub fn finish(&self) -> bool {
        let until = Instant::now() + FINISH_TIMEOUT;
        let mut queue = self.lock();
        queue.is_finishing = true;
        self.0.1.notify_all();
        while queue.direct_sink.is_none() && !(queue.is_idle && queue.unwritten.is_empty()) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            queue = self.0.1.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_writer(&self, mut sink: LineSink) {
        loop {
            let mut queue = self.lock();
            while queue.unwritten.is_empty() {
                queue.is_idle = true;
                self.0.1.notify_all();
                queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.is_idle = false;
            let lines = std::mem::take(&mut queue.unwritten);
            drop(queue);
            self.write_all(&mut sink, &lines);
            self.pause(BATCH_PAUSE, |queue| queue.is_finishing);
        }
    }

    fn write_all(&self, sink: &mut LineSink, mut lines: &[u8]) {
        while !lines.is_empty() {
            let mut queue = self.lock();
            if let Some(next) = queue.next_sink.take() {
                *sink = next;
            }
            drop(queue);
            let together = end_of_last_line(&lines[..lines.len().min(MAX_LINE_BYTES)]);
            match sink.append(&lines[..together], WRITE_RETRY_PAUSE) {
                // A reader that takes nothing has been waited for already.
                Err(Errno::AGAIN) => {}
                Ok(0) | Err(_) => self.pause(WRITE_RETRY_PAUSE, |queue| queue.next_sink.is_some()),
                Ok(done) => lines = &lines[done..],
            }
        }
    }

    fn pause(&self, longest: Duration, until: impl Fn(&LineQueue) -> bool) {
        drop(self.0.1.wait_timeout_while(self.lock(), longest, |queue| !until(queue)));
    }
}

#[cfg(test)]
#[path = "line_writer_tests.rs"]
mod tests;
