//! One connection's life: hand it to a worker, answer that worker's questions, see it end.
//! Trusts: the profile. Does not trust: the peer, the worker. Never reads the connection.

use std::{
    cell::Cell,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, oneshot, watch},
    task::JoinSet,
    time::Instant,
};

use super::{
    answer::{Profile, Reply},
    audit::{Audit, Connection},
    lease::Leases,
    spawn::{self, Worker},
};
use crate::{
    broker::{
        Refusal,
        codec::{Answered, Asked, ToSupervisor, ToWorker},
    },
    sys::{
        process::Ended,
        socket::{self, Wait},
    },
};

/// How long after its deadline a call may still be running.
const DEADLINE_GRACE: Duration = Duration::from_secs(5);
/// A healthy worker answers a ping at once, whatever it does.
const PONG_TIMEOUT: Duration = Duration::from_secs(2);
/// After a hang-up a worker finishes what it is writing; one that does not is stuck.
const HANG_UP_GRACE: Duration = Duration::from_secs(5);
/// Running calls get this long when the service stops.
pub const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// Replies that a worker leaves unread hold descriptors that count against everybody.
const MAX_UNREAD_BYTES: usize = 64 << 10;
/// Messages of one worker that are handled before the others get their turn.
const MESSAGES_IN_A_ROW: u32 = 8;
/// Answers between two looks at what is unread. Each look is a system call, and eight answers more do no harm.
const LOOK_EVERY: u32 = 8;
/// A killed process is gone soon, unless the kernel holds it in a system call.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a worker was ended, if it did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    /// It closed the channel: finished, or crashed.
    Closed,
    /// A call outlived its deadline, or the worker no longer answers.
    Overdue,
    /// It sent what a sane worker never sends.
    Nonsense(String),
    /// The client is gone, or the service stops, and it did not end in time.
    Late,
}

pub struct Session {
    pub id: u64,
    pub profile: Rc<Profile>,
    pub leases: Rc<Leases>,
    pub audit: Rc<Audit>,
    pub about: Connection,
    pub draining: watch::Receiver<bool>,
    pub hung_up: Rc<Notify>,
    pub ended: oneshot::Receiver<Ended>,
    /// Answers since the last look at what the worker has left unread.
    pub unseen: Rc<Cell<u32>>,
    /// Answers that wait for a lease. They end with the session: what a worker that is gone were to get nobody would give
    /// back.
    pub waiting: JoinSet<()>,
}

impl Session {
    /// Serves until the worker is gone. Afterwards the connection is closed, whatever happened. True if it was lost.
    pub async fn run(mut self, worker: Worker, order: &ToWorker, connection: OwnedFd) -> bool {
        let handed_over =
            socket::send(worker.channel.get_ref().as_fd(), &order.encode(), &[connection.as_fd()], Wait::Now);
        let ending = match handed_over {
            Ok(()) => self.attend(&worker.channel).await,
            Err(errno) => Ending::Nonsense(format!("the connection could not be handed over: {errno}")),
        };
        worker.process.kill();
        self.waiting.shutdown().await;
        self.leases.release_worker(self.id);
        let ended = tokio::time::timeout(REAP_TIMEOUT, &mut self.ended).await.ok().and_then(Result::ok);
        let last_words = last_words(&ending, ended);
        if let Some(line) = &last_words {
            tracing::warn!(connection = self.id, ?ending, ?ended, "a worker was lost");
            // Never waits: a client that does not read has lost its claim to an explanation.
            let _ = socket::send_stream(connection.as_fd(), line.as_bytes(), Wait::Now);
        }
        self.audit.disconnected(&self.about, &format!("{ending:?}"));
        // Shut down, not only closed: while any duplicate lives the client would see no end.
        socket::shutdown(&connection);
        last_words.is_some()
    }

    async fn attend(&mut self, channel: &Rc<AsyncFd<OwnedFd>>) -> Ending {
        let far_future = Instant::now() + Duration::from_secs(86_400 * 365);
        let timer = tokio::time::sleep_until(far_future);
        tokio::pin!(timer);
        let mut watchdog = Watchdog::default();
        let mut finish_by = None;
        let mut in_a_row = 0u32;
        loop {
            in_a_row += 1;
            if in_a_row.is_multiple_of(MESSAGES_IN_A_ROW) {
                tokio::task::yield_now().await;
            }
            tokio::select! {
                biased;
                message = spawn::receive(channel) => match message {
                    Ok(None) => return Ending::Closed,
                    Ok(Some(ToSupervisor::Resolve { id, asked })) => {
                        watchdog.call(&asked);
                        if let Err(ending) = self.resolve(channel, id, &asked) {
                            return ending;
                        }
                    }
                    Ok(Some(ToSupervisor::Release { leases })) => self.leases.release(self.id, &leases),
                    Ok(Some(ToSupervisor::Pong { nonce, overdue, next_ms })) => {
                        if let Err(ending) = watchdog.pong(nonce, overdue, next_ms) {
                            return ending;
                        }
                    }
                    Ok(Some(ToSupervisor::Ready { .. })) => return Ending::Nonsense("ready twice".into()),
                    Err(reason) => return Ending::Nonsense(reason),
                },
                () = &mut timer => {
                    if finish_by.is_some_and(|at| Instant::now() >= at) {
                        return Ending::Late;
                    }
                    if let Err(ending) = watchdog.expire(channel) {
                        return ending;
                    }
                }
                () = self.hung_up.notified() => finish_by = earlier(finish_by, Instant::now() + HANG_UP_GRACE),
                Ok(()) = self.draining.changed() => {
                    finish_by = earlier(finish_by, Instant::now() + DRAIN_GRACE);
                    if send(channel, &ToWorker::Drain, &[]).is_err() {
                        return Ending::Late;
                    }
                }
            }
            let wake_at = finish_by.into_iter().chain(watchdog.at()).min().unwrap_or(far_future);
            if timer.deadline() != wake_at {
                timer.as_mut().reset(wake_at);
            }
        }
    }

    fn resolve(&mut self, channel: &Rc<AsyncFd<OwnedFd>>, id: u32, asked: &[Asked]) -> Result<(), Ending> {
        let mut reply = self.profile.answer(asked);
        self.record(asked, &reply);
        if reply.wanted.is_empty() {
            return deliver(channel, &self.unseen, id, reply);
        }
        // A lease may have to be waited for, perhaps for the release that this very worker sends next: never here.
        let (channel, unseen) = (channel.clone(), self.unseen.clone());
        let (leases, worker) = (self.leases.clone(), self.id);
        while self.waiting.try_join_next().is_some() {}
        self.waiting.spawn_local(async move {
            reply.lease(worker, &leases).await;
            // A worker that does not take its answers is found out at the next message.
            let _ = deliver(&channel, &unseen, id, reply);
        });
        Ok(())
    }

    fn record(&self, asked: &[Asked], reply: &Reply) {
        for (one, answer) in asked.iter().zip(&reply.answers) {
            let refusal = match answer {
                Answered::Parent { .. } => None,
                Answered::Refused(refusal) => Some(*refusal),
            };
            self.audit.decided(&self.about, one, refusal);
        }
    }
}

fn deliver(channel: &AsyncFd<OwnedFd>, unseen: &Cell<u32>, id: u32, mut reply: Reply) -> Result<(), Ending> {
    unseen.set((unseen.get() + 1) % LOOK_EVERY);
    if unseen.get() == 0
        && socket::unread_bytes(channel.get_ref()).is_ok_and(|bytes| bytes > MAX_UNREAD_BYTES)
    {
        return Err(Ending::Nonsense("does not read its answers".into()));
    }
    let answers = std::mem::take(&mut reply.answers);
    let Some(fds) = reply.descriptors() else {
        return Err(Ending::Nonsense("an answer that is no O_PATH directory".into()));
    };
    send(channel, &ToWorker::Answers { id, answers }, &fds)
}

/// A worker that is gone is noticed at the next receive; one that does not read is not worth keeping.
fn send(
    channel: &AsyncFd<OwnedFd>,
    message: &ToWorker,
    fds: &[std::os::fd::BorrowedFd<'_>],
) -> Result<(), Ending> {
    use crate::sys::Errno;
    match socket::send(channel.get_ref().as_fd(), &message.encode(), fds, Wait::Now) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(errno) => Err(Ending::Nonsense(format!("does not take its answers: {errno}"))),
    }
}

fn earlier(known: Option<Instant>, new: Instant) -> Option<Instant> {
    Some(known.map_or(new, |known| known.min(new)))
}

/// The line that a client gets when its worker was lost. `None` after an orderly end.
fn last_words(ending: &Ending, ended: Option<Ended>) -> Option<String> {
    let (code, message) = match ending {
        Ending::Closed if ended.is_some_and(|ended| ended.status == Some(0)) => return None,
        Ending::Overdue => ("C220", "a call did not end in time and its worker was stopped"),
        Ending::Late => ("C220", "the service stops and a call did not end in time"),
        Ending::Closed | Ending::Nonsense(_) => ("C216", "the worker of this connection was lost"),
    };
    let message = format!("{message}; the outcome of open calls is unknown; reconnect and look");
    Some(super::peer::error_line(code, &message))
}

/// Asks a worker whose call should have ended whether it has, and notices one that no longer answers.
/// No call is tracked here: a deadline seen in a question only says when to ask.
#[derive(Debug, Default)]
struct Watchdog {
    ask_at: Option<Instant>,
    pinged: Option<(u32, Instant)>,
    nonce: u32,
}

impl Watchdog {
    fn call(&mut self, asked: &[Asked]) {
        let Some(soonest) = asked.iter().map(|one| one.deadline_ms).min() else { return };
        self.look_in(Duration::from_millis(soonest.into()));
    }

    fn look_in(&mut self, left: Duration) {
        self.ask_at = earlier(self.ask_at, Instant::now() + left + DEADLINE_GRACE);
    }

    fn at(&self) -> Option<Instant> {
        self.pinged.map(|(_, until)| until).or(self.ask_at)
    }

    fn expire(&mut self, channel: &AsyncFd<OwnedFd>) -> Result<(), Ending> {
        let now = Instant::now();
        match (self.pinged, self.ask_at) {
            (Some((_, until)), _) if now >= until => Err(Ending::Overdue),
            (None, Some(at)) if now >= at => {
                self.nonce = self.nonce.wrapping_add(1);
                self.ask_at = None;
                self.pinged = Some((self.nonce, now + PONG_TIMEOUT));
                send(channel, &ToWorker::Ping { nonce: self.nonce }, &[])
            }
            _ => Ok(()),
        }
    }

    fn pong(&mut self, nonce: u32, overdue: u32, next_ms: u32) -> Result<(), Ending> {
        match self.pinged.take() {
            Some((expected, _)) if expected == nonce => {}
            _ => return Err(Ending::Nonsense("an answer to a ping that was not sent".into())),
        }
        if overdue > 0 {
            return Err(Ending::Overdue);
        }
        if next_ms > 0 {
            self.look_in(Duration::from_millis(next_ms.into()));
        }
        Ok(())
    }
}

/// Whether a refusal is one that an operator wants to hear of: somebody tried what the policy forbids.
pub fn is_denial(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::Denied | Refusal::Escape | Refusal::Mount | Refusal::ReadOnly)
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
