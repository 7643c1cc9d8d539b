//! Runs in every frontend: one connection to the service. Here one call at a time, blocking, and how a call is written; how
//! replies are read is in `replies`, and many calls at a time are in `pipelined`.
//! Trusts nothing it reads: replies are bounded, and their texts are escaped before they meet a terminal.
//! Never retries: a call whose reply is lost may have happened.

pub mod pipelined;
mod replies;

use std::{
    fmt,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde_json::value::RawValue;

use self::replies::ReplyReader;

/// Timeout of a call without a deadline: the longest deadline that a policy grants. The grace below is added.
const LONGEST_CALL: Duration = Duration::from_secs(600);

/// The supervisor ends a worker 5 s after a missed deadline and sends the reason; a client that stops waiting earlier would not see
/// it.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// The server's own refusal. Codes stay text: a newer server may know more of them than we do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub code: String,
    pub message: String,
    /// One line, as received: the error object of the wire, or its `data` if that has the code.
    pub json: String,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    Remote(RemoteError),
    /// The connection ended first. The call may or may not have run.
    Closed,
    /// No reply in time. The call may or may not have run.
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
    replies: ReplyReader,
    last_id: u64,
    timeout: Option<Duration>,
}

impl Client {
    /// `timeout` becomes the deadline of every call.
    pub fn new(stream: UnixStream, timeout: Option<Duration>) -> Self {
        Self { stream, replies: ReplyReader::default(), last_id: 0, timeout }
    }

    /// Sends one call and waits for its reply; `params` is JSON text of an object.
    pub fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError> {
        self.last_id += 1;
        let frame = frame_call(self.last_id, method, params, self.timeout)?;
        // A server that refuses the connection has written the reason and closed it. The reason can still be read although our
        // write failed.
        let patience = self.timeout.unwrap_or(LONGEST_CALL) + REPLY_GRACE;
        let deadline = Instant::now() + patience;
        let sent = self.stream.set_write_timeout(Some(patience)).and_then(|()| self.stream.write_all(&frame));
        match (self.receive(deadline), sent) {
            (Err(CallError::Closed), Err(error)) if !is_hang_up(&error) => Err(CallError::Io(error.to_string())),
            (received, _) => received,
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<Box<RawValue>, CallError> {
        loop {
            match self.replies.next_reply() {
                Some(reply) => {
                    let reply = reply?;
                    if reply.id == self.last_id {
                        return reply.outcome.map_err(CallError::Remote);
                    }
                }
                None => self.read_chunk(deadline)?,
            }
        }
    }

    fn read_chunk(&mut self, deadline: Instant) -> Result<(), CallError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::TimedOut);
        }
        self.stream.set_read_timeout(Some(left)).map_err(|error| CallError::Io(error.to_string()))?;
        match self.stream.read(self.replies.spare_mut()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(CallError::TimedOut),
            received => self.replies.accept_read(received),
        }
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn frame_call(id: u64, method: &str, params: &str, timeout: Option<Duration>) -> Result<Vec<u8>, CallError> {
    let method = serde_json::to_string(method).map_err(|error| CallError::Protocol(error.to_string()))?;
    let mut frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":"#).into_bytes();
    // A line break can only occur between two tokens, where it is white space, and never inside a string. So it can be replaced
    // without parsing.
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

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
