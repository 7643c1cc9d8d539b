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
    message::{INVALID_REQUEST, RpcError},
    outbox::Outbox,
    server::Server,
};
use crate::wire::frame::FrameBuffer;

/// The wire's largest frame: the service would refuse a request that is longer.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Buffer that stays for the next long line.
const KEPT_BYTES: usize = 4 << 20;

/// Requests that are worked on at once. More than the service takes from one connection (64), so that a cancellation
/// behind a full queue is still read.
const MAX_IN_FLIGHT: usize = 256;

/// Bytes that are read while nothing can be worked on, to notice the end of the input. Behind more bytes it is noticed when
/// there is room again.
const AHEAD_BYTES: usize = 1 << 20;

pub(super) type HostReader = Box<dyn AsyncRead + Send + Unpin>;

/// How many requests are being worked on, and whether the input has ended.
#[derive(Debug, Default)]
pub(super) struct Desk {
    in_flight: AtomicUsize,
    one_done: Notify,
    /// The input has ended, or one of the lines before its end was handed on.
    ended: Notify,
}

/// One request that is being worked on.
#[derive(Debug)]
pub(super) struct Working(Arc<Desk>);

impl Desk {
    pub(super) fn begin(self: &Arc<Self>) -> Working {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Working(Arc::clone(self))
    }

    /// Waits until the input has ended and then, for `patience`, no line was handed on and no request has ended.
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

pub(super) struct Input {
    reader: HostReader,
    lines: FrameBuffer,
    is_at_end: bool,
    outbox: Arc<Outbox>,
    desk: Arc<Desk>,
}

impl Input {
    pub(super) fn new(reader: HostReader, outbox: Arc<Outbox>, desk: Arc<Desk>) -> Self {
        let lines = FrameBuffer::new(MAX_LINE_BYTES).keeping(KEPT_BYTES);
        Self { reader, lines, is_at_end: false, outbox, desk }
    }

    /// Hands every line to the server, until the input has ended and all requests have their replies.
    pub(super) async fn serve(mut self, mut server: Server) {
        loop {
            // For each line: one read may bring thousands.
            self.room().await;
            match self.lines.next() {
                Some(Ok(line)) => {
                    server.take(line);
                    if self.is_at_end {
                        self.desk.ended.notify_one();
                    }
                }
                Some(Err(too_large)) => {
                    self.outbox.refuse(None, &RpcError::new(INVALID_REQUEST, too_large.to_string()));
                    self.lines.skip_line();
                }
                None if self.is_at_end => break,
                None => self.fill().await,
            }
        }
        // The host may still read the replies.
        self.desk.at_most(0).await;
    }

    async fn fill(&mut self) {
        let received = self.reader.read(self.lines.spare_mut()).await.unwrap_or(0);
        self.lines.filled(received);
        if received == 0 {
            // The last line may lack its end.
            if let Some(end) = self.lines.spare_mut().first_mut() {
                *end = b'\n';
                self.lines.filled(1);
            }
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
            let reads_ahead = !self.is_at_end && self.lines.buffered() < AHEAD_BYTES;
            tokio::select! {
                () = async {
                    desk.at_most(MAX_IN_FLIGHT - 1).await;
                    outbox.backlog().room().await;
                } => {}
                () = self.fill(), if reads_ahead => {}
            }
        }
    }
}
