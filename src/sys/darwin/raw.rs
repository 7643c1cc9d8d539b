//! Substitutes for Linux calls that macOS does not have.

use crate::sys::Errno;

pub use crate::sys::{inherited::take_variable, worker::ignore_file_size_signal};

/// Whether a kernel of this kind can have what the jail is made of.
pub const HAS_JAIL: bool = false;

pub fn landlock_abi() -> Result<u32, Errno> {
    Err(Errno::NOSYS)
}

pub fn seccomp_available() -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Test builds only.
#[cfg(feature = "weakened")]
pub(in crate::sys) fn signal_self(signal: i32) {
    // SAFETY: a plain number.
    unsafe { libc::raise(signal) };
}

/// Only glibc's arenas need it, and only where address space is limited.
pub fn limit_malloc_arenas() {}
