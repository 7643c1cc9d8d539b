//! The only unsafe code, and the only place that names libc, nix or rustix calls.
//!
//! Each function has one owner: rustix for nearly everything; nix for identity changes (rustix's
//! act on one thread only); libc for what neither has. Accounts are read from their files (`user` says why).

pub mod fs;
pub mod user;

pub use rustix::io::Errno;
