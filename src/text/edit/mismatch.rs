//! Error texts for a text that was found more or less often than expected: how often, where, and what to do next.

use super::{Body, line_ops::count_text, nearest_line};
use crate::text::lines;

/// Lines named in one message.
const MAX_LINES: usize = 20;
/// A pattern is quoted up to here.
const MAX_QUOTED_CHARS: usize = 60;
/// So is a line of the file.
const MAX_LINE_CHARS: usize = 120;

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
    let told = mismatch_text(pattern, count, expected);
    match (count.found, expected) {
        (0, _) => format!(
            "{told}; find the text with coder::search, and set dot_matches_newline: true if the pattern has to cross \
             lines"
        ),
        (_, 0) => format!("{told}, {}; it is still there", line_numbers(body, count)),
        (found, _) => format!(
            "{told}, {}; anchor the pattern more closely, or pass expect_matches: {found} to replace them all",
            line_numbers(body, count)
        ),
    }
}

/// For literal text.
pub(super) fn literal_message(body: &Body<'_>, old: &str, count: &MatchCount, expected: u64) -> String {
    let told = mismatch_text(old, count, expected);
    match (count.found, expected) {
        (0, _) => {
            let nearest = nearest_line::find(&body.bytes, old.as_bytes(), body.bounds.should_continue);
            let nearest = nearest.map(|(number, line)| {
                let line = shorten(&String::from_utf8_lossy(line), MAX_LINE_CHARS);
                format!("; the nearest line is {number}{}: {line:?}", as_left(body))
            });
            format!(
                "{told}{}; old is compared byte by byte: find the text with coder::search, or use op replace, where \
                 .*? and dot_matches_newline: true stand for what is not known exactly",
                nearest.unwrap_or_default()
            )
        }
        (_, 0) => format!("{told}, {}; it is still there", line_numbers(body, count)),
        (found, _) => format!(
            "{told}, {}; give more of the text around the one that is meant, or pass expect_matches: {found} to replace \
             them all",
            line_numbers(body, count)
        ),
    }
}

/// For literal text that could be replaced at either of two places.
pub(super) fn overlap_message(body: &Body<'_>, old: &str, places_at: [usize; 2]) -> String {
    let mut count = MatchCount::default();
    places_at.into_iter().for_each(|at| count.add(at));
    format!(
        "{}, {}, and they overlap; give more of the text around the one that is meant",
        mismatch_text(old, &count, 1),
        line_numbers(body, &count)
    )
}

fn mismatch_text(pattern: &str, count: &MatchCount, expected: u64) -> String {
    let quoted = shorten(pattern, MAX_QUOTED_CHARS);
    format!("\"{quoted}\" matched {}, expected {expected}", count_text(count.found, "time"))
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

fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
