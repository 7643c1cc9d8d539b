//! The calls of one connection: which are open, which wait for a thread, which are past their deadline. Part of the
//! scheduler and as pure; decides nothing about threads.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use super::actions::{CancelledCall, Job, OverdueCalls};
use crate::wire::{envelope::Id, function::Cost};

/// A call that runs this long past its deadline blocks in a system call: the sentinel answers for it.
const STUCK_AFTER: Duration = Duration::from_millis(250);
/// A pong counts calls that run this long past their deadline; a little less than the supervisor's own grace.
const OVERDUE_AFTER: Duration = Duration::from_secs(4);

#[derive(Debug)]
struct OpenCall {
    number: u64,
    id: Id,
    deadline: Instant,
    flag: Arc<AtomicBool>,
    cancelled: bool,
    /// The call waits for a thread. Otherwise a thread prepares or runs it, and the kernel may block that thread.
    queued: bool,
}

#[derive(Debug)]
pub(super) struct Calls<T> {
    pub(super) short: VecDeque<Job<T>>,
    pub(super) long: VecDeque<Job<T>>,
    /// In the order of their numbers. They are few, so a search costs less than hashing.
    open: Vec<OpenCall>,
    /// Calls that the sentinel has answered for and that still run: number and deadline.
    stuck: Vec<(u64, Instant)>,
    next_number: u64,
}

/// How many jobs of each cost were queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueuedCounts {
    pub(super) short: usize,
    pub(super) long: usize,
}

impl<T> Calls<T> {
    pub(super) fn new() -> Self {
        let (short, long) = (VecDeque::new(), VecDeque::new());
        Self { short, long, open: Vec::new(), stuck: Vec::new(), next_number: 1 }
    }

    /// Calls in flight: stuck ones still occupy a thread.
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.stuck.len()
    }

    pub(super) fn open(&mut self, id: &Id, deadline: Instant, flag: Arc<AtomicBool>) -> Option<u64> {
        if self.open.iter().any(|open| open.id == *id) {
            return None;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.open.push(OpenCall { number, id: id.clone(), deadline, flag, cancelled: false, queued: false });
        Some(number)
    }

    fn position_of(&self, number: u64) -> Option<usize> {
        self.open.binary_search_by_key(&number, |open| open.number).ok()
    }

    /// False if the sentinel has already answered for the call.
    pub(super) fn close(&mut self, number: u64) -> bool {
        if let Some(place) = self.position_of(number) {
            self.open.remove(place);
            return true;
        }
        self.stuck.retain(|(stuck, _)| *stuck != number);
        false
    }

    /// Adds jobs to the queues. Returns those that were cancelled or whose deadline has passed: no thread may be free to
    /// answer them.
    pub(super) fn queue(&mut self, now: Instant, jobs: Vec<Job<T>>) -> (QueuedCounts, Vec<Job<T>>) {
        let (mut queued, mut unrun) = (QueuedCounts::default(), Vec::new());
        for job in jobs {
            let wanted = |open: &&mut OpenCall| !open.cancelled && now < open.deadline;
            let Some(open) = self.position_of(job.number).map(|place| &mut self.open[place]).filter(wanted) else {
                unrun.push(job);
                continue;
            };
            open.queued = true;
            let (queue, count) = match job.cost {
                Cost::Short => (&mut self.short, &mut queued.short),
                Cost::Long => (&mut self.long, &mut queued.long),
            };
            queue.push_back(job);
            *count += 1;
        }
        (queued, unrun)
    }

    pub(super) fn take(&mut self, cost: Cost) -> Option<Job<T>> {
        let job = match cost {
            Cost::Short => self.short.pop_front()?,
            Cost::Long => self.long.pop_front()?,
        };
        if let Some(place) = self.position_of(job.number) {
            self.open[place].queued = false;
        }
        Some(job)
    }

    pub(super) fn cancel(&mut self, id: &Id) -> Option<CancelledCall<T>> {
        let open = self.open.iter_mut().find(|open| open.id == *id)?;
        open.cancelled = true;
        open.queued = false;
        let (number, flag) = (open.number, open.flag.clone());
        let mut queues = [&mut self.short, &mut self.long].into_iter();
        let unrun = queues
            .find_map(|queue| queue.iter().position(|job| job.number == number).and_then(|place| queue.remove(place)));
        Some(CancelledCall { flag, unrun })
    }

    pub(super) fn cancel_all(&mut self) -> Vec<Arc<AtomicBool>> {
        self.open.iter_mut().for_each(|open| open.cancelled = true);
        self.open.iter().map(|open| open.flag.clone()).collect()
    }

    /// Takes queued calls and marks running ones as stuck, if they are past their deadline.
    pub(super) fn take_overdue(&mut self, now: Instant) -> OverdueCalls<T> {
        let is_late = |deadline: Instant| now > deadline + STUCK_AFTER;
        let mut late = Vec::new();
        if !self.open.iter().any(|open| is_late(open.deadline)) {
            return OverdueCalls { stuck: Vec::new(), expired: late };
        }
        let is_stuck = |open: &mut OpenCall| !open.queued && is_late(open.deadline);
        let stuck: Vec<OpenCall> = self.open.extract_if(.., is_stuck).collect();
        self.stuck.extend(stuck.iter().map(|open| (open.number, open.deadline)));
        for queue in [&mut self.short, &mut self.long] {
            let (gone, kept) =
                std::mem::take(queue).into_iter().partition::<VecDeque<_>, _>(|job| is_late(job.deadline));
            *queue = kept;
            late.extend(gone);
        }
        let taken = self.open.iter_mut().filter(|open| is_late(open.deadline));
        taken.for_each(|open| open.queued = false);
        OverdueCalls { stuck: stuck.into_iter().map(|open| open.id).collect(), expired: late }
    }

    pub(super) fn overdue(&self, now: Instant) -> (u32, u32) {
        let running = self.open.iter().filter(|open| !open.queued).map(|open| open.deadline);
        let stuck = self.stuck.iter().map(|(_, deadline)| *deadline);
        let overdue = running.chain(stuck.clone()).filter(|deadline| now > *deadline + OVERDUE_AFTER).count();
        let deadlines = self.open.iter().map(|open| open.deadline).chain(stuck);
        let next = deadlines.map(|deadline| deadline.saturating_duration_since(now).as_millis().max(1)).min();
        (overdue as u32, next.map_or(0, |next| u32::try_from(next).unwrap_or(u32::MAX)))
    }
}
