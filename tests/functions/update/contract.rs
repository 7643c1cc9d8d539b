//! The sentences of the contract about updates, as seen through the socket.

use std::fs;

use super::{
    UPDATE, assert_edit, assert_refused,
    support::{Client, Options, TestJail, Value, json},
    update,
};

/// One file after another: before, operations, after.
fn edits(cases: &[(&str, Value, &str)]) {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for (before, ops, after) in cases {
        assert_edit(&jail, &mut client, before.as_bytes(), ops.clone(), after.as_bytes());
    }
}

/// Before, operations, and words of the C210 that answers them.
fn refusals(cases: &[(&str, Value, &[&str])]) {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for (before, ops, words) in cases {
        let message = assert_refused(&jail, &mut client, before.as_bytes(), ops.clone(), "C210");
        words.iter().for_each(|word| assert!(message.contains(word), "{word:?} in {message}"));
        assert!(message.starts_with("file: "), "the caller's own path comes first: {message}");
    }
}

#[test]
fn the_quickstart() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let notes = json!({"files": [{"path": "notes.md", "content": "# notes\n- one\n- two\n"}]});
    assert_eq!(client.call("coder::create-file", notes).unwrap()["results"][0]["success"], true);
    let ops = json!([
        {"op": "insert", "at_line": 2, "content": "draft"},
        {"op": "update_lines", "from_line": 3, "to_line": 3, "content": "- ONE"},
    ]);
    assert_eq!(update(&mut client, "notes.md", ops)["success"], true);
    let read = client.call("coder::read-file", json!({"path": "notes.md"})).unwrap();
    assert_eq!(read["content"], "# notes\ndraft\n- one\n- ONE\n");
}

#[test]
fn insert_puts_content_before_at_line_and_lines_plus_1_appends() {
    let insert = |at_line: u32| json!([{"op": "insert", "at_line": at_line, "content": "x"}]);
    edits(&[
        ("a\nb\n", insert(1), "x\na\nb\n"),
        ("a\nb\n", insert(2), "a\nx\nb\n"),
        ("a\nb\n", insert(3), "a\nb\nx\n"),
        ("", insert(1), "x\n"),
    ]);
    refusals(&[
        ("a\nb\n", insert(0), &["ops[0]", "1-based", "1 to 3"]),
        ("a\nb\n", insert(4), &["at_line 4", "2 lines"]),
        ("", insert(2), &["0 lines"]),
    ]);
}

#[test]
fn ranges_hold_1_at_most_from_at_most_to_at_most_lines() {
    let remove = |from: u32, to: u32| json!([{"op": "remove", "from_line": from, "to_line": to}]);
    edits(&[("a\nb\nc\n", remove(1, 3), ""), ("a\nb\nc\n", remove(3, 3), "a\nb\n")]);
    refusals(&[
        ("a\nb\nc\n", remove(0, 1), &["1-based"]),
        ("a\nb\nc\n", remove(2, 4), &["1-based", "3 lines"]),
        ("a\nb\nc\n", remove(3, 2), &["from_line has to be at most to_line"]),
    ]);
}

#[test]
fn ops_that_overlap_are_named_by_their_position_among_line_ops() {
    let line = |op: &str, from: u32, to: u32| match op {
        "insert" => json!({"op": op, "at_line": from, "content": "x"}),
        "remove" => json!({"op": op, "from_line": from, "to_line": to}),
        _ => json!({"op": op, "from_line": from, "to_line": to, "content": "x"}),
    };
    let both = |a: Value, b: Value| json!([{"op": "append", "content": "y\n"}, a, b]);
    let words: &[&str] = &["line op 1", "line op 2", "overlap"];
    refusals(&[
        ("a\nb\nc\n", both(line("remove", 1, 2), line("update_lines", 2, 3)), words),
        ("a\nb\nc\n", both(line("insert", 2, 2), line("insert", 2, 2)), words),
        ("a\nb\nc\n", both(line("insert", 2, 2), line("remove", 1, 3)), words),
    ]);
    edits(&[("a\nb\nc\n", both(line("insert", 2, 2), line("remove", 3, 3)), "a\nx\nb\ny\n")]);
}

#[test]
fn content_is_split_by_terminators_and_one_final_newline_is_dropped() {
    let content = |content: &str| json!([{"op": "update_lines", "from_line": 2, "to_line": 2, "content": content}]);
    edits(&[
        ("a\nb\nc\n", content("x\ny\n"), "a\nx\ny\nc\n"),
        ("a\nb\nc\n", content("x\ny\n\n"), "a\nx\ny\n\nc\n"),
        ("a\nb\nc\n", content(""), "a\nc\n"),
        ("a\nb\nc\n", content("\n"), "a\n\nc\n"),
        ("a\nb\nc\n", content("x\r\r\ny\r"), "a\nx\ny\nc\n"),
    ]);
    let jail = TestJail::new();
    let nothing = json!([{"op": "insert", "at_line": 1, "content": ""}]);
    let result = assert_edit(&jail, &mut jail.connect(), b"a\n", nothing, b"a\n");
    assert_eq!((&result["applied"], &result["changed"]), (&json!(1), &json!(false)));
}

#[test]
fn new_lines_take_the_terminators_of_the_lines_they_replace_or_follow() {
    let update =
        |from: u32, to: u32| json!([{"op": "update_lines", "from_line": from, "to_line": to, "content": "x\ny\nz"}]);
    let insert = |at: u32| json!([{"op": "insert", "at_line": at, "content": "x\ny"}]);
    edits(&[
        ("a\r\nb\nc\n", update(1, 2), "x\r\ny\r\nz\nc\n"),
        ("a\nb\r\nc\n", update(1, 2), "x\ny\nz\r\nc\n"),
        ("a\r\nb\n", insert(2), "a\r\nx\r\ny\r\nb\n"),
        ("a\r\nb\n", insert(3), "a\r\nb\nx\ny\n"),
        ("a\r\nb\n", insert(1), "x\r\ny\r\na\r\nb\n"),
        ("a", insert(1), "x\ny\na"),
    ]);
}

#[test]
fn the_file_ends_with_a_terminator_exactly_if_it_did_before() {
    edits(&[
        ("a\r\nb", json!([{"op": "insert", "at_line": 3, "content": "x\n"}]), "a\r\nb\r\nx"),
        ("a\nb", json!([{"op": "remove", "from_line": 2, "to_line": 2}]), "a"),
        ("a\nb\n", json!([{"op": "remove", "from_line": 2, "to_line": 2}]), "a\n"),
        ("a", json!([{"op": "update_lines", "from_line": 1, "to_line": 1, "content": "x\ny\n"}]), "x\ny"),
        ("a\n", json!([{"op": "remove", "from_line": 1, "to_line": 1}]), ""),
    ]);
}

#[test]
fn replace_ops_run_in_array_order_on_what_the_line_ops_left() {
    edits(&[(
        "a\n",
        json!([
            {"op": "replace", "pattern": "x", "replacement": "y"},
            {"op": "str_replace", "old": "y", "new": "z"},
            {"op": "insert", "at_line": 1, "content": "x"},
            {"op": "append", "content": "z\n"},
            {"op": "replace", "pattern": "z", "replacement": "w", "expect_matches": 2},
        ]),
        "w\na\nw\n",
    )]);
}

#[test]
fn multi_line_mode_is_off_and_all_matches_are_replaced() {
    let replace = |pattern: &str| json!([{"op": "replace", "pattern": pattern, "replacement": "x"}]);
    edits(&[
        ("a\na\na", replace("^a"), "x\na\na"),
        ("a\na\na", replace("a$"), "a\na\nx"),
        ("a\na\na", replace("(?m)^a$"), "x\nx\nx"),
        ("a\na\na", replace("a.a"), "a\na\na"),
        ("a\r\na", replace("a\r\na"), "x"),
    ]);
    refusals(&[("a", replace(""), &["ops[0]", "empty"]), ("a", replace("[a"), &["not a regular expression"])]);
}

#[test]
fn expect_matches_that_differ_leave_the_file_and_say_what_is_there() {
    let expect = |pattern: &str, expected: u32| json!([{"op": "replace", "pattern": pattern, "replacement": "", "expect_matches": expected}]);
    let long = "q".repeat(61);
    let quoted = format!("\"{}…\" matched 0 times", &long[..60]);
    refusals(&[
        ("ab ab\nab\n", expect("ab", 1), &[r#""ab" matched 3 times, expected 1"#, "expect_matches: 3", "lines 1, 2"]),
        ("ab\n", expect("ab", 2), &[r#""ab" matched 1 time, expected 2"#, "expect_matches: 1"]),
        ("ab\n", expect("cd", 1), &[r#""cd" matched 0 times, expected 1"#, "coder::search", "dot_matches_newline"]),
        ("ab\n", expect("ab", 0), &[r#""ab" matched 1 time, expected 0"#]),
        ("ab\n", expect(&long, 1), &[&quoted]),
    ]);
    let jail = TestJail::new();
    let message = assert_refused(&jail, &mut jail.connect(), b"ab\n", expect("ab", 0), "C210");
    assert!(!message.contains("expect_matches: "), "an expected 0 does not suggest a number: {message}");
    edits(&[
        ("ab\n", expect("cd", 0), "ab\n"),
        ("ab\n", json!([{"op": "replace", "pattern": "cd", "replacement": ""}]), "ab\n"),
    ]);
}

#[test]
fn references_are_checked_before_any_work() {
    let replace =
        |replacement: &str| json!([{"op": "replace", "pattern": "(?<name>a)(b)?", "replacement": replacement}]);
    edits(&[
        ("a\n", replace("$name$1${2}$$"), "aa$\n"),
        ("a\n", replace("${1}a"), "aa\n"),
        ("a\n", replace("$ ${ $"), "$ ${ $\n"),
    ]);
    let words: &[&str] = &["2 capture groups", "$$", "template literals"];
    refusals(&[
        ("a\n", replace("`Hello, ${user}!`"), &[&["\"${user}\""], words].concat()),
        ("a\n", replace("$1a"), &[&["\"$1a\""], words].concat()),
        ("a\n", replace("${}"), &[&["\"${}\""], words].concat()),
        ("zzz\n", replace("$3"), &["\"$3\""]),
    ]);
}

#[test]
fn str_replace_wants_one_match_or_as_many_as_it_is_told() {
    let op = |old: &str, new: &str| json!([{"op": "str_replace", "old": old, "new": new}]);
    edits(&[
        ("a.b\naxb\n", op("a.b", "$0"), "$0\naxb\n"),
        ("a a\n", json!([{"op": "str_replace", "old": "a", "new": "b", "expect_matches": 2}]), "b b\n"),
        ("a a\n", json!([{"op": "str_replace", "old": "c", "new": "b", "expect_matches": 0}]), "a a\n"),
        ("a\r\nb\r\nc\n", op("a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\n"),
        ("a\nb", op("b", "c\n"), "a\nc\n"),
    ]);
    refusals(&[
        ("a\nb a\n", op("a", "b"), &[r#""a" matched 2 times, expected 1"#, "lines 1, 2", "expect_matches: 2"]),
        ("let total = 1;\n", op("let totel = 1;", ""), &["matched 0 times", "nearest is line 1; old is compared"]),
        ("a\n", op("", "b"), &["old: empty"]),
        ("a\n", json!([{"op": "str_replace", "old": "a", "new": "b", "expect_matches": 0}]), &["expected 0"]),
    ]);
    let many = "m\n".repeat(25);
    refusals(&[(&many, op("m", ""), &["matched 25 times", "19, 20, …"])]);
}

#[test]
fn append_and_prepend_follow_the_style_of_the_file() {
    let at = |op: &str, content: &str| json!([{"op": op, "content": content}]);
    edits(&[
        ("a\r\nb", at("append", "x\ny\n"), "a\r\nb\r\nx\r\ny\r\n"),
        ("a\n", at("append", "x"), "a\nx"),
        ("a", at("append", "x"), "a\nx"),
        ("", at("append", "x"), "x"),
        ("a\r\n", at("prepend", "x\ny"), "x\r\ny\r\na\r\n"),
        ("a", at("prepend", "x"), "x\na"),
        ("", at("prepend", "x"), "x\n"),
    ]);
}

#[test]
fn echoes_show_what_the_file_is_now() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let file: String = (1..=30).map(|n| format!("{n}\n")).collect();
    jail.write("file", &file);
    let ops = json!([
        {"op": "replace", "pattern": "(?m)^2\\d$", "replacement": "<$0>"},
        {"op": "remove", "from_line": 1, "to_line": 4},
        {"op": "insert", "at_line": 10, "content": "ten\n"},
    ]);
    let result = update(&mut client, "file", ops);
    let echoes = result["echoes"].as_array().unwrap();
    let brief: Vec<(u64, u64, Value)> = echoes
        .iter()
        .map(|echo| (echo["op_index"].as_u64().unwrap(), echo["from_line"].as_u64().unwrap(), echo["lines"].clone()))
        .collect();
    assert_eq!(
        brief,
        [
            (0, 17, json!(["<20>"])),
            (0, 18, json!(["<21>"])),
            (0, 19, json!(["<22>"])),
            (0, 20, json!(["<23>"])),
            (0, 21, json!(["<24>"])),
            (1, 1, json!(["5", "6"])),
            (2, 4, json!(["8", "9", "ten", "10", "11"])),
        ]
    );
    assert!(echoes[..5].iter().all(|echo| echo["total_replacements"] == 10));
    assert_eq!((&result["applied"], &result["echoes_truncated"]), (&json!(3), &json!(false)));
}

#[test]
fn each_file_is_on_its_own() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    jail.write("a", "a\n");
    jail.write("b", "b\n");
    let append = json!([{"op": "append", "content": "x\n"}]);
    let request = json!({"files": [
        {"path": "a", "ops": append},
        {"path": "none", "ops": append},
        {"path": "../out", "ops": append},
        {"path": "b", "ops": [{"op": "remove", "from_line": 7, "to_line": 7}]},
        {"path": "a", "ops": append},
        {"path": "b"},
    ]});
    let results = client.call(UPDATE, request).unwrap()["results"].clone();
    let codes: Vec<&Value> = results.as_array().unwrap().iter().map(|result| &result["error"]["code"]).collect();
    assert_eq!(json!(codes), json!([null, "C211", "C215", "C210", null, "C210"]));
    assert_eq!(results[0]["path"], jail.root.join("a").to_str().unwrap());
    assert_eq!(results[1]["path"], "none", "as sent in a failure");
    assert_eq!(fs::read(jail.root.join("a")).unwrap(), b"a\nx\nx\n");
    assert_eq!(fs::read(jail.root.join("b")).unwrap(), b"b\n");
    let error = client.call(UPDATE, json!({"files": []})).unwrap_err();
    assert_eq!(error.code(), "C210");
    let error = client.call(UPDATE, json!({"file": []})).unwrap_err();
    assert!(error.message().contains("files: missing"), "{error:?}");
}

#[test]
fn sizes_are_bounded_before_and_after() {
    let policy = "[[root]]\npath = \"ROOT\"\n[limits]\nmax_write_bytes = 100\n";
    let jail = TestJail::with_policy(policy);
    let mut client = jail.connect();
    let append = |len: usize| json!([{"op": "append", "content": "x".repeat(len)}]);
    let message = assert_refused(&jail, &mut client, &[b'a'; 101], append(0), "C213");
    assert!(message.contains("101 bytes") && message.contains("max_write_bytes (100)"), "{message}");
    let message = assert_refused(&jail, &mut client, b"a\n", append(99), "C213");
    assert!(message.contains("max_write_bytes (100)"), "{message}");
    assert_edit(&jail, &mut client, b"a\n", append(98), format!("a\n{}", "x".repeat(98)).as_bytes());
}

#[test]
fn a_dry_run_changes_nothing_and_shows_the_diff() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let path = jail.write("src/a.rs", "one\ntwo\nthree\n");
    let file = json!({"path": "src/a.rs", "ops": [{"op": "str_replace", "old": "two", "new": "2"}]});
    let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    let dry = client.call(UPDATE, json!({"files": [file], "dry_run": true})).unwrap()["results"][0].clone();
    assert_eq!((&dry["diff"], &dry["changed"]), (&json!(diff), &json!(true)));
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
    let real = client.call(UPDATE, json!({"files": [file], "diff": true})).unwrap()["results"][0].clone();
    assert_eq!(real["diff"], diff);
    let read = client.call("coder::read-file", json!({"path": "src/a.rs"})).unwrap();
    assert_eq!(read["etag"], real["etag"]);
    assert_ne!(dry["etag"], real["etag"]);
}

#[test]
fn a_link_is_refused_and_where_the_root_follows_links_its_target_is_edited() {
    let plant = |root: &std::path::Path| {
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/real"), "a\n").unwrap();
        std::os::unix::fs::symlink("d/real", root.join("link")).unwrap();
    };
    let append = json!([{"op": "append", "content": "b\n"}]);
    let jail = TestJail::with_tree(Options::default(), plant);
    assert_eq!(update(&mut jail.connect(), "link", append.clone())["error"]["code"], "C215");
    let policy = "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n".to_owned();
    let jail = TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, plant);
    let result = update(&mut jail.connect(), "link", append);
    assert_eq!(result["success"], true, "{result}");
    assert_eq!(fs::read(jail.root.join("d/real")).unwrap(), b"a\nb\n");
    assert!(fs::symlink_metadata(jail.root.join("link")).unwrap().is_symlink(), "the link stays");
}

#[test]
fn a_read_only_root_answers_c221_and_stays_as_it_is() {
    let options = Options { suffix: ":ro", ..Options::default() };
    let jail = TestJail::with_tree(options, |root| fs::write(root.join("file"), "a\n").unwrap());
    let mut client: Client = jail.connect();
    let append = json!([{"op": "append", "content": "b\n"}]);
    assert_eq!(update(&mut client, "file", append)["error"]["code"], "C221");
    assert_eq!(fs::read(jail.root.join("file")).unwrap(), b"a\n");
    let info = client.call("coder::info", json!({})).unwrap();
    assert!(!info["functions"].as_array().unwrap().contains(&json!(UPDATE)), "it is not even offered");
}
