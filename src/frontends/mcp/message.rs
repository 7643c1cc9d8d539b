//! Runs in `stockade mcp`: one line of the host becomes one message, or the error that answers it. Pure.
//! Does not trust the host: a line may be anything. Never lets two readers of a line disagree (duplicate keys).

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, value::RawValue};

use super::object::JsonObject;
use crate::wire::envelope::Id;

pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

/// The error object of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct McpError {
    pub(super) code: i32,
    pub(super) message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Value>,
}

impl McpError {
    pub(super) fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, method.to_owned())
    }

    pub(super) fn invalid_params(method: &str) -> Self {
        Self::new(INVALID_PARAMS, format!("{method}: the params are not those of this method"))
    }

    pub(super) fn malformed_params(method: &str, why: &str) -> Self {
        Self::new(INVALID_PARAMS, format!("{method}: the params are not those of this method: {why}"))
    }
}

/// One line of the host, parsed.
#[derive(Debug)]
pub(super) enum HostMessage<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: MessageParams<'a>,
        /// Why the params are invalid for every method. Then `params` holds only the metadata.
        malformed: Option<String>,
    },
    Notification {
        method: Cow<'a, str>,
        params: MessageParams<'a>,
    },
    /// The host's response to a request of this server. `result` is `None` for an error.
    Response {
        id: Id,
        result: Option<&'a RawValue>,
    },
    /// The line is not a message; the error is the answer to it.
    Invalid {
        id: Option<Id>,
        error: McpError,
    },
    /// Needs no answer: an empty line, or a notification that cannot be read.
    Ignored,
}

/// The params of all methods: each method takes the members that it knows, and judges them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageParams<'a> {
    #[serde(borrow, default, rename = "_meta", deserialize_with = "read_object")]
    pub(super) meta: Option<RequestMeta<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) arguments: Option<JsonObject>,
    #[serde(borrow, default)]
    pub(super) input_responses: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) cursor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) capabilities: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) client_info: Option<&'a RawValue>,
}

/// Metadata of a request, beside its arguments.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RequestMeta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    pub(super) progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) client_capabilities: Option<&'a RawValue>,
}

/// Reads the value as `T`. None if it is absent or of another shape.
pub(super) fn decode<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(value?.get()).ok()
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "read_id")]
    id: Option<Id>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "read_object")]
    params: Option<MessageParams<'a>>,
    #[serde(borrow, default, deserialize_with = "read_any")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "read_any")]
    error: Option<&'a RawValue>,
}

/// The envelope of a line whose params do not have the expected shape.
#[derive(Deserialize)]
struct EnvelopeFields<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "read_id")]
    id: Option<Id>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// The metadata of params that are unexpected otherwise.
#[derive(Default, Deserialize)]
struct OnlyMeta<'a> {
    #[serde(borrow, default, rename = "_meta", deserialize_with = "read_object")]
    meta: Option<RequestMeta<'a>>,
}

/// An object or `null`: serde would also read an array as the members of a struct in their order.
fn read_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    struct ObjectOrNull<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectOrNull<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    deserializer.deserialize_any(ObjectOrNull(PhantomData))
}

/// A member that is there counts, `null` included.
fn read_any<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn read_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Id>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match parse_id(&value) {
        None if !value.is_null() => Err(serde::de::Error::custom("an id is an integer or a string")),
        id => Ok(id),
    }
}

/// Also reads integers in the form of a fraction (`1.0`), which some hosts write.
pub(super) fn parse_id(value: &Value) -> Option<Id> {
    /// From here on two integers share one `f64`.
    const FIRST_INEXACT: f64 = 9_007_199_254_740_992.0;
    let whole = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < FIRST_INEXACT);
    Id::from_value(value).or_else(|| whole().map(|number| Id::Integer(number as i64)))
}

pub(super) fn parse_message(line: &[u8]) -> HostMessage<'_> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return HostMessage::Ignored;
    }
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => return invalid_json(&error),
    };
    match serde_json::from_str::<MessageFields<'_>>(text) {
        Ok(line) if text.starts_with('{') => classify(line),
        Ok(_) => invalid_message(None, false),
        Err(error) if error.is_data() => diagnose_bad_fields(text, &error),
        Err(error) => invalid_json(&error),
    }
}

fn classify(line: MessageFields<'_>) -> HostMessage<'_> {
    let MessageFields { jsonrpc, id, method, params, result, error } = line;
    if jsonrpc.as_deref() != Some("2.0") {
        return invalid_message(id, method.is_some());
    }
    match (method, id, result, error) {
        (Some(method), Some(id), None, None) => {
            HostMessage::Request { id, method, params: params.unwrap_or_default(), malformed: None }
        }
        (Some(method), None, None, None) => HostMessage::Notification { method, params: params.unwrap_or_default() },
        (None, Some(id), Some(result), None) => HostMessage::Response { id, result: Some(result) },
        (None, Some(id), None, Some(_)) => HostMessage::Response { id, result: None },
        // The host could not read a line of this server. There is nothing to answer.
        (None, None, None, Some(_)) => HostMessage::Ignored,
        (method, id, ..) => invalid_message(id, method.is_some()),
    }
}

/// JSON whose members have unexpected types, or come twice.
fn diagnose_bad_fields<'a>(line: &'a str, error: &serde_json::Error) -> HostMessage<'a> {
    let outline: EnvelopeFields<'_> = match serde_json::from_str(line) {
        Ok(outline) if line.starts_with('{') => outline,
        Ok(_) => return invalid_message(None, false),
        Err(error) if error.is_data() => return invalid_message(None, false),
        Err(error) => return invalid_json(&error),
    };
    let EnvelopeFields { jsonrpc, id, method, params } = outline;
    let error = error.to_string();
    let error = error.rsplit_once(" at line ").map_or(&*error, |(error, _)| error);
    if error.starts_with("duplicate ") {
        let error = error.replacen("duplicate field", "duplicate key", 1);
        let refusal = McpError::new(INVALID_REQUEST, format!("C210 {error}: send each argument once"));
        return match (id, method) {
            (None, Some(_)) => HostMessage::Ignored,
            (id, _) => HostMessage::Invalid { id, error: refusal },
        };
    }
    match (id, method) {
        (Some(id), Some(method)) if jsonrpc.as_deref() == Some("2.0") => {
            let OnlyMeta { meta } = decode(params).unwrap_or_default();
            let params = MessageParams { meta, ..MessageParams::default() };
            HostMessage::Request { id, method, params, malformed: Some(error.to_owned()) }
        }
        (id, method) => invalid_message(id, method.is_some()),
    }
}

fn invalid_message<'a>(id: Option<Id>, has_method: bool) -> HostMessage<'a> {
    // A method without an id is a notification, and those are never answered.
    if id.is_none() && has_method {
        return HostMessage::Ignored;
    }
    let why = "not a JSON-RPC 2.0 message: expected one object with jsonrpc, method and id";
    HostMessage::Invalid { id, error: McpError::new(INVALID_REQUEST, why) }
}

fn invalid_json<'a>(error: &impl std::fmt::Display) -> HostMessage<'a> {
    HostMessage::Invalid { id: None, error: McpError::new(PARSE_ERROR, format!("the line is not JSON: {error}")) }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
