//! Threads that a long call may borrow. A worker's threads are all there before its filter forbids new ones, so work
//! that wants several asks those that have nothing else to do.

use std::{fmt, sync::Arc};

/// Work that several threads can do together. The call's own thread always takes part and can do it alone.
pub trait Work: Send + Sync {
    /// Returns when nothing is left to do (false), or when the crew wants the thread back and others may come (true).
    fn help(&self, crew: &dyn Crew) -> bool;
}

pub trait Crew: fmt::Debug + Send + Sync {
    /// Threads that may come to help at best.
    fn size(&self) -> usize;

    /// Idle threads come now, others when they are done with what they do.
    fn invite(&self, work: Arc<dyn Work>);

    /// Nobody new comes; those who are there leave by themselves.
    fn dismiss(&self, work: &Arc<dyn Work>);

    /// A helper should go: another call waits for a thread.
    fn is_wanted_elsewhere(&self) -> bool;
}

/// Sent for work that a call does: nobody new comes once the call has left it, however it has.
pub(super) struct Invitation {
    crew: Arc<dyn Crew>,
    work: Arc<dyn Work>,
}

impl Invitation {
    pub(super) fn send(crew: &Arc<dyn Crew>, work: Arc<dyn Work>) -> Self {
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
pub struct Alone;

impl Crew for Alone {
    fn size(&self) -> usize {
        0
    }

    fn invite(&self, _: Arc<dyn Work>) {}

    fn dismiss(&self, _: &Arc<dyn Work>) {}

    fn is_wanted_elsewhere(&self) -> bool {
        false
    }
}
