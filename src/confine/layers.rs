//! Pure: the restrictions of each process as data, so that they can be read and tested without confining a process.

use crate::{
    broker::setup::Setup,
    path::{Mode, Root},
    terms::Level,
};

/// Whether a profile has a root that its worker may write.
pub fn is_writable(roots: &[Root]) -> bool {
    roots.iter().any(|root| root.mode == Mode::Rw)
}

pub fn uses_landlock(setup: &Setup) -> bool {
    #[cfg(feature = "weakened")]
    if setup.weakened & crate::sys::weakened::LANDLOCK != 0 {
        return false;
    }
    setup.enforced.level == Level::Kernel
}

pub fn uses_seccomp(setup: &Setup) -> bool {
    #[cfg(feature = "weakened")]
    if setup.weakened & crate::sys::weakened::SECCOMP != 0 {
        return false;
    }
    setup.enforced.level == Level::Kernel
}
