//! Runs in `stockade mcp`: what is on its way to the host. Replies that are ready at the same time leave in one write.
//! Does not trust the host to read: what it leaves unread is counted, and nobody asks for more while it is much.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use super::render::Rendered;
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

    pub(super) fn push(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        self.add(|line| serde_json::to_writer(line, message))
    }

    /// The answer to a tool call, as `rmcp` writes it for hosts that have introduced themselves. The content goes from the
    /// service to the host as it was written: to read and write it again would be most of what a bridge does.
    pub(super) fn push_said(&self, id: &RequestId, said: &Rendered<'_>) -> io::Result<()> {
        let Rendered { text, content, is_error } = said;
        let (at, content) =
            content.as_ref().map_or((text.len(), ""), |(at, content)| (*at, content.as_str()));
        self.add(|line| {
            line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            serde_json::to_writer(&mut *line, id)?;
            line.extend_from_slice(b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":");
            // Three parts of one string: the quotes between them go.
            serde_json::to_writer(&mut *line, &text[..at])?;
            line.pop();
            line.extend_from_slice(content.as_bytes());
            let behind = line.len();
            serde_json::to_writer(&mut *line, &text[at..])?;
            line.remove(behind);
            line.extend_from_slice(b"}],\"isError\":");
            serde_json::to_writer(&mut *line, is_error)?;
            line.extend_from_slice(b"}}");
            Ok(())
        })
    }

    fn add(&self, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lines.len();
        if let Err(error) = write(&mut lines) {
            lines.truncate(before);
            return Err(error.into());
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{CallToolResult, ContentBlock, ServerResult};

    use super::{super::render::Written, *};

    proptest! {
        #[test]
        fn an_answer_is_written_as_rmcp_writes_it(
            before in any::<String>(),
            content in any::<Option<String>>(),
            behind in any::<String>(),
            is_error: bool,
            id in prop_oneof![any::<i64>().prop_map(RequestId::Number), any::<String>().prop_map(|id| RequestId::String(id.into()))],
        ) {
            let whole = format!("{before}{}{behind}", content.as_deref().unwrap_or_default());
            let mut result = match is_error {
                true => CallToolResult::error(vec![ContentBlock::text(whole)]),
                false => CallToolResult::success(vec![ContentBlock::text(whole)]),
            };
            result.result_type = None;
            let (ours, theirs) = (Outbox::default(), Outbox::default());
            theirs.push(&ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id.clone())).unwrap();

            let written = serde_json::to_string(&content.as_deref().unwrap_or_default()).unwrap();
            let written: Written<'_> = serde_json::from_str(&written).unwrap();
            let content = content.is_some().then_some((before.len(), written));
            ours.push_said(&id, &Rendered { text: before + &behind, is_error, content }).unwrap();
            prop_assert_eq!(&*ours.lines.lock().unwrap(), &*theirs.lines.lock().unwrap());
        }
    }
}
