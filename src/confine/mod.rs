//! Runs once in each process, before it does anything else. Trusts: the validated policy.
//! Never continues after a step that failed: a jail that is not complete is no jail.
//!
//! The order is the kernel's: limits and identity while we may still change them, Landlock while single-threaded,
//! threads, then the one seccomp filter over all of them, then the proof.

#[cfg(target_os = "macos")]
mod darwin;
pub mod escape;
pub mod layers;
#[cfg(target_os = "linux")]
mod linux;
mod worker;

use std::os::fd::BorrowedFd;

#[cfg(target_os = "macos")]
use darwin as system;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(all(target_os = "linux", feature = "internals"))]
pub use linux::seccomp;
pub use worker::{confine_worker_before_threads, confine_worker_threads};

use crate::{path::Mode, sys::process};

/// The step of confining that failed, in a text that an operator can act on.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("{0}: {1}")]
    StepFailed(&'static str, crate::sys::Errno),
    #[error("landlock: {0}")]
    Landlock(String),
    #[error("seccomp: {0}")]
    Seccomp(String),
    #[error("the process that started this worker is not its supervisor")]
    WrongParent,
}

fn step_failed(name: &'static str) -> impl FnOnce(crate::sys::Errno) -> ConfineError {
    move |errno| ConfineError::StepFailed(name, errno)
}

/// Gives up what no process of the service needs, whatever its role: privileges, core dumps, being traced.
pub fn give_up_privileges() -> Result<(), ConfineError> {
    process::set_limit(process::Resource::Core, 0).map_err(step_failed("core limit"))?;
    for (name, give_up) in process::PRIVILEGE_DROPS {
        give_up().map_err(step_failed(name))?;
    }
    Ok(())
}

/// The access that the supervisor keeps after it has confined itself.
#[derive(Debug, Default)]
pub struct SupervisorAccess<'a> {
    pub roots: Vec<(BorrowedFd<'a>, Mode)>,
    pub program: Option<BorrowedFd<'a>>,
    pub policy_folder: Option<BorrowedFd<'a>>,
    pub socket_folder: Option<BorrowedFd<'a>>,
    pub audit_folder: Option<BorrowedFd<'a>>,
    /// Whether the supervisor itself rotates its audit.
    pub rotates_audit: bool,
}

/// The supervisor's own jail. Taken before the first worker exists: signals are scoped, and an older process could no
/// longer be killed.
pub fn confine_supervisor(kept: &SupervisorAccess<'_>) -> Result<(), ConfineError> {
    system::restrict_supervisor(kept)
}
