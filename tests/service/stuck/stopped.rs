//! A worker that was sent SIGSTOP: it neither answers nor ends by itself. What its deadline does to it is in
//! `tests/service/lifecycle.rs`.

use std::time::{Duration, Instant};

use crate::support::{
    COLD, Client, TestJail, Value, json,
    process::{self, Signal, eventually, is_alive},
};

/// A connection whose worker stands still in the middle of a call.
fn stuck(jail: &TestJail, timeout_ms: u64) -> (Client, u32) {
    std::fs::File::create(jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
    let (mut client, worker) = jail.connect_and_find_worker();
    let call = json!({"jsonrpc": "2.0", "id": "stuck", "method": "coder::read-file", "timeout_ms": timeout_ms,
        "params": {"path": "giant", "stat": true, "count_lines": true}});
    client.send_line(&call.to_string());
    std::thread::sleep(Duration::from_millis(200));
    process::signal(worker, Signal::STOP);
    eventually("all its threads stand still", || stands_still(worker));
    (client, worker)
}

fn stands_still(worker: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).unwrap();
    tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap()).all(|stat| {
        // `pid (name) state …`; the name may hold anything.
        stat.rsplit(") ").next().unwrap().starts_with('T')
    })
}

fn code(line: &Value) -> (&Value, &Value) {
    (&line["id"], &line["error"]["data"]["code"])
}

/// A connection whose worker stands still before its first call, and a service whose calls have a second.
fn stopped_early() -> (TestJail, Client, u32) {
    let jail = TestJail::with_policy(&format!("{COLD}[limits]\ncall_timeout_ms = 1000\n"));
    let (client, worker) = jail.connect_and_find_worker();
    process::signal(worker, Signal::STOP);
    eventually("all its threads stand still", || stands_still(worker));
    (jail, client, worker)
}

/// The supervisor looks at unread bytes every second here, asks after another one, and waits 2 s for an answer.
#[test]
fn a_worker_that_is_stopped_before_it_reads_a_call_is_ended() {
    let (jail, mut client, worker) = stopped_early();
    let (mut other, healthy) = jail.connect_and_find_worker();
    let start = Instant::now();
    client.send("coder::info", json!({}));
    let line = client.line().expect("one last line");
    assert_eq!(code(&line), (&Value::Null, &json!("C220")), "{line}");
    assert_eq!(client.line(), None);
    let took = start.elapsed();
    assert!((Duration::from_millis(2500)..Duration::from_secs(12)).contains(&took), "{took:?}");
    eventually("the worker is gone", || !is_alive(worker));
    other.call("coder::info", json!({})).expect("undisturbed");
    assert!(is_alive(healthy));
    jail.assert_intact();
}

/// It may be a debugger's, and costs nothing.
#[test]
fn a_stopped_worker_that_has_nothing_to_read_is_left_alone() {
    let (_jail, mut client, worker) = stopped_early();
    std::thread::sleep(Duration::from_secs(6));
    assert!(is_alive(worker));
    process::signal(worker, Signal::CONT);
    client.call("coder::info", json!({})).expect("it goes on");
}

/// Half a line is read by its worker, which answers for it itself: C220 by the line's own time, and an orderly end.
#[test]
fn half_a_line_is_the_matter_of_a_healthy_worker() {
    let jail = TestJail::with_policy(&format!("{COLD}[limits]\ncall_timeout_ms = 6000\n"));
    let (mut client, worker) = jail.connect_and_find_worker();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        client.send_bytes(b" ");
        std::thread::sleep(Duration::from_millis(100));
        assert!(is_alive(worker));
    }
    let line = client.line().expect("an answer");
    assert_eq!(code(&line), (&Value::Null, &json!("C220")), "{line}");
    assert!(line["error"]["message"].as_str().unwrap().contains("a line was not finished"), "{line}");
    assert!(!jail.log().contains("a worker was lost"));
}

#[test]
fn a_stuck_worker_goes_soon_after_its_client() {
    let jail = TestJail::with_policy(COLD);
    let (client, worker) = stuck(&jail, 60_000);
    drop(client);
    let took = eventually("the worker is gone", || !is_alive(worker));
    assert!((Duration::from_secs(4)..Duration::from_secs(18)).contains(&took), "{took:?}");
    jail.assert_intact();
}

#[test]
fn a_cancellation_that_a_stuck_worker_does_not_hear_leaves_the_deadline() {
    let jail = TestJail::with_policy(COLD);
    let start = Instant::now();
    let (mut client, worker) = stuck(&jail, 1000);
    client.send_line(&json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "stuck"}}).to_string());
    let line = client.line().expect("one last line");
    assert_eq!(code(&line), (&Value::Null, &json!("C220")), "{line}");
    assert!((7..18).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    eventually("the worker is gone", || !is_alive(worker));
}

#[test]
fn a_stuck_worker_costs_other_clients_nothing() {
    let jail = TestJail::with_policy(COLD);
    jail.write("note.txt", "a note\n");
    let (_client, worker) = stuck(&jail, 60_000);
    let mut other = jail.connect();
    other.call("coder::info", json!({})).unwrap();
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(other.call("coder::read-file", json!({"path": "note.txt"})).unwrap()["content"], "a note\n");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(is_alive(worker), "it was stuck all the time");
}

#[test]
fn a_service_that_stops_does_not_wait_for_a_stuck_worker_for_ever() {
    let mut jail = TestJail::with_policy(COLD);
    let (mut client, worker) = stuck(&jail, 60_000);
    let start = Instant::now();
    process::signal(jail.daemon.pid(), Signal::TERM);
    let line = client.line().expect("one last line");
    assert_eq!(code(&line), (&Value::Null, &json!("C220")), "{line}");
    assert_eq!(client.line(), None);
    assert_eq!(jail.daemon.child.wait().unwrap().code(), Some(0));
    assert!((9..19).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert!(!is_alive(worker));
}
