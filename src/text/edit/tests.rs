//! The sentences of the contract about edits, one by one.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::*;

const MAX: u64 = 10 << 20;

pub(super) fn edited(file: &[u8], ops: &[FileEditOp<'_>]) -> Result<Edited, EditError> {
    apply(file, ops, EditBounds { max_bytes: MAX, should_continue: &|| true })
}

#[track_caller]
fn assert_edit(file: &[u8], ops: &[FileEditOp<'_>], expected: &[u8]) {
    let new = edited(file, ops).unwrap().bytes;
    assert_eq!(String::from_utf8_lossy(&new), String::from_utf8_lossy(expected));
    assert_eq!(new, expected);
}

#[track_caller]
fn refused(file: &[u8], ops: &[FileEditOp<'_>]) -> String {
    match edited(file, ops) {
        Err(EditError::Invalid(text) | EditError::Missing { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

fn insert(at_line: u64, content: &str) -> FileEditOp<'_> {
    FileEditOp::Insert { at_line, content }
}

fn remove(from_line: u64, to_line: u64) -> FileEditOp<'static> {
    FileEditOp::Remove { from_line, to_line }
}

fn update(from_line: u64, to_line: u64, content: &str) -> FileEditOp<'_> {
    FileEditOp::UpdateLines { from_line, to_line, content }
}

pub(super) fn replace<'a>(pattern: &'a str, replacement: &'a str) -> RegexReplace<'a> {
    RegexReplace {
        pattern,
        replacement,
        ignore_case: false,
        dot_matches_newline: false,
        expect_matches: None,
        must_match: false,
    }
}

fn expecting<'a>(pattern: &'a str, replacement: &'a str, expected: u64) -> FileEditOp<'a> {
    FileEditOp::Replace(RegexReplace { expect_matches: Some(expected), ..replace(pattern, replacement) })
}

fn str_replace<'a>(old: &'a str, new: &'a str) -> FileEditOp<'a> {
    FileEditOp::StrReplace(StrReplace { old, new, expect_matches: 1, ignores_white_space: false })
}

#[test]
fn the_quickstart() {
    let ops = [insert(2, "draft"), update(3, 3, "- ONE")];
    assert_edit(b"# notes\n- one\n- two\n", &ops, b"# notes\ndraft\n- one\n- ONE\n");
}

#[test]
fn insert_puts_content_before_at_line_and_lines_plus_one_appends() {
    assert_edit(b"a\nb\n", &[insert(1, "x")], b"x\na\nb\n");
    assert_edit(b"a\nb\n", &[insert(3, "x")], b"a\nb\nx\n");
    for at in [0, 4] {
        let text = refused(b"a\nb\n", &[insert(at, "x")]);
        assert!(text.contains("1-based") && text.contains("2 lines") && text.contains("1 to 3"), "{text}");
    }
}

#[test]
fn on_an_empty_file_only_line_1_can_be_inserted_and_it_gets_a_terminator() {
    assert_edit(b"", &[insert(1, "x")], b"x\n");
    assert_edit(b"", &[insert(1, "x\n")], b"x\n");
    assert_edit(b"\xef\xbb\xbf", &[insert(1, "x")], b"\xef\xbb\xbfx\n");
    refused(b"", &[insert(2, "x")]);
}

#[test]
fn ranges_are_1_based_inclusive_and_inside_the_file() {
    assert_edit(b"a\nb\nc\n", &[remove(2, 3)], b"a\n");
    for (from, to) in [(0, 1), (1, 4), (4, 4), (3, 2)] {
        for op in [remove(from, to), update(from, to, "x")] {
            assert!(refused(b"a\nb\nc\n", &[op]).contains("1-based"));
        }
    }
}

#[test]
fn operations_that_meet_are_named_by_their_position_among_line_ops() {
    let file = b"a\nb\nc\nd\n";
    for (ops, first, second) in [
        ([update(1, 2, "x"), remove(2, 3)], "line op 1 (ops[1]", "line op 2 (ops[2]"),
        ([remove(2, 3), update(1, 2, "x")], "line op 1 (ops[1]", "line op 2 (ops[2]"),
        ([insert(2, "x"), insert(2, "y")], "line op 1 (ops[1]", "line op 2 (ops[2]"),
        ([insert(2, "x"), remove(2, 2)], "line op 1 (ops[1]", "line op 2 (ops[2]"),
        ([insert(3, "x"), remove(2, 4)], "line op 1 (ops[1]", "line op 2 (ops[2]"),
    ] {
        let text = refused(file, &[FileEditOp::Append { content: "e\n" }, ops[0], ops[1]]);
        assert!(text.contains(first) && text.contains(second) && text.contains("overlap"), "{text}");
    }
    // An insertion before the first line that another operation takes is not one at a line it touches.
    assert_edit(file, &[insert(2, "x"), remove(3, 4)], b"a\nx\nb\n");
}

#[test]
fn content_is_split_by_terminators_and_one_final_newline_is_dropped() {
    for (content, expected) in
        [("x", &b"x\n"[..]), ("x\n", b"x\n"), ("x\n\n", b"x\n\n"), ("\n", b"\n"), ("x\r\r\ny\r", b"x\ny\n"), ("", b"")]
    {
        assert_edit(b"a\nb\nc\n", &[update(2, 2, content)], &[b"a\n", expected, b"c\n"].concat());
        assert_edit(b"a\nc\n", &[insert(2, content)], &[b"a\n", expected, b"c\n"].concat());
    }
    let nothing = edited(b"a\n", &[insert(1, "")]).unwrap();
    assert_eq!((nothing.applied, nothing.changed), (1, false));
}

#[test]
fn new_lines_take_the_terminator_of_the_first_replaced_line_and_the_last_that_of_the_last() {
    let file = b"a\r\nb\nc\r\nd\n";
    assert_edit(file, &[update(1, 2, "x\ny\nz")], b"x\r\ny\r\nz\nc\r\nd\n");
    assert_edit(file, &[update(2, 3, "x\ny\nz")], b"a\r\nx\ny\nz\r\nd\n");
    assert_edit(file, &[update(3, 3, "x")], b"a\r\nb\nx\r\nd\n");
}

#[test]
fn inserted_lines_take_the_terminator_of_the_previous_line_else_the_next_else_lf() {
    let file = b"a\r\nb\nc";
    assert_edit(file, &[insert(2, "x")], b"a\r\nx\r\nb\nc");
    assert_edit(file, &[insert(3, "x")], b"a\r\nb\nx\nc");
    assert_edit(file, &[insert(1, "x")], b"x\r\na\r\nb\nc");
    assert_edit(b"a", &[insert(1, "x")], b"x\na");
}

#[test]
fn the_file_ends_with_a_terminator_exactly_if_it_did_before() {
    assert_edit(b"a\r\nb", &[insert(3, "x\ny")], b"a\r\nb\r\nx\r\ny");
    assert_edit(b"a", &[insert(2, "x\n")], b"a\nx");
    assert_edit(b"a\nb", &[remove(2, 2)], b"a");
    assert_edit(b"a\nb\n", &[remove(2, 2)], b"a\n");
    assert_edit(b"a\nb", &[update(2, 2, "x\ny\n")], b"a\nx\ny");
    assert_edit(b"a\r\nb", &[update(2, 2, "x"), insert(3, "y")], b"a\r\nx\r\ny");
    assert_edit(b"a\nb\n", &[remove(1, 2)], b"");
    assert_edit(b"a\nb", &[update(1, 2, "")], b"");
    // A file that is a single newline stays one when nothing matches.
    assert_edit(b"\n", &[FileEditOp::Replace(replace("x", "y"))], b"\n");
}

#[test]
fn a_mark_is_kept_and_belongs_to_no_line() {
    let file = b"\xef\xbb\xbfa\nb\n";
    assert_edit(file, &[insert(1, "x")], b"\xef\xbb\xbfx\na\nb\n");
    assert_edit(file, &[update(1, 1, "x")], b"\xef\xbb\xbfx\nb\n");
    assert_edit(file, &[remove(1, 2)], b"\xef\xbb\xbf");
    assert_edit(file, &[FileEditOp::Prepend { content: "x" }], b"\xef\xbb\xbfx\na\nb\n");
    assert_edit(file, &[expecting("^a", "x", 1)], b"\xef\xbb\xbfx\nb\n");
    assert!(refused(file, &[str_replace("\u{feff}a", "x")]).contains("matched 0 times"));
    // It counts towards the size.
    let bounds = EditBounds { max_bytes: 6, should_continue: &|| true };
    assert_eq!(apply(b"\xef\xbb\xbfa\n", &[insert(1, "x")], bounds), Err(EditError::TooLarge { bytes: 4 }));
}

#[test]
fn replace_runs_on_the_whole_body_after_line_ops_and_in_array_order() {
    let ops = [FileEditOp::Replace(replace("x", "y")), insert(1, "x"), FileEditOp::Replace(replace("y", "z"))];
    assert_edit(b"x\n", &ops, b"z\nz\n");
    // Multi-line mode is off.
    assert_edit(b"a\na\n", &[FileEditOp::Replace(replace("^a", "x"))], b"x\na\n");
    assert_edit(b"a\na\n", &[FileEditOp::Replace(replace("(?m)^a$", "x"))], b"x\nx\n");
    // Matches see CRLF as CR LF.
    assert_edit(b"a\r\nb\n", &[FileEditOp::Replace(replace("a\n", "x"))], b"a\r\nb\n");
    assert_edit(b"a\r\nb\n", &[FileEditOp::Replace(replace("a\r\n", "x"))], b"xb\n");
}

#[test]
fn a_dot_crosses_lines_only_if_told_and_case_counts_unless_told() {
    let op = replace("BEGIN.*?end", "");
    assert_edit(b"begin\nend", &[FileEditOp::Replace(op)], b"begin\nend");
    assert_edit(b"begin\nend", &[FileEditOp::Replace(RegexReplace { dot_matches_newline: true, ..op })], b"begin\nend");
    let both = RegexReplace { dot_matches_newline: true, ignore_case: true, ..op };
    assert_edit(b"begin\nend", &[FileEditOp::Replace(both)], b"");
}

#[test]
fn bytes_that_are_not_utf8_survive_and_can_be_named() {
    let file = b"caf\xe9 one\n\xff\x00two\r\r\nthree";
    assert_edit(file, &[FileEditOp::Replace(replace("one", "1"))], b"caf\xe9 1\n\xff\x00two\r\r\nthree");
    assert_edit(file, &[insert(2, "x")], b"caf\xe9 one\nx\n\xff\x00two\r\r\nthree");
    assert_edit(file, &[str_replace("two", "2")], b"caf\xe9 one\n\xff\x002\r\r\nthree");
    assert_edit(file, &[expecting(r"(?-u:\xe9)", "e", 1)], b"cafe one\n\xff\x00two\r\r\nthree");
}

#[test]
fn an_empty_or_bad_pattern_is_refused() {
    assert!(refused(b"a", &[FileEditOp::Replace(replace("", "x"))]).starts_with("ops[0]: pattern: empty"));
    let text = refused(b"a", &[FileEditOp::Replace(replace("(a", "x"))]);
    assert!(text.contains("pattern: not a regular expression") && text.contains("str_replace"), "{text}");
    let long = "(".repeat(1 << 20);
    assert!(refused(b"a", &[FileEditOp::Replace(replace(&long, "x"))]).len() < 1000);
    assert!(refused(b"a", &[str_replace("", "x")]).starts_with("ops[0]: old: empty"));
}

#[test]
fn an_undefined_reference_is_refused_even_if_nothing_would_match() {
    for op in [FileEditOp::Replace(replace("q(x)", "Hello, ${name}!")), expecting("q(x)", "${name}", 0)] {
        let text = refused(b"a", &[op]);
        assert!(text.contains("\"${name}\"") && text.contains("1 capture group"), "{text}");
    }
}

#[test]
fn another_count_than_expected_is_told_with_the_correction() {
    let file = b"one\ntwo one\n\none one\n";
    let text = refused(file, &[expecting("one", "1", 1)]);
    assert!(text.contains(r#""one" matched 4 times, expected 1, lines 1, 2, 4;"#), "{text}");
    assert!(text.contains("expect_matches: 4"), "{text}");
    let text = refused(file, &[expecting("two", "2", 3)]);
    assert!(text.contains(r#""two" matched 1 time, expected 3, line 2;"#), "{text}");
    let text = refused(file, &[expecting("three", "3", 1)]);
    assert!(text.contains(r#""three" matched 0 times, expected 1;"#), "{text}");
    assert!(text.contains("coder::search") && text.contains("dot_matches_newline"), "{text}");
    let text = refused(file, &[expecting("two", "", 0)]);
    assert!(text.contains(r#""two" matched 1 time, expected 0"#) && !text.contains("expect_matches:"), "{text}");
    assert_edit(file, &[expecting("three", "", 0)], file);
    let long = "x".repeat(61);
    let text = refused(file, &[expecting(&long, "", 1)]);
    assert!(text.contains(&format!("\"{}…\"", &long[..60])), "{text}");
}

#[test]
fn str_replace_wants_exactly_one_unless_told() {
    let file = b"one\ntwo one\n\none one\n";
    assert_edit(file, &[str_replace("two one", "2")], b"one\n2\n\none one\n");
    let text = refused(file, &[str_replace("one", "1")]);
    assert!(text.contains(r#""one" matched 4 times, expected 1, lines 1, 2, 4;"#), "{text}");
    assert!(text.contains("expect_matches: 4"), "{text}");
    let four =
        FileEditOp::StrReplace(StrReplace { old: "one", new: "1", expect_matches: 4, ignores_white_space: false });
    assert_edit(file, &[four], b"1\ntwo 1\n\n1 1\n");
    // Nothing in it is a pattern or a reference.
    assert_edit(b"a.b $1 (", &[str_replace(".b $1 (", "$1${x}")], b"a$1${x}");
}

#[test]
fn a_match_that_overlaps_another_is_ambiguous_where_that_makes_a_difference() {
    let text = refused(b"aba\nba\n", &[str_replace("a\nb", "x"), str_replace("ba", "")]);
    assert!(text.contains("ops[1]"), "{text}");
    let text = refused(b"x\nx\nx\n", &[str_replace("x\nx\n", "x\ny\n")]);
    assert!(text.contains(r#"matched 2 times, expected 1, lines 1, 2, and they overlap"#), "{text}");
    assert!(!text.contains("expect_matches"), "no number makes it unambiguous: {text}");
    refused(b"x\r\nx\r\nx\r\n", &[str_replace("x\nx\n", "x\ny\n")]);
    // One blank line less is the same wherever it goes.
    assert_edit(b"a\n\n\nb\n", &[str_replace("\n\n", "\n")], b"a\n\nb\n");
    assert_edit(b"x\r\nx\nx\n", &[str_replace("x\nx\nx\n", "y\n")], b"y\r\n");
    // With an expected count, overlapping matches are replaced from left to right.
    assert_edit(
        b"aaaaa",
        &[FileEditOp::StrReplace(StrReplace { old: "aa", new: "b", expect_matches: 2, ignores_white_space: false })],
        b"bba",
    );
}

#[test]
fn the_lines_of_at_most_20_matches_are_named() {
    let file = "x\n".repeat(30);
    let text = refused(file.as_bytes(), &[str_replace("x", "y")]);
    assert!(text.contains("matched 30 times") && text.contains(" 19, 20, …"), "{text}");
    let file = "x\n".repeat(20);
    assert!(!refused(file.as_bytes(), &[str_replace("x", "y")]).contains('…'));
}

#[test]
fn newlines_of_a_replacement_take_the_terminator_of_the_line_where_the_match_begins() {
    let file = b"a\r\nb\nc";
    assert_edit(file, &[str_replace("a", "x\ny")], b"x\r\ny\r\nb\nc");
    assert_edit(file, &[str_replace("b", "x\r\ny")], b"a\r\nx\ny\nc");
    assert_edit(file, &[str_replace("c", "x\ny\n")], b"a\r\nb\nx\ny\n");
    assert_edit(b"a\r\nc", &[str_replace("c", "x\ny")], b"a\r\nx\r\ny");
    assert_edit(b"c", &[str_replace("c", "x\ny")], b"x\ny");
    assert_edit(b"a\r\nb\r\nc\n", &[str_replace("a\nb\n", "x\n")], b"x\r\nc\n");
    // Only what is replaced changes.
    assert_edit(b"a\r\nb\r\nc\n", &[str_replace("a\nb", "ab")], b"ab\r\nc\n");
}

#[test]
fn append_ends_an_unterminated_line_and_the_file_ends_as_the_content_ends() {
    for (file, content, expected) in [
        (&b"a\n"[..], "x\ny\n", &b"a\nx\ny\n"[..]),
        (b"a\n", "x", b"a\nx"),
        (b"a\r\nb", "x\ny\n", b"a\r\nb\r\nx\r\ny\r\n"),
        (b"a\r\n", "x\ny", b"a\r\nx\r\ny"),
        (b"a", "x\r\n", b"a\nx\n"),
        (b"", "x\n", b"x\n"),
        (b"", "x", b"x"),
        (b"a", "", b"a"),
    ] {
        assert_edit(file, &[FileEditOp::Append { content }], expected);
    }
}

#[test]
fn prepend_goes_before_line_1_and_gets_a_terminator_if_it_lacks_one() {
    for (file, content, expected) in [
        (&b"a\n"[..], "x\ny\n", &b"x\ny\na\n"[..]),
        (b"a\n", "x", b"x\na\n"),
        (b"a\r\nb", "x\ny", b"x\r\ny\r\na\r\nb"),
        (b"a", "x", b"x\na"),
        (b"", "x", b"x\n"),
        (b"a", "", b"a"),
    ] {
        assert_edit(file, &[FileEditOp::Prepend { content }], expected);
    }
}

/// Time on the processor: what else the machine does must not decide a test.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The contract's defect 9: cost grew with the square of the number of matches.
#[test]
fn the_cost_of_a_replacement_is_linear_in_its_matches() {
    let file = "ab\n".repeat(200_000);
    let cost = |count: usize, op: FileEditOp<'_>| {
        let begin = cpu_time();
        let edited = edited(&file.as_bytes()[..3 * count], &[op]).unwrap();
        assert_eq!(edited.new_line_count, 2 * count as u64);
        cpu_time() - begin
    };
    let literal = |count: usize| {
        FileEditOp::StrReplace(StrReplace {
            old: "b",
            new: "b\n",
            expect_matches: count as u64,
            ignores_white_space: false,
        })
    };
    for op in [
        &(|_| FileEditOp::Replace(replace("b", "b\n"))) as &dyn Fn(usize) -> FileEditOp<'static>,
        &(|_| FileEditOp::Replace(replace("(b)\n", "$1\n\n"))),
        &literal,
    ] {
        // The best of several: on a busy machine a single run can take many times as long.
        let best = |count: usize| (0..5).map(|_| cost(count, op(count))).min().unwrap();
        let (few, many) = (best(20_000), best(200_000));
        // Ten times as many; the square would be a hundred.
        assert!(many < few * 40, "{few:?} for 20,000, {many:?} for 200,000");
    }
}

/// The contract's defect 10: the whole result was built before its size was looked at.
#[test]
fn a_result_is_refused_before_it_is_built() {
    let file = "x".repeat(100_000);
    let new = "y".repeat(200);
    let long = "z".repeat(10 << 20);
    for op in [
        FileEditOp::Replace(replace(".", &new)),
        FileEditOp::StrReplace(StrReplace { old: "x", new: &new, expect_matches: 100_000, ignores_white_space: false }),
        FileEditOp::Append { content: &long },
        insert(1, &long),
    ] {
        let Err(EditError::TooLarge { bytes }) = edited(file.as_bytes(), &[op]) else { panic!("too large") };
        // The number of bytes that were about to be written when the bound was reached.
        assert!((MAX + 1..=MAX + long.len() as u64).contains(&bytes), "{bytes}");
    }
    // A wrong count is reported rather than the size.
    assert!(refused(file.as_bytes(), &[expecting(".", &new, 3)]).contains("matched 100000 times"));
}

#[test]
fn an_edit_that_nobody_waits_for_ends() {
    let file = "x\n".repeat(100_000);
    let asked = AtomicU32::new(0);
    let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < 10;
    for op in [
        FileEditOp::Replace(replace("x", "y")),
        FileEditOp::StrReplace(StrReplace { old: "x", new: "y", expect_matches: 100_000, ignores_white_space: false }),
    ] {
        asked.store(0, Ordering::Relaxed);
        let bounds = EditBounds { max_bytes: MAX, should_continue: &goes_on };
        assert_eq!(apply(file.as_bytes(), &[op], bounds), Err(EditError::Stopped));
    }
}

#[test]
fn an_edit_that_changes_nothing_says_so() {
    for ops in [
        vec![FileEditOp::Replace(replace("x", "y"))],
        vec![FileEditOp::Replace(replace("a", "a"))],
        vec![update(1, 1, "a")],
        vec![insert(1, "x"), expecting("x\r\n", "", 1)],
    ] {
        let same = edited(b"a\r\nb", &ops).unwrap();
        assert_eq!((same.bytes.as_slice(), same.changed), (&b"a\r\nb"[..], false), "{ops:?}");
        assert_eq!(same.applied, ops.len());
    }
}
