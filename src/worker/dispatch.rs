//! From a method name to its handler: the same list that feeds schemas and documentation. A function in that list
//! without a handler does not compile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::{
    broker::Question,
    functions,
    jail::{Call, Jail},
    ops::Handler,
    wire::{
        Code, Error, Result, RpcError, Warnings,
        decode::decode,
        envelope::{self, Id},
        function::{Class, Cost, Entry, FUNCTIONS},
        types,
    },
};

/// A call whose request made sense, ready to run.
pub struct Prepared {
    /// What it will ask about, as far as that is known before it runs.
    pub questions: Vec<Question>,
    pub cost: Cost,
    run: Run,
}

/// Runs the handler and writes its reply line.
type Run = Box<dyn FnOnce(&Jail, &mut Call, &Id, &mut Vec<u8>) + Send>;

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

    pub fn prepare(&self, jail: &Jail, params: Value, warnings: &mut Warnings) -> Result<Prepared, RpcError> {
        (self.prepare)(jail, params, warnings).map_err(RpcError::invalid_params)
    }
}

fn prepare<F: Handler>(jail: &Jail, mut params: Value, warnings: &mut Warnings) -> Result<Prepared>
where
    F::Request: Send + 'static,
{
    let older = jail.settings().wire.older(F::NAME);
    let older = older.map(|older| (older, older.request(&mut params, warnings)));
    let request: F::Request = decode(params, "", warnings)?;
    let (questions, cost) = (F::questions(jail, &request), F::cost(&request));
    let run = Box::new(move |jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>| {
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
    });
    Ok(Prepared { questions, cost, run })
}

impl Prepared {
    /// One reply line in `out`, whatever happens: a panic loses this call and no other.
    pub fn run(self, jail: &Jail, call: &mut Call, id: &Id, out: &mut Vec<u8>) {
        let run = self.run;
        if catch_unwind(AssertUnwindSafe(|| run(jail, call, id, out))).is_err() {
            out.clear();
            let error =
                Error::new(Code::C216, "internal error; the call was given up, the connection is sound");
            envelope::write_error(out, Some(id), &RpcError::from(error));
        }
    }
}
