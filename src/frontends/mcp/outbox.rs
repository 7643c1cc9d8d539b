//! Runs in `stockade mcp`: what is on its way to the host. Replies that are ready at the same time leave in one write.
//! Does not trust the host to read: what it leaves unread is counted, and nobody asks for more while it is much.

use std::{
    io,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use memchr::memmem::Finder;
use rmcp::model::ServerJsonRpcMessage;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use super::render::{PLACE, Written};
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

    /// `content` goes to its place in the text of the message.
    pub(super) fn push(
        &self,
        message: &ServerJsonRpcMessage,
        content: Option<Written<'static>>,
    ) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lines.len();
        if let Err(error) = serde_json::to_writer(&mut *lines, message) {
            lines.truncate(before);
            return Err(error.into());
        }
        if let Some(content) = content {
            insert(&mut lines, before, &content);
        }
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

/// Puts what is already JSON where the message, from `begin` on, has a place for it.
fn insert(lines: &mut Vec<u8>, begin: usize, content: &Written<'_>) {
    static WRITTEN_PLACE: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(&format!("\\u{:04x}", u32::from(PLACE))).into_owned());
    let Some(at) = WRITTEN_PLACE.find(&lines[begin..]) else { return };
    // The little that stands behind it moves, not the content.
    let behind = lines.split_off(begin + at + WRITTEN_PLACE.needle().len());
    lines.truncate(begin + at);
    lines.extend_from_slice(content.as_str().as_bytes());
    lines.extend_from_slice(&behind);
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock, RequestId, ServerResult};

    use super::*;

    #[test]
    fn a_content_stands_in_the_text_of_its_own_message() {
        let outbox = Outbox::default();
        let text = format!("a: 1 line\n{PLACE}\nend \"quoted\"");
        let push = |content: Option<&str>| {
            let result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
            let result = ServerResult::CallToolResult(result);
            let message = ServerJsonRpcMessage::response(result, RequestId::Number(1));
            let content = content.map(|content| serde_json::to_string(content).unwrap());
            let content = content.as_deref().map(|json| serde_json::from_str::<Written<'_>>(json).unwrap());
            outbox.push(&message, content.map(Written::into_owned)).unwrap();
        };
        let contents = [None, Some("x\\ \u{1} \"é\"\n"), Some(""), None];
        contents.iter().for_each(|content| push(*content));
        let lines = String::from_utf8(std::mem::take(&mut *outbox.lines.lock().unwrap())).unwrap();
        for (line, content) in lines.lines().zip(contents) {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            let expected = content.map_or(text.clone(), |content| text.replacen(PLACE, content, 1));
            assert_eq!(message["result"]["content"][0]["text"], expected.as_str());
        }
    }
}
