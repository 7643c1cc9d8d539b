//! Recovery that fails: the names of the interrupted batch answer C222 until it succeeds, writes of them wait, all other
//! names are served, and the log says why.

use std::{fs, path::Path, process::Command};

use super::{
    scenario::{content, find, outline, snapshot},
    space::{on_small_disk, remount},
    support::{
        COLD, Client, Options, TestJail, Value, json,
        process::{self, Signal, eventually},
    },
};

/// Stops before every call that changes something.
const STOPS: &str = "stop:0";

fn read(client: &mut Client, path: &str) -> Result<Value, String> {
    let reply = client.call("coder::read-file", json!({ "path": path }));
    reply.map(|reply| reply["content"].clone()).map_err(|failure| failure.code())
}

/// A service without warm workers, whose workers have this fault.
fn cold(fault: &str) -> Options {
    Options { fault: Some(fault.into()), policy: Some(COLD.into()), in_memory: true, ..Options::default() }
}

/// A batch of a worker that stands still right after it has put the new content under the name `old`.
fn begin_batch(jail: &TestJail, root: &Path) -> (Client, u32) {
    let scenario = find("atomic create");
    let (mut client, worker) = jail.connect_and_find_worker();
    client.send(scenario.function, (scenario.params)());
    while fs::read_to_string(root.join("old")).unwrap() == content('o') {
        assert!(process::stands_still(worker, &mut client), "the batch ended before it changed anything");
        process::signal(worker, Signal::CONT);
    }
    assert!(process::stands_still(worker, &mut client), "the batch is complete");
    (client, worker)
}

fn kill(pid: u32) {
    process::signal(pid, Signal::KILL);
    eventually("it is dead", || !process::is_alive(pid));
}

fn assert_unsettled(other: &mut Client) {
    for path in ["old", "n/e/w", "n/too"] {
        assert_eq!(read(other, path), Err("C222".into()), "{path}");
    }
    assert_eq!(read(other, "tree/a"), Ok(json!("a")), "another name is served");
}

fn create_old(client: &mut Client, timeout_ms: u64) -> u64 {
    let call = json!({"jsonrpc": "2.0", "id": 77, "method": "coder::create-file", "timeout_ms": timeout_ms,
        "params": {"files": [{"path": "old", "content": "later", "overwrite": true}]}});
    client.send_line(&call.to_string());
    77
}

#[test]
fn names_that_cannot_be_undone_are_refused_until_they_can() {
    let test = "names_that_cannot_be_undone_are_refused_until_they_can";
    let Some((jail, root)) = on_small_disk(test, "size=8m", Some(STOPS)) else { return };
    let scenario = find("atomic create");
    (scenario.plant)(&root);
    let mut other = jail.connect();
    assert_eq!(read(&mut other, "old"), Ok(json!(content('o'))));
    let mut writer = jail.connect();
    writer.call("coder::info", json!({})).expect("served");
    let (mut client, worker) = begin_batch(&jail, &root);
    // Recovery must not begin before the disk is read-only, which needs the journal to be closed.
    process::signal(jail.daemon.pid(), Signal::STOP);
    kill(worker);
    assert!(remount(&jail, "ro"));
    process::signal(jail.daemon.pid(), Signal::CONT);
    let last = client.line().expect("one last line");
    assert_eq!(last["error"]["data"]["code"], "C216", "{last}");
    assert_unsettled(&mut other);
    let refused = create_old(&mut other, 300);
    let reply = other.reply_to(refused).expect("answered");
    assert_eq!(reply["results"][0]["error"]["code"], "C222", "{reply}");
    eventually("the log says why", || jail.log().contains("an interrupted change could not be undone"));
    let waits = create_old(&mut writer, 60_000);
    assert!(remount(&jail, "rw"));
    eventually("the names are settled", || read(&mut other, "n/too") == Err("C211".into()));
    // The writer's own worker stops at each of its steps as well.
    eventually("the write that waited is answered", || {
        jail.daemon.workers().iter().for_each(|worker| process::signal(*worker, Signal::CONT));
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recv(&writer.stream, &mut [0u8; 1], flags).is_ok()
    });
    let reply = writer.reply_to(waits).expect("answered");
    assert_eq!(reply["results"][0]["success"], true, "{reply}");
    assert_eq!(fs::read_to_string(root.join("old")).unwrap(), "later");
    assert!(!root.join("n").exists(), "the batch was undone");
    jail.assert_intact();
}

#[test]
fn without_a_worker_recovery_is_repeated_until_there_is_one() {
    let scenario = find("atomic create");
    let jail = TestJail::with_tree(cold(STOPS), |root| (scenario.plant)(root));
    let mut other = jail.connect();
    other.call("coder::info", json!({})).expect("served");
    let (client, worker) = begin_batch(&jail, &jail.root);
    let limit = |files: u32| {
        let pid = jail.daemon.pid().to_string();
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:")]).status();
        assert!(set.unwrap().success());
    };
    // Below the number of open descriptors: none can be opened any more, so no worker can be started.
    limit(8);
    kill(worker);
    eventually("the log says why", || jail.log().contains("recovery failed"));
    for path in ["old", "n/e/w", "n/too"] {
        assert_eq!(read(&mut other, path), Err("C222".into()), "{path}");
    }
    limit(1024);
    eventually("the names are settled", || read(&mut other, "old").is_ok());
    assert_eq!(read(&mut other, "old"), Ok(json!(content('o'))));
    let found = snapshot(&jail.root);
    assert_eq!(found, scenario.allowed()[0], "{:#?}", outline(&found));
    drop(client);
    jail.assert_intact();
}

#[test]
fn a_start_whose_recovery_fails_serves_no_half_of_a_batch() {
    let scenario = find("atomic create");
    let mut jail = TestJail::with_tree(cold(STOPS), |root| (scenario.plant)(root));
    let (_client, worker) = begin_batch(&jail, &jail.root);
    kill(jail.daemon.pid());
    eventually("the worker dies with its supervisor", || !process::is_alive(worker));
    jail.restart(&cold("recover:EIO:0:exchange"));
    let mut other = jail.connect();
    assert_unsettled(&mut other);
    assert!(jail.log().contains("an interrupted change could not be undone"));
    drop(other);
    jail.restart(&cold(""));
    let mut other = jail.connect();
    assert_eq!(read(&mut other, "old"), Ok(json!(content('o'))));
    assert_eq!(snapshot(&jail.root), scenario.allowed()[0]);
    jail.assert_intact();
}

/// A new policy may deny what the interrupted batch has replaced. Its old content is kept until it can go back.
#[test]
fn what_is_denied_since_is_not_destroyed() {
    let scenario = find("atomic create");
    let mut jail = TestJail::with_tree(cold(STOPS), |root| (scenario.plant)(root));
    let (client, worker) = begin_batch(&jail, &jail.root);
    jail.daemon.child.kill().unwrap();
    jail.daemon.child.wait().unwrap();
    eventually("the worker dies with its supervisor", || !process::is_alive(worker));
    let denies = format!("{COLD}[deny]\nnon_accessible_globs = [\"old\"]\n");
    jail.restart(&Options { policy: Some(denies), ..Options::default() });
    jail.call("coder::info", json!({})).expect("served");
    jail.restart(&Options { policy: Some(COLD.into()), ..Options::default() });
    jail.call("coder::info", json!({})).expect("served");
    let found = snapshot(&jail.root);
    assert_eq!(found, scenario.allowed()[0], "{:#?}", outline(&found));
    drop(client);
    jail.assert_intact();
}
