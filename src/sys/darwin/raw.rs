//! What Linux is asked for and macOS does not have.

use crate::sys::Errno;

pub use crate::sys::inherited::take_variable;

/// Whether a kernel of this kind can have what the jail is made of.
pub const HAS_JAIL: bool = false;

pub fn landlock_abi() -> Result<u32, Errno> {
    Err(Errno::NOSYS)
}

pub fn seccomp_available() -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Only glibc's arenas need it, and only where address space is limited.
pub fn limit_malloc_arenas() {}
