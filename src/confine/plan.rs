//! Pure: what will be restricted, as data, so that it can be read and tested without confining anybody.

use crate::{
    broker::setup::Setup,
    path::{Mode, Root},
    sys::process::Limit,
    terms::Level,
};

/// Descriptors a worker may hold: the channel, the connection, `/dev/null` twice, questions asked early, and for every
/// thread the parents and the file of its call. The calls stay well below by themselves; this is the wall behind them.
const OPEN_FILES_BASE: u64 = 64;
const OPEN_FILES_PER_THREAD: u64 = 16;
/// The worker's own folder, two above it and the journal.
const OPEN_FILES_PER_ROOT: u64 = 4;
/// Beyond `max_write_bytes`: journal entries and other small state.
const FILE_SIZE_SLACK_BYTES: u64 = 1 << 20;

/// Whether a profile has a root that its worker may write.
pub fn is_writable(roots: &[Root]) -> bool {
    roots.iter().any(|root| root.mode == Mode::Rw)
}

pub fn worker_limits(setup: &Setup) -> Vec<(Limit, u64)> {
    let file_size = if is_writable(&setup.roots) {
        setup.limits.max_write_bytes.saturating_add(FILE_SIZE_SLACK_BYTES)
    } else {
        0
    };
    let threads = OPEN_FILES_PER_THREAD * setup.threads as u64;
    let own_state = OPEN_FILES_PER_ROOT * setup.roots.len() as u64;
    vec![
        (Limit::OpenFiles, OPEN_FILES_BASE + threads + own_state),
        (Limit::FileSize, file_size),
        (Limit::AddressSpace, setup.max_memory_bytes),
    ]
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
