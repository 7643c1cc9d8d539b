//! Privileges that can be given up one by one, handles on processes, and what tells an O_PATH descriptor.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::unistd::{Gid, Uid};
use rustix::{
    fs::OFlags,
    process::{self, DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions},
    thread::{self, CapabilitySet, CapabilitySets},
};

use super::raw;
use crate::sys::{
    Errno,
    process::{Ended, GiveUp},
};

/// How the memory of a process is limited.
pub const ADDRESS_SPACE: Option<Resource> = Some(Resource::As);

/// Lets this process hold as many descriptors as its hard limit allows.
pub fn raise_open_files() {
    let limit = process::getrlimit(Resource::Nofile);
    // A lower soft limit only means an earlier EMFILE, which the accept loop survives.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// What a process gives up whatever its role, in this order.
pub const GIVE_UP: &[GiveUp] = &[
    ("no_new_privs", set_no_new_privs),
    ("undumpable", set_undumpable),
    ("capabilities", drop_capabilities),
];

pub fn set_no_new_privs() -> Result<(), Errno> {
    thread::set_no_new_privs(true)
}

pub fn no_new_privs() -> bool {
    thread::no_new_privs().unwrap_or(false)
}

/// No core dumps, no ptrace by processes of the same user, `/proc/self` owned by root.
fn set_undumpable() -> Result<(), Errno> {
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

pub fn is_undumpable() -> bool {
    process::dumpable_behavior() == Ok(DumpableBehavior::NotDumpable)
}

/// Die with the supervisor. The signal belongs to the parent *thread* that spawned us.
pub fn die_with_parent() -> Result<(), Errno> {
    process::set_parent_process_death_signal(Some(Signal::KILL))
}

/// What this process and its children could ever regain. Needs a capability itself, so it comes before any change of
/// identity; without one there is nothing that no_new_privs would not keep away.
pub fn drop_bounding_set() {
    for capability in CapabilitySet::all().iter() {
        // EPERM: not privileged. EINVAL: the kernel does not know it.
        let _ = thread::remove_capability_from_bounding_set(capability);
    }
}

/// Empties every capability set. The bounding set first, while we still may.
fn drop_capabilities() -> Result<(), Errno> {
    drop_bounding_set();
    let _ = thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

pub fn has_capabilities() -> bool {
    thread::capabilities(None)
        .is_ok_and(|sets| !(sets.effective | sets.permitted | sets.inheritable).is_empty())
}

/// Becomes somebody else for good, in all threads; drops supplementary groups.
pub fn become_user(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // Only where there is something to drop: a user namespace (a container without root) forbids the call for good.
    let drop_groups = |groups: Vec<Gid>| {
        if groups.iter().all(|group| *group == gid) { Ok(()) } else { nix::unistd::setgroups(&[gid]) }
    };
    nix::unistd::getgroups()
        .and_then(drop_groups)
        .and_then(|()| nix::unistd::setresgid(gid, gid, gid))
        .and_then(|()| nix::unistd::setresuid(uid, uid, uid))
        .map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// A handle on a child that can never come to mean another process, unlike its number once it was reaped.
#[derive(Debug)]
pub struct ChildHandle(OwnedFd);

impl ChildHandle {
    /// For a child that has not been reaped yet.
    pub fn of(pid: u32) -> Result<Self, Errno> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
        process::pidfd_open(pid, process::PidfdFlags::empty()).map(Self)
    }

    pub fn kill(&self) {
        // ESRCH: it was faster.
        let _ = process::pidfd_send_signal(&self.0, Signal::KILL);
    }
}

/// Reaps one ended child without waiting.
pub fn reap() -> Option<Ended> {
    let (pid, status) = process::wait(WaitOptions::NOHANG).ok()??;
    Some(Ended {
        pid: pid.as_raw_nonzero().get().unsigned_abs(),
        status: status.exit_status(),
        signal: status.terminating_signal(),
    })
}

/// Closes every descriptor from `first` on; a descriptor leaked by a shell must not reach a jail.
pub fn close_from(first: u32) -> Result<(), Errno> {
    raw::close_range(first)
}

/// True if `fd` is an O_PATH descriptor of a directory: the only kind that may cross between processes.
/// One call says both: the kernel keeps O_DIRECTORY among the flags, opens nothing but directories with it, and lets
/// nobody set either flag later. (A directory opened without it is refused here; we open none.)
pub fn is_path_directory(fd: BorrowedFd<'_>) -> bool {
    let wanted = OFlags::PATH | OFlags::DIRECTORY;
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(wanted))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{CWD, Mode, openat};

    use super::*;

    #[test]
    fn only_an_o_path_directory_may_cross() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        let crosses = |path: &std::path::Path, flags| {
            is_path_directory(openat(CWD, path, flags, Mode::empty()).unwrap().as_fd())
        };
        assert!(crosses(dir.path(), OFlags::PATH | OFlags::DIRECTORY));
        assert!(crosses(dir.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC));
        assert!(!crosses(dir.path(), OFlags::RDONLY | OFlags::DIRECTORY), "a readable directory");
        assert!(!crosses(&file, OFlags::PATH), "an O_PATH file");
        assert!(!crosses(&file, OFlags::RDONLY), "a readable file");
        assert!(!crosses(&file, OFlags::RDWR), "a writable file");
    }

    #[test]
    fn the_flags_that_allow_crossing_cannot_be_set_later() {
        let dir = tempfile::tempdir().unwrap();
        let readable = openat(CWD, dir.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let _ = rustix::fs::fcntl_setfl(&readable, OFlags::PATH | OFlags::DIRECTORY);
        assert!(!is_path_directory(readable.as_fd()));
    }
}
