//! Children by handles.

use std::os::fd::OwnedFd;

use rustix::process::{self, Pid, Signal, WaitOptions};

use crate::sys::{Errno, process::EndedChild};

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
pub fn reap() -> Option<EndedChild> {
    let (pid, status) = process::wait(WaitOptions::NOHANG).ok()??;
    Some(EndedChild {
        pid: pid.as_raw_nonzero().get().unsigned_abs(),
        status: status.exit_status(),
        signal: status.terminating_signal(),
    })
}
