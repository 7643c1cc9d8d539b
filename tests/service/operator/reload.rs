//! SIGHUP: what it changes, for whom, and what it refuses.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::support::{
    Client, Options, TestJail, json,
    process::{self, Signal, eventually},
};

const ROOT: &str = "[[root]]\npath = \"ROOT\"\n";
const RELOADED: &str = "the policy was reloaded";
const REFUSED: &str = "the policy was not reloaded";

struct Reloaded {
    jail: TestJail,
}

impl Reloaded {
    fn new(policy: &str) -> Self {
        let options = Options { policy: Some(policy.into()), ..Options::default() };
        let jail = TestJail::with_tree(options, |root| {
            fs::write(root.join("note.txt"), "a note\n").unwrap();
            fs::write(root.join("other.txt"), "another\n").unwrap();
            fs::create_dir(root.with_file_name("root-two")).unwrap();
            fs::write(root.with_file_name("root-two").join("two.txt"), "two\n").unwrap();
        });
        Self { jail }
    }

    fn policy(&self) -> PathBuf {
        self.jail.dir.path().join("policy.toml")
    }

    /// As an editor does it: another file under the same name.
    fn replace(&self, policy: &str) {
        let new = self.jail.dir.path().join("policy.new");
        fs::write(&new, policy.replace("ROOT", self.jail.root.to_str().unwrap())).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(new, self.policy()).unwrap();
    }

    fn said(&self, text: &str) -> usize {
        self.jail.log().matches(text).count()
    }

    fn hang_up_until(&self, text: &str) {
        let before = self.said(text);
        process::signal(self.jail.daemon.pid(), Signal::HUP);
        eventually(text, || self.said(text) > before);
    }

    fn reload(&self, policy: &str) {
        self.replace(policy);
        self.hang_up_until(RELOADED);
    }

    /// Refused, for a reason in which all the texts occur; what was in force still is.
    #[track_caller]
    fn assert_refused(&self, texts: &[&str]) {
        self.hang_up_until(REFUSED);
        let log = self.jail.log();
        let line = log.lines().rfind(|line| line.contains(REFUSED)).unwrap();
        for text in texts {
            assert!(line.contains(text), "{text:?} is missing in {line}");
        }
        assert!(line.contains("the old one stays"), "{line}");
        assert_eq!(read(&mut self.jail.connect(), "note.txt"), Ok("a note\n".into()));
    }
}

fn read(client: &mut Client, path: &str) -> Result<String, String> {
    let result = client.call("coder::read-file", json!({ "path": path }));
    result.map(|read| read["content"].as_str().unwrap().into()).map_err(|failure| failure.code())
}

fn limit(client: &mut Client, name: &str) -> u64 {
    client.call("coder::info", json!({})).unwrap()[name].as_u64().unwrap()
}

fn with_limit(limit: &str) -> String {
    format!("{ROOT}[limits]\n{limit}\n")
}

#[test]
fn limits_reach_connections_that_are_there() {
    let service = Reloaded::new(ROOT);
    let mut client = service.jail.connect();
    assert_eq!(limit(&mut client, "max_read_bytes"), 10 << 20);
    service.reload(&with_limit("max_read_bytes = 3\nmax_frame_bytes = 65536\nmax_calls_in_flight = 1"));
    eventually("the limits arrive", || limit(&mut client, "max_read_bytes") == 3);
    assert_eq!(read(&mut client, "note.txt"), Err("C213".into()));
    assert_eq!(limit(&mut service.jail.connect(), "max_read_bytes"), 3, "and new ones");
    // The longest line counts as well: one that was fine a moment ago ends the connection.
    client.send_line(&" ".repeat(70_000));
    let lines = client.rest();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["error"]["data"]["code"], "C213");
}

/// A process cannot raise the size of files it may write: the kernel's limit was set before it served.
#[test]
fn a_larger_write_limit_is_for_new_connections_and_a_smaller_one_for_all() {
    let service = Reloaded::new(&with_limit("max_write_bytes = 1000"));
    let mut client = service.jail.connect();
    service.reload(&with_limit("max_write_bytes = 2000\nmax_read_bytes = 5000"));
    eventually("the limits arrive", || limit(&mut client, "max_read_bytes") == 5000);
    assert_eq!(limit(&mut client, "max_write_bytes"), 1000);
    assert_eq!(limit(&mut service.jail.connect(), "max_write_bytes"), 2000);
    service.reload(&with_limit("max_write_bytes = 500"));
    eventually("the limits arrive", || limit(&mut client, "max_write_bytes") == 500);
}

#[test]
fn a_call_that_runs_keeps_running_with_the_limits_it_began_with() {
    let service = Reloaded::new(ROOT);
    fs::File::create(service.jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
    let mut client = service.jail.connect();
    let start = Instant::now();
    client.send_line(
        &json!({"jsonrpc": "2.0", "id": "long", "method": "coder::read-file", "timeout_ms": 2500,
            "params": {"path": "giant", "stat": true, "count_lines": true}})
        .to_string(),
    );
    std::thread::sleep(Duration::from_millis(100));
    service.reload(&with_limit("call_timeout_ms = 200\ncall_timeout_max_ms = 200"));
    let reply = client.line().unwrap();
    assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!("long"), &json!("C220")), "{reply}");
    assert!(start.elapsed() >= Duration::from_millis(2500), "its own deadline ended it: {:?}", start.elapsed());
    assert_eq!(limit(&mut client, "call_timeout_max_ms"), 200, "and the next call has the new one");
}

#[test]
fn deny_globs_are_for_new_connections() {
    let service = Reloaded::new(ROOT);
    let mut old = service.jail.connect();
    assert_eq!(read(&mut old, "note.txt"), Ok("a note\n".into()));
    service.reload(&format!("{ROOT}[deny]\nnon_accessible_globs = [\"note.txt\"]\n"));
    assert_eq!(read(&mut service.jail.connect(), "note.txt"), Err("C211".into()));
    assert_eq!(read(&mut service.jail.connect(), "other.txt"), Ok("another\n".into()));
    assert_eq!(read(&mut old, "note.txt"), Ok("a note\n".into()));
}

#[test]
fn peers_are_for_new_connections() {
    let service = Reloaded::new(ROOT);
    let mut old = service.jail.connect();
    assert_eq!(read(&mut old, "note.txt"), Ok("a note\n".into()));
    // By name, too: a confined supervisor remembers the accounts.
    service.reload(&format!("{ROOT}[[peer]]\nuser = \"daemon\"\n"));
    let lines = service.jail.connect().rest();
    assert_eq!(lines[0]["error"]["data"]["code"], "C211", "{lines:?}");
    assert_eq!(read(&mut old, "note.txt"), Ok("a note\n".into()), "who is served stays served");
}

/// The supervisor confines itself before it knows what a later policy gives to whom.
#[test]
fn a_peer_may_get_a_root_that_nobody_had() {
    let uid = rustix::process::geteuid().as_raw();
    let roots = format!("{ROOT}[[root]]\npath = \"ROOT-two\"\n[[peer]]\nuid = {uid}\n");
    let service = Reloaded::new(&format!("{roots}roots = [\"ROOT\"]\nmode = \"ro\"\n"));
    let two = service.jail.dir.path().join("root-two/two.txt");
    let two = two.to_str().unwrap();
    assert_eq!(read(&mut service.jail.connect(), two), Err("C215".into()));
    service.reload(&roots);
    assert_eq!(read(&mut service.jail.connect(), two), Ok("two\n".into()));
    let info = service.jail.connect().call("coder::info", json!({})).unwrap();
    assert_eq!((&info["roots"][0]["mode"], &info["roots"][1]["mode"]), (&json!("rw"), &json!("rw")));
}

#[test]
fn a_bad_policy_is_refused_whole() {
    let service = Reloaded::new(ROOT);
    let mut old = service.jail.connect();
    let bad = [
        ("[limits\n".to_owned(), &["policy.toml:1:"][..]),
        (with_limit("max_read_bytes = 3\nmax_raed_bytes = 3"), &["policy.toml:5:1", "max_read_bytes"]),
        (with_limit("max_read_bytes = 3\nmax_frame_bytes = 1"), &["policy.toml:5:19", "out of range"]),
        (
            with_limit("max_read_bytes = 3\n[[peer]]\nuser = \"no-such-user\""),
            &["no-such-user", "those of the service's start"],
        ),
        (with_limit("max_read_bytes = 3\n[[peer]]\nuid = 1\nroots = [\"/elsewhere\"]"), &["/elsewhere"]),
        (
            with_limit(&format!("max_read_bytes = 3\n[exclude]\ndefault_exclude_globs = [{}]", many_globs())),
            &["set-up"],
        ),
    ];
    for (policy, texts) in bad {
        service.replace(&policy);
        service.assert_refused(texts);
        assert_eq!(limit(&mut old, "max_read_bytes"), 10 << 20);
    }
    fs::set_permissions(service.policy(), fs::Permissions::from_mode(0o666)).unwrap();
    service.assert_refused(&["chmod o-w"]);
    fs::remove_file(service.policy()).unwrap();
    service.assert_refused(&["policy.toml"]);
    service.reload(&with_limit("max_read_bytes = 3"));
    eventually("a good one is taken again", || limit(&mut old, "max_read_bytes") == 3);
}

/// Valid one by one, and more than a worker's set-up message holds.
fn many_globs() -> String {
    (0..3000).map(|n| format!("\"**/{}{n}/**\",", "x".repeat(60))).collect()
}

#[test]
fn what_needs_a_restart_is_refused_with_the_advice() {
    let service = Reloaded::new(ROOT);
    let limits = "[limits]\nmax_read_bytes = 3\n";
    let audit = service.jail.dir.path().join("audit.jsonl");
    for (policy, key) in [
        (format!("{ROOT}[[root]]\npath = \"ROOT-two\"\n{limits}"), "[[root]]"),
        (format!("{ROOT}mode = \"ro\"\n{limits}"), "[[root]]"),
        (format!("confinement = \"userspace\"\n{ROOT}{limits}"), "confinement"),
        (format!("min_landlock_abi = 4\n{ROOT}{limits}"), "min_landlock_abi"),
        (format!("{ROOT}{limits}[audit]\npath = {audit:?}\n"), "[audit]"),
    ] {
        service.replace(&policy);
        service.assert_refused(&[key, "restart it"]);
        assert_eq!(limit(&mut service.jail.connect(), "max_read_bytes"), 10 << 20, "nothing of it is taken");
    }
}

/// A link is followed as far as the policy's folder reaches, which is what the supervisor kept.
#[test]
fn a_policy_that_leads_out_of_its_folder_is_refused() {
    let service = Reloaded::new(ROOT);
    let elsewhere = TestJail::directory();
    let target = elsewhere.path().join("policy.toml");
    fs::write(&target, with_limit("max_read_bytes = 3").replace("ROOT", service.jail.root.to_str().unwrap())).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(service.policy()).unwrap();
    std::os::unix::fs::symlink(&target, service.policy()).unwrap();
    service.assert_refused(&["policy.toml", "link"]);
    let inside = service.jail.dir.path().join("inside.toml");
    fs::rename(&target, &inside).unwrap();
    fs::remove_file(service.policy()).unwrap();
    std::os::unix::fs::symlink("inside.toml", service.policy()).unwrap();
    service.hang_up_until(RELOADED);
    assert_eq!(limit(&mut service.jail.connect(), "max_read_bytes"), 3);
}

#[test]
fn idle_workers_are_replaced() {
    let service = Reloaded::new(ROOT);
    let workers = || service.jail.daemon.workers();
    eventually("the pool is warm", || workers().len() == 2);
    let before = workers();
    service.reload(&format!("{ROOT}[workers]\npool = 3\n"));
    eventually("the pool has its new size", || {
        let now = workers();
        now.len() == 3 && before.iter().all(|old| !now.contains(old))
    });
}

#[test]
fn nothing_is_lost_while_the_policy_is_reloaded_again_and_again() {
    let service = Reloaded::new(ROOT);
    let until = Instant::now() + Duration::from_secs(3);
    let mut reloads = 0;
    std::thread::scope(|scope| {
        let client = |_| {
            let jail = &service.jail;
            scope.spawn(move || {
                let mut calls = 0;
                while Instant::now() < until {
                    // A connection of its own for a few calls: some are in the middle of a reload.
                    let mut client = jail.connect();
                    for _ in 0..5 {
                        assert_eq!(read(&mut client, "note.txt"), Ok("a note\n".into()));
                        calls += 1;
                    }
                }
                calls
            })
        };
        let clients: Vec<_> = (0..3).map(client).collect();
        while Instant::now() < until {
            let globs = if reloads % 2 == 0 { "[\"other.txt\"]" } else { "[]" };
            service.reload(&format!("{ROOT}[deny]\nnon_accessible_globs = {globs}\n"));
            reloads += 1;
        }
        let calls: u32 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        println!("{calls} calls, {reloads} reloads");
        assert!(calls > 0);
    });
    assert!(reloads > 1);
    service.jail.assert_intact();
}

fn records(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn a_rotated_audit_is_reopened() {
    let service = Reloaded::new(&format!("{ROOT}[audit]\npath = \"ROOT.audit\"\n"));
    let audit = service.jail.dir.path().join("root.audit");
    let rotated = service.jail.dir.path().join("root.audit.1");
    service.jail.read("note.txt").unwrap();
    eventually("it is in the audit", || records(&audit) > 0);
    fs::rename(&audit, &rotated).unwrap();
    process::signal(service.jail.daemon.pid(), Signal::HUP);
    eventually("a new file is begun", || audit.exists());
    let before = records(&rotated);
    service.jail.read("note.txt").unwrap();
    eventually("which is written to", || records(&audit) > 0);
    assert_eq!(records(&rotated), before);
    // Also when the policy itself is refused.
    fs::remove_file(&audit).unwrap();
    service.replace("nonsense");
    service.hang_up_until(REFUSED);
    service.jail.read("note.txt").unwrap();
    eventually("which is written to", || records(&audit) > 0);
}

#[test]
fn without_a_policy_file_there_is_nothing_to_reload() {
    let jail = TestJail::new();
    process::signal(jail.daemon.pid(), Signal::HUP);
    eventually("it says so", || jail.log().contains("there is no policy file to reload"));
    jail.assert_intact();
}
