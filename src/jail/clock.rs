//! Runs in the worker: the deadline and the cancellation of a call. All threads that work on the call check the same clock. Pure,
//! except that it reads the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::wire::{Code, Error, Result};

/// Time that is kept for writing what was found: at most this, and at most a tenth of what is left.
const REPLY_RESERVE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub struct Clock {
    deadline: Instant,
    cancelled: Arc<AtomicBool>,
    /// The longest deadline that a call may ask for; the text of C220 names it.
    max_deadline_ms: u64,
}

/// Why work stops before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaltReason {
    Cancelled,
    Deadline,
}

impl Clock {
    pub fn new(deadline: Instant, cancelled: Arc<AtomicBool>, longest_ms: u64) -> Self {
        Self { deadline, cancelled, max_deadline_ms: longest_ms }
    }

    /// A clock for work whose partial result is useful: it ends early enough for the reply to be in time, and at the latest after
    /// `at_most`.
    pub fn for_partial_work(&self, at_most: Duration) -> Self {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let kept = REPLY_RESERVE.min(left / 10);
        Self { deadline: Instant::now() + (left - kept).min(at_most), ..self.clone() }
    }

    /// To be called between two steps that may take long.
    pub fn check(&self) -> Result<(), HaltReason> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(HaltReason::Cancelled);
        }
        if Instant::now() >= self.deadline { Err(HaltReason::Deadline) } else { Ok(()) }
    }

    /// C220 after the deadline or a cancellation.
    pub fn checkpoint(&self) -> Result<()> {
        self.check().map_err(|halt| self.error(halt))
    }

    pub fn error(&self, halt: HaltReason) -> Error {
        match halt {
            HaltReason::Cancelled => Error::new(
                Code::Deadline,
                "cancelled by the client before it was done; send the call again if it is still wanted",
            ),
            HaltReason::Deadline => Error::new(
                Code::Deadline,
                format!(
                    "deadline passed before the call was done; ask for less, or pass timeout_ms up to {}",
                    self.max_deadline_ms
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(deadline: Instant, cancelled: bool) -> Clock {
        Clock::new(deadline, Arc::new(AtomicBool::new(cancelled)), 600_000)
    }

    #[test]
    fn a_running_call_passes_its_checkpoints() {
        assert_eq!(clock(Instant::now() + Duration::from_secs(60), false).checkpoint(), Ok(()));
    }

    #[test]
    fn a_passed_deadline_says_so_and_names_the_longest_one() {
        let error = clock(Instant::now(), false).checkpoint().unwrap_err();
        assert_eq!(error.code, Code::Deadline);
        assert!(error.message.contains("deadline") && error.message.contains("timeout_ms up to 600000"));
    }

    #[test]
    fn a_cancelled_call_says_so_even_after_its_deadline() {
        let error = clock(Instant::now(), true).checkpoint().unwrap_err();
        assert_eq!(error.code, Code::Deadline);
        assert!(error.message.contains("cancelled by the client"), "{error}");
    }

    #[test]
    fn partial_work_ends_before_the_deadline_and_never_later_than_asked() {
        let whole = clock(Instant::now() + Duration::from_secs(10), false);
        let kept = whole.deadline - whole.for_partial_work(Duration::MAX).deadline;
        assert!(kept > Duration::from_millis(150) && kept < Duration::from_millis(250), "{kept:?}");
        let short = whole.for_partial_work(Duration::from_secs(1));
        assert!(short.deadline < whole.deadline - Duration::from_secs(8));
        assert_eq!(clock(Instant::now(), false).for_partial_work(Duration::MAX).check(), Err(HaltReason::Deadline));
    }
}
