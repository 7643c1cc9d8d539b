//! Runs `threads.rs` and the scheduler under many schedules. Pool threads and sentinel follow the scheduler as the real ones
//! do; calls and frames are made up. A lost wake-up leaves all threads waiting, which `shuttle` reports.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use super::scheduler::{self, Job, Role, Scheduler, SentinelRest, SubmittedBy, UnsentReplies};
use crate::{
    sys::model::{self, thread},
    wire::{envelope::Id, function::Cost},
};

mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use crate::sys::model::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    };
}

#[path = "threads.rs"]
#[allow(dead_code, clippy::duplicate_mod)]
mod threads;

// This is not the pool's own type: the pool is tested with a type that may lose a notification.
use shuttle::sync::Condvar;
use sync::{AtomicUsize, Mutex, Ordering};
use threads::{ThreadTask, Threads};

/// Messages that the client has sent, as they arrive together, and the call that was parked at the limit.
type ModelFrames = VecDeque<Vec<(i64, Cost)>>;

struct ModelWorker {
    pool: Arc<Threads<(), (), ModelFrames>>,
    answered: AtomicUsize,
    calls: usize,
    sentinel_wake: Arc<(Mutex<bool>, Condvar)>,
}

impl ModelWorker {
    fn new(threads: usize, max_open: usize, frames: ModelFrames) -> Arc<Self> {
        let calls = frames.iter().map(Vec::len).sum();
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let ring = bell.clone();
        let ring = move || {
            *ring.0.lock().unwrap() = true;
            ring.1.notify_one();
        };
        let pool = Arc::new(Threads::new(Scheduler::new(threads, max_open), frames, ring));
        Arc::new(Self { pool, answered: AtomicUsize::new(0), calls, sentinel_wake: bell })
    }

    fn work(&self, role: Role) {
        loop {
            match self.pool.next_task(role, || UnsentReplies::Nothing) {
                ThreadTask::Run(job) => self.run(&job, role),
                ThreadTask::Help(work) => {
                    thread::yield_now();
                    self.pool.with_scheduler(|scheduler| scheduler.end_help(&work, false));
                }
                ThreadTask::Lead(frames) => self.lead(frames),
                ThreadTask::End => return self.end(),
                ThreadTask::AwaitSpace => unreachable!("replies are read at once"),
            }
        }
    }

    fn run(&self, job: &Job<()>, role: Role) {
        let work = Arc::new(());
        if job.cost == Cost::Long {
            self.pool.with_scheduler(|scheduler| scheduler.invite(work.clone()));
        }
        thread::yield_now();
        self.pool.with_scheduler(|scheduler| {
            scheduler.dismiss(&work);
            assert!(scheduler.finish(job.number, job.cost, role).send_reply);
            self.answered.fetch_add(1, Ordering::SeqCst);
        });
    }

    fn lead(&self, mut frames: Box<ModelFrames>) {
        let jobs = self.read(&mut frames);
        if frames.is_empty() {
            self.pool.with_scheduler(Scheduler::end_reading);
        }
        self.pool.stop_leading(frames, !jobs.is_empty());
        self.pool.with_scheduler(|scheduler| scheduler.submit(Instant::now(), jobs, SubmittedBy::Thread));
    }

    fn read(&self, frames: &mut ModelFrames) -> Vec<Job<()>> {
        let mut jobs = Vec::new();
        let mut arrived: VecDeque<(i64, Cost)> = frames.pop_front().unwrap_or_default().into();
        while let Some((id, cost)) = arrived.pop_front() {
            if !self.pool.with_scheduler(Scheduler::admits_call) {
                arrived.push_front((id, cost));
                frames.push_front(arrived.into());
                break;
            }
            let (id, deadline) = (Id::Integer(id), Instant::now() + Duration::from_secs(3600));
            let number = self.pool.with_scheduler(|scheduler| scheduler.open(&id, deadline, Arc::default())).unwrap();
            jobs.push(Job { number, id, cost, deadline, work: () });
        }
        jobs
    }

    /// The others end after this thread, one by one.
    fn end(&self) {
        assert_eq!(self.answered.load(Ordering::SeqCst), self.calls, "the process ends before the last answer");
        self.pool.with_scheduler(Scheduler::end_next_thread);
        *self.sentinel_wake.0.lock().unwrap() = true;
        self.sentinel_wake.1.notify_one();
    }

    /// Like `sentinel::watch`, without deadlines.
    fn watch(&self) {
        loop {
            if self.pool.with_scheduler(Scheduler::take_end) {
                return self.end();
            }
            let (reader, rest) = self.pool.with_scheduler_as_leader(|scheduler| {
                let tick = scheduler.tick(Instant::now(), UnsentReplies::Nothing);
                (tick.sentinel_leads, tick.rest)
            });
            if let Some(reader) = reader {
                self.stand_in(reader);
            }
            if rest == SentinelRest::Sleep {
                let mut rung = self.sentinel_wake.0.lock().unwrap();
                while !*rung {
                    rung = self.sentinel_wake.1.wait(rung).unwrap();
                }
                *rung = false;
                drop(rung);
                self.pool.with_scheduler(Scheduler::note_sentinel_awake);
            }
            thread::yield_now();
        }
    }

    fn stand_in(&self, mut frames: Box<ModelFrames>) {
        while let Some(mut kept) = self.pool.relieve_sentinel(frames) {
            if self.pool.with_scheduler(|scheduler| scheduler.takes_frames(UnsentReplies::Nothing)) {
                let jobs = self.read(&mut kept);
                if kept.is_empty() {
                    self.pool.with_scheduler(Scheduler::end_reading);
                }
                self.pool.with_scheduler(|scheduler| scheduler.submit(Instant::now(), jobs, SubmittedBy::Sentinel));
            }
            frames = kept;
            thread::yield_now();
        }
    }
}

fn serve(threads: usize, max_open: usize, has_sentinel: bool, frames: ModelFrames) {
    let worker = ModelWorker::new(threads, max_open, frames);
    let roles = Role::of_threads(threads);
    let mut running: Vec<thread::JoinHandle<()>> = roles
        .map(|role| {
            let worker = worker.clone();
            thread::spawn(move || worker.work(role))
        })
        .collect();
    if has_sentinel {
        running.push(thread::spawn(move || worker.watch()));
    }
    running.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Batches, lone calls of both kinds, and more calls than may be open.
fn frames() -> ModelFrames {
    use Cost::{Long, Short};
    [
        vec![(1, Short)],
        vec![(2, Long)],
        vec![(3, Long), (4, Short), (5, Long)],
        vec![(6, Short), (7, Short), (8, Short), (9, Long)],
    ]
    .into()
}

/// Nothing is repaired by a tick: every thread that is needed has to be woken by the event itself.
fn without_sentinel() {
    serve(4, 3, false, frames());
}

/// One thread of each role: no other thread can take over what a thread was woken for.
fn with_one_thread_of_each_role() {
    serve(2, 3, false, frames());
}

fn with_sentinel() {
    serve(3, 2, true, frames());
}

#[test]
fn no_wake_up_is_lost_under_any_schedule() {
    model::explore(model::schedules(200), without_sentinel);
    model::explore_unfairly(model::schedules(200), without_sentinel);
}

#[test]
fn a_sentinel_and_threads_share_one_reader_under_any_schedule() {
    model::explore(model::schedules(100), with_sentinel);
}

#[test]
fn a_lost_wake_up_is_found() {
    model::explore(model::schedules(100), with_one_thread_of_each_role);
    for which in [1, 2, 3] {
        let is_found = model::finds_lost_notification(which, with_one_thread_of_each_role);
        assert!(is_found, "notification {which}");
    }
}
