//! Functions that change files, and those that walk: what they are refused is told like what readers are refused.

use std::fs;

use super::{
    Options, Value,
    support::{TestJail, audit::Refused, json},
};

const CREATE: &str = "coder::create-file";
const UPDATE: &str = "coder::update-file";
const DELETE: &str = "coder::delete-file";
const MOVE: &str = "coder::move";
const COPY: &str = "coder::copy";
const MKDIR: &str = "coder::mkdir";
const RESTORE: &str = "coder::restore";
const FIND: &str = "coder::find";
const SEARCH: &str = "coder::search";

fn create(path: &str) -> (&'static str, Value) {
    (CREATE, json!({"files": [{"path": path, "content": "x"}]}))
}

fn update(path: &str) -> (&'static str, Value) {
    (UPDATE, json!({"files": [{"path": path, "ops": [{"op": "str_replace", "old": "x", "new": "y"}]}]}))
}

fn delete(path: &str) -> (&'static str, Value) {
    (DELETE, json!({"paths": [path], "recursive": true}))
}

fn from_to(function: &'static str, from: &str, to: &str) -> (&'static str, Value) {
    let mut entry = json!({"from": from, "to": to});
    if function == "coder::copy" {
        entry["recursive"] = json!(true);
    }
    (function, json!({ "files": [entry] }))
}

/// One entry each; its code.
fn code(jail: &TestJail, (function, params): &(&'static str, Value)) -> String {
    match jail.call(function, params.clone()) {
        Ok(result) => result["results"][0]["error"]["code"].as_str().unwrap_or("ok").to_owned(),
        Err(failure) => failure.code(),
    }
}

/// `(call, code, the path that it is about)`. Each as it is, as a batch that is whole or not at all, and as a
/// dry run.
fn assert_told(jail: &TestJail, cases: &[((&'static str, Value), &str, &str)]) {
    let mut refused = Refused::denied(true);
    for ((function, params), expected, path) in cases {
        // A list of the trash changes nothing, so the guards of a change are refused there.
        let guards = if *function == RESTORE { 1 } else { 3 };
        for how in &[json!({}), json!({"atomic": true}), json!({"dry_run": true})][..guards] {
            let mut params = params.clone();
            params.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
            let call = (*function, params);
            assert_eq!(code(jail, &call), *expected, "{call:?}");
            refused.expect(function, expected, path.as_bytes());
        }
    }
    refused.assert_audited(jail);
    jail.canaries.assert_untouched();
}

#[test]
fn a_refused_change_is_told() {
    let jail = TestJail::with_tree(Options::default(), |root| {
        fs::create_dir_all(root.join("mixed/deep")).unwrap();
        fs::create_dir(root.join("secrets")).unwrap();
        for file in ["file", "mixed/file", "mixed/deep/.env", "secrets/x"] {
            fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../outside/secret.txt", root.join("link")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("folder-link")).unwrap();
    });
    assert_told(
        &jail,
        &[
            (create(".env"), "C211", ".env"),
            (create("../new"), "C215", "../new"),
            (create("folder-link/new"), "C215", "folder-link/new"),
            (update("secrets/x"), "C211", "secrets/x"),
            (update("link"), "C215", "link"),
            (delete("mixed"), "C211", "mixed"),
            (delete("secrets"), "C211", "secrets"),
            (delete("/etc/passwd"), "C215", "/etc/passwd"),
            (from_to(MOVE, "mixed", "other"), "C211", "mixed"),
            (from_to(MOVE, "secrets", "other"), "C211", "secrets"),
            (from_to(MOVE, "file", "../other"), "C215", "../other"),
            (from_to(MOVE, "file", "a.pem"), "C211", "a.pem"),
            (from_to(COPY, "mixed", "other"), "C211", "mixed"),
            (from_to(COPY, "file", "folder-link/other"), "C215", "folder-link/other"),
            ((MKDIR, json!({"paths": ["../new"]})), "C215", "../new"),
            ((MKDIR, json!({"paths": ["secrets/new"]})), "C211", "secrets/new"),
            ((MKDIR, json!({"paths": ["folder-link/new"]})), "C215", "folder-link/new"),
            (update("../x"), "C215", "../x"),
            (delete(".env"), "C211", ".env"),
            (delete("folder-link/secret.txt"), "C215", "folder-link/secret.txt"),
            (from_to(MOVE, ".env", "other"), "C211", ".env"),
            (from_to(MOVE, "folder-link/secret.txt", "other"), "C215", "folder-link/secret.txt"),
            (from_to(MOVE, "file", "folder-link/other"), "C215", "folder-link/other"),
            (from_to(COPY, ".env", "other"), "C211", ".env"),
            (from_to(COPY, "link", "other"), "C215", "link"),
            (from_to(COPY, "secrets", "other"), "C211", "secrets"),
            (from_to(COPY, "file", "/etc/other"), "C215", "/etc/other"),
            ((FIND, json!({"paths": ["secrets/x"]})), "C211", "secrets/x"),
            ((FIND, json!({"paths": ["folder-link/x"]})), "C215", "folder-link/x"),
            ((SEARCH, json!({"query": "x", "path": "../outside"})), "C215", "../outside"),
            ((SEARCH, json!({"query": "x", "paths": [".env"]})), "C211", ".env"),
            ((RESTORE, json!({"list": true, "path": "../outside"})), "C215", "../outside"),
        ],
    );
}

#[test]
fn a_change_to_a_read_only_root_is_told() {
    let jail = TestJail::with_tree(Options { suffix: ":ro", ..Options::default() }, |root| {
        fs::write(root.join("file"), "x").unwrap();
    });
    assert_told(
        &jail,
        &[
            (create("new"), "C221", "new"),
            (update("file"), "C221", "file"),
            (delete("file"), "C221", "file"),
            (from_to(MOVE, "file", "other"), "C221", "file"),
            (from_to(COPY, "file", "other"), "C221", "other"),
            ((MKDIR, json!({"paths": ["new"]})), "C221", "new"),
        ],
    );
}

/// Where links are followed, too.
#[test]
fn a_refused_change_behind_a_link_is_told() {
    let policy = "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n";
    let options = Options { policy: Some(policy.into()), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::write(root.join(".env"), "x").unwrap();
        for (target, link) in [("nowhere", "dangling"), (".env", "innocent"), ("../outside/secret.txt", "out")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
    });
    let replace = |path: &str| (CREATE, json!({"files": [{"path": path, "content": "x", "overwrite": true}]}));
    assert_told(
        &jail,
        &[
            (replace("dangling"), "C215", "dangling"),
            (replace("innocent"), "C211", "innocent"),
            (replace("out"), "C215", "out"),
            (update("innocent"), "C211", "innocent"),
            (update("out"), "C215", "out"),
            (delete("out/x"), "C215", "out/x"),
        ],
    );
}
