//! Runs in `stockade mcp`: the one writer of messages to the host. Replies that are ready at the same time leave in one write.
//! Does not trust the host to read: what it leaves unread is counted, and no more requests are taken while it is much.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use super::{handler::ToolReply, message::McpError, session::Dialect};
use crate::{frontends::client::pipelined::Backlog, wire::envelope::Id};

/// Capacity of the buffer that is kept for the next batch.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct HostOutbox {
    lines: Mutex<Vec<u8>>,
    message_added: Notify,
    /// Bytes that the host has not read: those in `lines` and those that the writer is writing.
    backlog: Arc<Backlog>,
    /// Writing to the host failed, and fails from now on.
    is_closed: AtomicBool,
}

impl HostOutbox {
    pub(super) fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    pub(super) fn push(&self, message: &impl Serialize) {
        self.append_line(|line| serde_json::to_writer(line, message));
    }

    pub(super) fn reply(&self, id: &Id, result: &impl Serialize) {
        self.append_line(|line| {
            begin_reply(line, id)?;
            serde_json::to_writer(&mut *line, result)?;
            line.push(b'}');
            Ok(())
        });
    }

    /// Has no id if the line did not show one.
    pub(super) fn reply_error(&self, id: Option<&Id>, error: &McpError) {
        #[derive(Serialize)]
        struct ErrorReply<'a> {
            jsonrpc: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a Id>,
            error: &'a McpError,
        }
        self.push(&ErrorReply { jsonrpc: "2.0", id, error });
    }

    /// The text of a tool's reply is JSON already, and its structure is what the service wrote.
    pub(super) fn reply_to_tool_call(&self, id: &Id, reply: &ToolReply, dialect: Dialect) {
        self.append_line(|line| {
            begin_reply(line, id)?;
            line.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":");
            line.extend_from_slice(reply.rendered.text.as_json());
            line.push(b'}');
            for image in &reply.rendered.images {
                line.extend_from_slice(b",{\"type\":\"image\",\"mimeType\":");
                serde_json::to_writer(&mut *line, image.mime_type)?;
                line.extend_from_slice(b",\"data\":");
                serde_json::to_writer(&mut *line, &image.data)?;
                line.push(b'}');
            }
            line.push(b']');
            if let Some(structured) = &reply.structured {
                line.extend_from_slice(b",\"structuredContent\":");
                line.extend_from_slice(structured.get().as_bytes());
            }
            line.extend_from_slice(if reply.rendered.is_error { b",\"isError\":true" } else { b",\"isError\":false" });
            if dialect == Dialect::Inline {
                line.extend_from_slice(b",\"resultType\":\"complete\"");
            }
            line.extend_from_slice(b"}}");
            Ok(())
        });
    }

    /// `write_to` notices a host that is gone, so a message for it is dropped.
    fn append_line(&self, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lines.len();
        if write(&mut lines).is_err() {
            // Messages are numbers, strings and objects of them, which always have a JSON form.
            debug_assert!(false, "a message cannot be written as JSON");
            lines.truncate(before);
            return;
        }
        lines.push(b'\n');
        self.backlog.add(lines.len() - before);
        drop(lines);
        self.message_added.notify_one();
    }

    /// Writes all messages, until writing fails because the host is gone.
    pub(super) async fn write_to(&self, mut host: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = Vec::new();
        loop {
            self.message_added.notified().await;
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
            batch.shrink_to(KEPT_BYTES);
        }
    }
}

fn begin_reply(line: &mut Vec<u8>, id: &Id) -> serde_json::Result<()> {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    serde_json::to_writer(&mut *line, id)?;
    line.extend_from_slice(b",\"result\":");
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{CallToolResult, ContentBlock, RequestId, ServerJsonRpcMessage, ServerResult};
    use serde_json::{Value, value::RawValue};

    use super::{
        super::render::{JsonText, RenderedReply},
        *,
    };

    proptest! {
        /// `rmcp` writes the same message for the same result.
        #[test]
        fn a_reply_of_a_tool_is_written_as_rmcp_writes_it(
            text in any::<String>(),
            is_error: bool,
            is_structured: bool,
            is_inline: bool,
            id in prop_oneof![any::<i64>().prop_map(Id::Integer), any::<String>().prop_map(Id::Text)],
        ) {
            let structured = RawValue::from_string(r#"{"a":[1]}"#.into()).unwrap();
            let content = vec![ContentBlock::text(text.clone())];
            let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
            result.structured_content = is_structured.then(|| serde_json::from_str(structured.get()).unwrap());
            if !is_inline {
                result.result_type = None;
            }
            let their_id = match &id {
                Id::Integer(number) => RequestId::Number(*number),
                Id::Text(text) => RequestId::String(text.as_str().into()),
                Id::Large(_) => unreachable!(),
            };
            let theirs = ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), their_id);

            let ours = HostOutbox::default();
            let mut rendered = RenderedReply { text: JsonText::default(), images: Vec::new(), is_error };
            rendered.text.push(&text);
            let dialect = if is_inline { Dialect::Inline } else { Dialect::Handshake };
            let reply = ToolReply { rendered, structured: is_structured.then(|| structured.clone()) };
            ours.reply_to_tool_call(&id, &reply, dialect);
            let line = ours.lines.lock().unwrap().clone();
            prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            let line: Value = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(line, serde_json::to_value(&theirs).unwrap());
        }
    }
}
