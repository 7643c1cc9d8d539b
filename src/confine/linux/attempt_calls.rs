//! The system calls that a confined worker attempts. Runs in the worker before it serves; `attempts` lists the expected
//! results.

use crate::{
    confine::escape::{ATTEMPT_SUCCEEDED, AttemptContext, AttemptResult},
    sys::raw::{c_long, nr, syscall},
};

pub(super) const SLASH: &std::ffi::CStr = c"/";
pub(super) const EMPTY: &std::ffi::CStr = c"";

pub(super) fn attempt_call(number: c_long, args: &[usize]) -> AttemptResult {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    match syscall(number, all) {
        Ok(_) => ATTEMPT_SUCCEEDED,
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn attempt_open_outside() -> AttemptResult {
    use rustix::fs::{CWD, Mode as FileMode, OFlags, ResolveFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, SLASH, flags, FileMode::empty(), ResolveFlags::empty()) {
        Ok(_) => ATTEMPT_SUCCEEDED,
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn attempt_create_read_only(surroundings: &AttemptContext<'_>) -> AttemptResult {
    use rustix::fs::{AtFlags, Mode as FileMode, OFlags, ResolveFlags};
    const NAME: &str = ".stockade-probe-must-not-exist";
    let Some(root) = surroundings.read_only_root else { return ATTEMPT_SUCCEEDED };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, NAME, flags, FileMode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => {
            // Before the filter, so that a leaking jail can still tidy up after itself.
            let _ = rustix::fs::unlinkat(root, NAME, AtFlags::empty());
            ATTEMPT_SUCCEEDED
        }
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn attempt_fork() -> AttemptResult {
    match syscall(nr::SYS_clone, [nr::SIGCHLD as usize, 0, 0, 0, 0, 0]) {
        Ok(0) => std::process::exit(0),
        Ok(_) => ATTEMPT_SUCCEEDED,
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn attempt_map(protection: i32) -> AttemptResult {
    const PAGE: usize = 4096;
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS;
    attempt_call(nr::SYS_mmap, &[0, PAGE, protection as usize, flags as usize, usize::MAX, 0])
}
