//! From the client's bytes to calls that can run. Runs on the thread that leads, or on the sentinel in its place.
//! Does not trust: the client, which decides whether a line that it has begun ever ends. Never keeps such a line for longer
//! than its time, and no long one without the supervisor's permission.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use super::{calls::Job, connection::Connection};
use crate::{
    sys::{Errno, poll, socket},
    wire::{
        Limits, RpcError,
        envelope::{self, Incoming},
        frame::{FrameBuffer, FrameError, STEP_BYTES},
    },
};

/// The supervisor answers a reservation at once, unless a dead mount holds it.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);
/// What each step of a long line adds to its time.
const STEP_TIME: Duration = Duration::from_secs(1);

/// Bytes from the client that have not become calls.
#[derive(Debug)]
pub struct Reader {
    frames: FrameBuffer,
    /// A call for which there was no place. What came before it was still read: it may be a cancellation.
    waiting: Option<Incoming>,
    /// How long the worker has waited for the rest of the line that has begun.
    waited: Duration,
}

impl Reader {
    pub fn new(limits: &Limits) -> Self {
        let frames = FrameBuffer::in_steps(max_frame(limits));
        Self { frames, waiting: None, waited: Duration::ZERO }
    }

    pub fn has_next(&mut self) -> bool {
        self.waiting.is_some() || self.frames.has_frame()
    }

    /// Whether a line has begun and not ended. Only where `has_next` is false.
    fn has_begun(&self) -> bool {
        self.frames.buffered() > 0
    }

    /// How long a line that has begun may take in all. Time in which the worker does not read because it has no place for
    /// another call does not count.
    fn time_for_line(&self, limits: &Limits) -> Duration {
        let steps = u32::try_from(self.frames.buffered() / STEP_BYTES).unwrap_or(u32::MAX);
        Duration::from_millis(limits.call_timeout_ms).saturating_add(STEP_TIME.saturating_mul(steps))
    }
}

impl Connection {
    /// Waits for bytes from the client and takes them. Only where the reader has no whole line.
    pub(super) fn wait_and_receive(&self, reader: &mut Reader) {
        let patience = if reader.has_begun() {
            Some(reader.time_for_line(&self.limits()).saturating_sub(reader.waited))
        } else {
            reader.waited = Duration::ZERO;
            None
        };
        let start = patience.map(|_| Instant::now());
        if poll::wait_for_stream(self.stream.as_fd(), patience).is_err() {
            self.leave();
        }
        let waited = start.map(|start| start.elapsed());
        self.receive(reader);
        if let Some(waited) = waited {
            self.count_wait(reader, waited);
        }
    }

    /// The client had this long to send the rest of a line, if it has begun one. Ends the connection if that was too long.
    pub(super) fn count_wait(&self, reader: &mut Reader, waited: Duration) {
        if reader.has_next() || !reader.has_begun() {
            return;
        }
        reader.waited += waited;
        let limit = reader.time_for_line(&self.limits());
        if reader.waited >= limit {
            self.answer_error(None, &RpcError::frame_overdue(limit.as_millis()));
            self.drop_line(reader);
        }
    }

    /// Takes what the client has sent, without waiting. Ends reading at the end of the stream; a client that is gone
    /// altogether no longer wants its answers.
    pub(super) fn receive(&self, reader: &mut Reader) {
        if reader.frames.wants_step() && !self.reserve_step(reader) {
            return;
        }
        match socket::receive_stream(self.stream.as_fd(), reader.frames.spare_mut()) {
            Ok(0) => {
                if poll::is_hung_up(self.stream.as_fd()) {
                    self.calls().cancel_all();
                }
                self.drop_line(reader);
            }
            Ok(len) => reader.frames.filled(len),
            Err(Errno::AGAIN) => {}
            Err(_) => self.leave(),
        }
    }

    /// Memory for one more step of a long line. Without it the line is dropped and the connection ends: only where the line
    /// ends could the next one begin, and its id is not known, so that a client could not tell which call was refused.
    fn reserve_step(&self, reader: &mut Reader) -> bool {
        let granted = self.channel.reserve(RESERVE_TIMEOUT);
        if granted {
            reader.frames.allow_step();
        } else {
            self.answer_error(None, &RpcError::frame_refused(self.limits().max_frame_bytes_per_uid));
            self.drop_line(reader);
            // Also what may be granted too late.
            self.channel.unreserve();
        }
        granted
    }

    /// Nothing more is read from this connection.
    fn drop_line(&self, reader: &mut Reader) {
        reader.frames.abandon();
        self.give_back(reader);
        self.end_reading();
    }

    /// The memory of lines that were handed out, and what was reserved for it.
    fn give_back(&self, reader: &mut Reader) {
        if reader.frames.shrink() {
            self.channel.unreserve();
        }
    }

    /// Frames up to the limit of open calls become jobs; what cannot is answered at once, as long as the answers
    /// find room.
    pub(super) fn read_frames(&self, reader: &mut Reader) -> Vec<Job> {
        let mut jobs = Vec::new();
        reader.frames.set_max_frame(max_frame(&self.limits()));
        while !self.outbox.is_full()
            && let Some(incoming) = self.next_incoming(reader)
        {
            if matches!(incoming, Incoming::Call { .. }) && !self.calls().has_place() {
                reader.waiting = Some(incoming);
                break;
            }
            match self.prepare(incoming) {
                Ok(Some(job)) => jobs.push(job),
                Ok(None) => {}
                Err((id, error)) => self.answer_error(id.as_ref(), &error),
            }
        }
        self.give_back(reader);
        jobs
    }

    fn next_incoming(&self, reader: &mut Reader) -> Option<Incoming> {
        if let Some(waiting) = reader.waiting.take() {
            return Some(waiting);
        }
        match reader.frames.next()? {
            Ok(frame) => {
                let incoming = envelope::parse(frame);
                reader.waited = Duration::ZERO;
                Some(incoming)
            }
            Err(FrameError::TooLarge { max_frame_bytes }) => {
                self.answer_error(None, &RpcError::frame_too_large(max_frame_bytes));
                self.drop_line(reader);
                None
            }
        }
    }
}

fn max_frame(limits: &Limits) -> usize {
    usize::try_from(limits.max_frame_bytes).unwrap_or(usize::MAX)
}
