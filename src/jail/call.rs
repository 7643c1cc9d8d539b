//! Runs in the worker: the state of one call while it runs: its deadline, its limits, its warnings and its outcomes.
//! Trusts the limits of the set-up. Never outlives its reply.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use super::{Clock, Crew, crew::NoHelpers};
use crate::{
    broker::{Answer, CallId, Caller, EntryOutcome, OutcomePaths, Question},
    wire::{Limits, Result, Warnings},
};

/// Deadline of tidying up. The next recovery removes the rest.
const CLEANUP_TIME: Duration = Duration::from_secs(10);

/// An entry of a request as the client sent it, for the audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentEntry {
    pub names: OutcomePaths,
    /// For an entry of a restore: the id in the trash.
    pub trash_id: Option<String>,
}

/// A handler gets one and uses it up.
#[derive(Debug)]
pub struct Call {
    pub limits: Arc<Limits>,
    /// Goes to the top of the call's result.
    pub warnings: Warnings,
    /// Outcomes of the finished entries, for the audit.
    pub outcomes: Vec<EntryOutcome>,
    /// The entries of a call that changes something.
    sent: Vec<SentEntry>,
    caller: Caller,
    clock: Clock,
    crew: Arc<dyn Crew>,
    /// Answers that were fetched before the call ran: at most those of one message.
    answers: Vec<(Question, Answer)>,
}

/// For calls of the worker itself, which no policy limits. Equal to policy/default.toml; a test compares them.
impl Default for Limits {
    fn default() -> Self {
        Self {
            max_read_bytes: 10 << 20,
            max_write_bytes: 10 << 20,
            tree_default_depth: 4,
            tree_per_folder_limit: 50,
            list_default_page_size: 100,
            list_max_page_size: 1000,
            search_default_max_matches: 1000,
            search_default_max_line_bytes: 4096,
            batch_read_budget_bytes: 1 << 20,
            max_output_bytes: 128 << 10,
            search_response_budget_bytes: 256 << 10,
            tree_response_budget_bytes: 256 << 10,
            tree_max_depth: 48,
            search_max_line_buffer: 16 << 20,
            call_timeout_ms: 30_000,
            call_timeout_max_ms: 600_000,
            max_frame_bytes: 64 << 20,
            max_frame_bytes_per_uid: 256 << 20,
            max_batch_entries: 1000,
            max_calls_in_flight: 64,
            max_connections_per_uid: 64,
        }
    }
}

impl Call {
    pub fn new(caller: Caller, limits: Arc<Limits>, cancelled: Arc<AtomicBool>) -> Self {
        let clock = Clock::new(caller.deadline, cancelled, limits.call_timeout_max_ms);
        Self {
            limits,
            warnings: Warnings::default(),
            outcomes: Vec::new(),
            sent: Vec::new(),
            caller,
            clock,
            crew: Arc::new(NoHelpers),
            answers: Vec::new(),
        }
    }

    /// Threads that may help with it.
    pub fn with_crew(mut self, crew: Arc<dyn Crew>) -> Self {
        self.crew = crew;
        self
    }

    pub fn crew(&self) -> &Arc<dyn Crew> {
        &self.crew
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A call of the worker itself, for tidying up after a client's call whether that failed or not. It has a short deadline.
    pub fn for_cleanup() -> Self {
        let deadline = Instant::now() + CLEANUP_TIME;
        let caller = Caller::new(CallId(0), 0, deadline);
        Self::new(caller, Arc::default(), Arc::default())
    }

    /// Adds an answer that the worker fetched together with those of other calls. Each answer is used once: it may hold a lease,
    /// and a name that is asked about twice is resolved twice.
    pub fn add_answer(&mut self, question: Question, answer: Answer) {
        self.answers.push((question, answer));
    }

    /// Equal questions get their answers in order.
    pub(super) fn take_answer(&mut self, question: &Question) -> Option<Answer> {
        let known = self.answers.iter().position(|(asked, _)| asked == question)?;
        Some(self.answers.remove(known).1)
    }

    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Every entry gets an outcome from here on; see [`Caller::reports_outcomes`].
    pub fn begin_change(&mut self, sent: Vec<SentEntry>) {
        self.caller.reports_outcomes = true;
        self.sent = sent;
    }

    /// The entry with this index as the client sent it, or an empty one.
    pub fn take_sent_entry(&mut self, index: usize) -> SentEntry {
        self.sent.get_mut(index).map(std::mem::take).unwrap_or_default()
    }

    /// The outcomes, in order. Entries that the call did not reach get the outcome that `refuse` returns.
    pub fn take_outcomes(&mut self, refuse: impl FnOnce(Vec<SentEntry>) -> Vec<EntryOutcome>) -> Vec<EntryOutcome> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let unrun = self.sent.drain(..).skip(outcomes.len()).collect();
        outcomes.extend(refuse(unrun));
        outcomes
    }

    /// See [`Caller::takes_leases`].
    pub fn set_takes_leases(&mut self, takes_leases: bool) {
        self.caller.takes_leases = takes_leases;
    }

    /// To be called between two steps that may take long. C220 after the deadline or a cancellation.
    pub fn checkpoint(&self) -> Result<()> {
        self.clock.checkpoint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Intent, Refusal};

    #[test]
    fn fetched_answers_are_used_once_and_in_order() {
        let question = |path: &[u8]| Question { root: 0, path: path.to_vec(), intent: Intent::Read };
        let caller = Caller::new(CallId(1), 0, std::time::Instant::now());
        let mut call = Call::new(caller, Arc::default(), Arc::default());
        call.add_answer(question(b"a"), Err(Refusal::Escape));
        call.add_answer(question(b"a"), Err(Refusal::Busy));
        let mut take = |path| call.take_answer(&question(path)).map(|answer| answer.err());
        assert_eq!(take(b"b"), None);
        assert_eq!(take(b"a"), Some(Some(Refusal::Escape)));
        assert_eq!(take(b"a"), Some(Some(Refusal::Busy)));
        assert_eq!(take(b"a"), None);
    }
}
