//! The session of one connection: hands it to a worker, starts the attendant, and ends the worker when the client hangs up, the
//! service stops or the attendant reports an end. Runs in the event loop of the supervisor. Trusts the profile. Does not trust the
//! peer or the worker. Never reads from the connection.

use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{
        Notify,
        mpsc::{self, Receiver},
        oneshot, watch,
    },
    task::JoinSet,
    time::Instant,
};

use super::{
    attend::{self, Attendant, PendingAnswer, ServedConnection, UnsettledPath, WorkerEnd},
    quota::UidQuota,
    reservations::WorkerReservations,
    spawn::WarmWorker,
};
use crate::{
    broker::{LEFT_TO_RECOVERY, codec::ToWorker},
    sys::{
        process::EndedChild,
        socket::{self, WaitMode},
    },
    terms::{Code, Limits},
};

/// After a hang-up a worker gets this long to finish its writes. A worker that takes longer is stuck.
const HANG_UP_GRACE: Duration = Duration::from_secs(5);
/// Running calls get this long when the service stops.
pub const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// Messages of one worker that may wait for a lease, for each of its threads. A correct worker has one for each thread.
const MAX_PENDING_PER_THREAD: usize = 2;
/// Stack of an attendant. Resolving does not recurse; the largest value on the stack is the buffer for received descriptors.
const STACK_BYTES: usize = 128 << 10;
/// Time for a killed process to end. It takes longer only if the process is blocked in a system call.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

/// Orders of the service to all its sessions.
#[derive(Debug, Clone)]
pub struct SessionOrders {
    pub is_draining: bool,
    pub limits: Rc<Limits>,
}

pub struct WorkerSession {
    pub served: Arc<ServedConnection>,
    /// The limits that the worker knows.
    pub limits: Limits,
    pub reservation_quota: Arc<UidQuota>,
    /// Threads of the worker.
    pub worker_threads: usize,
    pub orders: watch::Receiver<SessionOrders>,
    pub hung_up: Rc<Notify>,
    pub worker_ended: oneshot::Receiver<EndedChild>,
    /// Only for a worker that recovers: receives its report.
    pub report: Option<oneshot::Sender<Vec<UnsettledPath>>>,
}

/// The result of a session, for `WorkerSession::close`.
#[derive(Debug)]
pub struct SessionEnd {
    ending: WorkerEnd,
    /// The line for the client of a lost worker. `None` after an orderly end.
    error_frame: Option<String>,
    attendant_end: oneshot::Receiver<WorkerEnd>,
    /// Set if the killed process had not ended within `REAP_TIMEOUT`: receives its end.
    pub not_reaped: Option<oneshot::Receiver<EndedChild>>,
}

impl SessionEnd {
    pub fn was_lost(&self) -> bool {
        self.error_frame.is_some()
    }
}

impl WorkerSession {
    /// Serves until the worker is gone. Sends nothing to the client yet, see `close`. If the worker was lost, the names that it
    /// was changing are unsettled until recovery has put them in order.
    pub async fn run(&mut self, worker: WarmWorker, order: &ToWorker, connection: &Arc<OwnedFd>) -> SessionEnd {
        let channel = worker.channel.clone();
        let (served, recovers) = (self.served.clone(), self.report.is_some());
        let (leases, id) = (&served.leases, served.client.id);
        leases.add_worker(id, channel.clone(), recovers);
        let mut custody = WorkerGuard { worker, served: served.clone(), session_has_ended: false };
        let (said, mut attendant) = oneshot::channel();
        let ending = match self.hand_over(&channel, order, connection, said) {
            Ok(waiting) => self.watch_events(&channel, &mut attendant, waiting).await,
            Err(ending) => ending,
        };
        // Before the worker is killed, so that no client reads a half-done change. After an orderly end it holds no lease.
        if !recovers {
            leases.mark_lost(id);
        }
        custody.session_has_ended = true;
        drop(custody);
        let reaped = tokio::time::timeout(REAP_TIMEOUT, &mut self.worker_ended).await;
        let ended = reaped.as_ref().ok().and_then(|ended| ended.as_ref().ok()).copied();
        let last_words = error_frame_for_client(&ending, ended);
        if last_words.is_some() {
            tracing::warn!(connection = id, ?ending, ?ended, "a worker was lost");
        }
        if recovers || last_words.is_none() {
            leases.release_worker(id);
        }
        let not_reaped = reaped.is_err().then(|| std::mem::replace(&mut self.worker_ended, oneshot::channel().1));
        SessionEnd { ending, error_frame: last_words, attendant_end: attendant, not_reaped }
    }

    /// Sends the error line if the worker was lost, writes the audit record and closes the connection.
    pub async fn close(self, over: SessionEnd, connection: Arc<OwnedFd>) {
        if let Some(line) = &over.error_frame {
            // Never waits: a client that does not read gets no error line.
            let _ = socket::send_stream(connection.as_fd(), line.as_bytes(), WaitMode::Now);
        }
        self.served.audit.record_ended(&self.served.client, &over.ending.to_string());
        // Shuts the socket down, because closing it is not enough: the client sees no end while a duplicate of the descriptor
        // exists.
        socket::shutdown(&connection);
        // An attendant thread that a dead mount blocks still counts as a connection of its uid.
        if !over.attendant_end.is_terminated() {
            let _ = over.attendant_end.await;
        }
    }

    /// Passes the connection to the worker and starts its attendant thread.
    fn hand_over(
        &mut self,
        channel: &Arc<OwnedFd>,
        order: &ToWorker,
        connection: &Arc<OwnedFd>,
        said: oneshot::Sender<WorkerEnd>,
    ) -> Result<Receiver<PendingAnswer>, WorkerEnd> {
        let lost = |why: &dyn std::fmt::Display| {
            WorkerEnd::ProtocolViolation(format!("the connection could not be handed over: {why}"))
        };
        let (waiting, received) = mpsc::channel(self.max_pending_answers());
        self.served.limits.set(&self.limits);
        let attendant = Attendant {
            channel: channel.clone(),
            connection: connection.clone(),
            served: self.served.clone(),
            reservations: WorkerReservations::new(&self.reservation_quota, self.served.client.peer.uid),
            pending_answers: waiting,
            report: self.report.take(),
        };
        let thread = std::thread::Builder::new().name("attendant".into()).stack_size(STACK_BYTES);
        thread.spawn(move || said.send(attendant.run())).map_err(|error| lost(&error))?;
        socket::send(channel.as_fd(), &order.encode(), &[connection.as_fd()], WaitMode::Now)
            .map_err(|errno| lost(&errno))?;
        Ok(received)
    }

    /// Waits for the events that the attendant, which blocks in a receive, cannot wait for: the client's hang-up, the end of the
    /// service, and leases of names that another client is changing.
    async fn watch_events(
        &mut self,
        channel: &Arc<OwnedFd>,
        attendant: &mut oneshot::Receiver<WorkerEnd>,
        mut waiting: Receiver<PendingAnswer>,
    ) -> WorkerEnd {
        let far_future = Instant::now() + Duration::from_secs(86_400 * 365);
        let finish_by = tokio::time::sleep_until(far_future);
        tokio::pin!(finish_by);
        // Dropped with the session: no session would release a lease that is granted later.
        let mut leased = JoinSet::new();
        loop {
            let grace = tokio::select! {
                ending = &mut *attendant => return ending.unwrap_or(WorkerEnd::Closed),
                () = &mut finish_by => return WorkerEnd::GraceExpired,
                () = self.hung_up.notified() => HANG_UP_GRACE,
                Ok(()) = self.orders.changed() => match self.apply_orders(channel) {
                    Ok(Some(grace)) => grace,
                    Ok(None) => continue,
                    Err(ending) => return ending,
                },
                Some(mut one) = waiting.recv() => {
                    // Answers that were delivered no longer count towards the limit.
                    while let Some(delivered) = leased.try_join_next() {
                        if let Ok(Err(ending)) = delivered {
                            return ending;
                        }
                    }
                    if leased.len() >= self.max_pending_answers() {
                        return WorkerEnd::ProtocolViolation(attend::TOO_MANY_PENDING.into());
                    }
                    let (channel, served) = (channel.clone(), self.served.clone());
                    leased.spawn(async move {
                        let reply = one.wait(&served).await;
                        served.audit.record_decisions(&served.client, &one.questions, &reply.refusals());
                        attend::send_answers(&channel, one.id, reply, true)
                    });
                    continue;
                }
                Some(delivered) = leased.join_next() => match delivered {
                    Ok(Err(ending)) => return ending,
                    _ => continue,
                }
            };
            let at = Instant::now() + grace;
            if at < finish_by.deadline() {
                finish_by.as_mut().reset(at);
            }
        }
    }

    fn max_pending_answers(&self) -> usize {
        MAX_PENDING_PER_THREAD * self.worker_threads
    }

    /// Sends changed limits and the order to drain to the worker. Returns how long the worker may still run, if it has to
    /// end.
    fn apply_orders(&mut self, channel: &OwnedFd) -> Result<Option<Duration>, WorkerEnd> {
        let SessionOrders { is_draining: draining, limits } = self.orders.borrow_and_update().clone();
        if *limits != self.limits {
            let json = serde_json::to_vec(&*limits).map_err(|error| WorkerEnd::ProtocolViolation(error.to_string()))?;
            attend::send_message(channel, &ToWorker::Limits { json }, &[])?;
            self.served.limits.set(&limits);
            self.limits = Limits::clone(&limits);
        }
        if !draining {
            return Ok(None);
        }
        attend::send_message(channel, &ToWorker::Drain, &[]).map_err(|_| WorkerEnd::GraceExpired)?;
        Ok(Some(DRAIN_GRACE))
    }
}

/// Kills the worker when the session ends for any reason. After a panic no recovery would run, so its leases are released.
struct WorkerGuard {
    worker: WarmWorker,
    served: Arc<ServedConnection>,
    /// The session has ended without a panic and handles the leases itself.
    session_has_ended: bool,
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        self.worker.process.kill();
        // The killed process can stay in a system call and hold its end of the channel open, so this shuts the channel down.
        socket::shutdown(&self.worker.channel);
        if !self.session_has_ended {
            self.served.leases.release_worker(self.served.client.id);
        }
    }
}

/// The line that a client gets when its worker was lost. `None` after an orderly end.
fn error_frame_for_client(ending: &WorkerEnd, ended: Option<EndedChild>) -> Option<String> {
    let (code, message) = match ending {
        WorkerEnd::Closed if ended.is_some_and(|ended| ended.status == Some(0)) => return None,
        WorkerEnd::Closed if ended.is_some_and(|ended| ended.status == Some(LEFT_TO_RECOVERY)) => {
            (Code::Io, "a change failed and its worker could not undo it; the service undoes it")
        }
        WorkerEnd::Overdue => (Code::Deadline, "a call did not end in time and its worker was stopped"),
        WorkerEnd::GraceExpired => (Code::Deadline, "the service stops and a call did not end in time"),
        WorkerEnd::Closed | WorkerEnd::ProtocolViolation(_) => (Code::Io, "the worker of this connection was lost"),
    };
    let message = format!("{message}; the outcome of open calls is unknown; reconnect and look");
    Some(super::peer::error_frame(code, &message))
}
