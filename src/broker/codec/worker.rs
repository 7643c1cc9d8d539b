//! The worker's half of the codec: encodes `ToSupervisor`, decodes `ToWorker`. Never runs in the supervisor.

use super::{
    ChannelAnswer, ChannelQuestion, IO_TAG, MAX_MESSAGE_BYTES, MAX_QUESTIONS, Malformed, MessageReader, MessageWriter,
    PROTECTED_TAG, REPORTABLE_CODES, TAGGED_REFUSALS, ToSupervisor, ToWorker, kind, outcome,
};
use crate::broker::{CallId, Caller, EntryOutcome, OutcomeKind, Question, Refusal};

impl ToSupervisor {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MessageWriter::default();
        match self {
            Self::Ready { version, escape_results: probes } => {
                out.u8(kind::READY).bytes(version.as_bytes()).u8(probes.len() as u8);
                for (probe, errno) in probes {
                    out.u8(*probe).u32(*errno as u32);
                }
            }
            Self::Failed { reason } => {
                out.u8(kind::FAILED).bytes(reason.as_bytes());
            }
            Self::Resolve { id, questions: asked } => {
                out.u8(kind::RESOLVE).u32(*id).u8(asked.len() as u8);
                asked.iter().for_each(|asked| out.write_channel_question(asked));
            }
            Self::Release { leases } => {
                out.u8(kind::RELEASE).u8(leases.len() as u8);
                for lease in leases {
                    out.u64(*lease);
                }
            }
            Self::Pong { nonce, overdue, next_ms } => {
                out.u8(kind::PONG).u32(*nonce).u32(*overdue).u32(*next_ms);
            }
            Self::Refused { function, code, path } => {
                let code = REPORTABLE_CODES.iter().position(|known| known == code).unwrap_or(0);
                out.u8(kind::REFUSED).u8(*function).u8(code as u8).bytes(path);
            }
            Self::Outcomes { function, outcomes } => {
                out.u8(kind::OUTCOMES).u8(*function).u8(outcomes.len() as u8);
                outcomes.iter().for_each(|outcome| out.write_outcome(outcome));
            }
            Self::Unsettled { root, path, reason } => {
                out.u8(kind::UNSETTLED).u16(*root).bytes(path).bytes(reason.as_bytes());
            }
            Self::Settled => {
                out.u8(kind::SETTLED);
            }
            Self::Reserve => {
                out.u8(kind::RESERVE);
            }
            Self::Unreserve => {
                out.u8(kind::UNRESERVE);
            }
        }
        out.0
    }
}

impl ToWorker {
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = MessageReader(bytes);
        let message = match input.u8()? {
            kind::SETUP => Self::Setup { json: std::mem::take(&mut input.0).to_vec() },
            kind::CONNECTION => Self::Connection { id: input.u64()? },
            kind::ANSWERS => {
                let id = input.u32()?;
                let count = input.count(MAX_QUESTIONS)?;
                Self::Answers {
                    id,
                    answers: (0..count).map(|_| input.read_answer()).collect::<Result<_, Malformed>>()?,
                }
            }
            kind::PING => Self::Ping { nonce: input.u32()? },
            kind::DRAIN => Self::Drain,
            kind::LIMITS => Self::Limits { json: std::mem::take(&mut input.0).to_vec() },
            kind::RECOVER => Self::Recover { waits_for_journals: input.bool()? },
            kind::RESERVED => Self::Reserved { granted: input.bool()? },
            _ => return Err(Malformed),
        };
        input.check_end().map(|()| message)
    }
}

/// [`ToSupervisor::Resolve`] without a copy of what is asked: the message of nearly every call.
pub fn encode_questions<'q>(id: u32, questions: impl ExactSizeIterator<Item = (Caller, &'q Question)>) -> Vec<u8> {
    let mut out = MessageWriter::default();
    out.u8(kind::RESOLVE).u32(id).u8(questions.len() as u8);
    for (caller, question) in questions {
        out.write_question(caller.call, caller.function, caller.remaining_ms(), caller.takes_leases, question);
    }
    out.0
}

impl MessageWriter {
    fn write_channel_question(&mut self, asked: &ChannelQuestion) {
        let ChannelQuestion { call, function, deadline_ms, takes_leases, question } = asked;
        self.write_question(*call, *function, *deadline_ms, *takes_leases, question);
    }
    fn write_question(&mut self, call: CallId, function: u8, deadline_ms: u32, leases: bool, question: &Question) {
        let Question { root, path, intent } = question;
        self.u64(call.0).u8(function).u32(deadline_ms).u8(leases.into());
        self.u16(*root).u8(*intent as u8).bytes(path);
    }

    fn write_outcome(&mut self, outcome: &EntryOutcome) {
        let EntryOutcome { kind: became, paths: names, effect } = outcome;
        match became {
            OutcomeKind::Changed => self.u8(outcome::CHANGED),
            OutcomeKind::Unchanged => self.u8(outcome::UNCHANGED),
            OutcomeKind::DryRun => self.u8(outcome::DRY_RUN),
            OutcomeKind::Refused { code, denied } => self.u8(outcome::REFUSED).u8(*code as u8).u8((*denied).into()),
        };
        self.bytes(&names.path);
        self.write_optional(names.to.as_deref(), Self::bytes);
        for number in [effect.bytes, effect.entries] {
            self.write_optional(number, Self::u64);
        }
        for word in [&effect.etag_before, &effect.etag_after, &effect.trash_id] {
            self.write_optional(word.as_deref().map(str::as_bytes), Self::bytes);
        }
    }

    fn write_optional<T>(&mut self, part: Option<T>, write: impl FnOnce(&mut Self, T) -> &mut Self) {
        self.u8(part.is_some().into());
        if let Some(part) = part {
            write(self, part);
        }
    }
}

impl MessageReader<'_> {
    fn read_answer(&mut self) -> Result<ChannelAnswer, Malformed> {
        match self.u8()? {
            0 => Ok(ChannelAnswer::Parent {
                fd: self.u8()?,
                missing: self.u16()?,
                lease: self.u64()?,
                path: self.bytes(MAX_MESSAGE_BYTES)?.to_vec(),
            }),
            IO_TAG => Ok(ChannelAnswer::Refused(Refusal::Io(self.u32()? as i32))),
            PROTECTED_TAG => Ok(ChannelAnswer::Refused(Refusal::Protected(self.u32()?))),
            tag => {
                let refusal = TAGGED_REFUSALS.get(usize::from(tag) - 1).ok_or(Malformed)?;
                if self.u32()? != 0 { Err(Malformed) } else { Ok(ChannelAnswer::Refused(*refusal)) }
            }
        }
    }
}
