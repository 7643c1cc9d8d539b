//! `wire_compat = "0.2"`: a client of that line is served unchanged. Its published schemas are the oracle: every success
//! and every error of an entry has to fit them.
#![allow(clippy::unwrap_used, reason = "the files are the tests' own; what cannot be made or read is a failed test")]

use crate::support;

mod schema;

use std::{fs, os::unix::fs::symlink, path::Path};

use support::{Client, Options, TestJail, Value, json};

const POLICY: &str = "wire_compat = \"0.2\"\n[[root]]\npath = \"ROOT\"\n[limits]\nmax_output_bytes = 100\n";
const SCHEMAS: &str = include_str!("coder-0.2.schemas.json");

fn jail() -> TestJail {
    TestJail::with_tree(Options { policy: Some(POLICY.into()), ..Options::default() }, plant)
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("src/deep/er")).unwrap();
    fs::create_dir_all(root.join("node_modules/m")).unwrap();
    fs::write(root.join("a.txt"), "one\ntwo\n").unwrap();
    fs::write(root.join("large.txt"), "a line of text\n".repeat(100)).unwrap();
    fs::write(root.join("latin.txt"), b"caf\xe9\n").unwrap();
    fs::write(root.join("src/main.rs"), "fn main() {}\n").unwrap();
    fs::write(root.join("src/deep/er/x"), "").unwrap();
    fs::write(root.join("node_modules/m/i.js"), "").unwrap();
    fs::write(root.join(".env"), "TOKEN=1\n").unwrap();
    (0..60).for_each(|n| fs::write(root.join("src/deep").join(n.to_string()), "").unwrap());
    symlink("a.txt", root.join("link")).unwrap();
}

fn published(function: &str, schema: &str) -> Value {
    let all: Value = serde_json::from_str(SCHEMAS).unwrap();
    let functions = all["functions"].as_array().unwrap();
    functions.iter().find(|known| known["name"] == function).expect("the line knows it")[schema].clone()
}

/// A call as that line makes it; its result fits the line's schema.
#[track_caller]
fn call(client: &mut Client, function: &str, params: Value) -> Value {
    if let Err(why) = schema::check(&published(function, "request_schema"), &params) {
        panic!("not a request of that line: {why}");
    }
    let result = client.call(function, params.clone()).unwrap_or_else(|error| panic!("{params}: {error:?}"));
    if let Err(why) = schema::check(&published(function, "response_schema"), &result) {
        panic!("{function} {params}: {why}");
    }
    result
}

#[track_caller]
fn assert_error(entry: &Value, code: &str) {
    let text = entry["error"].as_str().unwrap_or_else(|| panic!("the error is a text: {entry}"));
    let error: Value = serde_json::from_str(text).expect("that holds JSON");
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].is_string() && entry["success"] == false, "{entry}");
}

#[test]
fn read_file_repeats_the_path_and_reads_up_to_max_read_bytes() {
    let jail = jail();
    let mut client = jail.connect();
    let read = call(&mut client, "coder::read-file", json!({"path": "./src/../a.txt"}));
    assert_eq!((&read["path"], &read["content"]), (&json!("./src/../a.txt"), &json!("one\ntwo\n")));
    let read = call(&mut client, "coder::read-file", json!({"path": "large.txt"}));
    assert_eq!(read["content"].as_str().unwrap().len(), 1500, "above max_output_bytes, which that line did not have");
    let read = call(&mut client, "coder::read-file", json!({"path": "latin.txt"}));
    assert_eq!((&read["content"], &read["is_utf8"]), (&json!("caf\u{fffd}\n"), &json!(false)));
}

#[test]
fn absolute_paths_are_refused() {
    let jail = jail();
    let mut client = jail.connect();
    let absolute = jail.root.join("a.txt").to_str().unwrap().to_owned();
    for (function, params) in [
        ("coder::read-file", json!({"path": absolute})),
        ("coder::list-folder", json!({"path": jail.root.to_str().unwrap()})),
        ("coder::tree", json!({"path": "/"})),
    ] {
        let error = client.call(function, params).unwrap_err();
        assert_eq!(error.code(), "C210", "{function}");
        assert!(error.message().contains("relative paths only"), "{error:?}");
    }
    let files = json!({"files": [{"path": absolute, "ops": [{"op": "remove", "from_line": 1, "to_line": 1}]}]});
    let result = call(&mut client, "coder::update-file", files);
    assert_error(&result["results"][0], "C210");
    assert_eq!(result["results"][0]["path"], absolute);
}

#[test]
fn list_folder_repeats_the_path() {
    let jail = jail();
    let mut client = jail.connect();
    assert_eq!(call(&mut client, "coder::list-folder", json!({}))["path"], ".");
    let page = call(&mut client, "coder::list-folder", json!({"path": "src/deep/", "page": 2, "page_size": 50}));
    assert_eq!((&page["path"], &page["page"], &page["has_more"]), (&json!("src/deep/"), &json!(2), &json!(false)));
}

#[test]
fn tree_nodes_carry_their_path_and_nothing_is_left_out_by_default() {
    let jail = jail();
    let mut client = jail.connect();
    let tree = call(&mut client, "coder::tree", json!({"path": ".", "max_depth": 3, "per_folder_limit": 100}));
    let mut found = Vec::new();
    let mut open = vec![&tree["root"]];
    while let Some(node) = open.pop() {
        assert!(node["non_accessible"].is_boolean(), "always there: {node}");
        let path = node["path"].as_str().unwrap();
        assert!(jail.root.join(path).symlink_metadata().is_ok(), "{path} is relative to the root");
        found.push(path.to_owned());
        open.extend(node["children"].as_array().into_iter().flatten());
    }
    for path in [".", "a.txt", "src/main.rs", "src/deep/er", "node_modules/m/i.js", ".env"] {
        assert!(found.iter().any(|found| found == path), "{path} in {found:?}");
    }
    let tree = call(&mut client, "coder::tree", json!({"path": "src", "max_depth": 1}));
    assert_eq!(tree["root"]["path"], "src");
    assert_eq!(tree["root"]["children"][0]["path"], "src/deep");
    assert!(tree["root"]["children"][0]["truncated"]["hint"].is_string());
}

#[test]
fn update_results_carry_the_bodies_and_errors_are_text() {
    let jail = jail();
    let mut client = jail.connect();
    let request = json!({"files": [
        {"path": "./a.txt", "ops": [{"op": "insert", "at_line": 2, "content": "x"}]},
        {"path": "latin.txt", "ops": [{"op": "replace", "pattern": "caf", "replacement": "th"}]},
        {"path": "missing", "ops": [{"op": "remove", "from_line": 1, "to_line": 1}]},
        {"path": ".env", "ops": [{"op": "remove", "from_line": 1, "to_line": 1}]},
        {"path": "../out", "ops": [{"op": "remove", "from_line": 1, "to_line": 1}]},
        {"path": "link", "ops": [{"op": "remove", "from_line": 1, "to_line": 1}]},
        {"path": "src/main.rs", "ops": [{"op": "update_lines", "from_line": 9, "to_line": 9, "content": ""}]},
        {"path": "src/main.rs", "ops": []},
    ]});
    let result = call(&mut client, "coder::update-file", request);
    let results = result["results"].as_array().unwrap();
    assert_eq!((&results[0]["before"], &results[0]["after"]), (&json!("one\ntwo\n"), &json!("one\nx\ntwo\n")));
    assert_eq!(results[0]["path"], "./a.txt", "the argument");
    assert_eq!((&results[1]["before"], &results[1]["after"]), (&json!("caf\u{fffd}\n"), &json!("th\u{fffd}\n")));
    assert_eq!(fs::read(jail.root.join("latin.txt")).unwrap(), b"th\xe9\n", "shown as text, kept as bytes");
    for (entry, code) in results[2..].iter().zip(["C211", "C211", "C215", "C215", "C210", "C210"]) {
        assert_error(entry, code);
        assert!(entry.get("before").is_none() && entry.get("after").is_none());
    }
}

#[test]
fn create_and_delete_answer_in_that_form() {
    let jail = jail();
    let mut client = jail.connect();
    let files = json!([
        {"path": "./new/n.txt", "content": "x", "mode": "0600"},
        {"path": "a.txt", "content": "x"},
        {"path": ".env", "content": "x"},
        {"path": "../out", "content": "x"},
        {"path": "n", "content": "x", "mode": "9"},
    ]);
    let result = call(&mut client, "coder::create-file", json!({"files": files}));
    let results = result["results"].as_array().unwrap();
    assert_eq!((&results[0]["path"], &results[0]["bytes_written"]), (&json!("./new/n.txt"), &json!(1)));
    results[1..].iter().zip(["C217", "C211", "C215", "C210"]).for_each(|(entry, code)| assert_error(entry, code));
    let paths = json!(["./new/n.txt", "missing", "src", ".env", jail.root.to_str().unwrap()]);
    let result = call(&mut client, "coder::delete-file", json!({"paths": paths}));
    let results = result["results"].as_array().unwrap();
    assert_eq!((&results[0]["path"], &results[0]["removed"]), (&json!("./new/n.txt"), &json!(true)));
    assert_eq!((&results[1]["success"], &results[1]["removed"]), (&json!(true), &json!(false)));
    results[2..].iter().zip(["C216", "C211", "C210"]).for_each(|(entry, code)| assert_error(entry, code));
}

#[test]
fn search_answers_in_that_form() {
    let jail = jail();
    fs::write(jail.root.join("node_modules/m/i.js"), "two\n").unwrap();
    let mut client = jail.connect();
    let found = call(&mut client, "coder::search", json!({"query": "two"}));
    let matches: Vec<_> = found["content_matches"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(matches, ["a.txt", "node_modules/m/i.js"], "relative, and nothing is left out by default: {found}");
    assert_eq!((&found["path_matches"], &found["truncated"]), (&json!([]), &json!(false)));
    let params = json!({"query": "MAIN|^er", "regex": true, "ignore_case": true, "path": "src",
        "include_globs": ["src/**"], "exclude_globs": ["**/9"], "max_line_bytes": 4, "max_matches": null,
        "search_content": true, "search_paths": true});
    let found = call(&mut client, "coder::search", params);
    assert_eq!(found["path_matches"], json!([{"path": "src/main.rs"}]));
    assert_eq!(found["content_matches"][0]["line"], 1);
    let found = call(&mut client, "coder::search", json!({"query": "deep/", "max_matches": 3}));
    assert_eq!((found["path_matches"].as_array().unwrap().len(), &found["truncated"]), (3, &json!(true)));
    let found = call(&mut client, "coder::search", json!({"query": "TOKEN"}));
    assert_eq!(found["content_matches"], json!([]), "denied names are not searched");
}

/// The list is the line's own: a function that is missing here is one whose replies nobody has looked at.
#[test]
fn every_function_of_that_line_is_looked_at() {
    let all: Value = serde_json::from_str(SCHEMAS).unwrap();
    let source = include_str!("mod.rs");
    for function in all["functions"].as_array().unwrap() {
        let name = function["name"].as_str().unwrap();
        assert!(source.contains(&format!("call(&mut client, \"{name}\"")), "{name} is not called");
    }
}

#[test]
fn bodies_above_max_read_bytes_are_left_out() {
    let policy = POLICY.to_owned() + "max_read_bytes = 1000\n";
    let jail = TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, plant);
    let mut client = jail.connect();
    let ops = json!([{"op": "remove", "from_line": 1, "to_line": 90}]);
    let result = call(&mut client, "coder::update-file", json!({"files": [{"path": "large.txt", "ops": ops}]}));
    assert!(result["results"][0].get("before").is_none(), "1,500 bytes");
    assert_eq!(result["results"][0]["after"].as_str().unwrap().len(), 150);
}

#[test]
fn fields_of_later_lines_are_ignored_with_a_warning() {
    let jail = jail();
    let mut client = jail.connect();
    let read = client
        .call("coder::read-file", json!({"path": "a.txt", "line_from": 2, "stat": true, "paths": ["x"]}))
        .unwrap();
    assert_eq!(read["content"], "one\ntwo\n");
    let warnings: Vec<&str> = read["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.contains(&"line_from: unknown to wire 0.2, ignored"), "{warnings:?}");
}

/// A bridge puts `base_dir` into every call to confine its client to one folder, as an absolute path.
#[test]
fn base_dir_narrows_every_function_of_that_line() {
    let jail = jail();
    let mut client = jail.connect();
    for base in ["src".to_owned(), jail.root.join("src").display().to_string()] {
        let list = client.call("coder::list-folder", json!({"base_dir": base})).unwrap();
        let names: Vec<&str> =
            list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!((&list["path"], names), (&json!("."), vec!["deep", "main.rs"]));
        assert!(list.get("warnings").is_none(), "{list}");
        let read = client.call("coder::read-file", json!({"path": "main.rs", "base_dir": base})).unwrap();
        assert_eq!((&read["path"], &read["content"]), (&json!("main.rs"), &json!("fn main() {}\n")));
        let tree = client.call("coder::tree", json!({"base_dir": base, "max_depth": 2})).unwrap();
        let children = tree["root"]["children"].as_array().unwrap();
        let paths: Vec<&str> = children.iter().map(|child| child["path"].as_str().unwrap()).collect();
        assert_eq!((&tree["root"]["path"], paths), (&json!("."), vec!["deep", "main.rs"]));
        let found = client.call("coder::search", json!({"query": "main", "base_dir": base})).unwrap();
        assert_eq!(found["content_matches"][0]["path"], "main.rs", "{found}");
        assert_eq!(found["path_matches"][0]["path"], "main.rs", "{found}");
        for (function, params) in [
            ("coder::read-file", json!({"path": "../a.txt"})),
            ("coder::list-folder", json!({"path": ".."})),
            ("coder::tree", json!({"path": ".."})),
            ("coder::search", json!({"path": "..", "query": "one"})),
        ] {
            let mut params = params;
            params["base_dir"] = json!(base);
            assert_eq!(client.call(function, params.clone()).unwrap_err().code(), "C218", "{function} {params}");
        }
        let made = client
            .call("coder::create-file", json!({"files": [{"path": "../out.txt", "content": ""}], "base_dir": base}))
            .unwrap();
        assert_error(&made["results"][0], "C218");
        let gone = client.call("coder::delete-file", json!({"paths": ["../a.txt"], "base_dir": base})).unwrap();
        assert_error(&gone["results"][0], "C218");
        assert!(jail.root.join("a.txt").exists() && !jail.root.join("out.txt").exists());
    }
}

#[test]
fn a_changing_call_keeps_its_guards_and_refuses_what_it_does_not_know() {
    let jail = jail();
    let mut client = jail.connect();
    let stale = json!({"paths": [{"path": "a.txt", "if_match": "0".repeat(32)}]});
    let refused = client.call("coder::delete-file", stale).unwrap();
    assert_error(&refused["results"][0], "C219");
    let ops = json!([{"op": "append", "content": "x"}]);
    let edit = json!({"files": [{"path": "a.txt", "ops": ops}], "dry_run": true});
    assert_eq!(client.call("coder::update-file", edit).unwrap()["results"][0]["success"], true);
    let batch = json!({"files": [{"path": "n", "content": ""}, {"path": "a.txt", "content": ""}], "atomic": true});
    let refused = client.call("coder::create-file", batch).unwrap();
    assert_error(&refused["results"][1], "C217");
    for (function, params, said) in [
        ("coder::delete-file", json!({"paths": ["a.txt"], "dryRun": true}), "did you mean dry_run?"),
        ("coder::delete-file", json!({"paths": ["a.txt"], "if_match": "x"}), "in each entry of paths"),
        ("coder::create-file", json!({"files": [{"path": "n", "content": "", "modee": "0600"}]}), "did you mean mode?"),
        (
            "coder::update-file",
            json!({"files": [{"path": "a.txt", "ops": [
            {"op": "replace", "pattern": "one", "replacement": "1", "expect_matches": 2}]}]}),
            "expect_matches",
        ),
    ] {
        let failure = client.call(function, params.clone()).unwrap_err();
        assert_eq!(failure.code(), "C210", "{params}");
        assert!(failure.message().contains(said), "{}", failure.message());
    }
    assert_eq!(fs::read_to_string(jail.root.join("a.txt")).unwrap(), "one\ntwo\n");
    assert!(!jail.root.join("n").exists());
}

#[test]
fn the_current_wire_is_another() {
    let jail = TestJail::with_tree(Options::default(), plant);
    let mut client = jail.connect();
    let tree = client.call("coder::tree", json!({})).unwrap();
    assert!(schema::check(&published("coder::tree", "response_schema"), &tree).is_err(), "or the check proves nothing");
    let ops = json!([{"op": "remove", "from_line": 1, "to_line": 1}]);
    let update = client.call("coder::update-file", json!({"files": [{"path": "missing", "ops": ops}]})).unwrap();
    assert!(schema::check(&published("coder::update-file", "response_schema"), &update).is_err());
}
