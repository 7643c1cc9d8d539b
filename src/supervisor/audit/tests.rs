use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    sync::mpsc,
};

use serde_json::Value;

use super::*;
use crate::{confine, sys::process};

fn audit(path: &Path) -> Audit {
    let log = Lines::new(Sink { fd: host::open_null().unwrap(), torn: false });
    let path = AuditPath::File(path.into());
    Audit::open(Some(&path), None, &log, AuditLevel::All, Level::Kernel, process::effective_uid()).unwrap()
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

/// An audit in a thread that `confine` takes something away from: Landlock and the identity are the thread's alone.
/// `script` is given a function that has it reopen and then record a connection.
fn in_a_confined_thread(
    path: &Path,
    confine: impl FnOnce(&Audit) + Send,
    script: impl FnOnce(&dyn Fn(u64) -> Result<(), String>),
) {
    let (order, orders) = mpsc::channel();
    let (result, results) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let audit = audit(path);
            confine(&audit);
            for id in orders {
                let reopened = audit.reopen();
                audit.accepted(&connection(id));
                result.send(reopened).unwrap();
            }
        });
        script(&move |id| {
            order.send(id).unwrap();
            results.recv().unwrap()
        });
    });
}

#[test]
fn a_confined_supervisor_reopens_its_audit_and_can_do_no_more_there() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
    let confine = |audit: &Audit| {
        process::set_no_new_privs().unwrap();
        let kept = confine::Kept { audit_folder: audit.folder(), ..confine::Kept::default() };
        confine::confine_supervisor(&kept).unwrap();
        let denied = |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        denied(fs::read(&path).unwrap_err());
        denied(fs::File::options().write(true).truncate(true).open(&path).unwrap_err());
        denied(fs::remove_file(&path).unwrap_err());
        denied(fs::create_dir(dir.path().join("folder")).unwrap_err());
    };
    in_a_confined_thread(&path, confine, |reopen| {
        assert_eq!(reopen(1), Ok(()));
        fs::rename(&path, &rotated).unwrap();
        assert_eq!(reopen(2), Ok(()));
    });
    assert_eq!((told(&rotated), told(&path)), (vec![1], vec![2]));
}

#[test]
fn after_a_change_of_identity_only_what_that_may_write_is_reopened() {
    // Nobody else can become somebody else.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let become_nobody = |_: &Audit| {
        let (uid, gid) = (rustix::fs::Uid::from_raw(NOBODY), rustix::fs::Gid::from_raw(NOBODY));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    };
    in_a_confined_thread(&path, become_nobody, |reopen| {
        assert_eq!(reopen(1), Ok(()), "nothing has changed");
        fs::rename(&path, &rotated).unwrap();
        assert!(reopen(2).unwrap_err().contains("old file"), "the folder is root's");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        assert_eq!(reopen(3), Ok(()));
    });
    assert_eq!((told(&rotated), told(&path)), (vec![1, 2], vec![3]));
}
