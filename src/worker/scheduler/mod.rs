//! Decides what each thread of a worker does next: which call it runs, which thread leads (reads frames), who helps a
//! long call, and which threads have to be woken. A state machine: every method is an event and returns the actions that
//! the caller executes. It does no I/O, takes no lock, reads no clock and starts no thread, so tests can drive it through
//! any order of events.
//! Runs in the worker, inside of the lock in `threads`. Trusts its callers; the client decides only how many calls there
//! are, with which costs, deadlines and ids. Never imports another part of the worker.

mod actions;
mod calls;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

pub use actions::{
    CancelledCall, FinishedCall, Job, NextAction, OverdueCalls, Role, SentinelRest, SubmittedBy, TickActions,
    UnsentReplies, Wakes,
};
use calls::Calls;

use crate::wire::{envelope::Id, function::Cost};

/// Quiet ticks before the sentinel sleeps: a client that calls again soon does not pay for waking it.
const QUIET_TICKS: u32 = 20;

#[derive(Debug, Default, Clone, Copy)]
struct PerRole {
    prompt: usize,
    patient: usize,
}

impl PerRole {
    fn of(&self, role: Role) -> usize {
        match role {
            Role::Prompt => self.prompt,
            Role::Patient => self.patient,
        }
    }

    fn of_mut(&mut self, role: Role) -> &mut usize {
        match role {
            Role::Prompt => &mut self.prompt,
            Role::Patient => &mut self.patient,
        }
    }
}

/// `T` is what a thread needs to run a call, `H` is work that several threads can do together.
#[derive(Debug)]
pub struct Scheduler<T, H: ?Sized> {
    calls: Calls<T>,
    /// Threads that run long calls or help with them.
    running_long: usize,
    max_long: usize,
    /// The limit of calls in flight. It changes with the policy.
    max_open: usize,
    /// Work of long calls that could use more threads.
    invitations: VecDeque<Arc<H>>,
    /// Threads that wait for a wake-up, including the woken ones that have not run since.
    parked: PerRole,
    /// Parked threads that were woken. They are counted, so that no wake-up is lost and none is given twice.
    woken: PerRole,
    /// A prompt thread or the sentinel reads frames.
    is_led: bool,
    /// Times that a leader left with calls to run or with replies that the client did not take.
    departures: u64,
    departures_at_tick: u64,
    /// A call was read while `max_open` calls were open. It waits in the reader until another call ends.
    parked_at_limit: bool,
    /// Nothing new is read.
    is_ending: bool,
    has_ended: bool,
    quiet_ticks: u32,
    sentinel_sleeps: bool,
    wakes: Wakes,
}

impl<T, H: ?Sized> Scheduler<T, H> {
    pub fn new(threads: usize, max_open: usize) -> Self {
        Self {
            calls: Calls::new(),
            running_long: 0,
            max_long: actions::max_long(threads),
            max_open,
            invitations: VecDeque::new(),
            parked: PerRole::default(),
            woken: PerRole::default(),
            is_led: false,
            departures: 0,
            departures_at_tick: 0,
            parked_at_limit: false,
            is_ending: false,
            has_ended: false,
            quiet_ticks: 0,
            sentinel_sleeps: false,
            wakes: Wakes::default(),
        }
    }

    /// The wake-ups that the events since the last call have ordered.
    pub fn take_wakes(&mut self) -> Wakes {
        std::mem::take(&mut self.wakes)
    }

    /// Helpers should leave their work: a long call waits for a thread.
    pub fn long_waits(&self) -> bool {
        !self.calls.long.is_empty()
    }

    /// Threads that may help one long call.
    pub fn max_helpers(&self) -> usize {
        self.max_long - 1
    }
}

/// Events of pool threads.
impl<T, H: ?Sized> Scheduler<T, H> {
    /// A thread has nothing to do. After `Park` it counts as parked.
    pub fn next_action(&mut self, role: Role, unsent: UnsentReplies) -> NextAction<T, H> {
        let next = self.decide(role, unsent);
        if matches!(next, NextAction::Park) {
            *self.parked.of_mut(role) += 1;
        }
        self.order_wakes(0);
        next
    }

    fn decide(&mut self, role: Role, unsent: UnsentReplies) -> NextAction<T, H> {
        if self.has_waiting(role) {
            if unsent == UnsentReplies::Full {
                return NextAction::AwaitSpace;
            }
            return self.take_call(role).map_or(NextAction::Park, NextAction::Run);
        }
        if role == Role::Patient
            && let Some(work) = self.take_help()
        {
            return NextAction::Help(work);
        }
        if self.take_end() {
            return NextAction::End;
        }
        if role == Role::Prompt && !self.is_led && self.takes_frames(unsent) {
            self.is_led = true;
            return NextAction::Lead;
        }
        NextAction::Park
    }

    /// A parked thread was notified. False if no wake-up was meant for it: it stays parked.
    pub fn unpark(&mut self, role: Role) -> bool {
        if self.woken.of(role) == 0 {
            return false;
        }
        *self.woken.of_mut(role) -= 1;
        *self.parked.of_mut(role) -= 1;
        true
    }

    /// Orders the wake-ups of at most `count` threads that are parked and not woken yet.
    fn wake(&mut self, role: Role, count: usize) {
        let count = count.min(self.parked.of(role) - self.woken.of(role));
        *self.woken.of_mut(role) += count;
        match role {
            Role::Prompt => self.wakes.prompt += count,
            Role::Patient => self.wakes.patient += count,
        }
    }

    /// Wakes patient threads for long calls and for work that wants help, and a prompt thread to read on once the limit of
    /// calls in flight permits it. The thread that has submitted `promised` long calls runs them itself. Nobody is woken
    /// for a short call: the thread that has read it runs it sooner than another one wakes up, and the next tick wakes one if
    /// that thread is busy.
    fn order_wakes(&mut self, promised: usize) {
        let free = self.max_long - self.running_long;
        let useful = if self.long_waits() {
            self.calls.long.len().min(free).saturating_sub(promised)
        } else if self.invitations.is_empty() {
            0
        } else {
            free
        };
        self.wake(Role::Patient, useful.saturating_sub(self.woken.patient));
        let may_read_on = self.parked_at_limit && !self.is_full() && !self.is_led && !self.is_ending;
        if may_read_on && self.woken.prompt == 0 {
            self.wake(Role::Prompt, 1);
        }
    }

    fn take_call(&mut self, role: Role) -> Option<Job<T>> {
        if self.may_take_short(role) {
            return self.calls.take(Cost::Short);
        }
        let job = self.calls.take(Cost::Long)?;
        self.running_long += 1;
        Some(job)
    }

    /// Whether a call waits that a thread of this role may run.
    fn has_waiting(&self, role: Role) -> bool {
        self.may_take_short(role) || self.may_take_long(role)
    }

    /// Patient threads run short calls only while no prompt thread is idle: the kernel may block all prompt threads.
    fn may_take_short(&self, role: Role) -> bool {
        !self.calls.short.is_empty() && (role == Role::Prompt || self.parked.prompt == 0)
    }

    /// A lone long call runs on the prompt thread that has read it, so that it does not change threads.
    fn may_take_long(&self, role: Role) -> bool {
        // Patient threads may all be blocked in short calls.
        let has_no_other = self.calls.long.len() == 1 || self.parked.patient == 0;
        self.long_waits()
            && self.running_long < self.max_long
            && (role == Role::Patient || (self.running_long == 0 && has_no_other))
    }

    /// A thread of this role has run a call.
    pub fn finish(&mut self, number: u64, cost: Cost, role: Role) -> FinishedCall {
        if cost == Cost::Long {
            self.running_long -= 1;
        }
        let send_reply = self.calls.close(number);
        self.order_wakes(0);
        FinishedCall { send_reply, has_more: self.has_waiting(role) }
    }

    /// A long call could use more threads.
    pub fn invite(&mut self, work: Arc<H>) {
        self.invitations.push_back(work);
        self.order_wakes(0);
    }

    /// No new helpers come to this work.
    pub fn dismiss(&mut self, work: &Arc<H>) {
        self.invitations.retain(|invited| !Arc::ptr_eq(invited, work));
    }

    /// Helpers come only after every long call has a thread, and never from the threads that are kept for short calls.
    fn take_help(&mut self) -> Option<Arc<H>> {
        if self.long_waits() || self.running_long >= self.max_long {
            return None;
        }
        let work = self.invitations.pop_front()?;
        // At the back again: several long calls share the helpers.
        self.invitations.push_back(work.clone());
        self.running_long += 1;
        Some(work)
    }

    /// A helper has left its work.
    pub fn end_help(&mut self, work: &Arc<H>, wants_more: bool) {
        self.running_long -= 1;
        if !wants_more {
            self.dismiss(work);
        }
        self.order_wakes(0);
    }
}

/// Events of the leader, of the calls that it reads and of their client.
impl<T, H: ?Sized> Scheduler<T, H> {
    /// Whether another frame may be read: no call is parked at the limit, and the client reads its replies.
    pub fn takes_frames(&self, unsent: UnsentReplies) -> bool {
        let is_held_up = self.is_full() && self.parked_at_limit;
        !self.is_ending && !is_held_up && unsent != UnsentReplies::Full
    }

    /// A call was read. False if it has to wait in the reader until another call ends.
    pub fn admits_call(&mut self) -> bool {
        self.parked_at_limit = self.is_full();
        !self.parked_at_limit
    }

    fn is_full(&self) -> bool {
        self.calls.len() >= self.max_open
    }

    /// Returns the number of a new call. `None` while a call with this id is open.
    pub fn open(&mut self, id: &Id, deadline: Instant, flag: Arc<AtomicBool>) -> Option<u64> {
        self.calls.open(id, deadline, flag)
    }

    /// Closes a call that never ran. True if its error is to be sent: the sentinel has not answered for it.
    pub fn refuse(&mut self, number: u64) -> bool {
        let send = self.calls.close(number);
        self.order_wakes(0);
        send
    }

    /// The leader stops reading, with or without calls to run.
    pub fn stop_leading(&mut self, has_calls: bool) {
        self.is_led = false;
        if has_calls {
            self.depart();
        }
        self.order_wakes(0);
    }

    /// The client did not take all replies at once. The sentinel offers them again.
    pub fn leave_unsent(&mut self) {
        self.depart();
    }

    fn depart(&mut self) {
        self.departures += 1;
        self.wakes.sentinel |= std::mem::take(&mut self.sentinel_sleeps);
    }

    /// Calls that were read wait for threads from now on. Returns those that never run, because a later line has cancelled
    /// them or their deadline has passed. They are to be closed with `refuse`.
    pub fn submit(&mut self, now: Instant, jobs: Vec<Job<T>>, by: SubmittedBy) -> Vec<Job<T>> {
        let (queued, unrun) = self.calls.queue(now, jobs);
        let is_lone = queued.short == 0 && queued.long == 1 && self.may_take_long(Role::Prompt);
        let runs_it = by == SubmittedBy::Thread && is_lone;
        self.order_wakes(usize::from(runs_it));
        if by == SubmittedBy::Sentinel {
            self.wake_for_waiting();
        }
        unrun
    }

    /// The client cancels a call. `None` if no call with this id is open.
    pub fn cancel(&mut self, id: &Id) -> Option<CancelledCall<T>> {
        let cancelled = self.calls.cancel(id);
        self.order_wakes(0);
        cancelled
    }

    /// The client has hung up. Every returned flag is to be set.
    pub fn cancel_all(&mut self) -> Vec<Arc<AtomicBool>> {
        self.calls.cancel_all()
    }

    /// The limit of calls in flight has changed.
    pub fn set_max_open(&mut self, max_open: usize) {
        self.max_open = max_open;
        self.order_wakes(0);
    }

    /// Nothing new is read from now on.
    pub fn end_reading(&mut self) {
        self.is_ending = true;
        for role in Role::ALL {
            self.wake(role, usize::MAX);
        }
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// True once: after `end_reading`, when every call has ended.
    pub fn take_end(&mut self) -> bool {
        let ends = self.is_ending && self.calls.len() == 0 && !self.has_ended;
        self.has_ended |= ends;
        ends
    }
}

/// Events of the sentinel.
impl<T, H: ?Sized> Scheduler<T, H> {
    /// Finds calls past their deadlines, waiting calls that no awake thread has taken since the last tick, and frames that
    /// nobody reads.
    pub fn tick(&mut self, now: Instant, unsent: UnsentReplies) -> TickActions<T> {
        let overdue = self.take_overdue(now);
        let is_missed = !self.is_led && self.takes_frames(unsent);
        let is_unchanged = self.departures == self.departures_at_tick;
        self.departures_at_tick = self.departures;
        let stand_in = is_missed && is_unchanged && self.replace_leader();
        let is_quiet = is_unchanged && !is_missed && self.calls.len() == 0;
        TickActions { overdue, sentinel_leads: stand_in, rest: self.decide_rest(is_quiet, unsent) }
    }

    /// The part of `tick` that a sentinel needs while it leads.
    pub fn take_overdue(&mut self, now: Instant) -> OverdueCalls<T> {
        let overdue = self.calls.take_overdue(now);
        self.order_wakes(0);
        self.wake_for_waiting();
        overdue
    }

    fn wake_for_waiting(&mut self) {
        for role in Role::ALL {
            if self.has_waiting(role) && self.woken.of(role) == 0 {
                self.wake(role, 1);
            }
        }
    }

    /// Wakes a prompt thread to lead. True if all of them are busy: then the sentinel leads.
    fn replace_leader(&mut self) -> bool {
        if self.parked.prompt == 0 {
            self.is_led = true;
        } else if self.woken.prompt == 0 {
            self.wake(Role::Prompt, 1);
        }
        self.is_led
    }

    /// True if the sentinel stops leading, because a prompt thread is idle or nothing more is read.
    pub fn relieve_sentinel(&mut self) -> bool {
        let is_relieved = self.parked.prompt > 0 || self.is_ending;
        if is_relieved {
            self.is_led = false;
            self.wake(Role::Prompt, 1);
        }
        is_relieved
    }

    fn decide_rest(&mut self, is_quiet: bool, unsent: UnsentReplies) -> SentinelRest {
        self.quiet_ticks = if is_quiet { self.quiet_ticks + 1 } else { 0 };
        if self.quiet_ticks < QUIET_TICKS {
            return SentinelRest::Short;
        }
        if unsent != UnsentReplies::Nothing {
            return SentinelRest::Unread;
        }
        self.quiet_ticks = 0;
        self.sentinel_sleeps = true;
        SentinelRest::Sleep
    }

    pub fn note_sentinel_awake(&mut self) {
        self.sentinel_sleeps = false;
    }

    /// For a pong: the number of calls that are long overdue, and the milliseconds until the next deadline (0 = none).
    pub fn overdue(&self, now: Instant) -> (u32, u32) {
        self.calls.overdue(now)
    }
}
