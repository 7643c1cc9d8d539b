//! The threads of a connection: what waits for them, and which of them help a long call.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::calls::{Calls, Role};
use crate::jail::{Crew, Work};

pub struct Pool {
    calls: Mutex<Calls>,
    /// Told when there is work, when the reader is free, and when a place for another call is.
    prompt: Condvar,
    /// Told when there is long work.
    patient: Condvar,
    long_waits: Arc<AtomicBool>,
    most_helpers: usize,
}

impl Pool {
    pub(super) fn new(calls: Calls) -> Self {
        let (long_waits, most_helpers) = (calls.long_waits.clone(), calls.most_helpers());
        let (prompt, patient) = (Condvar::new(), Condvar::new());
        Self { calls: Mutex::new(calls), prompt, patient, long_waits, most_helpers }
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait(&self, role: Role, mut calls: MutexGuard<'_, Calls>) {
        *calls.idle.of_mut(role) += 1;
        let mut calls = self.waiting(role).wait(calls).unwrap_or_else(PoisonError::into_inner);
        *calls.idle.of_mut(role) -= 1;
    }

    pub(super) fn call_one(&self, role: Role) {
        self.waiting(role).notify_one();
    }

    pub(super) fn call_all(&self) {
        self.prompt.notify_all();
        self.patient.notify_all();
    }

    fn waiting(&self, role: Role) -> &Condvar {
        match role {
            Role::Prompt => &self.prompt,
            Role::Patient => &self.patient,
        }
    }

    /// Helps a long call that wants it. False if none does.
    pub(super) fn help(&self) -> bool {
        let Some(work) = self.calls().take_help() else { return false };
        // What the panic was is told by the call, if its work needed this helper.
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
        let helpers = self.most_helpers.min(calls.idle.patient);
        drop(calls);
        (0..helpers).for_each(|_| self.call_one(Role::Patient));
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
