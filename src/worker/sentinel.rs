//! The thread that never runs a call. While the connection is busy it wakes up every few milliseconds and asks the
//! scheduler what has been left undone: no thread reads, a call runs on past its deadline, a call waits although a thread is
//! idle. It also offers replies again that the client did not take, and receives what the supervisor sends unasked. While
//! nothing happens it sleeps.
//! Runs in the worker, on its main thread. Never blocks on the client, on a file or on an answer of the supervisor, except for
//! a reservation while it leads.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use super::{
    connection::{CallJob, ReadyCall, WorkerConnection},
    reader::FrameReader,
    scheduler::{OverdueCalls, Scheduler, SentinelRest, SubmittedBy, UnsentReplies},
};
use crate::{
    sys::poll,
    wire::{Code, Error, RpcError},
};

/// How long a frame can wait while the leader runs calls. Too short for a person to notice, and long compared with the cost of a
/// wake-up.
const TICK_INTERVAL: Duration = Duration::from_millis(5);
/// How often replies are offered again to a client that does not read them and has no open call.
const UNREAD_TICK_INTERVAL: Duration = Duration::from_millis(50);

/// The loop of the main thread once it has a connection.
pub fn run_sentinel(connection: &'static WorkerConnection) {
    let mut rest = SentinelRest::Short;
    loop {
        if rest == SentinelRest::Sleep {
            connection.sleep();
        }
        let tick = if rest == SentinelRest::Unread { UNREAD_TICK_INTERVAL } else { TICK_INTERVAL };
        std::thread::sleep(tick);
        // No other thread receives a ping or the order to stop, unless a call waits for an answer.
        connection.channel.receive_without_waiting();
        if connection.pool.with_scheduler(Scheduler::take_end) {
            connection.flush_and_exit();
        }
        rest = connection.tick(tick);
    }
}

impl WorkerConnection {
    /// Sleeps until a leader leaves with calls or the supervisor sends something.
    fn sleep(&self) {
        if poll::wait_for_either(self.channel.as_fd(), self.wake.as_fd()).is_err() {
            std::process::exit(1);
        }
        self.pool.with_scheduler(Scheduler::note_sentinel_awake);
        self.wake.clear();
        // A ping is answered at once.
        self.channel.receive_without_waiting();
    }

    fn tick(&self, waited: Duration) -> SentinelRest {
        let now = Instant::now();
        let unsent = self.outbox.unsent();
        let (reader, (overdue, rest)) = self.pool.with_scheduler_as_leader(|scheduler| {
            let tick = scheduler.tick(now, unsent);
            (tick.sentinel_leads, (tick.overdue, tick.rest))
        });
        self.answer_overdue(overdue);
        if let Some(reader) = reader {
            self.lead_for_threads(reader);
        }
        self.count_unread_line(waited);
        rest
    }

    /// Reads frames until a prompt thread is idle again.
    fn lead_for_threads(&self, mut reader: Box<FrameReader>) {
        loop {
            match self.pool.relieve_sentinel(reader) {
                Some(kept) => reader = kept,
                None => return,
            }
            let jobs = self.read_for_threads(&mut reader);
            if !jobs.is_empty() {
                self.submit(jobs, SubmittedBy::Sentinel);
            }
            let overdue = self.pool.with_scheduler(|scheduler| scheduler.take_overdue(Instant::now()));
            self.answer_overdue(overdue);
        }
    }

    /// Waits one tick for the client and for the supervisor, and reads what has come.
    fn read_for_threads(&self, reader: &mut FrameReader) -> Vec<CallJob> {
        let unsent = self.outbox.unsent();
        let takes_frames = self.pool.with_scheduler(|scheduler| scheduler.takes_frames(unsent));
        // Complete lines come before new bytes: otherwise they would pile up, and the end of the stream would be met first.
        let has_frame = takes_frames && reader.has_frame();
        let stream = (takes_frames && !has_frame).then(|| self.stream.as_fd());
        let wait = if has_frame { Duration::ZERO } else { TICK_INTERVAL };
        let start = Instant::now();
        let Ok(ready) = poll::wait_for(self.channel.as_fd(), stream, Some(wait)) else { std::process::exit(1) };
        let waited = start.elapsed();
        if ready.channel {
            self.channel.receive_without_waiting();
        }
        let mut read = Ok(());
        if ready.stream {
            read = reader.receive(self.stream.as_fd(), &self.channel, || self.limits());
        }
        // The deadline of an unfinished line holds also while the worker does not read because the client reads no replies.
        if read.is_ok() && (stream.is_some() || unsent == UnsentReplies::Full) {
            read = reader.count_wait(waited, &self.limits());
        }
        if let Err(stop) = read {
            self.stop_reading(stop);
        }
        self.read_frames(reader)
    }

    /// The worker does not read from a client that does not read its replies. The deadline of an unfinished line still holds.
    fn count_unread_line(&self, waited: Duration) {
        if !self.outbox.is_full() {
            return;
        }
        let limits = self.limits();
        if let Some(Err(stop)) = self.pool.with_idle_reader(|reader| reader.count_wait(waited, &limits)) {
            self.stop_reading(stop);
        }
    }

    /// Answers calls past their deadline, and writes what the client takes without blocking.
    fn answer_overdue(&self, overdue: OverdueCalls<ReadyCall>) {
        for id in &overdue.stuck {
            let error = Error::new(
                Code::Deadline,
                "deadline passed while the file system did not answer; the outcome is unknown, look before you repeat it",
            );
            self.answer_error(Some(id), &RpcError::from(error));
        }
        self.answer_unrun(overdue.expired);
        self.flush_now();
    }
}
