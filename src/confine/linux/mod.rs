//! The kernel's jail: Landlock and seccomp.

mod attempt_calls;
mod attempts;
mod landlock;
mod rights;
pub mod seccomp;

use std::os::fd::OwnedFd;

use super::{ConfineError, SupervisorAccess};
use crate::path::Root;

pub use attempts::SYSTEM_ATTEMPTS;
pub use seccomp::install as filter_threads;

pub fn restrict_supervisor(kept: &SupervisorAccess<'_>) -> Result<(), ConfineError> {
    let roots = kept.roots.iter().map(|(fd, mode)| (*fd, rights::root_rights(*mode)));
    let program = kept.program.map(|fd| (fd, rights::program_rights()));
    let policy = kept.policy_folder.map(|fd| (fd, rights::policy_folder_rights()));
    let folder = kept.socket_folder.map(|fd| (fd, rights::socket_folder_rights()));
    let audit = kept.audit_folder.map(|fd| (fd, rights::audit_folder_rights(kept.rotates_audit)));
    let rules = roots.chain(program).chain(policy).chain(folder).chain(audit);
    landlock::restrict_thread(&rules.collect::<Vec<_>>())
}

/// One directory per root, in the order of the profile.
pub fn restrict_worker(roots: &[Root], directories: &[OwnedFd]) -> Result<(), ConfineError> {
    let rules = directories.iter().zip(roots).map(|(fd, root)| (fd, rights::root_rights(root.mode)));
    landlock::restrict_thread(&rules.collect::<Vec<_>>())
}
