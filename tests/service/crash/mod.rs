//! Killed at any moment, or refused by the disk: a file is the old one or the new one, a batch is done or was never begun, no name of ours is left
//! among a user's files, and what was acknowledged is there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod errors;
mod points;
mod random;
mod scenario;
mod seen;
mod space;
use crate::support;
mod unsettled;
