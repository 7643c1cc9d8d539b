//! One connection: turns messages into calls, runs them and writes their replies.
//! Runs in the worker, on its pool threads. Does not trust the client. Never blocks while it leads, except for the client's
//! next bytes and for a reservation.
//!
//! One pool thread *leads*: it waits for frames, and for nothing else, asks about all of them in one message, and runs
//! them itself, so that a lone call never changes threads. While it runs calls, nobody reads; if that takes long, the sentinel
//! (`sentinel.rs`) wakes another thread to lead. `scheduler` decides all of this.

use std::{
    os::fd::{AsFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    dispatch::{self, PreparedCall},
    outbox::ReplyOutbox,
    reader::{FrameReader, ReadStop, ReadStopReason},
    scheduler::{FinishedCall, Job, Role, Scheduler, SubmittedBy},
    threads::{ThreadTask, Threads},
};
use crate::{
    broker::{CallId, Caller, Channel, ControlMessage, PendingQuestions, Question, setup::Setup},
    jail::{Call, Crew, Jail, QuestionBatch, SharedWork},
    sys::wake::WakeDescriptor,
    wire::{
        Limits, RpcError, Warnings,
        envelope::{self, Id, Incoming},
        function::Cost,
    },
};

/// Replies of one batch are written together, unless they have become this many bytes.
const MAX_JOINED_REPLY_BYTES: usize = 64 << 10;
/// Messages of questions that are sent before their calls run. Two carry the questions of all calls that may be open, if these
/// name few folders; each may hold `BATCH_PARENTS` descriptors until its calls have run.
const MAX_EARLY_MESSAGES: usize = 2;

/// A call and its request, ready to run.
pub struct ReadyCall {
    may_ask_early: bool,
    call: Call,
    prepared: PreparedCall,
}

pub type CallJob = Job<ReadyCall>;
pub type CallThreads = Threads<ReadyCall, dyn SharedWork, FrameReader>;

pub struct WorkerConnection {
    pub(super) stream: OwnedFd,
    pub(super) channel: Arc<Channel>,
    jail: Jail,
    /// For the next call. A call that runs keeps those that it started with.
    limits: Mutex<Arc<Limits>>,
    /// The file-size limit that the kernel enforces for this process. It was set at the start and is never raised.
    max_file_bytes: u64,
    pub(super) outbox: ReplyOutbox,
    pub(super) pool: Arc<CallThreads>,
    /// Wakes the sentinel.
    pub(super) wake: Arc<WakeDescriptor>,
}

impl WorkerConnection {
    pub fn new(setup: Setup, uid: u32, stream: OwnedFd, channel: Arc<Channel>, wake: WakeDescriptor) -> Self {
        let limits = Arc::new(setup.limits.clone());
        let scheduler = Scheduler::new(setup.threads, limits.max_calls_in_flight as usize);
        let wake = Arc::new(wake);
        let ring = wake.clone();
        Self {
            stream,
            outbox: ReplyOutbox::default(),
            pool: Arc::new(Threads::new(scheduler, FrameReader::new(&limits), move || ring.wake())),
            wake,
            jail: Jail::from_setup(setup, uid, channel.clone()),
            max_file_bytes: limits.max_write_bytes,
            limits: Mutex::new(limits),
            channel,
        }
    }

    pub fn listen_to_supervisor(&'static self) {
        self.channel.set_control_handler(move |control| match control {
            ControlMessage::Ping { nonce } => {
                let (overdue, next_ms) = self.pool.with_scheduler(|scheduler| scheduler.overdue(Instant::now()));
                self.channel.send_pong(nonce, overdue, next_ms);
            }
            ControlMessage::Drain => self.pool.with_scheduler(Scheduler::end_reading),
            ControlMessage::Limits(limits) => self.set_limits(limits),
            ControlMessage::SupervisorGone => std::process::exit(1),
        });
    }

    pub(super) fn limits(&self) -> Arc<Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_limits(&self, mut limits: Limits) {
        limits.max_write_bytes = limits.max_write_bytes.min(self.max_file_bytes);
        let max_open = limits.max_calls_in_flight as usize;
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
        self.pool.with_scheduler(|scheduler| scheduler.set_max_open(max_open));
    }

    /// The life of a pool thread. The process ends when the connection does, and after a panic outside of a call: the thread
    /// could have been the leader, and then no other thread would read.
    pub fn run_thread(&self, role: Role) {
        if catch_unwind(AssertUnwindSafe(|| self.run_tasks(role))).is_err() {
            std::process::exit(1);
        }
    }

    fn run_tasks(&self, role: Role) {
        let mut reply = Vec::new();
        loop {
            match self.pool.next_task(role, || self.outbox.unsent()) {
                ThreadTask::Run(job) => self.run(job, role, &mut reply),
                ThreadTask::Help(work) => self.help(&work),
                ThreadTask::AwaitSpace => self.outbox.wait_for_space(),
                ThreadTask::Lead(reader) => self.lead(reader),
                ThreadTask::End => self.flush_and_exit(),
            }
        }
    }

    /// After the last reply of a connection that takes no more calls.
    pub(super) fn flush_and_exit(&self) -> ! {
        // `flush` would leave the rest to a thread that is writing, and the exit would end that thread.
        let _ = self.outbox.flush_all(self.stream.as_fd());
        self.exit_in_order()
    }

    /// The orderly end. A change that another thread makes is finished first.
    fn exit_in_order(&self) -> ! {
        self.jail.close();
        std::process::exit(0)
    }

    fn lead(&self, mut reader: Box<FrameReader>) {
        if !reader.has_frame()
            && let Err(stop) = reader.wait_and_receive(self.stream.as_fd(), &self.channel, || self.limits())
        {
            self.stop_reading(stop);
        }
        // The service may have begun to stop while this thread waited: messages that came since are not answered.
        let is_ending = self.pool.with_scheduler(|scheduler| scheduler.is_ending());
        let mut jobs = if is_ending { Vec::new() } else { self.read_frames(&mut reader) };
        self.pool.stop_leading(reader, !jobs.is_empty());
        if jobs.is_empty() {
            // There are only errors to write, or nothing. A client that does not read them must not block this thread.
            self.flush_now();
            if !self.outbox.is_empty() {
                self.pool.with_scheduler(Scheduler::leave_unsent);
            }
            return;
        }
        // A single call asks its questions itself, because there are no others to send with them.
        if jobs.len() > 1 {
            self.ask_early(&mut jobs);
        }
        self.submit(jobs, SubmittedBy::Thread);
    }

    /// Turns lines into jobs, up to `max_calls_in_flight`. Answers lines that cannot become jobs at once, as long as the outbox
    /// has room.
    pub(super) fn read_frames(&self, reader: &mut FrameReader) -> Vec<CallJob> {
        let mut jobs = Vec::new();
        reader.set_limits(&self.limits());
        while !self.outbox.is_full()
            && let Some(next) = reader.next_message()
        {
            let incoming = match next {
                Ok(incoming) => incoming,
                Err(stop) => {
                    self.stop_reading(stop);
                    break;
                }
            };
            if matches!(incoming, Incoming::Call { .. }) && !self.pool.with_scheduler(Scheduler::admits_call) {
                reader.park(incoming);
                break;
            }
            match self.prepare(incoming) {
                Ok(Some(job)) => jobs.push(job),
                Ok(None) => {}
                Err((id, error)) => self.answer_error(id.as_ref(), &error),
            }
        }
        if reader.shrink() {
            self.channel.release_reservations();
        }
        jobs
    }

    pub(super) fn stop_reading(&self, stop: ReadStop) {
        match stop.reason {
            ReadStopReason::End { hung_up: false } => {}
            // The client cannot receive replies.
            ReadStopReason::End { hung_up: true } => {
                let flags = self.pool.with_scheduler(Scheduler::cancel_all);
                flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
            }
            ReadStopReason::Refused(error) => self.answer_error(None, &error),
            ReadStopReason::StreamFailed => self.exit_in_order(),
        }
        if stop.releases_reservation {
            self.channel.release_reservations();
        }
        self.pool.with_scheduler(Scheduler::end_reading);
    }

    fn prepare(&self, incoming: Incoming) -> Result<Option<CallJob>, (Option<Id>, RpcError)> {
        let (id, method, params, timeout_ms, unknown) = match incoming {
            Incoming::Call { id, method, params, timeout_ms, unknown } => (id, method, params, timeout_ms, unknown),
            Incoming::Cancel { id, reply_to } => {
                self.cancel(&id, reply_to.as_ref());
                return Ok(None);
            }
            Incoming::Invalid { id, error } => return Err((id, error)),
        };
        let method = dispatch::find_handler(&method).map_err(|error| (Some(id.clone()), error))?;
        let limits = self.limits();
        let refused = |error| {
            method.report_refused(&self.jail, &params, &limits);
            (Some(id.clone()), error)
        };
        let mut warnings = method.check_members(&unknown).map_err(refused)?;
        let deadline = call_deadline(&limits, timeout_ms, &mut warnings);
        let flag = Arc::<AtomicBool>::default();
        let Some(number) = self.pool.with_scheduler(|scheduler| scheduler.open(&id, deadline, flag.clone())) else {
            return Err(refused(RpcError::duplicate_id(&id)));
        };
        match method.prepare(&self.jail, params, &limits, &mut warnings) {
            Ok(prepared) => {
                let caller = Caller::new(CallId(number), method.index, deadline);
                let mut call = Call::new(caller, limits, flag).with_crew(self.pool.clone());
                call.warnings = warnings;
                let cost = prepared.cost;
                let work = ReadyCall { may_ask_early: method.may_ask_early(), call, prepared };
                Ok(Some(Job { number, id, cost, deadline, work }))
            }
            Err(error) => {
                self.refuse(number, &id, &error.with_warnings(&warnings));
                Ok(None)
            }
        }
    }

    /// Closes a call that never ran and answers it with this error, unless the sentinel has answered for it.
    fn refuse(&self, number: u64, id: &Id, error: &RpcError) {
        self.pool.with_scheduler(|scheduler| {
            // Inside of the lock, as every reply: the process ends when a thread sees that no call is open.
            if scheduler.refuse(number) {
                self.answer_error(Some(id), error);
            }
        });
    }

    fn cancel(&self, id: &Id, reply_to: Option<&Id>) {
        let cancelled = self.pool.with_scheduler(|scheduler| scheduler.cancel(id));
        if let Some(cancelled) = cancelled {
            cancelled.flag.store(true, Ordering::Relaxed);
            self.answer_unrun(cancelled.unrun);
        }
        if let Some(own) = reply_to {
            let mut reply = Vec::new();
            envelope::write_result(&mut reply, own, &serde_json::json!({}), &[]);
            self.outbox.add(&mut reply);
        }
    }

    /// Sends the questions of all jobs together, as far as `MAX_EARLY_MESSAGES` messages reach; a call that runs asks the others
    /// itself. All are sent before this thread waits for the first answer, so that the supervisor works on one message while
    /// the worker takes the other.
    fn ask_early(&self, jobs: &mut [CallJob]) {
        let mut asked: Vec<(usize, Caller, Question)> = Vec::new();
        for (index, job) in jobs.iter().enumerate().filter(|(_, job)| job.work.may_ask_early) {
            let questions = job.work.prepared.questions(&self.jail);
            asked.extend(questions.into_iter().map(|question| (index, job.work.call.caller(), question)));
        }
        let mut tickets: [Option<PendingQuestions>; MAX_EARLY_MESSAGES] = Default::default();
        let mut rest = asked.as_slice();
        for ticket in &mut tickets {
            let mut together = QuestionBatch::default();
            let fits = rest.iter().take_while(|(.., question)| together.admit(&self.jail, question)).count();
            let (message, later) = rest.split_at(fits);
            if fits > 0 {
                *ticket = Some(self.channel.send_questions(message.iter().map(|(_, caller, q)| (*caller, q))));
            }
            rest = later;
        }
        let answers = tickets.into_iter().flatten().flat_map(|ticket| self.channel.wait(ticket));
        for ((index, _, question), answer) in asked.into_iter().zip(answers) {
            jobs[index].work.call.add_answer(question, answer);
        }
    }

    /// Hands calls to the scheduler. Answers those that never run.
    pub(super) fn submit(&self, jobs: Vec<CallJob>, by: SubmittedBy) {
        let now = Instant::now();
        let unrun = self.pool.with_scheduler(|scheduler| scheduler.submit(now, jobs, by));
        self.answer_unrun(unrun);
    }

    /// Runs a call. `reply` is empty before and after.
    fn run(&self, job: CallJob, role: Role, reply: &mut Vec<u8>) {
        let Job { number, id, cost, work: ReadyCall { mut call, prepared, .. }, .. } = job;
        if cost == Cost::Long {
            self.flush_now();
        }
        prepared.run(&self.jail, &mut call, &id, reply);
        drop(call);
        let size = reply.len();
        let more = self.pool.with_scheduler(|scheduler| {
            let FinishedCall { send_reply, has_more: more } = scheduler.finish(number, cost, role);
            // Inside of the lock, see `refuse`.
            if send_reply {
                self.outbox.add(reply);
            } else {
                reply.clear();
            }
            more
        });
        if !more || size > MAX_JOINED_REPLY_BYTES {
            self.flush();
        }
    }

    fn help(&self, work: &Arc<dyn SharedWork>) {
        // If the call needed this helper, it reports the panic itself.
        let wants_more = catch_unwind(AssertUnwindSafe(|| work.help(&*self.pool))).unwrap_or(false);
        self.pool.with_scheduler(|scheduler| scheduler.end_help(work, wants_more));
    }

    /// Answers calls that were cancelled, or late, before a thread ran them. The audit gets their outcomes first.
    pub(super) fn answer_unrun(&self, jobs: impl IntoIterator<Item = CallJob>) {
        for Job { number, id, work: ReadyCall { call, prepared, .. }, .. } in jobs {
            if let Err(error) = call.checkpoint() {
                prepared.report_unrun(&self.jail, call.caller().function, error.code);
                self.refuse(number, &id, &RpcError::from(error));
            }
        }
    }

    pub(super) fn answer_error(&self, id: Option<&Id>, error: &RpcError) {
        let mut reply = Vec::new();
        envelope::write_error(&mut reply, id, error);
        self.outbox.add(&mut reply);
    }

    /// A client that is gone ends the worker: nothing else reads its replies.
    fn flush(&self) {
        if self.outbox.flush(self.stream.as_fd()).is_err() {
            self.exit_in_order();
        }
    }

    pub(super) fn flush_now(&self) {
        if self.outbox.flush_now(self.stream.as_fd()).is_err() {
            self.exit_in_order();
        }
    }
}

fn call_deadline(limits: &Limits, timeout_ms: Option<u64>, warnings: &mut Warnings) -> Instant {
    let longest = limits.call_timeout_max_ms;
    let wanted = timeout_ms.unwrap_or(limits.call_timeout_ms);
    if timeout_ms.is_some_and(|wanted| wanted > longest) {
        warnings.push(format!("timeout_ms: {wanted} is more than the longest deadline here, {longest} is used"));
    }
    Instant::now() + Duration::from_millis(wanted.min(longest))
}

impl Crew for CallThreads {
    fn size(&self) -> usize {
        self.max_helpers()
    }

    fn invite(&self, work: Arc<dyn SharedWork>) {
        self.with_scheduler(|scheduler| scheduler.invite(work));
    }

    fn dismiss(&self, work: &Arc<dyn SharedWork>) {
        self.with_scheduler(|scheduler| scheduler.dismiss(work));
    }

    fn is_needed_elsewhere(&self) -> bool {
        self.long_waits()
    }
}

impl std::fmt::Debug for WorkerConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}
