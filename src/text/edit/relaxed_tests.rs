//! Text that is not in the file as it was sent, and regular expressions in files with CR LF.

use super::{tests::edited, tests::replace, *};

fn literal<'a>(old: &'a str, new: &'a str) -> StrReplace<'a> {
    StrReplace { old, new, expect_matches: 1, ignores_white_space: false }
}

fn ignoring<'a>(old: &'a str, new: &'a str) -> FileEditOp<'a> {
    FileEditOp::StrReplace(StrReplace { ignores_white_space: true, ..literal(old, new) })
}

/// The bytes after one op, and the only note.
#[track_caller]
fn noted(file: &[u8], op: FileEditOp<'_>) -> (Vec<u8>, String) {
    let edited = edited(file, &[op]).unwrap();
    let [(0, note)] = edited.notes.as_slice() else { panic!("{:?}", edited.notes) };
    (edited.bytes, note.clone())
}

#[track_caller]
fn missing(file: &[u8], op: FileEditOp<'_>) -> (String, Nearest) {
    match edited(file, &[op]) {
        Err(EditError::Missing { text, nearest }) => (text, *nearest),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pasted_line_numbers_are_left_out_only_if_the_text_is_not_found_with_them() {
    let file = b"fn a() {\r\n    go();\r\n}\r\n";
    let (bytes, note) = noted(file, FileEditOp::StrReplace(literal("1→fn a() {\n2→    go();\n", "fn b() {\n")));
    assert_eq!(bytes, b"fn b() {\r\n}\r\n");
    assert!(note.contains("line numbers"), "{note}");
    let as_sent = edited(b"7\xe2\x86\x92a a", &[FileEditOp::StrReplace(literal("7→a", "b"))]).unwrap();
    assert_eq!((as_sent.bytes.as_slice(), as_sent.notes.len()), (&b"b a"[..], 0));
    // Without the numbers it is there twice.
    let error = edited(b"a\na\n", &[FileEditOp::StrReplace(literal("1→a\n", "b\n"))]).unwrap_err();
    assert!(matches!(&error, EditError::Invalid(text) if text.contains("matched 2 times")), "{error:?}");
}

#[test]
fn a_pasted_blank_line_is_not_every_line_end() {
    let all = StrReplace { expect_matches: EVERY_MATCH, ..literal("7→\n", "x") };
    for op in [all, literal("7→ \n", "x")] {
        assert!(edited(b"a\n \nb\n", &[FileEditOp::StrReplace(op)]).is_err(), "{op:?}");
    }
}

#[test]
fn pasted_line_numbers_that_are_written_are_told() {
    let op = FileEditOp::StrReplace(literal("1→a\n2→b\n", "1→a\nnew\n2→b\n"));
    let edited = edited(b"a\nb\n", &[op]).unwrap();
    let [_, (0, note)] = edited.notes.as_slice() else { panic!("{:?}", edited.notes) };
    assert!(note.starts_with("new: some of its lines begin with a line number"), "{note}");
}

#[test]
fn white_space_is_ignored_only_on_request_and_at_one_place() {
    let file = b"if x:\n\tgo( 1 )  \n\tend\n";
    let old = "  go( 1 )\n  end\n";
    let (text, nearest) = missing(file, FileEditOp::StrReplace(literal(old, "")));
    assert!(
        text.contains("nearest are lines 2 to 3; what differs: indentation (tabs in the file, spaces in old)"),
        "{text}"
    );
    assert!(text.contains("whitespace: \"ignore\" replaces it there"), "{text}");
    assert_eq!((nearest.from_line, nearest.lines), (2, vec!["\tgo( 1 )  ".to_owned(), "\tend".to_owned()]));
    let (bytes, note) = noted(file, ignoring(old, "  stop()\n"));
    assert_eq!(bytes, b"if x:\n  stop()\n");
    assert!(note.contains("lines 2 to 3") && note.contains("written as sent"), "{note}");
    let (bytes, note) = noted(file, ignoring("1→go( 1 )\n2→end\n", "stop()\ndone()\n"));
    assert_eq!(bytes, b"if x:\n\tstop()\n\tdone()\n");
    assert!(note.contains("indentation that old lacks"), "{note}");
    // Found as it is: nothing is ignored.
    let exact = edited(file, &[ignoring("go( 1 )", "x")]).unwrap();
    assert_eq!((exact.bytes.as_slice(), exact.notes.len()), (&b"if x:\n\tx  \n\tend\n"[..], 0));
    let twice = missing(b" a;\n b;\n  a;\n b;\n", ignoring("a; \nb;", "x")).0;
    assert!(twice.contains("nor is it at exactly one place"), "{twice}");
    let op = StrReplace { expect_matches: 2, ignores_white_space: true, ..literal("a", "b") };
    assert!(
        matches!(edited(b"a a", &[FileEditOp::StrReplace(op)]), Err(EditError::Invalid(text)) if text.contains("expect_matches"))
    );
}

#[test]
fn line_ends_of_a_relaxed_replacement_are_those_of_its_place() {
    let (bytes, _) = noted(b"a \r\n b\r\nc\r\n", ignoring("a\nb\n", "x\ny\n"));
    assert_eq!(bytes, b"x\r\ny\r\nc\r\n");
}

#[test]
fn the_nearest_lines_are_those_that_the_ops_before_left() {
    let ops = [FileEditOp::Prepend { content: "x\n" }, FileEditOp::StrReplace(literal("go(2);", ""))];
    let Err(EditError::Missing { text, nearest }) = edited(b"fn a() {\n    go(1);\n}\n", &ops) else { panic!() };
    assert!(
        text.starts_with("ops[1]: \"go(2);\" matched 0 times, expected 1; nearest is line 3 (as the ops"),
        "{text}"
    );
    assert_eq!((nearest.from_line, nearest.lines.as_slice()), (3, &["    go(1);".to_owned()][..]));
}

fn regex<'a>(pattern: &'a str, replacement: &'a str) -> FileEditOp<'a> {
    FileEditOp::Replace(replace(pattern, replacement))
}

#[test]
fn a_dollar_is_before_cr_lf_and_line_ends_survive() {
    for (file, pattern, replacement, expected) in [
        (&b"a\r\nb\nc\r\n"[..], "(?m)$", ";", &b"a;\r\nb;\nc;\r\n;"[..]),
        (b"a\r\nb\r\n", "(?m)^(.*)$", "<$1>", b"<a>\r\n<b>\r\n<>"),
        (b"ab\r\n", "a.*", "x", b"x\r\n"),
        (b"a;\r\nb;\r\n", "(?m);$", "", b"a\r\nb\r\n"),
        // The pattern counts the CR as text.
        (b"a\r\nb\r\n", "(?m)\\r$", "", b"a\nb\n"),
        (b"a\r\nb\r\n", "a\r\n", "x", b"xb\r\n"),
        (b"a\r\nb\r\n", "a\\r?\\n", "x", b"xb\r\n"),
        // Without CR LF a CR is text, as everywhere.
        (b"a\rb\nc\n", "(?m)^.*$", "x", b"x\nx\nx"),
        (b"a\rb\r\n", "(?m)^", "x", b"xa\rb\r\nx"),
    ] {
        let new = edited(file, &[regex(pattern, replacement)]).unwrap().bytes;
        assert_eq!(String::from_utf8_lossy(&new), String::from_utf8_lossy(expected), "{pattern}");
    }
}

#[test]
fn a_pattern_without_matches_is_noted_or_refused_unless_that_is_expected() {
    let (bytes, note) = noted(b"a\n", regex("b", "c"));
    assert_eq!(bytes, b"a\n");
    assert!(note.starts_with("pattern: matches nothing"), "{note}");
    let strict = RegexReplace { must_match: true, ..replace("b", "c") };
    let Err(EditError::Invalid(text)) = edited(b"a\n", &[FileEditOp::Replace(strict)]) else { panic!() };
    assert!(text.starts_with("ops[0]: \"b\" matched 0 times, expected at least 1; "), "{text}");
    assert!(text.contains("coder::search") && text.contains("dot_matches_newline"), "{text}");
    let none = RegexReplace { expect_matches: Some(0), ..strict };
    assert!(edited(b"a\n", &[FileEditOp::Replace(none)]).unwrap().notes.is_empty());
    assert!(edited(b"b\n", &[FileEditOp::Replace(strict)]).unwrap().notes.is_empty());
}
