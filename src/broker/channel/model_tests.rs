//! Runs `mailbox.rs` under thousands of schedules, with a made-up supervisor. A lost wake-up leaves all threads waiting,
//! which `shuttle` reports.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::Duration};

use crate::sys::model::{self, thread};

mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use crate::sys::model::{Condvar, Mutex, MutexGuard};
}

#[path = "mailbox.rs"]
#[allow(dead_code, clippy::duplicate_mod)]
mod mailbox;

use mailbox::{Mailbox, MailboxMessage};
// These are not the mailbox's own types: the mailbox is tested with types that may lose a notification.
use shuttle::sync::{Condvar, Mutex};

/// The channel as the worker sees it: what it sent, and what the supervisor has answered.
#[derive(Default)]
struct ModelChannel {
    asked: Mutex<VecDeque<ModelQuestion>>,
    was_asked: Condvar,
    answered: Mutex<VecDeque<MailboxMessage<u32>>>,
    was_answered: Condvar,
}

enum ModelQuestion {
    Question(u32),
    Reservation,
    Close,
}

impl ModelChannel {
    fn ask(&self, asked: ModelQuestion) {
        self.asked.lock().unwrap().push_back(asked);
        self.was_asked.notify_one();
    }

    /// The answer to question `n` is `n + 1000`.
    fn supervise(&self) {
        loop {
            let mut asked = self.asked.lock().unwrap();
            let next = loop {
                match asked.pop_front() {
                    Some(next) => break next,
                    None => asked = self.was_asked.wait(asked).unwrap(),
                }
            };
            drop(asked);
            let answer = match next {
                ModelQuestion::Question(id) => MailboxMessage::Answers(id, id + 1000),
                ModelQuestion::Reservation => MailboxMessage::Reserved(true),
                ModelQuestion::Close => return,
            };
            self.answered.lock().unwrap().push_back(answer);
            self.was_answered.notify_all();
        }
    }

    fn receive(&self) -> MailboxMessage<u32> {
        let mut answered = self.answered.lock().unwrap();
        loop {
            match answered.pop_front() {
                Some(answer) => return answer,
                None => answered = self.was_answered.wait(answered).unwrap(),
            }
        }
    }

    fn receive_now(&self) -> MailboxMessage<u32> {
        self.answered.lock().unwrap().pop_front().unwrap_or(MailboxMessage::Nothing)
    }
}

fn start_supervisor(wire: &Arc<ModelChannel>) -> thread::JoinHandle<()> {
    let wire = wire.clone();
    thread::spawn(move || wire.supervise())
}

fn start_asking(wire: &Arc<ModelChannel>, mailbox: &Arc<Mailbox<u32, ()>>, ids: Range<u32>) -> thread::JoinHandle<()> {
    let (wire, mailbox) = (wire.clone(), mailbox.clone());
    thread::spawn(move || {
        for id in ids {
            wire.ask(ModelQuestion::Question(id));
            assert_eq!(mailbox.wait_for_answers(id, |()| wire.receive()), id + 1000, "the answer of another question");
        }
    })
}

/// Threads that ask, one that pumps as the sentinel does, and one that reserves memory as the leader does.
fn ask_from_many_threads() {
    let (wire, mailbox) = (Arc::new(ModelChannel::default()), Arc::new(Mailbox::new(())));
    let supervisor = start_supervisor(&wire);
    let mut threads: Vec<_> = [0..2, 2..4, 4..6].into_iter().map(|ids| start_asking(&wire, &mailbox, ids)).collect();
    threads.push(thread::spawn({
        let (wire, mailbox) = (wire.clone(), mailbox.clone());
        move || {
            for _ in 0..4 {
                mailbox.receive_for_waiting(|()| wire.receive_now());
                thread::yield_now();
            }
        }
    }));
    threads.push(thread::spawn({
        let wire = wire.clone();
        move || {
            wire.ask(ModelQuestion::Reservation);
            let granted = mailbox.wait_for_reserved(|| Duration::from_secs(1), |(), _| wire.receive());
            assert!(granted);
        }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wire.ask(ModelQuestion::Close);
    supervisor.join().unwrap();
}

/// Each thread needs the wake-up of the other.
fn ask_from_two_threads() {
    let (wire, mailbox) = (Arc::new(ModelChannel::default()), Arc::new(Mailbox::new(())));
    let supervisor = start_supervisor(&wire);
    let threads = [0..1, 1..2].map(|ids| start_asking(&wire, &mailbox, ids));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wire.ask(ModelQuestion::Close);
    supervisor.join().unwrap();
}

#[test]
fn every_answer_reaches_its_thread_under_any_schedule() {
    model::explore(model::schedules(200), ask_from_many_threads);
    model::explore_unfairly(model::schedules(200), ask_from_many_threads);
}

#[test]
fn a_lost_wake_up_is_found() {
    model::explore(model::schedules(100), ask_from_two_threads);
    assert!(model::finds_lost_notification(1, ask_from_two_threads));
}
