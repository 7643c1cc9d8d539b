//! A whole file at once, for matches that span lines.

use std::ops::Range;

use super::{Admitted, Flow, Found, Scanner, after_match, clip, window, without_cr};

impl Scanner<'_> {
    pub fn whole(&mut self, text: &[u8]) {
        let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
        let mut from = 0;
        let mut group: Option<Group> = None;
        while from <= text.len()
            && let Some(found) = self.pattern.next_in(self.scratch, text, from..text.len())
        {
            from = after_match(text, &found);
            let start = memchr::memrchr(b'\n', &text[..found.start]).map_or(0, |newline| newline + 1);
            if start == text.len() {
                break;
            }
            // A match that ends with a terminator does not reach into the next line.
            let last = if found.is_empty() { found.end } else { found.end - 1 };
            let end = memchr::memchr(b'\n', &text[last..]).map_or(text.len(), |newline| last + newline);
            match &mut group {
                Some(group) if start < group.end => {
                    group.end = group.end.max(end);
                    group.matches.push(found);
                }
                _ => {
                    if let Some(group) = group.take()
                        && self.add_group(text, group) == Flow::Done
                    {
                        return;
                    }
                    group = Some(Group { start, end, matches: vec![found] });
                }
            }
        }
        if let Some(group) = group {
            self.add_group(text, group);
        }
    }

    fn add_group(&mut self, text: &[u8], Group { start, end, mut matches }: Group) -> Flow {
        self.line += memchr::memchr_iter(b'\n', &text[self.counted..start]).count() as u64;
        self.counted = start;
        match self.admit(self.line, start as u64) {
            Admitted::No | Admitted::Counted => return Flow::More,
            Admitted::End => return Flow::Done,
            Admitted::Shown => {}
        }
        let (lines, _) = without_cr(text, start..end);
        matches.iter_mut().for_each(|found| {
            *found = found.start - start..(found.end - start).min(lines.len()).max(found.start - start);
        });
        let Some(first) = matches.first() else { return Flow::More };
        let shown = clip(lines, window(lines, first, self.wants.max_line_bytes), &matches);
        self.push(Found {
            line: self.line,
            last_line: self.line + memchr::memchr_iter(b'\n', lines).count() as u64,
            column: first.start as u64 + 1,
            offset: start as u64,
            shown,
            before: self.before(text, start),
            after: self.after(text, end),
        });
        Flow::More
    }
}

/// Matches that share lines.
struct Group {
    start: usize,
    end: usize,
    matches: Vec<Range<usize>>,
}
