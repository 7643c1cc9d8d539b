//! Error texts for a text that was found more or less often than expected: how often, where, and what to do next.

use std::fmt::Display;

use super::{Body, EVERY_MATCH, EditError, StrReplace, line_ops::count_text, nearest};
use crate::text::{lines, quote::quote};

/// Lines named in one message.
const MAX_LINES: usize = 20;
/// A pattern is quoted up to here.
const MAX_QUOTED_CHARS: usize = 60;

/// What to do about a pattern that matches nothing.
const FIND_PATTERN: &str =
    "find the text with coder::search, and set dot_matches_newline: true if the pattern has to cross lines";

/// Matches of one operation, and where the first of them begin.
#[derive(Debug, Default)]
pub(super) struct MatchCount {
    pub(super) found: u64,
    first: Vec<usize>,
}

impl MatchCount {
    pub(super) fn add(&mut self, at: usize) {
        self.found += 1;
        if self.first.len() < MAX_LINES {
            self.first.push(at);
        }
    }
}

/// For a regular expression.
pub(super) fn pattern_message(body: &Body<'_>, pattern: &str, count: &MatchCount, expected: u64) -> String {
    let told = mismatch_text(pattern, count.found, expected);
    match (count.found, expected) {
        (0, _) => format!("{told}; {FIND_PATTERN}"),
        (_, 0) => format!("{told}, {}; it is still there", line_numbers(body, count)),
        (found, _) => format!(
            "{told}, {}; anchor the pattern more closely, or pass expect_matches: {found} to replace them all",
            line_numbers(body, count)
        ),
    }
}

/// For a regular expression that has to match.
pub(super) fn no_match_message(pattern: &str) -> String {
    format!("{}; {FIND_PATTERN}", mismatch_text(pattern, 0, "at least 1"))
}

/// For literal text that was found.
pub(super) fn literal_message(body: &Body<'_>, old: &str, count: &MatchCount, expected: u64) -> String {
    let told = mismatch_text(old, count.found, expected);
    match (count.found, expected) {
        (_, 0) => format!("{told}, {}; it is still there", line_numbers(body, count)),
        (found, _) => format!(
            "{told}, {}; give more of the text around the one that is meant, or pass expect_matches: {found} to replace \
             them all",
            line_numbers(body, count)
        ),
    }
}

/// For literal text that is not in the file: the nearest lines, and what differs. `is_loose`: without regard to the white space
/// around lines it is there exactly once.
pub(super) fn missing(body: &Body<'_>, op_index: usize, op: &StrReplace<'_>, is_loose: bool) -> EditError {
    let nearest = nearest::find(&body.bytes, op.old, body.bounds.should_continue);
    let expected = if op.expect_matches == EVERY_MATCH { 1 } else { op.expect_matches };
    let mut text = format!("ops[{op_index}]: {}", mismatch_text(op.old, 0, expected));
    if let Some(nearest) = &nearest {
        let lines = line_range(nearest.from_line, nearest.lines.len() as u64);
        let verb = if nearest.lines.len() == 1 { "is" } else { "are" };
        text.push_str(&format!("; nearest {verb} {lines}{}", as_left(body)));
        if !nearest.differs.is_empty() {
            text.push_str(&format!("; what differs: {}", nearest.differs));
        }
    }
    text.push_str(match (is_loose, op.ignores_white_space) {
        (true, _) => "; whitespace: \"ignore\" replaces it there, or find the text with coder::search",
        (false, true) => {
            "; nor is it at exactly one place without regard to the white space around lines: find the text with coder::search"
        }
        (false, false) => {
            "; old is compared byte by byte: copy it from the file, find the text with coder::search, or use op replace, where .*? \
             and dot_matches_newline: true stand for what is not known exactly"
        }
    });
    match nearest {
        Some(nearest) => EditError::Missing { text, nearest: Box::new(nearest) },
        None => EditError::Invalid(text),
    }
}

/// `line 3`, `lines 3 to 5`.
pub(super) fn line_range(from: u64, count: u64) -> String {
    if count <= 1 { format!("line {from}") } else { format!("lines {from} to {}", from + count - 1) }
}

/// For literal text that could be replaced at either of two places.
pub(super) fn overlap_message(body: &Body<'_>, old: &str, places_at: [usize; 2]) -> String {
    let mut count = MatchCount::default();
    places_at.into_iter().for_each(|at| count.add(at));
    format!(
        "{}, {}, and they overlap; give more of the text around the one that is meant",
        mismatch_text(old, count.found, 1),
        line_numbers(body, &count)
    )
}

fn mismatch_text(pattern: &str, found: u64, expected: impl Display) -> String {
    let quoted = quote(pattern, MAX_QUOTED_CHARS);
    format!("{quoted} matched {}, expected {expected}", count_text(found, "time"))
}

/// Line numbers, each once.
fn line_numbers(body: &Body<'_>, count: &MatchCount) -> String {
    let mut numbers: Vec<u64> = count.first.iter().map(|at| lines::number_at(&body.bytes, *at)).collect();
    numbers.dedup();
    let what = if numbers.len() == 1 { "line" } else { "lines" };
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let more = if count.found > count.first.len() as u64 { ", …" } else { "" };
    format!("{what} {}{more}{}", numbers.join(", "), as_left(body))
}

/// Whether the numbers are those of the file on disk.
fn as_left(body: &Body<'_>) -> &'static str {
    if body.runs_after_others { " (as the ops before it left the file)" } else { "" }
}
