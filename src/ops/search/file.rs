//! One file, read in regions of whole lines. Buffers are the thread's own and used again: a file costs an open, a look, a
//! read and a close.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::plan::Plan;
use crate::{
    jail::{File, Halt},
    text::{
        BOM,
        search::{Flow, GivenUp, LEAST_UNSTOPPED, Scanner},
        utf16::{self, Utf16},
    },
    wire::Result,
};

/// Bytes read at a time: fits the cache of a core together with what the search needs.
const CHUNK_BYTES: usize = 128 << 10;
/// A NUL in these first bytes makes a file binary.
const HEAD_BYTES: usize = 4096;
/// A buffer beyond this is held by one thread at a time.
const LARGE_BYTES: usize = 1 << 20;
/// A region that takes longer makes the next ones smaller, so that a slow regex hears of a cancel soon.
const SLOW: Duration = Duration::from_millis(10);
const SMALLEST_REGION_BYTES: usize = LEAST_UNSTOPPED;

/// Why a file was not searched, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsearched {
    Binary,
    Unreadable,
    LongLine,
    TooLarge,
}

/// One thread's buffers.
#[derive(Debug, Default)]
pub(super) struct Room {
    text: Vec<u8>,
    raw: Vec<u8>,
}

enum Stop {
    Unsearched(Unsearched),
    Halted(Halt),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

pub(super) fn search(
    plan: &Plan,
    file: &File,
    scanner: &mut Scanner<'_>,
    room: &mut Room,
    large: &Mutex<()>,
) -> Result<Option<Unsearched>, Halt> {
    let mut reader =
        Reader { plan, source: Source::new(file, &mut room.raw), text: &mut room.text, end: 0, large };
    let outcome = reader.head().and_then(|()| {
        if plan.pattern.is_multiline() { reader.whole(scanner) } else { reader.lines(scanner) }
    });
    // What an engine did not look at comes first: whatever else was made of it is of no use.
    let outcome = match scanner.take_given_up() {
        None => outcome,
        Some(GivenUp::Stopped) => Err(Stop::Halted(plan.clock.check().err().unwrap_or(Halt::Deadline))),
        Some(GivenUp::TooLong) if plan.pattern.is_multiline() => Err(Stop::Unsearched(Unsearched::TooLarge)),
        Some(GivenUp::TooLong) => Err(Stop::Unsearched(Unsearched::LongLine)),
    };
    if room.text.len() > LARGE_BYTES {
        room.text.truncate(CHUNK_BYTES);
        room.text.shrink_to_fit();
    }
    match outcome {
        Ok(()) => Ok(None),
        Err(Stop::Unsearched(why)) => Ok(Some(why)),
        Err(Stop::Halted(halt)) => Err(halt),
    }
}

/// The bytes of a file, or the UTF-8 that its UTF-16 stands for.
struct Source<'a> {
    file: &'a File,
    offset: u64,
    is_at_end: bool,
    utf16: Option<Utf16>,
    /// Decoded and not yet handed out.
    decoded: &'a mut Vec<u8>,
}

impl<'a> Source<'a> {
    fn new(file: &'a File, decoded: &'a mut Vec<u8>) -> Self {
        decoded.clear();
        Self { file, offset: 0, is_at_end: false, utf16: None, decoded }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Stop> {
        let read =
            self.file.read_at(into, self.offset).map_err(|_| Stop::Unsearched(Unsearched::Unreadable))?;
        self.offset += read as u64;
        // A short read that ends where fstat saw the end is the end: one system call less for every small file.
        self.is_at_end = read == 0 || (read < into.len() && self.offset == self.file.stat().size_bytes);
        Ok(read)
    }

    /// More text; 0 only at the end.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize, Stop> {
        if self.utf16.is_none() {
            return self.read(into);
        }
        let mut chunk = [0; 4096];
        while self.decoded.is_empty() && !self.is_at_end {
            let read = self.read(&mut chunk)?;
            self.decode(&chunk[..read]);
        }
        let len = into.len().min(self.decoded.len());
        into[..len].copy_from_slice(&self.decoded[..len]);
        self.decoded.drain(..len);
        Ok(len)
    }

    fn decode(&mut self, bytes: &[u8]) {
        if let Some(utf16) = &mut self.utf16 {
            utf16.push(bytes, self.decoded);
            if self.is_at_end {
                utf16.finish(self.decoded);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.is_at_end && self.decoded.is_empty()
    }
}

struct Reader<'a> {
    plan: &'a Plan,
    source: Source<'a>,
    /// The buffer; its first `end` bytes are text.
    text: &'a mut Vec<u8>,
    end: usize,
    large: &'a Mutex<()>,
}

impl Reader<'_> {
    /// The first bytes: is it text, and in which encoding?
    fn head(&mut self) -> Result<(), Stop> {
        if self.text.len() < CHUNK_BYTES {
            self.text.resize(CHUNK_BYTES, 0);
        }
        while self.end < HEAD_BYTES && !self.source.has_ended() {
            self.end += self.source.fill(&mut self.text[self.end..])?;
        }
        if let Some(endian) = utf16::byte_order_mark(&self.text[..self.end]) {
            self.source.utf16 = Some(Utf16::new(endian));
            let raw = self.text[2..self.end].to_vec();
            self.source.decode(&raw);
            self.end = 0;
            while self.end < HEAD_BYTES && !self.source.has_ended() {
                self.end += self.source.fill(&mut self.text[self.end..])?;
            }
        } else if self.text[..self.end].starts_with(BOM) {
            self.consume(BOM.len());
        }
        let head = &self.text[..self.end.min(HEAD_BYTES)];
        if memchr::memchr(0, head).is_some() { Err(Stop::Unsearched(Unsearched::Binary)) } else { Ok(()) }
    }

    fn consume(&mut self, bytes: usize) {
        self.text.copy_within(bytes..self.end, 0);
        self.end -= bytes;
    }

    fn fill(&mut self) -> Result<(), Stop> {
        self.plan.clock.check()?;
        self.end += self.source.fill(&mut self.text[self.end..])?;
        Ok(())
    }

    fn lines(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Stop> {
        let mut region = self.plan.pattern.region_bytes();
        let mut _turn: Option<MutexGuard<'_, ()>> = None;
        loop {
            let has_ended = self.source.has_ended();
            let newline = memchr::memrchr(b'\n', &self.text[..self.end]);
            let whole = if has_ended { self.end } else { newline.map_or(0, |newline| newline + 1) };
            if whole > 0 && self.regions(scanner, whole, has_ended, &mut region)? == Flow::Done {
                return Ok(());
            }
            if has_ended {
                return Ok(());
            }
            self.consume(whole);
            if self.end == self.text.len() {
                if self.plan.pattern.literal_len().is_some() {
                    if self.long_line(scanner)? == Flow::Done {
                        return Ok(());
                    }
                    continue;
                }
                if _turn.is_none() && self.end >= LARGE_BYTES {
                    _turn = Some(self.large.lock().unwrap_or_else(PoisonError::into_inner));
                }
                self.grow(self.plan.max_line_buffer)?;
            }
            self.fill()?;
        }
    }

    /// The first `whole` bytes, which end where a line does.
    fn regions(
        &mut self,
        scanner: &mut Scanner<'_>,
        whole: usize,
        is_last: bool,
        region: &mut usize,
    ) -> Result<Flow, Stop> {
        let is_quick = self.plan.pattern.literal_len().is_some();
        let mut from = 0;
        while from < whole {
            let mut end = whole;
            if whole - from > *region {
                let near = &self.text[from..from + *region];
                let cut = memchr::memrchr(b'\n', near).map(|newline| from + newline + 1);
                let far = || memchr::memchr(b'\n', &self.text[from..whole]).map(|newline| from + newline + 1);
                end = cut.or_else(far).unwrap_or(whole);
            }
            let start = (!is_quick).then(Instant::now);
            let text = &self.text[from..end];
            if scanner.region(text) == Flow::Done {
                return Ok(Flow::Done);
            }
            if let Some(taken) = start.map(|start| start.elapsed()).filter(|taken| *taken > SLOW) {
                *region =
                    (text.len() / 2).max(SMALLEST_REGION_BYTES).min((*region).max(SMALLEST_REGION_BYTES));
                // Far too slow: do not wait for the next ones to halve it again.
                if taken > 8 * SLOW {
                    *region = (*region / 4).max(SMALLEST_REGION_BYTES);
                }
            }
            if end < whole || !is_last {
                if scanner.pass(text) == Flow::Done {
                    return Ok(Flow::Done);
                }
                if end < whole {
                    self.plan.clock.check()?;
                }
            }
            from = end;
        }
        Ok(Flow::More)
    }

    /// Twice the room, up to `most`: the line that fills it goes on.
    fn grow(&mut self, most: usize) -> Result<(), Stop> {
        let len = self.text.len();
        if len >= most {
            return Err(Stop::Unsearched(Unsearched::LongLine));
        }
        self.text.resize((2 * len).min(most.max(CHUNK_BYTES)), 0);
        Ok(())
    }

    /// The buffer is full of one line, and a plain text needs no more of it at a time.
    fn long_line(&mut self, scanner: &mut Scanner<'_>) -> Result<Flow, Stop> {
        scanner.begin_long(&self.text[..self.end]);
        let keep = scanner.keep();
        if self.text.len() < 4 * keep {
            self.text.resize(4 * keep, 0);
        }
        // What was searched for the end of the line.
        let mut scanned = self.end;
        loop {
            let flow = scanner.long(&self.text[..scanned], false);
            if flow == Flow::Done {
                return Ok(Flow::Done);
            }
            let passed = scanned.saturating_sub(keep);
            scanner.pass_long(passed);
            self.consume(passed);
            scanned -= passed;
            self.fill()?;
            let newline = memchr::memchr(b'\n', &self.text[scanned..self.end]);
            if newline.is_some() || self.source.has_ended() {
                let end = newline.map_or(self.end, |newline| scanned + newline);
                let flow = scanner.long(&self.text[..end], true);
                let terminator = usize::from(newline.is_some());
                scanner.end_long(end + terminator);
                self.consume(end + terminator);
                return Ok(flow);
            }
            scanned = self.end;
        }
    }

    /// All of it at once, for matches that span lines.
    fn whole(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Stop> {
        let too_large = || Stop::Unsearched(Unsearched::TooLarge);
        if self.source.file.stat().size_bytes > self.plan.max_whole_bytes {
            return Err(too_large());
        }
        let most = usize::try_from(self.plan.max_whole_bytes).unwrap_or(usize::MAX);
        let mut _turn: Option<MutexGuard<'_, ()>> = None;
        while !self.source.has_ended() {
            if self.end == self.text.len() {
                if _turn.is_none() && self.end >= LARGE_BYTES {
                    _turn = Some(self.large.lock().unwrap_or_else(PoisonError::into_inner));
                }
                // One byte more tells that there is more.
                self.grow(most.saturating_add(1)).map_err(|_| too_large())?;
            }
            self.fill()?;
        }
        if self.end > most {
            return Err(too_large());
        }
        scanner.whole(&self.text[..self.end]);
        Ok(())
    }
}
