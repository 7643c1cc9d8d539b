//! The one table of functions. JSON-RPC dispatch, schemas, documentation and every frontend read it;
//! a function exists once, as a type that implements `Function`, and is listed once, in `functions!`.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

/// What a call may do to the disk. A read-only profile does not even offer `Write` functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    Read,
    Write,
}

/// Whether a call may take long. Long calls never occupy the last threads, so a search cannot delay a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    Short,
    Long,
}

/// A function of the wire: its names and types. Its behaviour is `ops::Handler` of the same type, in the worker.
pub trait Function {
    const NAME: &'static str;
    const CLASS: Class;
    const COST: Cost;
    /// Agent-facing: what it does, the envelope spelled out, the next useful call.
    const DESCRIPTION: &'static str;
    type Request: DeserializeOwned + JsonSchema;
    type Response: Serialize + JsonSchema;
}

/// Calls `$with!` with the list of all functions. Adding a function means adding it here; the worker then
/// fails to compile until it has a handler.
#[macro_export]
macro_rules! functions {
    ($with:ident) => {
        $with! { Info, ReadFile, ListFolder }
    };
}
