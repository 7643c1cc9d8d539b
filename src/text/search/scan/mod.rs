//! One file, region by region: which lines match, with their numbers and neighbours.

mod each;
mod inverted;
mod long;
mod whole;

use std::{collections::VecDeque, ops::Range};

use self::long::LongLine;
use super::{
    ClippedLine, EngineBuffers, SearchAbort, SearchPattern,
    clip::{clip, head, window},
};
use crate::text::lines::newlines_of_text;

/// Which matches of a file to collect, and how much of them.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Neighbour lines.
    pub before: usize,
    pub after: usize,
    /// Bytes shown of a line.
    pub max_line_bytes: usize,
    /// Matches that are kept; the next one ends the search of the file.
    pub max_matches: u64,
    /// Matches that the file may have, those before `after_offset` included.
    pub max_per_file: u64,
    /// Count them, and show none.
    pub counts_only: bool,
    /// Every match by itself instead of its line.
    pub each_match: bool,
    /// The lines that do not match.
    pub is_inverted: bool,
    /// Bytes of text that are kept, neighbours included; the match that exceeds them is the last.
    pub max_bytes: u64,
    /// Bytes that each match needs in addition.
    pub match_overhead_bytes: u64,
    /// Only matches that begin after this byte, where the reply before ended.
    pub after_offset: Option<u64>,
    /// Only in these lines, ascending and not overlapping; none = all.
    pub lines: Vec<(u64, u64)>,
}

/// A matching line, or the lines of a match that spans several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedLines {
    /// From 1.
    pub line: u64,
    pub last_line: u64,
    /// Byte of the line where the first match begins, from 1.
    pub column: u64,
    /// Offset of the line in the text of the file.
    pub offset: u64,
    pub shown: ClippedLine,
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// The result for one file.
#[derive(Debug, Default)]
pub struct ScanOutcome {
    pub found: Vec<MatchedLines>,
    /// Lines that match, also where none is shown.
    pub count: u64,
    /// There is another match, and why it is not here.
    pub cut: Option<ScanCut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanCut {
    PerFile,
    /// `max_matches` or `max_bytes`.
    Page,
}

/// Whether to continue reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanControl {
    Continue,
    Stop,
}

#[derive(Debug)]
pub struct Scanner<'a> {
    pattern: &'a SearchPattern,
    scratch: &'a mut EngineBuffers,
    options: &'a ScanOptions,
    outcome: ScanOutcome,
    /// Matches before `after_offset`.
    earlier: u64,
    /// Nothing more is wanted but lines after the last match.
    is_ending: bool,
    bytes: u64,
    /// Offset of this region in the text.
    base: u64,
    /// Number of the line at `counted`, which is an offset in this region.
    line: u64,
    counted: usize,
    /// There is no NUL before this offset in this region.
    clean: usize,
    /// The last lines of earlier regions, for matches that need lines before them.
    last_lines: VecDeque<String>,
    /// A line that is longer than a region, and what its neighbours see of it.
    long: Option<LongLine>,
}

impl<'a> Scanner<'a> {
    pub fn new(pattern: &'a SearchPattern, scratch: &'a mut EngineBuffers, wants: &'a ScanOptions) -> Self {
        Self {
            pattern,
            scratch,
            options: wants,
            outcome: ScanOutcome::default(),
            earlier: 0,
            is_ending: false,
            bytes: 0,
            base: 0,
            line: 1,
            counted: 0,
            clean: 0,
            last_lines: VecDeque::new(),
            long: None,
        }
    }

    pub fn finish(self) -> ScanOutcome {
        self.outcome
    }

    /// Why the search of the file went no further, if an engine gave up.
    pub fn take_given_up(&mut self) -> Option<SearchAbort> {
        self.scratch.take_abort()
    }

    /// The next whole lines; the last one of a file may lack its terminator. Call `leave_region` before the next region.
    pub fn scan_region(&mut self, text: &[u8]) -> ScanControl {
        self.complete_after(text);
        if self.is_ending {
            return self.end();
        }
        if self.options.is_inverted {
            return self.scan_inverted(text);
        }
        let mut text = text;
        if self.pattern.sees_ends() {
            text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
        }
        let mut from = 0;
        while from < text.len() {
            let Some(at) = self.pattern.candidate(self.scratch, text, from) else {
                return ScanControl::Continue;
            };
            let start = memchr::memrchr(b'\n', &text[from..at]).map_or(from, |newline| from + newline + 1);
            if start == text.len() {
                // An empty match behind the last terminator, where no line is.
                return ScanControl::Continue;
            }
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
            if let Some(nul) = memchr::memchr(0, &text[self.clean..end]) {
                // The text ends here; what is before it counts as the last line.
                text = &text[..self.clean + nul];
                continue;
            }
            self.clean = end;
            let (line, has_cr) = without_cr(text, start..end);
            if self.pattern.confirms(self.scratch, line, has_cr)
                && self.add(text, start, end, line) == ScanControl::Stop
            {
                return self.end();
            }
            from = end + 1;
        }
        ScanControl::Continue
    }

    /// Enough was found; what may still be missing are lines after the last match.
    fn end(&self) -> ScanControl {
        let is_complete = self.outcome.found.last().is_none_or(|last| last.after.len() == self.options.after);
        if is_complete { ScanControl::Stop } else { ScanControl::Continue }
    }

    /// Call this at the end of a region before the next one. `Stop` if there was a NUL in it.
    pub fn leave_region(&mut self, text: &[u8]) -> ScanControl {
        // There is none up to `clean`, which is not before `counted`.
        let Some(newlines) = newlines_of_text(&text[self.counted..]) else { return ScanControl::Stop };
        self.line += newlines;
        self.base += text.len() as u64;
        (self.counted, self.clean) = (0, 0);
        if self.options.before > 0 {
            let mut lines = lines_before(text, text.len(), self.options.before);
            lines.reverse();
            lines.into_iter().for_each(|line| self.remember(head(line, self.options.max_line_bytes)));
        }
        ScanControl::Continue
    }

    fn remember(&mut self, line: String) {
        if self.last_lines.len() == self.options.before {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(line);
    }

    fn add(&mut self, text: &[u8], start: usize, end: usize, line: &[u8]) -> ScanControl {
        self.line += memchr::memchr_iter(b'\n', &text[self.counted..start]).count() as u64;
        self.counted = start;
        if self.options.each_match {
            let flow = self.add_each(line, self.base + start as u64);
            self.is_ending = flow == ScanControl::Stop;
            return flow;
        }
        match self.count_match(self.line, self.base + start as u64) {
            Admission::NotAsked | Admission::Counted => return ScanControl::Continue,
            Admission::End => {
                self.is_ending = true;
                return ScanControl::Stop;
            }
            Admission::Shown => {}
        }
        let matches = self.matches(line);
        let Some(first) = matches.first() else { return ScanControl::Continue };
        let shown = clip(line, window(line, first, self.options.max_line_bytes), &matches);
        self.push(MatchedLines {
            line: self.line,
            last_line: self.line,
            column: first.start as u64 + 1,
            offset: self.base + start as u64,
            shown,
            before: self.before(text, start),
            after: self.after(text, end),
        });
        ScanControl::Continue
    }

    fn push(&mut self, found: MatchedLines) {
        let context = found.before.iter().chain(&found.after).map(String::len).sum::<usize>();
        self.bytes += self.options.match_overhead_bytes + (found.shown.text.len() + context) as u64;
        self.outcome.found.push(found);
    }

    /// Counts a match if it is one of those that are wanted.
    fn count_match(&mut self, line: u64, offset: u64) -> Admission {
        if let Some((_, last)) = self.options.lines.last() {
            if line > *last {
                return Admission::End;
            }
            if !self.options.lines.iter().any(|(from, to)| (*from..=*to).contains(&line)) {
                return Admission::NotAsked;
            }
        }
        if self.outcome.count + self.earlier == self.options.max_per_file {
            self.outcome.cut = Some(ScanCut::PerFile);
            return Admission::End;
        }
        if self.options.after_offset.is_some_and(|after| offset <= after) {
            self.earlier += 1;
            return Admission::NotAsked;
        }
        if self.outcome.count == self.options.max_matches || self.bytes > self.options.max_bytes {
            self.outcome.cut = Some(ScanCut::Page);
            return Admission::End;
        }
        self.outcome.count += 1;
        if self.options.counts_only { Admission::Counted } else { Admission::Shown }
    }

    /// The matches of a line: all, or those that a window of it can show.
    fn matches(&mut self, line: &[u8]) -> Vec<Range<usize>> {
        let Some(first) = self.pattern.next_in(self.scratch, line, 0..line.len()) else { return Vec::new() };
        let end = match line.len() <= self.options.max_line_bytes {
            true => line.len(),
            false => window(line, &first, self.options.max_line_bytes).end,
        };
        let mut matches = vec![first];
        self.more_matches(line, end, &mut matches);
        matches
    }

    /// Collects matches up to `end`. Empty matches are left out, unless there are no others.
    fn more_matches(&mut self, text: &[u8], end: usize, matches: &mut Vec<Range<usize>>) {
        let mut from = matches.last().map_or(0, |last| after_match(text, last));
        while from <= end
            && let Some(found) = self.pattern.next_in(self.scratch, text, from..end)
        {
            from = after_match(text, &found);
            if !found.is_empty() {
                matches.push(found);
            }
        }
    }

    fn before(&self, text: &[u8], start: usize) -> Vec<String> {
        let near = lines_before(text, start, self.options.before);
        let missing = self.options.before - near.len();
        let skipped = self.last_lines.len().saturating_sub(missing);
        let far = self.last_lines.iter().skip(skipped).take(missing).cloned();
        far.chain(near.into_iter().rev().map(|line| head(line, self.options.max_line_bytes))).collect()
    }

    fn after(&self, text: &[u8], end: usize) -> Vec<String> {
        let rest = text.get(end + 1..).unwrap_or_default();
        lines(rest).take(self.options.after).map(|line| head(line, self.options.max_line_bytes)).collect()
    }

    /// Lines after matches of the region before.
    fn complete_after(&mut self, text: &[u8]) {
        if self.options.after == 0
            || self.outcome.found.last().is_none_or(|last| last.after.len() == self.options.after)
        {
            return;
        }
        for line in lines(text).take(self.options.after) {
            let line = head(line, self.options.max_line_bytes);
            self.add_after(&line);
        }
    }

    fn add_after(&mut self, line: &str) {
        for found in self.outcome.found.iter_mut().rev().take_while(|found| found.after.len() < self.options.after) {
            found.after.push(line.to_owned());
        }
    }
}

enum Admission {
    /// Not asked for.
    NotAsked,
    Counted,
    Shown,
    /// Nothing more of this file is wanted.
    End,
}

/// The first position at which the next match may begin: the end of this match, or one character later if it is empty.
fn after_match(text: &[u8], found: &Range<usize>) -> usize {
    if !found.is_empty() {
        return found.end;
    }
    let inside = text.get(found.end + 1..).unwrap_or_default();
    found.end + 1 + inside.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// A line without its terminator's CR, and whether it had one. Only in front of a newline it is part of one.
fn without_cr(text: &[u8], line: Range<usize>) -> (&[u8], bool) {
    let is_terminated = line.end < text.len();
    match text[line.clone()].strip_suffix(b"\r") {
        Some(inner) if is_terminated => (inner, true),
        _ => (&text[line], false),
    }
}

/// Lines without their terminators.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest);
        let (line, _) = without_cr(rest, 0..end.unwrap_or(rest.len()));
        rest = end.map_or(&[], |end| &rest[end + 1..]);
        Some(line)
    })
}

/// At most `count` lines before a place where one begins, the nearest first.
fn lines_before(text: &[u8], start: usize, count: usize) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut end = start;
    while end > 0 && found.len() < count {
        let is_terminated = text[end - 1] == b'\n';
        let content = end - usize::from(is_terminated);
        let from = memchr::memrchr(b'\n', &text[..content]).map_or(0, |newline| newline + 1);
        found.push(without_cr(text, from..content).0);
        end = from;
    }
    found
}

#[cfg(test)]
mod tests;
