//! The supervisor and its workers as an operator meets them: who is served, as whom, what becomes of workers that
//! die or hang, and which things on disk a read may meet.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod audit;
mod container;
mod crash;
mod folding;
mod identity;
mod lifecycle;
mod names;
mod objects;
mod operator;
mod peers;
mod policy;
mod root_calls;
mod serves;
mod socket;
mod startup;
mod stuck;
#[path = "../support/mod.rs"]
mod support;
mod swaps;
mod systemd;
mod userspace;
