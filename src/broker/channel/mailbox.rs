//! Which thread of a worker receives, and how an answer gets to the thread that waits for it.
//! Runs in the worker, on all of its threads. Does no I/O itself: its callers pass a function that receives one message.
//!
//! No lock is held during a round trip. A thread that waits for an answer while no other thread receives becomes the
//! receiver for all: a lone call sends and receives on its own thread, and no other thread is woken.
//!
//! `model_tests` compiles this file a second time with the primitives of `shuttle` as `sync`.

use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// `A` are the answers of one message, `B` is the buffer of the thread that receives.
#[derive(Debug)]
pub(super) struct Mailbox<A, B> {
    state: Mutex<MailboxState<A>>,
    arrived: Condvar,
    /// Locked by the receiver.
    receiver: Mutex<B>,
}

#[derive(Debug)]
struct MailboxState<A> {
    /// Answers that arrived while another thread received.
    answers: Vec<(u32, A)>,
    /// The answer to a reservation.
    reserved: Option<bool>,
    /// Threads that wait for `arrived`.
    waiting: usize,
}

/// One message.
#[derive(Debug)]
pub(super) enum MailboxMessage<A> {
    Answers(u32, A),
    Reserved(bool),
    /// A message that concerns no waiting thread, or no message.
    Nothing,
}

impl<A, B> Mailbox<A, B> {
    pub(super) fn new(buffer: B) -> Self {
        let state = MailboxState { answers: Vec::new(), reserved: None, waiting: 0 };
        Self { state: Mutex::new(state), arrived: Condvar::new(), receiver: Mutex::new(buffer) }
    }

    /// Blocks until the answers with this id are there. `receive` waits for a message.
    pub(super) fn wait_for_answers(&self, id: u32, receive: impl Fn(&mut B) -> MailboxMessage<A>) -> A {
        loop {
            let mut state = self.state();
            if let Some(place) = state.answers.iter().position(|(for_id, _)| *for_id == id) {
                return state.answers.swap_remove(place).1;
            }
            // While the state is locked: a receiver that stops receiving checks `waiting` afterwards, under the same lock, so
            // no wake-up is missed.
            let Ok(mut buffer) = self.receiver.try_lock() else {
                state.waiting += 1;
                state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
                continue;
            };
            drop(state);
            match receive(&mut buffer) {
                MailboxMessage::Answers(for_id, answers) if for_id == id => {
                    self.stop_receiving(buffer);
                    return answers;
                }
                other => self.deliver(other),
            }
            self.stop_receiving(buffer);
        }
    }

    /// Like `wait_for_answers`, for the answer to a reservation, while `left` is not zero. False if there is none by then. `receive` waits at
    /// most for the given time. One thread at a time.
    pub(super) fn wait_for_reserved(
        &self,
        left: impl Fn() -> Duration,
        receive: impl Fn(&mut B, Duration) -> MailboxMessage<A>,
    ) -> bool {
        loop {
            let mut state = self.state();
            if let Some(granted) = state.reserved.take() {
                return granted;
            }
            let left = left();
            if left.is_zero() {
                return false;
            }
            // As in `wait_for_answers`.
            let Ok(mut buffer) = self.receiver.try_lock() else {
                state.waiting += 1;
                let woken = self.arrived.wait_timeout(state, left);
                woken.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
                continue;
            };
            drop(state);
            self.deliver(receive(&mut buffer, left));
            self.stop_receiving(buffer);
        }
    }

    /// Receives a message for the threads that wait, unless one of them receives. `receive` does not wait.
    pub(super) fn receive_for_waiting(&self, receive: impl Fn(&mut B) -> MailboxMessage<A>) {
        let Ok(mut buffer) = self.receiver.try_lock() else { return };
        self.deliver(receive(&mut buffer));
        self.stop_receiving(buffer);
    }

    /// Called by the receiver before it stops receiving: a thread that could become the receiver while its answer is on the way
    /// to the mailbox would wait for that answer for ever.
    fn deliver(&self, received: MailboxMessage<A>) {
        match received {
            MailboxMessage::Answers(id, answers) => self.state().answers.push((id, answers)),
            MailboxMessage::Reserved(granted) => self.state().reserved = Some(granted),
            MailboxMessage::Nothing => {}
        }
    }

    /// Wakes all waiting threads: each checks for its answer, and one of them becomes the receiver.
    fn stop_receiving(&self, buffer: MutexGuard<'_, B>) {
        drop(buffer);
        if self.state().waiting > 0 {
            self.arrived.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, MailboxState<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps other threads from receiving.
    #[cfg(test)]
    pub(super) fn receiver(&self) -> MutexGuard<'_, B> {
        self.receiver.lock().unwrap()
    }
}
