//! One call while it runs: its deadline, its limits, what it wants to tell the caller.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    broker::{Answer, CallId, Caller, Question},
    wire::{Code, Error, Limits, Result, Warnings},
};

/// What is not removed by then is left to the next recovery.
const TIDYING: Duration = Duration::from_secs(10);

/// Given to a handler, used up by it.
#[derive(Debug)]
pub struct Call {
    pub limits: Arc<Limits>,
    /// Goes to the top of the call's result.
    pub warnings: Warnings,
    caller: Caller,
    cancelled: Arc<AtomicBool>,
    answers: HashMap<Question, Vec<Answer>>,
}

impl Call {
    pub fn new(caller: Caller, limits: Arc<Limits>, cancelled: Arc<AtomicBool>) -> Self {
        Self { limits, warnings: Warnings::default(), caller, cancelled, answers: HashMap::new() }
    }

    /// For what has to be put in order whatever became of the call that left it; not for long.
    pub fn tidying() -> Self {
        let deadline = Instant::now() + TIDYING;
        let caller = Caller { call: CallId(0), function: 0, deadline };
        Self::new(caller, Arc::default(), Arc::default())
    }

    /// Answers that the worker fetched together with those of other calls. Each is used once: an answer may hold
    /// a lease, and a name asked about twice is resolved twice.
    pub fn with_answers(mut self, answers: Vec<(Question, Answer)>) -> Self {
        // Reversed, so that `pop` hands equal questions their answers in order.
        for (question, answer) in answers.into_iter().rev() {
            self.answers.entry(question).or_default().push(answer);
        }
        self
    }

    pub fn add_answer(&mut self, question: Question, answer: Answer) {
        // In front, because `take_answer` pops: equal questions get their answers in order.
        self.answers.entry(question).or_default().insert(0, answer);
    }

    pub(super) fn take_answer(&mut self, question: &Question) -> Option<Answer> {
        self.answers.get_mut(question)?.pop()
    }

    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// Between any two steps that may take long. C220 once the call should end.
    pub fn checkpoint(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::new(
                Code::C220,
                "cancelled by the client before it was done; send the call again if it is still wanted",
            ));
        }
        if Instant::now() >= self.caller.deadline {
            return Err(Error::new(
                Code::C220,
                format!(
                    "deadline passed before the call was done; ask for less, or pass timeout_ms up to {}",
                    self.limits.call_timeout_max_ms
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Intent, Refusal};

    fn call(deadline: Instant, cancelled: bool) -> Call {
        let caller = Caller { call: CallId(1), function: 0, deadline };
        Call::new(caller, Arc::default(), Arc::new(AtomicBool::new(cancelled)))
    }

    #[test]
    fn a_running_call_passes_its_checkpoints() {
        assert_eq!(call(Instant::now() + Duration::from_secs(60), false).checkpoint(), Ok(()));
    }

    #[test]
    fn a_passed_deadline_says_so_and_names_the_longest_one() {
        let error = call(Instant::now(), false).checkpoint().unwrap_err();
        assert_eq!(error.code, Code::C220);
        assert!(error.message.contains("deadline") && error.message.contains("timeout_ms up to 600000"));
    }

    #[test]
    fn a_cancelled_call_says_so_even_after_its_deadline() {
        let error = call(Instant::now(), true).checkpoint().unwrap_err();
        assert_eq!(error.code, Code::C220);
        assert!(error.message.contains("cancelled by the client"), "{error}");
    }

    #[test]
    fn fetched_answers_are_used_once_and_in_order() {
        let question = |path: &[u8]| Question { root: 0, path: path.to_vec(), intent: Intent::Read };
        let mut call = call(Instant::now(), false)
            .with_answers(vec![(question(b"a"), Err(Refusal::Escape)), (question(b"a"), Err(Refusal::Busy))]);
        let mut take = |path| call.take_answer(&question(path)).map(|answer| answer.err());
        assert_eq!(take(b"b"), None);
        assert_eq!(take(b"a"), Some(Some(Refusal::Escape)));
        assert_eq!(take(b"a"), Some(Some(Refusal::Busy)));
        assert_eq!(take(b"a"), None);
    }
}
