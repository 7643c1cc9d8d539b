//! One connection with many calls in flight, each of which can be cancelled. Runs in frontends that serve others (MCP).
//! Trusts nothing it reads: `replies` bounds and parses it, as for the blocking client. Never retries, and cancels a call
//! whose future is dropped, so that no abandoned call keeps running.

use std::{
    collections::HashMap,
    io::{self, Write},
    os::unix::net::UnixStream,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Notify, OwnedSemaphorePermit, oneshot},
};

use super::{CallError, LONGEST_CALL, REPLY_GRACE, frame_call, is_hang_up, replies::ReplyReader};
use crate::frontends::socket_halves::{self, SocketReader, SocketWriter};

type CallResult = Result<Box<RawValue>, CallError>;

/// Bytes that the host has not read yet. While it is full, no reply is read from the service, which then stops reading from us. So
/// memory stays bounded, however little the host reads and however much it asks for.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: AtomicUsize,
    bytes_removed: Notify,
}

/// Enough to keep a reader busy.
const MAX_BACKLOG_BYTES: usize = 1 << 20;

impl Backlog {
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes_removed.notify_waiters();
    }

    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= MAX_BACKLOG_BYTES
    }

    /// Waits until there is room.
    pub async fn wait_until_not_full(&self) {
        self.wait_until_below(MAX_BACKLOG_BYTES).await;
    }

    /// Waits until everything is taken.
    pub async fn wait_until_empty(&self) {
        self.wait_until_below(1).await;
    }

    async fn wait_until_below(&self, limit: usize) {
        let is_above = || self.bytes.load(Ordering::Relaxed) >= limit;
        while is_above() {
            let mut taken = pin!(self.bytes_removed.notified());
            // From here on notifications count; the second test sees what happened before.
            taken.as_mut().enable();
            if is_above() {
                taken.await;
            }
        }
    }
}

/// One connection, shared by all callers. It closes when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Pipeline(Arc<DriverGuard>);

/// Ends the task that drives the connection.
#[derive(Debug)]
struct DriverGuard {
    shared: Arc<PipelineShared>,
    driver: tokio::task::AbortHandle,
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[derive(Debug)]
struct PipelineShared {
    /// Calls are written here directly if the socket takes them at once; the driver task sends the rest.
    stream: UnixStream,
    state: Mutex<PipelineState>,
    /// There is something to send.
    outgoing: Notify,
}

#[derive(Debug, Default)]
struct PipelineState {
    last_id: u64,
    pending_calls: HashMap<u64, PendingCall>,
    /// Bytes that the socket has not taken yet. Bounded by the calls in flight, which the caller bounds.
    unsent: Vec<u8>,
    /// The driver is sending bytes that it took from `unsent`, so no other bytes may be written before they are.
    is_sending: bool,
    /// The driver checks deadlines.
    checks_deadlines: bool,
    /// Why there will be no more replies.
    end_error: Option<CallError>,
}

#[derive(Debug)]
struct PendingCall {
    /// None once the caller stopped waiting: the service has the call open until it replies.
    reply: Option<oneshot::Sender<CallResult>>,
    /// When to stop waiting for the reply.
    deadline: Instant,
    /// Given back with the call.
    _permit: Option<OwnedSemaphorePermit>,
}

impl PendingCall {
    fn complete(self, outcome: CallResult) {
        if let Some(reply) = self.reply {
            // The caller may have stopped waiting.
            let _ = reply.send(outcome);
        }
    }
}

impl PipelineShared {
    /// A panic cannot leave the state inconsistent, because every change is one statement.
    fn state(&self) -> MutexGuard<'_, PipelineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the socket takes at once, which is nearly always everything, so that the driver need not be woken. The driver
    /// sends the rest and handles errors.
    fn send(&self, mut state: MutexGuard<'_, PipelineState>, frame: &[u8]) {
        let is_free = state.unsent.is_empty() && !state.is_sending;
        let sent = if is_free { (&self.stream).write(frame).unwrap_or(0) } else { 0 };
        state.unsent.extend_from_slice(&frame[sent..]);
        let was_watched = std::mem::replace(&mut state.checks_deadlines, true);
        let is_left = !state.unsent.is_empty();
        drop(state);
        if is_left || !was_watched {
            self.outgoing.notify_one();
        }
    }

    fn fail_pending_calls(&self, why: &CallError) {
        let mut state = self.state();
        state.end_error.get_or_insert_with(|| why.clone());
        for (_, waiter) in state.pending_calls.drain() {
            waiter.complete(Err(why.clone()));
        }
    }

    /// Ends and cancels calls whose reply is far too late. Stops the checks of deadlines while no call is open.
    fn cancel_overdue_calls(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let late: Vec<u64> =
            state.pending_calls.iter().filter(|(_, waiter)| waiter.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            let Some(waiter) = state.pending_calls.remove(&id) else { continue };
            if waiter.reply.is_some() {
                state.unsent.extend_from_slice(cancel_frame(id).as_bytes());
            }
            waiter.complete(Err(CallError::TimedOut));
        }
        state.checks_deadlines = !state.pending_calls.is_empty();
    }
}

fn cancel_frame(id: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{{\"id\":{id}}}}}\n")
}

impl Pipeline {
    /// Has to be called inside a runtime.
    pub fn new(stream: UnixStream, backlog: Arc<Backlog>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (reader, writer) =
            (socket_halves::socket_reader(stream.try_clone()?)?, socket_halves::socket_writer(stream.try_clone()?));
        let shared = Arc::new(PipelineShared { stream, state: Mutex::default(), outgoing: Notify::new() });
        let driver = tokio::spawn(drive(reader, writer, shared.clone(), backlog)).abort_handle();
        Ok(Self(Arc::new(DriverGuard { shared, driver })))
    }

    /// Sends one call and waits for its reply; `params` is JSON text of an object. Dropping the future cancels the call.
    /// `place` is kept until the service has answered, also then.
    pub async fn call(
        &self,
        method: &str,
        params: &str,
        timeout: Option<Duration>,
        place: Option<OwnedSemaphorePermit>,
    ) -> CallResult {
        let shared = &self.0.shared;
        let (reply, receiver) = oneshot::channel();
        let deadline = Instant::now() + timeout.unwrap_or(LONGEST_CALL) + REPLY_GRACE;
        let _cancelled_if_dropped = {
            let mut state = shared.state();
            if let Some(why) = &state.end_error {
                return Err(why.clone());
            }
            state.last_id += 1;
            let id = state.last_id;
            let frame = frame_call(id, method, params, timeout)?;
            state.pending_calls.insert(id, PendingCall { reply: Some(reply), deadline, _permit: place });
            shared.send(state, &frame);
            CancelOnDrop { shared, id }
        };
        receiver.await.unwrap_or(Err(CallError::Closed))
    }

    /// True if the connection has ended, so that every further call would fail.
    pub fn is_ended(&self) -> bool {
        self.0.shared.state().end_error.is_some()
    }
}

/// A call without its reply. Dropped before that, it is cancelled.
struct CancelOnDrop<'a> {
    shared: &'a PipelineShared,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // The entry exists until a reply arrives.
        if let Some(waiter) = state.pending_calls.get_mut(&self.id) {
            waiter.reply = None;
            waiter.deadline = Instant::now() + REPLY_GRACE;
            self.shared.send(state, cancel_frame(self.id).as_bytes());
        }
    }
}

/// How often the driver checks deadlines. They only end calls that the service itself failed to end. One timer serves all calls,
/// because setting one costs a system call.
const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Moves bytes in both directions until the connection ends, then fails all calls that still wait.
async fn drive(mut reader: SocketReader, mut writer: SocketWriter, shared: Arc<PipelineShared>, backlog: Arc<Backlog>) {
    let why = exchange(&mut reader, &mut writer, &shared, &backlog).await;
    shared.fail_pending_calls(&why);
    // Shuts the socket down, because clones of the pipeline may keep it open and the service would not see the end.
    let _ = shared.stream.shutdown(std::net::Shutdown::Both);
}

async fn exchange(
    reader: &mut SocketReader,
    writer: &mut SocketWriter,
    shared: &PipelineShared,
    backlog: &Backlog,
) -> CallError {
    let mut replies = ReplyReader::default();
    let mut sending: Vec<u8> = Vec::new();
    let mut sent = 0;
    // A service that refuses the connection has written the reason, which can be read although it takes no more bytes.
    let mut takes_more = true;
    let mut look = pin!(tokio::time::sleep(DEADLINE_CHECK_INTERVAL));
    loop {
        if sent == sending.len() && takes_more {
            sending.clear();
            sent = 0;
            let mut state = shared.state();
            std::mem::swap(&mut sending, &mut state.unsent);
            state.is_sending = !sending.is_empty();
        }
        let wants_write = takes_more && sent < sending.len();
        let is_watched = shared.state().checks_deadlines;
        tokio::select! {
            biased;
            written = writer.write(&sending[sent..]), if wants_write => match written {
                Ok(count) => sent += count,
                Err(error) if is_hang_up(&error) => takes_more = false,
                Err(error) => return CallError::Io(error.to_string()),
            },
            received = async {
                backlog.wait_until_not_full().await;
                reader.read(replies.spare_mut()).await
            } => if let Err(why) = deliver_replies(&mut replies, received, shared) {
                return why;
            },
            () = shared.outgoing.notified(), if (!wants_write && takes_more) || !is_watched => {}
            () = &mut look, if is_watched => {
                shared.cancel_overdue_calls();
                look.as_mut().reset(tokio::time::Instant::now() + DEADLINE_CHECK_INTERVAL);
            }
        }
    }
}

/// Hands each reply to the call that waits for it.
fn deliver_replies(
    replies: &mut ReplyReader,
    received: io::Result<usize>,
    shared: &PipelineShared,
) -> Result<(), CallError> {
    replies.accept_read(received)?;
    while let Some(reply) = replies.next_reply() {
        let reply = reply?;
        let waiter = shared.state().pending_calls.remove(&reply.id);
        if let Some(waiter) = waiter {
            waiter.complete(reply.outcome.map_err(CallError::Remote));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "pipelined_tests.rs"]
mod tests;
