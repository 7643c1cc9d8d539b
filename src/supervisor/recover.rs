//! Recovery from lost workers: starts a confined worker that undoes their unfinished changes, before their clients get an
//! error, and repeats that until everything is in order. Runs in the event loop. Trusts: the profile. Does not trust: the
//! worker that recovers, whose report can only add names that are refused. Never touches a file itself.

use std::{
    cell::{Cell, RefCell},
    os::{fd::AsFd, unix::net::UnixStream},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{
    accept::Service, answer::ServedProfile, attend::UnsettledPath, audit::ClientConnection, blocking::run_blocking,
    peer::ConnectedPeer, pool::WorkerPool,
};
use crate::{broker::codec::ToWorker, sys::process::EndedChild};

/// The client of a lost worker gets its error after this time at the latest, even if recovery has not undone the changes yet.
/// Reads of their names answer C222 until then.
const MAX_CLIENT_WAIT: Duration = Duration::from_secs(2);

/// The supervisor repeats failed attempts for as long as it runs, with pauses that grow from the first to the longest.
const MIN_RECOVERY_PAUSE: Duration = Duration::from_millis(50);
const MAX_RECOVERY_PAUSE: Duration = Duration::from_secs(5);

/// An attempt that takes longer counts as failed.
const RECOVERY_RUN_TIMEOUT: Duration = Duration::from_secs(75);

/// Lost workers whose names are kept one by one while recovery fails. Beyond that all writable roots are unsettled instead: a
/// hostile worker can hold many names, and its client can connect again and again.
const MAX_LOST_WORKERS: usize = 8;

/// One for each profile.
#[derive(Debug, Default)]
pub struct Recovery {
    lost_workers: RefCell<Vec<LostWorker>>,
    is_running: Cell<bool>,
    worker_added: Notify,
}

/// A worker whose names no attempt has settled yet.
#[derive(Debug)]
struct LostWorker {
    /// `None` at the start of the service, for the changes that workers of earlier services left.
    worker: Option<u64>,
    /// Dropped, which closes the receiver, when an attempt that began after the worker was added has ended.
    _run_ended: Option<oneshot::Sender<()>>,
}

impl Recovery {
    /// Adds a lost worker. The receiver is closed when an attempt that covered this worker has ended.
    fn add_lost_worker(&self, worker: Option<u64>) -> oneshot::Receiver<()> {
        let (tried, is_tried) = oneshot::channel();
        self.lost_workers.borrow_mut().push(LostWorker { worker, _run_ended: Some(tried) });
        self.worker_added.notify_one();
        is_tried
    }

    /// False if a task runs recovery already.
    fn begin(&self) -> bool {
        !self.is_running.replace(true)
    }

    /// Takes the lost workers for the attempt that begins now.
    fn take_lost_workers(&self) -> Vec<LostWorker> {
        self.lost_workers.take()
    }

    /// After a failed attempt: the next one covers these workers again.
    fn put_back_lost_workers(&self, lost: Vec<LostWorker>) {
        self.lost_workers.borrow_mut().extend(lost.into_iter().map(|lost| LostWorker { _run_ended: None, ..lost }));
    }

    /// After an attempt that settled everything: false if another worker was lost meanwhile.
    fn end(&self) -> bool {
        let is_over = self.lost_workers.borrow().is_empty();
        self.is_running.set(!is_over);
        is_over
    }

    /// Waits before the next attempt, after `failures` in a row. Returns early if another worker is lost.
    async fn pause(&self, failures: u32) {
        let _ = tokio::time::timeout(pause_after(failures), self.worker_added.notified()).await;
    }
}

fn pause_after(failures: u32) -> Duration {
    MIN_RECOVERY_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(MAX_RECOVERY_PAUSE)
}

impl Service {
    /// Requests recovery from a lost worker, or at the start (`None`) from the workers of earlier services. The receiver is
    /// closed when an attempt that began after this call has ended, successful or not.
    pub(super) fn start_recovery(
        self: &Rc<Self>,
        lost: Option<u64>,
        profile: &Arc<ServedProfile>,
        pool: &Rc<WorkerPool>,
    ) -> oneshot::Receiver<()> {
        let is_start = lost.is_none();
        let tried = pool.recovery.add_lost_worker(lost);
        if pool.recovery.begin() {
            let (service, profile, pool) = (self.clone(), profile.clone(), pool.clone());
            tokio::task::spawn_local(async move { service.recover_until_settled(profile, pool, is_start).await });
        }
        tried
    }

    /// Attempts recovery until everything is in order. Names that are not stay unsettled meanwhile.
    async fn recover_until_settled(
        self: Rc<Self>,
        profile: Arc<ServedProfile>,
        pool: Rc<WorkerPool>,
        mut is_start: bool,
    ) {
        let own_id = self.leases.begin_recovery();
        let mut failures = 0;
        loop {
            let lost = pool.recovery.take_lost_workers();
            let workers: Vec<u64> = lost.iter().filter_map(|lost| lost.worker).collect();
            let is_done = match self.run_recovery(&profile, &pool, is_start).await {
                Ok(left) => {
                    failures = if left.is_empty() { 0 } else { failures + 1 };
                    let pause_ms = pause_after(failures).as_millis() as u64;
                    if let Some(UnsettledPath { path, reason }) = left.first() {
                        let (path, names) = (String::from_utf8_lossy(path), left.len());
                        tracing::error!(
                            ?path,
                            names,
                            ?reason,
                            failures,
                            pause_ms,
                            "an interrupted change could not be undone; calls on its names answer C222 until it is"
                        );
                    }
                    let is_done = left.is_empty();
                    self.leases.end_recovery(&workers, own_id, left.into_iter().map(|left| left.path).collect());
                    drop(lost);
                    is_done
                }
                Err(reason) => {
                    failures += 1;
                    let pause_ms = pause_after(failures).as_millis() as u64;
                    tracing::error!(
                        ?reason,
                        failures,
                        pause_ms,
                        "recovery failed; calls on names of interrupted changes answer C222 until it succeeds"
                    );
                    if is_start || workers.len() > MAX_LOST_WORKERS {
                        // At the start nothing is known about what earlier services left, so no name is safe to read.
                        self.leases.end_recovery(&workers, own_id, profile.writable_roots());
                    } else {
                        self.leases.keep_unsettled(&workers);
                        pool.recovery.put_back_lost_workers(lost);
                    }
                    false
                }
            };
            is_start = false;
            if !is_done {
                pool.recovery.pause(failures).await;
            } else if pool.recovery.end() {
                return;
            }
        }
    }

    /// Lets a confined worker undo the unfinished changes of lost workers. Returns the names that it could not put in order, or
    /// an error if it did not report. Instead of a client's connection the worker gets one end of a socket pair, on which
    /// nothing is sent. At the start this also waits until the worker has removed the folders of dead workers.
    async fn run_recovery(
        self: &Rc<Self>,
        profile: &Arc<ServedProfile>,
        pool: &Rc<WorkerPool>,
        is_start: bool,
    ) -> Result<Vec<UnsettledPath>, String> {
        let looked_at = profile.clone();
        // On another thread: a worker is often lost because the disk of its root hangs, and this call could hang, too.
        if !run_blocking(move || looked_at.may_need_recovery()).await? {
            return Ok(Vec::new());
        }
        let worker = pool.take(false).await?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        let peer = ConnectedPeer::read_credentials(ours.as_fd()).map_err(|errno| errno.to_string())?;
        let about = ClientConnection { id: self.take_id(), peer, roots: profile.root_names() };
        tracing::info!(connection = about.id, "recovering from lost workers");
        let (report, reported) = oneshot::channel();
        let (service, profile, pool) = (self.clone(), profile.clone(), pool.clone());
        let session = tokio::task::spawn_local(async move {
            let order = ToWorker::Recover { waits_for_journals: is_start };
            service.run_session(about, (&profile, &pool), worker, &order, theirs.into(), Some(report)).await;
            drop(ours);
        });
        // The worker keeps to a shorter limit by itself, unless it hangs or is hostile.
        let until = tokio::time::Instant::now() + RECOVERY_RUN_TIMEOUT;
        let end = session.abort_handle();
        let left = match tokio::time::timeout_at(until, reported).await {
            Ok(left) => left.map_err(|_| "the worker that recovers was lost".to_owned()),
            Err(_) => {
                Err(format!("the worker that recovers did not report within {} s", RECOVERY_RUN_TIMEOUT.as_secs()))
            }
        };
        if left.is_err() || (is_start && tokio::time::timeout_at(until, session).await.is_err()) {
            // Drops the session, which kills its worker.
            end.abort();
        }
        left
    }

    /// Starts recovery from a lost worker and waits for the first attempt, at most `MAX_CLIENT_WAIT`. If the killed process has not
    /// ended yet (`not_reaped`), it may still change something and holds the lock of its journal. Recovery then starts when
    /// it has ended, and this function does not wait.
    pub(super) async fn recover_from(
        self: &Rc<Self>,
        worker: u64,
        not_reaped: Option<oneshot::Receiver<EndedChild>>,
        profile: &Arc<ServedProfile>,
        pool: &Rc<WorkerPool>,
    ) {
        let Some(ended) = not_reaped else {
            let tried = self.start_recovery(Some(worker), profile, pool);
            let _ = tokio::time::timeout(MAX_CLIENT_WAIT, tried).await;
            return;
        };
        let (service, profile, pool) = (self.clone(), profile.clone(), pool.clone());
        tokio::task::spawn_local(async move {
            let _ = ended.await;
            drop(service.start_recovery(Some(worker), &profile, &pool));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let pauses = [1, 2, 3, 7, 8, 1000].map(|failures| pause_after(failures).as_millis());
        assert_eq!(pauses, [50, 100, 200, 3200, 5000, 5000]);
    }

    #[test]
    fn whoever_lost_a_worker_waits_for_an_attempt_that_began_later() {
        let recovery = Recovery::default();
        let mut first = recovery.add_lost_worker(Some(1));
        assert!(recovery.begin() && !recovery.begin());
        let taken = recovery.take_lost_workers();
        let mut second = recovery.add_lost_worker(Some(2));
        recovery.put_back_lost_workers(taken);
        assert!(first.try_recv() == Err(oneshot::error::TryRecvError::Closed), "its attempt has ended");
        assert!(second.try_recv() == Err(oneshot::error::TryRecvError::Empty), "its own has not begun");
        assert!(!recovery.end(), "both are still to be settled");
        let workers: Vec<u64> = recovery.take_lost_workers().iter().filter_map(|lost| lost.worker).collect();
        assert_eq!(workers, [2, 1]);
        assert!(second.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert!(recovery.end() && recovery.begin(), "the next loss begins anew");
    }
}
