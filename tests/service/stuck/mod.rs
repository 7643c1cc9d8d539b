//! Workers that stand still, and file systems that do not answer: who waits for them, for how long, and who does not.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod dead_mount;
mod stopped;
