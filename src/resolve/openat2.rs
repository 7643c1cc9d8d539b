//! Resolves a path with one openat2 call, which no rename or swap can come between. Runs in the supervisor, which trusts neither
//! the path nor what lies on disk.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::{Kind, PathResolver, beneath_options, refusal_for};
use crate::{
    broker::Refusal,
    path::Root,
    sys::{
        Errno,
        fs::{self, ResolveMethod},
    },
};

#[derive(Debug, Clone, Copy, Default)]
pub struct Openat2Resolver;

/// The resolver, if this kernel has openat2; otherwise the error of an openat2 call that opens nothing. A seccomp filter that
/// hides the call answers EPERM or ENOSYS. The service then refuses to start: walking step by step would be a weaker layer that
/// no operator has chosen.
#[cfg(feature = "supervisor")]
pub fn kernel_resolver() -> Result<Box<dyn PathResolver + Send + Sync>, String> {
    use fs::{Mounts, OFlags, OpenRules};
    let how = OpenRules { method: ResolveMethod::Openat2, mounts: Mounts::Refuse };
    match fs::open_beneath(rustix::fs::CWD, b"", OFlags::PATH, how) {
        // The kernel's answer to an empty name, whatever the working directory is.
        Err(Errno::NOENT) => Ok(Box::new(Openat2Resolver)),
        Err(errno) => Err(errno.to_string()),
        Ok(_) => Err("a descriptor for an empty name".into()),
    }
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
