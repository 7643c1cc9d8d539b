//! `create`, `rm`, `mkdir` and `restore` against a scripted service.

use serde_json::{Value, json};

use super::super::tests::{CommandRun, run_against};

/// Answers every entry with `result`, but refuses those called `no`.
fn change(line: &[&str], list: &'static str, result: Value) -> CommandRun {
    run_against(line, None, move |_, params| {
        let entries = params[list].as_array().unwrap_or_else(|| panic!("{list} in {params}"));
        let answer = |entry: &Value| match entry["path"] == "no" || *entry == "no" {
            true => {
                json!({"path": "no", "success": false, "error": {"code": "C217", "message": "no already exists"}})
            }
            false => result.clone(),
        };
        Ok(json!({"results": entries.iter().map(answer).collect::<Vec<_>>()}))
    })
}

#[test]
fn a_failed_entry_is_one_line_and_hides_no_other() {
    let ran =
        change(&["mkdir", "a", "no", "b", "no"], "paths", json!({"path": "/r/a", "success": true, "created": true}));
    assert_eq!((ran.code, ran.text()), (1, "made a\nmade b\n"));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines[..2], ["stockade: C217 no already exists"; 2]);
    assert!(lines.len() == 3 && lines[2].starts_with("hint: --force"), "the hint once: {}", ran.err);
}

#[test]
fn json_is_the_reply_and_the_exit_code_says_that_an_entry_failed() {
    let ran =
        change(&["mkdir", "--json", "a", "no"], "paths", json!({"path": "/r/a", "success": true, "created": true}));
    assert_eq!((ran.code, ran.err.as_str(), ran.text().lines().count()), (1, "", 1));
    assert!(ran.text().starts_with("{\"results\":["));
}

#[test]
fn many_names_go_in_several_calls_unless_all_or_none_is_wanted() {
    let names: Vec<String> = (0..250).map(|i| i.to_string()).collect();
    let mut line: Vec<&str> = std::iter::once("mkdir").chain(names.iter().map(String::as_str)).collect();
    let made = json!({"path": "/r/a", "success": true, "created": true});
    let ran = change(&line, "paths", made.clone());
    let expected: String = names.iter().map(|name| format!("made {name}\n")).collect();
    assert_eq!((ran.calls.len(), ran.text()), (3, expected.as_str()));
    line.push("--atomic");
    let ran = change(&line, "paths", made);
    assert_eq!((ran.calls.len(), &ran.calls[0].1["atomic"]), (1, &json!(true)));
}

#[test]
fn warnings_of_the_service_are_told() {
    let ran = run_against(&["rm", "a"], None, |_, _| {
        Ok(json!({"warnings": ["odd\u{1b}"], "results": [{"path": "/r/a", "success": true, "removed": true}]}))
    });
    assert_eq!((ran.text(), ran.err.as_str()), ("removed a\n", "stockade: odd\\u001b\n"));
}

#[test]
fn created_bytes_are_text_where_they_can_be() {
    let wrote = json!({"path": "/r/a", "success": true, "bytes_written": 3});
    let line = ["create", "a", "--content", "- x", "--force", "--no-parents", "--mode", "0755", "--if-match", "0f"];
    let ran = change(&line, "files", wrote.clone());
    assert_eq!(ran.text(), "wrote a, 3 bytes\n");
    let entry =
        json!({"path": "a", "content": "- x", "overwrite": true, "parents": false, "mode": "0755", "if_match": "0f"});
    assert_eq!(ran.calls[0].1, json!({ "files": [entry] }));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bytes");
    std::fs::write(&file, b"a\xff\n").unwrap();
    let ran = change(&["create", "a", "--from", file.to_str().unwrap()], "files", wrote);
    assert_eq!(ran.calls[0].1, json!({"files": [{"path": "a", "content": "Yf8K", "encoding": "base64"}]}));
}

#[test]
fn several_copies_of_much_content_do_not_share_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("much");
    std::fs::write(&file, "x".repeat(9 << 20)).unwrap();
    let wrote = json!({"path": "/r/a", "success": true, "bytes_written": 3});
    let ran = change(&["create", "a", "b", "--from", file.to_str().unwrap()], "files", wrote);
    assert_eq!((ran.code, ran.calls.len()), (0, 2));
}

#[test]
fn removal_says_what_was_there_and_where_it_is() {
    let ran = change(&["rm", "a"], "paths", json!({"path": "/r/a", "success": true, "removed": false}));
    assert_eq!((ran.code, ran.text()), (0, "a was not there\n"));
    assert_eq!(ran.calls[0].1, json!({"paths": [{"path": "a"}]}), "the policy decides about the trash");
    let trashed = json!({"path": "/r/a", "success": true, "removed": true, "trash_id": "7-0"});
    let ran = change(&["rm", "-r", "--trash", "a"], "paths", trashed);
    assert_eq!(ran.text(), "removed a, restore it with 7-0\n");
    assert_eq!(ran.calls[0].1, json!({"paths": [{"path": "a"}], "recursive": true, "trash": true}));
    let ran = change(&["rm", "--no-trash", "a"], "paths", json!({"path": "/r/a", "success": true, "removed": true}));
    assert_eq!(ran.calls[0].1["trash"], false);
}

fn trash(line: &[&str], entries: Value) -> CommandRun {
    run_against(line, None, move |method, params| match method {
        "coder::info" => Ok(json!({"primary_root": "/r"})),
        _ if params["list"] == true => Ok(json!({ "entries": entries })),
        _ => Ok(
            json!({"results": [{"id": "7-0", "path": "/r/caf\u{fffd}", "path_bytes": "L3IvY2Fm6Q==", "success": true}]}),
        ),
    })
}

#[test]
fn the_trash_is_a_table_of_what_can_come_back() {
    let entries = json!([
        {"id": "10-0", "path": "/r/src\u{7}", "kind": "dir", "size": 1536, "deleted_at": 951_782_400},
        {"id": "7-0", "path": "/elsewhere/a", "kind": "file", "size": 8, "deleted_at": 951_782_399},
    ]);
    let ran = trash(&["restore", "--below", "x", "--base-dir", "d"], entries);
    let expected = "10-0  2000-02-29 00:00  d  1.5K  src\\u0007/\n7-0   2000-02-28 23:59  -     8  /elsewhere/a\n";
    assert_eq!((ran.code, ran.text()), (0, expected));
    assert_eq!(ran.calls[0].1, json!({"list": true, "path": "x", "base_dir": "d"}));
    let ran = trash(&["restore"], json!([]));
    assert_eq!((ran.code, ran.text(), ran.err.as_str()), (0, "", "stockade: the trash is empty\n"));
}

#[test]
fn what_comes_back_is_named_as_people_name_it() {
    let ran = trash(&["restore", "7-0", "--force"], json!([]));
    assert_eq!((ran.code, ran.text()), (0, "restored caf\\xe9\n"));
    assert_eq!(ran.calls.last().unwrap().1, json!({"ids": ["7-0"], "overwrite": true}));
}
