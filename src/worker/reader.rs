//! Reads the client's bytes and cuts them into messages.
//! Runs in the worker, on the thread that leads. Does not trust the client, which may never finish a line that it has
//! begun. Never keeps an unfinished line beyond its deadline, and never buffers a long line without a reservation from the
//! supervisor. Knows nothing of calls and threads: what has to be done about the connection is returned as [`Stop`].

use std::{
    os::fd::BorrowedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    broker::Channel,
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
    parked: Option<Incoming>,
    /// How long the worker has waited for the rest of the line that has begun.
    waited: Duration,
}

/// Nothing more is read from this connection. The reader has dropped the unfinished line.
#[derive(Debug)]
pub struct Stop {
    pub reason: Reason,
    /// The reservation for the dropped line is to be released.
    pub releases: bool,
}

#[derive(Debug)]
pub enum Reason {
    /// The client sends nothing more. If it has hung up, it cannot receive replies either.
    End { hung_up: bool },
    /// The unfinished line is refused with this error.
    Refused(RpcError),
    /// The stream has failed.
    Lost,
}

impl Reader {
    pub fn new(limits: &Limits) -> Self {
        let frames = FrameBuffer::in_steps(max_frame(limits));
        Self { frames, parked: None, waited: Duration::ZERO }
    }

    pub fn has_next(&mut self) -> bool {
        self.parked.is_some() || self.frames.has_frame()
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

    /// Waits for bytes from the client and reads them. Call this only if the reader has no complete line. The limits may
    /// change while it waits.
    pub fn wait_and_receive(
        &mut self,
        stream: BorrowedFd<'_>,
        channel: &Channel,
        limits: impl Fn() -> Arc<Limits>,
    ) -> Result<(), Stop> {
        let patience = if self.has_begun() {
            Some(self.time_for_line(&limits()).saturating_sub(self.waited))
        } else {
            self.waited = Duration::ZERO;
            None
        };
        let start = patience.map(|_| Instant::now());
        if poll::wait_for_stream(stream, patience).is_err() {
            return Err(self.stop(Reason::Lost));
        }
        let waited = start.map(|start| start.elapsed());
        self.receive(stream, channel, &limits)?;
        match waited {
            Some(waited) => self.count_wait(waited, &limits()),
            None => Ok(()),
        }
    }

    /// Adds the time that the worker has waited for the rest of an unfinished line. Refuses the line after its deadline.
    pub fn count_wait(&mut self, waited: Duration, limits: &Limits) -> Result<(), Stop> {
        if self.has_next() || !self.has_begun() {
            return Ok(());
        }
        self.waited += waited;
        let limit = self.time_for_line(limits);
        if self.waited < limit {
            return Ok(());
        }
        Err(self.stop(Reason::Refused(RpcError::frame_overdue(limit.as_millis()))))
    }

    /// Reads the bytes that the client has sent, without waiting.
    pub fn receive(
        &mut self,
        stream: BorrowedFd<'_>,
        channel: &Channel,
        limits: impl Fn() -> Arc<Limits>,
    ) -> Result<(), Stop> {
        if self.frames.wants_step() {
            self.reserve_step(channel, limits)?;
        }
        match socket::receive_stream(stream, self.frames.spare_mut()) {
            Ok(0) => Err(self.stop(Reason::End { hung_up: poll::is_hung_up(stream) })),
            Ok(len) => {
                self.frames.filled(len);
                Ok(())
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(_) => Err(self.stop(Reason::Lost)),
        }
    }

    /// Reserves memory for one more step of a long line. If that fails, refuses the line and ends the connection: the next line
    /// would begin only after the end of this one, and an error could not name the call, whose id has not been parsed.
    fn reserve_step(&mut self, channel: &Channel, limits: impl Fn() -> Arc<Limits>) -> Result<(), Stop> {
        if channel.reserve(RESERVE_TIMEOUT) {
            self.frames.allow_step();
            return Ok(());
        }
        let stop = self.stop(Reason::Refused(RpcError::frame_refused(limits().max_frame_bytes_per_uid)));
        // Also releases a step that the supervisor grants after the timeout.
        Err(Stop { releases: true, ..stop })
    }

    fn stop(&mut self, reason: Reason) -> Stop {
        self.frames.abandon();
        Stop { reason, releases: self.shrink() }
    }

    /// Frees the memory of parsed lines. True if the reservation for it is to be released.
    pub fn shrink(&mut self) -> bool {
        self.frames.shrink()
    }

    pub fn set_limits(&mut self, limits: &Limits) {
        self.frames.set_max_frame(max_frame(limits));
    }

    /// The next message that was read completely.
    pub fn next(&mut self) -> Option<Result<Incoming, Stop>> {
        if let Some(parked) = self.parked.take() {
            return Some(Ok(parked));
        }
        match self.frames.next()? {
            Ok(frame) => {
                let incoming = envelope::parse(frame);
                self.waited = Duration::ZERO;
                Some(Ok(incoming))
            }
            Err(FrameError::TooLarge { max_frame_bytes }) => {
                Some(Err(self.stop(Reason::Refused(RpcError::frame_too_large(max_frame_bytes)))))
            }
        }
    }

    /// Keeps a call that may not be opened yet. `next` returns it again.
    pub fn park(&mut self, incoming: Incoming) {
        self.parked = Some(incoming);
    }
}

fn max_frame(limits: &Limits) -> usize {
    usize::try_from(limits.max_frame_bytes).unwrap_or(usize::MAX)
}
