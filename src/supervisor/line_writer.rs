//! Writes the log and the audit of the supervisor. Other threads put lines into a bounded queue; one thread writes them and
//! may block on a slow reader, a full disk or a dead network file system, and nothing else blocks. Two lines never run into
//! each other, even if a write was cut.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::rotation::Rotation;
use crate::sys::{Errno, host};

/// The longest line, and the most that is written in one call: a pipe takes this many bytes completely or not at all.
pub const MAX_LINE_BYTES: usize = 4096;
/// Bytes that may wait in the queue. Further lines are lost.
const MAX_UNWRITTEN_BYTES: usize = 1 << 20;
/// Pause between two attempts to write after a failure.
const WRITE_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Pause after each round of writing, so that a busy service wakes the writer a hundred times a second and not for every
/// line.
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// Time that an ending service waits until its last lines are written.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// The file that lines are written to. `ends_mid_line`: its last line is not complete.
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
    /// Writes whole lines and returns how many bytes of whole lines are written. If a write is cut in the middle of a line,
    /// the part stays, ends with a newline, and the whole line is written again: its rest could follow a line of another
    /// process, or go to a file that was emptied meanwhile.
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
    /// The writer has written all lines and waits for a notification.
    is_idle: bool,
    /// The service ends: the writer does not pause between rounds.
    is_finishing: bool,
    /// Until the writer thread starts, `push` writes to this sink itself.
    direct_sink: Option<LineSink>,
    /// The sink that the writer uses after its current write.
    next_sink: Option<LineSink>,
}

#[derive(Debug, Clone)]
pub struct LineWriter(Arc<(Mutex<LineQueue>, Condvar)>);

impl LineWriter {
    /// Starts no writer thread, because a starting process must be single-threaded.
    pub fn new(sink: LineSink) -> Self {
        let queue = LineQueue { direct_sink: Some(sink), ..LineQueue::default() };
        Self(Arc::new((Mutex::new(queue), Condvar::new())))
    }

    /// Starts the writer thread. Call this after the process has confined itself, because a thread gets the rights of the
    /// thread that starts it. A second call does nothing.
    pub fn start_writer(&self) -> io::Result<()> {
        let Some(sink) = self.lock().direct_sink.take() else { return Ok(()) };
        let lines = self.clone();
        std::thread::Builder::new().name("lines".into()).spawn(move || lines.run_writer(sink)).map(drop)
    }

    /// Queues a line. Never waits. False if the line is lost.
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

    /// Writes to `sink` from the next line on. Queued lines go there, too.
    pub fn replace_sink(&self, sink: LineSink) {
        let mut queue = self.lock();
        match &mut queue.direct_sink {
            Some(direct) => *direct = sink,
            None => queue.next_sink = Some(sink),
        }
        self.0.1.notify_all();
    }

    /// Call this at the end of the service: waits at most `FINISH_TIMEOUT` until all lines are written. False if some are
    /// not.
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
                // `append` has waited for the reader already.
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
