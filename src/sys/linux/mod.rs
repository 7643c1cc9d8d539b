//! Linux calls without an equivalent elsewhere: O_PATH descriptors, openat2, message sockets, pidfds.

pub mod hangups;
pub mod process;
#[cfg_attr(feature = "posix", allow(dead_code, reason = "asked for by what `posix` stands in for"))]
pub mod raw;
pub mod socket;
pub mod volume;
mod worker;

#[cfg(not(feature = "posix"))]
pub mod change;
#[cfg(not(feature = "posix"))]
pub mod channel;
#[cfg(not(feature = "posix"))]
pub mod children;
#[cfg(not(feature = "posix"))]
pub mod entries;
#[cfg(not(feature = "posix"))]
pub mod fs;
#[cfg(not(feature = "posix"))]
pub mod program;
#[cfg(not(feature = "posix"))]
pub mod wake;

#[cfg(feature = "posix")]
pub use super::posix::{change, channel, children, entries, fs, program, wake};
