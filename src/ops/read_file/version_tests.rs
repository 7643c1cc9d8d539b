//! Every read reports a version: which one, and that it is never newer than the content.

use std::{thread::sleep, time::Duration};

use serde_json::{Value, json};

use super::*;
use crate::{jail::testing::TestJail, text::Etag, wire::types::UpdateFile};

/// Longer than a file counts as just changed.
const SETTLING: Duration = Duration::from_millis(2100);

fn read(test: &TestJail, more: Value) -> Value {
    let mut request = json!({"path": "a"});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    test.run::<ReadFile>(request).unwrap()
}

fn parts() -> [Value; 6] {
    [
        json!({"line_from": 2, "line_to": 3}),
        json!({"tail": 2}),
        json!({"byte_from": 1, "byte_to": 9}),
        json!({"byte_from": 1, "byte_to": 9, "encoding": "base64"}),
        json!({"line_from": 10_000_000}),
        json!({"stat": true}),
    ]
}

#[test]
fn every_read_of_a_small_file_reports_hash_and_lines() {
    let test = TestJail::new();
    let content = "line\n".repeat(200_000);
    test.write("a", &content);
    for part in parts().into_iter().chain([json!({"truncate": true}), json!({"encoding": "base64", "tail": 1})]) {
        let found = read(&test, part.clone());
        assert_eq!(
            (&found["etag"], &found["total_lines"]),
            (&Etag::of(content.as_bytes()).into(), &200_000.into()),
            "{part}"
        );
    }
    test.write("b", "x\n");
    let paths = json!(["b", {"path": "a", "line_to": 1}, {"path": "a", "stat": true}, "a"]);
    let batch = test.run::<ReadFile>(json!({ "paths": paths })).unwrap();
    for entry in batch["results"].as_array().unwrap() {
        assert!(entry["etag"].is_string() && entry["total_lines"].is_u64(), "{entry}");
    }
}

#[test]
fn parts_of_a_large_file_report_its_stat_version_once_it_is_settled() {
    let test = TestJail::writable();
    let content = "line\n".repeat(300_000);
    test.write("a", &content);
    let hash = Value::from(Etag::of(content.as_bytes()));
    // It was written just now, so that another write could leave the same times.
    assert_eq!(read(&test, json!({"line_to": 1}))["etag"], hash);
    sleep(SETTLING);
    let version = read(&test, json!({"line_to": 1}))["etag"].clone();
    assert!(version.as_str().unwrap().starts_with("stat:"), "{version}");
    for part in parts() {
        let found = read(&test, part.clone());
        // These read the whole file anyway.
        let is_whole = part.get("stat").is_some();
        assert_eq!(&found["etag"], if is_whole { &hash } else { &version }, "{part}");
        assert_eq!(read(&test, json!({"line_to": 1, "etag": true}))["etag"], hash);
    }
    // A change of any kind gives another version, also if the content stays.
    let edit = |version: &Value| {
        let ops = json!([{"op": "str_replace", "old": "line\n", "new": "line\n", "expect_matches": 300_000}]);
        let file = json!({"path": "a", "if_match": version, "ops": ops});
        test.run::<UpdateFile>(json!({ "files": [file] })).unwrap()
    };
    let reply = edit(&version);
    assert_eq!(reply["results"][0]["success"], true, "{reply}");
    std::fs::write(test.path("a"), &content).unwrap();
    let reply = edit(&version);
    let error = &reply["results"][0]["error"];
    assert_eq!((&error["code"], &error["etag"]), (&"C219".into(), &hash), "{reply}");
}

#[test]
fn a_file_above_every_limit_that_has_just_been_changed_has_no_version_unless_asked() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 1 << 20;
    let content = "line\n".repeat(300_000);
    test.write("a", &content);
    for part in parts() {
        let found = read(&test, part.clone());
        assert!(found.get("etag").is_none(), "{part}: {found}");
    }
    assert_eq!(read(&test, json!({"tail": 1, "etag": true}))["etag"], Etag::of(content.as_bytes()));
}

#[test]
fn a_window_behind_the_end_names_the_end() {
    let test = TestJail::new();
    test.write("a", "1\n2\n");
    test.write("empty", "");
    let beyond = read(&test, json!({"line_from": 3, "line_to": 9}));
    assert_eq!((&beyond["lines_returned"], &beyond["total_lines"]), (&0.into(), &2.into()));
    assert_eq!(beyond["hint"], "line_from 3 is behind the end of the file: its last line is 2");
    let bytes = read(&test, json!({"byte_from": 4}));
    assert_eq!(bytes["hint"], "byte_from 4 is behind the end of the file: it has 4 bytes");
    assert!(read(&test, json!({"line_from": 2})).get("hint").is_none());
    let empty = test.run::<ReadFile>(json!({"path": "empty", "line_from": 1})).unwrap();
    assert_eq!(empty["hint"], "the file has no lines");
    assert!(test.run::<ReadFile>(json!({"path": "empty"})).unwrap().get("hint").is_none());
}
