//! Runs in `stockade mcp`: tool calls of a host that has introduced itself. They are nearly everything a host says, and the
//! protocol has nothing more to say about them, so they go to the service and their answers to the host without a turn
//! through `rmcp`, which gets every other message.
//! Does not trust the host: what is not exactly such a call is left to `rmcp` to judge.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use memchr::memmem::Finder;
use rmcp::model::{
    CallToolRequestMethod, CancelledNotificationParam, JsonObject, JsonRpcVersion2_0, ProgressToken,
    RequestId,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::task::AbortHandle;

use super::{handler::Bridge, transport::Working};
use crate::wire::json;

/// Metadata of this kind is about the protocol.
const OF_PROTOCOL: &str = "io.modelcontextprotocol/";

/// What a tool is asked for.
#[derive(Debug, PartialEq)]
pub(super) struct ToolCall {
    pub(super) name: String,
    pub(super) arguments: JsonObject,
    /// Where the host wants to hear that a long call is still at work.
    pub(super) progress: Option<ProgressToken>,
}

/// Calls that are being worked on, by the ids that a cancellation names.
#[derive(Debug, Clone, Default)]
struct Open(Arc<Mutex<HashMap<RequestId, AbortHandle>>>);

#[derive(Debug)]
pub(super) struct Calls {
    bridge: Bridge,
    open: Open,
}

impl Calls {
    pub(super) fn new(bridge: Bridge) -> Self {
        Self { bridge, open: Open::default() }
    }

    /// False if the line is anything but a plain call.
    pub(super) fn take(&self, line: &[u8]) -> bool {
        let Some((id, call)) = read(line) else { return false };
        let place = Place { open: self.open.clone(), id, _working: self.bridge.enter() };
        let (id, bridge) = (place.id.clone(), self.bridge.clone());
        // Held until the call is in it, or its end could come before.
        let mut open = self.open.lock();
        let task = tokio::spawn(async move { bridge.answer(&place.id, call).await });
        open.insert(id, task.abort_handle());
        true
    }

    /// False if no such call is open here. Dropping a call cancels it in the service, and nobody hears its answer.
    pub(super) fn cancel(&self, cancelled: &CancelledNotificationParam) -> bool {
        let task = cancelled.request_id.as_ref().and_then(|id| self.open.lock().remove(id));
        task.map(|task| task.abort()).is_some()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.open.lock().drain().for_each(|(_, task)| task.abort());
    }
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of one call, as long as its task lives.
struct Place {
    open: Open,
    id: RequestId,
    _working: Working,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        // A host may use an id again too early; then it is the later call's.
        if open.get(&self.id).is_some_and(|task| Some(task.id()) == tokio::task::try_id()) {
            open.remove(&self.id);
        }
    }
}

/// Whether it is worth looking for a call in a line.
pub(super) fn is_named_in(line: &[u8]) -> bool {
    static METHOD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"tools/call\""));
    METHOD.find(line).is_some()
}

/// Nothing about the call that is not known here: then `rmcp` has to know it.
fn read(line: &[u8]) -> Option<(RequestId, ToolCall)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Request<'a> {
        #[serde(rename = "jsonrpc")]
        _jsonrpc: JsonRpcVersion2_0,
        id: RequestId,
        #[serde(rename = "method")]
        _method: CallToolRequestMethod,
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Params<'a> {
        name: String,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
        #[serde(rename = "_meta")]
        meta: Option<JsonObject>,
    }
    let Request { id, params: Params { name, arguments, meta }, .. } = serde_json::from_slice(line).ok()?;
    let mut meta = meta.unwrap_or_default();
    if meta.keys().any(|key| key.starts_with(OF_PROTOCOL)) {
        return None;
    }
    let progress = meta.remove("progressToken").and_then(|token| serde_json::from_value(token).ok());
    // As strict as the service: of two values for one name, neither may win.
    let arguments = match arguments.map(|arguments| json::parse(arguments.get().as_bytes())) {
        None | Some(Ok(Value::Null)) => JsonObject::default(),
        Some(Ok(Value::Object(arguments))) => arguments,
        Some(_) => return None,
    };
    Some((id, ToolCall { name, arguments, progress }))
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcRequest, NumberOrString};

    use super::*;

    fn line(id: &str, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    }

    #[test]
    fn a_plain_call_is_what_rmcp_would_have_read() {
        for line in [
            line("1", r#"{"name":"read","arguments":{"path":"a","n":[1,{"b":null}]}}"#),
            line("\"x\"", r#"{"arguments":{},"name":"info"}"#),
            line("1", r#"{"name":"info"}"#),
            line("1", r#"{"name":"info","arguments":null}"#),
            line("7", r#"{"name":"read","arguments":{},"_meta":{"progressToken":7,"host/any":{"a":1}}}"#),
            line("7", r#"{"name":"read","_meta":{"progressToken":"t"}}"#),
        ] {
            let expected: ClientJsonRpcMessage = serde_json::from_str(&line).unwrap();
            let ClientJsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = expected else {
                panic!("{line}");
            };
            let token = request.get_meta().get_progress_token();
            let ClientRequest::CallToolRequest(expected) = request else { panic!("{line}") };
            let (own_id, call) = read(line.as_bytes()).expect(&line);
            assert_eq!(own_id, id);
            assert_eq!(call.name, expected.params.name);
            assert_eq!(call.arguments, expected.params.arguments.unwrap_or_default());
            assert_eq!(call.progress, token, "{line}");
        }
    }

    #[test]
    fn what_is_no_plain_call_is_left_to_rmcp() {
        for other in [
            line("1", r#"{"name":"read","arguments":[]}"#),
            line("1", r#"{"name":"read","more":1}"#),
            line("1", r#"{"name":"read","task":{}}"#),
            line("1", r#"{"name":"read","name":"list"}"#),
            line("1", r#"{"name":"delete","arguments":{"dry_run":true,"dry_run":false}}"#),
            line("1", r#"{"name":"read","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#),
            line("null", r#"{"name":"read","arguments":{}}"#),
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}"#.into(),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"tools/call","arguments":{}}}"#
                .into(),
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#.into(),
            "\"tools/call\"".into(),
        ] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn ids_are_numbers_or_texts() {
        let id = |text: &str| read(line(text, r#"{"name":"read"}"#).as_bytes()).map(|(id, _)| id);
        assert_eq!(id("3"), Some(NumberOrString::Number(3)));
        assert_eq!(id("\"3\""), Some(NumberOrString::String("3".into())));
    }
}
