//! Runs in `stockade mcp`: reads the host's lines and hands each to the server.
//! Does not trust the host: a line is bounded, one that is too long is answered and the next is read, and no more lines are
//! handed on than the bridge can work on.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::Notify,
};

use super::{
    message::{INVALID_REQUEST, McpError},
    outbox::HostOutbox,
    server::McpServer,
};
use crate::wire::frame::FrameBuffer;

/// The largest frame of the wire: the service would refuse a longer request.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Buffer that stays for the next long line.
const KEPT_BYTES: usize = 4 << 20;

/// Requests in progress at the same time. More than the service takes from one connection (64), so that a cancellation after
/// a full queue is still read.
const MAX_IN_FLIGHT: usize = 256;

/// Bytes that are read while no further request can be started, to notice the end of the input. After more bytes, the end is
/// noticed only when a request can start again.
const READ_AHEAD_BYTES: usize = 1 << 20;

pub(super) type HostReader = Box<dyn AsyncRead + Send + Unpin>;

/// The number of requests in progress, and whether the input has ended.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    count: AtomicUsize,
    request_done: Notify,
    /// The input has ended, or one of the lines before its end was handed on.
    input_progress: Notify,
}

/// One request in progress.
#[derive(Debug)]
pub(super) struct InFlightGuard(Arc<InFlightRequests>);

impl InFlightRequests {
    pub(super) fn begin(self: &Arc<Self>) -> InFlightGuard {
        self.count.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(Arc::clone(self))
    }

    /// Waits until the input has ended and then, for `patience`, no line was handed on and no request has ended.
    pub(super) async fn wait_until_idle(&self, patience: Duration) {
        self.input_progress.notified().await;
        let moves = || async {
            tokio::select! {
                () = self.input_progress.notified() => {}
                () = self.request_done.notified() => {}
            }
        };
        while tokio::time::timeout(patience, moves()).await.is_ok() {}
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    async fn wait_for_at_most(&self, in_flight: usize) {
        let is_reached = || self.count() <= in_flight;
        while !is_reached() {
            let mut done = pin!(self.request_done.notified());
            done.as_mut().enable();
            if !is_reached() {
                done.await;
            }
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.request_done.notify_waiters();
    }
}

pub(super) struct HostInput {
    reader: HostReader,
    lines: FrameBuffer,
    is_at_end: bool,
    outbox: Arc<HostOutbox>,
    in_flight: Arc<InFlightRequests>,
}

impl HostInput {
    pub(super) fn new(reader: HostReader, outbox: Arc<HostOutbox>, desk: Arc<InFlightRequests>) -> Self {
        let lines = FrameBuffer::new(MAX_LINE_BYTES).with_kept_bytes(KEPT_BYTES);
        Self { reader, lines, is_at_end: false, outbox, in_flight: desk }
    }

    /// Hands every line to the server, until the input has ended and all requests have their replies.
    pub(super) async fn serve(mut self, mut server: McpServer) {
        loop {
            // For each line: one read may bring thousands.
            self.wait_for_capacity().await;
            match self.lines.next() {
                Some(Ok(line)) => {
                    server.handle_line(line);
                    if self.is_at_end {
                        self.in_flight.input_progress.notify_one();
                    }
                }
                Some(Err(too_large)) => {
                    self.outbox.reply_error(None, &McpError::new(INVALID_REQUEST, too_large.to_string()));
                    self.lines.skip_frame();
                }
                None if self.is_at_end => break,
                None => self.read_more().await,
            }
        }
        // The host may still read the replies.
        self.in_flight.wait_for_at_most(0).await;
    }

    async fn read_more(&mut self) {
        let received = self.reader.read(self.lines.spare_mut()).await.unwrap_or(0);
        self.lines.filled(received);
        if received == 0 {
            // The last line may lack its end.
            if let Some(end) = self.lines.spare_mut().first_mut() {
                *end = b'\n';
                self.lines.filled(1);
            }
            self.is_at_end = true;
            self.in_flight.input_progress.notify_one();
        }
    }

    /// Waits until one more line can be worked on.
    async fn wait_for_capacity(&mut self) {
        let has_room =
            |desk: &InFlightRequests, outbox: &HostOutbox| desk.count() < MAX_IN_FLIGHT && !outbox.backlog().is_full();
        while !has_room(&self.in_flight, &self.outbox) {
            let (desk, outbox) = (self.in_flight.clone(), self.outbox.clone());
            let reads_ahead = !self.is_at_end && self.lines.buffered() < READ_AHEAD_BYTES;
            tokio::select! {
                () = async {
                    desk.wait_for_at_most(MAX_IN_FLIGHT - 1).await;
                    outbox.backlog().wait_until_not_full().await;
                } => {}
                () = self.read_more(), if reads_ahead => {}
            }
        }
    }
}
