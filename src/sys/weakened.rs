//! Test builds only: which layer of the jail is switched off. Chosen by the environment of the supervisor and
//! handed to its workers with the rest of their set-up; the attack suite shows that the other layer holds alone.

use std::sync::atomic::{AtomicU8, Ordering};

static OFF: AtomicU8 = AtomicU8::new(0);

pub const CHECKS: u8 = 1;
pub const LANDLOCK: u8 = 2;
pub const SECCOMP: u8 = 4;
/// One rule missing from an otherwise complete jail: the probe must notice.
pub const ONE_RIGHT_TOO_MANY: u8 = 8;
pub const ONE_SYSCALL_TOO_MANY: u8 = 16;
/// The supervisor no longer refuses to change a read-only root: Landlock must.
pub const READ_ONLY: u8 = 32;
/// A worker no longer tests the names of requests with deny and protect globs: the supervisor must.
pub const WORKER_GLOBS: u8 = 64;

const NAMES: [(&str, u8); 7] = [
    ("checks", CHECKS),
    ("landlock", LANDLOCK),
    ("seccomp", SECCOMP),
    ("one-right", ONE_RIGHT_TOO_MANY),
    ("one-syscall", ONE_SYSCALL_TOO_MANY),
    ("read-only", READ_ONLY),
    ("worker-globs", WORKER_GLOBS),
];

/// `STOCKADE_WEAKENED=landlock,seccomp`. An unknown name is a panic: a test that weakens nothing must not pass.
pub fn from_environment() -> u8 {
    let Ok(names) = std::env::var("STOCKADE_WEAKENED") else { return 0 };
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| NAMES.iter().find(|known| known.0 == name).unwrap_or_else(|| panic!("unknown layer {name}")).1)
        .fold(0, |all, bit| all | bit)
}

pub fn set(off: u8) {
    OFF.store(off, Ordering::Relaxed);
}

pub fn get() -> u8 {
    OFF.load(Ordering::Relaxed)
}

pub fn is_off(layer: u8) -> bool {
    get() & layer != 0
}
