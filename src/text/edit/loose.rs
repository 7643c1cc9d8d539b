//! For `whitespace: "ignore"`: the place where the lines of a text are found if white space at both ends of each line does not
//! count, and what to write there. Linear in the file and the text.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;

use crate::text::lines;

/// Whole lines of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LooseMatch {
    /// Number of the first line, 1-based.
    pub(super) from_line: u64,
    pub(super) line_count: u64,
    /// From the beginning of the first line. Contains the terminator of the last line if the text ends with one.
    range: Range<usize>,
}

/// What takes the place of a match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fitted<'n> {
    pub(super) range: Range<usize>,
    pub(super) new: Cow<'n, str>,
}

/// The first match. None if there is none, or if there are several, or if `old` has only blank lines.
pub(super) fn find(body: &[u8], old: &str) -> Option<LooseMatch> {
    let wanted = flatten(old.as_bytes());
    if wanted.trim_ascii().is_empty() {
        return None;
    }
    let flat = flatten(body);
    let finder = memmem::Finder::new(&wanted);
    let at = finder.find(&flat)?;
    // From the next byte on, so that a match that overlaps the first one counts.
    if finder.find(&flat[at + 1..]).is_some() {
        return None;
    }
    let from_line = 1 + memchr::memchr_iter(b'\n', &flat[..at]).count() as u64;
    let line_count = lines::count(old.as_bytes());
    let start = (1..from_line).fold(0, |start, _| lines::end_at(body, start));
    let last = (1..line_count).fold(start, |start, _| lines::end_at(body, start));
    let last_line = &body[last..lines::end_at(body, last)];
    let taken = if old.ends_with('\n') { last_line } else { lines::text_of(last_line) };
    Some(LooseMatch { from_line, line_count, range: start..last + taken.len() })
}

/// A newline, then each line without the white space around it.
fn flatten(text: &[u8]) -> Vec<u8> {
    let mut flat = Vec::with_capacity(text.len() + 2);
    flat.push(b'\n');
    for line in lines::lines(text) {
        flat.extend_from_slice(line.trim_ascii());
        flat.push(b'\n');
    }
    flat
}

/// The indentation that `old` lacks stays before the first line. Where all lines of `old` lack the same, the further lines of `new`
/// get it, too; otherwise `new` is written as it was sent.
pub(super) fn fit<'n>(body: &[u8], found: &LooseMatch, old: &str, new: &'n str) -> Fitted<'n> {
    let mut range = found.range.clone();
    let theirs: Vec<&[u8]> = lines::lines(&body[range.clone()]).collect();
    let pairs = theirs.into_iter().zip(lines::lines(old.as_bytes()));
    let mut missing = pairs.filter(|(_, old)| !is_blank(old)).map(|(file, old)| missing_indent(file, old));
    let starts_blank = lines::lines(old.as_bytes()).next().is_none_or(is_blank);
    let Some(Some(first)) = missing.next() else { return Fitted { range, new: new.into() } };
    let is_common = missing.all(|other| other == Some(first));
    if !starts_blank {
        range.start += first.len();
    }
    if first.is_empty() || !is_common {
        return Fitted { range, new: new.into() };
    }
    let indent = String::from_utf8_lossy(first);
    let mut fitted = String::with_capacity(new.len());
    for (index, line) in new.split_inclusive('\n').enumerate() {
        if (index > 0 || starts_blank) && !is_blank(line.as_bytes()) {
            fitted.push_str(&indent);
        }
        fitted.push_str(line);
    }
    Fitted { range, new: fitted.into() }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// The beginning of the file's indentation that the line of the request lacks. None if the two indentations end differently.
fn missing_indent<'f>(file: &'f [u8], old: &[u8]) -> Option<&'f [u8]> {
    indent(file).strip_suffix(indent(old))
}

fn indent(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.trim_ascii_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_at_the_ends_of_lines_does_not_count() {
        let body = b"fn a() {\r\n\tgo( 1 );  \r\n}\r\n";
        let found = find(body, "  go( 1 );\n}").unwrap();
        assert_eq!((found.from_line, found.line_count, found.range.clone()), (2, 2, 10..24));
        assert_eq!(find(body, "go( 1 );\n").unwrap().range, 10..23);
        for old in ["go(1);", "go( 1 )", "\n", " \n\t", "a() {"] {
            assert_eq!(find(body, old), None, "{old:?}");
        }
    }

    #[test]
    fn two_places_are_none_also_if_they_overlap() {
        assert_eq!(find(b" a\nb\na \n", "a"), None);
        assert_eq!(find(b"a\n a\na\n", "a\na"), None);
    }

    #[track_caller]
    fn assert_fitted(body: &str, old: &str, new: &str, expected: &str) {
        let found = find(body.as_bytes(), old).unwrap();
        let fitted = fit(body.as_bytes(), &found, old, new);
        let (start, end) = (fitted.range.start, fitted.range.end);
        assert_eq!(format!("{}{}{}", &body[..start], fitted.new, &body[end..]), expected);
    }

    #[test]
    fn an_indentation_that_all_lines_lack_is_put_before_the_new_ones() {
        assert_fitted("{\n    a \n      b\n}\n", "a\n  b\n", "x\n\n  y\nz\n", "{\n    x\n\n      y\n    z\n}\n");
        assert_fitted("{\n\n\ta \n\tb\n", "\na\nb", "x\ny", "{\n\tx\n\ty\n");
    }

    #[test]
    fn a_replacement_is_written_as_sent_where_the_indentation_differs_otherwise() {
        assert_fitted("\ta\n\t\tb\n", "  a\n    b\n", "  x\n", "  x\n");
        assert_fitted("  a \n  b\n", "a\n  b\n", "x\n  y\n", "  x\n  y\n");
        assert_fitted("a \nb\n", "    a\n    b", "    x", "    x\n");
    }
}
