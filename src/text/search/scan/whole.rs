//! A whole file at once, for matches that span lines.

use std::ops::Range;

use super::{Admission, MatchedLines, ScanControl, Scanner, after_match, clip, window, without_cr};

/// Matches between two checks for cancellation.
const CHECK_EVERY: u32 = 1024;

impl Scanner<'_> {
    pub fn scan_whole(&mut self, text: &[u8]) {
        let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
        if self.options.each_match {
            self.add_each(text, 0);
            return;
        }
        let (mut from, mut seen) = (0, 0u32);
        let mut group: Option<MatchGroup> = None;
        while from <= text.len()
            && let Some(found) = self.pattern.next_in(self.scratch, text, from..text.len())
        {
            from = after_match(text, &found);
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(CHECK_EVERY) && self.scratch.is_cancelled() {
                return;
            }
            // The search for line ends starts at the known line, because a line may have very many matches.
            if let Some(group) = group.as_mut().filter(|group| found.start < group.end) {
                group.grow(text, found, self.options.max_line_bytes);
                continue;
            }
            let known = group.as_ref().map_or(0, |group| group.start);
            let newline = memchr::memrchr(b'\n', &text[known..found.start]);
            let start = newline.map_or(known, |newline| known + newline + 1);
            if start == text.len() {
                break;
            }
            match &mut group {
                Some(group) if start < group.end => group.grow(text, found, self.options.max_line_bytes),
                _ => {
                    if let Some(group) = group.take()
                        && self.add_group(text, group) == ScanControl::Stop
                    {
                        return;
                    }
                    group = Some(MatchGroup { start, end: last_line_end(text, &found), matches: vec![found] });
                }
            }
        }
        if let Some(group) = group {
            self.add_group(text, group);
        }
    }

    fn add_group(&mut self, text: &[u8], MatchGroup { start, end, mut matches }: MatchGroup) -> ScanControl {
        self.line += memchr::memchr_iter(b'\n', &text[self.counted..start]).count() as u64;
        self.counted = start;
        match self.count_match(self.line, start as u64) {
            Admission::NotAsked | Admission::Counted => return ScanControl::Continue,
            Admission::End => return ScanControl::Stop,
            Admission::Shown => {}
        }
        let (lines, _) = without_cr(text, start..end);
        matches.iter_mut().for_each(|found| {
            *found = found.start - start..(found.end - start).min(lines.len()).max(found.start - start);
        });
        let Some(first) = matches.first() else { return ScanControl::Continue };
        let shown = clip(lines, window(lines, first, self.options.max_line_bytes), &matches);
        self.push(MatchedLines {
            line: self.line,
            last_line: self.line + memchr::memchr_iter(b'\n', lines).count() as u64,
            column: first.start as u64 + 1,
            offset: start as u64,
            shown,
            before: self.before(text, start),
            after: self.after(text, end),
        });
        ScanControl::Continue
    }
}

/// Matches that share lines.
struct MatchGroup {
    start: usize,
    end: usize,
    matches: Vec<Range<usize>>,
}

impl MatchGroup {
    /// Another match that begins in its lines. `most`: what is further away is not shown.
    fn grow(&mut self, text: &[u8], found: Range<usize>, most: usize) {
        if found.end > self.end {
            self.end = self.end.max(last_line_end(text, &found));
        }
        if self.matches.first().is_none_or(|first| found.start <= first.start + most) {
            self.matches.push(found);
        }
    }
}

/// A match that ends with a terminator does not reach into the next line.
fn last_line_end(text: &[u8], found: &Range<usize>) -> usize {
    let last = if found.is_empty() { found.end } else { found.end - 1 };
    memchr::memchr(b'\n', &text[last..]).map_or(text.len(), |newline| last + newline)
}
