//! Holds the lock round the scheduler, and parks threads until the scheduler wakes them. Executes what the scheduler orders and
//! decides nothing.
//! Runs in the worker, on all of its threads. Trusts the scheduler. Never calls other code while it holds the lock, apart from the
//! closures that its callers pass.
//!
//! `model_tests` compiles this file a second time with the primitives of `shuttle` as `sync`, and runs it under many schedules.

use std::sync::Arc;

use super::{
    scheduler::{Job, NextAction, Role, Scheduler, UnsentReplies, Wakes},
    sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, PoisonError},
};

/// `T` and `H` are those of the scheduler. `R` reads frames; the thread that leads owns it.
pub struct Threads<T, H: ?Sized, R> {
    state: Mutex<ThreadsState<T, H, R>>,
    prompt: Condvar,
    patient: Condvar,
    /// `Scheduler::long_waits` for helpers, which ask often and must not take the lock.
    long_waits: AtomicBool,
    max_helpers: usize,
    wake_sentinel: Box<dyn Fn() + Send + Sync>,
}

struct ThreadsState<T, H: ?Sized, R> {
    scheduler: Scheduler<T, H>,
    /// `None` while it is with the leader.
    reader: Option<Box<R>>,
}

/// What a thread does next; see [`Next`].
pub enum ThreadTask<T, H: ?Sized, R> {
    Run(Job<T>),
    Help(Arc<H>),
    AwaitSpace,
    Lead(Box<R>),
    End,
}

impl<T, H: ?Sized, R> Threads<T, H, R> {
    pub fn new(scheduler: Scheduler<T, H>, reader: R, wake_sentinel: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            max_helpers: scheduler.max_helpers(),
            state: Mutex::new(ThreadsState { scheduler, reader: Some(Box::new(reader)) }),
            prompt: Condvar::new(),
            patient: Condvar::new(),
            long_waits: AtomicBool::new(false),
            wake_sentinel: Box::new(wake_sentinel),
        }
    }

    pub fn max_helpers(&self) -> usize {
        self.max_helpers
    }

    pub fn long_waits(&self) -> bool {
        self.long_waits.load(Ordering::Relaxed)
    }

    /// Tells the scheduler about an event and executes the wake-ups that it orders. `event` must not block.
    pub fn with_scheduler<O>(&self, event: impl FnOnce(&mut Scheduler<T, H>) -> O) -> O {
        let mut state = self.lock();
        let outcome = event(&mut state.scheduler);
        self.unlock(state);
        outcome
    }

    /// Blocks until the scheduler has a task for this thread.
    pub fn next_task(&self, role: Role, unsent: impl Fn() -> UnsentReplies) -> ThreadTask<T, H, R> {
        let mut state = self.lock();
        loop {
            let next = state.scheduler.next_action(role, unsent());
            let task = match next {
                NextAction::Run(job) => ThreadTask::Run(job),
                NextAction::Help(work) => ThreadTask::Help(work),
                NextAction::AwaitSpace => ThreadTask::AwaitSpace,
                NextAction::End => ThreadTask::End,
                NextAction::Lead => ThreadTask::Lead(take_reader(&mut state)),
                NextAction::Park => {
                    state = self.park(role, state);
                    continue;
                }
            };
            self.unlock(state);
            return task;
        }
    }

    /// Waits until the scheduler has woken this thread. A notification alone means nothing: it may be spurious, or another
    /// thread may have been faster.
    fn park<'a>(
        &'a self,
        role: Role,
        mut state: MutexGuard<'a, ThreadsState<T, H, R>>,
    ) -> MutexGuard<'a, ThreadsState<T, H, R>> {
        self.notify_threads(state.scheduler.take_wakes());
        while !state.scheduler.unpark(role) {
            state = self.condvar(role).wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// The leader gives the reader back. `has_calls` is whether it leaves to run calls.
    pub fn stop_leading(&self, reader: Box<R>, has_calls: bool) {
        let mut state = self.lock();
        state.reader = Some(reader);
        state.scheduler.stop_leading(has_calls);
        self.unlock(state);
    }

    /// Like `with_scheduler`, for events that may make the sentinel the leader (true). It then owns the reader.
    pub fn with_scheduler_as_leader<O>(
        &self,
        event: impl FnOnce(&mut Scheduler<T, H>) -> (bool, O),
    ) -> (Option<Box<R>>, O) {
        let mut state = self.lock();
        let (leads, outcome) = event(&mut state.scheduler);
        let reader = leads.then(|| take_reader(&mut state));
        self.unlock(state);
        (reader, outcome)
    }

    /// The sentinel gives the reader back if it does not have to lead any longer.
    pub fn relieve_sentinel(&self, reader: Box<R>) -> Option<Box<R>> {
        let mut state = self.lock();
        let kept = if state.scheduler.relieve_sentinel() {
            state.reader = Some(reader);
            None
        } else {
            Some(reader)
        };
        self.unlock(state);
        kept
    }

    /// Calls `look` with the reader, unless a thread leads. `look` must not block.
    pub fn with_idle_reader<O>(&self, look: impl FnOnce(&mut R) -> O) -> Option<O> {
        self.lock().reader.as_deref_mut().map(look)
    }

    fn lock(&self) -> MutexGuard<'_, ThreadsState<T, H, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Threads are notified without the lock, so that they do not wake up only to wait for it.
    fn unlock(&self, mut state: MutexGuard<'_, ThreadsState<T, H, R>>) {
        let wakes = state.scheduler.take_wakes();
        self.long_waits.store(state.scheduler.long_waits(), Ordering::Relaxed);
        drop(state);
        self.notify_threads(wakes);
    }

    fn notify_threads(&self, wakes: Wakes) {
        (0..wakes.prompt).for_each(|_| self.prompt.notify_one());
        (0..wakes.patient).for_each(|_| self.patient.notify_one());
        if wakes.sentinel {
            (self.wake_sentinel)();
        }
    }

    fn condvar(&self, role: Role) -> &Condvar {
        match role {
            Role::Prompt => &self.prompt,
            Role::Patient => &self.patient,
        }
    }
}

/// The scheduler has made the caller the leader, so no other thread has the reader.
fn take_reader<T, H: ?Sized, R>(state: &mut ThreadsState<T, H, R>) -> Box<R> {
    state.reader.take().expect("the scheduler chooses one leader at a time")
}

impl<T, H: ?Sized, R> std::fmt::Debug for Threads<T, H, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("max_helpers", &self.max_helpers).finish_non_exhaustive()
    }
}
