//! The calls that a confined worker tries. Runs in the worker before it serves; `attempts` says what has to come of each.

use crate::{
    confine::probe::{Outcome, Surroundings, WENT_THROUGH},
    sys::raw::{c_long, nr, syscall},
};

pub(super) const SLASH: &std::ffi::CStr = c"/";
pub(super) const EMPTY: &std::ffi::CStr = c"";

pub(super) fn attempt(number: c_long, args: &[usize]) -> Outcome {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    match syscall(number, all) {
        Ok(_) => WENT_THROUGH,
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn open_outside() -> Outcome {
    use rustix::fs::{CWD, Mode as FileMode, OFlags, ResolveFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, SLASH, flags, FileMode::empty(), ResolveFlags::empty()) {
        Ok(_) => WENT_THROUGH,
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn create_in_read_only_root(surroundings: &Surroundings<'_>) -> Outcome {
    use rustix::fs::{AtFlags, Mode as FileMode, OFlags, ResolveFlags};
    const NAME: &str = ".stockade-probe-must-not-exist";
    let Some(root) = surroundings.read_only_root else { return WENT_THROUGH };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, NAME, flags, FileMode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => {
            // Before the filter, so that a leaking jail can still tidy up after itself.
            let _ = rustix::fs::unlinkat(root, NAME, AtFlags::empty());
            WENT_THROUGH
        }
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn fork() -> Outcome {
    match syscall(nr::SYS_clone, [nr::SIGCHLD as usize, 0, 0, 0, 0, 0]) {
        Ok(0) => std::process::exit(0),
        Ok(_) => WENT_THROUGH,
        Err(errno) => errno.raw_os_error(),
    }
}

pub(super) fn map(protection: i32) -> Outcome {
    const PAGE: usize = 4096;
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS;
    attempt(nr::SYS_mmap, &[0, PAGE, protection as usize, flags as usize, usize::MAX, 0])
}
