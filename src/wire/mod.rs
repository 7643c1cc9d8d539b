//! Runs in the worker and in clients. Pure: bytes in, values out; no descriptors, no clock.
//! Trusts nothing: every byte here comes from the other side of a socket.

pub mod compat;
pub mod confinement;
pub mod decode;
pub mod envelope;
pub mod error;
pub mod frame;
pub mod function;
pub mod json;
pub mod nearest;
pub mod reply;
pub mod rpc_error;
pub mod schema;
pub mod types;
pub mod warnings;

pub use error::{Code, Error, Result};
pub use rpc_error::RpcError;
pub use warnings::Warnings;

pub use crate::terms::Limits;
