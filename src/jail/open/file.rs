//! Runs in the worker: reads a regular file that is open. Only positioned reads, so no thread depends on a shared offset.
//! Does not trust the size from stat: a file can grow and shrink while it is read. Never writes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{super::Call, refusal};
use crate::{
    sys::fs::{self, FileStat},
    wire::{Error, Result},
};

/// Bytes per read: large enough that the cost of system calls is small, and small enough for the cache and for a quick reaction to
/// a cancellation.
pub const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct JailFile {
    fd: OwnedFd,
    stat: FileStat,
    sent: String,
}

/// Whether a reader of chunks wants the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadControl {
    Continue,
    Stop,
}

/// Why bytes could not be read into memory.
#[derive(Debug)]
pub enum ReadIntoError {
    OutOfMemory,
    Read(Error),
}

impl JailFile {
    pub(in crate::jail) fn new(fd: OwnedFd, stat: FileStat, sent: String) -> Self {
        Self { fd, stat, sent }
    }

    /// The stat from when the file was opened. The size is only a hint: files grow and shrink, and some report 0.
    pub fn stat(&self) -> &FileStat {
        &self.stat
    }

    pub(in crate::jail) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn sent(&self) -> &str {
        &self.sent
    }

    /// One positioned read; 0 = end of file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        // The kernel refuses an offset above i64::MAX as invalid. No file is that long, so for a reader this is the end.
        let room = (i64::MAX as u64).saturating_sub(offset);
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(buffer.len());
        if len == 0 {
            return Ok(0);
        }
        fs::read_at(&self.fd, &mut buffer[..len], offset).map_err(|errno| refusal::io(&self.sent, errno))
    }

    /// Fills `buffer` from `offset` on; short only at the end of the file.
    pub fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// Passes the bytes of `from..to` to `sink` in chunks, until it wants no more or the file ends. True if the end of the file was
    /// reached before `to`. Bounded by `to` and by the call's deadline.
    pub fn read_chunks(
        &self,
        call: &Call,
        from: u64,
        to: u64,
        mut sink: impl FnMut(&[u8]) -> Result<ReadControl>,
    ) -> Result<bool> {
        let mut buffer = vec![0; self.chunk_len(from, to)];
        let mut offset = from;
        while offset < to {
            call.checkpoint()?;
            let left = usize::try_from(to - offset).unwrap_or(usize::MAX).min(buffer.len());
            let read = self.read_at(&mut buffer[..left], offset)?;
            if read > 0 && sink(&buffer[..read])? == ReadControl::Stop {
                return Ok(false);
            }
            offset += read as u64;
            if self.has_ended(read, left, offset) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends the first `most` bytes to `held`, without a buffer between. True if the end of the file was reached before that.
    pub fn read_into(&self, call: &Call, most: u64, held: &mut Vec<u8>) -> std::result::Result<bool, ReadIntoError> {
        let mut offset = 0;
        while offset < most {
            call.checkpoint().map_err(ReadIntoError::Read)?;
            let (start, len) = (held.len(), self.chunk_len(offset, most));
            held.try_reserve(len).map_err(|_| ReadIntoError::OutOfMemory)?;
            held.resize(start + len, 0);
            let read = self.read_at(&mut held[start..], offset).map_err(ReadIntoError::Read)?;
            held.truncate(start + read);
            offset += read as u64;
            if self.has_ended(read, len, offset) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    // A short read that ends at the size from fstat has reached the end: this saves one system call for every small file. A file
    // that reports size 0 needs an empty read to show its end.
    fn has_ended(&self, read: usize, asked: usize, offset: u64) -> bool {
        read == 0 || (read < asked && offset == self.stat.size_bytes)
    }

    // One byte more than the rest of the file, so that a small file needs a small buffer and one read.
    fn chunk_len(&self, from: u64, to: u64) -> usize {
        // A file that has grown beyond its size may grow on.
        let left = self.stat.size_bytes.checked_sub(from).unwrap_or(CHUNK_BYTES as u64);
        let asked = left.saturating_add(1).max(512).min(to.saturating_sub(from));
        usize::try_from(asked).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES)
    }
}
