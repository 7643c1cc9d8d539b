use serde_json::{Value, json};

use super::*;
use crate::{jail::testing::TestJail, wire::Code};

fn read(test: &TestJail, request: Value) -> Result<Value> {
    test.run::<ReadFile>(request)
}

/// The error of a request, whose code must be `code` and whose text must hold every one of `words`.
#[track_caller]
fn refused(test: &TestJail, request: Value, code: Code, words: &[&str]) {
    let error = read(test, request.clone()).expect_err(&request.to_string());
    assert_eq!(error.code, code, "{request}: {error}");
    for word in words {
        assert!(error.message.contains(word), "{request}: {error}: lacks {word}");
    }
}

#[test]
fn a_full_read_has_the_fields_of_the_contract() {
    let test = TestJail::new();
    test.write("d/a", "abc");
    test.set_mode("d/a", 0o640);
    let mut found = read(&test, json!({"path": "d/a"})).unwrap();
    let object = found.as_object_mut().unwrap();
    assert!(object.remove("mtime").unwrap().as_i64().unwrap() > 1_600_000_000);
    assert!(object.remove("mtime_ns").unwrap().as_u64().unwrap() < 1_000_000_000);
    assert_eq!(
        found,
        json!({
            "path": test.path("d/a").to_str().unwrap(),
            "content": "abc", "is_utf8": true, "lines_returned": 1, "total_lines": 1, "more_lines": false,
            "size": 3, "mode": 0o640,
            // Published value of BLAKE3("abc").
            "etag": "6437b3ac38465133ffb63b75273a8db5",
        })
    );
}

#[test]
fn lines_are_counted_as_everywhere() {
    let test = TestJail::new();
    for (content, lines) in [("", 0), ("\n", 1), ("a", 1), ("a\nb", 2), ("a\r\nb\r\n", 2), ("a\rb", 1), ("\u{feff}", 0)]
    {
        test.write("a", content);
        let found = read(&test, json!({"path": "a"})).unwrap();
        assert_eq!((&found["content"], &found["total_lines"]), (&content.into(), &lines.into()), "{content:?}");
        assert_eq!(found["lines_returned"], lines);
    }
}

#[test]
fn nulls_are_absent_fields() {
    let test = TestJail::new();
    test.write("a", "x");
    let request = json!({
        "path": "a", "path_bytes": null, "paths": null, "line_from": null, "line_to": null, "tail": null,
        "byte_from": null, "byte_to": null, "stat": null, "numbered": null, "format": null, "encoding": null,
        "truncate": null, "count_lines": null, "etag": null, "max_output_bytes": null, "base_dir": null,
    });
    assert_eq!(read(&test, request).unwrap()["content"], "x");
}

#[test]
fn exactly_one_of_path_and_paths() {
    let test = TestJail::new();
    refused(&test, json!({"path": "a", "paths": ["b"]}), Code::BadInput, &["not both", "path", "paths"]);
    refused(&test, json!({"path_bytes": "YQ==", "paths": []}), Code::BadInput, &["not both"]);
    refused(&test, json!({"path": "a", "path_bytes": "YQ=="}), Code::BadInput, &["not both"]);
    refused(&test, json!({}), Code::BadInput, &["path", "paths"]);
}

#[test]
fn line_numbers_are_checked_before_the_name() {
    let test = TestJail::new();
    for request in [
        json!({"path": "missing", "line_from": 0}),
        json!({"path": "missing", "line_to": 0}),
        json!({"path": "missing", "line_from": 3, "line_to": 2}),
        json!({"path": "missing", "line_from": u64::MAX, "line_to": 1}),
    ] {
        refused(&test, request, Code::BadInput, &["1-based"]);
    }
    refused(&test, json!({"path": "missing", "line_from": 2, "line_to": 2}), Code::NotFound, &[]);
}

#[test]
fn stat_conflicts_name_the_other_field() {
    let test = TestJail::new();
    let conflicts = [
        ("line_from", json!(1)),
        ("line_to", json!(1)),
        ("tail", json!(1)),
        ("byte_from", json!(0)),
        ("byte_to", json!(1)),
        ("numbered", json!(true)),
        ("format", json!("numbered")),
        ("max_output_bytes", json!(1)),
        ("encoding", json!("base64")),
        ("truncate", json!(true)),
    ];
    for (field, value) in conflicts {
        refused(&test, json!({"path": "a", "stat": true, field: value}), Code::BadInput, &["stat", field]);
    }
}

#[test]
fn the_first_conflict_of_the_contract_is_the_one_told() {
    let test = TestJail::new();
    let all = json!({"path": "a", "stat": true, "line_from": 1, "numbered": true, "max_output_bytes": 1});
    refused(&test, all, Code::BadInput, &["stat", "line_from"]);
    let two = json!({"path": "a", "stat": true, "numbered": true, "max_output_bytes": 1});
    refused(&test, two, Code::BadInput, &["stat", "numbered"]);
    refused(&test, json!({"path": "a", "stat": true, "line_from": 0}), Code::BadInput, &["1-based"]);
}

#[test]
fn windows_exclude_each_other_and_the_full_budget() {
    let test = TestJail::new();
    for (one, other) in [("line_from", "tail"), ("line_to", "byte_to"), ("tail", "byte_from")] {
        refused(&test, json!({"path": "a", one: 1, other: 1}), Code::BadInput, &[one, other]);
    }
    for window in ["line_from", "line_to", "tail", "byte_from", "byte_to"] {
        let request = json!({"path": "a", window: 1, "max_output_bytes": 9});
        refused(&test, request, Code::BadInput, &["max_output_bytes", window]);
    }
}

#[test]
fn odd_options_are_refused_with_their_names() {
    let test = TestJail::new();
    refused(&test, json!({"path": "a", "tail": 0}), Code::BadInput, &["tail"]);
    refused(&test, json!({"path": "a", "byte_from": 2, "byte_to": 1}), Code::BadInput, &["byte_to", "0-based"]);
    refused(
        &test,
        json!({"path": "a", "numbered": true, "encoding": "base64"}),
        Code::BadInput,
        &["base64", "numbered"],
    );
    refused(&test, json!({"path": "a", "numbered": true, "byte_from": 0}), Code::BadInput, &["byte_from", "numbered"]);
    refused(&test, json!({"path": "a", "numbered": true, "format": "plain"}), Code::BadInput, &["numbered", "format"]);
    refused(&test, json!({"path": "a", "format": "hashline"}), Code::BadInput, &["format"]);
    refused(&test, json!({"path": "a", "encoding": "latin1"}), Code::BadInput, &["encoding"]);
    refused(&test, json!({"path": "a", "line_from": -1}), Code::BadInput, &["line_from"]);
}

#[test]
fn missing_and_denied_are_one_answer() {
    let test = TestJail::new();
    test.write(".env", "x");
    let text = |path: &str| {
        let error = read(&test, json!({"path": path})).unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        error.message.replace(path, "P")
    };
    assert_eq!(text(".env"), text("missing"));
    assert_eq!(text("no/.env"), text("no/missing"));
    let expected = "P: not found or not accessible; see what is there with coder::list-folder or coder::tree";
    assert_eq!(text("missing"), expected);
}

#[test]
fn paths_are_refused_in_their_own_words() {
    let test = TestJail::new();
    let root = test.root().to_str().unwrap().to_owned();
    test.write("f", "x");
    refused(&test, json!({"path": "../x"}), Code::OutsideRoots, &["../x", &root]);
    refused(
        &test,
        json!({"path": "/etc/passwd"}),
        Code::OutsideRoots,
        &["/etc/passwd", &format!("Allowed roots: {root}")],
    );
    refused(&test, json!({"path": "f/below"}), Code::Io, &["f/below", "not a directory"]);
    refused(&test, json!({"path": "a\0"}), Code::BadInput, &["NUL"]);
    refused(&test, json!({"path": "x".repeat(256)}), Code::BadInput, &["too long"]);
    let outside = json!({"path": format!("{root}/f"), "base_dir": "sub"});
    refused(&test, outside, Code::OutsideBaseDir, &["sub", "inside an allowed root"]);
    let nowhere = json!({"path": "f", "base_dir": "/nowhere"});
    refused(&test, nowhere, Code::OutsideRoots, &["base_dir is outside every allowed root"]);
}

#[test]
fn folders_are_not_read() {
    let test = TestJail::new();
    std::fs::create_dir(test.path("d")).unwrap();
    for path in ["d", "", "."] {
        let words = ["not a regular file", "coder::tree", "coder::list-folder"];
        refused(&test, json!({"path": path}), Code::BadInput, &words);
    }
}

#[test]
fn base_dir_and_bytes_name_files_too() {
    let test = TestJail::new();
    test.write("sub/f", "x");
    std::fs::write(test.raw(b"n\xff"), "y").unwrap();
    assert_eq!(read(&test, json!({"path": "f", "base_dir": "sub"})).unwrap()["content"], "x");
    let found = read(&test, json!({"path_bytes": "bv8="})).unwrap();
    assert_eq!(found["content"], "y");
    assert!(found["path"].as_str().unwrap().ends_with("/n\u{fffd}") && found["path_bytes"].is_string());
}

#[test]
fn above_max_read_bytes_is_too_large() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 4;
    test.write("a", "12345");
    let words = ["a: ", "5 bytes", "max_read_bytes", "(4)", "line_from/line_to"];
    refused(&test, json!({"path": "a"}), Code::TooLarge, &words);
    test.write("a", "1234");
    assert_eq!(read(&test, json!({"path": "a"})).unwrap()["content"], "1234");
}

#[test]
fn the_full_budget_is_exact_and_explains_itself() {
    let mut test = TestJail::new();
    test.limits.max_output_bytes = 6;
    test.write("a", "12\n45\n");
    assert_eq!(read(&test, json!({"path": "a"})).unwrap()["content"], "12\n45\n");
    test.write("a", "12\n45\n7");
    let words = ["a: ", "7 bytes", "3 lines", "budget of 6", "max_output_bytes", "stat: true", "line_from/line_to"];
    refused(&test, json!({"path": "a"}), Code::TooLarge, &words);
}

#[test]
fn the_default_budget_is_128_kib() {
    let test = TestJail::new();
    test.write("a", vec![b'a'; 131_072]);
    assert!(read(&test, json!({"path": "a"})).is_ok());
    test.write("a", vec![b'a'; 131_073]);
    refused(&test, json!({"path": "a"}), Code::TooLarge, &["131073 bytes", "1 line", "131072"]);
}

#[test]
fn a_call_may_raise_or_lower_its_budget_up_to_max_read_bytes() {
    let mut test = TestJail::new();
    test.limits.max_output_bytes = 2;
    test.limits.max_read_bytes = 5;
    test.write("a", "12345");
    refused(&test, json!({"path": "a"}), Code::TooLarge, &["budget of 2"]);
    for budget in [5, 6, u64::MAX] {
        assert_eq!(read(&test, json!({"path": "a", "max_output_bytes": budget})).unwrap()["content"], "12345");
    }
    refused(&test, json!({"path": "a", "max_output_bytes": 4}), Code::TooLarge, &["budget of 4"]);
    // Numbered it is 5 + 4 bytes, and the clamp holds.
    let clamped = json!({"path": "a", "numbered": true, "max_output_bytes": u64::MAX});
    refused(&test, clamped, Code::TooLarge, &["9 bytes", "budget of 5"]);
}

#[test]
fn invalid_bytes_are_replaced_said_and_charged() {
    let mut test = TestJail::new();
    test.write("a", b"a\xffb\n");
    let found = read(&test, json!({"path": "a"})).unwrap();
    assert_eq!((&found["content"], &found["is_utf8"]), (&"a\u{fffd}b\n".into(), &false.into()));
    test.limits.max_output_bytes = 6;
    assert!(read(&test, json!({"path": "a"})).is_ok());
    test.limits.max_output_bytes = 5;
    refused(&test, json!({"path": "a"}), Code::TooLarge, &["returns 6 bytes", "4 bytes and 1 lines"]);
}

#[test]
fn numbers_are_decimal_without_padding_and_charged() {
    let mut test = TestJail::new();
    let content = "x\n".repeat(10);
    test.write("a", &content);
    let expected: String = (1..=10).map(|n| format!("{n}\u{2192}x\n")).collect();
    for request in [json!({"path": "a", "numbered": true}), json!({"path": "a", "format": "numbered"})] {
        let found = read(&test, request).unwrap();
        assert_eq!((&found["content"], &found["total_lines"]), (&expected.as_str().into(), &10.into()));
    }
    test.limits.max_output_bytes = expected.len() as u64;
    assert!(read(&test, json!({"path": "a", "numbered": true})).is_ok());
    test.limits.max_output_bytes -= 1;
    refused(&test, json!({"path": "a", "numbered": true}), Code::TooLarge, &["61 bytes"]);
}

#[test]
fn a_mark_is_kept_in_a_whole_file_and_has_no_number() {
    let mut test = TestJail::new();
    test.write("a", "\u{feff}x\ny");
    assert_eq!(read(&test, json!({"path": "a"})).unwrap()["content"], "\u{feff}x\ny");
    test.limits.max_output_bytes = 11;
    assert_eq!(read(&test, json!({"path": "a", "numbered": true})).unwrap()["content"], "1→x\n2→y");
    test.limits.max_output_bytes = 10;
    refused(&test, json!({"path": "a", "numbered": true}), Code::TooLarge, &["returns 11 bytes"]);
}

#[test]
fn base64_is_exact_and_its_text_is_charged() {
    let mut test = TestJail::new();
    test.write("a", b"\xff\x00\n\xfe");
    let found = read(&test, json!({"path": "a", "encoding": "base64"})).unwrap();
    assert_eq!((&found["content"], &found["encoding"]), (&"/wAK/g==".into(), &"base64".into()));
    assert_eq!((&found["is_utf8"], &found["total_lines"]), (&false.into(), &2.into()));
    assert!(found["etag"].is_string());
    test.limits.max_output_bytes = 8;
    assert!(read(&test, json!({"path": "a", "encoding": "base64"})).is_ok());
    test.limits.max_output_bytes = 7;
    refused(&test, json!({"path": "a", "encoding": "base64"}), Code::TooLarge, &["returns 8 bytes"]);
}

#[test]
fn truncate_gives_whole_lines_and_where_to_go_on() {
    let mut test = TestJail::new();
    test.limits.max_output_bytes = 7;
    test.write("a", "ab\ncd\nef\n");
    let head = read(&test, json!({"path": "a", "truncate": true})).unwrap();
    assert_eq!((&head["content"], &head["lines_returned"]), (&"ab\ncd\n".into(), &2.into()));
    assert_eq!((&head["more_lines"], &head["next_line"]), (&true.into(), &3.into()));
    assert_eq!(head["truncated_reason"], "max_output_bytes");
    assert!(head["hint"].as_str().unwrap().contains("line_from: 3"));
    assert_eq!((&head["total_lines"], head["etag"].is_string()), (&3.into(), true));
    let rest = read(&test, json!({"path": "a", "line_from": head["next_line"]})).unwrap();
    assert_eq!((&rest["content"], &rest["more_lines"]), (&"ef\n".into(), &false.into()));
    let counted = read(&test, json!({"path": "a", "truncate": true, "count_lines": true})).unwrap();
    assert_eq!(counted["total_lines"], 3);
}

#[test]
fn truncate_changes_nothing_about_a_file_that_fits() {
    let test = TestJail::new();
    test.write("a", "\u{feff}ab");
    let found = read(&test, json!({"path": "a", "truncate": true})).unwrap();
    assert_eq!((&found["content"], &found["more_lines"]), (&"\u{feff}ab".into(), &false.into()));
    assert!(found.get("truncated_reason").is_none() && found.get("next_line").is_none());
}

#[test]
fn truncate_counts_replacements_and_numbers() {
    let mut test = TestJail::new();
    test.write("a", b"\xff\n\xff\n");
    test.limits.max_output_bytes = 7;
    assert_eq!(read(&test, json!({"path": "a", "truncate": true})).unwrap()["content"], "\u{fffd}\n");
    test.limits.max_output_bytes = 8;
    let numbered = read(&test, json!({"path": "a", "truncate": true, "numbered": true})).unwrap();
    assert_eq!((&numbered["content"], &numbered["next_line"]), (&"1→\u{fffd}\n".into(), &2.into()));
}

#[test]
fn a_head_within_one_long_line_points_at_bytes() {
    let mut test = TestJail::new();
    test.limits.max_output_bytes = 3;
    test.write("a", "abcdef\n");
    let head = read(&test, json!({"path": "a", "truncate": true})).unwrap();
    assert_eq!((&head["content"], &head["next_line"], &head["next_byte"]), (&"".into(), &1.into(), &0.into()));
    assert!(head["hint"].as_str().unwrap().contains("byte_from: 0"));
    let bytes = read(&test, json!({"path": "a", "truncate": true, "encoding": "base64"})).unwrap();
    assert_eq!((&bytes["content"], &bytes["next_byte"]), (&"".into(), &0.into()));
    test.limits.max_output_bytes = 4;
    let bytes = read(&test, json!({"path": "a", "truncate": true, "encoding": "base64"})).unwrap();
    assert_eq!(
        (&bytes["content"], &bytes["next_byte"], &bytes["more_lines"]),
        (&"YWJj".into(), &3.into(), &true.into())
    );
}

#[test]
fn truncate_also_reads_the_head_of_a_file_above_max_read_bytes() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 5;
    test.limits.max_output_bytes = 4;
    test.write("a", "ab\ncd\nef\n");
    let head = read(&test, json!({"path": "a", "truncate": true})).unwrap();
    assert_eq!((&head["content"], &head["next_line"]), (&"ab\n".into(), &2.into()));
    let full = read(&test, json!({"path": "a", "truncate": true, "etag": true, "count_lines": true})).unwrap();
    assert_eq!((&full["total_lines"], full["etag"].as_str().map(str::len)), (&3.into(), Some(32)));
    assert_eq!((&head["total_lines"], &head["etag"]), (&full["total_lines"], &full["etag"]));
}

#[test]
fn a_probe_tells_without_content() {
    let mut test = TestJail::new();
    test.write("a", b"a\nb\xff");
    let found = read(&test, json!({"path": "a", "stat": true})).unwrap();
    assert!(found.get("content").is_none() && found["etag"].is_string());
    assert_eq!((&found["size"], &found["total_lines"], &found["is_utf8"]), (&4.into(), &2.into(), &false.into()));
    assert_eq!((&found["lines_returned"], &found["more_lines"]), (&0.into(), &false.into()));
    test.limits.max_read_bytes = 4;
    assert_eq!(read(&test, json!({"path": "a", "stat": true})).unwrap()["total_lines"], 2);
    test.limits.max_read_bytes = 3;
    let large = read(&test, json!({"path": "a", "stat": true, "etag": true})).unwrap();
    assert_eq!(large["total_lines"], 2, "a small file is read whole, whatever the limit is");
    assert_eq!((&large["size"], large["etag"].as_str().map(str::len)), (&4.into(), Some(32)));
    let counted = read(&test, json!({"path": "a", "stat": true, "count_lines": true})).unwrap();
    assert_eq!((&counted["total_lines"], &counted["is_utf8"]), (&2.into(), &false.into()));
}

#[test]
fn the_question_is_known_up_front_unless_the_path_is_refused() {
    let test = TestJail::new();
    let questions = |request: Value| ReadFile::questions(&test.jail, &serde_json::from_value(request).unwrap());
    let expected = [Question { root: 0, path: b"a/b".to_vec(), intent: Intent::Read }];
    assert_eq!(questions(json!({"path": "a/./b"})), expected);
    assert_eq!(questions(json!({"path": "b", "base_dir": "a"})), expected);
    for none in [json!({}), json!({"path": "../a"}), json!({"path": ".env"}), json!({"path_bytes": "*"})] {
        assert!(questions(none).is_empty());
    }
}
