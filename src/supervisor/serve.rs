//! One connection's life: hand it to a worker, answer that worker's questions, see it end.
//! Trusts: the profile. Does not trust: the peer, the worker. Never reads the connection.

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
    answer::Profile,
    attend::{self, Attendant, Ending, Left, Waiting},
    audit::{Audit, Connection},
    lease::Leases,
    quota::Quota,
    reserve::{Bounds, Reserved},
    spawn::Worker,
};
use crate::{
    broker::{LEFT_TO_RECOVERY, codec::ToWorker},
    sys::{
        process::Ended,
        socket::{self, Wait},
    },
    terms::{Code, Limits},
};

/// After a hang-up a worker finishes what it is writing; one that does not is stuck.
const HANG_UP_GRACE: Duration = Duration::from_secs(5);
/// Running calls get this long when the service stops.
pub const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// Messages of one worker that wait for a lease, for each of its threads. A sane one has one there at a time.
const MAX_WAITING_PER_THREAD: usize = 2;
/// Resolving does not recurse; the largest thing on the stack is the space for descriptors in flight.
const STACK_BYTES: usize = 128 << 10;
/// A killed process is gone soon, unless the kernel holds it in a system call.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

/// What the service tells all its sessions.
#[derive(Debug, Clone)]
pub struct Orders {
    pub draining: bool,
    pub limits: Rc<Limits>,
}

pub struct Session {
    pub profile: Arc<Profile>,
    pub leases: Arc<Leases>,
    pub audit: Arc<Audit>,
    pub about: Arc<Connection>,
    /// What the worker keeps to.
    pub limits: Limits,
    /// The limits that its attendant checks.
    pub bounds: Arc<Bounds>,
    pub reservations: Arc<Quota>,
    /// Of the worker.
    pub threads: usize,
    pub orders: watch::Receiver<Orders>,
    pub hung_up: Rc<Notify>,
    pub ended: oneshot::Receiver<Ended>,
    /// Only for a worker that recovers: receives its report.
    pub report: Option<oneshot::Sender<Vec<Left>>>,
}

/// How a session ended, for `Session::close`.
#[derive(Debug)]
pub struct Over {
    ending: Ending,
    /// The line for the client of a lost worker. `None` after an orderly end.
    last_words: Option<String>,
    attendant: oneshot::Receiver<Ending>,
    /// Set if the killed process had not ended within `REAP_TIMEOUT`: receives its end.
    pub not_reaped: Option<oneshot::Receiver<Ended>>,
}

impl Over {
    pub fn was_lost(&self) -> bool {
        self.last_words.is_some()
    }
}

impl Session {
    /// Serves until the worker is gone. Sends nothing to the client yet, see `close`. If the worker was lost, the names that it
    /// was changing are unsettled until recovery has put them in order.
    pub async fn run(&mut self, worker: Worker, order: &ToWorker, connection: &Arc<OwnedFd>) -> Over {
        let channel = worker.channel.clone();
        let (id, recovers) = (self.about.id, self.report.is_some());
        self.leases.join(id, channel.clone(), recovers);
        let mut custody = Custody { worker, leases: self.leases.clone(), id, is_over: false };
        let (said, mut attendant) = oneshot::channel();
        let ending = match self.hand_over(&channel, order, connection, said) {
            Ok(waiting) => self.watch(&channel, &mut attendant, waiting).await,
            Err(ending) => ending,
        };
        // Before the worker is killed, so that no client reads a half-done change. After an orderly end it holds no lease.
        if !recovers {
            self.leases.lose(id);
        }
        custody.is_over = true;
        drop(custody);
        let reaped = tokio::time::timeout(REAP_TIMEOUT, &mut self.ended).await;
        let ended = reaped.as_ref().ok().and_then(|ended| ended.as_ref().ok()).copied();
        let last_words = last_words(&ending, ended);
        if last_words.is_some() {
            tracing::warn!(connection = id, ?ending, ?ended, "a worker was lost");
        }
        if recovers || last_words.is_none() {
            self.leases.release_worker(id);
        }
        let not_reaped = reaped.is_err().then(|| std::mem::replace(&mut self.ended, oneshot::channel().1));
        Over { ending, last_words, attendant, not_reaped }
    }

    /// Sends the error line if the worker was lost, writes the audit record and closes the connection.
    pub async fn close(self, over: Over, connection: Arc<OwnedFd>) {
        if let Some(line) = &over.last_words {
            // Never waits: a client that does not read gets no explanation.
            let _ = socket::send_stream(connection.as_fd(), line.as_bytes(), Wait::Now);
        }
        self.audit.ended(&self.about, &over.ending.to_string());
        // Shut down, not only closed: while any duplicate lives the client would see no end.
        socket::shutdown(&connection);
        // A thread that a dead mount holds still counts as a connection of its user.
        if !over.attendant.is_terminated() {
            let _ = over.attendant.await;
            // What it was answering when the session ended may have taken a lease since.
            self.leases.release_late(self.about.id);
        }
    }

    /// The connection goes to the worker, and the worker gets a thread that attends to it.
    fn hand_over(
        &mut self,
        channel: &Arc<OwnedFd>,
        order: &ToWorker,
        connection: &Arc<OwnedFd>,
        said: oneshot::Sender<Ending>,
    ) -> Result<Receiver<Waiting>, Ending> {
        let lost = |why: &dyn std::fmt::Display| {
            Ending::Nonsense(format!("the connection could not be handed over: {why}"))
        };
        let (waiting, received) = mpsc::channel(self.most_waiting());
        self.bounds.set(&self.limits);
        let attendant = Attendant {
            channel: channel.clone(),
            connection: connection.clone(),
            bounds: self.bounds.clone(),
            reserved: Reserved::new(&self.reservations, self.about.peer.uid),
            profile: self.profile.clone(),
            leases: self.leases.clone(),
            audit: self.audit.clone(),
            about: self.about.clone(),
            waiting,
            report: self.report.take(),
        };
        let thread = std::thread::Builder::new().name("attendant".into()).stack_size(STACK_BYTES);
        thread.spawn(move || said.send(attendant.run())).map_err(|error| lost(&error))?;
        socket::send(channel.as_fd(), &order.encode(), &[connection.as_fd()], Wait::Now)
            .map_err(|errno| lost(&errno))?;
        Ok(received)
    }

    /// Waits for the events that the attendant, which blocks in a receive, cannot wait for: the client's hang-up, the end of the
    /// service, and leases of names that another client is changing.
    async fn watch(
        &mut self,
        channel: &Arc<OwnedFd>,
        attendant: &mut oneshot::Receiver<Ending>,
        mut waiting: Receiver<Waiting>,
    ) -> Ending {
        let far_future = Instant::now() + Duration::from_secs(86_400 * 365);
        let finish_by = tokio::time::sleep_until(far_future);
        tokio::pin!(finish_by);
        // Dropped with the session: no session would release a lease that is granted later.
        let mut leased = JoinSet::new();
        loop {
            let grace = tokio::select! {
                ending = &mut *attendant => return ending.unwrap_or(Ending::Closed),
                () = &mut finish_by => return Ending::Late,
                () = self.hung_up.notified() => HANG_UP_GRACE,
                Ok(()) = self.orders.changed() => match self.obey(channel) {
                    Ok(Some(grace)) => grace,
                    Ok(None) => continue,
                    Err(ending) => return ending,
                },
                Some(mut one) = waiting.recv() => {
                    // Those that have their answer no longer count.
                    while let Some(delivered) = leased.try_join_next() {
                        if let Ok(Err(ending)) = delivered {
                            return ending;
                        }
                    }
                    if leased.len() >= self.most_waiting() {
                        return Ending::Nonsense(attend::TOO_MANY_WAIT.into());
                    }
                    let (channel, leases) = (channel.clone(), self.leases.clone());
                    let (audit, about) = (self.audit.clone(), self.about.clone());
                    let profile = self.profile.clone();
                    leased.spawn(async move {
                        let reply = one.wait(about.id, &profile, &leases).await;
                        audit.decided(&about, &one.asked, &reply.refusals());
                        attend::deliver(&channel, one.id, reply, true)
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

    fn most_waiting(&self) -> usize {
        MAX_WAITING_PER_THREAD * self.threads
    }

    /// How long the worker has from now on, if it has to end.
    fn obey(&mut self, channel: &OwnedFd) -> Result<Option<Duration>, Ending> {
        let Orders { draining, limits } = self.orders.borrow_and_update().clone();
        if *limits != self.limits {
            let json = serde_json::to_vec(&*limits).map_err(|error| Ending::Nonsense(error.to_string()))?;
            attend::send(channel, &ToWorker::Limits { json }, &[])?;
            self.bounds.set(&limits);
            self.limits = Limits::clone(&limits);
        }
        if !draining {
            return Ok(None);
        }
        attend::send(channel, &ToWorker::Drain, &[]).map_err(|_| Ending::Late)?;
        Ok(Some(DRAIN_GRACE))
    }
}

/// Kills the worker when the session ends for any reason. After a panic no recovery would run, so its leases are released.
struct Custody {
    worker: Worker,
    leases: Arc<Leases>,
    id: u64,
    /// The session has ended without a panic and handles the leases itself.
    is_over: bool,
}

impl Drop for Custody {
    fn drop(&mut self) {
        self.worker.process.kill();
        // The worker's end may be held in the kernel for longer than it lives.
        socket::shutdown(&self.worker.channel);
        if !self.is_over {
            self.leases.release_worker(self.id);
        }
    }
}

/// The line that a client gets when its worker was lost. `None` after an orderly end.
fn last_words(ending: &Ending, ended: Option<Ended>) -> Option<String> {
    let (code, message) = match ending {
        Ending::Closed if ended.is_some_and(|ended| ended.status == Some(0)) => return None,
        Ending::Closed if ended.is_some_and(|ended| ended.status == Some(LEFT_TO_RECOVERY)) => {
            (Code::Io, "a change failed and its worker could not undo it; the service undoes it")
        }
        Ending::Overdue => (Code::Deadline, "a call did not end in time and its worker was stopped"),
        Ending::Late => (Code::Deadline, "the service stops and a call did not end in time"),
        Ending::Closed | Ending::Nonsense(_) => (Code::Io, "the worker of this connection was lost"),
    };
    let message = format!("{message}; the outcome of open calls is unknown; reconnect and look");
    Some(super::peer::error_line(code, &message))
}
