//! What each function of the wire does, and the wire itself.

mod change;
mod compat;
mod history;
mod search;
#[path = "../support/mod.rs"]
mod support;
mod tree;
mod update;
mod wire;
