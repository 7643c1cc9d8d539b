//! The fixed binary layout of the channel. Little-endian, no padding, no optional parts, nothing after the end.
//!
//! Decoders do not trust a byte. They never panic, allocate beyond the message, or accept what the encoder cannot produce: the
//! supervisor kills a worker that sends anything else, so there is no reason to be tolerant.
//!
//! This file has the half that the supervisor runs: it decodes `ToSupervisor` and encodes `ToWorker`. The worker's half is in
//! `worker`.

mod outcome;
mod worker;

pub use outcome::MAX_ETAG_OR_ID_BYTES;
pub use worker::encode_questions;

use super::{CallId, EntryOutcome, Intent, Question, Refusal};
use crate::terms::Code;

/// Questions of one message, and so descriptors of one answer.
pub const MAX_QUESTIONS: usize = 32;
/// Different folders among questions that wait for a lease: the supervisor holds a descriptor for each.
pub const MAX_PARENTS: usize = 8;
/// Outcomes of one message: each becomes a record of the audit.
pub const MAX_OUTCOMES: usize = 32;
/// Bytes of one message from a worker.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Bytes of the paths in one message; the rest of it is for what surrounds them.
pub const MAX_PATH_BYTES: usize = 60 << 10;
/// Bytes of a reason that a worker reports: why a name could not be restored, or why the worker could not confine itself.
pub const MAX_REASON_BYTES: usize = 400;
/// Results of the self-probe in one ready message.
const MAX_ESCAPE_RESULTS: usize = 64;

/// The message is invalid: the sender has a bug or was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed broker message")]
pub struct Malformed;

/// One question in its message, with the call that asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelQuestion {
    pub call: CallId,
    /// Index into the table of functions, as the worker reports it; only for the audit.
    pub function: u8,
    /// Milliseconds left of the call's deadline.
    pub deadline_ms: u32,
    /// See [`super::Caller::takes_leases`].
    pub takes_leases: bool,
    pub question: Question,
}

/// Worker → supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSupervisor {
    /// Confined and probed; `(probe, errno)` for each attempt, 0 = the attempt succeeded.
    Ready {
        version: String,
        escape_results: Vec<(u8, i32)>,
    },
    /// Sent instead of `Ready` by a worker that could not confine itself, with its reason. The worker then exits.
    Failed {
        reason: String,
    },
    Resolve {
        id: u32,
        questions: Vec<ChannelQuestion>,
    },
    /// Leases that are no longer needed.
    Release {
        leases: Vec<u64>,
    },
    /// Answer to a ping: the number of calls that are long past their deadline, and when to ping again (0 = nothing is running).
    Pong {
        nonce: u32,
        overdue: u32,
        next_ms: u32,
    },
    /// The worker refused a path, as its client sent it, without asking; for the audit only.
    Refused {
        function: u8,
        code: Code,
        path: Vec<u8>,
    },
    /// The outcomes of entries of one call that changes something; for the audit only.
    Outcomes {
        function: u8,
        outcomes: Vec<EntryOutcome>,
    },
    /// From a worker that recovers: it could not restore this name. An empty path means the whole root.
    Unsettled {
        root: u16,
        path: Vec<u8>,
        reason: String,
    },
    /// From a worker that recovers, once: every name that it has not reported as unsettled is in order.
    Settled,
    /// Reserves memory for one more step (`terms::FRAME_STEP_BYTES`) of a long line. Answered with `Reserved`.
    Reserve,
    /// The worker has freed the memory of that line. Releases all its reservations.
    Unreserve,
}

/// The codes of paths that a worker refuses without asking: a denied name, a path outside the roots or outside `base_dir`, a change
/// in a read-only root.
pub const REPORTABLE_CODES: [Code; 4] = [Code::NotFound, Code::OutsideRoots, Code::OutsideBaseDir, Code::ReadOnly];

/// Messages from the supervisor to a worker. `Setup` and `Limits` carry JSON that the supervisor has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker {
    Setup {
        json: Vec<u8>,
    },
    Connection {
        id: u64,
    },
    /// Instead of a client's connection: undo the unfinished changes of killed workers, and exit. `waits_for_journals`: if the journal
    /// of an unfinished change is locked, wait for it, because its worker may be dying.
    Recover {
        waits_for_journals: bool,
    },
    Answers {
        id: u32,
        answers: Vec<ChannelAnswer>,
    },
    Ping {
        nonce: u32,
    },
    /// Finish the running calls, take no new ones, and exit.
    Drain,
    /// For calls from now on.
    Limits {
        json: Vec<u8>,
    },
    /// Answer to `Reserve`. After a refusal the worker drops the line and never asks again.
    Reserved {
        granted: bool,
    },
}

/// One answer in its message. `fd` counts the descriptors of that message; `path` is the question's own, or what its
/// links led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelAnswer {
    Parent { fd: u8, missing: u16, lease: u64, path: Vec<u8> },
    Refused(Refusal),
}

mod kind {
    pub const READY: u8 = 1;
    pub const RESOLVE: u8 = 2;
    pub const RELEASE: u8 = 3;
    pub const PONG: u8 = 4;
    pub const REFUSED: u8 = 5;
    pub const UNSETTLED: u8 = 6;
    pub const SETTLED: u8 = 7;
    pub const OUTCOMES: u8 = 8;
    pub const FAILED: u8 = 9;
    pub const RESERVE: u8 = 15;
    pub const UNRESERVE: u8 = 16;
    pub const SETUP: u8 = 17;
    pub const CONNECTION: u8 = 18;
    pub const ANSWERS: u8 = 19;
    pub const PING: u8 = 20;
    pub const DRAIN: u8 = 21;
    pub const LIMITS: u8 = 22;
    pub const RECOVER: u8 = 23;
    pub const RESERVED: u8 = 32;
}

impl ToSupervisor {
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = MessageReader(bytes);
        let message = match input.u8()? {
            kind::READY => {
                let version = input.text(64)?;
                let count = input.count(MAX_ESCAPE_RESULTS)?;
                let probes =
                    (0..count).map(|_| Ok((input.u8()?, input.u32()? as i32))).collect::<Result<_, Malformed>>()?;
                Self::Ready { version, escape_results: probes }
            }
            kind::FAILED => Self::Failed { reason: input.text(MAX_REASON_BYTES)? },
            kind::RESOLVE => {
                let id = input.u32()?;
                let count = input.count(MAX_QUESTIONS)?;
                if count == 0 {
                    return Err(Malformed);
                }
                let asked = (0..count).map(|_| input.read_question()).collect::<Result<_, Malformed>>()?;
                Self::Resolve { id, questions: asked }
            }
            kind::RELEASE => {
                let count = input.count(MAX_QUESTIONS)?;
                Self::Release { leases: (0..count).map(|_| input.u64()).collect::<Result<_, Malformed>>()? }
            }
            kind::PONG => Self::Pong { nonce: input.u32()?, overdue: input.u32()?, next_ms: input.u32()? },
            kind::REFUSED => Self::Refused {
                function: input.u8()?,
                code: *REPORTABLE_CODES.get(usize::from(input.u8()?)).ok_or(Malformed)?,
                path: input.bytes(MAX_MESSAGE_BYTES)?.to_vec(),
            },
            kind::OUTCOMES => {
                let function = input.u8()?;
                let count = input.count(MAX_OUTCOMES)?;
                Self::Outcomes {
                    function,
                    outcomes: (0..count).map(|_| input.read_outcome()).collect::<Result<_, _>>()?,
                }
            }
            kind::UNSETTLED => Self::Unsettled {
                root: input.u16()?,
                path: input.bytes(MAX_MESSAGE_BYTES)?.to_vec(),
                reason: input.text(MAX_REASON_BYTES)?,
            },
            kind::SETTLED => Self::Settled,
            kind::RESERVE => Self::Reserve,
            kind::UNRESERVE => Self::Unreserve,
            _ => return Err(Malformed),
        };
        input.check_end().map(|()| message)
    }
}

impl ToWorker {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MessageWriter::default();
        match self {
            Self::Setup { json } => {
                out.u8(kind::SETUP).0.extend_from_slice(json);
            }
            Self::Connection { id } => {
                out.u8(kind::CONNECTION).u64(*id);
            }
            Self::Answers { id, answers } => {
                out.u8(kind::ANSWERS).u32(*id).u8(answers.len() as u8);
                for answer in answers {
                    match answer {
                        ChannelAnswer::Parent { fd, missing, lease, path } => {
                            out.u8(0).u8(*fd).u16(*missing).u64(*lease).bytes(path);
                        }
                        ChannelAnswer::Refused(refusal) => {
                            let (tag, errno) = encode_refusal(*refusal);
                            out.u8(tag).u32(errno as u32);
                        }
                    }
                }
            }
            Self::Ping { nonce } => {
                out.u8(kind::PING).u32(*nonce);
            }
            Self::Drain => {
                out.u8(kind::DRAIN);
            }
            Self::Limits { json } => {
                out.u8(kind::LIMITS).0.extend_from_slice(json);
            }
            Self::Recover { waits_for_journals: waits } => {
                out.u8(kind::RECOVER).u8((*waits).into());
            }
            Self::Reserved { granted } => {
                out.u8(kind::RESERVED).u8((*granted).into());
            }
        }
        out.0
    }
}

const TAGGED_REFUSALS: [Refusal; 8] = [
    Refusal::NotFound,
    Refusal::Denied,
    Refusal::Escape,
    Refusal::Mount,
    Refusal::NotDirectory,
    Refusal::ReadOnly,
    Refusal::Busy,
    Refusal::Unsettled,
];
/// Tag of `Refusal::Io`; the named ones are 1 to 8, a granted parent is 0.
const IO_TAG: u8 = 9;
/// Tag of `Refusal::Protected`.
const PROTECTED_TAG: u8 = 10;

fn encode_refusal(refusal: Refusal) -> (u8, i32) {
    match refusal {
        Refusal::Io(errno) => (IO_TAG, errno),
        Refusal::Protected(rule) => (PROTECTED_TAG, rule as i32),
        named => (1 + TAGGED_REFUSALS.iter().position(|known| *known == named).unwrap_or(0) as u8, 0),
    }
}

struct MessageWriter(Vec<u8>);

impl Default for MessageWriter {
    /// Room for one question about a path of a usual length.
    fn default() -> Self {
        Self(Vec::with_capacity(128))
    }
}

impl MessageWriter {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// A length and the bytes; callers stay below 64 KiB by the path limit.
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u16(bytes.len() as u16).0.extend_from_slice(bytes);
        self
    }
}

struct MessageReader<'a>(&'a [u8]);

impl<'a> MessageReader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }
    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }
    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
    fn count(&mut self, max: usize) -> Result<usize, Malformed> {
        let count = usize::from(self.u8()?);
        if count > max { Err(Malformed) } else { Ok(count) }
    }
    fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = usize::from(self.u16()?);
        if len > max { Err(Malformed) } else { self.take(len) }
    }
    fn text(&mut self, max: usize) -> Result<String, Malformed> {
        String::from_utf8(self.bytes(max)?.to_vec()).map_err(|_| Malformed)
    }
    fn read_intent(&mut self) -> Result<Intent, Malformed> {
        let byte = self.u8()?;
        let known = [Intent::Read, Intent::Write, Intent::Create, Intent::Look, Intent::Edit];
        known.into_iter().find(|intent| *intent as u8 == byte).ok_or(Malformed)
    }
    fn read_question(&mut self) -> Result<ChannelQuestion, Malformed> {
        Ok(ChannelQuestion {
            call: CallId(self.u64()?),
            function: self.u8()?,
            deadline_ms: self.u32()?,
            takes_leases: self.bool()?,
            question: Question {
                root: self.u16()?,
                intent: self.read_intent()?,
                path: self.bytes(MAX_MESSAGE_BYTES)?.to_vec(),
            },
        })
    }
    fn check_end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
