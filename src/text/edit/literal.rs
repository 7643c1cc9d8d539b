//! The operation `str_replace`: literal text. LF in it also matches CRLF in the file, and its replacement takes the
//! line ends of the place it goes to. Text that is not found as it was sent is looked for without pasted line numbers and, if the
//! caller allows it, without the white space around lines.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;

use super::{
    Body, EVERY_MATCH, EchoShape, EditError, StrReplace,
    echo::MAX_SITES,
    ends::push_text,
    invalid_op,
    line_ops::last_style,
    loose,
    mismatch::{self, MatchCount},
    splice::Splice,
};
use crate::text::{
    lines::{self, Terminator},
    number,
};

/// Matches between two checks for cancellation.
const CHECK_EVERY: u64 = 64;

pub(super) fn run(body: &mut Body<'_>, op_index: usize, op: &StrReplace<'_>) -> Result<(), EditError> {
    let StrReplace { old, new, expect_matches: expected, ignores_white_space } = *op;
    if old.is_empty() {
        let text = "old: empty; give the text to replace, or use prepend, append or insert to add text";
        return Err(invalid_op(op_index, text));
    }
    if ignores_white_space && expected != 1 {
        let text = "whitespace: \"ignore\" replaces exactly one place; leave out expect_matches, or whitespace";
        return Err(invalid_op(op_index, text));
    }
    let found = replace_all(body, old, new, expected)?;
    if found.count.found == 0 && expected > 0 {
        return run_relaxed(body, op_index, op);
    }
    commit(body, op_index, old, expected, found)
}

/// For a text that is not in the file as it was sent.
fn run_relaxed(body: &mut Body<'_>, op_index: usize, op: &StrReplace<'_>) -> Result<(), EditError> {
    let stripped = number::without_prefixes(op.old).filter(|stripped| !stripped.trim().is_empty());
    if let Some(old) = &stripped {
        let found = replace_all(body, old, op.new, op.expect_matches)?;
        if found.count.found > 0 {
            body.notes.push((op_index, "old: found without the line numbers before its lines".into()));
            // If all lines of it had one, it was refused or changed before.
            if number::has_prefix(op.new) {
                let text =
                    "new: some of its lines begin with a line number and →, as those of old did, and were written so";
                body.notes.push((op_index, text.into()));
            }
            return commit(body, op_index, old, op.expect_matches, found);
        }
    }
    let old = stripped.as_deref().unwrap_or(op.old);
    let place = if op.expect_matches == 1 { loose::find(&body.bytes, old) } else { None };
    let Some(place) = place.as_ref().filter(|_| op.ignores_white_space) else {
        return Err(mismatch::missing(body, op_index, op, place.is_some()));
    };
    let fitted = loose::fit(&body.bytes, place, old, op.new);
    let style = LineStyle::new(&body.bytes).at(fitted.range.start);
    let mut splice = body.splice();
    let site = splice.replace(fitted.range.clone(), |out| push_text(out, &fitted.new, style));
    let built = splice.finish()?;
    let how = if matches!(fitted.new, Cow::Owned(_)) {
        "its lines got the indentation that old lacks"
    } else {
        "new was written as sent"
    };
    let note = format!(
        "old: found at {} without regard to the white space around lines; {how}",
        mismatch::line_range(place.from_line, place.line_count)
    );
    body.notes.push((op_index, note));
    body.set(built);
    body.anchors.add(op_index, EchoShape::Site { total: 1 }, site);
    Ok(())
}

/// All matches of a text, and the body with the replacement in their place.
struct Replaced {
    count: MatchCount,
    sites: Vec<Range<usize>>,
    /// Only if the count is the expected one.
    built: Option<(Vec<u8>, Vec<usize>)>,
    /// Two places that overlap, where it matters which one is replaced.
    overlap: Option<[usize; 2]>,
}

fn replace_all(body: &Body<'_>, old: &str, new: &str, expected: u64) -> Result<Replaced, EditError> {
    let mut count = MatchCount::default();
    let mut sites = Vec::new();
    let mut splice = body.splice();
    let mut style = LineStyle::new(&body.bytes);
    let flat = FlatText::new(&body.bytes, old);
    let mut matches = flat.matches();
    while let Some(range) = matches.next() {
        if count.found % CHECK_EVERY == 0 {
            body.check_cancelled()?;
        }
        count.add(range.start);
        let style = style.at(range.start);
        let place = splice.replace(range, |out| push_text(out, new, style));
        if sites.len() < MAX_SITES {
            sites.push(place);
        }
    }
    // One that overlaps another is found once, but it has two places.
    let overlap = (expected == 1 && count.found == 1).then(|| flat.overlap()).flatten();
    let overlap = overlap.filter(|(first, second)| results_differ(&body.bytes, first, second, new));
    let overlap = overlap.map(|(first, second)| [first.start, second.start]);
    let is_expected = is_expected_count(&count, expected) && count.found > 0 && overlap.is_none();
    let built = is_expected.then(|| splice.finish()).transpose()?;
    Ok(Replaced { count, sites, built, overlap })
}

fn is_expected_count(count: &MatchCount, expected: u64) -> bool {
    if expected == EVERY_MATCH { count.found > 0 } else { count.found == expected }
}

/// Takes over the new body, or refuses another number of matches than the expected one.
fn commit(body: &mut Body<'_>, op_index: usize, old: &str, expected: u64, found: Replaced) -> Result<(), EditError> {
    let Replaced { count, sites, built, overlap } = found;
    if !is_expected_count(&count, expected) {
        let expected = if expected == EVERY_MATCH { 1 } else { expected };
        return Err(invalid_op(op_index, mismatch::literal_message(body, old, &count, expected)));
    }
    if let Some(places) = overlap {
        return Err(invalid_op(op_index, mismatch::overlap_message(body, old, places)));
    }
    if let Some(built) = built {
        body.set(built);
        sites.into_iter().for_each(|place| body.anchors.add(op_index, EchoShape::Site { total: count.found }, place));
    }
    Ok(())
}

/// Whether it matters which of two overlapping matches is replaced. Only the text between their ends can differ.
fn results_differ(body: &[u8], first: &Range<usize>, second: &Range<usize>, new: &str) -> bool {
    let new_at = |at: usize| {
        let mut bytes = Splice::new(b"", usize::MAX, std::iter::empty());
        push_text(&mut bytes, new, LineStyle::new(body).at(at));
        bytes.built().to_vec()
    };
    let if_first = [&new_at(first.start), &body[first.end..second.end]].concat();
    let if_second = [&body[first.start..second.start], &new_at(second.start)].concat();
    if_first != if_second
}

/// Finds the terminator of the line at a position. Positions come in order, so each line is examined once.
struct LineStyle<'b> {
    body: &'b [u8],
    line_end: usize,
    style: Terminator,
}

impl<'b> LineStyle<'b> {
    fn new(body: &'b [u8]) -> Self {
        Self { body, line_end: 0, style: Terminator::Lf }
    }

    fn at(&mut self, at: usize) -> Terminator {
        if at >= self.line_end {
            self.line_end = lines::end_at(self.body, at);
            let own = Terminator::at_end_of(&self.body[at..self.line_end]);
            self.style = own.unwrap_or_else(|| last_style(self.body));
        }
        self.style
    }
}

/// Body and text as they are compared: every CRLF is one LF. Where neither has any, they are the bytes themselves.
struct FlatText<'b> {
    body: &'b [u8],
    flat: Cow<'b, [u8]>,
    old: Vec<u8>,
    /// Offsets in `old` where the file must have CRLF, because `old` has it.
    crlf: Vec<usize>,
}

impl<'b> FlatText<'b> {
    fn new(body: &'b [u8], old: &str) -> Self {
        // Without LF in the text there is nothing that could match two ways.
        let is_plain = !old.contains('\n') || memmem::find(body, b"\r\n").is_none();
        if is_plain {
            return Self { body, flat: Cow::Borrowed(body), old: old.into(), crlf: Vec::new() };
        }
        let mut crlf = Vec::new();
        let mut flat_old = Vec::with_capacity(old.len());
        for line in lines::lines(old.as_bytes()) {
            flat_old.extend_from_slice(lines::text_of(line));
            match Terminator::at_end_of(line) {
                None => continue,
                Some(Terminator::Lf) => {}
                Some(Terminator::CrLf) => crlf.push(flat_old.len()),
            }
            flat_old.push(b'\n');
        }
        let mut flat = Vec::with_capacity(body.len());
        for line in lines::lines(body) {
            flat.extend_from_slice(lines::text_of(line));
            flat.extend(Terminator::at_end_of(line).map(|_| b'\n'));
        }
        Self { body, flat: Cow::Owned(flat), old: flat_old, crlf }
    }

    fn matches(&self) -> LiteralMatches<'_> {
        LiteralMatches {
            flat: self,
            finder: memmem::Finder::new(&self.old),
            at: 0,
            place: FlatPosition { flat: 0, body: 0 },
        }
    }

    /// The first match, and the next one that begins inside of it.
    fn overlap(&self) -> Option<(Range<usize>, Range<usize>)> {
        let mut matches = self.matches();
        let first = matches.next()?;
        matches.at -= self.old.len() - 1;
        matches.place = FlatPosition::START;
        matches.next().filter(|second| second.start < first.end).map(|second| (first, second))
    }

    fn is_plain(&self) -> bool {
        matches!(self.flat, Cow::Borrowed(_))
    }

    /// The offset in the body of the position `flat`; `from` is a known position before it. For a CRLF it is the offset of
    /// the CR.
    fn place(&self, from: FlatPosition, flat: usize) -> FlatPosition {
        if self.is_plain() {
            return FlatPosition { flat, body: flat };
        }
        let mut place = from;
        loop {
            let crlf = memmem::find(&self.body[place.body..], b"\r\n");
            match crlf.filter(|len| place.flat + len < flat) {
                Some(len) => place = FlatPosition { flat: place.flat + len + 1, body: place.body + len + 2 },
                None => return FlatPosition { flat, body: place.body + (flat - place.flat) },
            }
        }
    }
}

/// One position, in the flat text and in the body.
#[derive(Debug, Clone, Copy)]
struct FlatPosition {
    flat: usize,
    body: usize,
}

impl FlatPosition {
    const START: Self = Self { flat: 0, body: 0 };
}

/// From left to right, none overlaps the one before.
struct LiteralMatches<'f> {
    flat: &'f FlatText<'f>,
    finder: memmem::Finder<'f>,
    at: usize,
    place: FlatPosition,
}

impl LiteralMatches<'_> {
    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.at + self.finder.find(&self.flat.flat[self.at..])?;
            self.place = self.flat.place(self.place, start);
            if !self.has_its_crlf() {
                self.at = start + 1;
                continue;
            }
            let from = self.place.body;
            self.at = start + self.flat.old.len();
            self.place = self.flat.place(self.place, self.at);
            return Some(from..self.place.body);
        }
    }

    fn has_its_crlf(&self) -> bool {
        let mut place = self.place;
        self.flat.crlf.iter().all(|offset| {
            place = self.flat.place(place, self.place.flat + offset);
            self.flat.body[place.body] == b'\r'
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(body: &[u8], old: &str) -> Vec<(usize, usize)> {
        let flat = FlatText::new(body, old);
        let mut matches = flat.matches();
        std::iter::from_fn(|| matches.next()).map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn lf_in_the_text_also_matches_crlf_in_the_file() {
        assert_eq!(found(b"a\r\nb\r\na\nb", "a\nb"), [(0, 4), (6, 9)]);
        assert_eq!(found(b"x\r\ny", "\ny"), [(1, 4)]);
        assert_eq!(found(b"x\r\ny", "x\n"), [(0, 3)]);
        assert!(found(b"x\r\r\ny", "x\r\n").is_empty());
    }

    #[test]
    fn crlf_in_the_text_matches_nothing_else() {
        assert_eq!(found(b"a\nb a\r\nb", "a\r\nb"), [(4, 8)]);
        assert!(found(b"a\nb\n", "a\r\nb").is_empty());
        assert_eq!(found(b"a\r\nb\nc a\r\nb\r\nc", "a\r\nb\nc"), [(0, 6), (7, 14)]);
    }

    /// The rule of the contract, written as a regular expression.
    fn naive(body: &[u8], old: &str) -> Vec<(usize, usize)> {
        let pattern = regex::escape(old).replace("\r\n", "\u{0}").replace('\n', "\r?\n").replace('\u{0}', "\r\n");
        regex::bytes::Regex::new(&pattern).unwrap().find_iter(body).map(|found| (found.start(), found.end())).collect()
    }

    proptest! {
        // Without a CR before CRLF, and without a text that ends with CR: there the regular expression would take a
        // terminator apart.
        #[test]
        fn matches_are_those_of_the_rule(
            body in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("\n"), Just("\r\n")], 0..24),
            old in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("\n"), Just("\r\n")], 1..4),
        ) {
            let (body, old) = (body.concat(), old.concat());
            prop_assert_eq!(found(body.as_bytes(), &old), naive(body.as_bytes(), &old));
        }
    }
}
