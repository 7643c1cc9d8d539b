//! We walk: one name at a time, each opened as itself from the descriptor of the one before. A swap between two steps
//! changes where the next name is looked up, never what an earlier descriptor means: the walk cannot leave the root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Kind, Resolver, beneath, refusal};
use crate::{
    broker::Refusal,
    path::Root,
    sys::{
        Errno,
        fs::{self, OFlags, Walk},
    },
};

#[derive(Debug, Clone, Copy, Default)]
pub struct Stepwise;

impl Resolver for Stepwise {
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal> {
        let mut at = Err(Refusal::NotFound);
        for name in rel.split(|byte| *byte == b'/') {
            let here = at.as_ref().map_or(root, AsFd::as_fd);
            at = match step(here, name, rules)? {
                Step::Directory(fd) => Ok(fd),
                Step::Link(_) => return Err(Refusal::Escape),
            };
        }
        at
    }

    fn kind(&self) -> Kind {
        Kind::Stepwise
    }
}

/// What a name on the way is.
pub(super) enum Step {
    Directory(OwnedFd),
    /// And where it points.
    Link(Vec<u8>),
}

pub(super) fn step(here: BorrowedFd<'_>, name: &[u8], rules: &Root) -> Result<Step, Refusal> {
    let how = beneath(Walk::ByHand, rules);
    match fs::open_beneath(here, name, fs::FOLDER | OFlags::NOFOLLOW, how) {
        Ok(fd) => Ok(Step::Directory(fd)),
        // Which of the two a link gives depends on the system.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            // No folder. Held, so that what is said about it is about one thing; a file may be a mount point, too.
            let held = fs::hold(here, name, how).map_err(refusal)?;
            match held.target() {
                Ok(target) => Ok(Step::Link(target)),
                // It has become one since.
                Err(_) if held.is_folder() => Err(Refusal::Busy),
                Err(_) => Err(Refusal::NotDirectory),
            }
        }
        Err(errno) => Err(refusal(errno)),
    }
}
