//! The supervisor and its workers as an operator meets them: who is served, as whom, what becomes of workers that
//! die or hang, and which things on disk a read may meet.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "../support/mod.rs"]
mod support;

mod folding;
mod identity;
mod lifecycle;
mod names;
mod objects;
mod peers;
mod root_calls;
mod socket;
mod swaps;
