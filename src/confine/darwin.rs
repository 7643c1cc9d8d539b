//! The functions of the Linux module, each of which refuses: macOS has no jail. The service has refused to start before,
//! unless the policy says `confinement = "userspace"`.

use std::os::fd::OwnedFd;

use super::{Failed, Kept, escape::Probe};
use crate::path::Root;

/// Nothing is forbidden, so nothing is tried.
pub static SYSTEM_ATTEMPTS: &[Probe] = &[];

pub fn restrict_supervisor(_kept: &Kept<'_>) -> Result<(), Failed> {
    Err(Failed::Landlock("macOS has none".into()))
}

pub fn restrict_worker(_roots: &[Root], _directories: &[OwnedFd]) -> Result<(), Failed> {
    Err(Failed::Landlock("macOS has none".into()))
}

pub fn filter_threads(_writable: bool) -> Result<(), Failed> {
    Err(Failed::Seccomp("macOS has none".into()))
}
