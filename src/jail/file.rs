//! A regular file, open for reading. Positioned reads only, so nothing depends on a shared offset.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Call, refusal};
use crate::{
    sys::fs::{self, Stat},
    wire::Result,
};

/// Bytes read at a time: large enough that the syscalls do not show, small enough for the cache and for a prompt
/// answer to a cancel.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The same where no second copy is made of what was read: only a cancel has to wait for it.
const PIECE_BYTES: usize = 1 << 20;
/// Of a file that has grown since its size was told.
const LEAST_BYTES: u64 = 4096;

#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    stat: Stat,
    sent: String,
}

/// Whether a reader of chunks wants the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    More,
    Enough,
}

impl File {
    pub(super) fn new(fd: OwnedFd, stat: Stat, sent: String) -> Self {
        Self { fd, stat, sent }
    }

    /// As it was when the file was opened. The size is a hint: files grow, shrink, and some say 0.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn sent(&self) -> &str {
        &self.sent
    }

    /// One positioned read; 0 = end of file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        // No file is longer than an i64 says; the kernel calls an offset beyond it invalid, a reader calls it the end.
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

    /// Gives `sink` the bytes of `from..to` in chunks, until it has enough or the file ends.
    /// True = the end of the file was seen before `to`. Bounded by `to` and by the call's deadline.
    pub fn read_chunks(
        &self,
        call: &Call,
        from: u64,
        to: u64,
        mut sink: impl FnMut(&[u8]) -> Result<Want>,
    ) -> Result<bool> {
        let mut buffer = vec![0; self.chunk_len(from, to)];
        let mut offset = from;
        while offset < to {
            call.checkpoint()?;
            let left = usize::try_from(to - offset).unwrap_or(usize::MAX).min(buffer.len());
            let read = self.read_at(&mut buffer[..left], offset)?;
            if read == 0 {
                return Ok(true);
            }
            if sink(&buffer[..read])? == Want::Enough {
                return Ok(false);
            }
            offset += read as u64;
            // A short read that ends where fstat saw the end is the end: one syscall less for every small file.
            // A file that claims no size does not get here.
            if read < left && offset == self.stat.size_bytes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All of it, or its first `most_bytes`, straight to where it stays. None if there is no memory for it.
    pub fn read_whole(&self, call: &Call, most_bytes: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        loop {
            call.checkpoint()?;
            let offset = bytes.len() as u64;
            // One byte more than there should be: a short read then shows the end.
            let left = self.stat.size_bytes.saturating_sub(offset).saturating_add(1).max(LEAST_BYTES);
            let left = usize::try_from(left.min(most_bytes - offset)).unwrap_or(usize::MAX).min(PIECE_BYTES);
            if bytes.try_reserve(left).is_err() {
                return Ok(None);
            }
            bytes.resize(bytes.len() + left, 0);
            let read = self.read_at(&mut bytes[offset as usize..], offset)?;
            bytes.truncate(offset as usize + read);
            let is_end = read == 0 || (read < left && bytes.len() as u64 == self.stat.size_bytes);
            if is_end || bytes.len() as u64 == most_bytes {
                return Ok(Some(bytes));
            }
        }
    }

    // One byte more than the file has, so that a small file costs a small buffer and two reads.
    fn chunk_len(&self, from: u64, to: u64) -> usize {
        let expected =
            self.stat.size_bytes.saturating_sub(from).saturating_add(1).min(to.saturating_sub(from));
        usize::try_from(expected).unwrap_or(CHUNK_BYTES).clamp(512, CHUNK_BYTES)
    }
}
