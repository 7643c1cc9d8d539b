//! A mount inside a root that no longer answers, as a network file system does whose server is gone.

use std::time::{Duration, Instant};

use crate::support::{
    Client, Options, TestJail, Value,
    fuse::{Dead, Fuse},
    json,
    process::{self, Signal, eventually, is_alive, runs_as_root, skip},
};

const POLICY: &str = "[[root]]\npath = \"ROOT\"\ncross_mounts = true\n[workers]\npool = 0\n";

/// A service whose root holds `dead/folder/file`; its mount point has to be there before the namespace is.
fn with_dead_mount(test: &str, dead: Dead) -> Option<(TestJail, Fuse, tempfile::TempDir)> {
    if !runs_as_root(test) {
        return None;
    }
    let place = TestJail::directory();
    let at = place.path().join("dead");
    std::fs::create_dir(&at).unwrap();
    let Some(fuse) = Fuse::mount(&at, dead) else {
        skip(&format!("{test} needs /dev/fuse"));
        return None;
    };
    let policy = POLICY.replace("ROOT", place.path().to_str().unwrap());
    let jail = TestJail::with(Options { policy: Some(policy), through: fuse.through(), ..Options::default() });
    std::fs::write(place.path().join("note.txt"), "a note\n").unwrap();
    Some((jail, fuse, place))
}

fn send_read(client: &mut Client, id: &str, path: &str, timeout_ms: u64) {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "coder::read-file", "timeout_ms": timeout_ms,
        "params": {"path": path}});
    client.send_line(&call.to_string());
}

fn assert_others_are_served(jail: &TestJail) {
    let start = Instant::now();
    let mut other = jail.connect();
    for _ in 0..20 {
        assert_eq!(other.call("coder::read-file", json!({"path": "note.txt"})).unwrap()["content"], "a note\n");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// The worker's thread sits in the kernel. Its sentinel answers for it, and the other threads go on, until the
/// supervisor ends them all.
#[test]
fn a_read_that_never_returns_is_answered_at_its_deadline_and_its_worker_is_killed() {
    let test = "a_read_that_never_returns_is_answered_at_its_deadline_and_its_worker_is_killed";
    let Some((jail, fuse, _place)) = with_dead_mount(test, Dead::Reads) else { return };
    let (mut client, worker) = jail.connect_and_find_worker();
    let start = Instant::now();
    send_read(&mut client, "dead", "dead/folder/file", 1000);
    eventually("the file system is asked", || fuse.unanswered() > 0);
    send_read(&mut client, "alive", "note.txt", 30_000);
    let reply = client.line().unwrap();
    assert_eq!((&reply["id"], &reply["result"]["content"]), (&json!("alive"), &json!("a note\n")), "{reply}");
    let reply = client.line().unwrap();
    assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!("dead"), &json!("C220")), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("file system did not answer"), "{reply}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_others_are_served(&jail);
    let last = client.line().expect("one last line");
    assert_eq!((&last["id"], &last["error"]["data"]["code"]), (&Value::Null, &json!("C220")), "{last}");
    assert!((5..18).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    eventually("the worker is gone", || !is_alive(worker));
    jail.assert_intact();
}

/// Now it is the supervisor's thread that sits in the kernel, in a resolve.
#[test]
fn a_resolve_that_never_returns_holds_its_own_connection_and_no_other() {
    let test = "a_resolve_that_never_returns_holds_its_own_connection_and_no_other";
    let Some((mut jail, fuse, _place)) = with_dead_mount(test, Dead::Names) else { return };
    let (mut client, worker) = jail.connect_and_find_worker();
    let start = Instant::now();
    send_read(&mut client, "dead", "dead/folder/name/file", 1000);
    eventually("the file system is asked", || fuse.unanswered() > 0);
    assert_others_are_served(&jail);
    let reply = client.line().unwrap();
    assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!("dead"), &json!("C220")), "{reply}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // More than it has threads: each ends at its deadline, taken by a thread or not.
    for id in 0..12 {
        send_read(&mut client, &id.to_string(), "note.txt", 1000);
        std::thread::sleep(Duration::from_millis(30));
    }
    let mut answered: Vec<u32> = (0..12)
        .map(|_| {
            let reply = client.line().unwrap();
            assert_eq!(reply["error"]["data"]["code"], "C220", "{reply}");
            reply["id"].as_str().unwrap().parse().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, Vec::from_iter(0..12));
    drop(client);
    eventually("the worker is gone", || !is_alive(worker));
    assert_others_are_served(&jail);
    jail.canaries.assert_untouched();
    // The kernel lets go of the thread when the process ends.
    process::signal(jail.daemon.pid(), Signal::TERM);
    let start = Instant::now();
    assert_eq!(jail.daemon.child.wait().unwrap().code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
}

/// A worker's name was being resolved when its session ended. What the resolve then took would be nobody's, and the name
/// could be changed by nobody.
#[test]
fn a_resolve_that_returns_after_its_session_leaves_no_lease() {
    let test = "a_resolve_that_returns_after_its_session_leaves_no_lease";
    let Some((jail, mut fuse, _place)) = with_dead_mount(test, Dead::Names) else { return };
    let create = |timeout_ms: u64| {
        let files = json!([{"path": "dead/folder/name/file", "content": "x"}]);
        json!({"jsonrpc": "2.0", "id": "create", "method": "coder::create-file", "timeout_ms": timeout_ms,
            "params": {"files": files}})
        .to_string()
    };
    let mut client = jail.connect();
    client.send_line(&create(60_000));
    eventually("the file system is asked", || fuse.unanswered() > 0);
    drop(client);
    let is_late = |record: &Value| record["event"] == "ended" && record["reason"] == "late";
    eventually("the session is over", || jail.audit().iter().any(is_late));
    fuse.revive();
    eventually("somebody else may change the name", || {
        let mut other = jail.connect();
        other.send_line(&create(500));
        let reply = other.line().unwrap();
        // Some other error: the file is there, and this file system takes no writes.
        let error = &reply["result"]["results"][0]["error"];
        assert!(error.is_object(), "{reply}");
        error["code"] != "C222"
    });
}

/// Nobody asks what is mounted there, also where mounts may be crossed: that it is one can be seen from outside.
#[test]
fn a_folder_with_a_dead_mount_in_it_is_listed() {
    let test = "a_folder_with_a_dead_mount_in_it_is_listed";
    let Some((jail, fuse, _place)) = with_dead_mount(test, Dead::Looks) else { return };
    let mut client = jail.connect();
    let list = client.call("coder::list-folder", json!({"path": "."})).unwrap();
    let names: Vec<(&Value, &Value)> =
        list["entries"].as_array().unwrap().iter().map(|entry| (&entry["name"], &entry["mount_point"])).collect();
    assert_eq!(names, [(&json!("dead"), &json!(true)), (&json!("note.txt"), &Value::Null)]);
    let tree = client.call("coder::tree", json!({"path": ".", "depth": 1})).unwrap();
    assert_eq!(tree["root"]["children"][0]["mount_point"], true, "{tree}");
    assert_eq!(fuse.unanswered(), 0);
}

/// A worker was lost, and what it may have left behind lies on a disk that no longer answers.
#[test]
fn a_root_that_died_does_not_stop_the_service_when_a_worker_is_lost() {
    let test = "a_root_that_died_does_not_stop_the_service_when_a_worker_is_lost";
    if !runs_as_root(test) {
        return;
    }
    let place = TestJail::directory();
    let at = place.path().join("dead");
    std::fs::create_dir(&at).unwrap();
    let Some(mut fuse) = Fuse::mount(&at, Dead::Listings) else {
        skip(&format!("{test} needs /dev/fuse"));
        return;
    };
    fuse.revive();
    let policy = format!("[[root]]\npath = \"ROOT\"\n[[root]]\npath = {at:?}\n[workers]\npool = 0\n");
    let jail = TestJail::with(Options { policy: Some(policy), through: fuse.through(), ..Options::default() });
    jail.write("note.txt", "a note\n");
    let (mut client, worker) = jail.connect_and_find_worker();
    fuse.die();
    process::signal(worker, Signal::KILL);
    let last = client.line().expect("one last line");
    assert_eq!(last["error"]["data"]["code"], "C216", "{last}");
    eventually("the supervisor looks for what the worker left", || fuse.unanswered() > 0);
    assert_others_are_served(&jail);
    fuse.revive();
    jail.assert_intact();
}
