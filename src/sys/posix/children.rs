//! Children by number. A number means a child until it is reaped, and reaping is done here alone: so a kill never meets
//! a stranger, nor a younger child that was given the same number.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::process::{self, Pid, Signal, WaitOptions};

use crate::sys::{Errno, process::EndedChild};

/// Children that have not been reaped, and which start of that number each one is.
static LIVE: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());
static STARTS: AtomicU64 = AtomicU64::new(0);

fn live() -> MutexGuard<'static, BTreeMap<u32, u64>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child, and no other process that may come to have its number.
#[derive(Debug)]
pub struct ChildHandle {
    pid: u32,
    start: u64,
}

impl ChildHandle {
    /// For a child that has not been reaped yet.
    pub fn of(pid: u32) -> Result<Self, Errno> {
        pid_of(pid).ok_or(Errno::INVAL)?;
        let start = STARTS.fetch_add(1, Ordering::Relaxed);
        live().insert(pid, start);
        Ok(Self { pid, start })
    }

    pub fn kill(&self) {
        let live = live();
        if live.get(&self.pid) == Some(&self.start)
            && let Some(pid) = pid_of(self.pid)
        {
            // ESRCH: it was faster.
            let _ = process::kill_process(pid, Signal::KILL);
        }
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Reaps one ended child without waiting.
pub fn reap() -> Option<EndedChild> {
    // The lock is held over both steps: between them the pid could be given to another process.
    let mut live = live();
    let (pid, status) = process::wait(WaitOptions::NOHANG).ok()??;
    let pid = pid.as_raw_nonzero().get().unsigned_abs();
    live.remove(&pid);
    Some(EndedChild { pid, status: status.exit_status(), signal: status.terminating_signal() })
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command};

    use super::*;

    #[test]
    fn a_handle_kills_its_own_child_and_not_a_younger_one_of_the_same_number() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let younger = ChildHandle::of(child.id()).unwrap();
        let older = ChildHandle { pid: younger.pid, start: younger.start.wrapping_sub(1) };
        older.kill();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(child.try_wait().unwrap(), None, "it lives");
        younger.kill();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        // Does what `reap` does for this one child; `reap` itself would also take the children of other tests.
        live().remove(&younger.pid);
        younger.kill();
    }
}
