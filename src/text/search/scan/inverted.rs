//! The lines that do not match.

use std::ops::Range;

use super::{Admission, MatchedLines, ScanControl, Scanner, clip, window, without_cr};

impl Scanner<'_> {
    pub(super) fn scan_inverted(&mut self, text: &[u8]) -> ScanControl {
        // A NUL ends the text; what is before it counts as the last line.
        let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
        let mut from = 0;
        while from < text.len() {
            let matching = self.next_matching_line(text, from);
            // An engine that gave up has not decided about the lines behind this one.
            if self.scratch.has_aborted() {
                return ScanControl::Stop;
            }
            while from < matching.start {
                let end = memchr::memchr(b'\n', &text[from..]).map_or(text.len(), |newline| from + newline);
                if self.add_unmatched(text, from..end) == ScanControl::Stop {
                    self.is_ending = true;
                    return self.end();
                }
                from = end + 1;
            }
            from = from.max(matching.end + 1);
        }
        ScanControl::Continue
    }

    /// The next line that matches, without its newline; an empty range at the end of the text if there is none.
    fn next_matching_line(&mut self, text: &[u8], mut from: usize) -> Range<usize> {
        while from < text.len()
            && let Some(at) = self.pattern.candidate(self.scratch, text, from)
        {
            let start = memchr::memrchr(b'\n', &text[from..at]).map_or(from, |newline| from + newline + 1);
            if start == text.len() {
                break;
            }
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
            let (line, has_cr) = without_cr(text, start..end);
            if self.pattern.confirms(self.scratch, line, has_cr) {
                return start..end;
            }
            from = end + 1;
        }
        text.len()..text.len()
    }

    fn add_unmatched(&mut self, text: &[u8], at: Range<usize>) -> ScanControl {
        self.line += memchr::memchr_iter(b'\n', &text[self.counted..at.start]).count() as u64;
        self.counted = at.start;
        let offset = self.base + at.start as u64;
        match self.count_match(self.line, offset) {
            Admission::NotAsked | Admission::Counted => return ScanControl::Continue,
            Admission::End => return ScanControl::Stop,
            Admission::Shown => {}
        }
        let (line, _) = without_cr(text, at.clone());
        self.push(MatchedLines {
            line: self.line,
            last_line: self.line,
            column: 1,
            offset,
            shown: clip(line, window(line, &(0..0), self.options.max_line_bytes), &[]),
            before: self.before(text, at.start),
            after: self.after(text, at.end),
        });
        ScanControl::Continue
    }
}
