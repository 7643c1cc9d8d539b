//! Warm workers per profile, so that no client waits for an exec; and the reaper of all that ended.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    recover::Recovery,
    spawn::{Blueprint, Worker},
};
use crate::sys::process::{self, Ended};

/// A refill waits this long, so that the new connection's first call is served before the next exec.
const REFILL_DELAY: Duration = Duration::from_millis(5);
/// A client waits at most this long for the next attempt after a start that failed; then it is told.
const PATIENCE: Duration = Duration::from_secs(1);
/// Starts that fail are repeated with growing pauses up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Pool {
    pub blueprint: Blueprint,
    size: usize,
    idle: RefCell<VecDeque<Worker>>,
    refilling: Cell<bool>,
    closed: Cell<bool>,
    /// Starts that failed in a row, and when the next may be tried.
    failures: Cell<u32>,
    not_before: Cell<Option<Instant>>,
    /// Recovery from lost workers of this profile.
    pub recovery: Recovery,
}

impl Pool {
    pub fn new(blueprint: Blueprint, size: usize) -> Rc<Self> {
        Rc::new(Self {
            blueprint,
            size,
            idle: RefCell::default(),
            refilling: Cell::default(),
            closed: Cell::default(),
            failures: Cell::default(),
            not_before: Cell::default(),
            recovery: Recovery::default(),
        })
    }

    /// A worker that is confined, proved and unused. Rate-limited: a worker that cannot start is not tried for
    /// every client that asks. `leaves_one`: the last warm worker stays for a connection of another uid.
    pub async fn take(self: &Rc<Self>, leaves_one: bool) -> Result<Worker, String> {
        let is_last = leaves_one && self.idle.borrow().len() <= 1;
        let warm = if is_last { None } else { self.next_fit() };
        self.refill();
        if let Some(worker) = warm {
            return Ok(worker);
        }
        if let Some(at) = self.not_before.get().filter(|at| *at <= Instant::now() + PATIENCE) {
            tokio::time::sleep_until(at).await;
        }
        self.start().await
    }

    /// One that ended while it waited (out of memory, an operator) must not meet a client.
    fn next_fit(&self) -> Option<Worker> {
        let mut idle = self.idle.borrow_mut();
        while let Some(worker) = idle.pop_front() {
            if worker.is_fit() {
                return Some(worker);
            }
            worker.process.kill();
        }
        None
    }

    async fn start(&self) -> Result<Worker, String> {
        if self.not_before.get().is_some_and(|at| Instant::now() < at) {
            return Err("the last start of a worker failed; the next one is tried soon".into());
        }
        match self.blueprint.start().await {
            Ok(worker) => {
                self.failures.set(0);
                self.not_before.set(None);
                Ok(worker)
            }
            Err(reason) => {
                let failures = self.failures.get().saturating_add(1);
                self.failures.set(failures);
                let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(9)).min(LONGEST_PAUSE);
                self.not_before.set(Some(Instant::now() + pause));
                tracing::error!(%reason, failures, pause_ms = pause.as_millis() as u64, "a worker could not be started");
                Err(reason)
            }
        }
    }

    /// Fills up in the background, one worker at a time.
    pub fn refill(self: &Rc<Self>) {
        if self.refilling.replace(true) {
            return;
        }
        let pool = self.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(REFILL_DELAY).await;
            while !pool.closed.get() && pool.idle.borrow().len() < pool.size {
                match pool.start().await {
                    Ok(worker) => pool.put(worker),
                    Err(_) => {
                        let at = pool.not_before.get().unwrap_or_else(|| Instant::now() + FIRST_PAUSE);
                        tokio::time::sleep_until(at).await;
                    }
                }
            }
            pool.refilling.set(false);
        });
    }

    fn put(&self, worker: Worker) {
        if self.closed.get() {
            worker.process.kill();
        } else {
            self.idle.borrow_mut().push_back(worker);
        }
    }

    /// The first worker, which proves the jail before anything is served.
    pub async fn prove(&self) -> Result<(), String> {
        self.start().await.map(|worker| self.put(worker))
    }

    /// No more workers; the idle ones end.
    pub fn close(&self) {
        self.closed.set(true);
        for worker in self.idle.borrow_mut().drain(..) {
            worker.process.kill();
        }
    }
}

/// Collects every child that ended and tells whoever waits for it.
#[derive(Debug, Default)]
pub struct Reaper {
    waiting: RefCell<HashMap<u32, oneshot::Sender<Ended>>>,
}

impl Reaper {
    /// To be called for a child that has not been reaped yet; at most once for each.
    pub fn watch(&self, pid: u32) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(pid, sender);
        receiver
    }

    /// On every SIGCHLD; signals merge, so all that ended are taken.
    pub fn reap(&self) {
        while let Some(ended) = process::reap() {
            if let Some(sender) = self.waiting.borrow_mut().remove(&ended.pid) {
                // The task may have stopped caring; then so do we.
                let _ = sender.send(ended);
            }
        }
    }
}
