//! One connection and its threads.
//!
//! One pool thread *leads*: it waits for frames, and for nothing else, asks about all of them in one message, and runs
//! them itself, so that a lone call never changes threads. While it is away, nobody reads; the sentinel (`sentinel.rs`) notices a leader that
//! stays away and sends another thread in its place.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

pub use super::sentinel::watch;
use super::{
    calls::{Calls, Job, Role},
    dispatch::{self, Method},
    outbox::Outbox,
    pool::Pool,
    reader::Reader,
    sentinel::Sleeper,
};
use crate::{
    broker::{CallId, Caller, Channel, Control, Question, Ticket, setup::Setup},
    jail::{Call, Jail, Together},
    sys::wake::Wake,
    wire::{
        Limits, RpcError, Warnings,
        envelope::{self, Id, Incoming},
        function::Cost,
    },
};

/// Replies of one batch are written together, unless they have become this many bytes.
const JOIN_BYTES: usize = 64 << 10;
/// Messages of questions on their way before their calls run. Two carry those of all calls that may be open, if these
/// keep to few folders; each may hold `BATCH_PARENTS` descriptors until its calls have run.
const EARLY_MESSAGES: usize = 2;

pub struct Connection {
    pub(super) stream: OwnedFd,
    pub(super) channel: Arc<Channel>,
    jail: Jail,
    /// Of the next call; one that runs keeps its own.
    limits: Mutex<Arc<Limits>>,
    /// What the kernel lets this process write into one file; it was set at start and is never raised again.
    most_write_bytes: u64,
    pub(super) outbox: Outbox,
    /// Held by the thread that leads.
    pub(super) reader: Mutex<Reader>,
    pub(super) pool: Arc<Pool>,
    /// Changes whenever a leader goes away to run calls or comes back.
    pub(super) pulse: AtomicU64,
    /// A thread leads. Not told from `pulse`: while one leader is away, another may go away, too.
    pub(super) led: AtomicBool,
    pub(super) sleeper: Sleeper,
}

impl Connection {
    pub fn new(setup: Setup, uid: u32, stream: OwnedFd, channel: Arc<Channel>, wake: Wake) -> Self {
        let limits = Arc::new(setup.limits.clone());
        Self {
            stream,
            outbox: Outbox::default(),
            reader: Mutex::new(Reader::new(&limits)),
            pool: Arc::new(Pool::new(Calls::new(setup.threads, limits.max_calls_in_flight as usize))),
            pulse: AtomicU64::new(0),
            led: AtomicBool::new(false),
            sleeper: Sleeper::new(wake),
            jail: Jail::from_setup(setup, uid, channel.clone()),
            most_write_bytes: limits.max_write_bytes,
            limits: Mutex::new(limits),
            channel,
        }
    }

    pub fn listen_to_supervisor(&'static self) {
        self.channel.on_control(move |control| match control {
            Control::Ping { nonce } => {
                let (overdue, next_ms) = self.calls().overdue();
                self.channel.pong(nonce, overdue, next_ms);
            }
            Control::Drain => self.end_reading(),
            Control::Limits(limits) => self.adopt(limits),
            Control::Lost => std::process::exit(1),
        });
    }

    pub(super) fn limits(&self) -> Arc<Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn adopt(&self, mut limits: Limits) {
        limits.max_write_bytes = limits.max_write_bytes.min(self.most_write_bytes);
        self.calls().most_open = limits.max_calls_in_flight as usize;
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
        // There may be room for another call.
        self.pool.call_all();
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.pool.calls()
    }

    /// The life of a pool thread. The process ends when the connection does.
    pub fn work(&self, role: Role) {
        let mut reply = Vec::new();
        loop {
            match role {
                Role::Prompt => self.work_promptly(&mut reply),
                Role::Patient => self.work_patiently(&mut reply),
            }
        }
    }

    fn work_promptly(&self, reply: &mut Vec<u8>) {
        if self.run_waiting(Role::Prompt, reply) {
            return;
        }
        self.end_if_done();
        let takes_frames = self.takes_frames();
        if takes_frames && self.lead_if_nobody_does(reply) {
            return;
        }
        let calls = self.calls();
        // A place that has become free since the look above was announced to nobody.
        if !calls.has_waiting(Role::Prompt) && (takes_frames || !self.has_room(&calls)) {
            self.pool.wait(Role::Prompt, calls);
        }
    }

    fn work_patiently(&self, reply: &mut Vec<u8>) {
        if self.run_waiting(Role::Patient, reply) || self.pool.help() {
            return;
        }
        self.end_if_done();
        let calls = self.calls();
        if !calls.has_waiting(Role::Patient) && !calls.wants_help() {
            self.pool.wait(Role::Patient, calls);
        }
    }

    /// False if another thread leads.
    fn lead_if_nobody_does(&self, reply: &mut Vec<u8>) -> bool {
        match self.reader.try_lock() {
            Ok(reader) => self.lead(reader, reply),
            Err(TryLockError::WouldBlock) => return false,
            Err(TryLockError::Poisoned(_)) => std::process::exit(1),
        }
        true
    }

    /// Whether another frame may be read: there is a place for its reply, and none waits for a place.
    pub(super) fn takes_frames(&self) -> bool {
        self.has_room(&self.calls())
    }

    fn has_room(&self, calls: &Calls) -> bool {
        let is_held_up = calls.is_full() && calls.one_has_no_place;
        !calls.ending && !is_held_up && !self.outbox.is_full()
    }

    /// After the last reply of a connection that takes no more calls.
    pub(super) fn end_if_done(&self) {
        let calls = self.calls();
        if calls.ending && calls.is_empty() {
            drop(calls);
            // Not `flush`, which leaves the rest to a thread that is writing: the exit would end that one, too.
            let _ = self.outbox.flush_all(self.stream.as_fd());
            self.leave();
        }
    }

    /// The orderly end. A change that is under way on another thread is finished first.
    pub(super) fn leave(&self) -> ! {
        self.jail.close();
        std::process::exit(0)
    }

    pub(super) fn end_reading(&self) {
        self.calls().ending = true;
        self.pool.call_all();
    }

    fn lead(&self, mut reader: MutexGuard<'_, Reader>, reply: &mut Vec<u8>) {
        self.led.store(true, Ordering::Release);
        if !reader.has_next() {
            self.wait_and_receive(&mut reader);
        }
        // The service may have begun to stop while this thread waited: what came then is answered by nobody.
        let mut jobs = if self.calls().ending { Vec::new() } else { self.read_frames(&mut reader) };
        self.led.store(false, Ordering::Release);
        drop(reader);
        if jobs.is_empty() {
            // Only errors to tell, or nothing. A client that does not read them must not keep us from the channel.
            self.flush_now();
            if !self.outbox.is_empty() {
                self.wake_sentinel();
            }
            return;
        }
        self.wake_sentinel();
        // A lone call asks by itself: there is nothing to put together with its questions.
        if jobs.len() > 1 {
            self.ask_early(&mut jobs);
        }
        self.enqueue(jobs);
        while self.run_waiting(Role::Prompt, reply) {}
        self.flush();
        self.pulse.fetch_add(1, Ordering::Release);
    }

    fn wake_sentinel(&self) {
        self.pulse.fetch_add(1, Ordering::SeqCst);
        self.sleeper.wake();
    }

    pub(super) fn prepare(&self, incoming: Incoming) -> Result<Option<Job>, (Option<Id>, RpcError)> {
        let (id, method, params, timeout_ms, unknown) = match incoming {
            Incoming::Call { id, method, params, timeout_ms, unknown } => {
                (id, method, params, timeout_ms, unknown)
            }
            Incoming::Cancel { id, reply_to } => {
                let mut calls = self.calls();
                // Answered before anybody can see that no call is open, as all are.
                let never_ran = calls.cancel(&id);
                never_ran.iter().for_each(|job| self.answer_unrun(job));
                drop(calls);
                if let Some(own) = reply_to {
                    let mut reply = Vec::new();
                    envelope::write_result(&mut reply, &own, &serde_json::json!({}), &[]);
                    self.outbox.add(&mut reply);
                }
                return Ok(None);
            }
            Incoming::Invalid { id, error } => return Err((id, error)),
        };
        let method = dispatch::find(&method).map_err(|error| (Some(id.clone()), error))?;
        let limits = self.limits();
        let refused = |error| {
            method.report_refused(&self.jail, &params, &limits);
            (Some(id.clone()), error)
        };
        let mut warnings = method.check_members(&unknown).map_err(refused)?;
        let deadline = deadline(&limits, timeout_ms, &mut warnings);
        let cancelled = Arc::<AtomicBool>::default();
        let Some(number) = self.calls().open(&id, deadline, cancelled.clone()) else {
            return Err(refused(RpcError::duplicate_id(&id)));
        };
        match method.prepare(&self.jail, params, &limits, &mut warnings) {
            Ok(prepared) => {
                let caller = Caller::new(CallId(number), method.index, deadline);
                let mut call = Call::new(caller, limits, cancelled).with_crew(self.pool.clone());
                call.warnings = warnings;
                Ok(Some(job(number, id, &method, call, prepared)))
            }
            Err(error) => {
                let mut calls = self.calls();
                self.answer_error(Some(&id), &error.with_warnings(&warnings));
                calls.forget(number);
                Ok(None)
            }
        }
    }

    /// The questions of all jobs, asked together as far as `EARLY_MESSAGES` reach; the others are asked when their call
    /// runs. All are sent before the first answer is awaited: the supervisor works on one message while we take the other.
    fn ask_early(&self, jobs: &mut [Job]) {
        let mut asked: Vec<(usize, Caller, Question)> = Vec::new();
        for (index, job) in jobs.iter().enumerate().filter(|(_, job)| job.may_ask_early) {
            let questions = job.prepared.questions(&self.jail);
            asked.extend(questions.into_iter().map(|question| (index, job.call.caller(), question)));
        }
        let mut tickets: [Option<Ticket>; EARLY_MESSAGES] = Default::default();
        let mut rest = asked.as_slice();
        for ticket in &mut tickets {
            let mut together = Together::default();
            let fits = rest.iter().take_while(|(.., question)| together.admit(&self.jail, question)).count();
            let (message, later) = rest.split_at(fits);
            if fits > 0 {
                *ticket =
                    Some(self.channel.send_questions(message.iter().map(|(_, caller, q)| (*caller, q))));
            }
            rest = later;
        }
        let answers = tickets.into_iter().flatten().flat_map(|ticket| self.channel.wait(ticket));
        for ((index, _, question), answer) in asked.into_iter().zip(answers) {
            jobs[index].call.add_answer(question, answer);
        }
    }

    /// Other threads are called only for long calls: a batch of short ones is done sooner than a thread is woken.
    pub(super) fn enqueue(&self, mut jobs: Vec<Job>) {
        let mut calls = self.calls();
        // Cancelled by a line behind its own: no thread may be free for it until its deadline.
        jobs.retain(|job| {
            let is_wanted = job.call.checkpoint().is_ok();
            if !is_wanted {
                self.answer_unrun(job);
                calls.forget(job.number);
            }
            is_wanted
        });
        let long = jobs.iter().filter(|job| job.cost == Cost::Long).count();
        let is_only = long == jobs.len();
        for job in jobs {
            calls.push(job);
        }
        // Whoever brings a lone long call and nothing else runs it.
        let is_taken = is_only && long == 1 && calls.may_take_long(Role::Prompt);
        let wanted = if is_taken { 0 } else { long.min(calls.idle.patient) };
        drop(calls);
        (0..wanted).for_each(|_| self.pool.call_one(Role::Patient));
    }

    /// Runs one waiting call. False if there is none for this thread. `reply` is empty before and after.
    fn run_waiting(&self, role: Role, reply: &mut Vec<u8>) -> bool {
        if !self.calls().has_waiting(role) {
            return false;
        }
        // Before the call is taken: one that waits for its client to read is not one that hangs.
        self.outbox.wait_for_space();
        let Some(job) = self.calls().take(role) else { return false };
        if job.cost == Cost::Long {
            self.flush_now();
        }
        let Job { number, id, cost, mut call, prepared, .. } = job;
        prepared.run(&self.jail, &mut call, &id, reply);
        drop(call);
        let size = reply.len();
        let (was_full, more, leaves_long) = {
            let mut calls = self.calls();
            let was_full = calls.is_full();
            // Added before anybody can see that no call is open: that is when the process ends.
            if calls.close(number, cost) {
                self.outbox.add(reply);
            } else {
                reply.clear();
            }
            let leaves_long = calls.idle.patient > 0 && calls.has_waiting(Role::Patient);
            (was_full, calls.has_waiting(role), leaves_long)
        };
        if was_full {
            self.pool.call_one(Role::Prompt);
        }
        if leaves_long {
            self.pool.call_one(Role::Patient);
        }
        if !more || size > JOIN_BYTES {
            self.flush();
        }
        true
    }

    /// For a call that was cancelled, or too late, before a thread had taken it.
    pub(super) fn answer_unrun(&self, job: &Job) {
        if let Err(error) = job.call.checkpoint() {
            job.prepared.report_unrun(&self.jail, job.call.caller().function, error.code);
            self.answer_error(Some(&job.id), &RpcError::from(error));
        }
    }

    pub(super) fn answer_error(&self, id: Option<&Id>, error: &RpcError) {
        let mut reply = Vec::new();
        envelope::write_error(&mut reply, id, error);
        self.outbox.add(&mut reply);
    }

    /// A client that is gone ends the worker: nobody is left to hear the rest.
    fn flush(&self) {
        if self.outbox.flush(self.stream.as_fd()).is_err() {
            self.leave();
        }
    }

    pub(super) fn flush_now(&self) {
        if self.outbox.flush_now(self.stream.as_fd()).is_err() {
            self.leave();
        }
    }
}

fn deadline(limits: &Limits, timeout_ms: Option<u64>, warnings: &mut Warnings) -> Instant {
    let longest = limits.call_timeout_max_ms;
    let wanted = timeout_ms.unwrap_or(limits.call_timeout_ms);
    if timeout_ms.is_some_and(|wanted| wanted > longest) {
        warnings
            .push(format!("timeout_ms: {wanted} is more than the longest deadline here, {longest} is used"));
    }
    Instant::now() + Duration::from_millis(wanted.min(longest))
}

fn job(number: u64, id: Id, method: &Method, call: Call, prepared: dispatch::Prepared) -> Job {
    Job { number, id, cost: prepared.cost, may_ask_early: method.may_ask_early(), call, prepared }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}
