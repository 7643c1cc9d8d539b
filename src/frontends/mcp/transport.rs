//! Runs in `stockade mcp`: lines of the host become calls or messages for `rmcp`, and its messages become lines.
//! Does not trust the host: a line is bounded, one that is no message is answered and the next is read, and no more is
//! read than can be worked on.
//!
//! Not `rmcp`'s own transport: that one is silent about a line it cannot read, so that whoever sent it waits for ever, and
//! reads on however many requests are unanswered.

use std::{
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequest, ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode,
        JsonRpcNotification, JsonRpcRequest, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde::Deserialize;
use serde_json::error::Category;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::Notify,
};

use super::{
    calls::{self, Calls},
    outbox::Outbox,
};
use crate::wire::json::{self, JsonError};

/// The wire's largest frame: what a line may hold beyond that, the service would refuse.
const MAX_LINE_BYTES: usize = 64 << 20;

/// What one read has room for, at least.
const CHUNK_BYTES: usize = 64 << 10;
/// What is kept for the next long line.
const KEPT_BYTES: usize = 4 << 20;

/// Requests that are worked on at once. More than the service takes from one connection (64), so that a cancellation
/// behind a full queue is still read.
const MAX_IN_FLIGHT: usize = 256;

/// What is read while nothing can be worked on, to hear that the host has said its last. Behind more it is not heard until there
/// is room.
const AHEAD_BYTES: usize = 1 << 20;

/// Messages that are given out before whoever works on them has a turn, so that the desk knows of them. Not one: a turn
/// costs a system call.
const GIVEN_AT_ONCE: u32 = 16;

pub(super) type HostReader = Box<dyn AsyncRead + Send + Unpin>;

/// How many requests are being worked on, and whether the conversation has begun.
#[derive(Debug, Default)]
pub(super) struct Desk {
    in_flight: AtomicUsize,
    one_done: Notify,
    is_open: AtomicBool,
    is_greeted: AtomicBool,
    is_introduced: AtomicBool,
    /// The host has said its last, or a line of its last was taken.
    ended: Notify,
}

/// One request being worked on.
#[derive(Debug)]
pub(super) struct Working(Arc<Desk>);

impl Desk {
    pub(super) fn begin(self: &Arc<Self>) -> Working {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Working(Arc::clone(self))
    }

    /// `initialize` came, or a request that needs none. Before that `rmcp` gives up on anything but a request. True the first
    /// time.
    pub(super) fn open(&self) -> bool {
        !self.is_open.swap(true, Ordering::Relaxed)
    }

    /// `initialize` came. If it was not the first word, what was agreed on is for `rmcp` to know.
    pub(super) fn greet(&self, is_handshake: bool) {
        self.is_greeted.store(self.open() && is_handshake, Ordering::Relaxed);
        self.is_introduced.store(false, Ordering::Relaxed);
    }

    /// The handshake is over: nothing is left to agree on.
    pub(super) fn introduce(&self) {
        self.is_introduced.store(self.is_greeted.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Waits until the host has said its last and then, for so long, no line was taken and no request has ended.
    pub(super) async fn stands_still(&self, patience: Duration) {
        self.ended.notified().await;
        let moves = || async {
            tokio::select! {
                () = self.ended.notified() => {}
                () = self.one_done.notified() => {}
            }
        };
        while tokio::time::timeout(patience, moves()).await.is_ok() {}
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    async fn at_most(&self, in_flight: usize) {
        let is_reached = || self.in_flight() <= in_flight;
        while !is_reached() {
            let mut done = pin!(self.one_done.notified());
            done.as_mut().enable();
            if !is_reached() {
                done.await;
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.one_done.notify_waiters();
    }
}

pub(super) struct Lines {
    reader: HostReader,
    /// Cleared once, so that reading into it costs nothing more.
    pending: Vec<u8>,
    /// Of `pending`, received.
    end: usize,
    /// Of `pending`, consumed.
    begin: usize,
    /// Of `pending`, searched for a line end without finding one.
    scanned: usize,
    /// Inside a line that was too long; it ends at the next line end.
    is_skipping: bool,
    /// Nothing more comes.
    is_at_end: bool,
    /// Messages given out since others had a turn.
    given: u32,
    outbox: Arc<Outbox>,
    desk: Arc<Desk>,
    calls: Calls,
}

impl Lines {
    pub(super) fn new(reader: HostReader, outbox: Arc<Outbox>, desk: Arc<Desk>, calls: Calls) -> Self {
        Self {
            reader,
            pending: vec![0; CHUNK_BYTES],
            end: 0,
            begin: 0,
            scanned: 0,
            is_skipping: false,
            is_at_end: false,
            given: 0,
            outbox,
            desk,
            calls,
        }
    }

    /// The next whole line that is in memory, as a range of `pending`.
    fn take_line(&mut self) -> Option<(usize, usize)> {
        let at = memchr::memchr(b'\n', &self.pending[self.scanned..self.end]);
        let Some(at) = at else {
            self.scanned = self.end;
            return None;
        };
        let line = (self.begin, self.scanned + at);
        self.begin = line.1 + 1;
        self.scanned = self.begin;
        Some(line)
    }

    /// Reads once. Nothing is lost when it is dropped while it waits.
    async fn fill(&mut self) {
        self.pending.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.scanned -= self.begin;
        self.begin = 0;
        if self.end > MAX_LINE_BYTES {
            (self.end, self.scanned) = (0, 0);
            if !self.is_skipping {
                self.is_skipping = true;
                self.refuse(
                    ErrorCode::INVALID_REQUEST,
                    format!("the line is longer than {MAX_LINE_BYTES} bytes"),
                    None,
                );
            }
        }
        if self.pending.len() > KEPT_BYTES && self.end < CHUNK_BYTES {
            self.pending.truncate(KEPT_BYTES);
            self.pending.shrink_to_fit();
        } else if self.pending.len() - self.end < CHUNK_BYTES {
            self.pending.resize((2 * self.pending.len()).min(MAX_LINE_BYTES + 2 * CHUNK_BYTES), 0);
        }
        let received = self.reader.read(&mut self.pending[self.end..]).await.unwrap_or(0);
        self.end += received;
        if received == 0 {
            // The last line may lack its end.
            self.pending[self.end] = b'\n';
            self.end += 1;
            self.is_at_end = true;
            self.desk.ended.notify_one();
        }
    }

    /// Waits until one more line can be worked on.
    async fn room(&mut self) {
        let has_room =
            |desk: &Desk, outbox: &Outbox| desk.in_flight() < MAX_IN_FLIGHT && !outbox.backlog().is_full();
        while !has_room(&self.desk, &self.outbox) {
            let (desk, outbox) = (self.desk.clone(), self.outbox.clone());
            let reads_ahead = !self.is_at_end && self.end - self.begin < AHEAD_BYTES;
            tokio::select! {
                () = async {
                    desk.at_most(MAX_IN_FLIGHT - 1).await;
                    outbox.backlog().room().await;
                } => {}
                () = self.fill(), if reads_ahead => {}
            }
        }
    }

    fn refuse(&self, code: ErrorCode, why: String, id: Option<RequestId>) {
        // A host that is gone is noticed by whoever writes to it.
        let error = ServerJsonRpcMessage::error(ErrorData::new(code, why, None), id);
        let _ = self.outbox.push(&error);
    }

    /// A message for `rmcp`, unless the line is none (which is answered), says nothing that needs an answer, or is about a call
    /// that does not need it.
    fn understand(&self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        if calls::is_named_in(line) {
            if self.desk.is_introduced.load(Ordering::Relaxed) && self.calls.take(line) {
                return None;
            }
            if let Err(error @ JsonError::DuplicateKey(_)) = json::parse(line) {
                self.refuse_shape(line, format!("C210 {error}: send each argument once"));
                return None;
            }
            if let Some(call) = tool_call(line) {
                return Some(call);
            }
        }
        match serde_json::from_slice(line) {
            Ok(ClientJsonRpcMessage::Request(request)) => Some(ClientJsonRpcMessage::Request(request)),
            // In the order of the lines: the id may be another call's in the next.
            Ok(ClientJsonRpcMessage::Notification(JsonRpcNotification {
                notification: ClientNotification::CancelledNotification(cancelled),
                ..
            })) if self.calls.cancel(&cancelled.params) => None,
            Ok(message) => self.desk.is_open.load(Ordering::Relaxed).then_some(message),
            Err(error) if matches!(error.classify(), Category::Data) => {
                let why = "not a JSON-RPC 2.0 message: expected one object with jsonrpc, method and id";
                self.refuse_shape(line, why.to_owned());
                None
            }
            Err(error) => {
                self.refuse(ErrorCode::PARSE_ERROR, format!("the line is not JSON: {error}"), None);
                None
            }
        }
    }

    /// Answers JSON that is no message.
    fn refuse_shape(&self, line: &[u8], why: String) {
        #[derive(Deserialize)]
        struct Any {
            id: Option<RequestId>,
            method: Option<String>,
        }
        let any: Option<Any> = serde_json::from_slice(line).ok();
        // What has a method and no id is a notification, and those are never answered.
        if any.as_ref().is_some_and(|any| any.id.is_none() && any.method.is_some()) {
            return;
        }
        self.refuse(ErrorCode::INVALID_REQUEST, why, any.and_then(|any| any.id));
    }
}

/// One that is not plain, or of a host that has not introduced itself. Understood at once, without being tried as every other
/// message first, which costs more than the rest of the bridge's work on a small call.
fn tool_call(line: &[u8]) -> Option<ClientJsonRpcMessage> {
    let JsonRpcRequest { jsonrpc, id, request }: JsonRpcRequest<CallToolRequest> =
        serde_json::from_slice(line).ok()?;
    let request = ClientRequest::CallToolRequest(request);
    Some(ClientJsonRpcMessage::Request(JsonRpcRequest { jsonrpc, id, request }))
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    /// The line is queued before the future is first looked at: replies leave in the order they were made.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        std::future::ready(self.outbox.push(&message))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if self.given >= GIVEN_AT_ONCE {
            self.given = 0;
            tokio::task::yield_now().await;
        }
        loop {
            // Asked for each line: a read may bring thousands.
            self.room().await;
            if let Some((begin, end)) = self.take_line() {
                if self.is_at_end {
                    self.desk.ended.notify_one();
                }
                if !std::mem::take(&mut self.is_skipping)
                    && let Some(message) = self.understand(&self.pending[begin..end])
                {
                    self.given += 1;
                    return Some(message);
                }
            } else if self.is_at_end {
                break;
            } else {
                self.fill().await;
            }
        }
        // The host may still read the answers.
        self.desk.at_most(0).await;
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
