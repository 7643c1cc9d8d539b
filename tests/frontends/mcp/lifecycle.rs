//! Beginning and end: what is cancelled stops, nothing outlives its host, a host that does not read costs nothing, and a service
//! that was lost is found again.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Stdio},
    time::{Duration, Instant},
};

use super::{
    host::{Host, Place, command},
    support::{
        TestJail, json,
        process::{self, Signal, eventually, is_alive, resident_bytes, signal},
    },
};

/// Searching all of this takes minutes; it is one file under many names. No hole, which a search would leap over.
fn plant_giant(place: &Place) {
    let first = place.write("giant/0", "some text without what is looked for\n".repeat(1 << 18));
    for name in 1..3000 {
        fs::hard_link(&first, place.root.join(format!("giant/{name}"))).unwrap();
    }
}

/// Nothing in it that a search could leap to.
const NEEDLE: &str = "(?i)[a-z]+ [a-z]+ needle";

fn cpu(pids: &[u32]) -> Duration {
    pids.iter().filter(|pid| is_alive(**pid)).map(|pid| process::cpu_time(*pid)).sum()
}

/// A running search of the giant; its id, and the processes that work on it.
fn start_search(host: &mut Host) -> (u64, Vec<u32>) {
    // After a reply all processes are there.
    host.tool("info", json!({})).ok();
    let id = host.send(
        "tools/call",
        json!({"name": "search", "arguments": {"query": NEEDLE, "regex": true}, "_meta": {"progressToken": "p"}}),
    );
    let pids = host.processes();
    let before = cpu(&pids);
    eventually("the search runs", || cpu(&pids) > before + Duration::from_millis(60));
    (id, pids)
}

#[test]
fn a_cancelled_search_stops() {
    let place = Place::new();
    plant_giant(&place);
    let mut host = place.host(&[]);
    let mut spent = Vec::new();
    // On a busy machine the news may travel longer than the search would need to stop: one good try shows that it does.
    for _ in 0..10 {
        let (id, pids) = start_search(&mut host);
        let before = cpu(&pids);
        let start = Instant::now();
        host.notify("notifications/cancelled", json!({"requestId": id}));
        // Quiet for as long as a clock tick cannot hide.
        let mut last = (cpu(&pids), Instant::now());
        while last.1.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(5));
            let now = cpu(&pids);
            if now != last.0 {
                last = (now, Instant::now());
            }
            assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
        }
        spent.push(last.0 - before);
        assert_eq!(host.request("ping", json!({})).unwrap(), json!({}), "and has no reply");
        if spent.last().unwrap() <= &Duration::from_millis(50) {
            return;
        }
    }
    panic!("CPU after the cancellation: {spent:?}");
}

#[test]
fn a_long_search_says_that_it_is_at_work() {
    let place = Place::new();
    plant_giant(&place);
    let mut host = place.host(&[]);
    let (id, _) = start_search(&mut host);
    let mut last = 0.0;
    for _ in 0..2 {
        let line = host.line();
        assert_eq!(
            (&line["method"], &line["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p"))
        );
        let progress = line["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{line}");
        last = progress;
    }
    host.notify("notifications/cancelled", json!({"requestId": id}));
}

#[test]
fn a_short_call_is_not_kept_waiting_by_long_ones() {
    let place = Place::new();
    plant_giant(&place);
    place.write("a.txt", "x\n");
    let mut host = place.host(&[]);
    let running: Vec<u64> =
        (0..16).map(|_| host.send_tool("search", json!({"query": NEEDLE, "regex": true}))).collect();
    assert!(host.tool("read", json!({"path": "a.txt"})).ok().contains("1→x"));
    for id in running {
        host.notify("notifications/cancelled", json!({"requestId": id}));
    }
}

/// Also when more calls are asked for than the service takes at once: what waits for a place must not stand in the way of
/// the word that makes one.
#[test]
fn calls_are_cancelled_however_many_wait() {
    let place = Place::new();
    plant_giant(&place);
    let mut host = place.host(&[]);
    host.tool("info", json!({})).ok();
    let running: Vec<u64> =
        (0..80).map(|_| host.send_tool("search", json!({"query": NEEDLE, "regex": true}))).collect();
    for id in running {
        host.notify("notifications/cancelled", json!({"requestId": id}));
    }
    let start = Instant::now();
    host.tool("info", json!({})).ok();
    // Without a place it would wait for deadlines of 30 s.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

#[test]
fn closing_standard_input_ends_all_processes() {
    let place = Place::new();
    place.write("a.txt", "x\n");
    let mut host = place.host(&[]);
    // What was asked before is still answered.
    let id = host.send_tool("read", json!({"path": "a.txt"}));
    let pids = host.processes();
    assert!(pids.len() >= 2, "{pids:?}");
    host.close();
    assert!(host.reply_to(id).is_ok());
    assert!(host.child.wait().unwrap().success());
    assert!(pids[1..].iter().all(|pid| !is_alive(*pid)), "its service ended before it did");
}

#[test]
fn a_running_search_does_not_outlive_standard_input() {
    let place = Place::new();
    plant_giant(&place);
    let mut host = place.host(&[]);
    let (_, pids) = start_search(&mut host);
    host.close();
    eventually("all processes end", || pids.iter().all(|pid| !is_alive(*pid)));
}

/// The workers of a host's service, which do not answer until they are signalled again.
fn stopped_service() -> (TestJail, Host, Vec<u32>) {
    let jail = TestJail::new();
    let mut host = Host::start(command(&["--socket", jail.socket.to_str().unwrap()])).initialized();
    host.tool("info", json!({})).ok();
    let workers = jail.daemon.workers();
    workers.iter().for_each(|pid| signal(*pid, Signal::STOP));
    (jail, host, workers)
}

/// However the calls are written that are still open, and whatever the service does.
#[test]
fn what_a_stopped_service_owes_is_not_waited_for_long() {
    let (_jail, mut host, workers) = stopped_service();
    host.send("tools/call", json!({"name": "info", "arguments": {}}));
    host.send("tools/call", json!({"name": "info", "arguments": {}, "unknown": 1}));
    host.send("resources/list", json!({}));
    let start = Instant::now();
    host.close();
    assert!(host.child.wait().unwrap().success());
    // 5 s for what may still come; twice that would be one wait after another.
    let took = start.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(9)).contains(&took), "{took:?}");
    workers.iter().for_each(|pid| signal(*pid, Signal::CONT));
}

/// A bridge that was said hello to and nobody reads from, and a call whose replies fill it soon.
fn unread_bridge(place: &Place, is_introduced: bool) -> (Child, ChildStdin, impl Fn(u64) -> String + use<>) {
    place.write("big.txt", format!("{}\n", "x".repeat(99)).repeat(600));
    let mut child = command(&["--root", place.root.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})).unwrap();
    if is_introduced {
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    }
    let params = json!({"name": "read", "arguments": {"path": "big.txt"}});
    let call = move |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
    (child, stdin, call)
}

/// Its end is heard although nothing more is worked on.
#[test]
fn a_host_that_neither_reads_nor_says_more_is_left() {
    let place = Place::new();
    let (mut child, mut stdin, call) = unread_bridge(&place, true);
    (1..=400).for_each(|id| writeln!(stdin, "{}", call(id)).unwrap());
    std::thread::sleep(Duration::from_millis(500));
    drop(stdin);
    let start = Instant::now();
    eventually("it ends", || child.try_wait().unwrap().is_some());
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

/// More calls than are worked on at once, and more time than a last call has.
#[test]
fn what_was_asked_before_the_end_is_answered_while_answers_come() {
    let place = Place::new();
    place.write("big.txt", format!("{}\n", "x".repeat(99)).repeat(600));
    let mut host = place.host(&[]);
    host.tool("info", json!({})).ok();
    let ids: Vec<u64> = (0..3000).map(|_| host.send_tool("read", json!({"path": "big.txt"}))).collect();
    host.close();
    for id in ids {
        assert!(host.reply_to(id).is_ok());
    }
    assert!(host.child.wait().unwrap().success());
}

#[test]
fn no_more_is_read_than_can_be_worked_on() {
    let (_jail, mut host, workers) = stopped_service();
    // All of it in one read, the ping behind it too.
    let calls = 1000..1400;
    let line = |id: u64| {
        let params = json!({"name": "info", "arguments": {}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string() + "\n"
    };
    let ping = json!({"jsonrpc": "2.0", "id": 7777, "method": "ping"}).to_string() + "\n";
    host.send_part(&(calls.clone().map(line).collect::<String>() + &ping));
    assert!(host.reply_within(7777, Duration::from_millis(500)).is_none(), "it was read behind 400 calls");
    workers.iter().for_each(|pid| signal(*pid, Signal::CONT));
    for id in calls.chain([7777]) {
        host.reply_to(id).unwrap();
    }
}

#[test]
fn killing_the_bridge_leaves_nothing_behind() {
    let place = Place::new();
    plant_giant(&place);
    let mut host = place.host(&[]);
    let (_, pids) = start_search(&mut host);
    assert!(pids.len() >= 3, "{pids:?}");
    signal(host.pid(), Signal::KILL);
    eventually("all processes end", || pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn a_host_that_reads_no_more_ends_it() {
    let place = Place::new();
    let mut child = command(&["--root", place.root.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // Standard input stays open.
    while stdin.write_all(b"garbage\n").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_host_that_never_reads_does_not_grow_memory() {
    [true, false].into_iter().for_each(never_reads);
}

fn never_reads(is_introduced: bool) {
    // Some 70 MB of replies, if all of them were made.
    const CALLS: u64 = 1200;
    let place = Place::new();
    let (mut child, mut stdin, call) = unread_bridge(&place, is_introduced);
    let stdout = child.stdout.take().unwrap();
    let sender = std::thread::spawn(move || {
        (1..=CALLS).for_each(|id| writeln!(stdin, "{}", call(id)).unwrap());
        stdin
    });
    let settled = || {
        let before = process::cpu_time(child.id());
        std::thread::sleep(Duration::from_millis(400));
        process::cpu_time(child.id()) == before
    };
    eventually("it stops by itself", settled);
    let held = resident_bytes(child.id());
    assert!(held < 32 << 20, "{held} bytes");
    // Who reads then gets every reply.
    let mut lines = BufReader::new(stdout).lines();
    for _ in 0..=CALLS {
        lines.next().unwrap().unwrap();
    }
    drop(sender.join().unwrap());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_service_that_was_lost_is_found_again() {
    let place = Place::new();
    place.write("a.txt", "x\n");
    let mut host = place.host(&[]);
    host.tool("read", json!({"path": "a.txt"})).ok();
    let supervisor = host.processes()[1];
    signal(supervisor, Signal::KILL);
    eventually("it is gone", || !is_alive(supervisor));
    // A call that meets the end says so; the one after it is served.
    let first = host.tool("read", json!({"path": "a.txt"}));
    assert!(!first.is_error || first.code() == "C216", "{}", first.text);
    assert!(host.tool("read", json!({"path": "a.txt"})).ok().contains("1→x"));
    let jail = TestJail::new();
    let mut host = Host::start(command(&["--socket", jail.socket.to_str().unwrap()])).initialized();
    host.tool("info", json!({})).ok();
    let workers = jail.daemon.workers();
    workers.iter().for_each(|pid| signal(*pid, Signal::KILL));
    eventually("they are gone", || workers.iter().all(|pid| !is_alive(*pid)));
    let _ = host.tool("info", json!({}));
    host.tool("info", json!({})).ok();
}

#[test]
fn what_cannot_start_says_why_and_with_which_code() {
    let nowhere = command(&["--socket", "/nonexistent/stockade.sock"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(3), "{}", String::from_utf8_lossy(&nowhere.stderr));
    let mut bad = command(&["--root", "/nonexistent/root"]);
    let mut child = bad.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    assert!(said.contains("/nonexistent/root"), "{said}");
}

#[test]
fn sockets_and_files_serve_as_standard_streams_too() {
    let place = Place::new();
    place.write("a.txt", "x\n");
    let root = place.root.to_str().unwrap();
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string(),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read", "arguments": {"path": "a.txt"}}}).to_string(),
    ]
    .join("\n");
    // The last line has no end. Node gives its children sockets.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let theirs_too = theirs.try_clone().unwrap();
    let mut child = command(&["--root", root])
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(std::os::fd::OwnedFd::from(theirs_too))
        .spawn()
        .unwrap();
    (&ours).write_all(lines.as_bytes()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = String::new();
    (&ours).read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(said.contains("1→x"), "{said}");
    let (input, output) = (place.dir.path().join("in"), place.dir.path().join("out"));
    fs::write(&input, &lines).unwrap();
    let status = command(&["--root", root])
        .stdin(File::open(&input).unwrap())
        .stdout(File::create(&output).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    assert!(fs::read_to_string(&output).unwrap().contains("1→x"));
}
