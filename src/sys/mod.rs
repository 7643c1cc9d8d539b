//! The only unsafe code, and the only place that names libc, nix or rustix calls.
//!
//! Each function has one owner: rustix for nearly everything; nix for identity changes (rustix's act on one thread
//! only); libc for what neither has. Accounts are read from their files: see `user`.
#![allow(unsafe_code)]

pub mod change;
#[cfg(feature = "weakened")]
pub mod fault;
#[cfg(feature = "frontends")]
pub mod file;
pub mod fs;
pub mod host;
mod opened;
pub mod poll;
pub mod process;
pub mod raw;
pub mod socket;
#[cfg(feature = "frontends")]
pub mod terminal;
pub mod user;
pub mod wake;
#[cfg(feature = "weakened")]
pub mod weakened;

pub use rustix::io::Errno;
