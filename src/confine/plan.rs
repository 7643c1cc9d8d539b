//! Pure: what will be restricted, as data, so that it can be read and tested without confining anybody.

use ::landlock::{ABI, Access, AccessFs, BitFlags, make_bitflags};

use crate::{
    broker::setup::Setup,
    path::{Mode, Root},
    sys::process::Limit,
    wire::types::info::Level,
};

/// Descriptors a worker may hold: the channel, the connection, `/dev/null` twice, questions asked early, and for every
/// thread the parents and the file of its call. The calls stay well below by themselves; this is the wall behind them.
const OPEN_FILES_BASE: u64 = 64;
const OPEN_FILES_PER_THREAD: u64 = 16;
/// The worker's own folder, two above it and the journal.
const OPEN_FILES_PER_ROOT: u64 = 4;
/// Beyond `max_write_bytes`: journal entries and other small state.
const FILE_SIZE_SLACK_BYTES: u64 = 1 << 20;

/// Everything Landlock can check about files on the newest ABI we know; what the kernel lacks is left out by it.
pub fn handled() -> BitFlags<AccessFs> {
    AccessFs::from_all(ABI::V9)
}

/// What below this ABI would be missing from `handled` is no longer our promise.
pub fn required(min_abi: u32) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi(min_abi))
}

fn abi(version: u32) -> ABI {
    match version {
        0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        7 => ABI::V7,
        8 => ABI::V8,
        _ => ABI::V9,
    }
}

/// No EXECUTE in any root: nothing that an agent writes can be run by the service. No device, socket or FIFO either.
pub fn rights(mode: Mode) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    match mode {
        Mode::Ro => read,
        Mode::Rw => {
            read | make_bitflags!(AccessFs::{
                WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
            })
        }
    }
}

/// What the supervisor may do with the worker's program.
pub fn program_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{Execute | ReadFile})
}

/// What the supervisor may do where its policy lies: read it again. A rule for the file alone would end with that file,
/// when an editor puts another one in its place.
pub fn policy_folder_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile})
}

/// What the supervisor may do where its socket lies: remove it when it ends.
pub fn socket_folder_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{RemoveFile})
}

/// What the supervisor may do where its audit lies: start a new file once the old one was renamed. Not read or empty one.
pub fn audit_folder_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{MakeReg | WriteFile})
}

/// One entry per root, in the order of the profile.
pub fn worker_rules(roots: &[Root]) -> Vec<BitFlags<AccessFs>> {
    roots.iter().map(|root| rights(root.mode)).collect()
}

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
    setup.confinement.level == Level::Kernel
}

pub fn uses_seccomp(setup: &Setup) -> bool {
    #[cfg(feature = "weakened")]
    if setup.weakened & crate::sys::weakened::SECCOMP != 0 {
        return false;
    }
    setup.confinement.level == Level::Kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_root_has_no_right_that_writes() {
        assert!((rights(Mode::Ro) & AccessFs::from_write(ABI::V9)).is_empty());
    }

    #[test]
    fn no_root_may_execute_or_make_special_files() {
        let never =
            make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock | MakeSock | MakeFifo | IoctlDev});
        assert!((rights(Mode::Rw) & never).is_empty());
    }

    #[test]
    fn every_right_given_is_a_right_handled() {
        assert!(handled().contains(rights(Mode::Rw)));
    }

    #[test]
    fn the_default_minimum_closes_truncation() {
        assert!(required(3).contains(AccessFs::Truncate));
        assert!(!required(2).contains(AccessFs::Truncate));
    }
}
