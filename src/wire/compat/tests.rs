use serde_json::json;

use super::*;

fn older(function: &str) -> Older {
    Wire::V02.older(function).unwrap()
}

#[test]
fn only_its_own_functions_differ_and_only_in_that_mode() {
    for function in ["coder::info", "coder::stat", "coder::move", "coder::unknown"] {
        assert!(Wire::V02.older(function).is_none(), "{function}");
    }
    assert!(Wire::Current.older("coder::tree").is_none());
}

#[test]
fn fields_of_later_lines_are_taken_out_with_a_warning() {
    let mut params = json!({"files": [{"path": "a", "if_match": "x", "ops": [
        {"op": "replace", "pattern": "a", "replacement": "b", "expect_matches": 1},
        7,
    ]}, "odd"], "base_dir": "d"});
    let mut warnings = Warnings::default();
    older("coder::update-file").request(&mut params, &mut warnings);
    let rest = json!({"files": [{"path": "a", "ops": [{"op": "replace", "pattern": "a", "replacement": "b"}, 7]}, "odd"]});
    assert_eq!(params, rest);
    assert_eq!(
        warnings.as_slice(),
        [
            "base_dir: unknown to wire 0.2, ignored",
            "files[0].if_match: unknown to wire 0.2, ignored",
            "files[0].ops[0].expect_matches: unknown to wire 0.2, ignored",
        ]
    );
}

#[test]
fn what_was_the_default_then_is_said_now() {
    let mut warnings = Warnings::default();
    let mut params = json!({"path": "a"});
    older("coder::read-file").request(&mut params, &mut warnings);
    assert_eq!(params["max_output_bytes"], u64::MAX);
    let mut params = json!({});
    older("coder::tree").request(&mut params, &mut warnings);
    assert_eq!(params, json!({"use_default_excludes": false}));
    let mut params = json!(7);
    older("coder::tree").request(&mut params, &mut warnings);
    assert_eq!(params, json!(7), "what is no request stays for whoever refuses it");
}

#[test]
fn errors_of_entries_become_text_and_paths_are_repeated() {
    let function = older("coder::create-file");
    let echo = function.request(&mut json!({"files": [{"path": "./a"}, {}]}), &mut Warnings::default());
    let error = json!({"code": "C211", "message": "a \"b\""});
    let result =
        json!({"results": [{"path": "a", "success": true}, {"path": "", "error": error}], "warnings": ["w"]});
    let adapted = function.response(echo, result);
    assert_eq!(adapted["results"][0], json!({"path": "./a", "success": true}));
    let text = adapted["results"][1]["error"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), error);
}

#[test]
fn nodes_of_a_tree_say_where_they_are() {
    let function = older("coder::tree");
    let tree = |path: &str| {
        json!({"path": path, "root": {"name": "x", "children": [
            {"name": "a", "non_accessible": true},
            {"name": "b", "children": [{"name": "c"}]},
        ]}})
    };
    let echo = function.request(&mut json!({}), &mut Warnings::default());
    let root = function.response(echo, tree("."))["root"].clone();
    assert_eq!(root["path"], ".");
    assert_eq!(root["children"][0], json!({"name": "a", "non_accessible": true, "path": "a"}));
    assert_eq!(
        root["children"][1]["children"][0],
        json!({"name": "c", "non_accessible": false, "path": "b/c"})
    );
    let echo = function.request(&mut json!({"path": "src/"}), &mut Warnings::default());
    let adapted = function.response(echo, tree("src"));
    assert_eq!((&adapted["path"], &adapted["root"]["path"]), (&json!("src/"), &json!("src")));
    assert_eq!(adapted["root"]["children"][0]["path"], "src/a");
}
