//! The worker's half of the codec: encodes `ToSupervisor`, decodes `ToWorker`. Never runs in the supervisor.

use super::{
    Answered, Asked, IO, MAX_MESSAGE, MAX_QUESTIONS, Malformed, PROTECTED, REFUSALS, REPORTED, Reader,
    ToSupervisor, ToWorker, Writer, kind, outcome,
};
use crate::broker::{Became, CallId, Caller, Outcome, Question, Refusal};

impl ToSupervisor {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Ready { version, probes } => {
                out.u8(kind::READY).bytes(version.as_bytes()).u8(probes.len() as u8);
                for (probe, errno) in probes {
                    out.u8(*probe).u32(*errno as u32);
                }
            }
            Self::Failed { reason } => {
                out.u8(kind::FAILED).bytes(reason.as_bytes());
            }
            Self::Resolve { id, asked } => {
                out.u8(kind::RESOLVE).u32(*id).u8(asked.len() as u8);
                asked.iter().for_each(|asked| out.asked(asked));
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
                let code = REPORTED.iter().position(|known| known == code).unwrap_or(0);
                out.u8(kind::REFUSED).u8(*function).u8(code as u8).bytes(path);
            }
            Self::Outcomes { function, outcomes } => {
                out.u8(kind::OUTCOMES).u8(*function).u8(outcomes.len() as u8);
                outcomes.iter().for_each(|outcome| out.outcome(outcome));
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
        let mut input = Reader(bytes);
        let message = match input.u8()? {
            kind::SETUP => Self::Setup { json: std::mem::take(&mut input.0).to_vec() },
            kind::CONNECTION => Self::Connection { id: input.u64()? },
            kind::ANSWERS => {
                let id = input.u32()?;
                let count = input.count(MAX_QUESTIONS)?;
                Self::Answers {
                    id,
                    answers: (0..count).map(|_| input.answered()).collect::<Result<_, Malformed>>()?,
                }
            }
            kind::PING => Self::Ping { nonce: input.u32()? },
            kind::DRAIN => Self::Drain,
            kind::LIMITS => Self::Limits { json: std::mem::take(&mut input.0).to_vec() },
            kind::RECOVER => Self::Recover { waits: input.bool()? },
            kind::RESERVED => Self::Reserved { granted: input.bool()? },
            _ => return Err(Malformed),
        };
        input.end().map(|()| message)
    }
}

/// [`ToSupervisor::Resolve`] without a copy of what is asked: the message of nearly every call.
pub fn encode_questions<'q>(
    id: u32,
    questions: impl ExactSizeIterator<Item = (Caller, &'q Question)>,
) -> Vec<u8> {
    let mut out = Writer::default();
    out.u8(kind::RESOLVE).u32(id).u8(questions.len() as u8);
    for (caller, question) in questions {
        out.question(caller.call, caller.function, caller.remaining_ms(), caller.takes_leases, question);
    }
    out.0
}

impl Writer {
    fn asked(&mut self, asked: &Asked) {
        let Asked { call, function, deadline_ms, takes_leases, question } = asked;
        self.question(*call, *function, *deadline_ms, *takes_leases, question);
    }
    fn question(&mut self, call: CallId, function: u8, deadline_ms: u32, leases: bool, question: &Question) {
        let Question { root, path, intent } = question;
        self.u64(call.0).u8(function).u32(deadline_ms).u8(leases.into());
        self.u16(*root).u8(*intent as u8).bytes(path);
    }

    fn outcome(&mut self, outcome: &Outcome) {
        let Outcome { became, names, effect } = outcome;
        match became {
            Became::Changed => self.u8(outcome::CHANGED),
            Became::Unchanged => self.u8(outcome::UNCHANGED),
            Became::DryRun => self.u8(outcome::DRY_RUN),
            Became::Refused { code, denied } => {
                self.u8(outcome::REFUSED).u8(*code as u8).u8((*denied).into())
            }
        };
        self.bytes(&names.path);
        self.part(names.to.as_deref(), Self::bytes);
        for number in [effect.bytes, effect.entries] {
            self.part(number, Self::u64);
        }
        for word in [&effect.etag_before, &effect.etag_after, &effect.trash_id] {
            self.part(word.as_deref().map(str::as_bytes), Self::bytes);
        }
    }

    fn part<T>(&mut self, part: Option<T>, write: impl FnOnce(&mut Self, T) -> &mut Self) {
        self.u8(part.is_some().into());
        if let Some(part) = part {
            write(self, part);
        }
    }
}

impl Reader<'_> {
    fn answered(&mut self) -> Result<Answered, Malformed> {
        match self.u8()? {
            0 => Ok(Answered::Parent {
                fd: self.u8()?,
                missing: self.u16()?,
                lease: self.u64()?,
                path: self.bytes(MAX_MESSAGE)?.to_vec(),
            }),
            IO => Ok(Answered::Refused(Refusal::Io(self.u32()? as i32))),
            PROTECTED => Ok(Answered::Refused(Refusal::Protected(self.u32()?))),
            tag => {
                let refusal = REFUSALS.get(usize::from(tag) - 1).ok_or(Malformed)?;
                if self.u32()? != 0 { Err(Malformed) } else { Ok(Answered::Refused(*refusal)) }
            }
        }
    }
}
