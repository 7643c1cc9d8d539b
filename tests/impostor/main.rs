//! Workers that are not what they say. This program is both: the claims, and, copied beside a `stockaded` under the
//! name `stockade-worker`, a worker that lies. A worker gets no arguments and no environment; the folder it lies in
//! tells it how to misbehave.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod crowd;
mod greedy;
mod reports;
#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    io::{Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use stockade::internals::{
    VERSION,
    broker::{
        CallId, Intent, Question,
        codec::{ChannelAnswer, ChannelQuestion, MAX_MESSAGE_BYTES, MAX_REASON_BYTES, ToSupervisor, ToWorker},
        setup::Setup,
    },
    confine::escape,
    sys::socket::{self, WaitMode},
};
use support::{
    Client, Options, TestJail, Value, bin_dir, daemon_command,
    process::{self, eventually},
    refused,
};

/// How long a second writer waits in vain.
const LEASE_WAIT: Duration = Duration::from_millis(800);

fn main() {
    let own = std::env::current_exe().unwrap();
    if own.file_name().is_some_and(|name| name == "stockade-worker") {
        return misbehave(own.parent().unwrap().file_name().unwrap().to_str().unwrap());
    }
    let claims: [(&str, fn()); 16] = [
        (
            "lost_workers_that_hoarded_do_not_exhaust_the_supervisor",
            greedy::lost_workers_that_hoarded_do_not_exhaust_the_supervisor,
        ),
        ("a_worker_of_another_version_is_refused", a_worker_of_another_version_is_refused),
        ("a_worker_without_proof_is_refused", a_worker_without_proof_is_refused),
        (
            "the_reason_of_a_worker_that_fails_is_reported_escaped_and_bounded",
            the_reason_of_a_worker_that_fails_is_reported_escaped_and_bounded,
        ),
        ("a_worker_that_talks_nonsense_at_its_start_is_refused", a_worker_that_talks_nonsense_at_its_start_is_refused),
        ("a_worker_that_talks_nonsense_is_killed", a_worker_that_talks_nonsense_is_killed),
        ("a_worker_gets_nothing_by_asking", a_worker_gets_nothing_by_asking),
        (
            "a_worker_that_lies_to_the_audit_lies_in_reports_alone",
            reports::a_worker_that_lies_to_the_audit_lies_in_reports_alone,
        ),
        (
            "a_worker_that_floods_the_audit_is_bounded_and_counted",
            reports::a_worker_that_floods_the_audit_is_bounded_and_counted,
        ),
        ("one_worker_at_a_time_may_write_a_name", one_worker_at_a_time_may_write_a_name),
        (
            "a_worker_that_dies_while_it_asks_leaves_no_lease_behind",
            a_worker_that_dies_while_it_asks_leaves_no_lease_behind,
        ),
        (
            "a_worker_that_waits_for_more_than_any_call_needs_is_killed",
            greedy::a_worker_that_waits_for_more_than_any_call_needs_is_killed,
        ),
        (
            "a_worker_that_hoards_names_is_bounded_and_others_write_on",
            greedy::a_worker_that_hoards_names_is_bounded_and_others_write_on,
        ),
        (
            "a_worker_that_hoards_memory_is_bounded_and_its_end_gives_it_back",
            greedy::a_worker_that_hoards_memory_is_bounded_and_its_end_gives_it_back,
        ),
        ("a_crowd_of_one_uid_takes_no_more_than_its_turns", crowd::a_crowd_of_one_uid_takes_no_more_than_its_turns),
        ("a_crowd_of_one_uid_leaves_a_warm_worker_to_others", crowd::a_crowd_of_one_uid_leaves_a_warm_worker_to_others),
    ];
    // As the ordinary harness: words that are no options choose among the claims.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, claim) in claims {
        if words.is_empty() || words.iter().any(|word| name.contains(word)) {
            claim();
            println!("test {name} ... ok");
        }
    }
}

// The worker's part.

struct Channel {
    stdin: std::io::Stdin,
    buffer: Vec<u8>,
}

impl Channel {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stdin.as_fd()
    }

    fn receive(&mut self) -> (ToWorker, Vec<OwnedFd>) {
        let received = socket::receive(self.stdin.as_fd(), &mut self.buffer, WaitMode::Block).unwrap();
        (ToWorker::decode(&self.buffer[..received.len]).unwrap(), received.fds)
    }

    fn send(&self, message: &ToSupervisor) {
        let _ = socket::send(self.fd(), &message.encode(), &[], WaitMode::Block);
    }

    fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let _ = socket::send(self.fd(), bytes, fds, WaitMode::Block);
    }
}

fn misbehave(how: &str) {
    let mut channel = Channel { stdin: std::io::stdin(), buffer: vec![0; 256 << 10] };
    let (ToWorker::Setup { json }, _roots) = channel.receive() else { return };
    let setup: Setup = serde_json::from_slice(&json).unwrap();
    // What a confined worker would report, without having tried anything.
    let probes: Vec<_> = escape::expected_attempts(&setup).map(|probe| (probe.id, probe.expected[0])).collect();
    let ready = ToSupervisor::Ready { version: VERSION.into(), escape_results: probes };
    match how {
        "version" => {
            return channel.send(&ToSupervisor::Ready { version: "9.9.9".into(), escape_results: Vec::new() });
        }
        "proofless" => {
            return channel.send(&ToSupervisor::Ready { version: VERSION.into(), escape_results: Vec::new() });
        }
        "failed" => return channel.send(&ToSupervisor::Failed { reason: "no\u{1b}[2J jail".into() }),
        "long-winded" => {
            let reason = "a".repeat(MAX_REASON_BYTES + 1);
            return channel.send(&ToSupervisor::Failed { reason });
        }
        "garbage" => return channel.send_bytes(b"\xff\xff\xff", &[]),
        "gift" => return channel.send_bytes(&ready.encode(), &[channel.fd()]),
        "hasty" => return channel.send(&question(0, b"a")),
        "slow" => {
            crowd::wait_at_the_gate(&setup);
            channel.send(&ready);
        }
        _ => channel.send(&ready),
    }
    let (ToWorker::Connection { .. }, mut connection) = channel.receive() else { return };
    let connection = connection.pop().unwrap();
    match how {
        "malformed" => channel.send_bytes(&[2, 0, 0], &[]),
        "oversized" => channel.send_bytes(&vec![2; MAX_MESSAGE_BYTES + 1], &[]),
        "attached" => channel.send_bytes(&question(0, b"a").encode(), &[channel.fd()]),
        "twice" => channel.send(&ready),
        "pong" => channel.send(&ToSupervisor::Pong { nonce: 7, overdue: 0, next_ms: 0 }),
        "hog" => (0..1000).for_each(|_| channel.send(&ToSupervisor::Reserve)),
        "greedy" => (0..100_000).for_each(|_| channel.send(&many_questions())),
        "liar" => return reports::lie(&channel),
        "flooder" => return reports::flood(&channel, connection),
        "writer" => return write_one_name(&mut channel, connection),
        "mortal" => return ask_and_die(&mut channel, connection),
        "obedient" => return greedy::obey(&mut channel, connection),
        "slow" => return crowd::serve(connection),
        "curious" => return ask_for_everything(&mut channel, connection),
        _ => unreachable!("{how}"),
    }
    // Killed, or the claim fails: this worker does not end by itself.
    std::thread::sleep(Duration::from_secs(60));
}

fn asked(root: u16, path: &[u8], intent: Intent) -> ChannelQuestion {
    ChannelQuestion {
        call: CallId(1),
        function: 1,
        deadline_ms: 1000,
        takes_leases: true,
        question: Question { root, path: path.to_vec(), intent },
    }
}

fn question(root: u16, path: &[u8]) -> ToSupervisor {
    ToSupervisor::Resolve { id: 1, questions: vec![asked(root, path, Intent::Read)] }
}

fn many_questions() -> ToSupervisor {
    let asked = (0..32).map(|n| asked(0, format!("d{n}/x").as_bytes(), Intent::Read)).collect();
    ToSupervisor::Resolve { id: 1, questions: asked }
}

/// One line per question to the client: what was asked, what came back.
fn ask_for_everything(channel: &mut Channel, connection: OwnedFd) {
    let mut client = std::os::unix::net::UnixStream::from(connection);
    for (root, path, intent) in [
        (0, "../outside/secret.txt", Intent::Read),
        (0, "../../../../etc/passwd", Intent::Read),
        (0, "/etc/passwd", Intent::Read),
        (0, "a/../../outside/secret.txt", Intent::Read),
        (0, "./a", Intent::Read),
        (0, "a//b", Intent::Read),
        (0, "link/secret.txt", Intent::Read),
        (0, "magic/root/etc/passwd", Intent::Read),
        (0, "a\0b", Intent::Read),
        (7, "a", Intent::Read),
        (0, ".env", Intent::Read),
        (0, "d0/server.key", Intent::Read),
        (0, "new.txt", Intent::Create),
        (0, "d0/x", Intent::Write),
        (0, "d0/x", Intent::Read),
        (1, ".GIT/hooks/x", Intent::Create),
        (1, "a/.vscode/x", Intent::Edit),
        (1, ".git", Intent::Write),
        (1, ".git/config", Intent::Read),
    ] {
        channel.send(&ToSupervisor::Resolve { id: 1, questions: vec![asked(root, path.as_bytes(), intent)] });
        let (ToWorker::Answers { answers, .. }, fds) = channel.receive() else { panic!("no answer") };
        let answer = match &answers[0] {
            ChannelAnswer::Refused(refusal) => format!("{refusal:?}"),
            ChannelAnswer::Parent { path, .. } => format!("parent of {}", String::from_utf8_lossy(path)),
        };
        let line = serde_json::json!({"asked": path, "answer": answer, "descriptors": fds.len()});
        writeln!(client, "{line}").unwrap();
    }
}

/// Asks once, tells the client, and keeps what it got for as long as the client stays.
fn write_one_name(channel: &mut Channel, connection: OwnedFd) {
    let mut client = std::os::unix::net::UnixStream::from(connection);
    let asked = ChannelQuestion { deadline_ms: LEASE_WAIT.as_millis() as u32, ..asked(0, b"d0/x", Intent::Write) };
    channel.send(&ToSupervisor::Resolve { id: 1, questions: vec![asked] });
    let (ToWorker::Answers { answers, .. }, _fds) = channel.receive() else { panic!("no answer") };
    let answer = match &answers[0] {
        ChannelAnswer::Refused(refusal) => format!("{refusal:?}"),
        ChannelAnswer::Parent { lease, .. } => {
            format!("lease {}", if *lease == 0 { "missing" } else { "granted" })
        }
    };
    writeln!(client, "{}", serde_json::json!({"answer": answer})).unwrap();
    let _ = client.read(&mut [0]);
}

/// Ends with its question on the way, if the client says so.
fn ask_and_die(channel: &mut Channel, connection: OwnedFd) {
    let mut client = std::os::unix::net::UnixStream::from(connection);
    let mut order = [0];
    let _ = client.read(&mut order);
    if order == *b"d" {
        let asked = vec![asked(0, b"d0/x", Intent::Write)];
        return channel.send(&ToSupervisor::Resolve { id: 1, questions: asked });
    }
    write_one_name(channel, client.into());
}

// The claims.

/// A copy of `stockaded` with this program as its worker. The folder is the way to misbehave.
fn installation(dir: &Path, how: &str) -> PathBuf {
    let bin = dir.join(how);
    fs::create_dir(&bin).unwrap();
    fs::copy(bin_dir(false).join("stockaded"), bin.join("stockaded")).unwrap();
    fs::copy(std::env::current_exe().unwrap(), bin.join("stockade-worker")).unwrap();
    bin
}

fn refused_start(how: &str) -> String {
    let dir = TestJail::directory();
    fs::create_dir(dir.path().join("root")).unwrap();
    let bin = installation(dir.path(), how);
    let mut command = daemon_command(None, &[], Some(&bin));
    command.arg("--root").arg(dir.path().join("root")).arg("--socket").arg(dir.path().join("run/s"));
    let (code, said) = refused(&mut command);
    assert_eq!(code, Some(4), "{how}: {said}");
    said
}

fn a_worker_of_another_version_is_refused() {
    let said = refused_start("version");
    assert!(said.contains("9.9.9") && said.contains(VERSION), "{said}");
}

fn a_worker_without_proof_is_refused() {
    assert!(refused_start("proofless").contains("the jail does not hold"));
}

fn the_reason_of_a_worker_that_fails_is_reported_escaped_and_bounded() {
    let said = refused_start("failed");
    assert!(said.contains("could not confine itself; it reports"), "{said}");
    assert!(said.contains("u{1b}[2J jail") && !said.contains('\u{1b}'), "{said}");
    assert!(refused_start("long-winded").contains("malformed"));
}

fn a_worker_that_talks_nonsense_at_its_start_is_refused() {
    assert!(refused_start("garbage").contains("malformed"));
    assert!(refused_start("gift").contains("descriptor"));
    assert!(refused_start("hasty").contains("before it was confined"));
}

fn a_worker_that_talks_nonsense_is_killed() {
    for (how, reason) in [
        ("malformed", "malformed"),
        ("oversized", "os error"),
        ("attached", "descriptor"),
        ("twice", "ready twice"),
        ("pong", "ping that was not sent"),
        ("greedy", "does not"),
        ("hog", "reserves more memory than a line needs"),
    ] {
        let installed = TestJail::directory();
        let options = Options {
            policy: Some("[[root]]\npath = \"ROOT\"\n[workers]\npool = 0\n".into()),
            bin: Some(installation(installed.path(), how)),
            ..Options::default()
        };
        let jail = TestJail::with_tree(options, |root| {
            (0..32).for_each(|n| fs::create_dir(root.join(format!("d{n}"))).unwrap());
        });
        let before = process::is_root().then(|| process::settled_open_files(jail.daemon.pid()));
        // It serves the next one, and the one after that: nothing is left of those before.
        for _ in 0..3 {
            let mut client = jail.connect();
            let line = client.line().expect("one last line");
            assert_eq!((&line["id"], &line["error"]["data"]["code"]), (&Value::Null, &"C216".into()), "{how}: {line}");
            assert_eq!(client.line(), None);
            eventually("the worker is gone", || jail.daemon.workers().is_empty());
        }
        eventually("the log says why", || jail.log().contains("ProtocolViolation") && jail.log().contains(reason));
        let ended = |record: &Value| record["reason"].as_str().is_some_and(|why| why.starts_with("nonsense: "));
        eventually("the audit, too", || jail.audit().iter().filter(|record| ended(record)).count() >= 3);
        if let Some(before) = before {
            eventually("no descriptor is left", || process::open_files(jail.daemon.pid()) == before);
        }
    }
}

/// The worker's own checks are gone; the supervisor's are not.
fn a_worker_gets_nothing_by_asking() {
    let installed = TestJail::directory();
    let options = Options {
        policy: Some(
            "[[root]]\npath = \"ROOT\"\nmode = \"ro\"\n[[root]]\npath = \"ROOT/rw\"\nallow_nested = true\n\
             [protect]\nread_only_globs = [\"**/.vscode\", \"**/.git\"]\n[workers]\npool = 0\n"
                .into(),
        ),
        bin: Some(installation(installed.path(), "curious")),
        ..Options::default()
    };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir(root.join("d0")).unwrap();
        fs::write(root.join("d0/x"), "x").unwrap();
        fs::create_dir_all(root.join("rw/.git")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/proc/self", root.join("magic")).unwrap();
    });
    let mut text = String::new();
    Client::connect(&jail.socket).stream.read_to_string(&mut text).unwrap();
    let answers: Vec<(String, String, u64)> = text
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let word = |key: &str| line[key].as_str().unwrap().to_owned();
            (word("asked"), word("answer"), line["descriptors"].as_u64().unwrap())
        })
        .collect();
    let expected = [
        ("../outside/secret.txt", "Escape", 0),
        ("../../../../etc/passwd", "Escape", 0),
        ("/etc/passwd", "Escape", 0),
        ("a/../../outside/secret.txt", "Escape", 0),
        ("./a", "Escape", 0),
        ("a//b", "Escape", 0),
        ("link/secret.txt", "Escape", 0),
        ("magic/root/etc/passwd", "Escape", 0),
        ("a\0b", "Escape", 0),
        ("a", "Escape", 0),
        (".env", "Denied", 0),
        ("d0/server.key", "Denied", 0),
        ("new.txt", "ReadOnly", 0),
        ("d0/x", "ReadOnly", 0),
        ("d0/x", "parent of d0/x", 1),
        (".GIT/hooks/x", "Protected(1)", 0),
        ("a/.vscode/x", "Protected(0)", 0),
        (".git", "Protected(1)", 0),
        (".git/config", "parent of .git/config", 1),
    ]
    .map(|(asked, answer, fds)| (asked.to_owned(), answer.to_owned(), fds));
    assert_eq!(answers, expected);
    assert_decisions_are_told(&jail, &expected);
    jail.canaries.assert_untouched();
}

/// Each answer of the supervisor is a record with the code that a client hears for it.
fn assert_decisions_are_told(jail: &TestJail, answers: &[(String, String, u64)]) {
    let expected: Vec<(&str, &str, Value)> = answers
        .iter()
        .map(|(asked, answer, _)| match answer.as_str() {
            "Escape" => (asked.as_str(), "escape", "C215".into()),
            "Denied" => (asked.as_str(), "denied", "C211".into()),
            "ReadOnly" => (asked.as_str(), "read-only", "C221".into()),
            "Protected(0)" | "Protected(1)" => (asked.as_str(), "protected", "C221".into()),
            _ => (asked.as_str(), "granted", Value::Null),
        })
        .collect();
    eventually("every answer is told", || {
        let records = jail.audit();
        let last = records.iter().map(|record| record["connection"].as_u64().unwrap()).max();
        let decided: Vec<_> = records
            .iter()
            .filter(|record| record["event"] == "decided" && record["connection"].as_u64() == last)
            .map(|record| {
                let text = |field: &str| record[field].as_str().unwrap();
                (text("path"), text("decision"), record["code"].clone())
            })
            .collect();
        decided == expected
    });
}

/// `if_match` has one winner because the name has one writer, whatever the workers do.
fn one_worker_at_a_time_may_write_a_name() {
    let installed = TestJail::directory();
    let options = Options {
        policy: Some("[[root]]\npath = \"ROOT\"\n[workers]\npool = 0\n".into()),
        bin: Some(installation(installed.path(), "writer")),
        ..Options::default()
    };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir(root.join("d0")).unwrap();
        fs::write(root.join("d0/x"), "x").unwrap();
    });
    let answer = |client: &mut Client| client.line().unwrap()["answer"].as_str().unwrap().to_owned();
    let mut first = jail.connect();
    assert_eq!(answer(&mut first), "lease granted");
    let start = Instant::now();
    assert_eq!(answer(&mut jail.connect()), "Busy");
    assert!(start.elapsed() >= LEASE_WAIT, "it waits within its deadline");
    let mut waiting = jail.connect();
    std::thread::sleep(LEASE_WAIT / 4);
    // The worker is gone with its client, and its lease with the worker.
    drop(first);
    assert_eq!(answer(&mut waiting), "lease granted");
}

fn a_worker_that_dies_while_it_asks_leaves_no_lease_behind() {
    let installed = TestJail::directory();
    let options = Options {
        policy: Some("[[root]]\npath = \"ROOT\"\n[workers]\npool = 0\n".into()),
        bin: Some(installation(installed.path(), "mortal")),
        ..Options::default()
    };
    let jail = TestJail::with_tree(options, |root| fs::create_dir(root.join("d0")).unwrap());
    for round in 0..20 {
        let mut dying = jail.connect();
        dying.send_bytes(b"d");
        assert_eq!(dying.rest(), [] as [Value; 0], "it ends by itself");
        let mut next = jail.connect();
        next.send_bytes(b"w");
        assert_eq!(next.line().unwrap()["answer"], "lease granted", "round {round}");
    }
}
