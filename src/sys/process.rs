//! What a process does to itself and to its children. Changes of identity come from nix, because they must apply to every
//! thread; everything else comes from rustix.

use rustix::process::{self, Rlimit};

use super::Errno;

pub use rustix::process::Resource;

pub use super::{
    system::{children::*, fs::is_path_directory, process::*},
    worker::{clear_umask, open_descriptors, parent_pid},
};

/// Sets the soft and the hard limit, so that nothing raises it again. Keeps a hard limit that is lower already.
pub fn set_limit(resource: Resource, value: u64) -> Result<(), Errno> {
    let value = process::getrlimit(resource).maximum.map_or(value, |most| most.min(value));
    process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}

/// Something to give up, and its name for an error.
pub type PrivilegeDrop = (&'static str, fn() -> Result<(), Errno>);

pub fn own_pid() -> u32 {
    std::process::id()
}

pub fn effective_uid() -> u32 {
    process::geteuid().as_raw()
}

pub fn effective_gid() -> u32 {
    process::getegid().as_raw()
}

/// A child that has ended, if any, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedChild {
    pub pid: u32,
    pub status: Option<i32>,
    pub signal: Option<i32>,
}

/// The clock that systemd compares a reload's beginning with.
pub fn monotonic_usec() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
}

/// Release and machine of the running kernel, for reports.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
