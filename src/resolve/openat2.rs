//! The kernel walks: one openat2 call, atomic against every rename and swap.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::{Kind, PathResolver, beneath_options, refusal_for};
use crate::{
    broker::Refusal,
    path::Root,
    sys::fs::{self, ResolveMethod},
};

#[derive(Debug, Clone, Copy, Default)]
pub struct Openat2Resolver;

/// The resolver, if this kernel has openat2; otherwise the error of a harmless openat2 call. A filter that hides the call
/// answers EPERM or ENOSYS; that is no reason to walk step by step instead.
#[cfg(feature = "supervisor")]
pub fn kernel_resolver() -> Result<Box<dyn PathResolver + Send + Sync>, String> {
    if ::openat2::has_openat2_cached() {
        return Ok(Box::new(Openat2Resolver));
    }
    use fs::{Mounts, OFlags, OpenRules};
    let how = OpenRules { method: ResolveMethod::Openat2, mounts: Mounts::Refuse };
    let answer = fs::open_beneath(rustix::fs::CWD, b".", OFlags::PATH, how);
    Err(answer.map_or_else(|errno| errno.to_string(), |_| "nothing".into()))
}

impl PathResolver for Openat2Resolver {
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal> {
        // Without NOFOLLOW: a link at the end is then ELOOP like any other, and not the ENOTDIR of a file.
        fs::open_beneath(root, rel, fs::FOLDER_FLAGS, beneath_options(ResolveMethod::Openat2, rules))
            .map_err(refusal_for)
    }

    fn kind(&self) -> Kind {
        Kind::Openat2
    }
}
