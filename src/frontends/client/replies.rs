//! Splits the bytes of a connection into lines and parses each as a reply. Runs in every frontend. Does no input or output
//! itself. Trusts nothing it reads: lines are bounded, and a line may contain anything.

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
pub(super) struct CallReply {
    pub(super) id: u64,
    pub(super) outcome: Result<Box<RawValue>, RemoteError>,
}

/// Read into `spare_mut`, report the result with `accept_read`, take replies with `next_reply` until `None`, repeat.
#[derive(Debug)]
pub(super) struct ReplyReader {
    frames: FrameBuffer,
    /// Why a line was no reply. When a worker is killed in the middle of a reply, the supervisor ends that line and writes
    /// the reason on the next, so the first such line is no failure yet.
    invalid_frame: Option<String>,
}

impl Default for ReplyReader {
    fn default() -> Self {
        Self { frames: FrameBuffer::new(MAX_REPLY_BYTES).with_kept_bytes(KEPT_BYTES), invalid_frame: None }
    }
}

impl ReplyReader {
    pub(super) fn spare_mut(&mut self) -> &mut [u8] {
        self.frames.spare_mut()
    }

    /// The result of a read into `spare_mut`. An error if the connection has ended.
    pub(super) fn accept_read(&mut self, received: io::Result<usize>) -> Result<(), CallError> {
        match received {
            Ok(0) => Err(self.invalid_frame.take().map_or(CallError::Closed, CallError::Protocol)),
            Ok(count) => {
                self.frames.filled(count);
                Ok(())
            }
            Err(error) if is_hang_up(&error) => Err(CallError::Closed),
            Err(error) => Err(CallError::Io(error.to_string())),
        }
    }

    /// The next reply. An error ends the connection: the service reported one that belongs to no call, or it does not speak
    /// this protocol.
    pub(super) fn next_reply(&mut self) -> Option<Result<CallReply, CallError>> {
        loop {
            let line = match self.frames.next()? {
                Ok(line) => line,
                Err(too_large) => return Some(Err(CallError::Protocol(too_large.to_string()))),
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match parse_frame(line) {
                Ok(ParsedFrame::Reply(reply)) => return Some(Ok(reply)),
                Ok(ParsedFrame::ConnectionError(error)) => return Some(Err(CallError::Remote(error))),
                Ok(ParsedFrame::Unrelated) => {}
                Err(why) if self.invalid_frame.is_none() => self.invalid_frame = Some(why),
                Err(why) => return Some(Err(CallError::Protocol(why))),
            }
        }
    }
}

enum ParsedFrame {
    Reply(CallReply),
    /// An error of the connection itself.
    ConnectionError(RemoteError),
    /// A notification, or the reply to a call that was never sent.
    Unrelated,
}

#[derive(Deserialize)]
struct ReplyFrame<'a> {
    #[serde(default)]
    id: Value,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn parse_frame(line: &[u8]) -> Result<ParsedFrame, String> {
    // Once for the whole line, not for every string in it.
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let line: ReplyFrame<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let id = match (&line.id, line.error) {
        (Value::Null, Some(error)) => return Ok(ParsedFrame::ConnectionError(parse_error(error)?)),
        (id, _) => id.as_u64(),
    };
    let Some(id) = id else { return Ok(ParsedFrame::Unrelated) };
    let outcome = match (line.result, line.error) {
        (_, Some(error)) => Err(parse_error(error)?),
        (Some(result), None) => Ok(result.to_owned()),
        (None, None) => return Err("neither result nor error".into()),
    };
    Ok(ParsedFrame::Reply(CallReply { id, outcome }))
}

#[derive(Deserialize)]
struct ReplyErrorObject<'a> {
    code: i64,
    message: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CodedError {
    code: String,
    message: String,
}

fn parse_error(error: &RawValue) -> Result<RemoteError, String> {
    let rpc: ReplyErrorObject<'_> = serde_json::from_str(error.get()).map_err(|error| error.to_string())?;
    if let Some(data) = rpc.data
        && let Ok(CodedError { code, message }) = serde_json::from_str(data.get())
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

    fn read(line: &[u8]) -> Option<Result<CallReply, CallError>> {
        let mut replies = ReplyReader::default();
        let mut rest = line;
        while !rest.is_empty() {
            let spare = replies.spare_mut();
            let count = spare.len().min(rest.len());
            spare[..count].copy_from_slice(&rest[..count]);
            replies.accept_read(Ok(count)).unwrap();
            rest = &rest[count..];
        }
        replies.next_reply()
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
            let _ = parse_frame(&bytes);
        }
    }
}
