//! Unified diffs of whole files, byte for byte apart from what is not UTF-8.

use std::{
    fmt::Write as _,
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use super::lines;

/// The time that a call may spend to find the smallest diff.
pub const DIFF_TIME: Duration = Duration::from_secs(1);

/// Unchanged lines around each change.
const CONTEXT_LINES: usize = 3;
/// Lines of both sides together. Larger inputs are shown as one replacement of all lines, which needs no memory to compute.
const MAX_COMPARED_LINES: usize = 1 << 18;

/// A diff, or its first hunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// Empty when nothing differs.
    pub text: String,
    /// Hunks were left out: they did not fit into the budget.
    pub truncated: bool,
}

/// At most `max_bytes` of text, whole hunks only. A diff that is not found before `deadline` is still right, only
/// larger than it had to be.
pub fn unified(path: &str, old: &[u8], new: &[u8], max_bytes: usize, deadline: Instant) -> Diff {
    let window = DiffWindow::of(old, new);
    let sides = DiffSides {
        old: lines::lines(&old[window.old]).collect(),
        new: lines::lines(&new[window.new]).collect(),
        lines_before: window.lines_before,
    };
    let mut text = String::new();
    for hunk in group_diff_ops(sides.compare(deadline), CONTEXT_LINES) {
        let before = text.len();
        if before == 0 {
            let _ = write!(text, "--- {}\n+++ {}\n", named("a", path), named("b", path));
        }
        if !sides.push_hunk(&mut text, &hunk, max_bytes) {
            text.truncate(before);
            return Diff { text, truncated: true };
        }
    }
    Diff { text, truncated: false }
}

/// The part in which two files differ, in whole lines, and the context of it. Most edits are small and most files are
/// not: nothing but this part is taken apart into lines.
struct DiffWindow {
    old: Range<usize>,
    new: Range<usize>,
    lines_before: usize,
}

impl DiffWindow {
    fn of(old: &[u8], new: &[u8]) -> Self {
        let common = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let mut start = lines::start_at(old, common);
        let most = old.len().min(new.len()) - start;
        let common = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        // A line that begins in the common end may begin elsewhere in the other file: the one after it does not.
        let mut behind = common;
        for _ in 0..=CONTEXT_LINES {
            behind -= lines::end_at(&old[old.len() - behind..], 0);
        }
        for _ in 0..CONTEXT_LINES {
            start = lines::start_at(old, start.saturating_sub(1));
        }
        let lines_before = memchr::memchr_iter(b'\n', &old[..start]).count();
        Self { old: start..old.len() - behind, new: start..new.len() - behind, lines_before }
    }
}

/// A name with a line break in it must not begin a line of the diff.
fn named(side: &str, path: &str) -> String {
    let name = format!("{side}/{}", path.trim_start_matches('/'));
    if name.contains(char::is_control) { format!("{name:?}") } else { name }
}

struct DiffSides<'a> {
    old: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    /// Equal lines in front, which are not here.
    lines_before: usize,
}

impl DiffSides<'_> {
    /// The changes, among all lines that are here.
    fn compare(&self, deadline: Instant) -> Vec<DiffOp> {
        let (old, new) = (self.old.len(), self.new.len());
        if old == new && self.old == self.new {
            return Vec::new();
        }
        if old + new > MAX_COMPARED_LINES {
            return vec![DiffOp::Replace { old_index: 0, old_len: old, new_index: 0, new_len: new }];
        }
        capture_diff_slices_deadline(Algorithm::Myers, &self.old, &self.new, Some(deadline))
    }

    /// False, and incomplete, if the text grew beyond `max_bytes`.
    fn push_hunk(&self, text: &mut String, hunk: &[DiffOp], max_bytes: usize) -> bool {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return true };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        let _ = writeln!(text, "@@ -{} +{} @@", self.span(&old), self.span(&new));
        hunk.iter().all(|op| match op.tag() {
            DiffTag::Equal => push(text, ' ', &self.old[op.old_range()], max_bytes),
            _ => {
                push(text, '-', &self.old[op.old_range()], max_bytes)
                    && push(text, '+', &self.new[op.new_range()], max_bytes)
            }
        })
    }

    /// First line and number of lines. An empty range is named by the line before it.
    fn span(&self, range: &Range<usize>) -> String {
        let before = self.lines_before + range.start;
        match range.len() {
            0 => format!("{before},0"),
            1 => format!("{}", before + 1),
            len => format!("{},{len}", before + 1),
        }
    }
}

fn push(text: &mut String, sign: char, lines: &[&[u8]], max_bytes: usize) -> bool {
    for line in lines {
        text.push(sign);
        text.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            text.push_str("\n\\ No newline at end of file\n");
        }
        if text.len() > max_bytes {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn diff(old: &str, new: &str) -> String {
        let diff = unified("f", old.as_bytes(), new.as_bytes(), 1 << 20, Instant::now() + Duration::from_secs(10));
        assert!(!diff.truncated);
        diff.text
    }

    /// Reads a diff the way `patch` does, without any of the code above.
    fn patched(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut new = String::new();
        let mut at = 0;
        let mut rows = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(row) = rows.next() {
            if let Some(header) = row.strip_prefix("@@ -") {
                let (from, _) = header.split_once(" +").unwrap();
                let (line, count) = from.split_once(',').unwrap_or((from, "1"));
                let line: usize = line.parse().unwrap();
                let begin = if count == "0" { line } else { line - 1 };
                old[at..begin].iter().for_each(|line| new.push_str(line));
                at = begin;
                continue;
            }
            let (sign, rest) = row.split_at(1);
            let is_last = rows.next_if(|row| row.starts_with('\\')).is_some();
            let line = if is_last { rest.strip_suffix('\n').unwrap() } else { rest };
            if sign != "+" {
                assert_eq!(old[at], line, "context and removed lines are those of the old file");
                at += 1;
            }
            if sign != "-" {
                new.push_str(line);
            }
        }
        old[at..].iter().for_each(|line| new.push_str(line));
        new
    }

    fn text() -> impl Strategy<Value = String> {
        let line = prop_oneof![Just("a\n"), Just("b\n"), Just("c\r\n"), Just("\n"), Just("é\n"), Just("-x\n")];
        (proptest::collection::vec(line, 0..30), prop_oneof![Just(""), Just("end"), Just("\\")])
            .prop_map(|(lines, end)| lines.concat() + end)
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_the_old_file_to_the_new_one(old in text(), new in text()) {
            prop_assert_eq!(patched(&old, &diff(&old, &new)), new);
        }

        #[test]
        fn a_diff_out_of_time_does_so_too(old in text(), new in text()) {
            let diff = unified("f", old.as_bytes(), new.as_bytes(), 1 << 20, Instant::now() - Duration::from_secs(1));
            prop_assert_eq!(patched(&old, &diff.text), new);
        }
    }

    #[test]
    fn the_form_is_that_of_diff_u() {
        // The expected text is the output of `diff -u` without the times.
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12";
        assert_eq!(
            diff(old, new),
            "--- a/f\n+++ b/f\n@@ -2,11 +2,11 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n 10\n 11\n-12\n+12\n\\ No newline at end of file\n"
        );
        assert_eq!(diff("", "a\n"), "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(diff("a\n", ""), "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(diff("a\n", "a\n"), "");
    }

    #[test]
    fn a_budget_leaves_whole_hunks() {
        let old: String = (0..100).map(|n| format!("{n}\n")).collect();
        let new = old.replace("10\n", "ten\n").replace("50\n", "fifty\n");
        let whole = diff(&old, &new);
        let second = whole.rfind("@@ -").unwrap();
        let cut =
            unified("f", old.as_bytes(), new.as_bytes(), whole.len() - 1, Instant::now() + Duration::from_secs(9));
        assert_eq!((cut.text.as_str(), cut.truncated), (&whole[..second], true));
        let none = unified("f", old.as_bytes(), new.as_bytes(), 3, Instant::now() + Duration::from_secs(9));
        assert_eq!((none.text.as_str(), none.truncated), ("", true));
    }

    #[test]
    fn very_many_changed_lines_are_one_exchange() {
        let old = format!("same\n{}same\n", "a\n".repeat(MAX_COMPARED_LINES));
        let new = format!("same\n{}same\n", "b\n".repeat(MAX_COMPARED_LINES));
        let whole = unified("f", old.as_bytes(), new.as_bytes(), 8 << 20, Instant::now() + Duration::from_secs(9));
        assert_eq!(whole.text.matches("@@ -").count(), 1);
        assert_eq!(patched(&old, &whole.text), new);
    }

    #[test]
    fn a_small_change_of_a_large_file_costs_little() {
        let old = "line\n".repeat(1 << 20);
        let new = old.clone() + "more\n";
        let window = DiffWindow::of(old.as_bytes(), new.as_bytes());
        assert_eq!((window.old.len(), window.new.len()), (15, 20));
        assert_eq!(diff(&old, &new), "--- a/f\n+++ b/f\n@@ -1048574,3 +1048574,4 @@\n line\n line\n line\n+more\n");
    }

    #[test]
    fn a_name_cannot_break_a_line() {
        let diff = unified("a\n+++ b/x", b"", b"y\n", 999, Instant::now() + Duration::from_secs(9));
        assert_eq!(diff.text.lines().count(), 4, "{}", diff.text);
    }
}
