//! Searches one file in regions of whole lines. Each thread reuses its own buffers, so a file costs four system calls: open,
//! stat, read and close.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::plan::SearchPlan;
use crate::{
    jail::{HaltReason, JailFile},
    text::{
        BOM, Etag,
        search::{MIN_UNCHECKED_BYTES, ScanControl, Scanner, SearchAbort},
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
/// A region that takes longer makes the next ones smaller, so that a slow regex notices a cancellation soon.
const SLOW_REGION: Duration = Duration::from_millis(10);
const SMALLEST_REGION_BYTES: usize = MIN_UNCHECKED_BYTES;

/// Why a file was not searched, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsearchedReason {
    Binary,
    Unreadable,
    LongLine,
    TooLarge,
}

/// What was read of a file.
pub(super) struct SearchedFile {
    pub(super) unsearched: Option<UnsearchedReason>,
    /// The whole file lies in the buffer, unchanged but for its byte order mark.
    pub(super) whole: Option<WholeFile>,
}

pub(super) struct WholeFile {
    bytes: usize,
    had_bom: bool,
}

/// One thread's buffers.
#[derive(Debug, Default)]
pub(super) struct FileBuffers {
    text: Vec<u8>,
    raw: Vec<u8>,
}

impl FileBuffers {
    /// The version of the file that was searched last.
    pub(super) fn etag(&self, file: &WholeFile) -> String {
        let text = &self.text[..file.bytes];
        if !file.had_bom {
            return Etag::of(text);
        }
        let mut etag = Etag::default();
        etag.push(BOM);
        etag.push(text);
        etag.finish()
    }
}

enum SearchStop {
    Unsearched(UnsearchedReason),
    Halted(HaltReason),
}

impl From<HaltReason> for SearchStop {
    fn from(halt: HaltReason) -> Self {
        Self::Halted(halt)
    }
}

pub(super) fn search(
    plan: &SearchPlan,
    file: &JailFile,
    scanner: &mut Scanner<'_>,
    buffers: &mut FileBuffers,
    large_buffer_lock: &Mutex<()>,
) -> Result<SearchedFile, HaltReason> {
    let mut reader = RegionReader {
        plan,
        source: TextSource::new(file, &mut buffers.raw),
        text: &mut buffers.text,
        end: 0,
        had_bom: false,
        large_buffer_lock,
    };
    let head = reader.read_head();
    let is_whole = head.is_ok() && reader.source.has_ended() && reader.source.utf16.is_none();
    let whole = is_whole.then_some(WholeFile { bytes: reader.end, had_bom: reader.had_bom });
    let outcome = head.and_then(|()| {
        if plan.pattern.is_multiline() { reader.search_whole(scanner) } else { reader.search_lines(scanner) }
    });
    // Checks first whether an engine gave up, because then the outcome is incomplete.
    let outcome = match scanner.take_given_up() {
        None => outcome,
        Some(SearchAbort::Stopped) => Err(SearchStop::Halted(plan.clock.check().err().unwrap_or(HaltReason::Deadline))),
        Some(SearchAbort::TooLong) if plan.pattern.is_multiline() => {
            Err(SearchStop::Unsearched(UnsearchedReason::TooLarge))
        }
        Some(SearchAbort::TooLong) => Err(SearchStop::Unsearched(UnsearchedReason::LongLine)),
    };
    if buffers.text.len() > LARGE_BYTES {
        buffers.text.truncate(CHUNK_BYTES);
        buffers.text.shrink_to_fit();
    }
    match outcome {
        Ok(()) => Ok(SearchedFile { unsearched: None, whole }),
        Err(SearchStop::Unsearched(why)) => Ok(SearchedFile { unsearched: Some(why), whole: None }),
        Err(SearchStop::Halted(halt)) => Err(halt),
    }
}

/// The bytes of a file; for a UTF-16 file, its text as UTF-8.
struct TextSource<'a> {
    file: &'a JailFile,
    offset: u64,
    is_at_end: bool,
    utf16: Option<Utf16>,
    /// Text that was decoded and not returned yet.
    decoded: &'a mut Vec<u8>,
}

impl<'a> TextSource<'a> {
    fn new(file: &'a JailFile, decoded: &'a mut Vec<u8>) -> Self {
        decoded.clear();
        Self { file, offset: 0, is_at_end: false, utf16: None, decoded }
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, SearchStop> {
        let read =
            self.file.read_at(into, self.offset).map_err(|_| SearchStop::Unsearched(UnsearchedReason::Unreadable))?;
        self.offset += read as u64;
        // A short read that ends where fstat saw the end is the end: one system call less for every small file.
        self.is_at_end = read == 0 || (read < into.len() && self.offset == self.file.stat().size_bytes);
        Ok(read)
    }

    /// Reads more text. 0 only at the end.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize, SearchStop> {
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

struct RegionReader<'a> {
    plan: &'a SearchPlan,
    source: TextSource<'a>,
    /// The buffer; its first `end` bytes are text.
    text: &'a mut Vec<u8>,
    end: usize,
    had_bom: bool,
    large_buffer_lock: &'a Mutex<()>,
}

impl RegionReader<'_> {
    /// Reads the first bytes, which show whether the file is text and in which encoding.
    fn read_head(&mut self) -> Result<(), SearchStop> {
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
            self.had_bom = true;
        }
        let head = &self.text[..self.end.min(HEAD_BYTES)];
        if memchr::memchr(0, head).is_some() { Err(SearchStop::Unsearched(UnsearchedReason::Binary)) } else { Ok(()) }
    }

    fn consume(&mut self, bytes: usize) {
        self.text.copy_within(bytes..self.end, 0);
        self.end -= bytes;
    }

    fn fill(&mut self) -> Result<(), SearchStop> {
        self.plan.clock.check()?;
        self.end += self.source.fill(&mut self.text[self.end..])?;
        Ok(())
    }

    fn search_lines(&mut self, scanner: &mut Scanner<'_>) -> Result<(), SearchStop> {
        let mut region = self.plan.pattern.region_bytes();
        let mut _large_buffer: Option<MutexGuard<'_, ()>> = None;
        loop {
            let has_ended = self.source.has_ended();
            let newline = memchr::memrchr(b'\n', &self.text[..self.end]);
            let whole = if has_ended { self.end } else { newline.map_or(0, |newline| newline + 1) };
            if whole > 0 && self.search_regions(scanner, whole, has_ended, &mut region)? == ScanControl::Stop {
                return Ok(());
            }
            if has_ended {
                return Ok(());
            }
            self.consume(whole);
            if self.end == self.text.len() {
                if self.plan.streams_long_lines {
                    if self.search_long_line(scanner)? == ScanControl::Stop {
                        return Ok(());
                    }
                    continue;
                }
                if _large_buffer.is_none() && self.end >= LARGE_BYTES {
                    _large_buffer = Some(self.large_buffer_lock.lock().unwrap_or_else(PoisonError::into_inner));
                }
                self.grow_buffer(self.plan.max_line_buffer)?;
            }
            self.fill()?;
        }
    }

    /// Searches the first `whole` bytes of the buffer, which end with a line.
    fn search_regions(
        &mut self,
        scanner: &mut Scanner<'_>,
        whole: usize,
        is_last: bool,
        region: &mut usize,
    ) -> Result<ScanControl, SearchStop> {
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
            if scanner.scan_region(text) == ScanControl::Stop {
                return Ok(ScanControl::Stop);
            }
            if let Some(taken) = start.map(|start| start.elapsed()).filter(|taken| *taken > SLOW_REGION) {
                *region = (text.len() / 2).max(SMALLEST_REGION_BYTES).min((*region).max(SMALLEST_REGION_BYTES));
                // Far too slow: do not wait for the next ones to halve it again.
                if taken > 8 * SLOW_REGION {
                    *region = (*region / 4).max(SMALLEST_REGION_BYTES);
                }
            }
            if end < whole || !is_last {
                if scanner.leave_region(text) == ScanControl::Stop {
                    return Ok(ScanControl::Stop);
                }
                if end < whole {
                    self.plan.clock.check()?;
                }
            }
            from = end;
        }
        Ok(ScanControl::Continue)
    }

    /// Doubles the buffer, up to `most`, because the line that fills it continues.
    fn grow_buffer(&mut self, most: usize) -> Result<(), SearchStop> {
        let len = self.text.len();
        if len >= most {
            return Err(SearchStop::Unsearched(UnsearchedReason::LongLine));
        }
        self.text.resize((2 * len).min(most.max(CHUNK_BYTES)), 0);
        Ok(())
    }

    /// Searches a line that fills the buffer, part by part: a plain text needs only a part of the line at a time.
    fn search_long_line(&mut self, scanner: &mut Scanner<'_>) -> Result<ScanControl, SearchStop> {
        scanner.begin_long(&self.text[..self.end]);
        let keep = scanner.overlap_bytes();
        if self.text.len() < 4 * keep {
            self.text.resize(4 * keep, 0);
        }
        // The bytes that were searched for the end of the line.
        let mut scanned = self.end;
        loop {
            let flow = scanner.scan_long(&self.text[..scanned], false);
            if flow == ScanControl::Stop {
                return Ok(ScanControl::Stop);
            }
            let passed = scanned.saturating_sub(keep);
            scanner.pass_long(passed);
            self.consume(passed);
            scanned -= passed;
            self.fill()?;
            let newline = memchr::memchr(b'\n', &self.text[scanned..self.end]);
            if newline.is_some() || self.source.has_ended() {
                let end = newline.map_or(self.end, |newline| scanned + newline);
                let flow = scanner.scan_long(&self.text[..end], true);
                let terminator = usize::from(newline.is_some());
                scanner.end_long(end + terminator);
                self.consume(end + terminator);
                return Ok(flow);
            }
            scanned = self.end;
        }
    }

    /// Searches the whole file at once, for matches that span lines.
    fn search_whole(&mut self, scanner: &mut Scanner<'_>) -> Result<(), SearchStop> {
        let too_large = || SearchStop::Unsearched(UnsearchedReason::TooLarge);
        if self.source.file.stat().size_bytes > self.plan.max_whole_bytes {
            return Err(too_large());
        }
        let most = usize::try_from(self.plan.max_whole_bytes).unwrap_or(usize::MAX);
        let mut _large_buffer: Option<MutexGuard<'_, ()>> = None;
        while !self.source.has_ended() {
            if self.end == self.text.len() {
                if _large_buffer.is_none() && self.end >= LARGE_BYTES {
                    _large_buffer = Some(self.large_buffer_lock.lock().unwrap_or_else(PoisonError::into_inner));
                }
                // One byte more shows that the file is larger.
                self.grow_buffer(most.saturating_add(1)).map_err(|_| too_large())?;
            }
            self.fill()?;
        }
        if self.end > most {
            return Err(too_large());
        }
        scanner.scan_whole(&self.text[..self.end]);
        Ok(())
    }
}
