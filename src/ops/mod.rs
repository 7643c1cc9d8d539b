//! Runs in the worker, confined: one file or folder per function.
//! Trusts: the jail. Does not trust: requests, names, file content.
//! Never opens anything by itself; every descriptor comes from `jail`.

pub mod create_file;
pub mod delete_file;
pub mod info;
pub mod list_folder;
pub mod mkdir;
pub mod read_file;
pub mod relocate;
pub mod restore;
pub mod stat;
pub mod tree;
pub mod update_file;

mod batch;
mod changes;
mod folder;
mod modes;
mod names;
mod versions;

use crate::{
    broker::Question,
    jail::{Call, Jail},
    wire::{
        Result,
        function::{Cost, Function},
    },
};

/// What a function of the wire does. The types are `wire::types`'; this is their behaviour.
pub trait Handler: Function {
    /// The questions that `run` will certainly ask first, so that the worker can put those of all waiting calls
    /// into one message. Paths that are refused lexically contribute none.
    fn questions(jail: &Jail, request: &Self::Request) -> Vec<Question>;

    /// Whether this request may take long; only where the answer is not the same for all.
    fn cost(_: &Self::Request) -> Cost {
        Self::COST
    }

    fn run(jail: &Jail, call: &mut Call, request: Self::Request) -> Result<Self::Response>;
}
