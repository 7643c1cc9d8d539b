//! The one table of functions. JSON-RPC dispatch, schemas, documentation and every frontend read it;
//! a function exists once, as a type that implements `Function`, and is listed once, in `functions!`.

use schemars::{JsonSchema, Schema};
use serde::{Serialize, de::DeserializeOwned};

use super::{schema, types};

/// What a call may do to the disk. A read-only profile does not even offer `Write` functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionClass {
    Read,
    Write,
}

/// Whether a call may take long. Long calls never occupy the last threads, so a search cannot delay a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    Short,
    Long,
}

/// How a function is offered to a model, by MCP: under a short name, with flat arguments, in few words.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What it does, defaults that matter, and an example where the arguments need one. Short: a model pays for it in every
    /// conversation. The names of most arguments say what they are.
    pub description: &'static str,
    /// JSON Schema of the arguments that models need. By hand and without words, because the names say it; held against the
    /// request's own schema by a test. A call may use every field of the request.
    pub input_schema: &'static str,
    pub argument_mapping: ArgumentMapping,
    /// May replace or remove what is there.
    pub destroys: bool,
    /// The same call once more changes nothing more.
    pub idempotent: bool,
}

/// How flat arguments become a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentMapping {
    /// They are the request.
    Request,
    /// They are one entry of this list of the request, but for the second names, which lie beside it.
    Entry(&'static str, &'static [&'static str]),
}

/// A function of the wire: its names and types. Its behaviour is `ops::Handler` of the same type, in the worker.
pub trait Function {
    const NAME: &'static str;
    const CLASS: FunctionClass;
    const COST: Cost;
    /// Agent-facing: what it does, the envelope spelled out, the next useful call.
    const DESCRIPTION: &'static str;
    /// Absent for what a model does by way of another tool: each one costs it attention.
    const TOOL: Option<Tool> = None;
    type Request: DeserializeOwned + JsonSchema + 'static;
    type Response: Serialize + JsonSchema;
}

/// Calls `$with!` with the list of all functions. Adding a function means adding it here; the worker then
/// fails to compile until it has a handler.
#[macro_export]
macro_rules! functions {
    ($with:ident) => {
        $with! {
            Info, ReadFile, CreateFile, UpdateFile, DeleteFile, ListFolder, Tree, Move, Copy, Mkdir, Restore, Stat, Find,
            Search
        }
    };
}

/// One row of the table, without its types: what a listing, a dispatcher or a frontend needs.
#[derive(Debug, Clone, Copy)]
pub struct FunctionEntry {
    pub name: &'static str,
    pub class: FunctionClass,
    pub cost: Cost,
    pub description: &'static str,
    pub tool: Option<Tool>,
    pub request_schema: fn() -> Schema,
    pub response_schema: fn() -> Schema,
}

impl FunctionEntry {
    const fn of<F: Function>() -> Self {
        Self {
            name: F::NAME,
            class: F::CLASS,
            cost: F::COST,
            description: F::DESCRIPTION,
            tool: F::TOOL,
            request_schema: schema::request_schema::<F>,
            response_schema: schema::response_schema::<F>,
        }
    }
}

macro_rules! entries {
    ($($function:ident),* $(,)?) => { &[$(FunctionEntry::of::<types::$function>()),*] };
}

/// In the order of `functions!`, which is the order of every listing.
pub static FUNCTIONS: &[FunctionEntry] = functions!(entries);

pub fn find_function(name: &str) -> Option<&'static FunctionEntry> {
    FUNCTIONS.iter().find(|entry| entry.name == name)
}
