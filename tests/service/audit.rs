//! The audit from outside: whatever clients name and however the disk or the reader behaves, it is one true record per
//! line, the service goes on, and what was lost is counted.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod changes;
mod corpus;
mod described;
mod outcomes;
mod own;
mod pressure;
use crate::support;

use std::{fs, path::Path};

use support::{
    Client, Options, TestJail, Value,
    audit::records,
    json,
    peer::{NOBODY, connect_as},
    process::{self, eventually},
};

/// A policy whose audit is `log/audit.jsonl` beside the root.
fn policy(level: &str, more: &str) -> Options {
    let policy = format!(
        "[[root]]\npath = \"ROOT\"\n{more}\n[audit]\npath = \"ROOT/../log/audit.jsonl\"\nlevel = \"{level}\"\n"
    );
    Options { policy: Some(policy), ..Options::default() }
}

fn make_log_folder(root: &Path) {
    fs::create_dir(root.parent().unwrap().join("log")).unwrap();
}

fn start(options: Options) -> TestJail {
    TestJail::with_tree(options, make_log_folder)
}

fn audit_of(jail: &TestJail) -> Vec<Value> {
    let text = fs::read_to_string(jail.dir.path().join("log/audit.jsonl")).unwrap();
    records(&text[..text.rfind('\n').map_or(0, |newline| newline + 1)])
}

/// The records of a test's only connection, once it has ended. Others came before: the harness's, to see the service up.
fn of_connection(jail: &TestJail, client: Client) -> Vec<Value> {
    drop(client);
    let mut own = Vec::new();
    eventually("the connection has ended", || {
        own = audit_of(jail);
        let ended = own.iter().filter(|record| record["event"] == "ended").count();
        let last = own.iter().filter_map(|record| record["connection"].as_u64()).max();
        own.retain(|record| record["connection"].as_u64() == last);
        ended == 2
    });
    own
}

fn events(records: &[Value]) -> Vec<String> {
    let word = |record: &Value| {
        let detail =
            ["decision", "reported_code", "reported_outcome", "reason"].iter().find_map(|field| record[field].as_str());
        let event = record["event"].as_str().unwrap();
        detail.map_or(event.to_owned(), |detail| format!("{event} {detail}"))
    };
    records.iter().map(word).collect()
}

#[test]
fn each_level_has_what_it_says() {
    let levels = [
        ("denials", &["reported C215", "decided escape"][..]),
        ("decisions", &["accepted", "decided granted", "reported C215", "decided escape", "ended closed"]),
        ("all", &["accepted", "decided granted", "decided missing", "reported C215", "decided escape", "ended closed"]),
    ];
    for (level, expected) in levels {
        let jail = start(policy(level, ""));
        jail.write("file", "x");
        std::os::unix::fs::symlink("../outside", jail.root.join("link")).unwrap();
        let mut client = jail.connect();
        for path in ["file", "no/such/file", "../file", "link/deep"] {
            let _ = client.call("coder::read-file", json!({"path": path}));
        }
        let found = if level == "denials" {
            drop(client);
            eventually("both refusals are told", || audit_of(&jail).len() >= 2);
            events(&audit_of(&jail))
        } else {
            events(&of_connection(&jail, client))
        };
        assert_eq!(found, expected, "{level}");
    }
}

#[test]
fn every_record_says_who_and_under_which_confinement() {
    for confinement in ["kernel", "userspace"] {
        let options = policy("all", "");
        let text = format!("confinement = \"{confinement}\"\n{}", options.policy.unwrap());
        let jail = start(Options { policy: Some(text), ..Options::default() });
        let mut client = jail.connect();
        client.call("coder::list-folder", json!({})).unwrap();
        let records = of_connection(&jail, client);
        assert_eq!(events(&records), ["accepted", "decided granted", "ended closed"]);
        for record in &records {
            assert_eq!(record["uid"], rustix::process::geteuid().as_raw());
            assert_eq!(record["gid"], rustix::process::getegid().as_raw());
            assert_eq!(record["pid"], std::process::id());
            assert_eq!(record["level"], confinement);
        }
        assert_eq!(records[1]["root"], jail.root.to_str().unwrap());
        assert_eq!((&records[1]["path"], &records[1]["intent"]), (&json!(""), &json!("read")));
        assert_eq!(records[1]["reported_function"], "coder::list-folder");
    }
}

#[test]
fn a_connection_that_is_turned_away_is_told_with_its_reason() {
    let mut options = policy("denials", "");
    options.policy.as_mut().unwrap().push_str("[limits]\nmax_connections_per_uid = 1\n");
    let jail = start(options);
    let mut first = jail.connect();
    first.call("coder::info", json!({})).unwrap();
    let second = jail.connect().rest();
    eventually("it is told", || !audit_of(&jail).is_empty());
    let records = audit_of(&jail);
    assert_eq!((records.len(), &records[0]["event"]), (1, &json!("refused")));
    let told = &second[0]["error"]["data"];
    assert_eq!((&records[0]["code"], &records[0]["reason"]), (&told["code"], &told["message"]));
}

#[test]
fn a_stranger_is_told_with_its_uid() {
    if !process::runs_as_root("a_stranger_is_told_with_its_uid") {
        return;
    }
    let mut options = policy("denials", "[socket]\ngroup = \"root\"\nmode = \"0666\"");
    options.folder_mode = Some(0o755);
    let jail = start(options);
    let mut stranger = Client::on(connect_as(NOBODY, NOBODY, &jail.socket).unwrap());
    assert_eq!(stranger.rest().len(), 1);
    eventually("it is told", || !audit_of(&jail).is_empty());
    let record = &audit_of(&jail)[0];
    assert_eq!((&record["event"], &record["code"]), (&json!("refused"), &json!("C211")));
    assert_eq!((&record["uid"], &record["gid"]), (&json!(NOBODY), &json!(NOBODY)));
}

#[test]
fn inside_a_root_the_audit_is_a_denied_name() {
    let text = "[[root]]\npath = \"ROOT\"\n[audit]\npath = \"ROOT/audit.jsonl\"\n";
    let jail = TestJail::with_policy(text);
    for path in ["audit.jsonl", "./audit.jsonl", "sub/../audit.jsonl"] {
        assert_eq!(jail.read(path).unwrap_err().code(), "C211", "{path}");
    }
    let text = || fs::read_to_string(jail.root.join("audit.jsonl")).unwrap();
    eventually("the refusals are told", || {
        records(&text()).iter().filter(|record| record["event"] == "reported").count() == 3
    });
}

/// Whoever can write to the file could forge a record.
#[test]
fn an_audit_that_others_may_write_refuses_the_start_and_is_not_rotated_to() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestJail::directory();
    fs::create_dir(dir.path().join("root")).unwrap();
    let (audit, file) = (dir.path().join("audit.jsonl"), dir.path().join("policy.toml"));
    let root = dir.path().join("root");
    fs::write(&file, format!("[[root]]\npath = {root:?}\n[audit]\npath = {audit:?}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let open_to_all = |path: &Path| {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    };
    open_to_all(&audit);
    let socket = dir.path().join("run/s");
    let arguments = ["--policy", file.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
    let (status, said) = support::refused_start(&arguments, None);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("audit.jsonl") && said.contains("others may write to it"), "{said}");
    // One that somebody puts there later.
    let jail = start(policy("decisions", ""));
    let (log, old) = (jail.dir.path().join("log/audit.jsonl"), jail.dir.path().join("log/old"));
    fs::rename(&log, &old).unwrap();
    open_to_all(&log);
    process::signal(jail.daemon.pid(), process::Signal::HUP);
    eventually("it is refused", || jail.log().contains("others may write to it"));
    jail.write("file", "x");
    jail.read("file").unwrap();
    eventually("the old file is written to", || {
        records(&fs::read_to_string(&old).unwrap()).iter().any(|record| record["path"] == "file")
    });
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
}
