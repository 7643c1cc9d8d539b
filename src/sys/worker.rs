//! What a worker does to itself at its start, on every system. Never runs in the supervisor.

use rustix::process;

pub fn parent_pid() -> Option<i32> {
    process::getppid().map(|pid| pid.as_raw_nonzero().get())
}

/// Files are made with exactly the mode asked for.
pub fn clear_umask() {
    process::umask(rustix::fs::Mode::empty());
}

/// Descriptor numbers below `limit` that are open in this process.
pub fn open_descriptors(limit: i32) -> Vec<i32> {
    (0..limit).filter(|fd| super::inherited::is_open(*fd)).collect()
}

/// A file that outgrows its limit is an error of the write, not the end of the process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal runs no handler, and the process has a single thread here.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
