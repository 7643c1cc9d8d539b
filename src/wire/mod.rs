//! Runs in the worker and in clients. Pure: bytes in, values out; no descriptors, no clock.
//! Trusts nothing: every byte here comes from the other side of a socket.

pub mod error;
pub mod function;
pub mod limits;

pub use error::{Code, Error, Result};
pub use limits::Limits;
