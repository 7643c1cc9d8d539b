//! The types of the scheduler's events and actions. See `scheduler`.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use crate::wire::{envelope::Id, function::Cost};

/// Threads that long calls never occupy.
const PROMPT_THREADS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads frames and runs short calls. Runs a long call only while no other long call runs, and only if that call is the
    /// only one that waits or no patient thread is idle.
    Prompt,
    /// Runs long calls and helps with them. Has a lower priority than the prompt threads of all connections, so a client with
    /// many long calls delays only itself. Runs short calls only while no prompt thread is idle.
    Patient,
}

impl Role {
    pub const ALL: [Self; 2] = [Self::Prompt, Self::Patient];

    /// The role of each of `threads` threads.
    pub fn of_threads(threads: usize) -> impl Iterator<Item = Self> {
        let patient = max_long(threads).min(threads.saturating_sub(1));
        (0..threads).map(move |index| if index < patient { Self::Patient } else { Self::Prompt })
    }
}

/// How many of `threads` threads long calls may occupy.
pub(super) fn max_long(threads: usize) -> usize {
    threads.saturating_sub(PROMPT_THREADS).max(1)
}

/// A call that is ready to run. `work` is what a thread needs to run it.
#[derive(Debug)]
pub struct Job<T> {
    pub number: u64,
    pub id: Id,
    pub cost: Cost,
    pub deadline: Instant,
    pub work: T,
}

/// The next action of a thread.
#[derive(Debug)]
pub enum NextAction<T, H: ?Sized> {
    /// Run this call, then report `finish`.
    Run(Job<T>),
    /// Help with this work, then report `end_help`.
    Help(Arc<H>),
    /// Wait until the client has read replies, then ask again. The call stays in its queue meanwhile: a call that waits for
    /// its client is not stuck.
    AwaitSpace,
    /// Read frames, then report `stop_leading`.
    Lead,
    /// Write all replies and end the process.
    End,
    /// Wait until `unpark` returns true, then ask again.
    Park,
}

/// Threads to notify after an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wakes {
    pub prompt: usize,
    pub patient: usize,
    pub sentinel: bool,
}

/// The next action after a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedCall {
    /// False if the sentinel has already answered for the call.
    pub send_reply: bool,
    /// Another call waits for this thread, so both replies can be written together.
    pub has_more: bool,
}

#[derive(Debug)]
pub struct CancelledCall<T> {
    /// To be set: the call checks it while it runs.
    pub flag: Arc<AtomicBool>,
    /// The call waited for a thread and never runs. To be closed with `refuse`.
    pub unrun: Option<Job<T>>,
}

/// Replies that the client has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsentReplies {
    Nothing,
    Some,
    /// So many that no further reply should be made.
    Full,
}

/// The role of the thread that submits calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmittedBy {
    /// A prompt thread, which asks for its next task at once.
    Thread,
    /// The sentinel, which runs no call.
    Sentinel,
}

/// Calls past their deadline.
#[derive(Debug)]
pub struct OverdueCalls<T> {
    /// Calls that still run. The sentinel answers for each of them, once.
    pub stuck: Vec<Id>,
    /// Calls that no thread has taken. They never run. To be closed with `refuse`.
    pub expired: Vec<Job<T>>,
}

/// The sentinel's actions after a tick.
#[derive(Debug)]
pub struct TickActions<T> {
    pub overdue: OverdueCalls<T>,
    /// The sentinel leads, because every prompt thread is busy. It asks `relieve_sentinel` regularly.
    pub sentinel_leads: bool,
    pub rest: SentinelRest,
}

/// How long the sentinel sleeps before the next tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentinelRest {
    Short,
    /// Longer: only unread replies are left to do.
    Unread,
    /// Until `Wakes::sentinel` or a message from the supervisor.
    Sleep,
}
