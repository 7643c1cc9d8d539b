//! Clients that do not read: they hold up themselves, and nobody else.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::support::{COLD, Client, Options, TestJail, json, process};

/// Replies that wait (1 MiB), as much being written, a reply per thread, and an ordinary worker in a debug build.
const BOUND_BYTES: u64 = 32 << 20;

/// Sends until the service takes no more for half a second; how many whole copies of `line` went out.
fn flood(stream: &mut UnixStream, line: &[u8], most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    for sent in 0..most {
        let mut rest = line;
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                // Never leaves half a line behind: the next read decides whether it is answered.
                Err(_) if rest.len() == line.len() => return sent,
                Err(_) => panic!("a line was cut by back-pressure; make it shorter"),
            }
        }
    }
    most
}

fn cold() -> TestJail {
    TestJail::with(Options { policy: Some(COLD.into()), ..Options::default() })
}

#[test]
fn a_client_that_does_not_read_costs_little_and_loses_nothing() {
    let jail = cold();
    jail.write("long.txt", "a line of text\n".repeat(2000));
    let (mut lazy, worker) = jail.connect_and_find_worker();
    let mut calls = 0u64;
    let mut stream = lazy.stream.try_clone().unwrap();
    loop {
        let line = json!({"jsonrpc": "2.0", "id": 1000 + calls, "method": "coder::read-file",
            "params": {"path": "long.txt"}})
        .to_string()
            + "\n";
        if flood(&mut stream, line.as_bytes(), 1) == 0 {
            break;
        }
        calls += 1;
        assert!(calls < 20_000, "there is no back-pressure");
    }
    assert!(calls >= 64, "{calls}");
    // Meanwhile somebody else is served as ever.
    let start = Instant::now();
    let mut other = jail.connect();
    for _ in 0..50 {
        other.call("coder::read-file", json!({"path": "long.txt"})).expect("served");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let resident = process::resident_bytes(worker);
    println!("{calls} calls unread, worker holds {} KiB", resident >> 10);
    assert!(resident < BOUND_BYTES, "{resident} bytes");
    let mut ids: Vec<u64> = (0..calls)
        .map(|_| {
            let reply = lazy.line().expect("everything arrives");
            assert_eq!(reply["result"]["content"].as_str().map(str::len), Some(30_000), "{}", reply["error"]);
            reply["id"].as_u64().unwrap() - 1000
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..calls).collect::<Vec<_>>());
    lazy.call("coder::info", json!({})).expect("and the connection goes on");
}

/// Errors need no thread and no place among the open calls; they must have a bound of their own.
#[test]
fn unread_errors_are_bounded_too() {
    let jail = cold();
    let (mut lazy, worker) = jail.connect_and_find_worker();
    let mut stream = lazy.stream.try_clone().unwrap();
    let sent = flood(&mut stream, b"[]\n", 4_000_000);
    assert!(sent < 4_000_000, "there is no back-pressure");
    let resident = process::resident_bytes(worker);
    println!("{sent} bad lines unread, worker holds {} KiB", resident >> 10);
    assert!(resident < BOUND_BYTES, "{resident} bytes");
    let before = process::cpu_time(worker);
    std::thread::sleep(Duration::from_millis(500));
    assert!(process::cpu_time(worker) - before <= Duration::from_millis(50), "it spins");
    lazy.half_close();
    let lines = lazy.rest();
    assert_eq!(lines.len(), sent);
    assert!(lines.iter().all(|line| line["error"]["code"] == -32600));
}

/// Calls that wait for their client to read are late, not stuck: the worker is not stopped for them.
#[test]
fn a_client_that_reads_after_its_deadlines_keeps_its_connection() {
    let policy = format!("{COLD}[limits]\ncall_timeout_ms = 500\n");
    let jail = TestJail::with(Options { policy: Some(policy), ..Options::default() });
    jail.write("long.txt", "a line of text\n".repeat(5000));
    let mut lazy = jail.connect();
    // More than may be open: some are not even read until then.
    let calls = 200;
    for _ in 0..calls {
        lazy.send("coder::read-file", json!({"path": "long.txt"}));
    }
    // Past the deadline, the supervisor's grace and its ping.
    std::thread::sleep(Duration::from_secs(9));
    for _ in 0..calls {
        let reply = lazy.line().expect("the connection was kept");
        assert!(reply["id"].is_u64(), "{reply}");
        assert!(reply["result"].is_object() || reply["error"]["data"]["code"] == "C220", "{reply}");
    }
    lazy.call("coder::info", json!({})).expect("and goes on");
}

/// Microseconds that each of some reads takes, in order of size.
fn reads(client: &mut Client) -> Vec<u128> {
    let mut taken: Vec<u128> = (0..200)
        .map(|_| {
            let start = Instant::now();
            client.call("coder::read-file", json!({"path": "small.txt"})).expect("served");
            start.elapsed().as_micros()
        })
        .collect();
    taken.sort_unstable();
    taken
}

/// How much is measured by the benchmark; this is about waiting for the neighbour's calls, which takes seconds.
#[test]
fn a_neighbour_that_floods_or_holds_64_slow_calls_is_not_waited_for() {
    let jail = TestJail::with_tree(Options::default(), |root| {
        std::fs::write(root.join("small.txt"), "small\n").unwrap();
        for folder in 0..20 {
            std::fs::create_dir(root.join(format!("{folder}"))).unwrap();
            (0..200).for_each(|n| std::fs::write(root.join(format!("{folder}/{n}")), "").unwrap());
        }
    });
    let mut victim = jail.connect();
    let idle = reads(&mut victim)[100];
    for (method, params) in [
        ("coder::read-file", json!({"path": "small.txt"})),
        ("coder::tree", json!({"path": ".", "per_folder_limit": 200})),
    ] {
        let mut neighbour = jail.connect();
        let stop = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..64 {
                        neighbour.send(method, params.clone());
                    }
                    for _ in 0..64 {
                        neighbour.line().expect("answered");
                    }
                }
            });
            let beside = reads(&mut victim);
            stop.store(true, Ordering::Relaxed);
            beside
        });
        let (p99, most) = (beside[197], 10 * idle + 500_000);
        assert!(p99 <= most, "{method}: p99 {p99} µs, idle p50 {idle} µs");
    }
}
