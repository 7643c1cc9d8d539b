//! The operation `replace`: a regular expression on bytes, over the whole body.

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::{
    Body, EchoShape, EditError, RegexReplace,
    echo::MAX_SITES,
    invalid_op,
    mismatch::{self, MatchCount},
    template::Template,
};

/// Matches between two checks for cancellation.
const CHECK_EVERY: u64 = 64;
/// The regex crate quotes the whole pattern in its errors; this much of that is shown.
const MAX_ERROR_CHARS: usize = 400;

pub(super) fn run(body: &mut Body<'_>, op_index: usize, op: &RegexReplace<'_>) -> Result<(), EditError> {
    if op.pattern.is_empty() {
        let text = "pattern: empty; give a regular expression, or use prepend, append or insert to add text";
        return Err(invalid_op(op_index, text));
    }
    let regex = compile(op, &body.bytes).map_err(|text| invalid_op(op_index, text))?;
    let template = Template::parse(op.replacement, &regex).map_err(|text| invalid_op(op_index, text))?;
    let mut count = MatchCount::default();
    let mut sites = Vec::new();
    let mut splice = body.splice();
    let mut matches = RegexMatches::new(&regex, &body.bytes, template.needs_groups());
    while let Some((from, to)) = matches.next() {
        if count.found % CHECK_EVERY == 0 {
            body.check_cancelled()?;
        }
        count.add(from);
        let place = splice.replace(from..to, |out| template.push(out, &body.bytes, &matches.groups));
        if sites.len() < MAX_SITES {
            sites.push(place);
        }
        // With an expectation the count is still of interest: a wrong one is the better news.
        if splice.is_too_large() && op.expect_matches.is_none() {
            break;
        }
    }
    if let Some(expected) = op.expect_matches.filter(|expected| *expected != count.found) {
        return Err(invalid_op(op_index, mismatch::pattern_message(body, op.pattern, &count, expected)));
    }
    if count.found == 0 && op.expect_matches.is_none() {
        if op.must_match {
            return Err(invalid_op(op_index, mismatch::no_match_message(op.pattern)));
        }
        drop(splice);
        body.notes.push((op_index, "pattern: matches nothing, so this op changed nothing".into()));
    } else if count.found > 0 {
        let built = splice.finish()?;
        body.set(built);
        sites.into_iter().for_each(|place| body.anchors.add(op_index, EchoShape::Site { total: count.found }, place));
    }
    Ok(())
}

/// In a file with CR LF, `$` of a multi-line pattern is before the CR, and `.` does not match the CR, so that line ends survive a
/// replacement. Not if the pattern itself names the CR: then its author counts it as text. Nor if a CR stands elsewhere in the file,
/// because the regex crate would take it for a line end.
fn compile(op: &RegexReplace<'_>, body: &[u8]) -> Result<Regex, String> {
    let names_cr = op.pattern.contains('\r') || op.pattern.contains("\\r");
    let is_crlf = |at: usize| body.get(at + 1) == Some(&b'\n');
    let mut crs = memchr::memchr_iter(b'\r', body).peekable();
    let has_crlf = !names_cr && crs.peek().is_some() && crs.all(is_crlf);
    let built = RegexBuilder::new(op.pattern)
        .case_insensitive(op.ignore_case)
        .dot_matches_new_line(op.dot_matches_newline)
        .crlf(has_crlf)
        .build();
    built.map_err(|error| {
        let text = error.to_string();
        let shown: String = text.chars().take(MAX_ERROR_CHARS).collect();
        format!("pattern: not a regular expression: {shown}\nfor literal text use op str_replace")
    })
}

/// Every match from left to right, as the regex crate's own iterators find them, except that an empty match never
/// falls inside a character: those iterators would tear it apart on bytes.
struct RegexMatches<'b> {
    regex: &'b Regex,
    body: &'b [u8],
    needs_groups: bool,
    groups: CaptureLocations,
    at: usize,
    last_end: Option<usize>,
}

impl<'b> RegexMatches<'b> {
    fn new(regex: &'b Regex, body: &'b [u8], needs_groups: bool) -> Self {
        Self { regex, body, needs_groups, groups: regex.capture_locations(), at: 0, last_end: None }
    }

    fn next(&mut self) -> Option<(usize, usize)> {
        while self.at <= self.body.len() {
            let (from, to) = self.find()?;
            // An empty match where the last one ended is no new one.
            if from == to && self.last_end == Some(to) {
                self.at += 1;
                continue;
            }
            self.at = to;
            self.last_end = Some(to);
            if from == to && splits_character(self.body, from) {
                continue;
            }
            return Some((from, to));
        }
        None
    }

    fn find(&mut self) -> Option<(usize, usize)> {
        let found = if self.needs_groups {
            self.regex.captures_read_at(&mut self.groups, self.body, self.at)
        } else {
            self.regex.find_at(self.body, self.at)
        };
        found.map(|found| (found.start(), found.end()))
    }
}

/// Whether `at` lies inside a character that is whole.
fn splits_character(body: &[u8], at: usize) -> bool {
    // The longest character has four bytes.
    let from = at.saturating_sub(3);
    let near = &body[from..body.len().min(at + 3)];
    let mut chunk_at = from;
    for chunk in near.utf8_chunks() {
        let valid = chunk.valid();
        if (chunk_at..chunk_at + valid.len()).contains(&at) {
            return !valid.is_char_boundary(at - chunk_at);
        }
        chunk_at += valid.len() + chunk.invalid().len();
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(pattern: &str, body: &[u8], needs_groups: bool) -> Vec<(usize, usize)> {
        let regex = Regex::new(pattern).unwrap();
        let mut matches = RegexMatches::new(&regex, body, needs_groups);
        std::iter::from_fn(|| matches.next()).collect()
    }

    const PATTERNS: [&str; 9] = ["a*", "", "é*", r"\b", "(?m)^", "(?m)$", ".", "(|é)b?", r"a|\B"];

    proptest! {
        #[test]
        fn text_is_matched_as_the_regex_crate_matches_text(text in "[abé𝄞\n]{0,12}", which in 0..PATTERNS.len()) {
            let pattern = PATTERNS[which];
            let theirs: Vec<_> = regex::Regex::new(pattern).unwrap().find_iter(&text).map(|m| (m.start(), m.end())).collect();
            for needs_groups in [false, true] {
                prop_assert_eq!(&found(pattern, text.as_bytes(), needs_groups), &theirs);
            }
        }
    }

    #[test]
    fn an_empty_match_may_fall_between_bytes_that_are_no_character() {
        assert_eq!(found("x*", b"\xe2\x86", false), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(found("x*", "→".as_bytes(), false), [(0, 0), (3, 3)]);
    }
}
