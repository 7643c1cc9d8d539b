//! Runs in the worker: the asking end of the channel, shared by all its threads. Trusts the supervisor, and still asserts
//! that only O_PATH directories arrive. `mailbox` decides which thread receives.

mod mailbox;
#[cfg(test)]
mod model_tests;

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    Answer, AskSupervisor, Caller, EntryOutcome, Parent, Question, WorkerLeases,
    codec::{self, ChannelAnswer, MAX_MESSAGE_BYTES, MAX_OUTCOMES, MAX_QUESTIONS, ToSupervisor, ToWorker},
};
use crate::{
    sys::{
        Errno, poll, process,
        socket::{self, WaitMode},
    },
    terms::{Code, Limits},
};
use mailbox::{Mailbox, MailboxMessage};

/// The primitives of `mailbox`. `model_tests` puts those of `shuttle` in their place.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

/// Messages that the supervisor sends without a question.
#[derive(Debug)]
pub enum ControlMessage {
    Ping {
        nonce: u32,
    },
    Drain,
    Limits(Limits),
    /// The supervisor is gone, or has sent an invalid message: the worker exits at once.
    SupervisorGone,
}

/// Bytes of all names in one message of outcomes. The other fields fit into the rest of the message.
const MAX_OUTCOME_BYTES: usize = 30 << 10;

type ControlHandler = Box<dyn Fn(ControlMessage) + Send + Sync>;

pub struct Channel {
    /// Descriptor 0 for as long as the process lives; duplicating it is one of the calls the filter forbids.
    socket: BorrowedFd<'static>,
    next_id: AtomicU32,
    /// The thread that receives has the buffer.
    mailbox: Mailbox<Vec<Answer>, Box<[u8]>>,
    control_handler: OnceLock<ControlHandler>,
    leases: Arc<WorkerLeases>,
}

/// Questions whose answers have not arrived; pass it to [`Channel::wait`].
#[derive(Debug)]
#[must_use]
pub struct PendingQuestions(u32);

impl Channel {
    pub fn new(socket: BorrowedFd<'static>) -> Self {
        Self {
            socket,
            next_id: AtomicU32::new(1),
            mailbox: Mailbox::new(vec![0; MAX_MESSAGE_BYTES].into()),
            control_handler: OnceLock::new(),
            // A failure means that the supervisor is gone, and all leases with it. The next question fails then.
            leases: WorkerLeases::new(move |ids| {
                for ids in ids.chunks(MAX_QUESTIONS) {
                    let message = ToSupervisor::Release { leases: ids.to_vec() }.encode();
                    let _ = socket::send(socket.as_fd(), &message, &[], WaitMode::Block);
                }
            }),
        }
    }

    /// Sets the handler of control messages. Called once, before the first question.
    pub fn set_control_handler(&self, handler: impl Fn(ControlMessage) + Send + Sync + 'static) {
        let _ = self.control_handler.set(Box::new(handler));
    }

    /// Sends up to 32 questions, of one call or of many, in one message.
    pub fn send_questions<'q>(
        &self,
        questions: impl ExactSizeIterator<Item = (Caller, &'q Question)>,
    ) -> PendingQuestions {
        debug_assert!(questions.len() <= MAX_QUESTIONS);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.send_bytes(&codec::encode_questions(id, questions));
        PendingQuestions(id)
    }

    pub fn send_pong(&self, nonce: u32, overdue: u32, next_ms: u32) {
        self.send(&ToSupervisor::Pong { nonce, overdue, next_ms });
    }

    /// Reserves memory for one more step of a long line. False if the supervisor refuses or does not answer in time: the thread
    /// that reads the client's lines must not block for ever if the attendant blocks on a dead mount. One thread at a time.
    pub fn reserve_step(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        self.send(&ToSupervisor::Reserve);
        let left = || deadline.saturating_duration_since(Instant::now());
        self.mailbox.wait_for_reserved(left, |buffer, left| {
            let _ = poll::wait_for(self.socket.as_fd(), None, Some(left));
            self.receive(buffer, WaitMode::Now)
        })
    }

    /// Releases all reservations.
    pub fn release_reservations(&self) {
        self.send(&ToSupervisor::Unreserve);
    }

    /// A worker that recovers could not put this name in order.
    pub fn report_unsettled(&self, root: u16, path: Vec<u8>, mut reason: String) {
        reason.truncate(reason.floor_char_boundary(codec::MAX_REASON_BYTES));
        self.send(&ToSupervisor::Unsettled { root, path, reason });
    }

    /// Every name that was not reported as unsettled is in order.
    pub fn report_settled(&self) {
        self.send(&ToSupervisor::Settled);
    }

    fn send(&self, message: &ToSupervisor) {
        self.send_bytes(&message.encode());
    }

    fn send_bytes(&self, message: &[u8]) {
        // The supervisor always reads; a failure here means that it is gone.
        if socket::send(self.socket.as_fd(), message, &[], WaitMode::Block).is_err() {
            self.call_control_handler(ControlMessage::SupervisorGone);
        }
    }

    /// Blocks until the answers are there. The supervisor answers everything, or this process ends with it.
    pub fn wait(&self, PendingQuestions(id): PendingQuestions) -> Vec<Answer> {
        self.mailbox.wait_for_answers(id, |buffer| self.receive(buffer, WaitMode::Block))
    }

    /// Receives what has arrived without waiting. For the sentinel, because no thread may be waiting for an answer.
    pub fn receive_without_waiting(&self) {
        self.mailbox.receive_for_waiting(|buffer| self.receive(buffer, WaitMode::Now));
    }

    /// Receives one message and handles control messages.
    fn receive(&self, buffer: &mut [u8], wait: WaitMode) -> MailboxMessage<Vec<Answer>> {
        let received = match socket::receive(self.socket.as_fd(), buffer, wait) {
            Ok(received) if received.len > 0 => received,
            Err(Errno::AGAIN) => return MailboxMessage::Nothing,
            _ => return self.handle_control(ControlMessage::SupervisorGone),
        };
        // Only O_PATH directories may cross. Anything else would keep its rights inside the jail.
        if !received.fds.iter().all(|fd| process::is_path_directory(fd.as_fd())) {
            return self.handle_control(ControlMessage::SupervisorGone);
        }
        match ToWorker::decode(&buffer[..received.len]) {
            Ok(ToWorker::Answers { id, answers }) => {
                let fds: Vec<Arc<OwnedFd>> = received.fds.into_iter().map(Arc::new).collect();
                let answers: Option<Vec<Answer>> =
                    answers.into_iter().map(|a| answer_with_descriptor(a, &fds, &self.leases)).collect();
                match answers {
                    Some(answers) => MailboxMessage::Answers(id, answers),
                    None => self.handle_control(ControlMessage::SupervisorGone),
                }
            }
            Ok(ToWorker::Reserved { granted }) => MailboxMessage::Reserved(granted),
            Ok(ToWorker::Ping { nonce }) => self.handle_control(ControlMessage::Ping { nonce }),
            Ok(ToWorker::Drain) => self.handle_control(ControlMessage::Drain),
            Ok(ToWorker::Limits { json }) => match serde_json::from_slice(&json) {
                Ok(limits) => self.handle_control(ControlMessage::Limits(limits)),
                Err(_) => self.handle_control(ControlMessage::SupervisorGone),
            },
            _ => self.handle_control(ControlMessage::SupervisorGone),
        }
    }

    fn call_control_handler(&self, control: ControlMessage) {
        if let Some(handler) = self.control_handler.get() {
            handler(control);
        }
    }

    fn handle_control(&self, control: ControlMessage) -> MailboxMessage<Vec<Answer>> {
        self.call_control_handler(control);
        MailboxMessage::Nothing
    }
}

/// `None` if the message names a descriptor it does not carry.
fn answer_with_descriptor(answered: ChannelAnswer, fds: &[Arc<OwnedFd>], leases: &Arc<WorkerLeases>) -> Option<Answer> {
    Some(match answered {
        ChannelAnswer::Refused(refusal) => Err(refusal),
        ChannelAnswer::Parent { fd, missing, lease, path } => Ok(Parent {
            dir: fds.get(usize::from(fd))?.clone(),
            leaf: path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec(),
            path,
            missing: usize::from(missing),
            lease: (lease != 0).then(|| leases.register_lease(lease)),
        }),
    })
}

impl AskSupervisor for Channel {
    fn ask(&self, caller: Caller, questions: &[Question]) -> Vec<Answer> {
        let send = |chunk: &[Question]| self.send_questions(chunk.iter().map(|question| (caller, question)));
        if (1..=MAX_QUESTIONS).contains(&questions.len()) {
            return self.wait(send(questions));
        }
        let tickets: Vec<PendingQuestions> = questions.chunks(MAX_QUESTIONS).map(send).collect();
        tickets.into_iter().flat_map(|ticket| self.wait(ticket)).collect()
    }

    fn report_refusal(&self, caller: Caller, code: Code, path: &[u8]) {
        if caller.reports_outcomes {
            return;
        }
        let path = path[..path.len().min(crate::path::MAX_PATH_BYTES)].to_vec();
        self.send(&ToSupervisor::Refused { function: caller.function, code, path });
    }

    fn report_outcomes(&self, function: u8, outcomes: Vec<EntryOutcome>) {
        let (mut message, mut bytes) = (Vec::new(), 0);
        for mut outcome in outcomes {
            let len = truncate_texts(&mut outcome);
            if message.len() == MAX_OUTCOMES || bytes + len > MAX_OUTCOME_BYTES {
                self.send(&ToSupervisor::Outcomes { function, outcomes: std::mem::take(&mut message) });
                bytes = 0;
            }
            bytes += len;
            message.push(outcome);
        }
        if !message.is_empty() {
            self.send(&ToSupervisor::Outcomes { function, outcomes: message });
        }
    }
}

/// Cuts the strings that a client chose so that they fit into a message. Returns the bytes of the names.
fn truncate_texts(outcome: &mut EntryOutcome) -> usize {
    let EntryOutcome { paths: names, effect, .. } = outcome;
    let paths = std::iter::once(&mut names.path).chain(&mut names.to);
    let cut = |path: &mut Vec<u8>| {
        path.truncate(crate::path::MAX_PATH_BYTES);
        path.len()
    };
    for word in [&mut effect.etag_before, &mut effect.etag_after, &mut effect.trash_id].into_iter().flatten() {
        word.truncate(word.floor_char_boundary(codec::MAX_ETAG_OR_ID_BYTES));
    }
    paths.map(cut).sum()
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("socket", &self.socket).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{atomic::AtomicBool, mpsc};

    use super::*;
    use crate::broker::{CallId, Intent, Refusal};

    #[test]
    fn an_answer_finds_its_owner_while_other_threads_take_messages_too() {
        let (ours, theirs) = socket::message_pair().unwrap();
        let ours: &'static OwnedFd = Box::leak(Box::new(ours));
        let channel: &'static Channel = Box::leak(Box::new(Channel::new(ours.as_fd())));
        std::thread::spawn(move || answer_everything(&theirs));
        static DONE: AtomicBool = AtomicBool::new(false);
        for _ in 0..2 {
            std::thread::spawn(|| {
                while !DONE.load(Ordering::Relaxed) {
                    channel.receive_without_waiting();
                }
            });
        }
        let (done, finished) = mpsc::channel();
        // Only one thread asks: the answer to a second one would wake the first without need.
        std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(60);
            let caller = Caller::new(CallId(1), 0, deadline);
            let question = Question { root: 0, path: b"a".to_vec(), intent: Intent::Read };
            for _ in 0..5_000 {
                assert_eq!(channel.ask(caller, std::slice::from_ref(&question)).len(), 1);
            }
            done.send(()).unwrap();
        });
        let arrived = finished.recv_timeout(Duration::from_secs(30));
        DONE.store(true, Ordering::Relaxed);
        arrived.expect("every answer arrives");
    }

    /// A channel without a supervisor, and its far end.
    fn alone() -> (&'static Channel, OwnedFd) {
        let (ours, theirs) = socket::message_pair().unwrap();
        let ours: &'static OwnedFd = Box::leak(Box::new(ours));
        (Box::leak(Box::new(Channel::new(ours.as_fd()))), theirs)
    }

    #[test]
    fn a_reservation_without_an_answer_is_refused_in_time() {
        let (channel, _theirs) = alone();
        let start = Instant::now();
        assert!(!channel.reserve_step(Duration::from_millis(50)));
        // Also while another thread receives.
        let receiver = channel.mailbox.receiver();
        assert!(!channel.reserve_step(Duration::from_millis(50)));
        drop(receiver);
        assert!((Duration::from_millis(100)..Duration::from_secs(10)).contains(&start.elapsed()));
    }

    #[test]
    fn a_reservation_is_answered_also_through_another_thread() {
        let (channel, theirs) = alone();
        for granted in [true, false, true] {
            let reply = ToWorker::Reserved { granted }.encode();
            socket::send(theirs.as_fd(), &reply, &[], WaitMode::Block).unwrap();
            assert_eq!(channel.reserve_step(Duration::from_secs(30)), granted);
        }
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| channel.reserve_step(Duration::from_secs(30)));
            std::thread::sleep(Duration::from_millis(20));
            let reply = ToWorker::Reserved { granted: true }.encode();
            socket::send(theirs.as_fd(), &reply, &[], WaitMode::Block).unwrap();
            while !asking.is_finished() {
                channel.receive_without_waiting();
            }
            assert!(asking.join().unwrap());
        });
    }

    fn answer_everything(socket: &OwnedFd) {
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        while let Ok(received) = socket::receive(socket.as_fd(), &mut buffer, WaitMode::Block) {
            let Ok(ToSupervisor::Resolve { id, .. }) = ToSupervisor::decode(&buffer[..received.len]) else {
                return;
            };
            let answers = vec![ChannelAnswer::Refused(Refusal::NotFound)];
            let reply = ToWorker::Answers { id, answers }.encode();
            if socket::send(socket.as_fd(), &reply, &[], WaitMode::Block).is_err() {
                return;
            }
        }
    }
}
