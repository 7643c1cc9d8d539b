//! macOS, where there is no jail of the kernel's that this service knows: only `confinement = "userspace"` starts.
//! Type-checked by scripts/check-macos. What needs nothing of macOS's own is in `posix`, whose tests run on Linux.

pub mod change;
pub mod hangups;
pub mod process;
pub mod raw;
pub mod socket;
pub mod volume;

pub use super::posix::{channel, children, entries, fs, program, wake};
