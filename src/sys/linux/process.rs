//! Privileges that can be given up one by one.

use nix::unistd::{Gid, Uid};
use rustix::{
    process::{self, DumpableBehavior, Resource, Rlimit},
    thread::{self, CapabilitySet, CapabilitySets},
};

pub use super::{raw::close_from, worker::*};
use crate::sys::{Errno, process::PrivilegeDrop};

/// The resource limit that bounds the memory of a process.
pub const ADDRESS_SPACE: Option<Resource> = Some(Resource::As);

/// Lets this process hold as many descriptors as its hard limit allows.
pub fn raise_open_files() {
    let limit = process::getrlimit(Resource::Nofile);
    // A lower soft limit only means an earlier EMFILE, which the accept loop survives.
    let _ = process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The privileges that every process drops, in this order, whatever its role.
pub const PRIVILEGE_DROPS: &[PrivilegeDrop] =
    &[("no_new_privs", set_no_new_privs), ("undumpable", set_undumpable), ("capabilities", drop_capabilities)];

pub fn set_no_new_privs() -> Result<(), Errno> {
    thread::set_no_new_privs(true)
}

/// No core dumps, no ptrace by processes of the same user, `/proc/self` owned by root.
fn set_undumpable() -> Result<(), Errno> {
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Empties the set of capabilities that this process and its children could ever regain. This needs a capability itself, so
/// it comes before any change of identity. A process without capabilities is covered by no_new_privs.
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

/// Changes to another user for good, in all threads, and drops supplementary groups.
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

/// True for uid 0 with power over other users. In a user namespace that maps a single uid, which every user can make, uid 0
/// is an ordinary user.
pub fn is_privileged() -> bool {
    let single = |map: String| {
        let mut lines = map.lines().map(|line| line.split_whitespace().nth(2) == Some("1"));
        lines.next() == Some(true) && lines.next().is_none()
    };
    process::geteuid().is_root() && !std::fs::read_to_string("/proc/self/uid_map").is_ok_and(single)
}

/// Runs `act` on this thread with the file rights of another user: what it makes belongs to that user and group from its
/// first moment. The capabilities over files are given up meanwhile; `overrides` keeps the one that ignores modes.
pub fn with_file_owner<T>(uid: u32, gid: u32, overrides: bool, act: impl FnOnce() -> T) -> Result<T, Errno> {
    let before = (process::geteuid().as_raw(), process::getegid().as_raw());
    set_file_owner(uid, gid)?;
    if overrides && uid != 0 {
        let mut sets = thread::capabilities(None)?;
        sets.effective |= sets.permitted & CapabilitySet::DAC_OVERRIDE;
        thread::set_capabilities(None, sets)?;
    }
    let done = act();
    set_file_owner(before.0, before.1)?;
    Ok(done)
}

/// setfsuid and setfsgid return the previous id even when they fail, so the result is read back.
fn set_file_owner(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // An invalid id changes nothing and returns the current one.
    let (same_uid, same_gid) = (Uid::from_raw(u32::MAX), Gid::from_raw(u32::MAX));
    nix::unistd::setfsgid(gid);
    nix::unistd::setfsuid(uid);
    let now = (nix::unistd::setfsuid(same_uid), nix::unistd::setfsgid(same_gid));
    if now == (uid, gid) { Ok(()) } else { Err(Errno::PERM) }
}
