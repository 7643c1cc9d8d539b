//! Runs in the worker, confined: one file or folder per function.
//! Trusts: the jail. Does not trust: requests, names, file content.
//! Never opens anything by itself; every descriptor comes from `jail`.

pub mod copy;
pub mod create_file;
pub mod delete_file;
pub mod find;
pub mod info;
pub mod list_folder;
pub mod mkdir;
pub mod move_;
pub mod read_file;
pub mod restore;
pub mod search;
pub mod stat;
pub mod tree;
pub mod update_file;

mod batch;
mod changes;
mod cursor;
mod folder;
mod modes;
mod move_copy;
mod names;
mod near;
mod outcomes;
mod pasted;
mod scope;
mod survey;
mod versions;

pub use outcomes::{refused_outcomes, sent_entries};

use crate::{
    broker::Question,
    jail::{Call, Jail},
    wire::{
        Result,
        function::{Cost, Function, FunctionClass},
    },
};

/// The behaviour of a function of the wire. Its types are in `wire::types`.
pub trait Handler: Function {
    /// The questions that `run` will certainly ask first, so that the worker can put those of all waiting calls
    /// into one message. Paths that are refused lexically contribute none.
    fn questions(jail: &Jail, request: &Self::Request) -> Vec<Question>;

    /// Whether this request may take long, for functions of which only some requests do.
    fn cost(_: &Self::Request) -> Cost {
        Self::COST
    }

    /// True if this request may change something, so that the audit gets the outcome of each entry.
    fn may_change(_: &Self::Request) -> bool {
        Self::CLASS == FunctionClass::Write
    }

    fn run(jail: &Jail, call: &mut Call, request: Self::Request) -> Result<Self::Response>;
}
