//! Operations that name lines of the original file: all are checked first, then applied in one pass.

use std::ops::RangeInclusive;

use super::{Body, EchoShape, EditError, FileEditOp, echo::MAX_ANCHORS, invalid_op};
use crate::text::lines::{self, Terminator};

/// Any line operation: lines that are removed, and lines that take their place.
struct LineChange<'a> {
    op_index: usize,
    /// Its place among the line operations, 0-based.
    position: usize,
    /// First line it covers.
    from: u64,
    /// Lines that go; none for an insertion.
    removed_lines: u64,
    content: &'a str,
}

impl LineChange<'_> {
    /// An insertion covers the line it names, although that line stays.
    fn covers(&self) -> RangeInclusive<u64> {
        self.from..=self.from + self.removed_lines.max(1) - 1
    }
}

pub(super) fn run(body: &mut Body<'_>, ops: &[FileEditOp<'_>]) -> Result<(), EditError> {
    let changes = check_ops(ops, lines::count(&body.bytes))?;
    if changes.is_empty() {
        return Ok(());
    }
    body.check_cancelled()?;
    let mut regions = Vec::new();
    let mut splice = body.splice();
    let mut old = LineWalker { body: &body.bytes, line: 1, at: 0 };
    for change in &changes {
        let start = old.advance_to(change.from);
        let end = old.advance_to(change.from + change.removed_lines);
        splice.copy_to(start);
        // Only the last line of a file can lack its terminator, and something follows it now.
        if start == body.bytes.len() && !splice.built().is_empty() && !splice.built().ends_with(b"\n") {
            let style = last_style(splice.built());
            splice.push(style.bytes());
        }
        let ends = NewTerminators::of(splice.built(), &body.bytes, start, end);
        let from = splice.built().len();
        splice.replace(start..end, |out| {
            let mut new = new_lines(change.content).peekable();
            while let Some(line) = new.next() {
                out.push(line.as_bytes());
                out.push(if new.peek().is_some() { ends.inner } else { ends.last }.bytes());
            }
        });
        // More than these are never shown.
        if change.position < MAX_ANCHORS {
            regions.push((change.op_index, from..splice.built().len()));
        }
    }
    let (mut bytes, marks) = splice.finish()?;
    // A file that did not end with a terminator does not get one: the line that is last now gives up its own.
    if !body.bytes.is_empty() && !body.bytes.ends_with(b"\n") {
        bytes.truncate(lines::start_at(&bytes, bytes.len().saturating_sub(1)) + last_text(&bytes).len());
    }
    let len = bytes.len();
    body.set((bytes, marks));
    for (op_index, region) in regions {
        body.anchors.add(op_index, EchoShape::Region, region.start.min(len)..region.end.min(len));
    }
    body.runs_after_others = true;
    Ok(())
}

/// The terminators of new lines.
struct NewTerminators {
    inner: Terminator,
    last: Terminator,
}

impl NewTerminators {
    /// For lines that come between `built` and `start..end`, which they replace.
    fn of(built: &[u8], body: &[u8], start: usize, end: usize) -> Self {
        let previous = Terminator::at_end_of(built);
        if start == end {
            let next = Terminator::at_end_of(&body[start..lines::end_at(body, start)]);
            let style = previous.or(next).unwrap_or(Terminator::Lf);
            return Self { inner: style, last: style };
        }
        let first = Terminator::at_end_of(&body[start..lines::end_at(body, start)]);
        let inner = first.or(previous).unwrap_or(Terminator::Lf);
        Self { inner, last: Terminator::at_end_of(&body[start..end]).unwrap_or(inner) }
    }
}

/// The terminator that a last line without one gets when another line follows: that of the line before it.
pub(super) fn last_style(body: &[u8]) -> Terminator {
    Terminator::at_end_of(&body[..lines::start_at(body, body.len())]).unwrap_or(Terminator::Lf)
}

fn last_text(bytes: &[u8]) -> &[u8] {
    let start = lines::start_at(bytes, bytes.len().saturating_sub(1));
    lines::text_of(&bytes[start..])
}

/// One final newline ends the last line and begins none; empty content has no line at all.
fn new_lines(content: &str) -> impl Iterator<Item = &str> {
    let lines = content.strip_suffix('\n').unwrap_or(content).split('\n');
    lines.map(|line| line.trim_end_matches('\r')).take(if content.is_empty() { 0 } else { usize::MAX })
}

/// Walks over the old lines, forward only.
struct LineWalker<'b> {
    body: &'b [u8],
    line: u64,
    at: usize,
}

impl LineWalker<'_> {
    /// The offset where `line` begins, or the end of the body if it has only the lines before.
    fn advance_to(&mut self, line: u64) -> usize {
        while self.line < line {
            self.at = lines::end_at(self.body, self.at);
            self.line += 1;
        }
        self.at
    }
}

/// In the order of their lines; C210 for numbers that are not there and for operations that meet.
fn check_ops<'a>(ops: &[FileEditOp<'a>], lines: u64) -> Result<Vec<LineChange<'a>>, EditError> {
    let mut changes = Vec::new();
    for (op_index, op) in ops.iter().enumerate() {
        let (from, takes, content) = match *op {
            FileEditOp::Insert { at_line, content } => {
                check_insert(op_index, at_line, lines)?;
                (at_line, 0, content)
            }
            FileEditOp::Remove { from_line, to_line } => {
                (from_line, check_range(op_index, from_line, to_line, lines)?, "")
            }
            FileEditOp::UpdateLines { from_line, to_line, content } => {
                (from_line, check_range(op_index, from_line, to_line, lines)?, content)
            }
            _ => continue,
        };
        changes.push(LineChange { op_index, position: changes.len(), from, removed_lines: takes, content });
    }
    changes.sort_by_key(|change| change.from);
    for pair in changes.windows(2) {
        if pair[0].covers().end() >= pair[1].covers().start() {
            return Err(overlap(&pair[0], &pair[1]));
        }
    }
    Ok(changes)
}

fn check_insert(op_index: usize, at_line: u64, lines: u64) -> Result<(), EditError> {
    if (1..=lines + 1).contains(&at_line) {
        return Ok(());
    }
    let text = format!(
        "insert: at_line {at_line} is not there; lines are 1-based and the file has {}, so 1 to {} is possible ({} \
         appends)",
        count_text(lines, "line"),
        lines + 1,
        lines + 1
    );
    Err(invalid_op(op_index, text))
}

/// The number of lines.
fn check_range(op_index: usize, from: u64, to: u64, lines: u64) -> Result<u64, EditError> {
    if from >= 1 && from <= to && to <= lines {
        return Ok(to - from + 1);
    }
    let rule = if from == 0 || to > lines {
        format!("lines are 1-based and inclusive, and the file has {}", count_text(lines, "line"))
    } else {
        "from_line has to be at most to_line (1-based, inclusive)".to_owned()
    };
    Err(invalid_op(op_index, format!("lines {from} to {to}: {rule}; look with coder::read-file and numbered: true")))
}

fn overlap(a: &LineChange<'_>, b: &LineChange<'_>) -> EditError {
    let (first, second) = if a.position < b.position { (a, b) } else { (b, a) };
    let shown = |change: &LineChange<'_>| {
        let covers = change.covers();
        format!(
            "line op {} (ops[{}], lines {} to {})",
            change.position + 1,
            change.op_index,
            covers.start(),
            covers.end()
        )
    };
    EditError::Invalid(format!(
        "{} and {} overlap; line numbers are the original file's, an insert covers its at_line, and each line may be \
         named once: join the two into one update_lines",
        shown(first),
        shown(second)
    ))
}

/// `1 line`, `2 lines`.
pub(super) fn count_text(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
