//! Drives the scheduler through random orders of events, with threads that only do what it orders. After every event its
//! invariants are checked; at the end every call must be answered and the process must be able to end.

use proptest::prelude::*;

use super::*;
use std::time::Duration;

const MAX_ROUNDS: usize = 2_000;

#[derive(Debug, Clone)]
enum ModelMessage {
    Call {
        id: i64,
        cost: Cost,
        timeout_ms: u64,
    },
    Cancel {
        id: i64,
    },
    /// Answered at once.
    Invalid,
    EndOfStream,
}

#[derive(Debug, Clone)]
enum ModelStep {
    Send(ModelMessage),
    /// The thread with this index (modulo their number) does its next step.
    Thread(usize),
    /// The thread with this index is notified for no reason.
    Spurious(usize),
    Sentinel,
    Invite(usize),
    Pass(u64),
    ClientReads,
    Limit(usize),
    Drain,
}

fn message() -> impl Strategy<Value = ModelMessage> {
    let cost = prop_oneof![2 => Just(Cost::Short), 3 => Just(Cost::Long)];
    let timeout = prop_oneof![Just(0), Just(100), Just(60_000)];
    prop_oneof![
        8 => (0..12i64, cost, timeout).prop_map(|(id, cost, timeout_ms)| ModelMessage::Call { id, cost, timeout_ms }),
        2 => (0..12i64).prop_map(|id| ModelMessage::Cancel { id }),
        1 => Just(ModelMessage::Invalid),
    ]
}

fn step() -> impl Strategy<Value = ModelStep> {
    prop_oneof![
        30 => message().prop_map(ModelStep::Send),
        120 => (0..8usize).prop_map(ModelStep::Thread),
        4 => (0..8usize).prop_map(ModelStep::Spurious),
        20 => Just(ModelStep::Sentinel),
        6 => (0..8usize).prop_map(ModelStep::Invite),
        6 => prop_oneof![Just(5), Just(120), Just(400)].prop_map(ModelStep::Pass),
        4 => Just(ModelStep::ClientReads),
        3 => (1..6usize).prop_map(ModelStep::Limit),
        1 => Just(ModelStep::Drain),
        1 => Just(ModelStep::Send(ModelMessage::EndOfStream)),
    ]
}

#[derive(Debug)]
enum ThreadState {
    /// Asks for its next task.
    Ready,
    Parked,
    Running {
        number: u64,
        cost: Cost,
        invited: Option<Arc<()>>,
    },
    Helping(Arc<()>),
    Leading,
    /// Waits for the supervisor's answers about the calls that it has read.
    Asking(Vec<Job<()>>),
    AwaitingSpace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentinelState {
    Awake,
    Asleep,
    StandsIn,
}

#[derive(Debug)]
struct ModelWorld {
    scheduler: Scheduler<(), ()>,
    now: Instant,
    threads: Vec<(Role, ThreadState)>,
    /// Notifications on the way to parked threads.
    notified: PerRole,
    sentinel: SentinelState,
    bell: bool,
    sent: VecDeque<ModelMessage>,
    unsent: UnsentReplies,
    /// Answers of each call, by number − 1.
    answers: Vec<usize>,
    numbers: Vec<(i64, u64)>,
    ends: usize,
}

impl ModelWorld {
    fn new(threads: usize, max_open: usize) -> Self {
        let ready = |role| (role, ThreadState::Ready);
        Self {
            scheduler: Scheduler::new(threads, max_open),
            now: Instant::now(),
            threads: Role::of_threads(threads).map(ready).collect(),
            notified: PerRole::default(),
            sentinel: SentinelState::Awake,
            bell: false,
            sent: VecDeque::new(),
            unsent: UnsentReplies::Nothing,
            answers: Vec::new(),
            numbers: Vec::new(),
            ends: 0,
        }
    }

    fn step(&mut self, step: ModelStep) {
        match step {
            ModelStep::Send(message) => self.sent.push_back(message),
            ModelStep::Thread(index) => self.run_thread(index % self.threads.len(), false),
            ModelStep::Spurious(index) => self.run_thread(index % self.threads.len(), true),
            ModelStep::Sentinel => self.run_sentinel(),
            ModelStep::Invite(index) => self.invite(index % self.threads.len()),
            ModelStep::Pass(ms) => self.now += Duration::from_millis(ms),
            ModelStep::ClientReads => self.unsent = UnsentReplies::Nothing,
            ModelStep::Limit(max_open) => self.scheduler.set_max_open(max_open),
            ModelStep::Drain => {
                // The message wakes the sentinel, which receives it.
                self.wake_sentinel();
                self.scheduler.end_reading();
            }
        }
        self.execute_wakes();
        self.check();
    }

    fn execute_wakes(&mut self) {
        let Wakes { prompt, patient, sentinel } = self.scheduler.take_wakes();
        self.notified.prompt += prompt;
        self.notified.patient += patient;
        self.bell |= sentinel;
    }

    fn wake_sentinel(&mut self) {
        if self.sentinel == SentinelState::Asleep {
            (self.sentinel, self.bell) = (SentinelState::Awake, false);
            self.scheduler.note_sentinel_awake();
        }
    }

    fn run_thread(&mut self, index: usize, is_spurious: bool) {
        let (role, doing) = &mut self.threads[index];
        let role = *role;
        if is_spurious && !matches!(doing, ThreadState::Parked) {
            return;
        }
        self.threads[index].1 = match std::mem::replace(doing, ThreadState::Ready) {
            ThreadState::Ready => self.ask(role),
            ThreadState::Parked => {
                let is_notified = self.notified.of(role) > 0;
                *self.notified.of_mut(role) -= usize::from(is_notified);
                let wakes = (is_notified || is_spurious) && self.scheduler.unpark(role);
                if wakes { ThreadState::Ready } else { ThreadState::Parked }
            }
            ThreadState::Running { number, cost, invited } => {
                invited.iter().for_each(|work| self.scheduler.dismiss(work));
                if self.scheduler.finish(number, cost, role).send_reply {
                    self.answer(number);
                }
                ThreadState::Ready
            }
            ThreadState::Helping(work) => {
                let wants_more = self.scheduler.long_waits();
                self.scheduler.end_help(&work, wants_more);
                ThreadState::Ready
            }
            ThreadState::Leading => self.lead(),
            ThreadState::Asking(jobs) => {
                self.submit(jobs, SubmittedBy::Thread);
                ThreadState::Ready
            }
            ThreadState::AwaitingSpace if self.unsent == UnsentReplies::Full => ThreadState::AwaitingSpace,
            ThreadState::AwaitingSpace => ThreadState::Ready,
        };
    }

    fn ask(&mut self, role: Role) -> ThreadState {
        match self.scheduler.next_action(role, self.unsent) {
            NextAction::Run(job) => ThreadState::Running { number: job.number, cost: job.cost, invited: None },
            NextAction::Help(work) => ThreadState::Helping(work),
            NextAction::AwaitSpace => ThreadState::AwaitingSpace,
            NextAction::Lead => ThreadState::Leading,
            NextAction::Park => ThreadState::Parked,
            NextAction::End => {
                self.end();
                ThreadState::Parked
            }
        }
    }

    fn end(&mut self) {
        assert!(self.answers.iter().all(|answers| *answers == 1), "the process ends with an unanswered call");
        self.ends += 1;
    }

    fn lead(&mut self) -> ThreadState {
        if self.sent.is_empty() {
            return ThreadState::Leading;
        }
        let jobs = self.read();
        self.scheduler.stop_leading(!jobs.is_empty());
        if jobs.is_empty() && self.unsent != UnsentReplies::Nothing {
            self.scheduler.leave_unsent();
        }
        if jobs.is_empty() { ThreadState::Ready } else { ThreadState::Asking(jobs) }
    }

    fn read(&mut self) -> Vec<Job<()>> {
        let mut jobs = Vec::new();
        while self.unsent != UnsentReplies::Full
            && !self.scheduler.is_ending()
            && let Some(message) = self.sent.pop_front()
        {
            match message {
                ModelMessage::Call { id, cost, timeout_ms } => {
                    if !self.scheduler.admits_call() {
                        self.sent.push_front(ModelMessage::Call { id, cost, timeout_ms });
                        break;
                    }
                    jobs.extend(self.open(id, cost, timeout_ms));
                }
                ModelMessage::Cancel { id } => self.cancel(&Id::Integer(id)),
                ModelMessage::Invalid => self.unsent = UnsentReplies::Full,
                ModelMessage::EndOfStream => self.scheduler.end_reading(),
            }
        }
        jobs
    }

    fn open(&mut self, id: i64, cost: Cost, timeout_ms: u64) -> Option<Job<()>> {
        let (deadline, key) = (self.now + Duration::from_millis(timeout_ms), Id::Integer(id));
        assert!(self.scheduler.calls.len() < self.scheduler.max_open, "more calls than may be in flight");
        let number = self.scheduler.open(&key, deadline, Arc::default())?;
        self.numbers.push((id, number));
        self.answers.push(0);
        assert_eq!(self.answers.len() as u64, number);
        Some(Job { number, id: key, cost, deadline, work: () })
    }

    fn cancel(&mut self, id: &Id) {
        if let Some(cancelled) = self.scheduler.cancel(id) {
            cancelled.unrun.into_iter().for_each(|job| self.refuse(&job));
        }
    }

    fn submit(&mut self, jobs: Vec<Job<()>>, by: SubmittedBy) {
        let unrun = self.scheduler.submit(self.now, jobs, by);
        unrun.iter().for_each(|job| self.refuse(job));
    }

    fn refuse(&mut self, job: &Job<()>) {
        if self.scheduler.refuse(job.number) {
            self.answer(job.number);
        }
    }

    fn answer(&mut self, number: u64) {
        self.answers[number as usize - 1] += 1;
        self.unsent = UnsentReplies::Some;
    }

    fn invite(&mut self, index: usize) {
        if let ThreadState::Running { cost: Cost::Long, invited, .. } = &mut self.threads[index].1
            && invited.is_none()
        {
            let work = Arc::new(());
            *invited = Some(work.clone());
            self.scheduler.invite(work);
        }
    }

    fn run_sentinel(&mut self) {
        match self.sentinel {
            SentinelState::Asleep if self.bell => self.wake_sentinel(),
            SentinelState::Asleep => {}
            SentinelState::Awake => self.tick(),
            SentinelState::StandsIn if self.scheduler.relieve_sentinel() => self.sentinel = SentinelState::Awake,
            SentinelState::StandsIn => {
                if self.scheduler.takes_frames(self.unsent) {
                    let jobs = self.read();
                    self.submit(jobs, SubmittedBy::Sentinel);
                }
                let overdue = self.scheduler.take_overdue(self.now);
                self.answer_overdue(overdue);
            }
        }
    }

    fn tick(&mut self) {
        if self.scheduler.take_end() {
            return self.end();
        }
        let is_unchanged = self.scheduler.departures == self.scheduler.departures_at_tick;
        let tick = self.scheduler.tick(self.now, self.unsent);
        for role in Role::ALL {
            let is_woken = self.scheduler.woken.of(role) > 0 || self.scheduler.parked.of(role) == 0;
            assert!(is_woken || !self.scheduler.has_waiting(role), "no {role:?} thread runs the call that waits");
        }
        let is_missed = !self.scheduler.is_led && self.scheduler.takes_frames(self.unsent);
        assert!(!is_missed || !is_unchanged || self.scheduler.woken.prompt > 0, "nobody will read");
        if tick.sentinel_leads {
            self.sentinel = SentinelState::StandsIn;
        } else if tick.rest == SentinelRest::Sleep {
            self.sentinel = SentinelState::Asleep;
        }
        self.answer_overdue(tick.overdue);
    }

    fn answer_overdue(&mut self, overdue: OverdueCalls<()>) {
        for id in overdue.stuck {
            let (_, number) = *self.numbers.iter().rfind(|(known, _)| Id::Integer(*known) == id).unwrap();
            self.answer(number);
        }
        overdue.expired.iter().for_each(|job| self.refuse(job));
    }

    fn check(&self) {
        let scheduler = &self.scheduler;
        let count = |wanted: &dyn Fn(&(Role, ThreadState)) -> bool| self.threads.iter().filter(|t| wanted(t)).count();
        let at_long_calls = count(&|(_, doing)| {
            matches!(doing, ThreadState::Helping(_) | ThreadState::Running { cost: Cost::Long, .. })
        });
        assert_eq!(at_long_calls, scheduler.running_long);
        let kept = self.threads.len().saturating_sub(1).min(2);
        assert!(self.threads.len() - at_long_calls >= kept, "long calls occupy the threads for short ones");
        let leaders = count(&|(_, doing)| matches!(doing, ThreadState::Leading))
            + usize::from(self.sentinel == SentinelState::StandsIn);
        assert_eq!(leaders, usize::from(scheduler.is_led), "one leader at most, and it is known");
        for role in Role::ALL {
            let parked = count(&|(other, doing)| *other == role && matches!(doing, ThreadState::Parked));
            assert!(parked >= scheduler.parked.of(role) && scheduler.parked.of(role) >= scheduler.woken.of(role));
            assert!(self.notified.of(role) >= scheduler.woken.of(role) || parked == 0, "a wake-up is lost");
        }
        assert!(self.answers.iter().all(|answers| *answers <= 1), "a call is answered twice");
        assert!(self.ends <= 1, "the process ends twice");
        self.check_wake_ups(count(&|(role, doing)| *role == Role::Prompt && matches!(doing, ThreadState::Ready)));
    }

    /// Checks that no event that needs a thread waits for the next tick, and that there will be a next tick if one is needed.
    fn check_wake_ups(&self, ready_prompt: usize) {
        let scheduler = &self.scheduler;
        let idle = scheduler.parked.patient - scheduler.woken.patient;
        let some_ready = self.threads.iter().any(|(_, doing)| matches!(doing, ThreadState::Ready));
        assert!(
            idle == 0 || scheduler.woken.patient > 0 || some_ready || !scheduler.may_take_long(Role::Patient),
            "nobody runs a long call"
        );
        let will_tick = self.sentinel != SentinelState::Asleep || self.bell;
        let is_reading = scheduler.is_led || ready_prompt > 0 || scheduler.is_ending;
        assert!(will_tick || scheduler.calls.len() == 0, "the sentinel sleeps although a call is open");
        assert!(will_tick || is_reading, "the sentinel sleeps although nobody reads");
        let ends = scheduler.is_ending && scheduler.calls.len() == 0 && self.ends == 0;
        let some_woken = scheduler.woken.prompt + scheduler.woken.patient > 0;
        assert!(!ends || will_tick || some_ready || some_woken, "nobody ends the process");
    }

    /// Lets every thread continue, every call end, and the client read. Returns true once `is_done`.
    fn settle(&mut self, is_done: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..MAX_ROUNDS {
            if is_done(self) {
                return true;
            }
            self.step(ModelStep::ClientReads);
            self.step(ModelStep::Sentinel);
            // Threads are faster than ticks.
            for index in 0..4 * self.threads.len() {
                self.step(ModelStep::Thread(index));
            }
        }
        false
    }
}

impl<T, H: ?Sized> Scheduler<T, H> {
    /// The process has ended, and a thread that is left ends now. For tests of threads, which have to end one by one.
    pub fn end_next_thread(&mut self) {
        self.has_ended = false;
        self.end_reading();
    }
}

proptest! {
    #[test]
    fn every_call_is_answered_once_and_no_thread_oversleeps(
        threads in 1..8usize,
        max_open in 1..6usize,
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let mut world = ModelWorld::new(threads, max_open);
        for step in steps {
            world.step(step);
            if world.ends > 0 {
                return Ok(());
            }
        }
        let answered = |world: &ModelWorld| world.answers.iter().all(|answers| *answers == 1);
        let is_at_rest = |world: &ModelWorld| {
            world.ends > 0 || (answered(world) && world.sent.is_empty() && world.sentinel == SentinelState::Asleep)
        };
        prop_assert!(world.settle(is_at_rest), "something waits for ever: {world:?}");
        if world.ends == 0 {
            world.step(ModelStep::Drain);
        }
        prop_assert!(world.settle(|world| world.ends == 1), "the process does not end: {world:?}");
        prop_assert!(answered(&world));
    }
}
