//! Echoes: what they show, how much of it, and that their numbers are true.

use proptest::prelude::*;

use super::{
    tests::{edited, replace},
    *,
};

fn echoes(file: &str, ops: &[FileEditOp<'_>]) -> Vec<FileEditEcho> {
    edited(file.as_bytes(), ops).unwrap().echoes
}

fn region(op_index: usize, from_line: u64, lines: &[&str], elided: Option<u64>) -> FileEditEcho {
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    FileEditEcho { op_index, from_line, lines, elided, total_replacements: None }
}

fn site(op_index: usize, from_line: u64, lines: &[&str], elided: Option<u64>, total: u64) -> FileEditEcho {
    FileEditEcho { total_replacements: Some(total), ..region(op_index, from_line, lines, elided) }
}

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("{n}\n")).collect()
}

#[test]
fn a_line_op_shows_its_region_and_two_lines_on_each_side() {
    let file = numbered(9);
    assert_eq!(
        echoes(&file, &[FileEditOp::Insert { at_line: 5, content: "x\ny" }]),
        [region(0, 3, &["3", "4", "x", "y", "5", "6"], None)]
    );
    assert_eq!(
        echoes(&file, &[FileEditOp::UpdateLines { from_line: 1, to_line: 2, content: "x" }]),
        [region(0, 1, &["x", "3", "4"], None)]
    );
    assert_eq!(echoes(&file, &[FileEditOp::Append { content: "x" }]), [region(0, 8, &["8", "9", "x"], None)]);
    assert_eq!(echoes(&file, &[FileEditOp::Prepend { content: "x" }]), [region(0, 1, &["x", "1", "2"], None)]);
}

#[test]
fn a_removal_shows_the_lines_around_the_cut() {
    let file = numbered(9);
    let remove = |from_line, to_line| FileEditOp::Remove { from_line, to_line };
    assert_eq!(echoes(&file, &[remove(4, 6)]), [region(0, 2, &["2", "3", "7", "8"], None)]);
    assert_eq!(echoes(&file, &[remove(1, 3)]), [region(0, 1, &["4", "5"], None)]);
    assert_eq!(echoes(&file, &[remove(8, 9)]), [region(0, 6, &["6", "7"], None)]);
    assert_eq!(echoes(&file, &[remove(1, 9)]), [region(0, 1, &[], None)]);
}

#[test]
fn a_long_region_shows_its_first_and_last_eight_lines() {
    let file = numbered(9);
    let long = numbered(30);
    let shown = echoes(&file, &[FileEditOp::Insert { at_line: 5, content: &long }]);
    let expected = ["3", "4", "1", "2", "3", "4", "5", "6", "25", "26", "27", "28", "29", "30", "5", "6"];
    assert_eq!(shown, [region(0, 3, &expected, Some(18))]);
    // Twenty are not too many.
    let sixteen = numbered(16);
    assert_eq!(echoes(&file, &[FileEditOp::Insert { at_line: 5, content: &sixteen }])[0].lines.len(), 20);
}

#[test]
fn a_match_shows_its_lines_or_the_first_and_last_of_them() {
    let op = |pattern, replacement| [FileEditOp::Replace(replace(pattern, replacement))];
    assert_eq!(echoes("a\nb\nc\n", &op("b", "x")), [site(0, 2, &["x"], None, 1)]);
    assert_eq!(echoes("a\nb\nc\n", &op("b", "x\ny")), [site(0, 2, &["x", "y"], None, 1)]);
    assert_eq!(echoes("a\nb\nc\n", &op("b", "w\nx\ny\nz")), [site(0, 2, &["w", "z"], Some(2), 1)]);
    assert_eq!(echoes("a\nb\nc\n", &op("(?s)b.*", "")), [site(0, 1, &["a"], None, 1)]);
    assert_eq!(echoes("a b\n", &op("nothing", "")), []);
    let literal =
        FileEditOp::StrReplace(StrReplace { old: "b\nc", new: "x", expect_matches: 1, ignores_white_space: false });
    assert_eq!(echoes("a\nb\nc\n", &[literal]), [site(0, 2, &["x"], None, 1)]);
}

#[test]
fn five_sites_are_shown_and_all_are_counted() {
    let shown = echoes(&numbered(99), &[FileEditOp::Replace(replace("5", "five"))]);
    let lines: Vec<u64> = shown.iter().map(|echo| echo.from_line).collect();
    assert_eq!(lines, [5, 15, 25, 35, 45]);
    assert!(shown.iter().all(|echo| echo.total_replacements == Some(20)));
}

#[test]
fn lines_are_shown_without_terminators_and_as_text() {
    let shown = edited(b"caf\xe9\r\r\n", &[FileEditOp::Append { content: "x" }]).unwrap().echoes;
    assert_eq!(shown, [region(0, 1, &["caf\u{fffd}\r", "x"], None)]);
}

#[test]
fn echoes_are_ordered_by_op_and_name_lines_of_the_final_file() {
    let ops = [
        FileEditOp::Replace(replace("3", "three\nthree")),
        FileEditOp::Insert { at_line: 9, content: "x" },
        FileEditOp::Remove { from_line: 1, to_line: 2 },
        FileEditOp::Prepend { content: "top\n" },
    ];
    let shown = echoes(&numbered(9), &ops);
    assert_eq!(
        shown,
        [
            site(0, 2, &["three", "three"], None, 1),
            region(1, 7, &["7", "8", "x", "9"], None),
            region(2, 1, &["top", "three", "three"], None),
            region(3, 1, &["top", "three", "three"], None),
        ]
    );
}

#[test]
fn a_mark_that_an_edit_brings_to_the_front_is_in_no_line() {
    let remove = FileEditOp::Remove { from_line: 1, to_line: 1 };
    let shown = edited(b"x\n\xef\xbb\xbfa\nb\n", &[remove]).unwrap();
    assert_eq!((shown.new_line_count, shown.echoes), (2, vec![region(0, 1, &["a", "b"], None)]));
    let shown = edited(b"x\n\xef\xbb\xbf", &[remove]).unwrap();
    assert_eq!((shown.new_line_count, shown.echoes), (0, vec![region(0, 1, &[], None)]));
    assert_eq!(shown.bytes, b"\xef\xbb\xbf");
}

#[test]
fn the_budget_is_4096_bytes_and_the_first_echo_always_fits() {
    let huge = "x".repeat(9000);
    let shown = edited(format!("{huge}\nb\n").as_bytes(), &[FileEditOp::Replace(replace("x$|b", "y"))]).unwrap();
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (1, false));
    let shown = edited(format!("{huge}\nb\n").as_bytes(), &[FileEditOp::Replace(replace("(?m)x$|b", "y"))]).unwrap();
    assert_eq!(shown.echoes[0].lines[0].len(), 9000);
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (1, true));
    // Each costs its lines, one byte per line and 64: 935 + 1 + 64 = 1000, of which four fit.
    let line = "x".repeat(934);
    let file = format!("{line}a\n").repeat(4);
    let shown = edited(file.as_bytes(), &[FileEditOp::Replace(replace("a", "b"))]).unwrap();
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (4, false));
    let file = format!("{line}a\n").repeat(5);
    let shown = edited(file.as_bytes(), &[FileEditOp::Replace(replace("a", "b"))]).unwrap();
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (4, true));
}

#[test]
fn very_many_operations_show_as_many_as_the_budget_takes() {
    let file = "\n".repeat(2000);
    let ops: Vec<FileEditOp<'_>> =
        (1..=1000).map(|n| FileEditOp::Remove { from_line: 2 * n, to_line: 2 * n }).collect();
    let shown = edited(file.as_bytes(), &ops).unwrap();
    // Three or four empty lines each: 67 or 68 bytes.
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (60, true));
    let all: Vec<FileEditOp<'_>> = (1..=64).map(|n| FileEditOp::Remove { from_line: n, to_line: n }).collect();
    let shown = edited("\n".repeat(64).as_bytes(), &all).unwrap();
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (64, false));
    let all: Vec<FileEditOp<'_>> = (1..=65).map(|n| FileEditOp::Remove { from_line: n, to_line: n }).collect();
    let shown = edited("\n".repeat(65).as_bytes(), &all).unwrap();
    assert_eq!((shown.echoes.len(), shown.echoes_truncated), (64, true));
}

fn ops() -> impl Strategy<Value = Vec<(u8, u64, &'static str, &'static str)>> {
    let old = prop_oneof![Just("a"), Just("\n"), Just("b\n"), Just("(?m)^"), Just("(?s)a.*?b"), Just("(?m)$")];
    let new = prop_oneof![Just(""), Just("x"), Just("x\ny"), Just("\n"), Just("1\n2\n3\n4\n")];
    proptest::collection::vec((0u8..6, 1u64..14, old, new), 1..6)
}

proptest! {
    #[test]
    fn echo_lines_are_always_those_of_the_final_file(
        file in proptest::collection::vec(prop_oneof![Just("a\n"), Just("b\r\n"), Just("\n"), Just("ab\n")], 0..14),
        ops in ops(),
        ended: bool,
    ) {
        let file = file.concat() + if ended { "" } else { "a" };
        let ops: Vec<FileEditOp<'_>> = ops.iter().map(|(kind, line, old, new)| match kind {
            0 => FileEditOp::Insert { at_line: *line, content: new },
            1 => FileEditOp::Remove { from_line: *line, to_line: *line + 1 },
            2 => FileEditOp::UpdateLines { from_line: *line, to_line: *line, content: new },
            3 => FileEditOp::Replace(replace(old, new)),
            4 => FileEditOp::Append { content: new },
            _ => FileEditOp::Prepend { content: new },
        }).collect();
        let Ok(edited) = edited(file.as_bytes(), &ops) else { return Ok(()) };
        let text = String::from_utf8(edited.bytes).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').map(|line| {
            line.strip_suffix("\r\n").or(line.strip_suffix('\n')).unwrap_or(line)
        }).collect();
        prop_assert_eq!(lines.len() as u64, edited.new_line_count);
        let mut last_op = 0;
        for echo in &edited.echoes {
            prop_assert!(echo.op_index >= last_op);
            last_op = echo.op_index;
            let from = echo.from_line as usize - 1;
            let elided = echo.elided.unwrap_or(0) as usize;
            let head = if elided > 0 { echo.lines.len() / 2 } else { echo.lines.len() };
            prop_assert_eq!(&echo.lines[..head], &lines[from..from + head]);
            let tail = from + head + elided;
            prop_assert_eq!(&echo.lines[head..], &lines[tail..tail + echo.lines.len() - head]);
            prop_assert!(!echo.lines.is_empty() || text.is_empty());
        }
        // Every operation that changed something is shown.
        if !edited.echoes_truncated {
            for (index, op) in ops.iter().enumerate().filter(|(_, op)| !matches!(op, FileEditOp::Replace(_))) {
                let shows = edited.echoes.iter().any(|echo| echo.op_index == index);
                let is_nothing = matches!(op, FileEditOp::Append { content: "" } | FileEditOp::Prepend { content: "" });
                prop_assert_eq!(shows, !is_nothing, "{:?}", op);
            }
        }
    }
}
