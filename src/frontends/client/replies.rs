//! Runs in every frontend: cuts the bytes of a connection into lines and reads each as a reply. No input or output of its own.
//! Trusts nothing it reads: lines are bounded, and a line may be anything.

use std::io;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{CallError, RemoteError, is_hang_up};
use crate::wire::frame::FrameBuffer;

/// The wire's largest frame (64 MiB), and room for the envelope around it.
const MAX_REPLY_BYTES: usize = (64 << 20) + (64 << 10);

/// Buffer that stays for the next long reply.
const KEPT_BYTES: usize = 4 << 20;

/// The reply to one call.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) outcome: Result<Box<RawValue>, RemoteError>,
}

/// Read into `spare_mut`, report the result with `received`, take replies with `next` until `None`, repeat.
#[derive(Debug)]
pub(super) struct Replies {
    lines: FrameBuffer,
    /// Why a line was no reply. When a worker is killed in the middle of a reply, the supervisor ends that line and writes
    /// the reason on the next, so the first such line is no failure yet.
    torn: Option<String>,
}

impl Default for Replies {
    fn default() -> Self {
        Self { lines: FrameBuffer::new(MAX_REPLY_BYTES).keeping(KEPT_BYTES), torn: None }
    }
}

impl Replies {
    pub(super) fn spare_mut(&mut self) -> &mut [u8] {
        self.lines.spare_mut()
    }

    /// The result of a read into `spare_mut`. An error if the connection has ended.
    pub(super) fn received(&mut self, received: io::Result<usize>) -> Result<(), CallError> {
        match received {
            Ok(0) => Err(self.torn.take().map_or(CallError::Closed, CallError::Protocol)),
            Ok(count) => {
                self.lines.filled(count);
                Ok(())
            }
            Err(error) if is_hang_up(&error) => Err(CallError::Closed),
            Err(error) => Err(CallError::Io(error.to_string())),
        }
    }

    /// The next reply. An error ends the connection: the service reported one that belongs to no call, or it does not speak
    /// this protocol.
    pub(super) fn next(&mut self) -> Option<Result<Reply, CallError>> {
        loop {
            let line = match self.lines.next()? {
                Ok(line) => line,
                Err(too_large) => return Some(Err(CallError::Protocol(too_large.to_string()))),
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match parse(line) {
                Ok(Parsed::Reply(reply)) => return Some(Ok(reply)),
                Ok(Parsed::Connection(error)) => return Some(Err(CallError::Remote(error))),
                Ok(Parsed::Foreign) => {}
                Err(why) if self.torn.is_none() => self.torn = Some(why),
                Err(why) => return Some(Err(CallError::Protocol(why))),
            }
        }
    }
}

enum Parsed {
    Reply(Reply),
    /// An error of the connection itself.
    Connection(RemoteError),
    /// A notification, or the reply to a call that was never sent.
    Foreign,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    id: Value,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn parse(line: &[u8]) -> Result<Parsed, String> {
    // Once for the whole line, not for every string in it.
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let id = match (&line.id, line.error) {
        (Value::Null, Some(error)) => return Ok(Parsed::Connection(parse_error(error)?)),
        (id, _) => id.as_u64(),
    };
    let Some(id) = id else { return Ok(Parsed::Foreign) };
    let outcome = match (line.result, line.error) {
        (_, Some(error)) => Err(parse_error(error)?),
        (Some(result), None) => Ok(result.to_owned()),
        (None, None) => return Err("neither result nor error".into()),
    };
    Ok(Parsed::Reply(Reply { id, outcome }))
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{
        Error, RpcError, Warnings,
        envelope::{Id, write_error, write_result},
        error::Code,
    };

    fn read(line: &[u8]) -> Option<Result<Reply, CallError>> {
        let mut replies = Replies::default();
        let mut rest = line;
        while !rest.is_empty() {
            let spare = replies.spare_mut();
            let count = spare.len().min(rest.len());
            spare[..count].copy_from_slice(&rest[..count]);
            replies.received(Ok(count)).unwrap();
            rest = &rest[count..];
        }
        replies.next()
    }

    #[test]
    fn an_error_is_read_as_the_worker_writes_it() {
        let mut warnings = Warnings::default();
        warnings.push("pth: unknown field, ignored; did you mean path?".into());
        let error = RpcError::from(Error::new(Code::Stale, "x")).with_warnings(&warnings);
        let mut line = Vec::new();
        write_error(&mut line, Some(&Id::Large(u64::MAX)), &error);
        let reply = read(&line).unwrap().unwrap();
        let error = reply.outcome.unwrap_err();
        assert_eq!((reply.id, &*error.code, &*error.message), (u64::MAX, "C219", "x"));
        assert!(error.json.contains("did you mean path?"), "{}", error.json);
    }

    proptest! {
        #[test]
        fn a_result_is_read_as_the_worker_writes_it(
            members in prop::collection::btree_map(".*", ".*", 0..4),
            warnings in prop::collection::vec(".*", 0..4),
            id: u32,
        ) {
            prop_assume!(!members.contains_key("warnings"));
            let mut line = Vec::new();
            write_result(&mut line, &Id::Integer(id.into()), &members, &warnings);
            let reply = read(&line).unwrap().unwrap();
            let mut expected = serde_json::json!(members);
            if !warnings.is_empty() {
                expected["warnings"] = serde_json::json!(warnings);
            }
            let result: Value = serde_json::from_str(reply.outcome.unwrap().get()).unwrap();
            prop_assert_eq!((reply.id, result), (id.into(), expected));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&bytes);
        }
    }
}
