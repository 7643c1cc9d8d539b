//! Runs in `stockade mcp`: what is on its way to the host. Replies that are ready at the same time leave in one write.
//! Does not trust the host to read: what it leaves unread is counted, and nobody asks for more while it is much.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::model::ServerJsonRpcMessage;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use super::contents::Contents;
use crate::frontends::client::pipelined::Backlog;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    lines: Mutex<Vec<u8>>,
    filled: Notify,
    /// Bytes that the host has not taken, in `lines` and in the writer's hands.
    backlog: Arc<Backlog>,
    /// The host takes no more.
    is_closed: AtomicBool,
}

impl Outbox {
    pub(super) fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    pub(super) fn push(&self, message: &ServerJsonRpcMessage, contents: &Contents) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lines.len();
        if let Err(error) = serde_json::to_writer(&mut *lines, message) {
            lines.truncate(before);
            return Err(error.into());
        }
        contents.insert_into(&mut lines, before);
        lines.push(b'\n');
        self.backlog.add(lines.len() - before);
        drop(lines);
        self.filled.notify_one();
        Ok(())
    }

    /// Writes whatever comes, until the host is gone.
    pub(super) async fn write_to(&self, mut host: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = Vec::new();
        loop {
            self.filled.notified().await;
            std::mem::swap(&mut batch, &mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
            let written = async {
                host.write_all(&batch).await?;
                host.flush().await
            };
            if let Err(error) = written.await {
                self.is_closed.store(true, Ordering::Relaxed);
                return Err(error);
            }
            self.backlog.remove(batch.len());
            batch.clear();
            batch.shrink_to(1 << 20);
        }
    }
}
