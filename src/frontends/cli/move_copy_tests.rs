use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use serde_json::{Value, json};

use super::{
    super::tests::{CommandRun, run_against},
    *,
};

/// A service in which `docs` is a folder.
fn transfer(line: &[&str]) -> CommandRun {
    run_against(line, None, |method, params| {
        if method == "coder::stat" {
            let kind = if params["paths"][0]["path"] == "docs" { "dir" } else { "file" };
            return Ok(json!({"results": [{"path": "/r/x", "success": true, "kind": kind}]}));
        }
        let done = |_: &Value| json!({"from": "/r/a", "to": "/r/b", "success": true, "moved": true, "copied": true, "bytes": 7});
        Ok(json!({ "results": params["files"].as_array().unwrap().iter().map(done).collect::<Vec<_>>() }))
    })
}

fn sent(ran: &CommandRun) -> &Value {
    &ran.calls.last().unwrap().1["files"]
}

#[test]
fn a_new_name_is_the_new_name() {
    let ran = transfer(&["mv", "a", "b"]);
    assert_eq!((ran.code, ran.text()), (0, "moved a to b\n"));
    assert_eq!(sent(&ran), &json!([{"from": "a", "to": "b"}]));
    let ran = transfer(&["cp", "-r", "--force", "--no-parents", "a", "b", "--if-match", "00"]);
    assert_eq!(ran.text(), "copied a to b, 7 bytes\n");
    let entry =
        json!({"from": "a", "to": "b", "overwrite": true, "parents": false, "recursive": true, "if_match": "00"});
    assert_eq!(sent(&ran), &json!([entry]));
}

#[test]
fn into_a_folder_names_are_kept() {
    let ran = transfer(&["mv", "src/a", "docs"]);
    assert_eq!((ran.text(), sent(&ran)), ("moved src/a to docs/a\n", &json!([{"from": "src/a", "to": "docs/a"}])));
    let ran = transfer(&["mv", "a/", "new/"]);
    assert_eq!((ran.calls.len(), sent(&ran)), (1, &json!([{"from": "a/", "to": "new/a"}])));
    let ran = transfer(&["cp", "a", "/r/b", "new"]);
    let both = json!([{"from": "a", "to": "new/a"}, {"from": "/r/b", "to": "new/b"}]);
    assert_eq!((ran.calls.len(), sent(&ran)), (1, &both));
    let ran = transfer(&["mv", "-T", "a", "docs"]);
    assert_eq!((ran.calls.len(), sent(&ran)), (1, &json!([{"from": "a", "to": "docs"}])));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in [&["mv", "a", "b", "c", "-T"][..], &["mv", "..", "docs/"], &["cp", "a", "b", "c", "--if-match", "0"]] {
        let ran = transfer(line);
        assert_eq!((ran.code, ran.calls.len()), (2, 0), "{}", ran.err);
    }
}

#[test]
fn names_keep_their_bytes() {
    let name = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    assert_eq!(join_last_name(&name(b"d\xe9"), &name(b"x/caf\xe9//")).unwrap(), name(b"d\xe9/caf\xe9"));
    let mut entry = json!({});
    set_path(&mut entry, "to", &name(b"caf\xe9"));
    assert_eq!(entry, json!({"to_bytes": "Y2Fm6Q=="}));
}
