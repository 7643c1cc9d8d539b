//! The one table of functions. JSON-RPC dispatch, schemas, documentation and every frontend read it;
//! a function exists once, as a type that implements `Function`, and is listed once, in `functions!`.

use schemars::{JsonSchema, Schema};
use serde::{Serialize, de::DeserializeOwned};

use super::{schema, types};

/// Whether a call may change the disk. A read-only profile does not offer `Write` functions.
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

/// The MCP tool of a function, for models: a short name, flat arguments, a short description.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    /// Shown to users.
    pub title: &'static str,
    /// What the tool does, the defaults that matter, and an example where the arguments need one. Short, because it is part
    /// of the prompt in every conversation. The names of most arguments need no explanation.
    pub description: &'static str,
    /// JSON Schema of the arguments that models need. Written without descriptions, because the names suffice. A test
    /// compares it with the schema of the request. A call may use every field of the request.
    pub input_schema: &'static str,
    pub argument_mapping: ArgumentMapping,
    /// May replace or remove existing files.
    pub destroys: bool,
    /// Repeating the same call changes nothing more.
    pub idempotent: bool,
}

/// How flat arguments are turned into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentMapping {
    /// The arguments are the request.
    Request,
    /// The arguments are the only entry of this list of the request. Arguments with the names in the second list are fields
    /// of the request itself.
    Entry(&'static str, &'static [&'static str]),
}

/// A function of the wire: its names and types. Its behaviour is `ops::Handler` of the same type, in the worker.
pub trait Function {
    const NAME: &'static str;
    const CLASS: FunctionClass;
    const COST: Cost;
    /// The description for agents: what the function does, an example with the whole envelope, the next useful call.
    const DESCRIPTION: &'static str;
    /// `None` for a function that a model needs no tool for, because another tool covers it: every tool takes a part of the
    /// model's attention.
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

/// All functions, in the order of `functions!`, which is the order of every listing.
pub static FUNCTIONS: &[FunctionEntry] = functions!(entries);

pub fn find_function(name: &str) -> Option<&'static FunctionEntry> {
    FUNCTIONS.iter().find(|entry| entry.name == name)
}
