//! `stockade mcp` as an agent host sees it: a child with two pipes. Spoken to by hand, line by line, and by `rmcp` as a client;
//! the SDKs of other languages are in scripts/mcp-clients.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod contract;
mod familiar_calls;
mod faults;
mod host;
mod install;
mod lifecycle;
mod media_calls;
mod naive;
mod races;
mod replies_fit;
mod rmcp_client;
mod roots;
mod roots_random;
use crate::support;
mod tools;
