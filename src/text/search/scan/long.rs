//! A line longer than a region, for plain texts, which need no whole line.

use std::ops::Range;

use super::{Admission, MatchedLines, ScanControl, Scanner, clip, head, window};

const MAX_CHAR_BYTES: usize = 4;

/// The line, and what its neighbours see of it.
#[derive(Debug)]
pub(super) struct LongLine {
    start: u64,
    head: String,
    is_found: bool,
}

impl Scanner<'_> {
    /// `text` is the beginning of the line.
    pub fn begin_long(&mut self, text: &[u8]) {
        let head = head(text, self.options.max_line_bytes);
        self.add_after(&head);
        self.long = Some(LongLine { start: self.base, head, is_found: false });
    }

    /// Scans a piece of the line; the last piece has `is_end`. Pieces overlap by `overlap_bytes`, so that a match that the
    /// end of one piece cuts is complete in the next.
    pub fn scan_long(&mut self, piece: &[u8], is_end: bool) -> ScanControl {
        let nul = memchr::memchr(0, piece);
        let piece = &piece[..nul.unwrap_or(piece.len())];
        let ends = is_end || nul.is_some();
        let Some(LongLine { start, is_found: false, .. }) = self.long else {
            return if nul.is_some() { ScanControl::Stop } else { ScanControl::Continue };
        };
        // At its beginning the character before is missing, but what begins there was whole in the piece before.
        let mut from = if self.base > start { MAX_CHAR_BYTES.min(piece.len()) } else { 0 };
        from += piece[from..].iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let found = self.pattern.next_in(self.scratch, piece, from..piece.len());
        // At its end the character behind may come with the next piece.
        if let Some(found) = found.filter(|found| ends || found.end + MAX_CHAR_BYTES <= piece.len()) {
            if let Some(long) = &mut self.long {
                long.is_found = true;
            }
            match self.count_match(self.line, start) {
                Admission::Shown => self.add_long(piece, start, found),
                Admission::End => return ScanControl::Stop,
                Admission::NotAsked | Admission::Counted => {}
            }
        }
        if nul.is_some() { ScanControl::Stop } else { ScanControl::Continue }
    }

    fn add_long(&mut self, piece: &[u8], start: u64, first: Range<usize>) {
        let window = window(piece, &first, self.options.max_line_bytes);
        let mut matches = vec![first.clone()];
        self.more_matches(piece, window.end, &mut matches);
        let mut shown = clip(piece, window.clone(), &matches);
        shown.offset = Some(self.base - start + window.start as u64);
        let before = self.last_lines.iter().cloned().collect();
        let column = self.base - start + first.start as u64 + 1;
        let (line, last_line) = (self.line, self.line);
        self.push(MatchedLines { line, last_line, column, offset: start, shown, before, after: Vec::new() });
    }

    /// Bytes at the end of a piece that the next one begins with.
    pub fn overlap_bytes(&self) -> usize {
        self.pattern.literal_len().unwrap_or(0) + self.options.max_line_bytes + 4 * MAX_CHAR_BYTES
    }

    /// Advances over this many bytes of the piece, which the caller drops.
    pub fn pass_long(&mut self, bytes: usize) {
        self.base += bytes as u64;
    }

    /// The line has ended; `bytes` are what is left of it, with its terminator.
    pub fn end_long(&mut self, bytes: usize) {
        self.base += bytes as u64;
        self.line += 1;
        if let Some(long) = self.long.take()
            && self.options.before > 0
        {
            self.remember(long.head);
        }
    }
}
