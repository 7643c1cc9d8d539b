//! Runs in every frontend: one connection to the service. Here one call at a time, blocking, and what a call and a reply
//! look like; many calls at a time are in `pipelined`.
//! Trusts nothing it reads: replies are bounded, and their texts are escaped before they meet a terminal.
//! Never retries: a call whose reply is lost may have happened.

pub mod pipelined;

use std::{
    fmt,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The wire's largest frame (64 MiB), and room for the envelope around it.
const MAX_REPLY_BYTES: usize = (64 << 20) + (64 << 10);

/// What one `read` asks for: a whole small reply, without a large buffer for each.
const CHUNK_BYTES: usize = 64 << 10;

/// How long to wait when the call names no deadline: the longest one a policy grants, and the grace below.
const LONGEST_CALL: Duration = Duration::from_secs(600);

/// A supervisor ends a worker 5 s after a missed deadline and says so; giving up earlier would hide the reason.
const GRACE: Duration = Duration::from_secs(10);

/// The server's own refusal. Codes stay text: a newer server may know more of them than we do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub code: String,
    pub message: String,
    /// As received, one line: the error object of the wire, or its `data` when that carries the code.
    pub json: String,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    Remote(RemoteError),
    /// The connection ended first. The call may or may not have run.
    Closed,
    /// No reply in time; the same uncertainty.
    TimedOut,
    /// The other side does not speak this protocol.
    Protocol(String),
    Io(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(error) => write!(f, "{} {}", error.code, error.message),
            Self::Closed => f.write_str("connection closed; the call's outcome is unknown"),
            Self::TimedOut => f.write_str("no reply in time; the call's outcome is unknown"),
            Self::Protocol(what) => write!(f, "unexpected reply: {what}"),
            Self::Io(what) => write!(f, "connection lost ({what}); the call's outcome is unknown"),
        }
    }
}

#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Bytes received and not yet consumed.
    pending: Vec<u8>,
    last_id: u64,
    timeout: Option<Duration>,
}

impl Client {
    /// `timeout` becomes the deadline of every call.
    pub fn new(stream: UnixStream, timeout: Option<Duration>) -> Self {
        Self { stream, pending: Vec::new(), last_id: 0, timeout }
    }

    /// Sends one call and waits for its reply; `params` is JSON text of an object.
    pub fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError> {
        self.last_id += 1;
        let frame = frame_call(self.last_id, method, params, self.timeout)?;
        // A server that refuses the connection has already written why and closed: the refusal is still readable
        // although our write is not accepted any more.
        let patience = self.timeout.unwrap_or(LONGEST_CALL) + GRACE;
        let deadline = Instant::now() + patience;
        let sent = self.stream.set_write_timeout(Some(patience)).and_then(|()| self.stream.write_all(&frame));
        match (self.receive(deadline), sent) {
            (Err(CallError::Closed), Err(error)) if !is_hang_up(&error) => {
                Err(CallError::Io(error.to_string()))
            }
            (received, _) => received,
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<Box<RawValue>, CallError> {
        let mut torn = None;
        loop {
            let line = match self.read_line(deadline) {
                Err(CallError::Closed) => {
                    return Err(torn.map_or(CallError::Closed, CallError::Protocol));
                }
                other => other?,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match parse_reply(&line) {
                Ok(Parsed::Reply { id, .. }) if id != self.last_id => {}
                Ok(Parsed::Reply { outcome, .. }) => return outcome.map_err(CallError::Remote),
                // It belongs to no call; we have only the one that is waiting.
                Ok(Parsed::Connection(error)) => return Err(CallError::Remote(error)),
                Ok(Parsed::Foreign) => {}
                // When a worker is killed in the middle of a reply, the supervisor ends that line and writes the
                // reason on the next.
                Err(why) if torn.is_none() => torn = Some(why),
                Err(why) => return Err(CallError::Protocol(why)),
            }
        }
    }

    fn read_line(&mut self, deadline: Instant) -> Result<Vec<u8>, CallError> {
        let mut scanned = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.pending[scanned..]) {
                let rest = self.pending.split_off(scanned + at + 1);
                return Ok(std::mem::replace(&mut self.pending, rest));
            }
            scanned = self.pending.len();
            if scanned > MAX_REPLY_BYTES {
                return Err(CallError::Protocol(format!("a line longer than {MAX_REPLY_BYTES} bytes")));
            }
            self.read_chunk(deadline)?;
        }
    }

    fn read_chunk(&mut self, deadline: Instant) -> Result<(), CallError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::TimedOut);
        }
        self.stream.set_read_timeout(Some(left)).map_err(|error| CallError::Io(error.to_string()))?;
        let filled = self.pending.len();
        self.pending.resize(filled + CHUNK_BYTES, 0);
        let received = self.stream.read(&mut self.pending[filled..]);
        self.pending.truncate(filled + received.as_ref().map_or(0, |count| *count));
        match received {
            Ok(0) => Err(CallError::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(CallError::TimedOut),
            Err(error) if is_hang_up(&error) => Err(CallError::Closed),
            Err(error) => Err(CallError::Io(error.to_string())),
        }
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn frame_call(id: u64, method: &str, params: &str, timeout: Option<Duration>) -> Result<Vec<u8>, CallError> {
    let method = serde_json::to_string(method).map_err(|error| CallError::Protocol(error.to_string()))?;
    let mut frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":"#).into_bytes();
    // A line break between two tokens is only white space, inside a string it cannot occur: so a formatted file
    // fits into one line without being parsed.
    match memchr::memchr2(b'\n', b'\r', params.as_bytes()) {
        None => frame.extend_from_slice(params.as_bytes()),
        Some(_) => {
            frame.extend(params.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        }
    }
    if let Some(timeout) = timeout {
        frame.extend_from_slice(format!(r#","timeout_ms":{}"#, timeout.as_millis()).as_bytes());
    }
    frame.extend_from_slice(b"}\n");
    Ok(frame)
}

enum Parsed {
    Reply {
        id: u64,
        outcome: Result<Box<RawValue>, RemoteError>,
    },
    /// An error of the connection itself.
    Connection(RemoteError),
    /// A notification, or the reply to what we never sent.
    Foreign,
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(default)]
    id: Value,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn parse_reply(line: &[u8]) -> Result<Parsed, String> {
    // Once for the whole line, not for every string in it.
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let reply: Reply<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let id = match (&reply.id, reply.error) {
        (Value::Null, Some(error)) => return Ok(Parsed::Connection(parse_error(error)?)),
        (id, _) => id.as_u64(),
    };
    let Some(id) = id else { return Ok(Parsed::Foreign) };
    let outcome = match (reply.result, reply.error) {
        (_, Some(error)) => Err(parse_error(error)?),
        (Some(result), None) => Ok(result.to_owned()),
        (None, None) => return Err("neither result nor error".into()),
    };
    Ok(Parsed::Reply { id, outcome })
}

#[derive(Deserialize)]
struct RpcError<'a> {
    code: i64,
    message: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Coded {
    code: String,
    message: String,
}

fn parse_error(error: &RawValue) -> Result<RemoteError, String> {
    let rpc: RpcError<'_> = serde_json::from_str(error.get()).map_err(|error| error.to_string())?;
    if let Some(data) = rpc.data
        && let Ok(Coded { code, message }) = serde_json::from_str(data.get())
    {
        return Ok(RemoteError { code, message, json: data.get().into() });
    }
    Ok(RemoteError { code: rpc.code.to_string(), message: rpc.message, json: error.get().into() })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
