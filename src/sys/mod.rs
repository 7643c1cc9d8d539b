//! The only unsafe code, and the only place that names libc, nix or rustix calls.
//!
//! Each function has one owner: rustix for nearly everything; nix for user and group look-up and for identity
//! changes (rustix's act on one thread only); libc for what neither has.
#![allow(unsafe_code)]

#[cfg(feature = "frontends")]
pub mod file;
pub mod fs;
pub mod poll;
pub mod process;
pub mod raw;
pub mod socket;
#[cfg(feature = "frontends")]
pub mod terminal;
#[cfg(feature = "weakened")]
pub mod weakened;

pub use rustix::io::Errno;
