//! The only unsafe code, and the only place that names libc, nix or rustix calls.
//!
//! Each function has one owner: rustix for nearly everything; nix for identity changes (rustix's act on one thread
//! only); libc for what neither has. Accounts are read from their files: see `user`.
//!
//! What a system has of its own lies in its folder, under the names that the others use: nobody outside of this module
//! asks on which one it runs.
#![allow(unsafe_code)]

pub mod change;
#[cfg(target_os = "macos")]
mod darwin;
#[cfg(feature = "weakened")]
pub mod fault;
#[cfg(feature = "frontends")]
pub mod file;
pub mod fs;
pub mod host;
mod inherited;
#[cfg(target_os = "linux")]
mod linux;
pub mod lookup;
#[cfg(test)]
pub mod model;
mod opened;
pub mod poll;
#[cfg(any(target_os = "macos", feature = "posix", test))]
#[cfg_attr(not(target_os = "macos"), allow(dead_code, reason = "not everything can be tried beside other tests"))]
mod posix;
pub mod process;
mod ready;
pub mod socket;
#[cfg(feature = "frontends")]
pub mod stdio;
#[cfg(feature = "frontends")]
pub mod terminal;
pub mod user;
#[cfg(feature = "weakened")]
pub mod weakened;
mod worker;

#[cfg(target_os = "macos")]
use darwin as system;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("Linux has the jail, macOS a mode without it; on other systems nothing holds");

pub use rustix::io::Errno;
pub use system::{raw, wake};
