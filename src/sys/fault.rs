//! Test builds only: the process is ended or stopped at a chosen call that changes something, or that call fails.
//! So a test can go through every one of them, and knows that each was reached.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use super::Errno;

/// What happens at the `at`-th call (from 1). A kill or stop has two chances per call: before it (odd) and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Stop,
    Errno(Errno),
}

#[derive(Debug)]
struct Plan {
    at: u32,
    fault: Fault,
    /// Only calls of this name count; all if empty.
    call: String,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
static SEEN: AtomicU32 = AtomicU32::new(0);

/// `kill:7`, `stop:7`, `EIO:2:sync`; with `recover:` in front it is for the worker that recovers, and for no other.
/// An unknown word is a panic: a test whose fault never happens must not pass.
pub fn plan(text: &str, recovers: bool) {
    let text = match (text.strip_prefix("recover:"), recovers) {
        (Some(text), true) => text,
        (None, false) => text,
        _ => "",
    };
    let _ = PLAN.set((!text.is_empty()).then(|| parse(text)));
}

fn parse(text: &str) -> Plan {
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
        other => panic!("unknown fault {other:?}"),
    };
    // 0: every time.
    let at = words.next().and_then(|number| number.parse().ok()).expect("a number of the call");
    Plan { at, fault, call: words.next().unwrap_or_default().into() }
}

fn planned(name: &str) -> Option<&'static Plan> {
    PLAN.get()?.as_ref().filter(|plan| plan.call.is_empty() || plan.call == name)
}

pub fn before(name: &str) -> Result<(), Errno> {
    let Some(plan) = planned(name) else { return Ok(()) };
    match plan.fault {
        Fault::Errno(errno) => {
            let seen = SEEN.fetch_add(1, Ordering::SeqCst) + 1;
            if plan.at == 0 || seen == plan.at { Err(errno) } else { Ok(()) }
        }
        _ => {
            strike(plan);
            Ok(())
        }
    }
}

pub fn after(name: &str) {
    if let Some(plan) = planned(name).filter(|plan| !matches!(plan.fault, Fault::Errno(_))) {
        strike(plan);
    }
}

fn strike(plan: &Plan) {
    if SEEN.fetch_add(1, Ordering::SeqCst) + 1 != plan.at {
        return;
    }
    let signal = if plan.fault == Fault::Kill { libc::SIGKILL } else { libc::SIGSTOP };
    super::raw::signal_self(signal);
}
