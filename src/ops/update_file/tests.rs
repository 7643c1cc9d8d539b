//! Tests an update apart from the text engine: the order of checks, the fields of a result, and which files stay unchanged.

use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use crate::{
    broker::Refusal,
    jail::testing::TestJail,
    wire::{Code, types::UpdateFile},
};

fn append(path: &str) -> Value {
    json!({"path": path, "ops": [{"op": "append", "content": "x\n"}]})
}

fn update(test: &TestJail, request: Value) -> Vec<Value> {
    test.run::<UpdateFile>(request).unwrap()["results"].as_array().unwrap().clone()
}

fn update_one(test: &TestJail, file: Value) -> Value {
    update(test, json!({ "files": [file] })).remove(0)
}

#[track_caller]
fn assert_fails(result: &Value, code: &str, parts: &[&str]) {
    let message = result["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(result["error"]["code"], code, "{result}");
    parts.iter().for_each(|part| assert!(message.contains(part), "{part:?} in {message}"));
    // The six fields that are always there, and nothing was applied.
    assert_eq!(
        (&result["success"], &result["applied"], &result["new_line_count"], &result["echoes_truncated"]),
        (&json!(false), &json!(0), &json!(0), &json!(false))
    );
    assert_eq!((&result["echoes"], &result["changed"]), (&json!([]), &json!(false)));
    assert!(result["path"].is_string() && result.get("etag").is_none());
}

fn etag(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

#[test]
fn a_result_carries_what_the_contract_names() {
    let test = TestJail::writable();
    test.write("a.txt", "one\ntwo\n");
    let result = update_one(
        &test,
        json!({"path": "a.txt", "ops": [
            {"op": "replace", "pattern": "two", "replacement": "2"},
            {"op": "insert", "at_line": 1, "content": "zero"},
        ]}),
    );
    assert_eq!(
        result,
        json!({
            "path": test.path("a.txt").to_str().unwrap(),
            "success": true,
            "applied": 2,
            "new_line_count": 3,
            "echoes": [
                {"op_index": 0, "from_line": 3, "lines": ["2"], "total_replacements": 1},
                {"op_index": 1, "from_line": 1, "lines": ["zero", "one", "2"]},
            ],
            "echoes_truncated": false,
            "changed": true,
            "etag": etag(b"zero\none\n2\n"),
        })
    );
    assert_eq!(std::fs::read(test.path("a.txt")).unwrap(), b"zero\none\n2\n");
}

#[test]
fn the_checks_come_in_the_order_of_the_contract() {
    let mut test = TestJail::writable();
    test.limits.max_write_bytes = 10;
    test.write("large", "12345678901");
    std::fs::create_dir(test.path("folder")).unwrap();
    test.fifo("fifo");
    std::os::unix::fs::symlink("large", test.path("link")).unwrap();
    // Each has everything wrong that comes later, too.
    let nothing = |path: &str| json!({"path": path, "ops": []});
    for (path, code, part) in [
        ("../x", "C215", ".."),
        ("a/\0", "C210", "NUL"),
        (".env", "C211", "not found or not accessible"),
        ("missing", "C211", "not found or not accessible"),
        ("folder", "C210", "not a regular file"),
        ("fifo", "C210", "not a regular file"),
        ("link", "C215", "symbolic link"),
        ("large", "C213", "11 bytes, above max_write_bytes (10)"),
    ] {
        let result = update_one(&test, nothing(path));
        assert_fails(&result, code, &[part, if path.contains('\0') { "" } else { path }]);
        assert_eq!(result["path"], path, "as sent");
    }
    test.write("small", "12345");
    assert_fails(&update_one(&test, nothing("small")), "C210", &["small: ops: empty"]);
    let stale = json!({"path": "small", "if_match": "00", "ops": [{"op": "remove", "from_line": 9, "to_line": 9}]});
    assert_fails(&update_one(&test, stale), "C219", &["if_match"]);
    let wrong = json!({"path": "small", "ops": [{"op": "replace", "pattern": "(", "replacement": ""}, {"op": "remove", "from_line": 9, "to_line": 9}]});
    assert_fails(&update_one(&test, wrong), "C210", &["ops[1]", "1-based"]);
    let grown = json!({"path": "small", "ops": [{"op": "append", "content": "123456"}]});
    assert_fails(&update_one(&test, grown), "C213", &["small", "max_write_bytes (10)", "12 bytes or more"]);
    assert_eq!(std::fs::read(test.path("small")).unwrap(), b"12345");
}

#[test]
fn a_denied_name_is_answered_like_a_missing_one() {
    let test = TestJail::writable();
    test.write("secrets/key", "k");
    let message = |path: &str| update_one(&test, append(path))["error"].to_string().replace(path, "PATH");
    assert_eq!(message("secrets/key"), message("secrets/none"));
    assert_eq!(message("secrets/key"), message("nothing/here"));
    assert_eq!(std::fs::read(test.path("secrets/key")).unwrap(), b"k");
}

#[test]
fn one_bad_entry_fails_alone_and_an_empty_batch_fails_whole() {
    let test = TestJail::writable();
    test.write("a", "");
    test.write("b", "");
    let files = json!([append("a"), 7, {"path": "b"}, {"ops": []}, append("none"), {"path": "b", "ops": [{"op": "add"}]}, append("b")]);
    let results = update(&test, json!({ "files": files }));
    let codes: Vec<&Value> = results.iter().map(|result| &result["error"]["code"]).collect();
    assert_eq!(json!(codes), json!([null, "C210", "C210", "C210", "C211", "C210", null]));
    assert_fails(&results[1], "C210", &["files[1]: expected an object", "got the number 7"]);
    assert_fails(&results[2], "C210", &["files[2].ops: missing"]);
    assert_eq!(results[2]["path"], "b");
    assert_fails(&results[3], "C210", &["path: missing"]);
    assert_fails(&results[5], "C210", &["files[5].ops[0].op", "\"str_replace\"", "got the string \"add\""]);
    assert_eq!(std::fs::read(test.path("b")).unwrap(), b"x\n");
    let error = test.run::<UpdateFile>(json!({"files": []})).unwrap_err();
    assert_eq!(error.code, Code::BadInput);
    assert!(error.message.starts_with("files: empty"), "{error}");
}

#[test]
fn a_batch_has_a_largest_length() {
    let mut test = TestJail::writable();
    test.limits.max_batch_entries = 2;
    let error = test.run::<UpdateFile>(json!({"files": [append("a"), append("a"), append("a")]})).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains("3 entries, at most 2"), "{error}");
}

#[test]
fn the_same_file_twice_is_edited_one_after_the_other() {
    let test = TestJail::writable();
    test.write("a", "");
    let second = json!({"path": "./a", "ops": [{"op": "str_replace", "old": "x\n", "new": "y\n"}]});
    let results = update(&test, json!({"files": [append("a"), second]}));
    assert!(results.iter().all(|result| result["success"] == true), "{results:?}");
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"y\n");
    assert!(test.broker.leased.lock().unwrap().is_empty(), "no lease is held beyond the call");
}

#[test]
fn an_atomic_batch_edits_all_files_or_none() {
    let test = TestJail::writable();
    test.write("a", "1\n");
    test.write("b", "2\n");
    let bad = json!({"path": "b", "ops": [{"op": "remove", "from_line": 7, "to_line": 7}]});
    let results = update(&test, json!({"files": [append("a"), bad, append("b")], "atomic": true}));
    assert_fails(&results[0], "C216", &["rolled back because of entry 1"]);
    assert_fails(&results[1], "C210", &["b: ops[0]"]);
    assert_fails(&results[2], "C216", &["rolled back because of entry 1"]);
    let read = |name: &str| std::fs::read_to_string(test.path(name)).unwrap();
    assert_eq!((read("a"), read("b")), ("1\n".into(), "2\n".into()));
    let results = update(&test, json!({"files": [append("a"), append("b")], "atomic": true}));
    assert!(results.iter().all(|result| result["success"] == true), "{results:?}");
    assert_eq!((read("a"), read("b")), ("1\nx\n".into(), "2\nx\n".into()));
    assert!(test.broker.leased.lock().unwrap().is_empty(), "no lease is held beyond the call");
}

#[test]
fn an_atomic_batch_may_edit_a_file_twice_and_replaces_it_once() {
    let test = TestJail::writable();
    test.write("a", "1\n");
    let second = |if_match: &str| json!({"path": "./a", "if_match": if_match, "ops": [{"op": "str_replace", "old": "x\n", "new": "y\n"}]});
    let nothing = json!({"path": "a", "ops": [{"op": "insert", "at_line": 1, "content": ""}]});
    // It is the file that the entry before has left.
    let files = json!([append("a"), second(&etag(b"1\nx\n")), nothing]);
    let results = update(&test, json!({"files": files, "atomic": true}));
    let etags: Vec<&Value> = results.iter().map(|result| &result["etag"]).collect();
    assert_eq!(json!(etags), json!([etag(b"1\nx\n"), etag(b"1\ny\n"), etag(b"1\ny\n")]), "{results:?}");
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"1\ny\n");
    let results = update(&test, json!({"files": [append("a"), second(&etag(b"1\ny\n"))], "atomic": true}));
    assert_fails(&results[1], "C219", &[]);
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"1\ny\n");
    let results = update(&test, json!({"files": [append("a"), append("a")], "atomic": true, "dry_run": true}));
    assert!(results[1]["diff"].as_str().unwrap().ends_with("\n y\n x\n+x\n"), "{results:?}");
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"1\ny\n");
}

#[test]
fn if_match_admits_only_the_version_it_names() {
    let test = TestJail::writable();
    test.write("a", "1\n");
    let file = |version: &str| json!({"path": "a", "if_match": version, "ops": [{"op": "append", "content": "2\n"}]});
    let result = update_one(&test, file(&etag(b"1\n")));
    assert_eq!(result["etag"], etag(b"1\n2\n"));
    let again = update_one(&test, file(&etag(b"1\n")));
    assert_fails(&again, "C219", &["a: ", "read it again"]);
    assert_eq!(again["error"]["etag"], etag(b"1\n2\n"));
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"1\n2\n");
}

#[test]
fn an_update_that_changes_nothing_writes_nothing() {
    let test = TestJail::writable();
    test.write("a", "1\r\n2");
    let before = std::fs::metadata(test.path("a")).unwrap();
    let result = update_one(&test, json!({"path": "a", "ops": [{"op": "replace", "pattern": "x", "replacement": ""}]}));
    assert_eq!((&result["success"], &result["changed"], &result["applied"]), (&json!(true), &json!(false), &json!(1)));
    assert_eq!(result["etag"], etag(b"1\r\n2"));
    let after = std::fs::metadata(test.path("a")).unwrap();
    assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
}

#[test]
fn a_dry_run_shows_the_diff_and_writes_nothing() {
    let test = TestJail::writable();
    test.write("d/a", "1\n");
    let before = std::fs::metadata(test.path("d/a")).unwrap();
    let results = update(&test, json!({"files": [append("d/a")], "dry_run": true}));
    assert_eq!(results[0]["diff"], "--- a/d/a\n+++ b/d/a\n@@ -1 +1,2 @@\n 1\n+x\n");
    assert_eq!((&results[0]["changed"], &results[0]["new_line_count"]), (&json!(true), &json!(2)));
    assert_eq!(results[0]["etag"], etag(b"1\n"), "the version that is there");
    let after = std::fs::metadata(test.path("d/a")).unwrap();
    assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
    assert_fails(&update(&test, json!({"files": [append("none")], "dry_run": true}))[0], "C211", &[]);
}

#[test]
fn a_diff_comes_with_a_change_if_it_is_asked_for() {
    let test = TestJail::writable();
    test.write("a", "1\n");
    let nothing = json!({"path": "a", "ops": [{"op": "insert", "at_line": 1, "content": ""}]});
    let results = update(&test, json!({"files": [append("a"), nothing], "diff": true}));
    assert_eq!(results[0]["diff"], "--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n 1\n+x\n");
    assert_eq!(results[1]["diff"], "");
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"1\nx\n");
    assert!(update_one(&test, append("a")).get("diff").is_none());
}

#[test]
fn the_diffs_and_the_echoes_of_a_call_are_bounded() {
    let mut test = TestJail::writable();
    test.limits.batch_read_budget_bytes = 1000;
    let line = "y".repeat(600);
    (0..3).for_each(|n| test.write(&format!("f{n}"), format!("{line}\n")));
    let files: Vec<Value> = (0..3)
        .map(
            |n| json!({"path": format!("f{n}"), "ops": [{"op": "replace", "pattern": "y$|y\n", "replacement": "z\n"}]}),
        )
        .collect();
    let results = update(&test, json!({"files": files, "diff": true}));
    assert!(results.iter().all(|result| result["success"] == true));
    // 600 bytes on each side: not even the first diff fits, and two echoes use up their own room.
    assert!(results.iter().all(|result| result["diff"] == "" && result["diff_truncated"] == true), "{results:?}");
    let shown: Vec<(usize, bool)> = results
        .iter()
        .map(|result| (result["echoes"].as_array().unwrap().len(), result["echoes_truncated"] == true))
        .collect();
    assert_eq!(shown, [(1, false), (1, false), (0, true)]);
}

#[test]
fn a_read_only_root_is_said_to_be_one() {
    let test = TestJail::new();
    test.write("a", "1\n");
    for dry_run in [false, true] {
        let results = update(&test, json!({"files": [append("a")], "dry_run": dry_run}));
        assert_fails(&results[0], "C221", &["a: ", "read-only"]);
    }
}

#[test]
fn a_file_that_somebody_else_writes_meanwhile_is_left_alone() {
    let test = TestJail::writable();
    test.write("a", "1\n");
    let path = test.path("a");
    // The second question is asked while the change is being prepared: for the worker's own folder.
    test.interfere(move |message, _| {
        if message == 2 {
            std::fs::write(&path, "theirs\n").unwrap();
        }
        None
    });
    let result = update_one(&test, append("a"));
    assert_fails(&result, "C222", &["a: ", "retry"]);
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"theirs\n");
}

#[test]
fn a_call_whose_time_is_up_fails_whole_unless_it_has_changed_something() {
    let test = TestJail::writable();
    test.write("a", "");
    let error = test.run_in::<UpdateFile>(&mut test.expired_call(), json!({"files": [append("a"), append("a")]}));
    assert_eq!(error.unwrap_err().code, Code::Deadline);
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"");
    // A name that is busy is its entry's own affair.
    test.interfere(|_, question| (question.path == b"busy").then_some(Refusal::Busy));
    let results = update(&test, json!({"files": [append("busy"), append("a")]}));
    assert_fails(&results[0], "C222", &[]);
    assert_eq!(results[1]["success"], true);
}

#[test]
fn unknown_fields_are_refused_and_a_backspace_is_warned_of() {
    let test = TestJail::writable();
    test.write("a", "1\n");
    let mut call = test.call();
    let request = json!({"files": [{"path": "a", "filepath": "b", "ops": [
        {"op": "append", "content": "x\n", "at_line": 1},
        {"op": "replace", "pattern": "\u{8}x", "replacement": "y"},
    ]}], "dryrun": true});
    let error = test.run_in::<UpdateFile>(&mut call, request).unwrap_err();
    assert_eq!(
        error.message.split("; nothing was changed").next().unwrap(),
        "dryrun: unknown field; did you mean dry_run?; files[0].filepath: unknown field; did you mean path?; \
         files[0].ops[0].at_line: unknown field; not a field of this op"
    );
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"1\n");
    let ops = json!([{"op": "replace", "pattern": "\u{8}x", "replacement": "y"}]);
    test.run_in::<UpdateFile>(&mut call, json!({"files": [{"path": "a", "ops": ops}]})).unwrap();
    assert_eq!(
        call.warnings.as_slice(),
        [
            "files[0].ops[0].pattern: holds a backspace (U+0008); a word boundary is \\\\b in JSON",
            "files[0].ops[0].pattern: matches nothing, so this op changed nothing"
        ]
    );
}

#[test]
fn names_that_are_not_utf8_are_edited_by_their_bytes() {
    let test = TestJail::writable();
    std::fs::write(test.raw(b"n\xff"), "1\n").unwrap();
    let result = update_one(&test, json!({"path_bytes": "bv8=", "ops": [{"op": "append", "content": "x\n"}]}));
    assert_eq!(result["success"], true, "{result}");
    assert!(result["path"].as_str().unwrap().ends_with("n\u{fffd}") && result["path_bytes"].is_string());
    assert_eq!(std::fs::read(test.raw(b"n\xff")).unwrap(), b"1\nx\n");
}

#[test]
fn base_dir_anchors_and_bounds_the_names() {
    let test = TestJail::writable();
    test.write("d/a", "");
    test.write("a", "");
    let results = update(&test, json!({"files": [append("a"), append("../a")], "base_dir": "d"}));
    assert_eq!(results[0]["path"], test.path("d/a").to_str().unwrap());
    assert_fails(&results[1], "C218", &["d", "inside an allowed root"]);
    assert_eq!(std::fs::read(test.path("a")).unwrap(), b"");
}

#[test]
fn an_atomic_update_of_two_files_in_one_folder_asks_the_supervisor_at_most_three_times() {
    let test = TestJail::writable();
    test.write("d/a", "1\n");
    test.write("d/b", "2\n");
    // At most one message for the names, one for the leases, and in the first call one for the folder of the service.
    for most in [3, 2] {
        test.broker.messages.lock().unwrap().clear();
        let done = update(&test, json!({"atomic": true, "files": [append("d/a"), append("d/b")]}));
        assert!(done.iter().all(|result| result["success"] == true), "{done:?}");
        let messages = test.broker.messages.lock().unwrap();
        assert!(messages.len() <= most, "{messages:#?}");
    }
}
