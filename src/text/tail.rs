//! The last lines of a stream whose end is known: found backwards, then fitted into a budget.

use super::{Measure, number};

/// Walks back from the end, chunk before chunk, to the line where the tail begins.
#[derive(Debug, Clone)]
pub struct TailFinder {
    line_count: u64,
    max_bytes: u64,
    end: u64,
    /// Where the next chunk ends.
    cursor: u64,
    lines: u64,
    start: u64,
    cut: bool,
}

impl TailFinder {
    /// `end` is the stream's length; `max_bytes` the most bytes the tail may have.
    pub fn new(wanted: u64, cap: u64, end: u64) -> Self {
        Self { line_count: wanted, max_bytes: cap, end, cursor: end, lines: 0, start: end, cut: false }
    }

    /// The chunk that ends where the one before began. True once the tail's beginning is known.
    pub fn push(&mut self, chunk: &[u8]) -> bool {
        let from = self.cursor - chunk.len() as u64;
        for at in memchr::memrchr_iter(b'\n', chunk) {
            let line_start = from + at as u64 + 1;
            // The LF that ends the stream begins no line.
            if line_start < self.end && self.line_begins(line_start) {
                return true;
            }
        }
        self.cursor = from;
        // Whatever line begins further up is above the limit: a last line of a terabyte is not walked through.
        self.cut = self.end - from > self.max_bytes;
        self.cut
    }

    /// The stream's first line begins at `floor`, which is 0 or behind a byte order mark.
    pub fn reach(&mut self, floor: u64) {
        if floor < self.end {
            self.line_begins(floor);
        }
    }

    /// Where the tail begins, and whether the budget kept further wanted lines out.
    pub fn finish(self) -> (u64, bool) {
        (self.start, self.cut)
    }

    fn line_begins(&mut self, at: u64) -> bool {
        if self.lines == self.line_count {
            return true;
        }
        if self.end - at > self.max_bytes {
            self.cut = true;
            return true;
        }
        self.start = at;
        self.lines += 1;
        self.lines == self.line_count
    }
}

/// The longest run of last lines of `bytes` within `max_bytes`, rendered. `last_number` numbers the last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedTail {
    pub content: Vec<u8>,
    pub lines: u64,
    /// Lines in front were left out.
    pub cut: bool,
}

pub fn fit_tail(bytes: &[u8], last_number: Option<u64>, cap: u64, measure: Measure) -> FittedTail {
    let starts = line_starts(bytes);
    let prefix = |line: u64| last_number.map_or(0, |last| number::prefix_len(last - line));
    let mut used = 0;
    let mut kept = 0;
    let mut end = bytes.len();
    for &start in starts.iter().rev() {
        let cost = measure.of(&bytes[start..end]) + prefix(kept);
        if cost > cap - used {
            break;
        }
        used += cost;
        kept += 1;
        end = start;
    }
    let first = starts.len() - kept as usize;
    let content = match last_number {
        None => bytes[end..].to_vec(),
        Some(last) => numbered(bytes, &starts[first..], last + 1 - kept),
    };
    FittedTail { content, lines: kept, cut: first > 0 }
}

fn numbered(bytes: &[u8], starts: &[usize], first_number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + starts.len() * 8);
    for (index, &start) in starts.iter().enumerate() {
        number::push_prefix(&mut out, first_number + index as u64);
        let end = starts.get(index + 1).copied().unwrap_or(bytes.len());
        out.extend_from_slice(&bytes[start..end]);
    }
    out
}

fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let after_each = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1);
    std::iter::once(0).chain(after_each).filter(|&start| start < bytes.len()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The contract, told naively: the last `line_count` lines, fewer when the budget says so.
    fn naive(bytes: &[u8], wanted: usize, cap: u64, numbered: bool, measure: Measure) -> (Vec<u8>, u64) {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
        let mut out = Vec::new();
        let mut kept = 0;
        for (index, line) in lines.iter().enumerate().rev().take(wanted) {
            let mut rendered = if numbered { format!("{}→", index + 1).into_bytes() } else { vec![] };
            rendered.extend_from_slice(line);
            rendered.extend_from_slice(&out);
            let size = match measure {
                Measure::Raw => rendered.len(),
                Measure::Converted => String::from_utf8_lossy(&rendered).len(),
            };
            if size as u64 > cap {
                break;
            }
            out = rendered;
            kept += 1;
        }
        (out, kept)
    }

    fn tail(bytes: &[u8], wanted: u64, cap: u64, numbered: bool, measure: Measure, step: usize) -> (Vec<u8>, u64) {
        let mut backward = TailFinder::new(wanted, cap, bytes.len() as u64);
        let mut end = bytes.len();
        let mut found = false;
        while end > 0 && !found {
            let from = end.saturating_sub(step);
            found = backward.push(&bytes[from..end]);
            end = from;
        }
        if !found {
            backward.reach(0);
        }
        let (start, _) = backward.finish();
        let total = bytes.split_inclusive(|&byte| byte == b'\n').count() as u64;
        let fitted = fit_tail(&bytes[start as usize..], numbered.then_some(total), cap, measure);
        (fitted.content, fitted.lines)
    }

    proptest! {
        #[test]
        fn a_tail_is_what_the_naive_reader_finds(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(0xff)], 0..60),
            wanted in 1u64..8, cap in 0u64..80, numbered: bool, raw: bool, step in 1usize..9,
        ) {
            let measure = if raw { Measure::Raw } else { Measure::Converted };
            prop_assert_eq!(
                tail(&bytes, wanted, cap, numbered, measure, step),
                naive(&bytes, wanted as usize, cap, numbered, measure)
            );
        }
    }

    #[test]
    fn a_cut_is_told() {
        let fitted = fit_tail(b"aa\nbb\n", None, 3, Measure::Raw);
        assert_eq!((fitted.content.as_slice(), fitted.lines, fitted.cut), (&b"bb\n"[..], 1, true));
        let mut backward = TailFinder::new(2, 3, 6);
        assert!(
            backward.push(b"aa\nbb\n") || {
                backward.reach(0);
                true
            }
        );
        assert_eq!(backward.finish(), (3, true));
    }

    #[test]
    fn a_last_line_above_the_limit_is_not_walked_through() {
        let mut backward = TailFinder::new(1, 3, 1 << 40);
        assert!(!backward.push(b"xyz") && backward.push(b"x"), "one byte beyond the limit is enough");
        assert_eq!(backward.finish(), (1 << 40, true));
    }

    #[test]
    fn nothing_is_the_tail_of_nothing() {
        let mut backward = TailFinder::new(5, 100, 0);
        backward.reach(0);
        assert_eq!(backward.finish(), (0, false));
    }
}
