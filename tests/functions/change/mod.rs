//! The functions that create, delete, move, copy and restore, with the real binaries, through the socket: every sentence of
//! their contract. What has to lie there afterwards is written out here, or made by std's own calls.
#![allow(clippy::unwrap_used, reason = "the files are the tests' own; what cannot be made or read is a failed test")]

use crate::support;

mod atomic;
mod base_dir;
mod batch_traps;
mod concurrent;
mod copying;
mod create;
mod defects;
mod delete;
mod denied;
mod dry_run;
mod guards;
mod kept;
mod links;
mod mkdir;
mod moving;
mod own_state;
mod protected;
mod random_denied;
mod root_names;
mod trash;
mod versions;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use support::{
    Failure, Options, TestJail, Value, json,
    state::{self, is_state},
};

const UPDATE: &str = "coder::update-file";
const CREATE: &str = "coder::create-file";
const DELETE: &str = "coder::delete-file";
const MOVE: &str = "coder::move";
const COPY: &str = "coder::copy";
const MKDIR: &str = "coder::mkdir";
const RESTORE: &str = "coder::restore";

/// One writable root, in memory.
fn jail() -> TestJail {
    TestJail::with(Options { in_memory: true, ..Options::default() })
}

fn jail_with(policy: &str) -> TestJail {
    TestJail::with(Options { in_memory: true, policy: Some(policy.into()), ..Options::default() })
}

/// The results of a call that was answered.
#[track_caller]
fn results(reply: Result<Value, Failure>) -> Vec<Value> {
    reply.expect("answered")["results"].as_array().unwrap().clone()
}

/// The only result of a call with one entry.
#[track_caller]
fn one(reply: Result<Value, Failure>) -> Value {
    let mut results = results(reply);
    assert_eq!(results.len(), 1);
    results.remove(0)
}

fn create(jail: &TestJail, entry: Value) -> Value {
    one(jail.call(CREATE, json!({"files": [entry]})))
}

fn delete(jail: &TestJail, path: &str) -> Value {
    one(jail.call(DELETE, json!({"paths": [path]})))
}

fn delete_tree(jail: &TestJail, path: &str) -> Value {
    one(jail.call(DELETE, json!({"paths": [path], "recursive": true})))
}

fn relocate(jail: &TestJail, function: &str, entry: Value) -> Value {
    one(jail.call(function, json!({"files": [entry]})))
}

#[track_caller]
fn assert_success(result: &Value) {
    assert_eq!((&result["success"], result.get("error")), (&json!(true), None), "{result}");
}

/// The text of a refusal.
#[track_caller]
fn assert_refused(result: &Value, code: &str) -> String {
    assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!(code)), "{result}");
    result["error"]["message"].as_str().unwrap().to_owned()
}

fn read(jail: &TestJail, name: &str) -> String {
    fs::read_to_string(jail.root.join(name)).unwrap()
}

fn mode(jail: &TestJail, name: &str) -> u32 {
    fs::metadata(jail.root.join(name)).unwrap().permissions().mode() & 0o7777
}

fn ino(jail: &TestJail, name: &str) -> u64 {
    fs::symlink_metadata(jail.root.join(name)).unwrap().ino()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Every name a user sees, with what a file holds, what a link says, and an empty text for a folder.
fn everything(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let kind = entry.file_type().unwrap();
            if is_state(&name) {
                continue;
            }
            let text = if kind.is_dir() {
                open.push(entry.path());
                String::new()
            } else if kind.is_symlink() {
                format!("-> {}", fs::read_link(entry.path()).unwrap().display())
            } else if kind.is_file() {
                fs::read_to_string(entry.path()).unwrap()
            } else {
                "special".into()
            };
            found.insert(name, text);
        }
    }
    found
}

/// Nothing visible has changed by what `attempt` does.
#[track_caller]
fn changes_nothing<T>(jail: &TestJail, attempt: impl FnOnce() -> T) -> T {
    let before = everything(&jail.root);
    let result = attempt();
    assert_eq!(everything(&jail.root), before);
    jail.canaries.assert_untouched();
    result
}
