//! As whom the service runs, when root starts it: nobody reaches through it what its identity may not.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::support::{
    COLD, Options, TestJail,
    peer::{NOBODY, acting_as},
    process::{self, runs_as_root, status},
};

fn give(path: &Path, uid: u32, mode: u32) {
    std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn assert_runs_as(jail: &TestJail, uid: u32) {
    let (_client, worker) = connect_as_owner(jail, uid);
    for pid in [jail.daemon.pid(), worker] {
        let uid = uid.to_string();
        assert!(status(pid, "Uid").iter().all(|id| *id == uid), "{:?}", status(pid, "Uid"));
        assert!(status(pid, "Gid").iter().all(|id| *id == uid), "{:?}", status(pid, "Gid"));
        assert!(status(pid, "Groups").iter().all(|id| *id == uid), "{:?}", status(pid, "Groups"));
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let empty = status(pid, set).iter().all(|mask| mask.bytes().all(|digit| digit == b'0'));
            assert!(empty, "{set} {:?}", status(pid, set));
        }
        assert_eq!(status(pid, "NoNewPrivs"), ["1"]);
    }
}

/// The service serves its own uid; root is somebody else then.
fn connect_as_owner(jail: &TestJail, uid: u32) -> (crate::support::Client, u32) {
    acting_as(uid, uid, || jail.connect_and_find_worker())
}

fn read_as(jail: &TestJail, uid: u32, path: &str) -> Result<crate::support::Value, crate::support::Failure> {
    acting_as(uid, uid, || jail.read(path))
}

#[test]
fn the_service_becomes_the_owner_of_its_root() {
    if !runs_as_root("the_service_becomes_the_owner_of_its_root") {
        return;
    }
    let jail = TestJail::with_tree(Options { policy: Some(COLD.into()), ..Options::default() }, |root| {
        fs::create_dir(root.join("private")).unwrap();
        fs::write(root.join("private/open.txt"), "content\n").unwrap();
        fs::set_permissions(root.join("private/open.txt"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(root.join("own.txt"), "own\n").unwrap();
        give(&root.join("own.txt"), NOBODY, 0o600);
        give(root, NOBODY, 0o700);
        // Root's: mode 0644 below a folder that only root may search.
        fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
        give(&root.with_file_name("outside"), 0, 0o755);
    });
    // The harness made the socket's folder; the service hands it over with the socket in it.
    give(&jail.dir.path().join("run"), NOBODY, 0o700);
    assert_runs_as(&jail, NOBODY);
    assert_eq!(read_as(&jail, NOBODY, "own.txt").unwrap()["content"], "own\n");
    let error = read_as(&jail, NOBODY, "private/open.txt").unwrap_err();
    assert_eq!(error.code(), "C211", "{error:?}");
}

#[test]
fn run_as_names_somebody_else() {
    if !runs_as_root("run_as_names_somebody_else") {
        return;
    }
    let policy = format!("run_as = \"user:nobody\"\n{COLD}");
    let jail = TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, |root| {
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("roots.txt"), "for root\n").unwrap();
        fs::set_permissions(root.join("roots.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    give(&jail.dir.path().join("run"), NOBODY, 0o700);
    assert_runs_as(&jail, NOBODY);
    let error = read_as(&jail, NOBODY, "roots.txt").unwrap_err();
    assert_eq!(error.code(), "C216", "{error:?}");
    assert!(error.message().contains("permission denied"), "{error:?}");
}

#[test]
fn root_without_capabilities_reads_no_file_of_others() {
    if !runs_as_root("root_without_capabilities_reads_no_file_of_others") {
        return;
    }
    let jail = TestJail::with_tree(Options { policy: Some(COLD.into()), ..Options::default() }, |root| {
        fs::write(root.join("theirs.txt"), "theirs\n").unwrap();
        give(&root.join("theirs.txt"), NOBODY, 0o600);
        fs::create_dir(root.join("closed")).unwrap();
        fs::write(root.join("closed/open.txt"), "theirs\n").unwrap();
        give(&root.join("closed"), NOBODY, 0o700);
    });
    assert_runs_as(&jail, 0);
    assert!(jail.log().contains("without any capability"), "it warns");
    let error = jail.read("theirs.txt").unwrap_err();
    assert_eq!(error.code(), "C216", "{error:?}");
    assert!(error.message().contains("permission denied"), "{error:?}");
    assert_eq!(jail.read("closed/open.txt").unwrap_err().code(), "C211");
}

#[test]
fn without_root_the_service_stays_who_it_is() {
    if process::is_root() {
        return;
    }
    let jail = TestJail::with_policy(COLD);
    let (_client, worker) = jail.connect_and_find_worker();
    assert_eq!(status(worker, "Uid"), status(std::process::id(), "Uid"));
}
