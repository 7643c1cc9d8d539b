//! System calls. The only module with unsafe code, and the only one that names libc, nix or rustix functions.
//!
//! Each kind of call comes from one crate: nearly all from rustix; changes of identity from nix, because those of rustix
//! apply to one thread only; from libc what neither has. Accounts are read from their files (`user`).
//!
//! The folders `linux`, `darwin` and `posix` define the same names for different systems, so that no code outside of this
//! module depends on the system.
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
