//! Workers and the supervisor from start to end, orderly and not.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use crate::support::{
    COLD, Client, Options, TestJail, Value, json,
    process::{self, Signal, eventually, is_alive},
};

/// Debug builds are several times as large as what is shipped; this only catches growth beyond all proportion.
const DEBUG_RESIDENT_BYTES: u64 = 24 << 20;

fn plant_giant(jail: &TestJail) {
    File::create(jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
}

/// Runs until its deadline.
fn send_endless(client: &mut Client, timeout_ms: u64) {
    client.send_line(
        &json!({"jsonrpc": "2.0", "id": "endless", "method": "coder::read-file", "timeout_ms": timeout_ms,
            "params": {"path": "giant", "stat": true, "count_lines": true}})
        .to_string(),
    );
}

#[test]
fn every_connection_has_a_worker_of_its_own_that_goes_with_it() {
    let jail = TestJail::with_policy(COLD);
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (client, worker) = jail.connect_and_find_worker();
        assert!(!seen.contains(&worker), "a worker was used twice");
        seen.push(worker);
        drop(client);
        eventually("the worker is gone", || !is_alive(worker));
    }
    let (mut a, first) = jail.connect_and_find_worker();
    let (mut b, second) = jail.connect_and_find_worker();
    assert_ne!(first, second);
    for client in [&mut a, &mut b] {
        client.call("coder::info", json!({})).unwrap();
    }
}

#[test]
fn a_killed_worker_is_told_to_its_client_and_to_nobody_else() {
    let jail = TestJail::with_policy(COLD);
    let mut other = jail.connect();
    other.call("coder::info", json!({})).unwrap();
    let (mut client, worker) = jail.connect_and_find_worker();
    process::signal(worker, Signal::KILL);
    let mut received = Vec::new();
    std::io::Read::read_to_end(&mut client.stream, &mut received).unwrap();
    let text = String::from_utf8(received).unwrap();
    let line = text.strip_prefix('\n').expect("ends whatever half a reply there was").strip_suffix('\n').unwrap();
    let error: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&error["id"], &error["error"]["data"]["code"]), (&Value::Null, &json!("C216")), "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("unknown"), "{error}");
    other.call("coder::info", json!({})).expect("undisturbed");
    jail.assert_intact();
}

#[test]
fn a_warm_worker_that_died_never_meets_a_client() {
    let jail = TestJail::new();
    eventually("the pool is warm", || jail.daemon.workers().len() == 2);
    for worker in jail.daemon.workers() {
        process::signal(worker, Signal::KILL);
        // With all its threads: until the last one is gone its end of the channel is open.
        eventually("it is reaped", || !std::path::Path::new(&format!("/proc/{worker}")).exists());
    }
    for _ in 0..3 {
        jail.call("coder::info", json!({})).expect("served by another one");
    }
    eventually("the pool is warm again", || jail.daemon.workers().len() == 2);
}

/// The supervisor waits 5 s after the deadline, asks, and waits 2 s for an answer.
#[test]
fn a_worker_that_hangs_is_stopped_after_the_deadline() {
    let jail = TestJail::with_policy(COLD);
    plant_giant(&jail);
    let (mut client, worker) = jail.connect_and_find_worker();
    let start = Instant::now();
    send_endless(&mut client, 1000);
    std::thread::sleep(Duration::from_millis(200));
    process::signal(worker, Signal::STOP);
    let line = client.line().expect("one last line");
    let took = start.elapsed();
    assert_eq!((&line["id"], &line["error"]["data"]["code"]), (&Value::Null, &json!("C220")), "{line}");
    assert_eq!(client.line(), None);
    assert!((Duration::from_millis(7500)..Duration::from_secs(12)).contains(&took), "{took:?}");
    eventually("the worker is gone", || !is_alive(worker));
    jail.assert_intact();
}

#[test]
fn the_service_stops_after_the_calls_that_run() {
    let mut jail = TestJail::with_policy(COLD);
    plant_giant(&jail);
    let (mut busy, _) = jail.connect_and_find_worker();
    let (mut idle, _) = jail.connect_and_find_worker();
    send_endless(&mut busy, 1500);
    std::thread::sleep(Duration::from_millis(100));
    process::signal(jail.daemon.pid(), Signal::TERM);
    assert_eq!(idle.line(), None, "an idle connection ends at once");
    let reply = busy.line().expect("the running call is answered");
    assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!("endless"), &json!("C220")), "{reply}");
    assert_eq!(busy.line(), None);
    assert_eq!(jail.daemon.child.wait().unwrap().code(), Some(0));
    assert!(!jail.socket.exists(), "the socket is removed");
}

#[test]
fn no_worker_outlives_a_killed_supervisor() {
    let mut jail = TestJail::new();
    plant_giant(&jail);
    let mut client = jail.connect();
    send_endless(&mut client, 60_000);
    eventually("one serves, two wait", || jail.daemon.workers().len() == 3);
    let workers = jail.daemon.workers();
    jail.daemon.child.kill().unwrap();
    jail.daemon.child.wait().unwrap();
    for worker in workers {
        eventually("the worker is gone", || !is_alive(worker));
    }
    assert_eq!(client.line(), None);
}

#[test]
fn a_client_that_is_gone_does_not_keep_its_worker() {
    let jail = TestJail::with_policy(COLD);
    plant_giant(&jail);
    let (mut client, worker) = jail.connect_and_find_worker();
    send_endless(&mut client, 60_000);
    std::thread::sleep(Duration::from_millis(100));
    drop(client);
    let took = eventually("the worker is gone", || !is_alive(worker));
    assert!(took < Duration::from_secs(7), "{took:?}");
}

/// A few descriptors per connection: a low limit is reached soon, and left again.
#[test]
fn the_service_survives_having_no_descriptors_left() {
    let jail = TestJail::with(Options {
        policy: Some(format!("{COLD}[limits]\nmax_connections_per_uid = 1000\n")),
        through: vec!["prlimit".into(), "--nofile=48:48".into()],
        ..Options::default()
    });
    let call = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"coder::info\"}\n";
    let mut served: Vec<Client> = Vec::new();
    let mut turned_away = 0;
    while turned_away < 10 {
        let mut client = jail.connect();
        client.send_bytes(call);
        match client.line() {
            Some(line) if line["result"].is_object() => served.push(client),
            Some(line) => {
                assert!(["C216", "C222"].contains(&line["error"]["data"]["code"].as_str().unwrap()), "{line}");
                turned_away += 1;
            }
            None => turned_away += 1,
        }
        assert!(served.len() < 48, "the limit is not in force");
    }
    println!("{} were served", served.len());
    assert!(served.len() >= 3);
    for client in &mut served {
        client.call("coder::info", json!({})).expect("who was served still is");
    }
    drop(served);
    // A start that failed is not repeated at once.
    eventually("it serves again", || jail.call("coder::info", json!({})).is_ok());
}

#[test]
fn an_idle_service_is_small() {
    let jail = TestJail::new();
    eventually("the pool is warm", || jail.daemon.workers().len() == 2);
    let mut client = jail.connect();
    client.call("coder::info", json!({})).unwrap();
    let supervisor = process::resident_bytes(jail.daemon.pid());
    println!("supervisor {} KiB", supervisor >> 10);
    assert!(supervisor < DEBUG_RESIDENT_BYTES, "{supervisor}");
    for worker in jail.daemon.workers() {
        let resident = process::resident_bytes(worker);
        println!("worker {} KiB", resident >> 10);
        assert!(resident < DEBUG_RESIDENT_BYTES, "{resident}");
    }
}
