use std::os::unix::{
    ffi::OsStrExt,
    fs::{MetadataExt, symlink},
    net::UnixListener,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    jail::testing::{TestJail, TestJailOptions},
    path::Hardlinks,
    wire::{Code, Limits},
};

fn stat(test: &TestJail, request: Value) -> Vec<Value> {
    let reply = test.run::<Stat>(request).unwrap();
    reply["results"].as_array().unwrap().clone()
}

fn one(test: &TestJail, path: &str) -> Value {
    stat(test, json!({ "paths": [path] })).remove(0)
}

#[test]
fn a_file_is_described_as_the_kernel_describes_it() {
    let test = TestJail::new();
    test.write("d/a.txt", "one\ntwo\n");
    test.set_mode("d/a.txt", 0o640);
    let kernel = std::fs::metadata(test.path("d/a.txt")).unwrap();
    assert_eq!(
        one(&test, "d/a.txt"),
        json!({
            "path": test.path("d/a.txt").to_str().unwrap(), "success": true, "kind": "file", "size": 8,
            "mode": 0o640, "mtime": kernel.mtime(), "mtime_ns": kernel.mtime_nsec(), "nlink": 1,
        })
    );
}

#[test]
fn every_kind_is_told_and_no_link_is_followed() {
    let test = TestJail::new();
    test.write("file", "x");
    std::fs::hard_link(test.path("file"), test.path("twin")).unwrap();
    symlink("file", test.path("link")).unwrap();
    symlink("/nowhere/at all", test.path("dangling")).unwrap();
    test.fifo("pipe");
    let _socket = UnixListener::bind(test.path("socket")).unwrap();
    let results = stat(&test, json!({"paths": [".", "file", "link", "dangling", "pipe", "socket"], "etag": true}));
    let kinds: Vec<_> = results.iter().map(|result| result["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["dir", "file", "symlink", "symlink", "other", "other"]);
    let targets: Vec<_> = results.iter().map(|result| result["link_target"].as_str()).collect();
    assert_eq!(targets, [None, None, Some("file"), Some("/nowhere/at all"), None, None]);
    assert_eq!((&results[1]["nlink"], &results[2]["size"]), (&2.into(), &4.into()), "a link is as long as its text");
    let versions: Vec<_> = results.iter().map(|result| result.get("etag").is_some()).collect();
    assert_eq!(versions, [false, true, false, false, false, false], "only files have a version");
}

#[test]
fn content_is_read_only_on_request() {
    let test = TestJail::new();
    test.write("a", "abc");
    test.write("b", b"x\n\xff\ny");
    test.write("empty", "");
    let results = stat(&test, json!({"paths": ["a", "b", "empty"], "etag": true, "lines": true}));
    let facts: Vec<_> =
        results.iter().map(|r| (r["total_lines"].as_u64().unwrap(), r["is_utf8"].as_bool().unwrap())).collect();
    assert_eq!(facts, [(1, true), (3, false), (0, true)]);
    // Published values of BLAKE3 for "abc" and for nothing.
    assert_eq!(results[0]["etag"], "6437b3ac38465133ffb63b75273a8db5");
    assert_eq!(results[2]["etag"], "af1349b9f5f9a1a6a0404dea36dcc949");
    let only = |field: &str| {
        let mut request = json!({"paths": ["a"]});
        request[field] = true.into();
        stat(&test, request).remove(0)
    };
    assert!(only("etag")["etag"].is_string() && only("etag").get("total_lines").is_none());
    assert!(only("lines")["total_lines"].is_u64() && only("lines").get("etag").is_none());
}

#[test]
fn results_keep_the_order_and_one_bad_entry_fails_alone() {
    let test = TestJail::new();
    test.write("a", "");
    test.write("d/file", "");
    symlink("d", test.path("to")).unwrap();
    let paths = json!([
        "a", "missing", ".env", 7, {"path": "a"}, {}, {"path": "a", "path_bytes": "YQ=="}, "../x", "a\0b",
        "d/file/below", "to/file", "missing/deep", "secrets/x", "a",
    ]);
    let results = stat(&test, json!({ "paths": paths }));
    let codes: Vec<_> = results.iter().map(|result| result["error"]["code"].as_str().unwrap_or("ok")).collect();
    let expected =
        ["ok", "C211", "C211", "C210", "ok", "C210", "C210", "C215", "C210", "C216", "C215", "C211", "C211", "ok"];
    assert_eq!(codes, expected);
    for result in &results {
        assert_eq!(result["success"], result.get("error").is_none());
        assert_eq!(result.get("kind").is_some(), result["success"] == true, "{result}");
    }
    assert_eq!((&results[1]["path"], &results[7]["path"]), (&"missing".into(), &"../x".into()), "as sent");
    assert!(results[3]["error"]["message"].as_str().unwrap().contains("{\"path\": \"src/main.rs\"}"));
    assert!(results[5]["error"]["message"].as_str().unwrap().contains("paths[5].path: missing"));
}

#[test]
fn a_denied_name_and_a_missing_one_answer_alike() {
    let test = TestJail::new();
    test.write("secrets/key", "");
    test.write(".stockade/1/journal", "");
    let text = |path: &str| {
        let error = one(&test, path)["error"].clone();
        assert_eq!(error["code"], "C211", "{path}");
        error["message"].as_str().unwrap().replace(path, "P")
    };
    let missing = text("nothing");
    assert!(missing.contains("not found or not accessible"));
    for denied in ["secrets/key", "secrets/none", ".env", ".stockade", ".stockade/1/journal"] {
        assert_eq!(text(denied), missing);
    }
}

#[test]
fn names_and_targets_that_are_not_utf8_survive() {
    let test = TestJail::new();
    std::fs::write(test.raw(b"f\xfe"), "").unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"f\xfe"), test.path("link")).unwrap();
    let results = stat(&test, json!({"paths": [{"path_bytes": "Zv4="}, "link"]}));
    assert_eq!((&results[0]["kind"], results[0]["path_bytes"].is_string()), (&"file".into(), true));
    assert_eq!((&results[1]["link_target"], &results[1]["link_target_bytes"]), (&"f\u{fffd}".into(), &"Zv4=".into()));
}

#[test]
fn batches_are_bounded_and_paths_are_required() {
    let mut test = TestJail::new();
    test.limits = Limits { max_batch_entries: 2, ..Limits::default() };
    let error = test.run::<Stat>(json!({"paths": ["a", "b", "c"]})).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains("3 entries, at most 2"), "{error}");
    for request in [json!({}), json!({"paths": null}), json!({"paths": "a"})] {
        let error = test.run::<Stat>(request).unwrap_err();
        assert_eq!(error.code, Code::BadInput);
        assert!(error.message.contains("paths"), "{error}");
    }
}

#[test]
fn base_dir_is_where_relative_paths_begin() {
    let test = TestJail::new();
    test.write("sub/x", "1");
    let results = stat(&test, json!({"paths": ["x", test.path("x")], "base_dir": "sub"}));
    assert_eq!((&results[0]["size"], &results[1]["error"]["code"]), (&1.into(), &"C218".into()));
}

#[test]
fn looking_needs_no_right_to_read_and_reading_does() {
    let test = TestJail::new();
    test.write("a", "x");
    test.set_mode("a", 0o000);
    test.obey_permissions();
    assert_eq!(one(&test, "a")["success"], true);
    let result = stat(&test, json!({"paths": ["a"], "lines": true})).remove(0);
    assert_eq!((&result["error"]["code"], result.get("kind")), (&"C216".into(), None));
}

#[test]
fn content_of_files_with_several_names_follows_the_rule_of_the_root() {
    let test = TestJail::with(TestJailOptions { hardlinks: Hardlinks::Refuse, ..TestJailOptions::default() });
    test.write("a", "x");
    std::fs::hard_link(test.path("a"), test.path("b")).unwrap();
    assert_eq!(one(&test, "a")["nlink"], 2);
    let result = stat(&test, json!({"paths": ["a"], "etag": true})).remove(0);
    assert_eq!(result["error"]["code"], "C215");
}

#[test]
fn unknown_fields_are_named() {
    let test = TestJail::new();
    let mut call = test.call();
    test.run_in::<Stat>(&mut call, json!({"paths": [{"path": ".", "etga": true}], "line": 1})).unwrap();
    let warnings = call.warnings.as_slice().join("\n");
    assert!(warnings.contains("paths[0].etga") && warnings.contains("did you mean lines?"), "{warnings}");
}

#[test]
fn a_passed_deadline_fails_the_call_and_not_an_entry() {
    let test = TestJail::new();
    test.write("a", "x");
    let error = test.run_in::<Stat>(&mut test.expired_call(), json!({"paths": ["a"], "etag": true})).unwrap_err();
    assert_eq!(error.code, Code::Deadline);
}

#[test]
fn names_are_asked_about_together_and_reading_makes_a_call_long() {
    let test = TestJail::new();
    let request = |value: Value| serde_json::from_value::<StatRequest>(value).unwrap();
    let two = request(json!({"paths": ["a", "secrets/x", {"path": "d/b"}]}));
    let questions = Stat::questions(&test.jail, &two);
    assert_eq!(questions.iter().map(|q| q.path.as_slice()).collect::<Vec<_>>(), [&b"a"[..], b"d/b"]);
    stat(&test, json!({"paths": (0..40).map(|i| format!("f{i}")).collect::<Vec<_>>()}));
    assert_eq!(test.broker.messages.lock().unwrap().len(), 2, "32 and 8");
    assert_eq!(Stat::cost(&two), Cost::Short);
    assert_eq!(Stat::cost(&request(json!({"paths": ["a"], "etag": true}))), Cost::Long);
    assert_eq!(Stat::cost(&request(json!({"paths": ["a"], "lines": true}))), Cost::Long);
}
