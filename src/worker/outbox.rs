//! Replies on their way to the client. Any thread adds, one thread at a time writes, and a client that does not read
//! holds up the calls of its own connection and nothing else.

use std::{
    os::fd::BorrowedFd,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::scheduler::Unsent;
use crate::sys::{
    Errno,
    socket::{self, Wait},
};

/// Unread replies beyond this hold up the next call. Each thread may add one more reply on top.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// A buffer that grew for one large reply is given back.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<Vec<u8>>,
    drained: Condvar,
    /// Threads that wait for `drained`; changed under the lock of `waiting`.
    blocked: AtomicUsize,
    writer: Mutex<Vec<u8>>,
}

/// The client is gone.
#[derive(Debug)]
pub struct Gone;

impl Outbox {
    /// Takes what is in `reply` and leaves it empty. A lone reply is not copied: the two change places, so that the
    /// same few buffers serve all calls.
    pub fn add(&self, reply: &mut Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, reply);
        } else {
            waiting.extend_from_slice(reply);
        }
        reply.clear();
        reply.shrink_to(KEPT_BYTES);
    }

    /// Back-pressure: returns once the client has read enough for another reply to be worth making.
    pub fn wait_for_space(&self) {
        let mut waiting = self.waiting();
        if waiting.len() <= MAX_WAITING_BYTES {
            return;
        }
        self.blocked.fetch_add(1, Ordering::Relaxed);
        while waiting.len() > MAX_WAITING_BYTES {
            waiting = self.drained.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        self.blocked.fetch_sub(1, Ordering::Relaxed);
    }

    /// After `waiting` was emptied. A notification is a system call even when nobody listens.
    fn tell_drained(&self) {
        if self.blocked.load(Ordering::Relaxed) > 0 {
            self.drained.notify_all();
        }
    }

    /// Nothing waits. What another thread is writing right now does not count.
    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    pub fn unsent(&self) -> Unsent {
        match self.waiting().len() {
            0 => Unsent::Nothing,
            1..=MAX_WAITING_BYTES => Unsent::Some,
            _ => Unsent::Full,
        }
    }

    /// So much waits that no further reply should be made.
    pub fn is_full(&self) -> bool {
        self.waiting().len() > MAX_WAITING_BYTES
    }

    /// Writes all that waits, unless another thread is at it; that one then takes ours along.
    pub fn flush(&self, stream: BorrowedFd<'_>) -> Result<(), Gone> {
        // Looked at again after each write: somebody may have added and found us writing.
        while !self.is_empty() {
            let Ok(batch) = self.writer.try_lock() else { return Ok(()) };
            self.write_batch(batch, stream)?;
        }
        Ok(())
    }

    /// Returns when all is written, also what another thread was writing: the process may end then.
    pub fn flush_all(&self, stream: BorrowedFd<'_>) -> Result<(), Gone> {
        loop {
            let batch = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_batch(batch, stream)?;
            if self.is_empty() {
                return Ok(());
            }
        }
    }

    fn write_batch(&self, mut batch: MutexGuard<'_, Vec<u8>>, stream: BorrowedFd<'_>) -> Result<(), Gone> {
        std::mem::swap(&mut *batch, &mut *self.waiting());
        self.tell_drained();
        let written = write_all(stream, &batch);
        batch.clear();
        batch.shrink_to(KEPT_BYTES);
        written
    }

    /// Writes what the client takes at once; for the threads that must never wait. What it does not take stays, and
    /// the sentinel tries again.
    pub fn flush_now(&self, stream: BorrowedFd<'_>) -> Result<(), Gone> {
        while !self.is_empty() {
            let Ok(mut batch) = self.writer.try_lock() else { return Ok(()) };
            std::mem::swap(&mut *batch, &mut *self.waiting());
            let sent = match socket::send_stream(stream, &batch, Wait::Now) {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => 0,
                Err(_) => return Err(Gone),
            };
            let all_sent = sent == batch.len();
            // What is left goes back in front of what has been added meanwhile.
            let mut waiting = self.waiting();
            batch.drain(..sent);
            batch.append(&mut waiting);
            std::mem::swap(&mut *batch, &mut *waiting);
            self.tell_drained();
            if !all_sent {
                return Ok(());
            }
        }
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_all(stream: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Gone> {
    while !bytes.is_empty() {
        match socket::send_stream(stream, bytes, Wait::Block) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => {}
            Err(_) => return Err(Gone),
        }
    }
    Ok(())
}
