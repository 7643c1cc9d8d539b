//! Runs in the worker, never in the supervisor: the trait by which `jail` asks questions, the call that asks, and an answer whose
//! descriptor has arrived. Trusts the supervisor's answers.

use std::{os::fd::OwnedFd, sync::Arc, time::Instant};

use super::{CallId, EntryOutcome, Lease, Question, Refusal};
use crate::terms::Code;

/// The parent of a name: an O_PATH directory, and the leaf to open beneath it.
#[derive(Debug, Clone)]
pub struct Parent {
    pub dir: Arc<OwnedFd>,
    /// The path below the root, with the leaf. It is the question's own path, unless links were followed.
    pub path: Vec<u8>,
    /// The last name of `path`. Empty when that is the root itself; `dir` is then the root.
    pub leaf: Vec<u8>,
    /// Only for `Intent::Create`: how many directories before the leaf do not exist yet. They are the last ones
    /// of the question's own path.
    pub missing: usize,
    /// Held until it is dropped or the worker is gone. Only for intents that change a name, and not while a call only plans.
    pub lease: Option<Arc<Lease>>,
}

pub type Answer = Result<Parent, Refusal>;

/// The part of the channel that `jail` uses. In unit tests an in-process resolver implements it.
pub trait AskSupervisor: Send + Sync {
    /// One answer per question, in order. Blocks until all are there.
    fn ask(&self, caller: Caller, questions: &[Question]) -> Vec<Answer>;

    /// For the audit: the worker refused this path, as sent, without asking. Not for a call that reports outcomes.
    fn report_refusal(&self, caller: Caller, code: Code, path: &[u8]);

    /// For the audit: the outcomes of the entries of one call that changes something.
    fn report_outcomes(&self, function: u8, outcomes: Vec<EntryOutcome>);
}

/// The call that asks, its function (index into the table) and its deadline.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub call: CallId,
    pub function: u8,
    pub deadline: Instant,
    /// Whether a question that may change a name takes its lease. False while a call only plans: other clients can then
    /// change the name, and the commit checks that they did not.
    pub takes_leases: bool,
    /// Every entry of the call gets an outcome, so that a refusal needs no other report.
    pub reports_outcomes: bool,
}

impl Caller {
    pub fn new(call: CallId, function: u8, deadline: Instant) -> Self {
        Self { call, function, deadline, takes_leases: true, reports_outcomes: false }
    }

    pub fn remaining_ms(&self) -> u32 {
        let left = self.deadline.saturating_duration_since(Instant::now()).as_millis();
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}
