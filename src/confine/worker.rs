//! How a worker confines itself and tries to escape. Runs in the worker before it serves, called by `worker::start`.
//! Trusts: the set-up. What comes after it runs inside the jail that this builds, so an auditor reads it with the supervisor.

use std::os::fd::{AsRawFd, OwnedFd};

use super::{
    ConfineError,
    escape::{AttemptContext, AttemptResult, ConfinementLayer, expected_attempts},
    give_up_privileges, layers, step_failed, system,
};
use crate::{
    broker::setup::Setup,
    sys::{
        process::{self, Resource},
        wake::WAKE_FD,
    },
};

/// Descriptors a worker may hold: the channel, the connection, `/dev/null` twice, questions asked early, and for every
/// thread the parents and the file of its call. The calls stay well below by themselves; this is the wall behind them.
const OPEN_FILES_BASE: u64 = 64;
const OPEN_FILES_PER_THREAD: u64 = 16;
/// The worker's own folder, two above it and the journal.
const OPEN_FILES_PER_ROOT: u64 = 4;
/// Beyond `max_write_bytes`: journal entries and other small state.
const FILE_SIZE_SLACK_BYTES: u64 = 1 << 20;

/// First half of a worker's confinement: everything that must happen while it has one thread.
pub fn confine_worker_before_threads(setup: &Setup, roots: &[OwnedFd]) -> Result<(), ConfineError> {
    for (limit, value) in worker_limits(setup) {
        process::set_limit(limit, value).map_err(step_failed("resource limit"))?;
    }
    process::clear_umask();
    give_up_privileges()?;
    if layers::uses_landlock(setup) {
        system::restrict_worker(&setup.roots, roots)?;
    }
    Ok(())
}

/// Second half: the filter that also forbids new threads and programs.
pub fn confine_worker_threads(setup: &Setup) -> Result<(), ConfineError> {
    if layers::uses_seccomp(setup) { system::filter_threads(layers::is_writable(&setup.roots)) } else { Ok(()) }
}

fn worker_limits(setup: &Setup) -> Vec<(Resource, u64)> {
    let file_size = if layers::is_writable(&setup.roots) {
        setup.limits.max_write_bytes.saturating_add(FILE_SIZE_SLACK_BYTES)
    } else {
        0
    };
    let threads = OPEN_FILES_PER_THREAD * setup.threads as u64;
    let own_state = OPEN_FILES_PER_ROOT * setup.roots.len() as u64;
    // Not every system can limit the address space.
    let memory = process::ADDRESS_SPACE.map(|resource| (resource, setup.max_memory_bytes));
    let others = [(Resource::Nofile, OPEN_FILES_BASE + threads + own_state), (Resource::Fsize, file_size)];
    others.into_iter().chain(memory).collect()
}

/// Makes the attempts of one half. Facts and Landlock's attempts are made before the filter (which would hide them), the
/// filter's after it.
pub fn run_attempts(
    setup: &Setup,
    before_seccomp: bool,
    surroundings: &AttemptContext<'_>,
) -> Vec<(u8, AttemptResult)> {
    expected_attempts(setup)
        .filter(|probe| (probe.layer != ConfinementLayer::Seccomp) == before_seccomp)
        .map(|probe| (probe.id, (probe.run)(surroundings)))
        .collect()
}

/// The descriptors that belong to a worker at the moment of its probe.
pub fn worker_descriptors(roots: &[impl AsRawFd]) -> Vec<i32> {
    let mut all: Vec<i32> = (0..=WAKE_FD).chain(roots.iter().map(AsRawFd::as_raw_fd)).collect();
    all.sort_unstable();
    all
}
