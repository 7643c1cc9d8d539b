//! The attendant of a worker: a thread of the supervisor that receives the worker's messages and answers them.
//! Trusts: the profile. Does not trust: the worker. Never opens a file for content.
//!
//! It is a thread and not a task, because it blocks in the receive that the worker's message completes: the kernel can switch from
//! one process to the other on the same processor. An event loop would be woken by poll first and then receive. And if a resolve
//! blocks for ever on a dead mount, only this connection blocks.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::{
    mpsc::{Sender, error::TrySendError},
    oneshot,
};

use super::{
    answer::{AnswerMessage, ServedProfile},
    audit::{AuditWriter, ClientConnection},
    blocking::run_blocking,
    lease::Leases,
    reservations::{AttendantLimits, WorkerReservations},
    unsettled::UnsettledNames,
};
use crate::{
    broker::codec::{ChannelQuestion, MAX_MESSAGE_BYTES, MAX_PARENTS, ToSupervisor, ToWorker},
    sys::{
        Errno,
        socket::{self, WaitMode},
    },
};

/// Time after its deadline in which a call may still be running.
const DEADLINE_GRACE: Duration = Duration::from_secs(5);
/// Timeout for a ping. A healthy worker answers at once, whatever it is doing.
const PONG_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest delay of a watchdog check, and the shortest time between two checks for unread bytes of the client.
const WATCHDOG_SLACK: Duration = Duration::from_millis(500);
/// Interval of the checks whether the worker leaves the client's bytes unread. Shorter if `call_timeout_ms` is shorter.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// A receive timeout of zero would mean no timeout.
const MIN_RECEIVE_TIMEOUT: Duration = Duration::from_millis(1);
/// Replies that a worker leaves unread hold descriptors, whose number all clients share.
const MAX_UNREAD_BYTES: usize = 64 << 10;
/// Bytes of the names that one recovery may report as unsettled. The largest batch has fewer.
const MAX_UNSETTLED_BYTES: usize = 4 << 20;
/// Answers between two checks of how many bytes the worker has not read. Each check costs a system call, and eight more
/// answers do no harm.
const UNREAD_CHECK_INTERVAL: u32 = 8;

/// The reason for ending a worker that keeps asking for names that other clients are writing.
pub const TOO_MANY_PENDING: &str = "waits for too many names";

/// Why the supervisor ended a worker, or `Closed` if the worker ended by itself. The texts appear in the audit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerEnd {
    /// It closed the channel: finished, or crashed.
    #[error("closed")]
    Closed,
    /// A call outlived its deadline, or the worker no longer answers.
    #[error("overdue")]
    Overdue,
    /// It sent a message that a correct worker never sends.
    #[error("nonsense: {0}")]
    ProtocolViolation(String),
    /// The client is gone, or the service stops, and it did not end in time.
    #[error("late")]
    GraceExpired,
}

/// An answer that has to wait: for a lease, or, without a reply, until its names are settled.
#[derive(Debug)]
pub struct PendingAnswer {
    pub id: u32,
    pub questions: Vec<ChannelQuestion>,
    pub message: Option<AnswerMessage>,
}

impl PendingAnswer {
    /// Waits within the deadlines of the questions, and acquires the leases. Refuses the names whose lease it does not get.
    pub async fn wait(&mut self, served: &Arc<ServedConnection>) -> AnswerMessage {
        let mut reply = match self.message.take() {
            Some(reply) => reply,
            None => self.wait_for_settled(served).await,
        };
        reply.wait_for_leases(served.client.id, &served.leases).await;
        reply
    }

    /// Waits until the names are settled, then resolves the questions on a separate thread. Resolving earlier would be
    /// useless, because recovery may move or remove the folders.
    async fn wait_for_settled(&mut self, served: &Arc<ServedConnection>) -> AnswerMessage {
        let start = Instant::now();
        let soonest = self.questions.iter().map(|one| one.deadline_ms).min().unwrap_or_default();
        let deadline = start + Duration::from_millis(soonest.into());
        let concerns = |unsettled: &UnsettledNames| served.profile.must_wait_for_recovery(&self.questions, unsettled);
        served.leases.wait_for_settled(served.client.id, deadline, concerns).await;
        let waited_ms = u32::try_from(start.elapsed().as_millis()).unwrap_or(u32::MAX);
        for one in &mut self.questions {
            one.deadline_ms = one.deadline_ms.saturating_sub(waited_ms);
        }
        let (served, asked) = (served.clone(), self.questions.clone());
        let answered = run_blocking(move || served.profile.answer(&asked, served.unsettled_names().as_deref())).await;
        answered.unwrap_or_else(|_| AnswerMessage::refuse_all(self.questions.len()))
    }
}

/// A name that a worker that recovers could not put in order.
#[derive(Debug)]
pub struct UnsettledPath {
    /// An absolute path, of a name or of a whole root.
    pub path: Vec<u8>,
    pub reason: String,
}

impl UnsettledPath {
    fn weight_bytes(&self) -> usize {
        self.path.len() + self.reason.len() + size_of::<Self>()
    }
}

/// State of a connection that its session, on the event loop, and its attendant share.
pub struct ServedConnection {
    pub profile: Arc<ServedProfile>,
    pub leases: Arc<Leases>,
    pub audit: Arc<AuditWriter>,
    pub client: ClientConnection,
    /// The limits that the attendant checks.
    pub limits: AttendantLimits,
}

impl ServedConnection {
    fn unsettled_names(&self) -> Option<Arc<UnsettledNames>> {
        self.leases.unsettled_names_for(self.client.id)
    }
}

/// Everything the attendant thread needs.
pub struct Attendant {
    pub channel: Arc<OwnedFd>,
    /// The client's. Never read from.
    pub connection: Arc<OwnedFd>,
    pub served: Arc<ServedConnection>,
    pub reservations: WorkerReservations,
    /// To the event loop: answers that have to wait for a lease, which this worker itself may release with its next message.
    pub pending_answers: Sender<PendingAnswer>,
    /// Only for a worker that recovers: receives its report.
    pub report: Option<oneshot::Sender<Vec<UnsettledPath>>>,
}

impl Attendant {
    /// Serves the worker until its channel ends, or until it has to be killed. Returns the reason.
    pub fn run(mut self) -> WorkerEnd {
        match self.serve_messages() {
            Ok(never) => match never {},
            Err(ending) => ending,
        }
    }

    fn serve_messages(&mut self) -> Result<std::convert::Infallible, WorkerEnd> {
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        let mut watchdog = Watchdog::new();
        let mut answers = 0u32;
        let mut left = (Vec::new(), 0);
        loop {
            let patience = Duration::from_millis(self.served.limits.call_timeout_ms.load(Ordering::Relaxed));
            watchdog.check(&self.channel, || socket::has_unread(&self.connection), patience)?;
            match self.receive(&mut buffer)? {
                Some(ToSupervisor::Resolve { id, questions: asked }) => {
                    watchdog.note_deadlines(&asked);
                    answers = answers.wrapping_add(1);
                    self.answer_questions(id, asked, answers.is_multiple_of(UNREAD_CHECK_INTERVAL))?;
                }
                Some(ToSupervisor::Release { leases }) => self.served.leases.release(self.served.client.id, &leases),
                Some(ToSupervisor::Pong { nonce, overdue, next_ms }) => {
                    watchdog.handle_pong(nonce, overdue, next_ms)?;
                }
                Some(ToSupervisor::Refused { function, code, path }) => {
                    self.served.audit.record_worker_refusal(&self.served.client, function, code, &path);
                }
                Some(ToSupervisor::Outcomes { function, outcomes }) => {
                    self.served.audit.record_outcomes(&self.served.client, function, &outcomes);
                }
                Some(ToSupervisor::Unsettled { root, path, reason }) => {
                    self.keep_unsettled(&mut left, root, &path, reason)?;
                }
                Some(ToSupervisor::Settled) => {
                    let report = self.report.take();
                    let report = report.ok_or_else(|| WorkerEnd::ProtocolViolation("reports a recovery".into()))?;
                    // The receiver is gone if the attempt timed out.
                    let _ = report.send(std::mem::take(&mut left.0));
                }
                Some(ToSupervisor::Reserve) => {
                    let granted = self
                        .reservations
                        .reserve_step(&self.served.limits)
                        .map_err(|why| WorkerEnd::ProtocolViolation(why.into()))?;
                    send_message(&self.channel, &ToWorker::Reserved { granted }, &[])?;
                }
                Some(ToSupervisor::Unreserve) => self.reservations.release_all(),
                Some(ToSupervisor::Ready { .. } | ToSupervisor::Failed { .. }) => {
                    return Err(WorkerEnd::ProtocolViolation("ready twice".into()));
                }
                None => {}
            }
        }
    }

    /// `None` when the time that the watchdog set is over.
    fn receive(&self, buffer: &mut [u8]) -> Result<Option<ToSupervisor>, WorkerEnd> {
        match socket::receive(self.channel.as_fd(), buffer, WaitMode::Block) {
            // A reset channel is an ended one: the worker died with unread messages.
            Ok(received) if received.len == 0 => Err(WorkerEnd::Closed),
            Err(Errno::CONNRESET) => Err(WorkerEnd::Closed),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(WorkerEnd::ProtocolViolation(errno.to_string())),
            Ok(received) => decode_message(&received, buffer).map(Some).map_err(WorkerEnd::ProtocolViolation),
        }
    }

    /// Adds a name that a worker could not put in order, and counts its bytes.
    fn keep_unsettled(
        &self,
        (left, bytes): &mut (Vec<UnsettledPath>, usize),
        root: u16,
        path: &[u8],
        reason: String,
    ) -> Result<(), WorkerEnd> {
        let name = |path| self.served.profile.unsettled_name(root, path).filter(|_| self.report.is_some());
        let refused = || WorkerEnd::ProtocolViolation("reports a recovery".into());
        let mut path = name(path).ok_or_else(refused)?;
        if *bytes + path.len() + reason.len() > MAX_UNSETTLED_BYTES {
            // Too many names to keep: report the whole root instead.
            path = name(b"").ok_or_else(refused)?;
            left.retain(|known| !is_at_or_below(&known.path, &path));
            *bytes = left.iter().map(UnsettledPath::weight_bytes).sum();
        }
        let one = UnsettledPath { path, reason };
        *bytes += one.weight_bytes();
        left.push(one);
        Ok(())
    }

    fn answer_questions(&self, id: u32, asked: Vec<ChannelQuestion>, look: bool) -> Result<(), WorkerEnd> {
        let ServedConnection { profile, leases, audit, client, .. } = &*self.served;
        let unsettled = self.served.unsettled_names();
        if unsettled.as_ref().is_some_and(|unsettled| profile.must_wait_for_recovery(&asked, unsettled)) {
            return self.queue_pending_answer(PendingAnswer { id, questions: asked, message: None });
        }
        let mut reply = profile.answer(&asked, unsettled.as_deref());
        if !reply.try_lease(client.id, leases) {
            return self.queue_pending_answer(PendingAnswer { id, questions: asked, message: Some(reply) });
        }
        let refusals = reply.refusals();
        let delivered = send_answers(&self.channel, id, reply, look);
        // After the answer is sent, so that the worker continues while the record is written.
        audit.record_decisions(client, &asked, &refusals);
        delivered
    }

    /// Hands an answer that has to wait to the event loop. It holds descriptors of the supervisor, so their number is bounded:
    /// each thread of a correct worker waits for one message, about few folders.
    fn queue_pending_answer(&self, waiting: PendingAnswer) -> Result<(), WorkerEnd> {
        if waiting.message.as_ref().is_some_and(|reply| reply.fds.len() > MAX_PARENTS) {
            return Err(WorkerEnd::ProtocolViolation("wants to write in too many folders at once".into()));
        }
        match self.pending_answers.try_send(waiting) {
            // The receiver is gone only when this session is over.
            Ok(()) | Err(TrySendError::Closed(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(WorkerEnd::ProtocolViolation(TOO_MANY_PENDING.into())),
        }
    }
}

/// Compares absolute paths; the path of the root `/` is empty.
fn is_at_or_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Decodes a message of a worker. A message with a descriptor is an error, because workers send none.
pub fn decode_message(received: &socket::SocketMessage, buffer: &[u8]) -> Result<ToSupervisor, String> {
    if !received.fds.is_empty() {
        return Err("the worker sent a descriptor".into());
    }
    ToSupervisor::decode(&buffer[..received.len]).map_err(|malformed| malformed.to_string())
}

/// Sends a reply. If `look` is true, first checks that the worker does not leave too many answers unread.
pub fn send_answers(channel: &OwnedFd, id: u32, mut reply: AnswerMessage, look: bool) -> Result<(), WorkerEnd> {
    if look && socket::unread_bytes(channel).is_ok_and(|bytes| bytes > MAX_UNREAD_BYTES) {
        return Err(WorkerEnd::ProtocolViolation("does not read its answers".into()));
    }
    let answers = std::mem::take(&mut reply.answers);
    let Some(fds) = reply.checked_descriptors() else {
        return Err(WorkerEnd::ProtocolViolation("an answer that is no O_PATH directory".into()));
    };
    send_message(channel, &ToWorker::Answers { id, answers }, &fds)
}

/// Sends a message to a worker, without waiting. The next receive reports a worker that has ended; a worker that does not
/// read is killed.
pub fn send_message(
    channel: &OwnedFd,
    message: &ToWorker,
    fds: &[std::os::fd::BorrowedFd<'_>],
) -> Result<(), WorkerEnd> {
    match socket::send(channel.as_fd(), &message.encode(), fds, WaitMode::Now) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(errno) => Err(WorkerEnd::ProtocolViolation(format!("does not take its answers: {errno}"))),
    }
}

/// Pings a worker when one of its calls should have ended, and ends it if it does not answer or admits to overdue calls. No
/// call is tracked here: the deadline in a question only sets the time of the ping. A call that the worker has not read has
/// no question yet, so client bytes that stay unread also cause a ping. A worker that does not read on purpose, because its
/// client has too many open calls or does not read replies, still answers the ping.
#[derive(Debug)]
struct Watchdog {
    ping_at: Option<Instant>,
    pinged: Option<(u32, Instant)>,
    nonce: u32,
    /// When to check next whether the client's bytes are unread.
    client_check_at: Instant,
    /// The first of the checks in a row that found unread bytes, without a pong in between.
    unread_since: Option<Instant>,
    /// The receive timeout of the channel, as last set.
    receive_timeout: Option<Duration>,
}

impl Watchdog {
    fn new() -> Self {
        // The first check is due at once: the worker has not read anything yet.
        let look_at = Instant::now();
        Self {
            ping_at: None,
            pinged: None,
            nonce: 0,
            client_check_at: look_at,
            unread_since: None,
            receive_timeout: None,
        }
    }

    fn note_deadlines(&mut self, asked: &[ChannelQuestion]) {
        let Some(soonest) = asked.iter().map(|one| one.deadline_ms).min() else { return };
        self.schedule_ping(Duration::from_millis(soonest.into()));
    }

    fn schedule_ping(&mut self, left: Duration) {
        let at = Instant::now() + left + DEADLINE_GRACE;
        self.ping_at = Some(self.ping_at.map_or(at, |known| known.min(at)));
    }

    /// Sends a ping if one is due, and sets the receive timeout so that the next check is not late.
    /// `patience`: how long the client's bytes may stay unread.
    fn check(
        &mut self,
        channel: &OwnedFd,
        is_unread: impl FnOnce() -> bool,
        patience: Duration,
    ) -> Result<(), WorkerEnd> {
        let now = Instant::now();
        if now >= self.client_check_at {
            self.client_check_at = now + patience.clamp(WATCHDOG_SLACK, CLIENT_CHECK_INTERVAL);
            self.unread_since = is_unread().then(|| self.unread_since.unwrap_or(now));
            match self.unread_since.map(|since| since + patience) {
                Some(due) if due > now => self.client_check_at = self.client_check_at.min(due),
                Some(_) if self.pinged.is_none() => self.ping_at = Some(now),
                _ => {}
            }
        }
        if self.next_due().is_some_and(|at| now >= at) {
            if self.pinged.is_some() {
                return Err(WorkerEnd::Overdue);
            }
            self.nonce = self.nonce.wrapping_add(1);
            self.ping_at = None;
            self.pinged = Some((self.nonce, now + PONG_TIMEOUT));
            send_message(channel, &ToWorker::Ping { nonce: self.nonce }, &[])?;
        }
        let next = self.next_due().map_or(self.client_check_at, |at| at.min(self.client_check_at));
        self.update_receive_timeout(channel, next)
    }

    fn next_due(&self) -> Option<Instant> {
        self.pinged.map(|(_, until)| until).or(self.ping_at)
    }

    /// Sets the receive timeout of the channel. The kernel counts it from the start of each receive, so it has to be set again as
    /// the time comes nearer, but not for every message, because each costs a system call.
    fn update_receive_timeout(&mut self, channel: &OwnedFd, at: Instant) -> Result<(), WorkerEnd> {
        let wait = at.saturating_duration_since(Instant::now()).max(MIN_RECEIVE_TIMEOUT);
        // Half of the wait: a timeout that is much too short would wake this thread again and again.
        if self.receive_timeout.is_some_and(|set| set.abs_diff(wait) <= WATCHDOG_SLACK.min(wait / 2)) {
            return Ok(());
        }
        self.receive_timeout = Some(wait);
        socket::set_receive_timeout(channel, self.receive_timeout)
            .map_err(|errno| WorkerEnd::ProtocolViolation(errno.to_string()))
    }

    fn handle_pong(&mut self, nonce: u32, overdue: u32, next_ms: u32) -> Result<(), WorkerEnd> {
        match self.pinged.take() {
            Some((expected, _)) if expected == nonce => {}
            _ => return Err(WorkerEnd::ProtocolViolation("an answer to a ping that was not sent".into())),
        }
        self.unread_since = None;
        if overdue > 0 {
            return Err(WorkerEnd::Overdue);
        }
        if next_ms > 0 {
            self.schedule_ping(Duration::from_millis(next_ms.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_stands_for_its_own_names_and_not_for_those_of_a_root_with_a_longer_name() {
        for path in [&b"/srv/x"[..], b"/srv/x/a", b"/srv/x/a/b"] {
            assert!(is_at_or_below(path, b"/srv/x") && is_at_or_below(path, b""));
        }
        for path in [&b"/srv/xy"[..], b"/srv/xy/a", b"/srv"] {
            assert!(!is_at_or_below(path, b"/srv/x"));
        }
    }
}
