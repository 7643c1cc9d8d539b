//! Test builds only: the process is ended or stopped at a chosen call that changes something, or that call fails.
//! So a test can go through every one of them, and knows that each was reached.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use super::Errno;

/// What happens at the `at`-th call (counted from 1). A kill or stop can happen before a call (odd numbers) or after it (even
/// numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Stop,
    Errno(Errno),
}

#[derive(Debug)]
struct FaultPlan {
    at: u32,
    fault: Fault,
    /// Only calls of this name count; all if empty.
    call: String,
    seen: AtomicU32,
}

static PLANS: OnceLock<Vec<FaultPlan>> = OnceLock::new();

/// Parses `kill:7`, `stop:7`, `EIO:2:sync`, or several of these joined by `+`. With `recover:` in front they apply only to a
/// worker that recovers. Panics at an unknown word, because a test whose fault never happens must not pass.
pub fn plan(text: &str, recovers: bool) {
    let text = match (text.strip_prefix("recover:"), recovers) {
        (Some(text), true) => text,
        (None, false) => text,
        _ => "",
    };
    let _ = PLANS.set(text.split('+').filter(|text| !text.is_empty()).map(parse).collect());
}

fn parse(text: &str) -> FaultPlan {
    let mut words = text.split(':');
    let fault = match words.next() {
        Some("kill") => Fault::Kill,
        Some("stop") => Fault::Stop,
        Some("EIO") => Fault::Errno(Errno::IO),
        Some("ENOSPC") => Fault::Errno(Errno::NOSPC),
        Some("EDQUOT") => Fault::Errno(Errno::DQUOT),
        Some("EOPNOTSUPP") => Fault::Errno(Errno::OPNOTSUPP),
        Some("EINVAL") => Fault::Errno(Errno::INVAL),
        Some("EXDEV") => Fault::Errno(Errno::XDEV),
        Some("EEXIST") => Fault::Errno(Errno::EXIST),
        Some("EROFS") => Fault::Errno(Errno::ROFS),
        Some("EPERM") => Fault::Errno(Errno::PERM),
        other => panic!("unknown fault {other:?}"),
    };
    // 0: every time; kills and stops then only before a call.
    let at = words.next().and_then(|number| number.parse().ok()).expect("a number of the call");
    FaultPlan { at, fault, call: words.next().unwrap_or_default().into(), seen: AtomicU32::new(0) }
}

fn planned(name: &str) -> impl Iterator<Item = &'static FaultPlan> {
    let plans = PLANS.get().map_or(&[][..], Vec::as_slice);
    plans.iter().filter(move |plan| plan.call.is_empty() || plan.call == name)
}

pub fn before(name: &str) -> Result<(), Errno> {
    for plan in planned(name) {
        match plan.fault {
            Fault::Errno(errno) if plan.at == 0 || plan.count() == plan.at => return Err(errno),
            Fault::Errno(_) => {}
            Fault::Kill | Fault::Stop => plan.strike(),
        }
    }
    Ok(())
}

pub fn after(name: &str) {
    // A worker that stops at every call stops again before the next call, and no other call lies between the two stops.
    let strikes = |plan: &&FaultPlan| !matches!(plan.fault, Fault::Errno(_)) && plan.at > 0;
    planned(name).filter(strikes).for_each(FaultPlan::strike);
}

impl FaultPlan {
    fn count(&self) -> u32 {
        self.seen.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn strike(&self) {
        if self.at == 0 || self.count() == self.at {
            super::raw::signal_self(if self.fault == Fault::Kill { libc::SIGKILL } else { libc::SIGSTOP });
        }
    }
}
