//! No jail: the same names as on Linux, each of which refuses. The start has refused before, unless the policy says
//! `confinement = "userspace"`.

use std::os::fd::OwnedFd;

use super::{Failed, Kept, probe::Probe};
use crate::path::Root;

/// What the operator is told instead of a list of layers that are not there.
pub const USERSPACE_LAYERS: &[(&str, &[&str])] = &[
    ("links and mount points on the way", &["resolver"]),
    ("writing in read-only roots", &["request table"]),
    ("descriptors, file size, core dumps", &["rlimits"]),
];

/// Nothing is forbidden, so nothing is tried.
pub static ATTEMPTS: &[Probe] = &[];

pub fn restrict_supervisor(_kept: &Kept<'_>) -> Result<(), Failed> {
    Err(Failed::Landlock("macOS has none".into()))
}

pub fn restrict_worker(_roots: &[Root], _directories: &[OwnedFd]) -> Result<(), Failed> {
    Err(Failed::Landlock("macOS has none".into()))
}

pub fn filter_threads(_writable: bool) -> Result<(), Failed> {
    Err(Failed::Seccomp("macOS has none".into()))
}
