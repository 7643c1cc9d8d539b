//! From a method name to its handler: the same list that feeds schemas and documentation. A function in that list
//! without a handler does not compile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::{
    broker::Question,
    functions,
    jail::{Call, Jail},
    ops::Handler,
    path::RawPath,
    wire::{
        Code, Error, Result, RpcError, Warnings,
        compat::{Echo, Older},
        decode::{decode, decode_change},
        envelope::{self, Id, UnknownMembers},
        function::{Class, Cost, Entry, FUNCTIONS},
        types,
    },
};

/// A call whose request made sense, ready to run.
pub struct Prepared {
    pub cost: Cost,
    request: Box<dyn Decoded>,
}

/// A function's request, whatever the function.
trait Decoded: Send {
    fn questions(&self, jail: &Jail) -> Vec<Question>;

    /// Runs the handler and writes its reply line.
    fn run(self: Box<Self>, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>);
}

struct Request<F: Handler> {
    request: F::Request,
    /// What an older wire makes of it.
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

    pub fn prepare(&self, jail: &Jail, params: Value, warnings: &mut Warnings) -> Result<Prepared, RpcError> {
        (self.prepare)(jail, params, warnings).map_err(RpcError::invalid_params)
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
    Ok(Prepared { cost: F::cost(&request), request: Box::new(Request::<F> { request, older }) })
}

/// Makes a present request of an older one. Its results are to be relative to `base_dir`, which is looked up here.
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

    fn run(self: Box<Self>, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) {
        let Self { request, older } = *self;
        let result = call.checkpoint().and_then(|()| F::run(jail, call, request));
        match (result, older) {
            (Ok(response), None) => envelope::write_result(out, id, &response, call.warnings.as_slice()),
            (Ok(response), Some((older, echo))) => {
                let warnings = call.warnings.as_slice();
                match serde_json::to_value(&response).map(|result| older.response(echo, result)) {
                    Ok(result) => envelope::write_result(out, id, &result, warnings),
                    // It says itself what cannot be written.
                    Err(_) => envelope::write_result(out, id, &response, warnings),
                }
            }
            (Err(error), _) => {
                let error = RpcError::from(error).with_warnings(&call.warnings);
                envelope::write_error(out, Some(id), &error);
            }
        }
    }
}

impl Prepared {
    /// What it will ask about, as far as that is known before it runs.
    pub fn questions(&self, jail: &Jail) -> Vec<Question> {
        self.request.questions(jail)
    }

    /// One reply line in `out`, whatever happens: a panic loses this call and no other.
    pub fn run(self, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) {
        if catch_unwind(AssertUnwindSafe(|| self.request.run(jail, call, id, out))).is_err() {
            out.clear();
            let error =
                Error::new(Code::C216, "internal error; the call was given up, the connection is sound");
            envelope::write_error(out, Some(id), &RpcError::from(error));
        }
    }
}
