//! Memory that workers hold for long lines, by uid. Runs on the attendants. Trusts: the uid and the limits. Does not trust:
//! the worker, which can ask for no more than its longest line needs. Never waits.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::quota::{QuotaShare, UidQuota};
use crate::terms::{FRAME_STEP_BYTES, Limits};

/// The limits that an attendant checks. A reload changes them.
#[derive(Debug, Default)]
pub struct AttendantLimits {
    pub call_timeout_ms: AtomicU64,
    /// Steps of one line. The largest limit that the worker ever got, because a lower one may not have reached it yet.
    max_steps: AtomicU64,
    max_steps_per_uid: AtomicU64,
}

impl AttendantLimits {
    pub fn set(&self, limits: &Limits) {
        let step = FRAME_STEP_BYTES as u64;
        self.call_timeout_ms.store(limits.call_timeout_ms, Ordering::Relaxed);
        self.max_steps.fetch_max(limits.max_frame_bytes.div_ceil(step), Ordering::Relaxed);
        self.max_steps_per_uid.store(limits.max_frame_bytes_per_uid / step, Ordering::Relaxed);
    }
}

/// The reservations of one worker. Dropping this value releases them.
#[derive(Debug)]
pub struct WorkerReservations {
    quota: Arc<UidQuota>,
    uid: u32,
    steps: Vec<QuotaShare>,
    was_refused: bool,
}

impl WorkerReservations {
    /// `quota`: the steps of all workers.
    pub fn new(quota: &Arc<UidQuota>, uid: u32) -> Self {
        Self { quota: quota.clone(), uid, steps: Vec::new(), was_refused: false }
    }

    /// Reserves one step more; false if the uid has reserved all it may. An error if the worker violates the protocol: it asks
    /// for more than its longest line needs, or asks again after a refusal, after which it must not read any more.
    pub fn reserve_step(&mut self, bounds: &AttendantLimits) -> Result<bool, &'static str> {
        if self.was_refused {
            return Err("reserves memory after a refusal");
        }
        if self.steps.len() as u64 >= bounds.max_steps.load(Ordering::Relaxed) {
            return Err("reserves more memory than a line needs");
        }
        let step = self.quota.take(self.uid, bounds.max_steps_per_uid.load(Ordering::Relaxed));
        self.was_refused = step.is_none();
        self.steps.extend(step);
        Ok(!self.was_refused)
    }

    /// Releases all steps of this worker.
    pub fn release_all(&mut self) {
        self.steps.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(max_frame_bytes: u64, max_frame_bytes_per_uid: u64) -> AttendantLimits {
        let bounds = AttendantLimits::default();
        bounds.set(&Limits { max_frame_bytes, max_frame_bytes_per_uid, ..Limits::default() });
        bounds
    }

    #[test]
    fn workers_of_one_uid_share_a_bound_and_other_uids_have_their_own() {
        let (all, bounds) = (Arc::<UidQuota>::default(), bounds(4 << 20, 6 << 20));
        let [mut first, mut second, mut third] = [7, 7, 8].map(|uid| WorkerReservations::new(&all, uid));
        assert!((0..4).all(|_| first.reserve_step(&bounds) == Ok(true)));
        assert_eq!([(); 3].map(|()| second.reserve_step(&bounds)), [Ok(true), Ok(true), Ok(false)]);
        assert!((0..4).all(|_| third.reserve_step(&bounds) == Ok(true)));
        assert!(second.reserve_step(&bounds).is_err(), "it was refused");
        first.release_all();
        let mut fourth = WorkerReservations::new(&all, 7);
        assert!((0..4).all(|_| fourth.reserve_step(&bounds) == Ok(true)));
        drop((first, second, third, fourth));
        assert!(!all.is_full(7, 1) && !all.is_full(8, 1), "the end of a worker gives everything back");
    }

    #[test]
    fn a_worker_reserves_no_more_than_its_longest_line() {
        let (all, bounds) = (Arc::<UidQuota>::default(), bounds(3 << 20, 100 << 20));
        let mut worker = WorkerReservations::new(&all, 7);
        assert!((0..3).all(|_| worker.reserve_step(&bounds) == Ok(true)));
        assert!(worker.reserve_step(&bounds).is_err());
        // A reload that lowers the limit may reach the worker late.
        let mut other = WorkerReservations::new(&all, 7);
        bounds.set(&Limits { max_frame_bytes: 1 << 20, ..Limits::default() });
        assert!((0..3).all(|_| other.reserve_step(&bounds) == Ok(true)));
    }
}
