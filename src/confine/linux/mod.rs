//! The kernel's jail: Landlock and seccomp.

mod attempts;
mod landlock;
mod rights;
pub mod seccomp;
mod tries;

use std::os::fd::OwnedFd;

use super::{Failed, Kept};
use crate::path::Root;

pub use attempts::ATTEMPTS;
pub use seccomp::install as filter_threads;

pub fn restrict_supervisor(kept: &Kept<'_>) -> Result<(), Failed> {
    let roots = kept.roots.iter().map(|(fd, mode)| (*fd, rights::rights(*mode)));
    let program = kept.program.map(|fd| (fd, rights::program_rights()));
    let policy = kept.policy_folder.map(|fd| (fd, rights::policy_folder_rights()));
    let folder = kept.socket_folder.map(|fd| (fd, rights::socket_folder_rights()));
    let audit = kept.audit_folder.map(|fd| (fd, rights::audit_folder_rights(kept.rotates_audit)));
    let rules = roots.chain(program).chain(policy).chain(folder).chain(audit);
    landlock::restrict(&rules.collect::<Vec<_>>())
}

/// One directory per root, in the order of the profile.
pub fn restrict_worker(roots: &[Root], directories: &[OwnedFd]) -> Result<(), Failed> {
    let rules = directories.iter().zip(roots).map(|(fd, root)| (fd, rights::rights(root.mode)));
    landlock::restrict(&rules.collect::<Vec<_>>())
}
