use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
};

use serde_json::Value;

use super::*;

fn audit(path: &Path) -> Audit {
    let log = Lines::new(Sink { fd: host::open_null().unwrap(), torn: false });
    let path = AuditPath::File(path.into());
    Audit::open(Some(&path), &log, AuditLevel::All, Level::Kernel).unwrap()
}

fn connection(id: u64) -> Connection {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    Connection { id, peer: Peer::of(ours.as_fd()).unwrap(), roots: vec!["/srv".into()] }
}

/// The connections that records tell of.
fn told(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    let record = |line| serde_json::from_str::<Value>(line).unwrap()["connection"].as_u64().unwrap();
    text.lines().map(record).collect()
}

#[test]
fn after_a_rename_records_go_to_a_new_file_of_the_old_name() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
    let audit = audit(&path);
    audit.accepted(&connection(1));
    fs::rename(&path, &rotated).unwrap();
    audit.accepted(&connection(2));
    audit.reopen().unwrap();
    audit.accepted(&connection(3));
    assert_eq!((told(&rotated), told(&path)), (vec![1, 2], vec![3]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_a_rename_reopening_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let audit = audit(&path);
    audit.accepted(&connection(1));
    audit.reopen().unwrap();
    audit.accepted(&connection(2));
    assert_eq!(told(&path), [1, 2]);
}

#[test]
fn what_cannot_be_reopened_leaves_the_old_file_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
    let audit = audit(&path);
    fs::rename(&path, &rotated).unwrap();
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
    let error = audit.reopen().unwrap_err();
    assert!(error.contains("audit.jsonl") && error.contains("old file"), "{error}");
    audit.accepted(&connection(1));
    assert_eq!(told(&rotated), [1]);
    assert!(!dir.path().join("elsewhere").exists(), "a planted link is not followed");
    // Once the way is free, the next attempt succeeds.
    fs::remove_file(&path).unwrap();
    audit.reopen().unwrap();
    audit.accepted(&connection(2));
    assert_eq!((told(&rotated), told(&path)), (vec![1], vec![2]));
}

#[test]
fn a_link_that_the_operator_named_is_followed_once() {
    let dir = tempfile::tempdir().unwrap();
    let (link, real) = (dir.path().join("link"), dir.path().join("real"));
    fs::write(&real, "").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let audit = audit(&link);
    fs::remove_file(&real).unwrap();
    audit.reopen().unwrap();
    audit.accepted(&connection(1));
    assert_eq!(told(&real), [1]);
}
