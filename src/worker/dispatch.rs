//! Runs in the worker: finds the handler of a method in the table that also produces schemas and documentation. A function in that
//! table without a handler does not compile. Does not trust the request.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::{
    broker::Question,
    functions,
    jail::{Call, Jail, SentEntry},
    ops::{Handler, refuse_all, sent_entries},
    path::RawPath,
    wire::{
        Code, Error, Limits, Result, RpcError, Warnings,
        compat::{Echo, Older},
        decode::{decode, decode_change},
        envelope::{self, Id, UnknownMembers},
        function::{Class, Cost, Entry, FUNCTIONS},
        types,
    },
};

/// A call whose request was decoded, ready to run.
pub struct Prepared {
    pub cost: Cost,
    request: Box<dyn Decoded>,
    /// The entries of a request that may change something, for the audit. None of one that only reads.
    sent: Option<Vec<SentEntry>>,
}

/// The request of any function.
trait Decoded: Send {
    fn questions(&self, jail: &Jail) -> Vec<Question>;

    fn changes(&self) -> bool;

    /// Runs the handler and writes its reply line. Returns the code of a call that failed as a whole.
    fn run(self: Box<Self>, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) -> Result<(), Code>;
}

struct Request<F: Handler> {
    request: F::Request,
    /// How to translate the reply for an older wire.
    older: Option<(Older, Echo)>,
}

/// A row of the table with its handler.
pub struct Method {
    pub index: u8,
    pub entry: &'static Entry,
    prepare: fn(&Jail, Value, &mut Warnings) -> Result<Prepared>,
}

macro_rules! handlers {
    ($($function:ident),* $(,)?) => { &[$(prepare::<types::$function>),*] };
}

type Prepare = fn(&Jail, Value, &mut Warnings) -> Result<Prepared>;
static HANDLERS: &[Prepare] = functions!(handlers);

pub fn find(name: &str) -> Result<Method, RpcError> {
    let position = FUNCTIONS.iter().position(|entry| entry.name == name);
    let index =
        position.ok_or_else(|| RpcError::unknown_method(name, FUNCTIONS.iter().map(|entry| entry.name)))?;
    Ok(Method { index: index as u8, entry: &FUNCTIONS[index], prepare: HANDLERS[index] })
}

impl Method {
    /// Reads never wait for a lease, so their questions may be asked before their turn.
    pub fn may_ask_early(&self) -> bool {
        self.entry.class == Class::Read
    }

    /// Unknown members beside `params`: warnings for a call that reads, C210 for one that changes something.
    pub fn check_members(&self, unknown: &UnknownMembers) -> Result<Warnings, RpcError> {
        match self.entry.class {
            Class::Read => Ok(unknown.warnings()),
            Class::Write => {
                unknown.check_none().map(|()| Warnings::default()).map_err(RpcError::invalid_params)
            }
        }
    }

    /// The entries of a request, if it may change something.
    fn sent(&self, params: &Value, limits: &Limits) -> Option<Vec<SentEntry>> {
        let most = limits.max_batch_entries as usize;
        (self.entry.class == Class::Write).then(|| sent_entries(params, most))
    }

    /// For the audit: reports a call that was refused before its request was decoded.
    pub fn report_refused(&self, jail: &Jail, params: &Value, limits: &Limits) {
        if let Some(sent) = self.sent(params, limits) {
            jail.report_outcomes(self.index, refuse_all(sent, Code::BadInput));
        }
    }

    pub fn prepare(
        &self,
        jail: &Jail,
        params: Value,
        limits: &Limits,
        warnings: &mut Warnings,
    ) -> Result<Prepared, RpcError> {
        let sent = self.sent(&params, limits);
        match (self.prepare)(jail, params, warnings) {
            Ok(prepared) => Ok(Prepared { sent: sent.filter(|_| prepared.request.changes()), ..prepared }),
            Err(error) => {
                if let Some(sent) = sent {
                    jail.report_outcomes(self.index, refuse_all(sent, error.code));
                }
                Err(RpcError::invalid_params(error))
            }
        }
    }
}

fn prepare<F: Handler + 'static>(jail: &Jail, mut params: Value, warnings: &mut Warnings) -> Result<Prepared>
where
    F::Request: Send + 'static,
{
    let older = jail.settings().wire.older(F::NAME);
    let older = older.map(|older| Ok((older, adapt(jail, older, &mut params, warnings)?))).transpose()?;
    let request: F::Request = match F::CLASS {
        Class::Read => decode(params, "", warnings)?,
        Class::Write => decode_change(params)?,
    };
    let cost = F::cost(&request);
    Ok(Prepared { cost, request: Box::new(Request::<F> { request, older }), sent: None })
}

/// Translates a request of an older wire. Its results are relative to `base_dir`, which is resolved here.
fn adapt(jail: &Jail, older: Older, params: &mut Value, warnings: &mut Warnings) -> Result<Echo> {
    let echo = older.request(params, warnings)?;
    let base = params.get("base_dir").and_then(Value::as_str);
    // A `base_dir` outside every root is refused when the call runs.
    Ok(match base.and_then(|base| jail.foresee(&RawPath::text("."), Some(&RawPath::text(base)))) {
        Some(base) => echo.with_base(String::from_utf8_lossy(base.path.rel()).into_owned()),
        None => echo,
    })
}

impl<F: Handler> Decoded for Request<F>
where
    F::Request: Send,
{
    fn questions(&self, jail: &Jail) -> Vec<Question> {
        F::questions(jail, &self.request)
    }

    fn changes(&self) -> bool {
        F::changes(&self.request)
    }

    fn run(self: Box<Self>, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) -> Result<(), Code> {
        let Self { request, older } = *self;
        let result = call.checkpoint().and_then(|()| F::run(jail, call, request));
        let failed = result.as_ref().err().map(|error| error.code);
        match (result, older) {
            (Ok(response), None) => envelope::write_result(out, id, &response, call.warnings.as_slice()),
            (Ok(response), Some((older, echo))) => {
                let warnings = call.warnings.as_slice();
                match serde_json::to_value(&response).map(|result| older.response(echo, result)) {
                    Ok(result) => envelope::write_result(out, id, &result, warnings),
                    // `write_result` reports the error itself.
                    Err(_) => envelope::write_result(out, id, &response, warnings),
                }
            }
            (Err(error), _) => {
                let error = RpcError::from(error).with_warnings(&call.warnings);
                envelope::write_error(out, Some(id), &error);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Prepared {
    /// The questions that the call will ask, as far as they are known before it runs.
    pub fn questions(&self, jail: &Jail) -> Vec<Question> {
        self.request.questions(jail)
    }

    /// Writes one reply line to `out` in every case: a panic fails this call and no other. The audit gets the outcomes first.
    pub fn run(self, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) {
        let Self { request, sent, .. } = self;
        let changes = sent.is_some();
        if let Some(sent) = sent {
            call.begin_change(sent);
        }
        let ran = catch_unwind(AssertUnwindSafe(|| request.run(jail, call, id, out))).unwrap_or_else(|_| {
            out.clear();
            let error =
                Error::new(Code::Io, "internal error; the call was given up, the connection is sound");
            envelope::write_error(out, Some(id), &RpcError::from(error));
            Err(Code::Io)
        });
        if changes {
            let code = ran.err().unwrap_or(Code::Io);
            let outcomes = call.take_outcomes(|sent| refuse_all(sent, code));
            jail.report_outcomes(call.caller().function, outcomes);
        }
    }

    /// For the audit: reports a call that was answered without being run.
    pub fn report_unrun(&self, jail: &Jail, function: u8, code: Code) {
        if let Some(sent) = &self.sent {
            jail.report_outcomes(function, refuse_all(sent.clone(), code));
        }
    }
}
