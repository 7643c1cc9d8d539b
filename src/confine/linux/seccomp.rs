//! One allow-list over all threads. What is not listed is EPERM; a call of another architecture kills the process.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::{
    confine::ConfineError,
    sys::{Errno, process, raw::nr},
};

/// One entry of `policy/seccomp/worker.toml`. `when` is a list of alternatives; empty = always.
#[derive(Debug)]
#[allow(dead_code, reason = "tests read the names and the reasons")]
pub struct AllowedCall {
    pub name: &'static str,
    pub number: i64,
    pub why: &'static str,
    pub when: &'static [&'static [ArgumentCondition]],
    /// Only in a profile that has a writable root.
    pub writable: bool,
}

#[derive(Debug)]
pub struct ArgumentCondition {
    pub arg: u8,
    pub mask: Option<u64>,
    pub is: ExpectedArgument,
}

#[derive(Debug, Clone, Copy)]
pub enum ExpectedArgument {
    Number(u64),
    WorkerPid,
}

pub static ALLOWED: &[AllowedCall] = include!(concat!(env!("OUT_DIR"), "/seccomp_worker.rs"));

/// Compiles and installs the filter for every thread of this process.
pub fn install(writable: bool) -> Result<(), ConfineError> {
    let program = compile(process::own_pid(), writable).map_err(|error| ConfineError::Seccomp(error.to_string()))?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| ConfineError::Seccomp(error.to_string()))
}

fn compile(own_pid: u32, writable: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = BTreeMap::new();
    for allowed in ALLOWED.iter().filter(|allowed| writable || !allowed.writable) {
        let alternatives = allowed.when.iter().map(|all| rule(all, own_pid)).collect::<Result<Vec<_>, _>>()?;
        rules.insert(allowed.number, alternatives);
    }
    #[cfg(feature = "weakened")]
    if crate::sys::weakened::is_off(crate::sys::weakened::ONE_SYSCALL_TOO_MANY) {
        rules.insert(nr::SYS_socket, Vec::new());
    }
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let denied = SeccompAction::Errno(Errno::PERM.raw_os_error().unsigned_abs());
    SeccompFilter::new(rules, denied, SeccompAction::Allow, arch)?.try_into()
}

fn rule(conditions: &[ArgumentCondition], own_pid: u32) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .iter()
        .map(|condition| {
            let value = match condition.is {
                ExpectedArgument::Number(number) => number,
                ExpectedArgument::WorkerPid => u64::from(own_pid),
            };
            let operator = condition.mask.map_or(SeccompCmpOp::Eq, SeccompCmpOp::MaskedEq);
            SeccompCondition::new(condition.arg, SeccompCmpArgLen::Dword, operator, value)
        })
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles() {
        let [reading, writing] = [false, true].map(|writable| compile(1, writable).expect("compiles").len());
        assert!(reading > 0 && writing > reading);
    }

    #[test]
    fn every_entry_has_a_reason() {
        assert!(ALLOWED.iter().all(|allowed| allowed.why.len() >= 5));
    }

    #[test]
    fn without_a_writable_root_nothing_that_changes_files_is_allowed() {
        let changing = ["mkdirat", "pwrite64", "linkat", "renameat2", "unlinkat", "symlinkat", "ftruncate"];
        let metadata = ["fsync", "fchown", "flistxattr", "fgetxattr", "fsetxattr", "flock"];
        let listed: Vec<&str> = ALLOWED.iter().filter(|allowed| allowed.writable).map(|allowed| allowed.name).collect();
        assert_eq!(listed, [&changing[..], &metadata].concat());
    }

    #[test]
    fn nothing_that_makes_processes_sockets_or_metadata_is_listed() {
        let never = [
            nr::SYS_clone,
            nr::SYS_clone3,
            nr::SYS_execve,
            nr::SYS_execveat,
            nr::SYS_socket,
            nr::SYS_connect,
            nr::SYS_openat,
            nr::SYS_ioctl,
            nr::SYS_ptrace,
            nr::SYS_kill,
            nr::SYS_prctl,
            nr::SYS_fchmodat,
            nr::SYS_fchownat,
            nr::SYS_utimensat,
            nr::SYS_setxattr,
            nr::SYS_memfd_create,
            nr::SYS_io_uring_setup,
            nr::SYS_unshare,
            nr::SYS_mount,
            nr::SYS_fchmod,
            nr::SYS_mknodat,
        ];
        for allowed in ALLOWED {
            assert!(!never.contains(&allowed.number), "{} must not be allowed", allowed.name);
        }
    }
}
