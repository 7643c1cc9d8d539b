//! Resolves a path step by step: opens one name at a time, each from the descriptor of the folder before. If another process
//! swaps a name between two steps, only the next lookup changes; an open descriptor keeps its folder. So the walk cannot
//! leave the root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Kind, PathResolver, beneath_options, refusal_for};
use crate::{
    broker::Refusal,
    path::Root,
    sys::{
        Errno,
        fs::{self, OFlags, ResolveMethod},
    },
};

#[derive(Debug, Clone, Copy, Default)]
pub struct StepwiseResolver;

impl PathResolver for StepwiseResolver {
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal> {
        let mut at = Err(Refusal::NotFound);
        for name in rel.split(|byte| *byte == b'/') {
            let here = at.as_ref().map_or(root, AsFd::as_fd);
            at = match open_name(here, name, rules)? {
                ResolvedName::Directory(fd) => Ok(fd),
                ResolvedName::Link(_) => return Err(Refusal::Escape),
            };
        }
        at
    }

    fn kind(&self) -> Kind {
        Kind::Stepwise
    }
}

/// The kind of a name on the way.
pub(super) enum ResolvedName {
    Directory(OwnedFd),
    /// And where it points.
    Link(Vec<u8>),
}

pub(super) fn open_name(here: BorrowedFd<'_>, name: &[u8], rules: &Root) -> Result<ResolvedName, Refusal> {
    let how = beneath_options(ResolveMethod::Stepwise, rules);
    match fs::open_beneath(here, name, fs::FOLDER_FLAGS | OFlags::NOFOLLOW, how) {
        Ok(fd) => Ok(ResolvedName::Directory(fd)),
        // Which of the two a link gives depends on the system.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            // This is no folder. Hold it, so that both checks examine the same file; a file may be a mount point, too.
            let held = fs::open_handle(here, name, how).map_err(refusal_for)?;
            match held.link_target() {
                Ok(target) => Ok(ResolvedName::Link(target)),
                // It has become one since.
                Err(_) if held.is_folder() => Err(Refusal::Busy),
                Err(_) => Err(Refusal::NotDirectory),
            }
        }
        Err(errno) => Err(refusal_for(errno)),
    }
}
