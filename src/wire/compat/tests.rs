use serde_json::json;

use super::*;

fn older(function: &str) -> Wire02Function {
    WireVersion::V02.wire_02_function(function).unwrap()
}

#[test]
fn only_its_own_functions_differ_and_only_in_that_mode() {
    for function in ["coder::info", "coder::stat", "coder::move", "coder::unknown"] {
        assert!(WireVersion::V02.wire_02_function(function).is_none(), "{function}");
    }
    assert!(WireVersion::Current.wire_02_function("coder::tree").is_none());
}

#[test]
fn a_reading_request_loses_fields_of_later_lines_but_never_base_dir() {
    let mut params = json!({"path": "a", "line_from": 2, "base_dir": "/srv/d"});
    let mut warnings = Warnings::default();
    older("coder::read-file").adapt_request(&mut params, &mut warnings).unwrap();
    assert_eq!(params, json!({"path": "a", "base_dir": "/srv/d", "max_output_bytes": u64::MAX}));
    assert_eq!(warnings.as_slice(), ["line_from: unknown to wire 0.2, ignored"]);
}

#[test]
fn a_changing_request_keeps_guards_and_is_refused_with_any_other_field() {
    let guarded = json!({"files": [{"path": "a", "if_match": "x", "ops": [
        {"op": "replace", "pattern": "a", "replacement": "b"},
        7,
    ]}, "odd"], "base_dir": "d", "atomic": true, "dry_run": true});
    let mut params = guarded.clone();
    let mut warnings = Warnings::default();
    older("coder::update-file").adapt_request(&mut params, &mut warnings).unwrap();
    assert_eq!((params, warnings.as_slice()), (guarded.clone(), &[][..]));
    for (place, field, said) in [
        ("", "dryRun", "dryRun: unknown to wire 0.2; did you mean dry_run?"),
        ("/files/0", "ifMatch", "files[0].ifMatch: unknown to wire 0.2; did you mean if_match?"),
        ("/files/0/ops/0", "expect_matches", "files[0].ops[0].expect_matches: unknown to wire 0.2;"),
    ] {
        let mut params = guarded.clone();
        params.pointer_mut(place).unwrap()[field] = json!(1);
        let error = older("coder::update-file").adapt_request(&mut params, &mut warnings).unwrap_err();
        assert!(error.code == crate::wire::Code::BadInput && error.message.starts_with(said), "{error}");
    }
}

#[test]
fn what_was_the_default_then_is_said_now() {
    let mut warnings = Warnings::default();
    let mut params = json!({"path": "a"});
    older("coder::read-file").adapt_request(&mut params, &mut warnings).unwrap();
    assert_eq!(params["max_output_bytes"], u64::MAX);
    let mut params = json!({});
    older("coder::tree").adapt_request(&mut params, &mut warnings).unwrap();
    assert_eq!(params, json!({"use_default_excludes": false}));
    let mut params = json!(7);
    older("coder::tree").adapt_request(&mut params, &mut warnings).unwrap();
    assert_eq!(params, json!(7), "what is no request stays for whoever refuses it");
}

#[test]
fn errors_of_entries_become_text_and_paths_are_repeated() {
    let function = older("coder::create-file");
    let echo = function.adapt_request(&mut json!({"files": [{"path": "./a"}, {}]}), &mut Warnings::default()).unwrap();
    let error = json!({"code": "C211", "message": "a \"b\""});
    let result = json!({"results": [{"path": "a", "success": true}, {"path": "", "error": error}], "warnings": ["w"]});
    let adapted = function.adapt_response(echo, result);
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
    let echo = function.adapt_request(&mut json!({}), &mut Warnings::default()).unwrap();
    let root = function.adapt_response(echo, tree("."))["root"].clone();
    assert_eq!(root["path"], ".");
    assert_eq!(root["children"][0], json!({"name": "a", "non_accessible": true, "path": "a"}));
    assert_eq!(root["children"][1]["children"][0], json!({"name": "c", "non_accessible": false, "path": "b/c"}));
    let echo = function.adapt_request(&mut json!({"path": "src/"}), &mut Warnings::default()).unwrap();
    let adapted = function.adapt_response(echo, tree("src"));
    assert_eq!((&adapted["path"], &adapted["root"]["path"]), (&json!("src/"), &json!("src")));
    assert_eq!(adapted["root"]["children"][0]["path"], "src/a");
}

#[test]
fn paths_of_results_are_relative_to_base_dir_as_those_of_requests_are() {
    let echo = |function: &str| {
        let echo = older(function).adapt_request(&mut json!({}), &mut Warnings::default()).unwrap();
        echo.with_base_folder("src/deep".into())
    };
    let tree = json!({"path": "src/deep", "root": {"name": "deep", "children": [{"name": "a"}]}});
    let adapted = older("coder::tree").adapt_response(echo("coder::tree"), tree);
    assert_eq!((&adapted["path"], &adapted["root"]["path"]), (&json!("."), &json!(".")));
    assert_eq!(adapted["root"]["children"][0]["path"], "a");
    let found = json!({"content_matches": [{"path": "src/deep/a"}], "path_matches": [{"path": "src/deep/b/c"}]});
    let adapted = older("coder::search").adapt_response(echo("coder::search"), found);
    assert_eq!(adapted, json!({"content_matches": [{"path": "a"}], "path_matches": [{"path": "b/c"}]}));
}
