//! The changed places as they are in the final file, so that the client need not read the file again to see what an edit did.
//!
//! While operations run, a place is a range of bytes that every later operation moves. At the end it becomes lines, so its
//! number always names a line of the final file.

use std::ops::Range;

use super::splice::SpliceMark;
use crate::text::lines;

/// Bytes of echoes per file.
const BUDGET_BYTES: usize = 4096;
/// The cost of an echo besides its lines. Each line costs its bytes and one more.
const OVERHEAD_BYTES: usize = 64;
/// Lines shown on each side of a region.
const CONTEXT_LINES: usize = 2;
/// A region of more lines is shown by its first and last `END_LINES`.
const MAX_LINES: u64 = 20;
const END_LINES: usize = 8;
/// Matches of one operation that are shown.
pub(super) const MAX_SITES: usize = 5;
/// One more than the budget can show.
pub(super) const MAX_ANCHORS: usize = BUDGET_BYTES / OVERHEAD_BYTES + 1;

/// One changed place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEditEcho {
    /// Index of the operation, from 0.
    pub op_index: usize,
    /// Number of the first line shown, in the final file.
    pub from_line: u64,
    /// Without terminators; what is not UTF-8 is replaced.
    pub lines: Vec<String>,
    /// Lines left out in the middle.
    pub elided: Option<u64>,
    /// Set for an operation that replaces matches.
    pub total_replacements: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EchoShape {
    /// Lines that were inserted, or changed, or a cut where lines went away. Shown with what is around it.
    Region,
    /// A match that was replaced.
    Site { total: u64 },
}

/// Places to be shown, those of the first operations.
#[derive(Debug, Default)]
pub(super) struct Anchors(Vec<Anchor>);

#[derive(Debug)]
struct Anchor {
    op_index: usize,
    shape: EchoShape,
    range: Range<usize>,
}

impl Anchors {
    /// A file may take very many operations; those that no budget can show are forgotten at once.
    pub(super) fn add(&mut self, op_index: usize, shape: EchoShape, range: Range<usize>) {
        let at = self.0.partition_point(|anchor| anchor.op_index <= op_index);
        self.0.insert(at, Anchor { op_index, shape, range });
        self.0.truncate(MAX_ANCHORS);
    }

    pub(super) fn marks(&self) -> impl Iterator<Item = SpliceMark> {
        self.0.iter().flat_map(|Anchor { range, .. }| {
            [SpliceMark { at: range.start, is_end: false }, SpliceMark { at: range.end, is_end: true }]
        })
    }

    pub(super) fn move_to(&mut self, marks: &[usize]) {
        for (anchor, ends) in self.0.iter_mut().zip(marks.chunks_exact(2)) {
            // If text was inserted exactly at a cut, the two ends are in reverse order: the place is between them.
            anchor.range = ends[0].min(ends[1])..ends[0].max(ends[1]);
        }
    }

    /// The echoes that fit the budget, and whether some were left out. The first one always fits. `body` is the file without
    /// its first `skipped` bytes.
    pub(super) fn show(&self, body: &[u8], skipped: usize) -> (Vec<FileEditEcho>, bool) {
        let mut echoes = Vec::new();
        let mut used = 0;
        for anchor in &self.0 {
            let at = |at: usize| at.saturating_sub(skipped);
            let echo = anchor.show(body, &(at(anchor.range.start)..at(anchor.range.end)));
            used += OVERHEAD_BYTES + echo.lines.iter().map(|line| line.len() + 1).sum::<usize>();
            if used > BUDGET_BYTES && !echoes.is_empty() {
                return (echoes, true);
            }
            echoes.push(echo);
        }
        (echoes, false)
    }
}

impl Anchor {
    fn show(&self, body: &[u8], range: &Range<usize>) -> FileEditEcho {
        let (range, show_all, ends, total_replacements) = match self.shape {
            EchoShape::Region => (whole_lines_around(body, range), MAX_LINES, END_LINES, None),
            EchoShape::Site { total } => (whole_lines(body, range), 2, 1, Some(total)),
        };
        let shown = &body[range.clone()];
        let count = lines::count(shown);
        let (lines, elided) = if count <= show_all {
            (lines::lines(shown).map(text).collect(), None)
        } else {
            let head = lines::lines(shown).take(ends).map(text);
            let tail = lines::lines(last_lines(shown, ends)).map(text);
            (head.chain(tail).collect(), Some(count - 2 * ends as u64))
        };
        let from_line = lines::number_at(body, range.start);
        FileEditEcho { op_index: self.op_index, from_line, lines, elided, total_replacements }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(lines::text_of(line)).into_owned()
}

/// Whole lines: those of `range`, or of the last line where `range` is empty at the end.
fn whole_lines(body: &[u8], range: &Range<usize>) -> Range<usize> {
    let last = body.len().saturating_sub(1);
    let first = range.start.min(last);
    let end = range.end.saturating_sub(1).clamp(first, last);
    lines::start_at(body, first)..lines::end_at(body, end)
}

/// Whole lines: those of `range` and what is around them. Between two lines there is only what is around.
fn whole_lines_around(body: &[u8], range: &Range<usize>) -> Range<usize> {
    let is_cut = range.is_empty() && lines::start_at(body, range.start) == range.start;
    let Range { mut start, mut end } = if is_cut { range.clone() } else { whole_lines(body, range) };
    for _ in 0..CONTEXT_LINES {
        start = lines::start_at(body, start.saturating_sub(1));
        end = lines::end_at(body, end);
    }
    start..end
}

/// The last `count` lines.
fn last_lines(body: &[u8], count: usize) -> &[u8] {
    let mut start = body.len();
    for _ in 0..count {
        start = lines::start_at(body, start.saturating_sub(1));
    }
    &body[start..]
}
