//! The thread that never runs a call. While the connection is busy it looks up every few milliseconds: is the leader
//! still away, does a call run on past its deadline, does a reply wait, does the supervisor say something? While nothing
//! happens it sleeps until it does.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{calls::Role, connection::Connection, reader::Reader};
use crate::{
    sys::{poll, wake::Wake},
    wire::{Code, Error, RpcError},
};

/// How long a second frame waits at most while the leader is away. Short against a person, long against a wake-up.
pub(super) const TICK: Duration = Duration::from_millis(5);
/// Quiet ticks before the sentinel lies down: a client that calls again soon does not pay for waking it.
const QUIET_TICKS: u32 = 20;
/// How often a client that has no call open is offered the replies it does not read.
const UNREAD_TICK: Duration = Duration::from_millis(50);

/// Sleep that costs a busy leader one atomic load.
#[derive(Debug)]
pub struct Sleeper {
    asleep: AtomicBool,
    wake: Wake,
}

impl Sleeper {
    pub fn new(wake: Wake) -> Self {
        Self { asleep: AtomicBool::new(false), wake }
    }

    pub fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.wake.ring();
        }
    }

    /// Until a thread or the supervisor has something to say.
    fn sleep(&self, channel: BorrowedFd<'_>, still_quiet: impl Fn() -> bool) {
        self.asleep.store(true, Ordering::SeqCst);
        // Looked at after the flag is up: a leader that came to life before it sees no flag, but we see its pulse.
        if still_quiet() && poll::wait_for_either(channel, self.wake.as_fd()).is_err() {
            std::process::exit(1);
        }
        self.asleep.store(false, Ordering::SeqCst);
        self.wake.silence();
    }
}

/// The main thread's life once a connection is there.
pub fn watch(connection: &'static Connection) {
    let mut last = connection.pulse.load(Ordering::Acquire);
    let mut quiet = 0;
    loop {
        let mut tick = TICK;
        if quiet >= QUIET_TICKS && connection.outbox.is_empty() {
            let still_quiet = || connection.pulse.load(Ordering::SeqCst) == last;
            connection.sleeper.sleep(connection.channel.as_fd(), still_quiet);
            // What woke us may be for us alone: a ping is answered at once.
            connection.channel.pump();
            quiet = 0;
        } else if quiet >= QUIET_TICKS {
            tick = UNREAD_TICK;
        }
        std::thread::sleep(tick);
        let pulse = connection.pulse.load(Ordering::Acquire);
        let is_led = connection.led.load(Ordering::Acquire);
        // Nobody else hears a ping or that the service stops, unless a call happens to wait for its answer.
        connection.channel.pump();
        connection.end_if_done();
        let leader_missed = !is_led && !connection.outbox.is_full();
        if pulse == last && leader_missed {
            connection.replace_leader();
        }
        connection.look_after_calls();
        connection.look_after_line(tick);
        let nothing_open = !leader_missed && connection.calls().is_empty();
        quiet = if pulse == last && nothing_open { quiet + 1 } else { 0 };
        last = pulse;
    }
}

impl Connection {
    /// An idle thread takes the reader; if all are busy, the sentinel reads for them until one is free again.
    fn replace_leader(&self) {
        if self.calls().idle.prompt > 0 {
            self.pool.call_one(Role::Prompt);
        } else if let Ok(reader) = self.reader.try_lock() {
            self.stand_in(reader);
        }
    }

    fn stand_in(&self, mut reader: MutexGuard<'_, Reader>) {
        loop {
            if self.calls().idle.prompt > 0 {
                drop(reader);
                self.pool.call_one(Role::Prompt);
                return;
            }
            // Lines that were received but had no place come before new ones: otherwise they would pile up here,
            // and the end of the stream would be met before them.
            let takes_frames = self.takes_frames();
            let has_frame = takes_frames && reader.has_next();
            let stream = (takes_frames && !has_frame).then(|| self.stream.as_fd());
            let wait = if has_frame { Duration::ZERO } else { TICK };
            let start = Instant::now();
            let Ok(ready) = poll::wait_for(self.channel.as_fd(), stream, Some(wait)) else {
                std::process::exit(1)
            };
            let waited = start.elapsed();
            if ready.channel {
                self.channel.pump();
            }
            if ready.stream {
                self.receive(&mut reader);
            }
            // Also while the worker does not read because the client reads no replies: the deadline of a line still holds.
            if stream.is_some() || self.outbox.is_full() {
                self.count_wait(&mut reader, waited);
            }
            let jobs = self.read_frames(&mut reader);
            if !jobs.is_empty() {
                self.enqueue(jobs);
                self.pool.call_one(Role::Patient);
            }
            self.look_after_calls();
        }
    }

    /// The worker does not read from a client that does not read its replies. The deadline of an unfinished line still holds.
    fn look_after_line(&self, tick: Duration) {
        if self.outbox.is_full()
            && let Ok(mut reader) = self.reader.try_lock()
        {
            self.count_wait(&mut reader, tick);
        }
    }

    /// Answers for calls that sit in a system call past their deadline or that no thread has taken until then, calls a
    /// thread for waiting ones, and sends what waits to be sent unless that could block.
    fn look_after_calls(&self) {
        // What was late is dropped without the lock.
        let (stuck, _late, call_help) = {
            let mut calls = self.calls();
            let (stuck, late) = (calls.take_stuck(), calls.take_late());
            late.iter().for_each(|job| self.answer_unrun(job));
            let wanted = |role| calls.has_waiting(role) && calls.idle.of(role) > 0;
            (stuck, late, [Role::Prompt, Role::Patient].map(|role| wanted(role).then_some(role)))
        };
        for id in &stuck {
            let error = Error::new(
                Code::C220,
                "deadline passed while the file system did not answer; the outcome is unknown, look before you repeat it",
            );
            self.answer_error(Some(id), &RpcError::from(error));
        }
        call_help.into_iter().flatten().for_each(|role| self.pool.call_one(role));
        self.flush_now();
    }
}
