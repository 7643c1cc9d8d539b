//! `coder::update-file` with the real binaries, through the socket. What a file has to be afterwards is written out or
//! put together here, never by the code that edits.
#![allow(clippy::unwrap_used, reason = "the files are the tests' own; what cannot be made or read is a failed test")]

use crate::support;

mod contract;
mod defects;
mod fidelity;
mod versions;

use std::fs;

use support::{Client, TestJail, Value, json};

const UPDATE: &str = "coder::update-file";

/// The whole result of an update of one file.
fn update(client: &mut Client, path: &str, ops: Value) -> Value {
    let request = json!({"files": [{"path": path, "ops": ops}]});
    client.call(UPDATE, request).unwrap()["results"][0].clone()
}

/// Writes a file, applies `ops`, and compares every byte with `expected`.
#[track_caller]
fn assert_edit(jail: &TestJail, client: &mut Client, before: &[u8], ops: Value, expected: &[u8]) -> Value {
    let path = jail.write("file", before);
    // A file with NUL bytes is edited only on request.
    let file = json!({"path": "file", "ops": ops, "binary": before.contains(&0)});
    let result = client.call(UPDATE, json!({ "files": [file] })).unwrap()["results"][0].clone();
    assert_eq!(result["success"], true, "{ops} on {:?}: {result}", String::from_utf8_lossy(before));
    let after = fs::read(path).unwrap();
    assert!(
        after == expected,
        "{ops} on {:?}\n  gives {:?}\n  not   {:?}",
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(&after),
        String::from_utf8_lossy(expected)
    );
    result
}

/// The error of an update that leaves the file as it was.
#[track_caller]
fn assert_refused(jail: &TestJail, client: &mut Client, before: &[u8], ops: Value, code: &str) -> String {
    let path = jail.write("file", before);
    let result = update(client, "file", ops.clone());
    assert_eq!(result["error"]["code"], code, "{ops}: {result}");
    assert_eq!((&result["success"], &result["applied"]), (&json!(false), &json!(0)));
    assert_eq!(fs::read(path).unwrap(), before, "a refused edit leaves the file");
    result["error"]["message"].as_str().unwrap().to_owned()
}
