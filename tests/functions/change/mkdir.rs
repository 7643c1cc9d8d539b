//! `coder::mkdir`.

use std::fs;

use super::*;

fn mkdir(jail: &TestJail, params: Value) -> Value {
    one(jail.call(MKDIR, params))
}

#[test]
fn folders_are_made_with_those_above_them() {
    let jail = jail();
    let result = mkdir(&jail, json!({"paths": ["a/b/c"]}));
    assert_success(&result);
    assert_eq!((&result["created"], mode(&jail, "a/b/c")), (&json!(true), 0o755));
    assert_eq!(result["path"], json!(jail.root.join("a/b/c").to_str().unwrap()));
}

#[test]
fn an_existing_folder_is_success_and_an_existing_file_is_not() {
    let jail = jail();
    fs::create_dir(jail.root.join("d")).unwrap();
    jail.write("f", "x");
    let result = mkdir(&jail, json!({"paths": ["d"]}));
    assert_success(&result);
    assert_eq!(result["created"], json!(false));
    assert_eq!(mkdir(&jail, json!({"paths": ["."]}))["created"], json!(false));
    assert!(assert_refused(&mkdir(&jail, json!({"paths": ["f"]})), "C217").contains("f already exists"));
}

#[test]
fn without_parents_a_missing_folder_above_is_missing() {
    let jail = jail();
    changes_nothing(&jail, || assert_refused(&mkdir(&jail, json!({"paths": ["a/b"], "parents": false})), "C211"));
    assert_success(&mkdir(&jail, json!({"paths": ["a"], "parents": false})));
}

#[test]
fn the_mode_is_exact_and_checked_first() {
    let jail = jail();
    assert_success(&mkdir(&jail, json!({"paths": ["x/y"], "mode": "0777"})));
    assert_eq!((mode(&jail, "x"), mode(&jail, "x/y")), (0o755, 0o777));
    for wrong in ["1777", "rwx", ""] {
        let failure = jail.call(MKDIR, json!({"paths": ["z"], "mode": wrong})).expect_err("refused");
        assert_eq!(failure.code(), "C210");
    }
    assert!(!jail.root.join("z").exists());
}

#[test]
fn entries_may_be_objects_and_fail_alone() {
    let jail = jail();
    let results =
        results(jail.call(MKDIR, json!({"paths": [{"path": "a"}, 7, ".env", {"path_bytes": "Yg=="}, "../x"]})));
    let codes: Vec<_> = results.iter().map(|result| result["error"]["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes, ["ok", "C210", "C211", "ok", "C215"]);
    assert_eq!(everything(&jail.root).keys().collect::<Vec<_>>(), ["a", "b"]);
}
