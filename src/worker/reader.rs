//! Reads the client's bytes and cuts them into messages.
//! Runs in the worker, on the thread that leads. Does not trust the client, which may never finish a line that it has
//! begun. Never keeps an unfinished line beyond its deadline, and never buffers a long line without a reservation from the
//! supervisor. Knows nothing of calls and threads: what has to be done about the connection is returned as [`ReadStop`].

use std::{
    os::fd::BorrowedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    broker::Channel,
    sys::{Errno, poll},
    wire::{
        Limits, RpcError,
        envelope::{self, Incoming},
        frame::{FrameBuffer, FrameError, STEP_BYTES},
    },
};

/// The supervisor answers a reservation at once, unless its attendant blocks on a dead mount.
const RESERVATION_TIMEOUT: Duration = Duration::from_secs(2);
/// Each step of a long line extends its deadline by this time.
const STEP_TIME: Duration = Duration::from_secs(1);

/// Bytes from the client that have not become calls.
#[derive(Debug)]
pub struct FrameReader {
    frames: FrameBuffer,
    /// A call that was read while `max_calls_in_flight` calls were open. Lines before it are handled: they may be cancellations.
    parked: Option<Incoming>,
    /// Time that the worker has waited for the rest of the unfinished line.
    waited_for_frame: Duration,
}

/// Nothing more is read from this connection. The reader has dropped the unfinished line.
#[derive(Debug)]
pub struct ReadStop {
    pub reason: ReadStopReason,
    /// The reservation for the dropped line is to be released.
    pub releases_reservation: bool,
}

#[derive(Debug)]
pub enum ReadStopReason {
    /// The client sends nothing more. If it has hung up, it cannot receive replies either.
    End { hung_up: bool },
    /// The unfinished line is refused with this error.
    Refused(RpcError),
    /// The stream has failed.
    StreamFailed,
}

impl FrameReader {
    pub fn new(limits: &Limits) -> Self {
        let frames = FrameBuffer::with_reservations(max_frame_length(limits));
        Self { frames, parked: None, waited_for_frame: Duration::ZERO }
    }

    pub fn has_frame(&mut self) -> bool {
        self.parked.is_some() || self.frames.has_frame()
    }

    /// True if a line has begun and not ended. Call this only if `has_frame` is false.
    fn has_partial_frame(&self) -> bool {
        self.frames.buffered() > 0
    }

    /// Time that the client has for the unfinished line. Time in which the worker does not read because `max_calls_in_flight`
    /// calls are open does not count.
    fn time_for_frame(&self, limits: &Limits) -> Duration {
        let steps = u32::try_from(self.frames.buffered() / STEP_BYTES).unwrap_or(u32::MAX);
        Duration::from_millis(limits.call_timeout_ms).saturating_add(STEP_TIME.saturating_mul(steps))
    }

    /// Waits for bytes from the client and reads them. Call this only if the reader has no complete line. The limits may
    /// change while it waits.
    pub fn wait_and_receive(
        &mut self,
        stream: BorrowedFd<'_>,
        channel: &Channel,
        limits: impl Fn() -> Arc<Limits>,
    ) -> Result<(), ReadStop> {
        let patience = if self.has_partial_frame() {
            Some(self.time_for_frame(&limits()).saturating_sub(self.waited_for_frame))
        } else {
            self.waited_for_frame = Duration::ZERO;
            None
        };
        let start = patience.map(|_| Instant::now());
        if poll::wait_for_stream(stream, patience).is_err() {
            return Err(self.stop(ReadStopReason::StreamFailed));
        }
        let waited = start.map(|start| start.elapsed());
        self.receive(stream, channel, &limits)?;
        match waited {
            Some(waited) => self.count_wait(waited, &limits()),
            None => Ok(()),
        }
    }

    /// Adds the time that the worker has waited for the rest of an unfinished line. Refuses the line after its deadline.
    pub fn count_wait(&mut self, waited: Duration, limits: &Limits) -> Result<(), ReadStop> {
        if self.has_frame() || !self.has_partial_frame() {
            return Ok(());
        }
        self.waited_for_frame += waited;
        let limit = self.time_for_frame(limits);
        if self.waited_for_frame < limit {
            return Ok(());
        }
        Err(self.stop(ReadStopReason::Refused(RpcError::frame_overdue(limit.as_millis()))))
    }

    /// Reads the bytes that the client has sent, without waiting.
    pub fn receive(
        &mut self,
        stream: BorrowedFd<'_>,
        channel: &Channel,
        limits: impl Fn() -> Arc<Limits>,
    ) -> Result<(), ReadStop> {
        if self.frames.needs_reservation() {
            self.reserve_step(channel, limits)?;
        }
        match poll::receive_stream(stream, self.frames.spare_mut()) {
            Ok(0) => Err(self.stop(ReadStopReason::End { hung_up: poll::is_hung_up(stream) })),
            Ok(len) => {
                self.frames.filled(len);
                Ok(())
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(_) => Err(self.stop(ReadStopReason::StreamFailed)),
        }
    }

    /// Reserves memory for one more step of a long line. If that fails, refuses the line and ends the connection: the next line
    /// would begin only after the end of this one, and an error could not name the call, whose id has not been parsed.
    fn reserve_step(&mut self, channel: &Channel, limits: impl Fn() -> Arc<Limits>) -> Result<(), ReadStop> {
        if channel.reserve_step(RESERVATION_TIMEOUT) {
            self.frames.add_reserved_step();
            return Ok(());
        }
        let stop = self.stop(ReadStopReason::Refused(RpcError::frame_refused(limits().max_frame_bytes_per_uid)));
        // Also releases a step that the supervisor grants after the timeout.
        Err(ReadStop { releases_reservation: true, ..stop })
    }

    fn stop(&mut self, reason: ReadStopReason) -> ReadStop {
        self.frames.abandon();
        ReadStop { reason, releases_reservation: self.shrink() }
    }

    /// Frees the memory of parsed lines. True if the reservation for it is to be released.
    pub fn shrink(&mut self) -> bool {
        self.frames.shrink()
    }

    pub fn set_limits(&mut self, limits: &Limits) {
        self.frames.set_max_frame(max_frame_length(limits));
    }

    /// The next message that was read completely.
    pub fn next_message(&mut self) -> Option<Result<Incoming, ReadStop>> {
        if let Some(parked) = self.parked.take() {
            return Some(Ok(parked));
        }
        match self.frames.next()? {
            Ok(frame) => {
                let incoming = envelope::parse(frame);
                self.waited_for_frame = Duration::ZERO;
                Some(Ok(incoming))
            }
            Err(FrameError::TooLarge { max_frame_bytes }) => {
                Some(Err(self.stop(ReadStopReason::Refused(RpcError::frame_too_large(max_frame_bytes)))))
            }
        }
    }

    /// Keeps a call that may not be opened yet. `next_message` returns it again.
    pub fn park(&mut self, incoming: Incoming) {
        self.parked = Some(incoming);
    }
}

fn max_frame_length(limits: &Limits) -> usize {
    usize::try_from(limits.max_frame_bytes).unwrap_or(usize::MAX)
}
