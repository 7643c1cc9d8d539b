//! Roots of the host can only narrow the operator's. Errors, silence, unusual URIs and a model's own `base_dir` never widen them.

use std::os::unix::fs::symlink;

use super::{
    host::{Host, Place, Said, command},
    support::{Value, json},
};

fn uri(path: &std::path::Path) -> String {
    format!("file://{}", path.display())
}

/// A host past its handshake that answers `roots/list` with these URIs.
fn host_with(place: &Place, uris: &[&str]) -> Host {
    let mut host = silent_host(place, &[]);
    answer(&mut host, uris);
    host
}

/// A host past its handshake that declares roots and has not answered `roots/list`.
fn silent_host(place: &Place, more: &[&str]) -> Host {
    let mut host = Host::start(command(&[&["--root", place.root.to_str().unwrap()], more].concat()));
    host.initialize(json!({"roots": {"listChanged": true}}));
    host
}

/// The id of the next `roots/list`.
fn asked(host: &mut Host) -> Value {
    loop {
        let line = host.line();
        if line["method"] == "roots/list" {
            return line["id"].clone();
        }
    }
}

fn answer(host: &mut Host, uris: &[&str]) {
    let id = asked(host);
    let roots: Vec<Value> = uris.iter().map(|uri| json!({ "uri": uri })).collect();
    host.send_line(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}}).to_string());
}

fn answer_with_an_error(host: &mut Host) {
    let id = asked(host);
    let error = json!({"code": -32603, "message": "not now"});
    host.send_line(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
}

fn place() -> Place {
    let place = Place::new();
    place.write("a/in.txt", "needle a\n");
    place.write("a/sub/deep.txt", "needle deep\n");
    place.write("b/in.txt", "needle b\n");
    place.write("top.txt", "needle top\n");
    place
}

#[track_caller]
fn assert_outside(said: &Said) {
    assert!(["C215", "C218"].contains(&said.code()), "{}", said.text);
    assert!(!said.text.contains("needle"), "{}", said.text);
}

/// Only folder `a` of the root is left.
#[track_caller]
fn assert_only_a(place: &Place, host: &mut Host) {
    assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle a"));
    assert_outside(&host.tool("read", json!({"path": place.root.join("top.txt")})));
    assert_outside(&host.tool("read", json!({"path": place.root.join("b/in.txt")})));
    let found = host.tool("search", json!({"query": "needle"})).ok();
    assert_eq!(found, "in.txt:1: needle a\nsub/deep.txt:1: needle deep\n");
}

#[test]
fn a_folder_inside_the_root_is_all_that_is_left() {
    let place = place();
    let a = place.root.join("a");
    let mut host = host_with(&place, &[&uri(&a)]);
    assert_only_a(&place, &mut host);
    assert!(host.tool("read", json!({"path": a.join("in.txt")})).ok().contains("needle a"));
    for outside in ["../b/in.txt", "/etc/passwd"] {
        assert_outside(&host.tool("read", json!({ "path": outside })));
    }
    assert_eq!(host.tool("find", json!({"paths": ["*.txt"], "sort": "path"})).ok(), "in.txt\nsub/deep.txt\n");
    assert!(host.tool("create", json!({"path": "../new", "content": ""})).is_error);
    assert!(host.tool("create", json!({"path": "new", "content": ""})).ok().contains("wrote new"));
    assert!(a.join("new").exists() && !place.root.join("new").exists());
    let listed = host.request("resources/list", json!({})).unwrap().to_string();
    assert!(listed.contains("a/in.txt") && !listed.contains("top.txt"));
    let read =
        |host: &mut Host, name: &str| host.request("resources/read", json!({ "uri": uri(&place.root.join(name)) }));
    assert!(read(&mut host, "a/in.txt").is_ok());
    assert_eq!(read(&mut host, "top.txt").unwrap_err()["data"]["code"], "C218");
}

/// A refusal speaks of the client's roots: the model sent no `base_dir`.
#[test]
fn a_refusal_names_the_roots_of_the_client() {
    let place = place();
    let a = place.root.join("a");
    let mut host = host_with(&place, &[&uri(&a)]);
    let top = place.root.join("top.txt");
    for said in [
        host.tool("read", json!({ "path": top })),
        host.tool("read", json!({ "paths": [top] })),
        host.tool("delete", json!({ "path": top })),
    ] {
        assert_eq!(said.code(), "C218");
        assert!(said.text.contains(&format!("the client's roots ({})", a.display())), "{}", said.text);
        assert!(!said.text.contains("base_dir"), "{}", said.text);
    }
}

#[test]
fn roots_outside_of_the_operators_add_nothing() {
    let place = place();
    let mut host = host_with(&place, &["file:///", "file:///etc"]);
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
    assert_eq!(host.tool("read", json!({"path": "/etc/passwd"})).code(), "C215");
}

#[test]
fn a_change_of_roots_counts_from_then_on() {
    let place = place();
    let (a, b) = (place.root.join("a"), place.root.join("b"));
    let mut host = host_with(&place, &[&uri(&a)]);
    assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle a"));
    host.notify("notifications/roots/list_changed", json!({}));
    answer(&mut host, &[&uri(&b), &uri(&a)]);
    assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle b"));
    assert!(host.tool("read", json!({"path": a.join("in.txt")})).ok().contains("needle a"));
    let listed = host.request("resources/list", json!({})).unwrap();
    let next = host.request("resources/list", json!({"cursor": listed["nextCursor"]})).unwrap();
    let listed = format!("{listed}{next}");
    assert!(listed.contains("a/in.txt") && listed.contains("b/in.txt") && !listed.contains("top.txt"));
}

#[test]
fn a_base_dir_of_the_model_cannot_leave_the_hosts_roots() {
    let place = place();
    let (a, b) = (place.root.join("a"), place.root.join("b"));
    let mut host = host_with(&place, &[&uri(&a)]);
    let root = place.root.to_str().unwrap();
    let names = [root, "..", "../b", ".", "sub/../..", "/", "", b.to_str().unwrap()];
    let mut bases: Vec<Value> = names.iter().map(|name| json!(name)).collect();
    bases.extend([json!(format!("{}/../b", a.display())), json!(null), json!(7), json!([root])]);
    for base in bases {
        for path in [json!(place.root.join("top.txt")), json!("top.txt"), json!(b.join("in.txt")), json!("../b/in.txt")]
        {
            let said = host.tool("read", json!({ "path": path, "base_dir": base }));
            assert!(said.is_error && !said.text.contains("needle"), "{base} {path}: {}", said.text);
        }
        let made = host.tool("create", json!({"path": b.join("new"), "content": "x", "base_dir": base}));
        assert!(made.is_error && !b.join("new").exists(), "{base}: {}", made.text);
        let found = host.tool("search", json!({"query": "needle", "base_dir": base}));
        assert!(!found.text.contains("needle b") && !found.text.contains("needle top"), "{base}: {}", found.text);
    }
    let said = host.tool("read", json!({"path": "in.txt", "base_dir": b}));
    assert_eq!(said.code(), "C218");
    assert!(said.text.contains(a.to_str().unwrap()) && said.text.contains("base_dir"), "{}", said.text);
}

#[test]
fn a_base_dir_of_the_model_narrows_further() {
    let place = place();
    let a = place.root.join("a");
    let mut host = host_with(&place, &[&uri(&a)]);
    for base in [json!("sub"), json!("./sub/"), json!(a.join("sub")), json!(format!("{}/../a/sub", a.display()))] {
        let said = host.tool("read", json!({"path": "deep.txt", "base_dir": base}));
        assert!(said.ok().contains("needle deep"), "{base}");
        let said = host.tool("read", json!({"path": a.join("in.txt"), "base_dir": base}));
        assert_eq!(said.code(), "C218", "{base}");
    }
}

#[test]
fn an_error_keeps_the_last_roots() {
    let place = place();
    let mut host = host_with(&place, &[&uri(&place.root.join("a"))]);
    assert_only_a(&place, &mut host);
    host.notify("notifications/roots/list_changed", json!({}));
    answer_with_an_error(&mut host);
    assert_only_a(&place, &mut host);
}

#[test]
fn silence_keeps_the_last_roots() {
    let place = place();
    let mut host = host_with(&place, &[&uri(&place.root.join("a"))]);
    assert_only_a(&place, &mut host);
    host.notify("notifications/roots/list_changed", json!({}));
    asked(&mut host);
    assert_only_a(&place, &mut host);
    // What it says later counts.
    host.notify("notifications/roots/list_changed", json!({}));
    answer(&mut host, &[&uri(&place.root)]);
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
}

#[test]
fn every_call_is_refused_until_the_host_has_named_its_roots() {
    let place = place();
    let mut host = silent_host(&place, &[]);
    let id = asked(&mut host);
    for (tool, arguments) in [
        ("read", json!({"path": "top.txt"})),
        ("read", json!({"path": "top.txt", "base_dir": place.root})),
        ("create", json!({"path": "new", "content": ""})),
        ("info", json!({})),
    ] {
        let said = host.tool(tool, arguments);
        assert_eq!(said.code(), "C222");
        assert!(said.text.contains("roots") && said.text.contains("repeat the call"), "{}", said.text);
    }
    assert!(!place.root.join("new").exists());
    let top = uri(&place.root.join("top.txt"));
    let refused = host.request("resources/read", json!({ "uri": top })).unwrap_err();
    assert_eq!(refused["data"]["code"], "C222", "{refused}");
    assert_eq!(host.request("resources/list", json!({})).unwrap_err()["data"]["code"], "C222");
    // A late answer is an answer.
    let roots = json!({"roots": [{ "uri": uri(&place.root.join("a")) }]});
    host.send_line(&json!({"jsonrpc": "2.0", "id": id, "result": roots}).to_string());
    assert_only_a(&place, &mut host);
}

#[test]
fn a_host_that_failed_to_name_its_roots_is_asked_again() {
    let place = place();
    let mut host = silent_host(&place, &[]);
    answer_with_an_error(&mut host);
    let call = host.send_tool("read", json!({"path": "in.txt"}));
    answer(&mut host, &[&uri(&place.root.join("a"))]);
    assert!(Said::of(&host.reply_to(call).unwrap()).ok().contains("needle a"));
    assert_only_a(&place, &mut host);
}

#[test]
fn every_spelling_of_a_file_uri_narrows() {
    let place = place();
    let a = place.root.join("a");
    let a = a.to_str().unwrap();
    let parent = place.root.to_str().unwrap();
    for uri in [
        format!("file:{a}"),
        format!("FILE://{a}"),
        format!("File:{a}"),
        format!("file://localhost{a}"),
        format!("file://LocalHost{a}"),
        format!("file://{a}/"),
        format!("file://{a}?version=1#line"),
        format!("file://{parent}//x/.././a"),
        format!("file://{parent}/%61"),
        format!("file://{parent}/%2e%2E/{}/a", place.root.file_name().unwrap().to_str().unwrap()),
    ] {
        let mut host = host_with(&place, &[&uri]);
        assert_outside(&host.tool("read", json!({"path": place.root.join("top.txt")})));
        assert!(host.tool("read", json!({"path": "in.txt"})).ok().contains("needle a"), "{uri}");
    }
}

#[test]
fn roots_that_are_not_understood_allow_nothing() {
    let place = place();
    let root = place.root.display();
    for uri in [
        format!("http://localhost{root}"),
        format!("vscode-remote://wsl{root}"),
        format!("file://elsewhere{root}"),
        format!("file://user@localhost{root}"),
        format!("file://localhost:80{root}"),
        format!("file://{root}/%zz"),
        format!("file://{root}/%"),
        format!("file://{root}/a%2Fsub"),
        format!("file://{root}/%00"),
        format!("file://{root}/%ff"),
        "file:///a/../..".into(),
        "file:a".into(),
        "file:".into(),
        format!("{root}"),
        String::new(),
    ] {
        let mut host = host_with(&place, &[&uri]);
        for (tool, arguments) in [
            ("read", json!({"path": "top.txt"})),
            ("read", json!({"path": "top.txt", "base_dir": place.root})),
            ("info", json!({})),
        ] {
            let said = host.tool(tool, arguments);
            assert_eq!(said.code(), "C218", "{uri}");
            assert!(said.text.contains(&format!("{root}")), "{}", said.text);
            assert!(said.text.contains(&uri), "{}", said.text);
        }
        // Beside one that is understood it adds nothing and takes nothing away.
        let mut host = host_with(&place, &[&uri, &self::uri(&place.root.join("a"))]);
        assert_only_a(&place, &mut host);
    }
}

#[test]
fn roots_apart_from_the_operators_leave_nothing_but_the_operator_may_ignore_them() {
    let place = place();
    let elsewhere = place.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut host = host_with(&place, &[&uri(&elsewhere)]);
    let said = host.tool("list", json!({}));
    assert_eq!(said.code(), "C218");
    for part in [place.root.to_str().unwrap(), elsewhere.to_str().unwrap(), "--ignore-host-roots"] {
        assert!(said.text.contains(part), "{}", said.text);
    }
    assert_eq!(host.request("resources/list", json!({})).unwrap_err()["data"]["code"], "C218");
    assert!(host.request("resources/read", json!({"uri": "stockade://skill"})).is_ok());

    let mut host = silent_host(&place, &["--ignore-host-roots"]);
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
}

#[test]
fn roots_are_compared_by_where_they_really_are() {
    let place = place();
    let links = place.dir.path().join("links");
    std::fs::create_dir(&links).unwrap();
    symlink(place.root.join("a"), links.join("to-a")).unwrap();
    symlink(&place.root, links.join("to-root")).unwrap();
    symlink("../a", place.root.join("b/inner")).unwrap();
    symlink(place.dir.path(), place.root.join("a/out")).unwrap();
    for named in [links.join("to-a"), links.join("to-root/a"), place.root.join("b/inner")] {
        let mut host = host_with(&place, &[&uri(&named)]);
        assert_only_a(&place, &mut host);
    }
    // A link inside the root that leads out of it: above the root, where nothing is narrowed, or beside it.
    let mut host = host_with(&place, &[&uri(&place.root.join("a/out/links"))]);
    assert_eq!(host.tool("read", json!({"path": "top.txt"})).code(), "C218");
    // The operator may have named the root through a link, too.
    let mut host = Host::start(command(&["--root", links.join("to-root").to_str().unwrap()]));
    host.initialize(json!({"roots": {}}));
    answer(&mut host, &[&uri(&links.join("to-root/a"))]);
    assert_only_a(&place, &mut host);
}

#[test]
fn a_root_that_is_not_there_narrows_by_its_name() {
    let place = place();
    let mut host = host_with(&place, &[&uri(&place.root.join("later"))]);
    assert_outside(&host.tool("read", json!({"path": place.root.join("top.txt")})));
    assert_eq!(host.tool("read", json!({"path": "x"})).code(), "C211");
    assert!(host.request("resources/list", json!({})).unwrap().to_string().contains("skill"));
    assert!(host.tool("create", json!({"path": "x", "content": "new\n"})).ok().contains("wrote x"));
    assert!(place.root.join("later/x").exists());
}

/// An editor without an open folder names no roots, and the operator has decided what it may see. One that closed its last folder
/// has taken back what it allowed.
#[test]
fn an_empty_list_narrows_nothing_at_first_and_allows_nothing_later() {
    let place = place();
    let mut host = host_with(&place, &[]);
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
    for uris in [vec![uri(&place.root.join("a"))], vec![]] {
        host.notify("notifications/roots/list_changed", json!({}));
        answer(&mut host, &uris.iter().map(String::as_str).collect::<Vec<_>>());
        assert_outside(&host.tool("read", json!({"path": place.root.join("top.txt")})));
    }
    assert_eq!(host.tool("read", json!({"path": "in.txt"})).code(), "C218");
}

#[test]
fn paths_of_several_roots_in_one_call_are_refused_in_words_of_the_caller() {
    let place = place();
    let (a, b) = (place.root.join("a"), place.root.join("b"));
    let mut host = host_with(&place, &[&uri(&a), &uri(&b)]);
    for (tool, arguments) in [
        ("move", json!({"from": a.join("in.txt"), "to": b.join("new.txt")})),
        ("read", json!({"paths": [a.join("in.txt"), b.join("in.txt")]})),
        ("read", json!({"paths": ["in.txt", b.join("in.txt")]})),
    ] {
        let said = host.tool(tool, arguments);
        assert_eq!(said.code(), "C218");
        assert!(said.text.contains("a separate call for each") && !said.text.contains("base_dir"), "{}", said.text);
        for path in [&a, &b] {
            assert!(said.text.contains(path.to_str().unwrap()), "{}", said.text);
        }
    }
    assert!(a.join("in.txt").exists());
    // All of them in the second one: its names are absolute, and that is where the call works.
    let said = host.tool("copy", json!({"from": b.join("in.txt"), "to": b.join("more.txt")}));
    assert!(!said.is_error, "{}", said.text);
}

#[test]
fn a_host_without_roots_is_served_with_the_operators() {
    let place = place();
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()])).initialized();
    assert!(host.tool("read", json!({"path": "top.txt"})).ok().contains("needle top"));
}

/// Without a handshake nobody may ask the host; it is told what is missing and repeats the call with it.
#[test]
fn a_host_without_a_handshake_names_its_roots_with_each_call() {
    let place = place();
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    });
    let mut call = json!({"name": "read", "arguments": {"path": "top.txt"}, "_meta": meta});
    let listed = host.request("resources/list", json!({"_meta": meta})).unwrap_err();
    assert_eq!(listed["data"]["code"], "C222");
    let needed = host.request("tools/call", call.clone()).unwrap();
    assert_eq!(needed["resultType"], "input_required", "{needed}");
    let requests = needed["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["method"], "roots/list");
    let roots = json!({"roots": [{ "uri": uri(&place.root.join("a")) }]});
    call["inputResponses"] = json!({ key: roots });
    assert_eq!(Said::of(&host.request("tools/call", call.clone()).unwrap()).code(), "C211");
    call["arguments"]["path"] = json!(place.root.join("top.txt"));
    assert_eq!(Said::of(&host.request("tools/call", call.clone()).unwrap()).code(), "C218");
    call["arguments"]["path"] = json!("in.txt");
    assert!(Said::of(&host.request("tools/call", call).unwrap()).ok().contains("needle a"));
    let listed = host.request("resources/list", json!({"_meta": meta})).unwrap().to_string();
    assert!(listed.contains("a/in.txt") && !listed.contains("top.txt"));
    let read = json!({"uri": uri(&place.root.join("top.txt")), "_meta": meta});
    assert_eq!(host.request("resources/read", read.clone()).unwrap()["resultType"], "input_required");
    let mut read = read;
    read["inputResponses"] = json!({ key: roots });
    assert_eq!(host.request("resources/read", read).unwrap_err()["data"]["code"], "C218");
    // A later request that declares no roots is served with the last ones that were named.
    let mut silent = meta;
    silent["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let outside = json!({"name": "read", "arguments": {"path": place.root.join("top.txt")}, "_meta": silent});
    assert_eq!(Said::of(&host.request("tools/call", outside).unwrap()).code(), "C218");
}

/// The service follows links, so the text of a `base_dir` says nothing about where it is.
#[test]
fn a_base_dir_of_the_model_that_is_a_link_does_not_leave_the_hosts_roots() {
    let place = place();
    symlink("../b", place.root.join("a/link")).unwrap();
    let policy = place.root.parent().unwrap().join("policy.toml");
    let text = format!("[[root]]\npath = \"{}\"\nsymlinks = \"beneath\"\n", place.root.display());
    std::fs::write(&policy, text).unwrap();
    let mut host = Host::start(command(&["--policy", policy.to_str().unwrap()]));
    host.initialize(json!({"roots": {"listChanged": true}}));
    answer(&mut host, &[&uri(&place.root.join("a"))]);
    for (tool, arguments) in [
        ("read", json!({"path": "in.txt", "base_dir": "link"})),
        ("read", json!({"path": "link/in.txt"})),
        ("list", json!({"path": ".", "base_dir": "link"})),
        ("search", json!({"query": "needle", "base_dir": "link"})),
        ("create", json!({"path": "new", "content": "x", "base_dir": "link"})),
        ("delete", json!({"path": "in.txt", "base_dir": "link"})),
    ] {
        let said = host.tool(tool, arguments);
        assert!(said.is_error && said.text.starts_with("C218"), "{tool}: {}", said.text);
    }
    assert!(place.root.join("b/in.txt").exists() && !place.root.join("b/new").exists());
}
