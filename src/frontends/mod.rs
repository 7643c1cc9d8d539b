//! Untrusted clients of the socket. They run as the person or agent who started them, hold no privilege and keep
//! no promise: whatever they do wrong, the jail is the supervisor's and the worker's.

#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod endpoint;
mod escape;
mod function_names;
pub mod mcp;
mod socket_halves;
