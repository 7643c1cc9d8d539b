//! The kernel walks: one openat2 call, atomic against every rename and swap.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::{Kind, Resolver, beneath, refusal};
use crate::{
    broker::Refusal,
    path::Root,
    sys::fs::{self, Walk},
};

#[derive(Debug, Clone, Copy, Default)]
pub struct Openat2;

/// The resolver, if this kernel has it. A filter that hides the call answers EPERM or ENOSYS; neither is a reason to
/// walk by hand. Otherwise what a harmless call was answered with.
#[cfg(feature = "supervisor")]
pub fn kernel() -> Result<Box<dyn Resolver + Send + Sync>, String> {
    if ::openat2::has_openat2_cached() {
        return Ok(Box::new(Openat2));
    }
    use fs::{Beneath, Mounts, OFlags};
    let how = Beneath { walk: Walk::Kernel, mounts: Mounts::Refuse };
    let answer = fs::open_beneath(rustix::fs::CWD, b".", OFlags::PATH, how);
    Err(answer.map_or_else(|errno| errno.to_string(), |_| "nothing".into()))
}

impl Resolver for Openat2 {
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal> {
        // Without NOFOLLOW: a link at the end is then ELOOP like any other, and not the ENOTDIR of a file.
        fs::open_beneath(root, rel, fs::FOLDER, beneath(Walk::Kernel, rules)).map_err(refusal)
    }

    fn kind(&self) -> Kind {
        Kind::Openat2
    }
}
