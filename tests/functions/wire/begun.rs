//! Lines that have begun and do not end, and long lines: how long the service keeps them, and how much of them.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use crate::support::{
    COLD, Client, Options, TestJail, Value, json,
    peer::{NOBODY, connect_as},
    process::{self, eventually},
};

const INFO: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"coder::info"}"#;
const MEBIBYTE: usize = 1 << 20;
/// A worker in a debug build that holds no long line.
const SMALL_BYTES: u64 = 24 << 20;

/// A call, padded to this many bytes, without its end.
fn long(bytes: usize) -> Vec<u8> {
    let mut line = INFO.to_vec();
    line.resize(bytes, b' ');
    line
}

fn is_served(line: &Value) -> bool {
    line["result"]["server"]["name"] == "stockade"
}

fn null_error(line: &Value) -> &str {
    assert_eq!(line["id"], Value::Null, "{line}");
    line["error"]["data"]["code"].as_str().unwrap_or_else(|| panic!("{line}"))
}

fn with_limits(limits: &str) -> TestJail {
    TestJail::with_policy(&format!("{COLD}[limits]\n{limits}"))
}

#[test]
fn a_line_that_does_not_end_in_time_is_answered_and_the_connection_closed() {
    let jail = with_limits("call_timeout_ms = 1000\n");
    let mut client = jail.connect();
    client.call("coder::info", json!({})).expect("served");
    let start = Instant::now();
    client.send_bytes(&[INFO, b"\n{\"jsonrpc\":"].concat());
    assert!(is_served(&client.line().unwrap()), "what came before is answered");
    // Bytes that go on coming do not make it a line.
    let mut trickle = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        while trickle.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let line = client.line().expect("an answer");
    assert_eq!(null_error(&line), "C220");
    assert!(line["error"]["message"].as_str().unwrap().contains("1000 ms"), "{line}");
    assert_eq!(client.line(), None);
    let took = start.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(10)).contains(&took), "{took:?}");
    sender.join().unwrap();
    jail.assert_intact();
}

#[test]
fn a_line_that_comes_slowly_but_ends_in_time_is_served() {
    let jail = with_limits("call_timeout_ms = 5000\n");
    let mut client = jail.connect();
    for _ in 0..2 {
        for part in [INFO, b"\n"].concat().chunks(5) {
            client.send_bytes(part);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(is_served(&client.line().unwrap()));
    }
    // Nothing has begun: this may take as long as it likes.
    std::thread::sleep(Duration::from_secs(6));
    client.call("coder::info", json!({})).expect("served");
}

#[test]
fn the_memory_of_a_long_line_is_given_back() {
    let jail = TestJail::with_policy(COLD);
    let (mut client, worker) = jail.connect_and_find_worker();
    for _ in 0..3 {
        client.send_bytes(&[&long(40 * MEBIBYTE)[..], b"\n"].concat());
        assert!(is_served(&client.line().unwrap()));
        eventually("it is small again", || process::resident_bytes(worker) < SMALL_BYTES);
    }
}

/// Half a line of 3.5 MiB, which holds three steps.
fn hold(stream: &mut UnixStream) {
    stream.write_all(&long(7 * MEBIBYTE / 2)).unwrap();
}

/// A whole line of 3 MiB, which needs two.
fn try_long(client: &mut Client) -> Value {
    client.send_bytes(&[&long(3 * MEBIBYTE)[..], b"\n"].concat());
    client.line().expect("an answer")
}

const FOUR_STEPS: &str = "max_frame_bytes = 4194304\nmax_frame_bytes_per_uid = 4194304\n";

#[test]
fn long_lines_of_one_user_share_their_memory() {
    let jail = with_limits(FOUR_STEPS);
    let mut holder = jail.connect();
    hold(&mut holder.stream);
    eventually("another one is refused", || {
        let mut client = jail.connect();
        let line = try_long(&mut client);
        if is_served(&line) {
            // The first has not got that far.
            return false;
        }
        assert_eq!(null_error(&line), "C222");
        assert!(line["error"]["message"].as_str().unwrap().contains("max_frame_bytes_per_uid (4194304)"));
        assert_eq!(client.line(), None);
        true
    });
    let mut small = jail.connect();
    small.send_bytes(&[&long(MEBIBYTE)[..], b"\n"].concat());
    assert!(is_served(&small.line().unwrap()), "up to 1 MiB nothing is reserved");
    holder.send_bytes(b"\n");
    assert!(is_served(&holder.line().unwrap()), "whoever was first is served");
    let mut next = jail.connect();
    assert!(is_served(&try_long(&mut next)), "and then others are");
    hold(&mut holder.stream);
    drop(holder);
    eventually("the end of a connection gives back, too", || is_served(&try_long(&mut jail.connect())));
    for _ in 0..10 {
        assert!(is_served(&try_long(&mut next)), "nothing is left behind");
    }
}

#[test]
fn long_lines_of_another_user_are_not_counted() {
    if !process::runs_as_root("long_lines_of_another_user_are_not_counted") {
        return;
    }
    let policy = format!(
        "[[root]]\npath = \"ROOT\"\n[socket]\ngroup = \"nogroup\"\nmode = \"0666\"\n[[peer]]\nuid = 0\n[[peer]]\nuid = {NOBODY}\n[limits]\n{FOUR_STEPS}"
    );
    let options = Options { policy: Some(policy), folder_mode: Some(0o711), ..Options::default() };
    let jail = TestJail::with(options);
    let mut holder = connect_as(NOBODY, NOBODY, &jail.socket).unwrap();
    hold(&mut holder);
    eventually("its own are refused", || {
        let mut client = Client::on(connect_as(NOBODY, NOBODY, &jail.socket).unwrap());
        !is_served(&try_long(&mut client))
    });
    assert!(is_served(&try_long(&mut jail.connect())));
}

/// The worker does not read from such a client, and so does not wait for the rest of the line either.
#[test]
fn a_client_that_does_not_read_its_replies_cannot_keep_a_line_that_has_begun() {
    let jail = with_limits(&format!("call_timeout_ms = 1000\n{FOUR_STEPS}"));
    jail.write("long.txt", "a line of text\n".repeat(8000));
    let mut lazy = jail.connect();
    let calls = 40;
    let mut batch: Vec<u8> = Vec::new();
    for id in 0..calls {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "coder::read-file", "params": {"path": "long.txt"}});
        batch.extend_from_slice(format!("{call}\n").as_bytes());
    }
    // The replies fill everything that may be unread only after the line has begun.
    hold(&mut lazy.stream.try_clone().unwrap());
    lazy.send_bytes(b"\n");
    assert!(is_served(&lazy.line().unwrap()));
    lazy.send_bytes(&batch);
    let mut stream = lazy.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let _ = stream.write_all(&long(7 * MEBIBYTE / 2));
    let start = Instant::now();
    eventually("others can use the memory", || is_served(&try_long(&mut jail.connect())));
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // Nothing that was called before is lost.
    let lines = lazy.rest();
    let replies = lines.iter().filter(|line| line["id"].is_u64()).count();
    assert_eq!(replies, calls, "{:?}", lines.last());
    assert!(lines.iter().any(|line| line["id"].is_null() && line["error"]["data"]["code"] == "C220"));
}
