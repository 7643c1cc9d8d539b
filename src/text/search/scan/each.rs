//! Every match by itself instead of its line.

use super::{Admission, MatchedLines, ScanControl, Scanner, after_match, clip, window};

/// Matches between two checks for cancellation.
const CHECK_EVERY: u32 = 1024;

impl Scanner<'_> {
    /// The matches in `text`, which begins with the line of the scanner, `offset` bytes into the file: one line, or a whole file.
    /// An empty match shows nothing and is left out.
    pub(super) fn add_each(&mut self, text: &[u8], offset: u64) -> ScanControl {
        let (mut from, mut seen) = (0, 0u32);
        let (mut line, mut line_start, mut counted) = (self.line, 0, 0);
        while from <= text.len()
            && let Some(found) = self.pattern.next_in(self.scratch, text, from..text.len())
        {
            from = after_match(text, &found);
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(CHECK_EVERY) && self.scratch.is_cancelled() {
                return ScanControl::Stop;
            }
            if found.is_empty() {
                continue;
            }
            let passed = &text[counted..found.start];
            line += memchr::memchr_iter(b'\n', passed).count() as u64;
            line_start = memchr::memrchr(b'\n', passed).map_or(line_start, |newline| counted + newline + 1);
            counted = found.start;
            match self.count_match(line, offset + found.start as u64) {
                Admission::NotAsked | Admission::Counted => continue,
                Admission::End => return ScanControl::Stop,
                Admission::Shown => {}
            }
            let matched = &text[found.clone()];
            let column = found.start - line_start;
            let mut shown = clip(
                matched,
                window(matched, &(0..0), self.options.max_line_bytes),
                std::slice::from_ref(&(0..matched.len())),
            );
            // A window begins with its match.
            shown.offset = shown.offset.map(|_| column as u64);
            let newlines = memchr::memchr_iter(b'\n', &matched[..matched.len() - 1]).count() as u64;
            self.push(MatchedLines {
                line,
                last_line: line + newlines,
                column: column as u64 + 1,
                offset: offset + found.start as u64,
                shown,
                before: Vec::new(),
                after: Vec::new(),
            });
        }
        ScanControl::Continue
    }
}
