//! What a process does to itself and to its children. Identity changes are nix's, because they must reach
//! every thread; everything else is rustix.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::unistd::{Gid, Uid};
use rustix::{
    fs::OFlags,
    process::{self, DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions},
    thread::{self, CapabilitySet, CapabilitySets},
};

use super::Errno;

/// One limit, soft and hard alike: nothing may raise it again. Where we were given less, less it stays.
pub fn set_limit(resource: Limit, value: u64) -> Result<(), Errno> {
    let resource = match resource {
        Limit::Core => Resource::Core,
        Limit::OpenFiles => Resource::Nofile,
        Limit::FileSize => Resource::Fsize,
        Limit::AddressSpace => Resource::As,
    };
    let value = process::getrlimit(resource).maximum.map_or(value, |most| most.min(value));
    process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Core,
    OpenFiles,
    FileSize,
    AddressSpace,
}

/// Lets this process hold as many descriptors as its hard limit allows.
pub fn raise_open_files() {
    let limit = process::getrlimit(Resource::Nofile);
    // A lower soft limit only means an earlier EMFILE, which the accept loop survives.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

pub fn set_no_new_privs() -> Result<(), Errno> {
    thread::set_no_new_privs(true)
}

pub fn no_new_privs() -> bool {
    thread::no_new_privs().unwrap_or(false)
}

/// No core dumps, no ptrace by processes of the same user, `/proc/self` owned by root.
pub fn set_undumpable() -> Result<(), Errno> {
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

pub fn is_undumpable() -> bool {
    process::dumpable_behavior() == Ok(DumpableBehavior::NotDumpable)
}

/// Die with the supervisor. The signal belongs to the parent *thread* that spawned us.
pub fn die_with_parent() -> Result<(), Errno> {
    process::set_parent_process_death_signal(Some(Signal::KILL))
}

pub fn parent_pid() -> Option<i32> {
    process::getppid().map(|pid| pid.as_raw_nonzero().get())
}

pub fn own_pid() -> u32 {
    std::process::id()
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
pub fn drop_capabilities() -> Result<(), Errno> {
    drop_bounding_set();
    let _ = thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

pub fn has_capabilities() -> bool {
    thread::capabilities(None)
        .is_ok_and(|sets| !(sets.effective | sets.permitted | sets.inheritable).is_empty())
}

pub fn effective_uid() -> u32 {
    process::geteuid().as_raw()
}

pub fn effective_gid() -> u32 {
    process::getegid().as_raw()
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

/// Files are made with exactly the mode asked for.
pub fn clear_umask() {
    process::umask(rustix::fs::Mode::empty());
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

/// A child that has ended, if any, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub pid: u32,
    pub status: Option<i32>,
    pub signal: Option<i32>,
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

/// The clock that systemd compares a reload's beginning with.
pub fn monotonic_usec() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
}

/// Closes every descriptor from `first` on; a descriptor leaked by a shell must not reach a jail.
pub fn close_from(first: u32) -> Result<(), Errno> {
    super::raw::close_range(first)
}

/// True if `fd` is an O_PATH descriptor of a directory: the only kind that may cross between processes.
/// One call says both: the kernel keeps O_DIRECTORY among the flags, opens nothing but directories with it, and lets
/// nobody set either flag later. (A directory opened without it is refused here; we open none.)
pub fn is_path_directory(fd: BorrowedFd<'_>) -> bool {
    let wanted = OFlags::PATH | OFlags::DIRECTORY;
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(wanted))
}

/// Descriptor numbers below `limit` that are open in this process.
pub fn open_descriptors(limit: i32) -> Vec<i32> {
    (0..limit).filter(|fd| super::raw::is_open(*fd)).collect()
}

/// Release and machine of the running kernel, for reports.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
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
