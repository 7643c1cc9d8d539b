use serde_json::{Value, json};

use super::*;
use crate::{jail::testing::TestJail, wire::Code};

fn results(test: &TestJail, paths: Value) -> Vec<Value> {
    let mut found = test.run::<ReadFile>(json!({"paths": paths})).unwrap();
    assert_eq!(found.as_object().unwrap().keys().collect::<Vec<_>>(), ["results"], "only results");
    serde_json::from_value(found["results"].take()).unwrap()
}

#[test]
fn results_come_in_request_order_each_alone() {
    let test = TestJail::new();
    test.write("a", "1\n2\n3\n");
    test.write("b", "x");
    test.write(".env", "secret");
    let found = results(
        &test,
        json!(["b", "missing", {"path": "a", "line_from": 2, "line_to": 2, "numbered": true}, ".env", "../x", "b"]),
    );
    let codes: Vec<_> = found.iter().map(|result| result["error"]["code"].as_str()).collect();
    assert_eq!(codes, [None, Some("C211"), None, Some("C211"), Some("C215"), None]);
    assert_eq!((&found[0]["content"], &found[2]["content"]), (&"x".into(), &"2→2\n".into()));
    assert_eq!(found[0]["path"], test.path("b").to_str().unwrap());
    let sent: Vec<_> = found.iter().filter(|r| r["success"] == false).map(|r| r["path"].as_str().unwrap()).collect();
    assert_eq!(sent, ["missing", ".env", "../x"], "as sent in every failure");
    assert!(found[0].get("error").is_none());
    assert!(found[1].get("content").is_none() && found[1].get("size").is_none());
}

#[test]
fn nothing_asked_is_nothing_answered() {
    assert!(results(&TestJail::new(), json!([])).is_empty());
}

#[test]
fn a_malformed_entry_fails_alone_and_names_its_place() {
    let test = TestJail::new();
    test.write("a", "x");
    let found = results(
        &test,
        json!([
            5,
            {"path": "a", "line_from": "one"},
            {"line_from": 1},
            {"path": "a", "path_bytes": "YQ=="},
            {"path": "a", "format": "hashline"},
            null,
            "a",
        ]),
    );
    for (index, result) in found[..6].iter().enumerate() {
        assert_eq!((&result["success"], &result["error"]["code"]), (&false.into(), &"C210".into()), "{index}");
    }
    for (index, word) in [(0, "paths[0]"), (1, "paths[1].line_from"), (2, "paths[2]"), (3, "not both"), (4, "format")] {
        let text = found[index]["error"]["message"].as_str().unwrap();
        assert!(text.contains(word), "{text}");
    }
    assert_eq!((&found[1]["path"], &found[0]["path"]), (&"a".into(), &"".into()));
    assert_eq!(found[6]["content"], "x");
}

#[test]
fn entries_are_checked_like_single_reads() {
    let test = TestJail::new();
    std::fs::create_dir(test.path("d")).unwrap();
    let found = results(
        &test,
        json!([
            {"path": "missing", "line_from": 0},
            {"path": "missing", "stat": true, "numbered": true},
            {"path": "missing", "tail": 1, "byte_to": 1},
            "d",
        ]),
    );
    for (result, word) in found.iter().zip(["1-based", "numbered", "tail", "not a regular file"]) {
        assert_eq!(result["error"]["code"], "C210");
        assert!(result["error"]["message"].as_str().unwrap().contains(word), "{result}");
    }
}

#[test]
fn options_beside_paths_are_ignored_and_said_so() {
    let test = TestJail::new();
    test.write("a", "1\n2\n");
    let mut call = test.call();
    let request = json!({"paths": ["a"], "line_from": 0, "stat": true, "max_output_bytes": 1});
    let found = test.run_in::<ReadFile>(&mut call, request).unwrap();
    assert_eq!(found["results"][0]["content"], "1\n2\n");
    let warnings = call.warnings.as_slice();
    for field in ["line_from", "stat", "max_output_bytes"] {
        assert!(warnings.iter().any(|warning| warning.starts_with(&format!("{field}: ignored"))), "{warnings:?}");
    }
}

#[test]
fn unknown_fields_of_an_entry_are_warned_about() {
    let test = TestJail::new();
    test.write("a", "x");
    let mut call = test.call();
    let found = test.run_in::<ReadFile>(&mut call, json!({"paths": [{"path": "a", "lines_from": 1}]})).unwrap();
    assert_eq!(found["results"][0]["content"], "x");
    let warnings = call.warnings.as_slice();
    assert!(warnings.iter().any(|warning| warning.contains("paths[0].lines_from")), "{warnings:?}");
}

#[test]
fn the_shared_budget_is_exact_and_cut_entries_succeed() {
    let mut test = TestJail::new();
    test.limits.batch_read_budget_bytes = 10;
    test.write("a", "12\n45\n");
    test.write("b", "ab\nde\n");
    let found = results(&test, json!(["a", "b", {"path": "a", "stat": true}, "missing", "b", "a"]));
    assert_eq!(found[0]["content"], "12\n45\n");
    assert_eq!((&found[1]["content"], &found[1]["success"]), (&"ab\n".into(), &true.into()));
    assert_eq!((&found[1]["more_lines"], &found[1]["next_line"]), (&true.into(), &2.into()));
    assert_eq!(found[1]["truncated_reason"], "batch_read_budget_bytes");
    assert_eq!((&found[1]["total_lines"], found[1]["etag"].is_string()), (&2.into(), true));
    assert_eq!((&found[2]["total_lines"], &found[2]["success"]), (&2.into(), &true.into()), "probes are free");
    assert_eq!(found[3]["error"]["code"], "C211", "failures cost nothing");
    // One byte is left: not used up, and no line fits.
    assert_eq!((&found[4]["content"], &found[4]["more_lines"]), (&"".into(), &true.into()));
}

#[test]
fn a_used_up_budget_is_an_error_that_teaches() {
    let mut test = TestJail::new();
    test.limits.batch_read_budget_bytes = 3;
    test.write("a", "12\n");
    let found = results(&test, json!(["a", "a", "missing", {"path": "a", "stat": true}]));
    let error = &found[1]["error"];
    assert_eq!(error["code"], "C213");
    for word in ["a: ", "batch_read_budget_bytes is 3", "returned 3 bytes", "stat: true"] {
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    assert_eq!(found[2]["error"]["code"], "C211", "the budget is asked last");
    assert_eq!(found[3]["success"], true);
}

#[test]
fn a_budget_of_zero_leaves_only_probes() {
    let mut test = TestJail::new();
    test.limits.batch_read_budget_bytes = 0;
    test.write("a", "");
    let found = results(&test, json!(["a", {"path": "a", "stat": true}]));
    assert_eq!((&found[0]["error"]["code"], &found[1]["success"]), (&"C213".into(), &true.into()));
}

#[test]
fn the_budget_counts_text_with_numbers_and_replacements() {
    let mut test = TestJail::new();
    test.write("a", b"\xff\n");
    for (budget, lines) in [(8, 1), (7, 0)] {
        test.limits.batch_read_budget_bytes = budget;
        let found = results(&test, json!([{"path": "a", "numbered": true}]));
        assert_eq!(found[0]["lines_returned"], lines, "{budget}");
    }
    for (budget, lines) in [(4, 1), (3, 0)] {
        test.limits.batch_read_budget_bytes = budget;
        assert_eq!(results(&test, json!(["a"]))[0]["lines_returned"], lines, "{budget}");
        let tail = results(&test, json!([{"path": "a", "tail": 1}]));
        assert_eq!(tail[0]["lines_returned"], lines, "{budget}");
    }
}

#[test]
fn base64_in_a_batch_is_cut_anywhere_and_charged_as_text() {
    let mut test = TestJail::new();
    test.limits.batch_read_budget_bytes = 11;
    test.write("a", "abcdefghi");
    let found = results(&test, json!([{"path": "a", "encoding": "base64"}, "a"]));
    assert_eq!((&found[0]["content"], &found[0]["next_byte"]), (&"YWJjZGVm".into(), &6.into()));
    assert_eq!(found[1]["more_lines"], true, "three bytes of budget are left");
    test.limits.batch_read_budget_bytes = 12;
    let whole = results(&test, json!([{"path": "a", "encoding": "base64"}]));
    assert_eq!((&whole[0]["content"], &whole[0]["more_lines"]), (&"YWJjZGVmZ2hp".into(), &false.into()));
    assert!(whole[0]["etag"].is_string());
}

#[test]
fn a_file_above_max_read_bytes_is_cut_and_no_error() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 4;
    test.limits.max_output_bytes = 1;
    test.write("a", "12\n45\n");
    let found = results(&test, json!(["a"]));
    assert_eq!((&found[0]["content"], &found[0]["truncated_reason"]), (&"12\n".into(), &"max_read_bytes".into()));
    let versioned = results(&test, json!([{"path": "a", "etag": true}]));
    assert_eq!(versioned[0]["etag"].as_str().map(str::len), Some(32));
}

#[test]
fn a_whole_file_of_a_batch_carries_its_version() {
    let test = TestJail::new();
    test.write("a", "abc");
    test.write("b", "\u{feff}x\n");
    let found = results(&test, json!(["a", "b", {"path": "a", "line_from": 1}]));
    assert_eq!((&found[0]["etag"], &found[0]["total_lines"]), (&"6437b3ac38465133ffb63b75273a8db5".into(), &1.into()));
    assert_eq!(found[1]["content"], "x\n", "an entry is a window from line 1, which begins after the mark");
    assert_eq!(found[2]["etag"], found[0]["etag"]);
}

#[test]
fn too_many_entries_are_refused_as_a_whole() {
    let test = TestJail::new();
    let paths = |count| json!({"paths": vec!["a"; count]});
    assert!(test.run::<ReadFile>(paths(1000)).is_ok());
    let error = test.run::<ReadFile>(paths(1001)).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains("1001") && error.message.contains("1000"), "{error}");
}

#[test]
fn a_bad_base_dir_fails_each_entry_and_not_the_call() {
    let test = TestJail::new();
    let found = test.run::<ReadFile>(json!({"paths": ["a", "b"], "base_dir": "/nowhere"})).unwrap();
    for result in found["results"].as_array().unwrap() {
        assert_eq!(result["error"]["code"], "C215");
    }
}

#[test]
fn entries_are_resolved_in_messages_of_32() {
    let test = TestJail::new();
    test.write("a", "x");
    assert_eq!(results(&test, json!(vec!["a"; 70])).len(), 70);
    let messages = test.broker.messages.lock().unwrap();
    assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 6]);
}

#[test]
fn the_first_message_is_known_up_front() {
    let test = TestJail::new();
    test.write("a", "x");
    let request = json!({"paths": ["a", ".env", 7, {"path": "a", "line_from": 1}, {"path_bytes": "YQ=="}]});
    let questions = ReadFile::questions(&test.jail, &serde_json::from_value(request.clone()).unwrap());
    assert_eq!(questions.len(), 3);
    let mut call = test.call();
    let answers = crate::broker::AskSupervisor::ask(&*test.broker, call.caller(), &questions);
    for (question, answer) in questions.into_iter().zip(answers) {
        call.add_answer(question, answer);
    }
    let found = test.run_in::<ReadFile>(&mut call, request).unwrap();
    assert_eq!(found["results"].as_array().unwrap().iter().filter(|result| result["success"] == true).count(), 3);
    assert_eq!(test.broker.messages.lock().unwrap().len(), 1, "nothing was asked twice");
}

#[test]
fn names_that_are_not_utf8_work_and_are_shown() {
    let test = TestJail::new();
    std::fs::write(test.raw(b"n\xff"), "y").unwrap();
    let found = results(&test, json!([{"path_bytes": "bv8="}, {"path_bytes": "bf8="}]));
    assert_eq!(found[0]["content"], "y");
    assert_eq!((&found[1]["path"], &found[1]["path_bytes"]), (&"m\u{fffd}".into(), &"bf8=".into()));
}

#[test]
fn a_passed_deadline_ends_the_batch_as_a_call() {
    let test = TestJail::new();
    test.write("a", "x");
    let error = test.run_in::<ReadFile>(&mut test.expired_call(), json!({"paths": ["a"]})).unwrap_err();
    assert_eq!(error.code, Code::Deadline);
}
