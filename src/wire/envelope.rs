//! Parses one frame into a call, a cancellation or an error. Also writes the calls of frontends. Runs in the worker and in
//! frontends. Trusts nothing: a client can send any frame. Never panics. Reads the id first, so that every later error goes
//! to the call that caused it.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{
    decode::NOTHING_CHANGED,
    error::Error,
    json::{self, ObjectMembers, excerpt},
    nearest::nearest,
    rpc_error::RpcError,
    warnings::{MAX_WARNINGS, Warnings},
};

pub use super::reply::{write_error, write_result};

pub const CANCEL_METHOD: &str = "$/cancelRequest";

const MEMBERS: [&str; 5] = ["jsonrpc", "id", "method", "params", "timeout_ms"];

/// The id that a client gives its call. Fractions are refused, because two parsers may not agree on whether they are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    Integer(i64),
    /// Only for numbers above `i64::MAX`, so that equal ids are equal values.
    Large(u64),
    Text(String),
}

impl Id {
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(n) => n.as_i64().map(Self::Integer).or_else(|| n.as_u64().map(Self::Large)),
            _ => None,
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(n) => serializer.serialize_i64(*n),
            Self::Large(n) => serializer.serialize_u64(*n),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => n.fmt(f),
            Self::Large(n) => n.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// Unknown members of the envelope, each with a hint at what was probably meant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnknownMembers(Vec<(String, String)>);

#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Call {
        id: Id,
        method: String,
        /// Always an object.
        params: Value,
        timeout_ms: Option<u64>,
        unknown: UnknownMembers,
    },
    /// `id` is the call to cancel. If the cancellation has an id itself, the sender expects a reply to that id (`reply_to`).
    Cancel { id: Id, reply_to: Option<Id> },
    /// The reply is this error. Without an `id`, the wire shows null.
    Invalid { id: Option<Id>, error: RpcError },
}

#[derive(Default)]
struct Envelope {
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    params: Option<Value>,
    timeout_ms: Option<Value>,
    unknown: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    TimeoutMs,
    Unknown(String),
}

impl ObjectMembers<'_> for Envelope {
    type Key = Member;

    fn add(&mut self, member: Member, value: Value) -> Result<(), String> {
        let (name, place) = match member {
            Member::Jsonrpc => ("jsonrpc", &mut self.jsonrpc),
            Member::Id => ("id", &mut self.id),
            Member::Method => ("method", &mut self.method),
            Member::Params => ("params", &mut self.params),
            Member::TimeoutMs => ("timeout_ms", &mut self.timeout_ms),
            Member::Unknown(name) if self.unknown.contains_key(&name) => return Err(name),
            Member::Unknown(name) => {
                self.unknown.insert(name, value);
                return Ok(());
            }
        };
        match place.replace(value) {
            Some(_) => Err(name.to_owned()),
            None => Ok(()),
        }
    }
}

/// Reads one frame (a line without its end).
pub fn parse(frame: &[u8]) -> Incoming {
    if frame.trim_ascii_start().starts_with(b"{") {
        return match json::parse_object(frame) {
            Ok(envelope) => parse_envelope(envelope),
            Err(error) => Incoming::Invalid { id: None, error: error.into() },
        };
    }
    match json::parse(frame) {
        Ok(Value::Array(_)) => Incoming::Invalid {
            id: None,
            error: RpcError::invalid_request("batch arrays are not accepted; send one call per line, without waiting"),
        },
        Ok(_) => Incoming::Invalid {
            id: None,
            error: RpcError::invalid_request("expected a JSON-RPC 2.0 object with jsonrpc, id, method and params"),
        },
        Err(error) => Incoming::Invalid { id: None, error: error.into() },
    }
}

fn parse_envelope(mut envelope: Envelope) -> Incoming {
    // The id first, so that every later error goes to the call that caused it.
    let id = match envelope.id.take().as_ref().map(Id::from_value) {
        Some(None) => {
            let error = RpcError::invalid_request("id must be an integer or a string");
            return Incoming::Invalid { id: None, error };
        }
        Some(id) => id,
        None => None,
    };
    match interpret(&id, envelope) {
        Ok(incoming) => incoming,
        Err(error) => Incoming::Invalid { id, error },
    }
}

fn interpret(id: &Option<Id>, envelope: Envelope) -> Result<Incoming, RpcError> {
    if envelope.jsonrpc.as_ref().and_then(Value::as_str) != Some("2.0") {
        return Err(RpcError::invalid_request("the member \"jsonrpc\" must be \"2.0\""));
    }
    let Some(Value::String(method)) = envelope.method else {
        return Err(RpcError::invalid_request("the member \"method\" must be the name of a function, as a string"));
    };
    let params = params_of(envelope.params)?;
    if method == CANCEL_METHOD {
        let Some(id_to_cancel) = params.get("id").and_then(Id::from_value) else {
            return Err(RpcError::invalid_params(Error::bad_input(
                "params.id: expected the id of the call to cancel, an integer or a string; \
                 example: {\"id\":7}",
            )));
        };
        return Ok(Incoming::Cancel { id: id_to_cancel, reply_to: id.clone() });
    }
    let Some(id) = id.clone() else {
        return Err(RpcError::invalid_request(format!(
            "a call needs an id, or its result could not be returned; only {CANCEL_METHOD} may come without"
        )));
    };
    let timeout_ms = timeout_of(envelope.timeout_ms)?;
    let unknown = UnknownMembers::of(&envelope.unknown);
    Ok(Incoming::Call { id, method, params, timeout_ms, unknown })
}

fn params_of(params: Option<Value>) -> Result<Value, RpcError> {
    match params {
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        Some(params @ Value::Object(_)) => Ok(params),
        Some(_) => Err(RpcError::invalid_params(Error::bad_input(
            "params: expected an object with the function's fields by name; example: {\"path\":\"src/main.rs\"}",
        ))),
    }
}

fn timeout_of(timeout: Option<Value>) -> Result<Option<u64>, RpcError> {
    match timeout {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| {
            RpcError::invalid_params(Error::bad_input(
                "timeout_ms: expected a whole number of milliseconds; example: \"timeout_ms\": 5000",
            ))
        }),
    }
}

impl UnknownMembers {
    fn of(unknown: &Map<String, Value>) -> Self {
        let hint = |name: &str| match nearest(name, MEMBERS) {
            Some(known) => format!("; did you mean {known}?"),
            // The usual mistake: fields of the function are beside `params` instead of inside.
            None => "; fields of the function belong inside params".to_owned(),
        };
        // Takes one more than the warnings hold, so that they state that some were left out.
        Self(unknown.keys().take(MAX_WARNINGS + 1).map(|name| (excerpt(name), hint(name))).collect())
    }

    /// Warnings, for a call that changes nothing.
    pub fn warnings(&self) -> Warnings {
        let mut warnings = Warnings::default();
        for (name, hint) in &self.0 {
            warnings.push(format!("{name}: unknown member beside params, ignored{hint}"));
        }
        warnings
    }

    /// Refuses unknown members, for a call that changes something: the member may be a guard in the wrong place.
    pub fn check_none(&self) -> super::Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((name, hint)) => {
                Err(Error::bad_input(format!("{name}: unknown member beside params{hint}; {NOTHING_CHANGED}")))
            }
        }
    }
}

#[cfg(test)]
mod tests;
