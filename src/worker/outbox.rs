//! Runs in the worker, on all of its threads: replies on their way to the client. Any thread adds replies; one thread at a
//! time writes them. Does not trust the client to read: if it does not, only calls of its own connection wait.

use std::{
    os::fd::BorrowedFd,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::scheduler::UnsentReplies;
use crate::sys::{
    Errno,
    socket::{self, WaitMode},
};

/// With more unread bytes the next call waits. Each thread may add one more reply.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// A buffer that grew beyond this for one large reply is freed.
const MAX_KEPT_BUFFER_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct ReplyOutbox {
    waiting: Mutex<Vec<u8>>,
    drained: Condvar,
    /// Threads that wait for `drained`; changed under the lock of `waiting`.
    blocked: AtomicUsize,
    writer: Mutex<Vec<u8>>,
}

/// The client is gone.
#[derive(Debug)]
pub struct ClientGone;

impl ReplyOutbox {
    /// Takes the bytes of `reply` and leaves it empty. A lone reply is not copied: the two buffers are swapped, so that all calls
    /// use the same few.
    pub fn add(&self, reply: &mut Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, reply);
        } else {
            waiting.extend_from_slice(reply);
        }
        reply.clear();
        reply.shrink_to(MAX_KEPT_BUFFER_BYTES);
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

    /// Wakes threads that wait for space, if there are any: a notification is a system call even if no thread waits.
    fn notify_drained(&self) {
        if self.blocked.load(Ordering::Relaxed) > 0 {
            self.drained.notify_all();
        }
    }

    /// True if no reply waits. Replies that another thread is writing now do not count.
    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    pub fn unsent(&self) -> UnsentReplies {
        match self.waiting().len() {
            0 => UnsentReplies::Nothing,
            1..=MAX_WAITING_BYTES => UnsentReplies::Some,
            _ => UnsentReplies::Full,
        }
    }

    /// True if so many bytes wait that no further reply should be made.
    pub fn is_full(&self) -> bool {
        self.waiting().len() > MAX_WAITING_BYTES
    }

    /// Writes all waiting replies. If another thread is writing, it returns at once, because that thread writes ours as well.
    pub fn flush(&self, stream: BorrowedFd<'_>) -> Result<(), ClientGone> {
        // Tested again after each write: another thread may have added a reply and seen that this thread writes.
        while !self.is_empty() {
            let Ok(batch) = self.writer.try_lock() else { return Ok(()) };
            self.write_batch(batch, stream)?;
        }
        Ok(())
    }

    /// Returns when everything is written, including what another thread was writing, so that the process may exit.
    pub fn flush_all(&self, stream: BorrowedFd<'_>) -> Result<(), ClientGone> {
        loop {
            let batch = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_batch(batch, stream)?;
            if self.is_empty() {
                return Ok(());
            }
        }
    }

    fn write_batch(&self, mut batch: MutexGuard<'_, Vec<u8>>, stream: BorrowedFd<'_>) -> Result<(), ClientGone> {
        std::mem::swap(&mut *batch, &mut *self.waiting());
        self.notify_drained();
        let written = write_all(stream, &batch);
        batch.clear();
        batch.shrink_to(MAX_KEPT_BUFFER_BYTES);
        written
    }

    /// Writes what the client takes without blocking, for threads that must never wait. The sentinel retries the rest.
    pub fn flush_now(&self, stream: BorrowedFd<'_>) -> Result<(), ClientGone> {
        while !self.is_empty() {
            let Ok(mut batch) = self.writer.try_lock() else { return Ok(()) };
            std::mem::swap(&mut *batch, &mut *self.waiting());
            let sent = match socket::send_stream(stream, &batch, WaitMode::Now) {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => 0,
                Err(_) => return Err(ClientGone),
            };
            let all_sent = sent == batch.len();
            // The rest goes back in front of replies that were added meanwhile.
            let mut waiting = self.waiting();
            batch.drain(..sent);
            batch.append(&mut waiting);
            std::mem::swap(&mut *batch, &mut *waiting);
            self.notify_drained();
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

fn write_all(stream: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), ClientGone> {
    while !bytes.is_empty() {
        match socket::send_stream(stream, bytes, WaitMode::Block) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => {}
            Err(_) => return Err(ClientGone),
        }
    }
    Ok(())
}
