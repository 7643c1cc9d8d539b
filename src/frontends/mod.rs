//! Clients of the socket. They are untrusted: they run as the user or agent who started them, and have no privilege. The jail
//! does not depend on them, whatever they do, because the supervisor and the worker enforce it.

#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod endpoint;
mod escape;
mod function_names;
pub mod mcp;
mod socket_halves;
