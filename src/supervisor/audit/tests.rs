use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    sync::mpsc,
};

use serde_json::Value;

use super::*;
use crate::{confine, sys::process};

fn audit(path: &Path) -> AuditWriter {
    let log = LineWriter::new(host::open_null().unwrap().into());
    let target = AuditTarget { path: AuditPath::File(path.into()), is_shared: false };
    AuditWriter::open(Some(&target), None, &log, AuditLevel::All, Level::Kernel, process::effective_uid()).unwrap()
}

fn connection(id: u64) -> ClientConnection {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    ClientConnection { id, peer: ConnectedPeer::read_credentials(ours.as_fd()).unwrap(), roots: vec!["/srv".into()] }
}

/// The connection numbers in the records of a file.
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
    audit.record_accepted(&connection(1));
    fs::rename(&path, &rotated).unwrap();
    audit.record_accepted(&connection(2));
    audit.reopen().unwrap();
    audit.record_accepted(&connection(3));
    assert_eq!((told(&rotated), told(&path)), (vec![1, 2], vec![3]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_a_rename_reopening_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let audit = audit(&path);
    audit.record_accepted(&connection(1));
    audit.reopen().unwrap();
    audit.record_accepted(&connection(2));
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
    audit.record_accepted(&connection(1));
    assert_eq!(told(&rotated), [1]);
    assert!(!dir.path().join("elsewhere").exists(), "a planted link is not followed");
    // Once nothing is in the way, the next attempt succeeds.
    fs::remove_file(&path).unwrap();
    audit.reopen().unwrap();
    audit.record_accepted(&connection(2));
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
    audit.record_accepted(&connection(1));
    assert_eq!(told(&real), [1]);
}

/// Runs an audit in a thread that `confine` restricts: Landlock and the identity apply to that thread alone. `script` gets a
/// function that lets the thread reopen the audit and then record a connection.
fn in_a_confined_thread(
    path: &Path,
    confine: impl FnOnce(&AuditWriter) + Send,
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
                audit.record_accepted(&connection(id));
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
    let confine = |audit: &AuditWriter| {
        process::set_no_new_privs().unwrap();
        let kept = confine::SupervisorAccess { audit_folder: audit.folder(), ..confine::SupervisorAccess::default() };
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
    // Only root can change its identity.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("audit.jsonl"), dir.path().join("audit.jsonl.1"));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let become_nobody = |_: &AuditWriter| {
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

/// The file of the user: the service creates its folder, and a confined supervisor can rotate the file but do nothing else in
/// the folder.
#[test]
fn a_confined_supervisor_rotates_the_shared_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/stockade/audit.jsonl");
    let target = AuditTarget { path: AuditPath::File(path.clone()), is_shared: true };
    std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            let log = LineWriter::new(host::open_null().unwrap().into());
            let uid = process::effective_uid();
            let audit = AuditWriter::open(Some(&target), None, &log, AuditLevel::All, Level::Kernel, uid).unwrap();
            process::set_no_new_privs().unwrap();
            let kept = confine::SupervisorAccess {
                audit_folder: audit.folder(),
                rotates_audit: audit.rotates_file(),
                ..confine::SupervisorAccess::default()
            };
            confine::confine_supervisor(&kept).unwrap();
            let denied = |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            denied(fs::read(&path).unwrap_err());
            denied(fs::File::options().write(true).truncate(true).open(&path).unwrap_err());
            denied(fs::create_dir(path.with_file_name("folder")).unwrap_err());
            denied(fs::rename(&path, dir.path().join("elsewhere")).unwrap_err());
            audit.record_accepted(&connection(1));
            // Another process writes to it, too.
            let mut file = fs::File::options().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, b"{\"connection\":7}\n").unwrap();
            let (many, reason) = (connection(2), "x".repeat(390));
            (0..25_000).for_each(|_| audit.record_ended(&many, &reason));
            audit.record_accepted(&connection(3));
        });
        confined.join().unwrap();
    });
    let (rotated, now) = (told(&path.with_file_name("audit.jsonl.1")), told(&path));
    assert_eq!((rotated[0], rotated[1], now.last()), (1, 7, Some(&3)));
    assert_eq!(rotated.len() + now.len(), 25_003, "no record is lost");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folders = [path.parent().unwrap(), path.parent().unwrap().parent().unwrap()];
    assert_eq!(folders.map(mode), [0o700, 0o700]);
    assert_eq!((mode(&path), mode(&path.with_file_name("audit.jsonl.1"))), (0o600, 0o600));
}

#[test]
fn a_shared_file_whose_folder_others_may_write_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let log = LineWriter::new(host::open_null().unwrap().into());
    let open = |path: &Path| {
        let target = AuditTarget { path: AuditPath::File(path.into()), is_shared: true };
        let uid = process::effective_uid();
        AuditWriter::open(Some(&target), None, &log, AuditLevel::All, Level::Kernel, uid).unwrap().is_on()
    };
    let folder = dir.path().join("stockade");
    fs::create_dir(&folder).unwrap();
    for (mode, is_used) in [(0o777, false), (0o770, false), (0o755, true)] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(open(&folder.join("audit.jsonl")), is_used, "{mode:o}");
    }
    // A file where a folder should be, and a link in place of the file.
    assert!(!open(&folder.join("audit.jsonl/audit.jsonl")));
    std::os::unix::fs::symlink("audit.jsonl", folder.join("link")).unwrap();
    assert!(open(&folder.join("link")), "a link of the user's own is followed when the file is found");
}
