use serde_json::json;

use super::{super::backend::ServiceRoot, *};

fn host_root(path: &str) -> HostRoot {
    HostRoot { uri: format!("file://{path}"), path: Some(path.to_owned()) }
}

fn scope(roots: &[&str], host: &[&str]) -> Result<HostScope, ScopeRefusal> {
    let info = ServiceInfo {
        primary_root: roots[0].into(),
        roots: roots.iter().map(|path| ServiceRoot { path: (*path).into() }).collect(),
        functions: Vec::new(),
    };
    HostScope::new(&info, Some(&host.iter().map(|path| host_root(path)).collect::<Vec<_>>()))
}

fn narrowed(roots: &[&str], host: &[&str]) -> Vec<String> {
    scope(roots, host).unwrap().narrowed_roots
}

/// The `base_dir` that a request leaves with.
fn base(scope: &HostScope, request: Value) -> Result<Option<String>, ScopeRefusal> {
    let request = serde_json::from_str(&request.to_string()).unwrap();
    let confined = scope.confine("coder::read-file", request)?;
    let sent: Value = serde_json::from_str(confined.params()).unwrap();
    Ok(sent.get("base_dir").map(|base| base.as_str().unwrap().to_owned()))
}

#[test]
fn roots_of_the_host_never_widen() {
    assert!(narrowed(&["/srv/a"], &["/"]).is_empty());
    assert!(narrowed(&["/srv/a"], &["/srv"]).is_empty());
    assert_eq!(narrowed(&["/srv/a", "/srv/b"], &["/srv/b"]), ["/srv/b"]);
    assert_eq!(narrowed(&["/srv/a", "/srv/b"], &["/srv/a/x", "/etc"]), ["/srv/a/x"]);
}

#[test]
fn a_sibling_whose_name_begins_alike_is_another_folder() {
    assert_eq!(scope(&["/srv/a"], &["/srv/ab"]).unwrap_err().code, "C218");
    assert_eq!(narrowed(&["/srv/a", "/srv/ab"], &["/srv/ab"]), ["/srv/ab"]);
}

#[test]
fn roots_that_have_nothing_in_common_are_both_named() {
    let refused = scope(&["/srv/a", "/srv/b"], &["/home/me", "/etc"]).unwrap_err();
    assert_eq!(refused.code, "C218");
    for part in ["/srv/a, /srv/b", "/home/me, /etc", "--ignore-host-roots"] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    let many: Vec<String> = (0..100).map(|n| format!("/x{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = scope(&["/srv/a"], &many).unwrap_err();
    assert!(refused.message.contains("/x7 and 92 more") && !refused.message.contains("/x8"));
}

#[test]
fn a_call_is_confined_to_the_root_that_holds_its_paths() {
    let scope = scope(&["/srv"], &["/srv/a", "/srv/b"]).unwrap();
    let base = |request| base(&scope, request).unwrap().unwrap();
    assert_eq!(base(json!({"path": "x"})), "/srv/a");
    assert_eq!(base(json!({"path": "/srv/b/x"})), "/srv/b");
    assert_eq!(base(json!({"path": "/srv/a/../b/x"})), "/srv/b");
    assert_eq!(base(json!({"path_bytes": BASE64.encode(b"/srv/b/\xff")})), "/srv/b");
    assert_eq!(base(json!({"paths": ["/srv/b/x", {"path": "/srv/b/y"}]})), "/srv/b");
    assert_eq!(base(json!({"files": [{"from": "/srv/b/x", "to": "/srv/b/y"}]})), "/srv/b");
    assert_eq!(base(json!({"path": "/srv/c"})), "/srv/a", "refused by the service");
    assert_eq!(base(json!({"paths": ["/srv/b/x", "/srv/c"]})), "/srv/b", "one of them refused by the service");
}

#[test]
fn paths_of_several_roots_are_refused_by_name() {
    let scope = scope(&["/srv"], &["/srv/a", "/srv/b"]).unwrap();
    for (request, other) in [
        (json!({"paths": ["/srv/a/x", "/srv/b/y"]}), "/srv/b/y"),
        (json!({"paths": ["x", "/srv/b/y"]}), "/srv/b/y"),
        (json!({"files": [{"from": "/srv/b/x", "to": "/srv/a/y"}]}), "/srv/a/y"),
        (json!({"files": [{"from": "/srv/b/x", "to": "y"}]}), "/srv/b/x"),
    ] {
        let refused = base(&scope, request.clone()).unwrap_err();
        assert_eq!(refused.code, "C218");
        assert!(refused.message.starts_with(&format!("{other}: ")), "{request}: {}", refused.message);
    }
}

#[test]
fn a_root_inside_another_one_serves_what_it_holds() {
    let scope = scope(&["/srv"], &["/srv/a/b", "/srv/a"]).unwrap();
    assert_eq!(base(&scope, json!({"paths": ["/srv/a/b/x", "/srv/a/y"]})).unwrap().unwrap(), "/srv/a");
    assert_eq!(base(&scope, json!({"path": "/srv/a/b/x"})).unwrap().unwrap(), "/srv/a/b");
}

#[test]
fn a_base_dir_of_the_caller_lies_inside() {
    let scope = scope(&["/srv"], &["/srv/a", "/srv/b"]).unwrap();
    let with = |sent: Value| base(&scope, json!({"path": "x", "base_dir": sent})).map(Option::unwrap);
    assert_eq!(with(json!("sub")).unwrap(), "/srv/a/sub");
    assert_eq!(with(json!("")).unwrap(), "/srv/a");
    assert_eq!(with(json!(null)).unwrap(), "/srv/a");
    assert_eq!(with(json!("/srv/b/./x/..")).unwrap(), "/srv/b");
    for outside in ["..", "/", "/srv", "/srv/ab", "/srv/a/..", "sub/../..", "../../../..", "/etc"] {
        assert_eq!(with(json!(outside)).unwrap_err().code, "C218", "{outside}");
    }
    assert_eq!(with(json!(1)).unwrap_err().code, "C210");
}

#[test]
fn without_roots_of_the_host_the_service_judges() {
    let scope = scope(&["/srv"], &["/"]).unwrap();
    assert_eq!(base(&scope, json!({"path": "x"})).unwrap(), None);
    assert_eq!(base(&scope, json!({"path": "x", "base_dir": "../y"})).unwrap().unwrap(), "../y");
}

#[test]
fn info_has_no_base_dir() {
    let scope = scope(&["/srv"], &["/srv/a"]).unwrap();
    assert_eq!(scope.confine(INFO_FUNCTION, JsonObject::default()).unwrap().params(), "{}");
}

#[test]
fn paths_are_shown_as_a_call_may_name_them() {
    let scope = scope(&["/srv/a"], &["/"]).unwrap();
    assert_eq!(scope.shorten("/srv/a/src/x"), "src/x");
    assert_eq!(scope.shorten("/srv/a"), ".");
    assert_eq!(scope.shorten("/srv/ab/x"), "/srv/ab/x");
}
