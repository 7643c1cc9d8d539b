//! Roots of the host: they make less of the operator's, never more, and their absence changes nothing.

use crate::{
    host::{Host, Place, command},
    support::{Value, json},
};

/// Past the handshake, with these roots told when asked.
fn host_with(place: &Place, roots: &[&str]) -> Host {
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
    host.initialize(json!({"roots": {"listChanged": true}}));
    answer(&mut host, roots);
    host
}

fn answer(host: &mut Host, roots: &[&str]) {
    let asked = loop {
        let line = host.line();
        if line["method"] == "roots/list" {
            break line;
        }
    };
    let roots: Vec<Value> = roots.iter().map(|path| json!({"uri": format!("file://{path}")})).collect();
    host.send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}).to_string());
}

fn place() -> Place {
    let place = Place::new();
    place.write("a/in.txt", "needle a\n");
    place.write("b/in.txt", "needle b\n");
    place.write("top.txt", "needle top\n");
    place
}

#[test]
fn a_folder_inside_the_root_is_all_that_is_left() {
    let place = place();
    let a = place.root.join("a");
    let mut host = host_with(&place, &[a.to_str().unwrap()]);
    assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle a"));
    assert!(host.tool("read", json!({"path": a.join("in.txt")})).ok().contains("needle a"));
    for outside in [place.root.join("top.txt").to_str().unwrap(), "../b/in.txt", "/etc/passwd"] {
        let code = host.tool("read", json!({ "path": outside })).code().to_owned();
        assert!(["C215", "C218"].contains(&code.as_str()), "{outside}: {code}");
    }
    assert_eq!(host.tool("search", json!({"query": "needle"})).ok(), "in.txt:1: needle a\n");
    assert_eq!(host.tool("find", json!({"paths": ["*.txt"]})).ok(), "in.txt\n");
    assert!(host.tool("create", json!({"path": "../new", "content": ""})).is_error);
    assert!(host.tool("create", json!({"path": "new", "content": ""})).ok().contains("wrote new"));
    assert!(a.join("new").exists() && !place.root.join("new").exists());
    let listed = host.request("resources/list", json!({})).unwrap().to_string();
    assert!(listed.contains("a/in.txt") && !listed.contains("top.txt"));
    let uri = format!("file://{}/top.txt", place.root.display());
    assert!(host.request("resources/read", json!({ "uri": uri })).is_err());
}

#[test]
fn roots_outside_of_the_operators_add_nothing() {
    let place = place();
    let mut host = host_with(&place, &["/", "/etc"]);
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
    assert_eq!(host.tool("read", json!({"path": "/etc/passwd"})).code(), "C215");
}

#[test]
fn a_change_of_roots_counts_from_then_on() {
    let place = place();
    let (a, b) = (place.root.join("a"), place.root.join("b"));
    let mut host = host_with(&place, &[a.to_str().unwrap()]);
    assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle a"));
    host.notify("notifications/roots/list_changed", json!({}));
    answer(&mut host, &[b.to_str().unwrap(), a.to_str().unwrap()]);
    assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle b"));
    assert!(host.tool("read", json!({"path": a.join("in.txt")})).ok().contains("needle a"));
}

#[test]
fn a_host_that_does_not_tell_its_roots_is_served_with_the_operators() {
    let place = place();
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
    host.initialize(json!({"roots": {}}));
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
}
