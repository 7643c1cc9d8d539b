//! Which bytes are edited as text: UTF-16 in its own encoding, binary files only on request. And what a strict request refuses.

use serde_json::{Value, json};

use super::*;
use crate::jail::testing::TestJail;

fn encode(text: &str, is_big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

fn update(test: &TestJail, file: Value, more: Value) -> (Value, Vec<String>) {
    let mut request = json!({ "files": [file] });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut call = test.call();
    let reply = test.run_in::<UpdateFile>(&mut call, request).unwrap();
    (reply["results"][0].clone(), call.warnings.as_slice().to_vec())
}

#[test]
fn utf16_is_edited_in_its_own_encoding() {
    let test = TestJail::writable();
    for is_big in [false, true] {
        test.write("a", encode("one\r\n𝄞 two\nਊ end", is_big));
        let ops = json!([
            {"op": "str_replace", "old": "two", "new": "zwei\nü"},
            {"op": "replace", "pattern": "(?m)e$", "replacement": "E"},
            {"op": "insert", "at_line": 1, "content": "top"},
        ]);
        let (done, _) = update(&test, json!({"path": "a", "ops": ops}), json!({"diff": true}));
        assert_eq!((&done["success"], &done["new_line_count"]), (&true.into(), &5.into()), "{done}");
        let expected = encode("top\r\nonE\r\n𝄞 zwei\nü\nਊ end", is_big);
        assert_eq!(std::fs::read(test.path("a")).unwrap(), expected);
        assert_eq!(done["etag"], crate::text::Etag::of(&expected));
        assert!(done["diff"].as_str().unwrap().contains("+𝄞 zwei\n"), "{done}");
    }
}

#[test]
fn units_that_are_no_characters_survive_an_edit() {
    let test = TestJail::writable();
    let mut bytes = encode("a\n", false);
    bytes.extend_from_slice(b"\x3d\xd8b\0\0\xdc");
    test.write("a", &bytes);
    let (done, _) = update(&test, json!({"path": "a", "ops": [{"op": "prepend", "content": "x"}]}), json!({}));
    assert_eq!(done["success"], true, "{done}");
    let expected = [&encode("x\n", false), &bytes[2..]].concat();
    assert_eq!(std::fs::read(test.path("a")).unwrap(), expected);
    let bytes_left = json!({"op": "replace", "pattern": "(?-u:\\xed)", "replacement": "y"});
    let (refused, _) = update(&test, json!({"path": "a", "ops": [bytes_left]}), json!({}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("UTF-16 cannot hold"), "{refused}");
    test.write("a", b"\xff\xfea\0b");
    let (torn, _) = update(&test, json!({"path": "a", "ops": [{"op": "append", "content": "x"}]}), json!({}));
    assert!(torn["error"]["message"].as_str().unwrap().contains("half a character"), "{torn}");
}

#[test]
fn the_size_of_a_utf16_file_is_that_of_its_bytes() {
    let mut test = TestJail::writable();
    test.limits.max_write_bytes = 20;
    // 9 characters of 2 bytes each, in UTF-8 27 bytes.
    test.write("a", encode(&"→".repeat(9), false));
    let replace = |new: &str| json!({"path": "a", "ops": [{"op": "replace", "pattern": "→$", "replacement": new}]});
    assert_eq!(update(&test, replace("x"), json!({})).0["success"], true);
    let (large, _) = update(&test, replace("xx"), json!({"strict": true}));
    assert_eq!(large["error"]["code"], "C210", "nothing ends with an arrow now: {large}");
    let append = json!({"path": "a", "ops": [{"op": "append", "content": "y"}]});
    let (large, _) = update(&test, append, json!({}));
    assert!(large["error"]["message"].as_str().unwrap().contains("24 bytes or more"), "{large}");
}

#[test]
fn a_binary_file_is_edited_only_on_request() {
    let test = TestJail::writable();
    test.write("a", b"one\0two\n");
    let ops = json!([{"op": "str_replace", "old": "two", "new": "2"}]);
    let (refused, _) = update(&test, json!({"path": "a", "ops": ops}), json!({}));
    assert_eq!(refused["error"]["code"], "C210");
    assert!(
        refused["error"]["message"].as_str().unwrap().starts_with("a: is a binary file (byte 3 is NUL)"),
        "{refused}"
    );
    assert_eq!(update(&test, json!({"path": "a", "binary": true, "ops": ops}), json!({})).0["success"], true);
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"one\x002\n");
    // With `binary`, UTF-16 is not decoded either.
    test.write("a", encode("a", false));
    let (done, _) =
        update(&test, json!({"path": "a", "binary": true, "ops": [{"op": "append", "content": "b\n"}]}), json!({}));
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"\xff\xfea\0\nb\n");
}

#[test]
fn pasted_line_numbers_in_new_text_are_warned_about_refused_or_left_out() {
    let test = TestJail::writable();
    let ops = json!([
        {"op": "append", "content": "fine\n"},
        {"op": "update_lines", "from_line": 1, "to_line": 1, "content": "1→x\n2→y\n"},
    ]);
    let with = |more: Value| {
        test.write("a", "a\n");
        let mut file = json!({"path": "a", "ops": ops});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file
    };
    let (done, warnings) = update(&test, with(json!({})), json!({}));
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(std::fs::read_to_string(test.path("a")).unwrap(), "1→x\n2→y\nfine\n");
    assert!(warnings[0].starts_with("files[0].ops[1].content: every line begins with a line number"), "{warnings:?}");
    let (refused, _) = update(&test, with(json!({})), json!({"strict": true}));
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("a: ops[1].content: every line begins with"), "{message}");
    assert_eq!(std::fs::read_to_string(test.path("a")).unwrap(), "a\n");
    let (done, warnings) = update(&test, with(json!({"strip_read_prefixes": true})), json!({"strict": true}));
    assert_eq!((&done["success"], warnings.len()), (&true.into(), 1), "{done}");
    assert_eq!(std::fs::read_to_string(test.path("a")).unwrap(), "x\ny\nfine\n");
    let (done, warnings) = update(&test, with(json!({"verbatim": true})), json!({"strict": true}));
    assert_eq!((&done["success"], warnings.len()), (&true.into(), 0), "{done}");
    let both = json!({"verbatim": true, "strip_read_prefixes": true});
    assert_eq!(update(&test, with(both), json!({})).0["error"]["code"], "C210");
}

#[test]
fn a_regular_expression_that_matches_nothing_is_refused_if_the_request_is_strict() {
    let test = TestJail::writable();
    test.write("a", "a\n");
    let file = json!({"path": "a", "ops": [{"op": "replace", "pattern": "q", "replacement": ""}]});
    let (done, warnings) = update(&test, file.clone(), json!({}));
    assert_eq!((&done["success"], &done["changed"]), (&true.into(), &false.into()));
    assert_eq!(warnings, ["files[0].ops[0].pattern: matches nothing, so this op changed nothing"]);
    let (refused, _) = update(&test, file, json!({"strict": true}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("expected at least 1"), "{refused}");
}

#[test]
fn a_text_that_is_missing_is_answered_with_the_nearest_lines() {
    let test = TestJail::writable();
    test.write("a", "begin\n\tgo(1);\nend\n");
    let ops = json!([{"op": "str_replace", "old": "  go(1);\nend", "new": ""}]);
    let (refused, _) = update(&test, json!({"path": "a", "ops": ops}), json!({}));
    assert_eq!(refused["error"]["nearest"], json!({"from_line": 2, "lines": ["\tgo(1);", "end"]}), "{refused}");
    let ops = json!([{"op": "str_replace", "old": "  go(1);\nend", "new": "\tstop();", "whitespace": "ignore"}]);
    let (done, warnings) = update(&test, json!({"path": "a", "ops": ops}), json!({}));
    assert_eq!(done["success"], true, "{done}");
    assert!(warnings[0].starts_with("files[0].ops[0].old: found at lines 2 to 3"), "{warnings:?}");
    assert_eq!(std::fs::read_to_string(test.path("a")).unwrap(), "begin\n\tstop();\n");
}
