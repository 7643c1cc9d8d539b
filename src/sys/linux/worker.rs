//! What a worker does to itself at its start, and the facts about itself that it reports. Never runs in the supervisor.

use rustix::{
    process::{self, DumpableBehavior, Signal},
    thread,
};

use crate::sys::Errno;

pub fn no_new_privs() -> bool {
    thread::no_new_privs().unwrap_or(false)
}

pub fn is_undumpable() -> bool {
    process::dumpable_behavior() == Ok(DumpableBehavior::NotDumpable)
}

/// Die with the supervisor. The signal belongs to the parent *thread* that spawned us.
pub fn die_with_parent() -> Result<(), Errno> {
    process::set_parent_process_death_signal(Some(Signal::KILL))
}

/// Lowers the priority of this thread for good.
pub fn lower_thread_priority() {
    // On Linux a nice value applies to one thread. If the call fails, the thread keeps its normal priority, which is
    // harmless.
    let _ = process::nice(10);
}

pub fn has_capabilities() -> bool {
    thread::capabilities(None).is_ok_and(|sets| !(sets.effective | sets.permitted | sets.inheritable).is_empty())
}

/// Fewer malloc arenas: each thread's own would reserve 64 MiB of address space against RLIMIT_AS.
pub fn limit_malloc_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only changes allocator settings; called while single-threaded.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
