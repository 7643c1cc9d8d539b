//! Reads the client's bytes and turns lines into calls. Runs on the leading thread, or on the sentinel instead of it.
//! Does not trust: the client, which may never finish a line that it has begun. Never keeps an unfinished line beyond its
//! deadline, and never buffers a long line without a reservation from the supervisor.

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

/// The supervisor answers a reservation at once, unless its attendant blocks on a dead mount.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Each step of a long line extends its deadline by this time.
const STEP_TIME: Duration = Duration::from_secs(1);

/// Bytes from the client that have not become calls.
#[derive(Debug)]
pub struct Reader {
    frames: FrameBuffer,
    /// A call that was read while `max_calls_in_flight` calls were open. Lines before it are handled: they may be cancellations.
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

    /// How long the client may take for the line that has begun. Time in which the worker does not read because
    /// `max_calls_in_flight` calls are open does not count.
    fn time_for_line(&self, limits: &Limits) -> Duration {
        let steps = u32::try_from(self.frames.buffered() / STEP_BYTES).unwrap_or(u32::MAX);
        Duration::from_millis(limits.call_timeout_ms).saturating_add(STEP_TIME.saturating_mul(steps))
    }
}

impl Connection {
    /// Waits for bytes from the client and reads them. Call this only if the reader has no complete line.
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

    /// Adds the time that the worker has waited for the rest of an unfinished line. Ends the connection after its deadline.
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

    /// Reads the bytes that the client has sent, without waiting. Ends reading at the end of the stream. Cancels all calls if the
    /// client has hung up, because it cannot receive answers.
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

    /// Reserves memory for one more step of a long line. If that fails, drops the line and ends the connection: the next line
    /// would begin only after the end of this one, and an error could not name the call, whose id has not been parsed.
    fn reserve_step(&self, reader: &mut Reader) -> bool {
        let granted = self.channel.reserve(RESERVE_TIMEOUT);
        if granted {
            reader.frames.allow_step();
        } else {
            self.answer_error(None, &RpcError::frame_refused(self.limits().max_frame_bytes_per_uid));
            self.drop_line(reader);
            // Also releases a step that the supervisor grants after the timeout.
            self.channel.unreserve();
        }
        granted
    }

    /// Drops the unfinished line. The worker reads nothing more from this connection.
    fn drop_line(&self, reader: &mut Reader) {
        reader.frames.abandon();
        self.give_back(reader);
        self.end_reading();
    }

    /// Frees the memory of parsed lines and releases its reservation.
    fn give_back(&self, reader: &mut Reader) {
        if reader.frames.shrink() {
            self.channel.unreserve();
        }
    }

    /// Turns lines into jobs, up to `max_calls_in_flight`. Answers lines that cannot become jobs at once, as long as the outbox
    /// has room.
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
