use serde_json::{Value, json};

use super::super::tests::{CommandRun, run_against};

fn edit(line: &[&str], terminal: Option<usize>, result: Value) -> CommandRun {
    let line: Vec<&str> = std::iter::once("edit").chain(line.iter().copied()).collect();
    run_against(&line, terminal, move |method, params| {
        assert_eq!(method, "coder::update-file");
        let entries = params["files"].as_array().unwrap().len();
        Ok(json!({ "results": vec![result.clone(); entries] }))
    })
}

fn done(more: Value) -> Value {
    let mut done = json!({"path": "/r/f", "success": true, "applied": 1, "new_line_count": 3, "echoes": [],
        "echoes_truncated": false, "changed": true, "etag": "00"});
    done.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    done
}

#[test]
fn every_operation_becomes_its_own_on_the_wire() {
    let line = [
        "f",
        "--replace",
        "a",
        "b",
        "--regex",
        "x+",
        "$1",
        "--expect",
        "2",
        "--insert",
        "2",
        "draft",
        "--lines",
        "3:4",
        "@@ONE",
        "--remove",
        "7",
        "--append",
        "end\n",
        "--prepend",
        "top",
    ];
    let ran = edit(&line, None, done(json!({})));
    let ops = json!([
        {"op": "str_replace", "old": "a", "new": "b"},
        {"op": "replace", "pattern": "x+", "replacement": "$1", "expect_matches": 2},
        {"op": "insert", "at_line": 2, "content": "draft"},
        {"op": "update_lines", "from_line": 3, "to_line": 4, "content": "@ONE"},
        {"op": "remove", "from_line": 7, "to_line": 7},
        {"op": "append", "content": "end\n"},
        {"op": "prepend", "content": "top"},
    ]);
    assert_eq!(ran.calls[0].1, json!({ "files": [{"path": "f", "ops": ops}], "strict": true }));
    assert_eq!((ran.code, ran.text()), (0, "edited f, 3 lines\n"));
}

#[test]
fn options_of_the_whole_call_are_passed_on() {
    let line = ["a", "b", "--append", "x", "--atomic", "--base-dir", "src", "--dry-run"];
    let ran = edit(&line, None, done(json!({"diff": "", "changed": false})));
    let params = &ran.calls[0].1;
    assert_eq!(
        (&params["atomic"], &params["base_dir"], &params["dry_run"]),
        (&json!(true), &json!("src"), &json!(true))
    );
    assert_eq!((ran.text(), ran.err.as_str()), ("", "stockade: a: would not change\nstockade: b: would not change\n"));
    let ran = edit(&["a", "--append", "x", "--if-match", "00ff", "--diff"], None, done(json!({"diff": "@@"})));
    assert_eq!((&ran.calls[0].1["files"][0]["if_match"], &ran.calls[0].1["diff"]), (&json!("00ff"), &json!(true)));
}

#[test]
fn what_only_one_file_or_one_text_can_have_is_refused_before_anything_is_sent() {
    for line in [&["a", "b", "--append", "x", "--if-match", "00"][..], &["a", "--append", "-", "--prepend", "-"]] {
        let ran = edit(line, None, done(json!({})));
        assert_eq!((ran.code, ran.calls.len()), (2, 0), "{}", ran.err);
    }
}

#[test]
fn text_may_come_from_a_file_of_the_person() {
    let folder = tempfile::tempdir().unwrap();
    let (text, bytes) = (folder.path().join("text"), folder.path().join("bytes"));
    std::fs::write(&text, "from a file\n").unwrap();
    std::fs::write(&bytes, b"\xff").unwrap();
    let ran = edit(&["f", "--append", &format!("@{}", text.display())], None, done(json!({})));
    assert_eq!(ran.calls[0].1["files"][0]["ops"][0]["content"], "from a file\n");
    let ran = edit(&["f", "--append", &format!("@{}", bytes.display())], None, done(json!({})));
    assert_eq!((ran.code, ran.err.contains("not UTF-8"), ran.calls.len()), (2, true, 0));
}

#[test]
fn replacements_are_counted_once_for_each_operation() {
    let echo = |op: u32, total: u64| json!({"op_index": op, "from_line": 1, "lines": [], "total_replacements": total});
    let ran = edit(
        &["f", "-e", "a", "b", "-e", "c", "d"],
        None,
        done(json!({"echoes": [echo(0, 2), echo(0, 2), echo(1, 5)]})),
    );
    assert_eq!(ran.text(), "edited f, 7 replacements, 3 lines\n");
    let ran = edit(&["f", "-r", "a", "b"], None, done(json!({"echoes": [echo(0, 1)], "owner_changed": true})));
    assert_eq!(ran.text(), "edited f, 1 replacement, 3 lines, with another owner\n");
    let ran = edit(&["f", "-r", "a", "a"], None, done(json!({"changed": false})));
    assert_eq!(ran.text(), "unchanged f\n");
}

#[test]
fn a_diff_is_made_safe_for_a_terminal_and_left_alone_for_a_program() {
    let diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+\u{1b}[2J\n";
    let seen = edit(&["f", "-r", "a", "b", "-n"], Some(80), done(json!({ "diff": diff })));
    assert_eq!(seen.text(), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\\r\n+\\u001b[2J\n");
    let piped = edit(&["f", "-r", "a", "b", "-n"], None, done(json!({"diff": diff, "diff_truncated": true})));
    assert_eq!(piped.text(), diff);
    assert!(piped.err.contains("too large to be shown whole"), "{}", piped.err);
}

#[test]
fn options_that_relax_the_rules_reach_the_service() {
    let line = ["f", "-r", "a", "b", "-a", "x", "--ignore-whitespace", "--verbatim", "--binary"];
    let ran = edit(&line, None, done(json!({})));
    let file = &ran.calls[0].1["files"][0];
    assert_eq!((&file["verbatim"], &file["binary"]), (&json!(true), &json!(true)));
    assert_eq!((&file["ops"][0]["whitespace"], &file["ops"][1].get("whitespace")), (&json!("ignore"), &None));
}

#[test]
fn a_text_that_is_missing_is_answered_with_the_nearest_lines_and_the_option_that_helps() {
    let error = json!({"code": "C210", "message": "f: ops[0]: matched 0 times; whitespace: \"ignore\" replaces it there",
        "nearest": {"from_line": 7, "lines": ["\tgo();", "\u{1b}[2J"]}});
    let ran = edit(&["f", "-r", "go();", "x"], None, json!({"path": "f", "success": false, "error": error}));
    assert!(ran.err.contains("\n7→\tgo();\n8→\\u001b[2J\n"), "{}", ran.err);
    assert!(ran.err.contains("--ignore-whitespace replaces it there"), "{}", ran.err);
}
