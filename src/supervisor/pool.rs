//! Warm workers per profile, so that no client waits for an exec, and the reaper of ended children.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    recover::Recovery,
    spawn::{WarmWorker, WorkerBlueprint},
};
use crate::sys::process::{self, EndedChild};

/// A refill waits this long, so that the new connection's first call is served before the next exec.
const REFILL_DELAY: Duration = Duration::from_millis(5);
/// After a failed start, a client waits at most this long for the next attempt.
const MAX_START_WAIT: Duration = Duration::from_secs(1);
/// Starts that fail are repeated with growing pauses up to this one.
const MAX_START_PAUSE: Duration = Duration::from_secs(30);
const MIN_START_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct WorkerPool {
    pub blueprint: WorkerBlueprint,
    warm_count: usize,
    idle_workers: RefCell<VecDeque<WarmWorker>>,
    is_refilling: Cell<bool>,
    is_closed: Cell<bool>,
    /// Starts that failed in a row, and when the next may be tried.
    start_failures: Cell<u32>,
    next_start_at: Cell<Option<Instant>>,
    /// Recovery from lost workers of this profile.
    pub recovery: Recovery,
}

impl WorkerPool {
    pub fn new(blueprint: WorkerBlueprint, size: usize) -> Rc<Self> {
        Rc::new(Self {
            blueprint,
            warm_count: size,
            idle_workers: RefCell::default(),
            is_refilling: Cell::default(),
            is_closed: Cell::default(),
            start_failures: Cell::default(),
            next_start_at: Cell::default(),
            recovery: Recovery::default(),
        })
    }

    /// Takes a worker that is confined, proved and unused. Starts are rate-limited, so that clients cannot cause endless
    /// attempts if workers cannot start. `leaves_one`: the last warm worker stays for a connection of another uid.
    pub async fn take(self: &Rc<Self>, leaves_one: bool) -> Result<WarmWorker, String> {
        let is_last = leaves_one && self.idle_workers.borrow().len() <= 1;
        let warm = if is_last { None } else { self.take_usable_worker() };
        self.refill();
        if let Some(worker) = warm {
            return Ok(worker);
        }
        if let Some(at) = self.next_start_at.get().filter(|at| *at <= Instant::now() + MAX_START_WAIT) {
            tokio::time::sleep_until(at).await;
        }
        self.start_worker().await
    }

    /// Skips workers that ended while they waited (out of memory, killed by an operator).
    fn take_usable_worker(&self) -> Option<WarmWorker> {
        let mut idle = self.idle_workers.borrow_mut();
        while let Some(worker) = idle.pop_front() {
            if worker.is_usable() {
                return Some(worker);
            }
            worker.process.kill();
        }
        None
    }

    async fn start_worker(&self) -> Result<WarmWorker, String> {
        if self.next_start_at.get().is_some_and(|at| Instant::now() < at) {
            return Err("the last start of a worker failed; the next one is tried soon".into());
        }
        match self.blueprint.start_worker().await {
            Ok(worker) => {
                self.start_failures.set(0);
                self.next_start_at.set(None);
                Ok(worker)
            }
            Err(reason) => {
                let failures = self.start_failures.get().saturating_add(1);
                self.start_failures.set(failures);
                let pause = MIN_START_PAUSE.saturating_mul(1 << failures.min(9)).min(MAX_START_PAUSE);
                self.next_start_at.set(Some(Instant::now() + pause));
                tracing::error!(%reason, failures, pause_ms = pause.as_millis() as u64, "a worker could not be started");
                Err(reason)
            }
        }
    }

    /// Fills up in the background, one worker at a time.
    pub fn refill(self: &Rc<Self>) {
        if self.is_refilling.replace(true) {
            return;
        }
        let pool = self.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(REFILL_DELAY).await;
            while !pool.is_closed.get() && pool.idle_workers.borrow().len() < pool.warm_count {
                match pool.start_worker().await {
                    Ok(worker) => pool.add_idle_worker(worker),
                    Err(_) => {
                        let at = pool.next_start_at.get().unwrap_or_else(|| Instant::now() + MIN_START_PAUSE);
                        tokio::time::sleep_until(at).await;
                    }
                }
            }
            pool.is_refilling.set(false);
        });
    }

    fn add_idle_worker(&self, worker: WarmWorker) {
        if self.is_closed.get() {
            worker.process.kill();
        } else {
            self.idle_workers.borrow_mut().push_back(worker);
        }
    }

    /// Starts the first worker, which proves the jail before any client is served.
    pub async fn prove(&self) -> Result<(), String> {
        self.start_worker().await.map(|worker| self.add_idle_worker(worker))
    }

    /// Ends the idle workers. Workers that become idle later are killed.
    pub fn close(&self) {
        self.is_closed.set(true);
        for worker in self.idle_workers.borrow_mut().drain(..) {
            worker.process.kill();
        }
    }
}

/// Reaps every ended child and notifies the task that waits for it.
#[derive(Debug, Default)]
pub struct Reaper {
    watchers: RefCell<HashMap<u32, oneshot::Sender<EndedChild>>>,
}

impl Reaper {
    /// Call this at most once per child, before it is reaped.
    pub fn watch(&self, pid: u32) -> oneshot::Receiver<EndedChild> {
        let (sender, receiver) = oneshot::channel();
        self.watchers.borrow_mut().insert(pid, sender);
        receiver
    }

    /// Call this at every SIGCHLD. Several signals can merge into one, so this reaps all ended children.
    pub fn reap(&self) {
        while let Some(ended) = process::reap() {
            if let Some(sender) = self.watchers.borrow_mut().remove(&ended.pid) {
                // The send fails if the task no longer waits.
                let _ = sender.send(ended);
            }
        }
    }
}
