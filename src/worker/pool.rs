//! The threads of a connection: what waits for them, and which of them help a long call.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::calls::Calls;
use crate::jail::{Crew, Work};

pub struct Pool {
    calls: Mutex<Calls>,
    /// Told when there is work, when the reader is free, and when a place for another call is.
    pub(super) work: Condvar,
    long_waits: Arc<AtomicBool>,
    most_helpers: usize,
}

impl Pool {
    pub(super) fn new(calls: Calls) -> Self {
        let (long_waits, most_helpers) = (calls.long_waits.clone(), calls.most_helpers());
        Self { calls: Mutex::new(calls), work: Condvar::new(), long_waits, most_helpers }
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait(&self, mut calls: MutexGuard<'_, Calls>) {
        calls.idle += 1;
        let mut calls = self.work.wait(calls).unwrap_or_else(PoisonError::into_inner);
        calls.idle -= 1;
    }

    /// Helps a long call that wants it. False if none does.
    pub(super) fn help(&self) -> bool {
        let Some(work) = self.calls().take_help() else { return false };
        // What the panic was is told by the call, whose work knows that a helper was lost.
        let wants_more = catch_unwind(AssertUnwindSafe(|| work.help(self))).unwrap_or(false);
        self.calls().end_help(&work, wants_more);
        true
    }
}

impl Crew for Pool {
    fn size(&self) -> usize {
        self.most_helpers
    }

    fn invite(&self, work: Arc<dyn Work>) {
        let mut calls = self.calls();
        calls.invite(work);
        let helpers = self.most_helpers.min(calls.idle);
        drop(calls);
        (0..helpers).for_each(|_| self.work.notify_one());
    }

    fn dismiss(&self, work: &Arc<dyn Work>) {
        self.calls().dismiss(work);
    }

    fn is_wanted_elsewhere(&self) -> bool {
        self.long_waits.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("most_helpers", &self.most_helpers).finish_non_exhaustive()
    }
}
