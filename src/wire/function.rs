//! The one table of functions. JSON-RPC dispatch, schemas, documentation and every frontend read it;
//! a function exists once, as a type that implements `Function`, and is listed once, in `functions!`.

use schemars::{JsonSchema, Schema};
use serde::{Serialize, de::DeserializeOwned};

use super::{schema, types};

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
    type Request: DeserializeOwned + JsonSchema + 'static;
    type Response: Serialize + JsonSchema;
}

/// Calls `$with!` with the list of all functions. Adding a function means adding it here; the worker then
/// fails to compile until it has a handler.
#[macro_export]
macro_rules! functions {
    ($with:ident) => {
        $with! {
            Info, ReadFile, CreateFile, UpdateFile, DeleteFile, ListFolder, Tree, Move, Copy, Mkdir, Restore, Stat
        }
    };
}

/// One row of the table, without its types: what a listing, a dispatcher or a frontend needs.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub class: Class,
    pub cost: Cost,
    pub description: &'static str,
    pub request_schema: fn() -> Schema,
    pub response_schema: fn() -> Schema,
}

impl Entry {
    const fn of<F: Function>() -> Self {
        Self {
            name: F::NAME,
            class: F::CLASS,
            cost: F::COST,
            description: F::DESCRIPTION,
            request_schema: schema::request::<F>,
            response_schema: schema::response::<F>,
        }
    }
}

macro_rules! entries {
    ($($function:ident),* $(,)?) => { &[$(Entry::of::<types::$function>()),*] };
}

/// In the order of `functions!`, which is the order of every listing.
pub static FUNCTIONS: &[Entry] = functions!(entries);

pub fn find(name: &str) -> Option<&'static Entry> {
    FUNCTIONS.iter().find(|entry| entry.name == name)
}
