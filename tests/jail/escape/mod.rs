//! The attack suite: every way to ask for what is not there to be had, in four builds. The normal one must answer as
//! the contract says, with either resolver; with the supervisor's checks off Landlock must hold alone, with Landlock off
//! openat2 must.
//! What one layer cannot hold alone is data, in `layers.toml`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod access_times;
mod attack;
mod brought_about;
mod changes;
mod control;
mod denied;
mod layers;
mod links;
mod names;
mod objects;
mod own_names;
mod paused;
mod probe;
mod protected;
mod races;
mod read_only;
mod requests;
mod steps;
mod storm;
use crate::support;
mod swap;
