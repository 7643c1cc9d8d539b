//! Splits a byte stream into lines. Runs in the worker (bytes of the client) and in frontends (replies, and the lines of an
//! MCP host). Trusts nothing: the other side decides how the bytes are split, how long a line is and whether it ever ends.
//! Never holds more than the frame limit and one read, never scans a byte twice, never copies a frame out.

use std::ops::Range;

/// The buffer of an idle connection, and the most that one read may add beyond the frame limit.
pub const CHUNK_BYTES: usize = 16 << 10;

/// Size of the buffer that is kept for the next long line, because a client that sends one often sends another. A larger
/// buffer is freed.
const KEPT_BYTES: usize = 256 << 10;

/// With less space a read is not worth its system call, so the buffer makes room first.
const MIN_SPARE_BYTES: usize = 4 << 10;

/// Only a buffer that was made with `with_reservations` needs reservations for longer lines.
pub use crate::terms::FRAME_STEP_BYTES as STEP_BYTES;

/// Buffer size without a reservation: a line of one step, and one read.
const UNRESERVED_BYTES: usize = STEP_BYTES + CHUNK_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The next line begins at an unknown place: answer and close the connection, or call `skip_frame`.
    #[error("a line is longer than {max_frame_bytes} bytes")]
    TooLarge { max_frame_bytes: usize },
}

/// Splits a byte stream into lines. Read into `spare_mut`, report the number of bytes with `filled`, take lines with `next`
/// until it returns `None`, and repeat.
#[derive(Debug)]
pub struct FrameBuffer {
    /// Zeroed storage, so that a read can go straight into it without unsafe code.
    storage: Vec<u8>,
    /// First byte of the oldest line that has not been handed out.
    start: usize,
    /// There is no line feed in `start..scanned`, so a sender of single bytes causes no rescans.
    scanned: usize,
    end: usize,
    max_frame_bytes: usize,
    /// The largest allowed size of the buffer; `add_reserved_step` raises it. `None` if only `max_frame_bytes` limits it.
    allowed_bytes: Option<usize>,
    /// After a line that was too long all further bytes are dropped.
    broken: bool,
    /// The bytes up to the next line feed belong to a line that is dropped.
    skipping: bool,
    kept_bytes: usize,
}

impl FrameBuffer {
    pub fn new(max_frame_bytes: usize) -> Self {
        Self {
            storage: vec![0; CHUNK_BYTES],
            start: 0,
            scanned: 0,
            end: 0,
            max_frame_bytes,
            allowed_bytes: None,
            broken: false,
            skipping: false,
            kept_bytes: KEPT_BYTES,
        }
    }

    /// Keeps a buffer of up to `kept_bytes` for the next long line.
    pub fn with_kept_bytes(self, kept_bytes: usize) -> Self {
        Self { kept_bytes, ..self }
    }

    /// Like `new`, but lines longer than `STEP_BYTES` need a reservation: see `needs_reservation`.
    pub fn with_reservations(max_frame_bytes: usize) -> Self {
        Self { allowed_bytes: Some(UNRESERVED_BYTES), ..Self::new(max_frame_bytes) }
    }

    /// For lines that have not been handed out yet.
    pub fn set_max_frame(&mut self, max_frame_bytes: usize) {
        self.max_frame_bytes = max_frame_bytes;
    }

    /// True if the unfinished line fills the allowed buffer, so that there is no space for the next read. Reserve a step and
    /// call `add_reserved_step`, or `abandon` the line.
    pub fn needs_reservation(&self) -> bool {
        let allowed = self.allowed_bytes.filter(|allowed| *allowed < self.max_buffer_bytes());
        allowed.is_some_and(|allowed| !self.broken && self.buffered() + MIN_SPARE_BYTES > allowed)
    }

    pub fn add_reserved_step(&mut self) {
        self.allowed_bytes = self.allowed_bytes.map(|allowed| allowed.saturating_add(STEP_BYTES));
    }

    /// Call this after `FrameError::TooLarge` to drop the rest of that line and continue with the next one.
    pub fn skip_frame(&mut self) {
        self.broken = false;
        self.skipping = true;
    }

    /// Drops the buffered bytes and all further bytes.
    pub fn abandon(&mut self) {
        self.broken = true;
        (self.start, self.scanned, self.end) = (0, 0, 0);
    }

    /// Frees the memory of lines that were returned. True if the reservation of all allowed steps can be released.
    pub fn shrink(&mut self) -> bool {
        if self.storage.len() <= KEPT_BYTES {
            return false;
        }
        let needed = self.buffered() + MIN_SPARE_BYTES;
        if needed > UNRESERVED_BYTES {
            return false;
        }
        let least = needed.max(CHUNK_BYTES).next_power_of_two();
        let wanted = if least <= KEPT_BYTES { least } else { UNRESERVED_BYTES };
        if wanted < self.storage.len() {
            self.move_to_front();
            self.storage.truncate(wanted);
            self.storage.shrink_to_fit();
        }
        let had_steps = self.allowed_bytes.is_some_and(|allowed| allowed > UNRESERVED_BYTES);
        self.allowed_bytes = self.allowed_bytes.map(|_| UNRESERVED_BYTES);
        had_steps
    }

    /// The buffer size that the longest line needs.
    fn max_buffer_bytes(&self) -> usize {
        self.max_frame_bytes.saturating_add(CHUNK_BYTES)
    }

    /// Space for the next read. Empty only while complete lines fill the buffer. Take them first, because a read into an
    /// empty buffer looks like the end of the stream.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        if self.broken {
            // Done here and not where the error arises, so that `has_frame` can restore the state before the error.
            (self.start, self.scanned, self.end) = (0, 0, 0);
        }
        if self.start == self.end || self.storage.len() - self.end < MIN_SPARE_BYTES {
            self.move_to_front();
            self.fit_storage();
        }
        &mut self.storage[self.end..]
    }

    /// The first `n` bytes of `spare_mut` now hold data.
    pub fn filled(&mut self, n: usize) {
        debug_assert!(n <= self.storage.len() - self.end);
        if !self.broken {
            self.end = (self.end + n).min(self.storage.len());
        }
    }

    /// The next whole line, without its end. Empty lines are skipped.
    #[allow(clippy::should_implement_trait)] // a lending iterator: the line borrows the buffer
    pub fn next(&mut self) -> Option<Result<&[u8], FrameError>> {
        match self.take_frame()? {
            Ok(line) => Some(Ok(&self.storage[line])),
            Err(e) => Some(Err(e)),
        }
    }

    /// True if `next` returns something. A reader checks this before it waits for more bytes.
    pub fn has_frame(&mut self) -> bool {
        let (start, scanned, skipping) = (self.start, self.scanned, self.skipping);
        match self.take_frame() {
            // Each error is returned once, by `next`, so this check must restore the state before the error.
            Some(Err(_)) => {
                self.broken = false;
                (self.start, self.scanned, self.skipping) = (start, scanned, skipping);
                true
            }
            Some(Ok(line)) => {
                (self.start, self.scanned) = (line.start, line.end);
                true
            }
            None => false,
        }
    }

    /// Bytes of lines that were not returned yet. If this is not zero at the end of the stream, a line was cut off.
    pub fn buffered(&self) -> usize {
        self.end - self.start
    }

    fn take_frame(&mut self) -> Option<Result<Range<usize>, FrameError>> {
        if self.broken {
            return None;
        }
        while let Some(at) = memchr::memchr(b'\n', &self.storage[self.scanned..self.end]) {
            let feed = self.scanned + at;
            if std::mem::take(&mut self.skipping) {
                (self.start, self.scanned) = (feed + 1, feed + 1);
                continue;
            }
            let line = self.start..self.end_without_return(self.start..feed);
            if line.len() > self.max_frame_bytes {
                return Some(Err(self.too_large()));
            }
            (self.start, self.scanned) = (feed + 1, feed + 1);
            if !line.is_empty() {
                return Some(Ok(line));
            }
        }
        self.scanned = self.end;
        if self.skipping {
            self.start = self.end;
            return None;
        }
        // A trailing carriage return may still turn out to belong to the line's end.
        if self.end_without_return(self.start..self.end) - self.start > self.max_frame_bytes {
            return Some(Err(self.too_large()));
        }
        None
    }

    fn end_without_return(&self, line: Range<usize>) -> usize {
        let ends_in_return = !line.is_empty() && self.storage[line.end - 1] == b'\r';
        line.end - usize::from(ends_in_return)
    }

    fn too_large(&mut self) -> FrameError {
        self.broken = true;
        FrameError::TooLarge { max_frame_bytes: self.max_frame_bytes }
    }

    /// A line moves at most once: afterwards it begins at 0 and stays there until it is taken. So all moves
    /// together copy no more bytes than were received.
    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.scanned -= self.start;
            self.start = 0;
        }
    }

    /// Doubles the storage for a long line, and shrinks it to one chunk after a very long line. The two conditions exclude
    /// each other, so no sequence of frames makes the storage grow and shrink all the time.
    fn fit_storage(&mut self) {
        if self.end + MIN_SPARE_BYTES <= CHUNK_BYTES {
            if self.storage.len() > self.kept_bytes {
                self.storage.truncate(CHUNK_BYTES);
                self.storage.shrink_to_fit();
            }
        } else if self.storage.len() - self.end < MIN_SPARE_BYTES {
            let most = self.allowed_bytes.unwrap_or(usize::MAX).min(self.max_buffer_bytes());
            let wanted = self.storage.len().saturating_mul(2).min(most);
            if wanted > self.storage.len() {
                self.storage.reserve_exact(wanted - self.storage.len());
                self.storage.resize(wanted, 0);
            }
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
