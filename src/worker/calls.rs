//! The calls of one connection: which are open, which wait for a thread, which are overdue.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::dispatch::Prepared;
use crate::{
    jail::{Call, Work},
    wire::{envelope::Id, function::Cost},
};

/// Threads that are kept for short calls.
const PROMPT_THREADS: usize = 2;
/// A call that has not ended this long after its deadline sits in a system call: the sentinel answers for it.
const STUCK_AFTER: Duration = Duration::from_millis(250);
/// What a ping of the supervisor counts as overdue; a little less than its own grace.
const OVERDUE_AFTER: Duration = Duration::from_secs(4);

/// What a thread is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads frames and runs short calls; a long one while it is the only one, or while nobody else can.
    Prompt,
    /// Runs long calls and helps with them. The scheduler prefers all others to it, also those of other connections: whoever
    /// has many long calls waits for them, and nobody else.
    Patient,
}

impl Role {
    /// Of each of so many threads.
    pub fn of_threads(threads: usize) -> impl Iterator<Item = Self> {
        let patient = patient_threads(threads);
        (0..threads).map(move |index| if index < patient { Self::Patient } else { Self::Prompt })
    }
}

fn patient_threads(threads: usize) -> usize {
    most_long(threads).min(threads.saturating_sub(1))
}

fn most_long(threads: usize) -> usize {
    threads.saturating_sub(PROMPT_THREADS).max(1)
}

/// A call that waits for a thread.
pub struct Job {
    pub number: u64,
    pub id: Id,
    pub cost: Cost,
    pub may_ask_early: bool,
    pub call: Call,
    pub prepared: Prepared,
}

#[derive(Debug)]
struct Open {
    number: u64,
    id: Id,
    deadline: Instant,
    cancelled: Arc<AtomicBool>,
    /// A thread asks for it or runs it, so that the kernel may hold it. False while it waits for a thread.
    running: bool,
}

#[derive(Debug, Default)]
pub struct Idle {
    pub prompt: usize,
    pub patient: usize,
}

impl Idle {
    pub fn of(&self, role: Role) -> usize {
        match role {
            Role::Prompt => self.prompt,
            Role::Patient => self.patient,
        }
    }

    pub fn of_mut(&mut self, role: Role) -> &mut usize {
        match role {
            Role::Prompt => &mut self.prompt,
            Role::Patient => &mut self.patient,
        }
    }
}

pub struct Calls {
    short: VecDeque<Job>,
    long: VecDeque<Job>,
    /// Threads at long calls, helpers included.
    running_long: usize,
    most_long: usize,
    /// Changes with the limits.
    pub most_open: usize,
    /// Long calls that could use more threads.
    invitations: VecDeque<Arc<dyn Work>>,
    /// A long call waits, so that helpers know without the lock.
    pub long_waits: Arc<AtomicBool>,
    /// In the order of their numbers. They are few: nothing is hashed for a call.
    open: Vec<Open>,
    /// Answered for by the sentinel, still running: number and deadline.
    stuck: Vec<(u64, Instant)>,
    next_number: u64,
    /// Threads that wait for work.
    pub idle: Idle,
    /// A call was read and waits until another ends.
    pub one_has_no_place: bool,
    /// Nothing new is read any more.
    pub ending: bool,
}

impl Calls {
    pub fn new(threads: usize, most_open: usize) -> Self {
        Self {
            short: VecDeque::new(),
            long: VecDeque::new(),
            running_long: 0,
            most_long: most_long(threads),
            invitations: VecDeque::new(),
            long_waits: Arc::default(),
            most_open,
            open: Vec::new(),
            stuck: Vec::new(),
            next_number: 1,
            idle: Idle::default(),
            one_has_no_place: false,
            ending: false,
        }
    }

    /// A number for a new call; `None` while one with this id is open.
    pub fn open(&mut self, id: &Id, deadline: Instant, cancelled: Arc<AtomicBool>) -> Option<u64> {
        if self.with_id(id).is_some() {
            return None;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.open.push(Open { number, id: id.clone(), deadline, cancelled, running: true });
        Some(number)
    }

    fn with_id(&self, id: &Id) -> Option<&Open> {
        self.open.iter().find(|open| open.id == *id)
    }

    /// `None` once it was answered for.
    fn place_of(&self, number: u64) -> Option<usize> {
        self.open.binary_search_by_key(&number, |open| open.number).ok()
    }

    pub fn push(&mut self, job: Job) {
        self.set_running(job.number, false);
        match job.cost {
            Cost::Short => self.short.push_back(job),
            Cost::Long => self.long.push_back(job),
        }
        self.tell_helpers();
    }

    fn tell_helpers(&self) {
        self.long_waits.store(!self.long.is_empty(), Ordering::Relaxed);
    }

    pub fn take(&mut self, role: Role) -> Option<Job> {
        let job = if self.may_take_short(role) {
            self.short.pop_front()?
        } else if self.may_take_long(role) {
            let job = self.long.pop_front()?;
            self.running_long += 1;
            self.tell_helpers();
            job
        } else {
            return None;
        };
        self.set_running(job.number, true);
        Some(job)
    }

    /// Patient threads only where no other is left: the others may all be held by the kernel.
    fn may_take_short(&self, role: Role) -> bool {
        !self.short.is_empty() && (role == Role::Prompt || self.idle.prompt == 0)
    }

    /// Only while enough threads stay free for short ones. A lone call does not change threads.
    pub fn may_take_long(&self, role: Role) -> bool {
        // The patient threads may all be held at short ones.
        let has_no_other = self.long.len() == 1 || self.idle.patient == 0;
        !self.long.is_empty()
            && self.running_long < self.most_long
            && (role == Role::Patient || (self.running_long == 0 && has_no_other))
    }

    fn set_running(&mut self, number: u64, running: bool) {
        if let Some(place) = self.place_of(number) {
            self.open[place].running = running;
        }
    }

    /// Threads that may come to help one long call.
    pub fn most_helpers(&self) -> usize {
        self.most_long - 1
    }

    pub fn invite(&mut self, work: Arc<dyn Work>) {
        self.invitations.push_back(work);
    }

    pub fn dismiss(&mut self, work: &Arc<dyn Work>) {
        self.invitations.retain(|invited| !Arc::ptr_eq(invited, work));
    }

    /// A thread without work may help. Never with the threads that are kept for short calls, never before a long call
    /// that waits.
    pub fn wants_help(&self) -> bool {
        !self.invitations.is_empty() && self.long.is_empty() && self.running_long < self.most_long
    }

    pub fn take_help(&mut self) -> Option<Arc<dyn Work>> {
        if !self.wants_help() {
            return None;
        }
        let work = self.invitations.pop_front()?;
        // Behind the others: several long calls share the helpers there are.
        self.invitations.push_back(work.clone());
        self.running_long += 1;
        Some(work)
    }

    pub fn end_help(&mut self, work: &Arc<dyn Work>, wants_more: bool) {
        self.running_long -= 1;
        if !wants_more {
            self.dismiss(work);
        }
    }

    /// True if the reply is to be sent: nobody has answered for the call meanwhile.
    pub fn close(&mut self, number: u64, cost: Cost) -> bool {
        if cost == Cost::Long {
            self.running_long -= 1;
        }
        if self.take_from_stuck(number) {
            return false;
        }
        self.forget(number);
        true
    }

    /// For a call that is answered.
    pub fn forget(&mut self, number: u64) {
        if let Some(place) = self.place_of(number) {
            self.open.remove(place);
        }
    }

    /// Whether it was there.
    fn take_from_stuck(&mut self, number: u64) -> bool {
        let place = self.stuck.iter().position(|(stuck, _)| *stuck == number);
        place.map(|place| self.stuck.swap_remove(place)).is_some()
    }

    /// A call that no thread has taken never runs; it is to be answered.
    pub fn cancel(&mut self, id: &Id) -> Option<Job> {
        let open = self.with_id(id)?;
        open.cancelled.store(true, Ordering::Relaxed);
        let number = open.number;
        let queues = [&mut self.short, &mut self.long].into_iter();
        let job = queues.filter_map(|queue| take_from(queue, number)).next()?;
        self.forget(number);
        self.tell_helpers();
        Some(job)
    }

    pub fn cancel_all(&self) {
        for open in &self.open {
            open.cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// For one more call that was read.
    pub fn has_place(&mut self) -> bool {
        self.one_has_no_place = self.is_full();
        !self.one_has_no_place
    }

    pub fn is_full(&self) -> bool {
        self.open.len() + self.stuck.len() >= self.most_open
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.stuck.is_empty()
    }

    /// For a thread of this kind.
    pub fn has_waiting(&self, role: Role) -> bool {
        self.may_take_short(role) || self.may_take_long(role)
    }

    /// Calls that run on past their deadline; each is returned once.
    pub fn take_stuck(&mut self) -> Vec<Id> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let is_stuck = |open: &mut Open| open.running && now > open.deadline + STUCK_AFTER;
        let stuck: Vec<Open> = self.open.extract_if(.., is_stuck).collect();
        self.stuck.extend(stuck.iter().map(|open| (open.number, open.deadline)));
        stuck.into_iter().map(|open| open.id).collect()
    }

    /// Calls that no thread has taken by their deadline, perhaps because the kernel holds them all; they never run.
    /// Each is to be answered.
    pub fn take_late(&mut self) -> Vec<Job> {
        let now = Instant::now();
        let is_late = |job: &Job| now > job.call.caller().deadline + STUCK_AFTER;
        let mut late = Vec::new();
        for queue in [&mut self.short, &mut self.long] {
            if queue.iter().any(is_late) {
                let (gone, kept) = std::mem::take(queue).into_iter().partition::<VecDeque<_>, _>(is_late);
                *queue = kept;
                late.extend(gone);
            }
        }
        // Answered already: it was asked for when its deadline passed.
        late.retain(|job| !self.take_from_stuck(job.number));
        late.iter().for_each(|job| self.forget(job.number));
        self.tell_helpers();
        late
    }

    /// For a pong: how many calls are long overdue, and in how many milliseconds the next one will be due (0 = none).
    pub fn overdue(&self) -> (u32, u32) {
        let now = Instant::now();
        let running = self.open.iter().filter(|open| open.running).map(|open| open.deadline);
        let stuck = self.stuck.iter().map(|(_, deadline)| *deadline);
        let overdue = running.chain(stuck.clone()).filter(|deadline| now > *deadline + OVERDUE_AFTER).count();
        let deadlines = self.open.iter().map(|open| open.deadline).chain(stuck);
        let next = deadlines.map(|deadline| deadline.saturating_duration_since(now).as_millis().max(1)).min();
        (overdue as u32, next.map_or(0, |next| u32::try_from(next).unwrap_or(u32::MAX)))
    }
}

fn take_from(queue: &mut VecDeque<Job>, number: u64) -> Option<Job> {
    queue.iter().position(|job| job.number == number).and_then(|place| queue.remove(place))
}
