//! Runs in the worker: idle threads that a long call may use. All threads of a worker start before its filter forbids new ones, so
//! a call that can use several invites idle ones. Never waits for a helper to arrive.

use std::{fmt, sync::Arc};

/// Work that several threads can do together. The call's own thread always takes part and can do it alone.
pub trait SharedWork: Send + Sync {
    /// Returns false when nothing is left to do, and true when the crew wants the thread back, so that other threads may help.
    fn help(&self, crew: &dyn Crew) -> bool;
}

pub trait Crew: fmt::Debug + Send + Sync {
    /// The largest number of threads that can help.
    fn size(&self) -> usize;

    /// Idle threads start at once, others when they have finished their calls.
    fn invite(&self, work: Arc<dyn SharedWork>);

    /// No further thread starts to help. Those that help leave by themselves.
    fn dismiss(&self, work: &Arc<dyn SharedWork>);

    /// Whether a helper should leave, because another call waits for a thread.
    fn is_needed_elsewhere(&self) -> bool;
}

/// Dismisses the work when it is dropped, so that no thread starts to help after the call has left the work in any way.
pub(super) struct Invitation {
    crew: Arc<dyn Crew>,
    work: Arc<dyn SharedWork>,
}

impl Invitation {
    pub(super) fn send(crew: &Arc<dyn Crew>, work: Arc<dyn SharedWork>) -> Self {
        crew.invite(Arc::clone(&work));
        Self { crew: Arc::clone(crew), work }
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        self.crew.dismiss(&self.work);
    }
}

/// No helpers.
#[derive(Debug, Clone, Copy)]
pub struct NoHelpers;

impl Crew for NoHelpers {
    fn size(&self) -> usize {
        0
    }

    fn invite(&self, _: Arc<dyn SharedWork>) {}

    fn dismiss(&self, _: &Arc<dyn SharedWork>) {}

    fn is_needed_elsewhere(&self) -> bool {
        false
    }
}
