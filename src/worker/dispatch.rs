//! Runs in the worker: finds the handler of a method in the table that also produces schemas and documentation. A function in that
//! table without a handler does not compile. Does not trust the request.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::{
    broker::Question,
    functions,
    jail::{Call, Jail, SentEntry},
    ops::{Handler, refused_outcomes, sent_entries},
    path::RawPath,
    wire::{
        Code, Error, Limits, Result, RpcError, Warnings,
        compat::{SentPaths, Wire02Function},
        decode::{decode, decode_change},
        envelope::{self, Id, UnknownMembers},
        function::{Cost, FUNCTIONS, FunctionClass, FunctionEntry},
        types,
    },
};

/// A call whose request was decoded, ready to run.
pub struct PreparedCall {
    pub cost: Cost,
    request: Box<dyn DecodedRequest>,
    /// The entries of a request that may change something, for the audit. None of one that only reads.
    sent_entries: Option<Vec<SentEntry>>,
}

/// The request of any function.
trait DecodedRequest: Send {
    fn questions(&self, jail: &Jail) -> Vec<Question>;

    fn changes(&self) -> bool;

    /// Runs the handler and writes its reply line. Returns the code of a call that failed as a whole.
    fn run(self: Box<Self>, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) -> Result<(), Code>;
}

struct TypedRequest<F: Handler> {
    request: F::Request,
    /// The function and the paths as sent, to translate the reply into wire 0.2.
    older_wire: Option<(Wire02Function, SentPaths)>,
}

/// A row of the table with its handler.
pub struct FunctionHandler {
    pub index: u8,
    pub entry: &'static FunctionEntry,
    prepare: fn(&Jail, Value, &mut Warnings) -> Result<PreparedCall>,
}

macro_rules! handlers {
    ($($function:ident),* $(,)?) => { &[$(prepare::<types::$function>),*] };
}

type PrepareFunction = fn(&Jail, Value, &mut Warnings) -> Result<PreparedCall>;
static HANDLERS: &[PrepareFunction] = functions!(handlers);

pub fn find_handler(name: &str) -> Result<FunctionHandler, RpcError> {
    let position = FUNCTIONS.iter().position(|entry| entry.name == name);
    let index = position.ok_or_else(|| RpcError::unknown_method(name, FUNCTIONS.iter().map(|entry| entry.name)))?;
    Ok(FunctionHandler { index: index as u8, entry: &FUNCTIONS[index], prepare: HANDLERS[index] })
}

impl FunctionHandler {
    /// Reads never wait for a lease, so their questions may be asked before their turn.
    pub fn may_ask_early(&self) -> bool {
        self.entry.class == FunctionClass::Read
    }

    /// Unknown members beside `params`: warnings for a call that reads, C210 for one that changes something.
    pub fn check_members(&self, unknown: &UnknownMembers) -> Result<Warnings, RpcError> {
        match self.entry.class {
            FunctionClass::Read => Ok(unknown.warnings()),
            FunctionClass::Write => {
                unknown.check_none().map(|()| Warnings::default()).map_err(RpcError::invalid_params)
            }
        }
    }

    /// The entries of a request, if it may change something.
    fn collect_sent_entries(&self, params: &Value, limits: &Limits) -> Option<Vec<SentEntry>> {
        let most = limits.max_batch_entries as usize;
        (self.entry.class == FunctionClass::Write).then(|| sent_entries(params, most))
    }

    /// For the audit: reports a call that was refused before its request was decoded.
    pub fn report_refused(&self, jail: &Jail, params: &Value, limits: &Limits) {
        if let Some(sent) = self.collect_sent_entries(params, limits) {
            jail.report_outcomes(self.index, refused_outcomes(sent, Code::BadInput));
        }
    }

    pub fn prepare(
        &self,
        jail: &Jail,
        params: Value,
        limits: &Limits,
        warnings: &mut Warnings,
    ) -> Result<PreparedCall, RpcError> {
        let sent = self.collect_sent_entries(&params, limits);
        match (self.prepare)(jail, params, warnings) {
            Ok(prepared) => Ok(PreparedCall { sent_entries: sent.filter(|_| prepared.request.changes()), ..prepared }),
            Err(error) => {
                if let Some(sent) = sent {
                    jail.report_outcomes(self.index, refused_outcomes(sent, error.code));
                }
                Err(RpcError::invalid_params(error))
            }
        }
    }
}

fn prepare<F: Handler + 'static>(jail: &Jail, mut params: Value, warnings: &mut Warnings) -> Result<PreparedCall>
where
    F::Request: Send + 'static,
{
    let older = jail.settings().wire.wire_02_function(F::NAME);
    let older = older.map(|older| Ok((older, translate_request(jail, older, &mut params, warnings)?))).transpose()?;
    let request: F::Request = match F::CLASS {
        FunctionClass::Read => decode(params, "", warnings)?,
        FunctionClass::Write => decode_change(params)?,
    };
    let cost = F::cost(&request);
    Ok(PreparedCall { cost, request: Box::new(TypedRequest::<F> { request, older_wire: older }), sent_entries: None })
}

/// Translates a request of an older wire. Its results are relative to `base_dir`, which is resolved here.
fn translate_request(
    jail: &Jail,
    older: Wire02Function,
    params: &mut Value,
    warnings: &mut Warnings,
) -> Result<SentPaths> {
    let echo = older.adapt_request(params, warnings)?;
    let base = params.get("base_dir").and_then(Value::as_str);
    // A `base_dir` outside every root is refused when the call runs.
    Ok(match base.and_then(|base| jail.locate_early(&RawPath::text("."), Some(&RawPath::text(base)))) {
        Some(base) => echo.with_base_folder(String::from_utf8_lossy(base.path.rel()).into_owned()),
        None => echo,
    })
}

impl<F: Handler> DecodedRequest for TypedRequest<F>
where
    F::Request: Send,
{
    fn questions(&self, jail: &Jail) -> Vec<Question> {
        F::questions(jail, &self.request)
    }

    fn changes(&self) -> bool {
        F::may_change(&self.request)
    }

    fn run(self: Box<Self>, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) -> Result<(), Code> {
        let Self { request, older_wire: older } = *self;
        let result = call.checkpoint().and_then(|()| F::run(jail, call, request));
        let failed = result.as_ref().err().map(|error| error.code);
        match (result, older) {
            (Ok(response), None) => envelope::write_result(out, id, &response, call.warnings.as_slice()),
            (Ok(response), Some((older, echo))) => {
                let warnings = call.warnings.as_slice();
                match serde_json::to_value(&response).map(|result| older.adapt_response(echo, result)) {
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

impl PreparedCall {
    /// The questions that the call will ask, as far as they are known before it runs.
    pub fn questions(&self, jail: &Jail) -> Vec<Question> {
        self.request.questions(jail)
    }

    /// Writes one reply line to `out` in every case: a panic fails this call and no other. The audit gets the outcomes first.
    pub fn run(self, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) {
        let Self { request, sent_entries: sent, .. } = self;
        let changes = sent.is_some();
        if let Some(sent) = sent {
            call.begin_change(sent);
        }
        let ran = catch_unwind(AssertUnwindSafe(|| request.run(jail, call, id, out))).unwrap_or_else(|_| {
            out.clear();
            let error = Error::new(Code::Io, "internal error; the call was given up, the connection is sound");
            envelope::write_error(out, Some(id), &RpcError::from(error));
            Err(Code::Io)
        });
        if changes {
            let code = ran.err().unwrap_or(Code::Io);
            let outcomes = call.take_outcomes(|sent| refused_outcomes(sent, code));
            jail.report_outcomes(call.caller().function, outcomes);
        }
    }

    /// For the audit: reports a call that was answered without being run.
    pub fn report_unrun(&self, jail: &Jail, function: u8, code: Code) {
        if let Some(sent) = &self.sent_entries {
            jail.report_outcomes(function, refused_outcomes(sent.clone(), code));
        }
    }
}
