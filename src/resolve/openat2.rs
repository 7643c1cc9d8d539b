//! The kernel walks: one openat2 call, atomic against every rename and swap.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::{Kind, Resolver, beneath, refusal};
use crate::{
    broker::Refusal,
    path::Root,
    sys::{
        Errno,
        fs::{self, Beneath, Mounts, Walk},
    },
};

#[derive(Debug, Clone, Copy, Default)]
pub struct Openat2;

impl Openat2 {
    /// The start-up probe. A filter that hides the call answers EPERM or ENOSYS; neither is a reason to walk by hand.
    #[cfg(all(target_os = "linux", feature = "supervisor"))]
    pub fn available() -> bool {
        ::openat2::has_openat2_cached()
    }

    /// A harmless call, for the errno that a refusal is explained with.
    pub fn probe() -> Result<(), Errno> {
        let how = Beneath { walk: Walk::Kernel, mounts: Mounts::Refuse };
        fs::open_beneath(rustix::fs::CWD, b".", OFlags::PATH, how).map(drop)
    }
}

impl Resolver for Openat2 {
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal> {
        // Without NOFOLLOW: a link at the end is then ELOOP like any other, and not the ENOTDIR of a file.
        fs::open_beneath(root, rel, OFlags::PATH | OFlags::DIRECTORY, beneath(Walk::Kernel, rules))
            .map_err(refusal)
    }

    fn kind(&self) -> Kind {
        Kind::Openat2
    }
}
