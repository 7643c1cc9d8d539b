//! Bytes to lines: how a stream is cut does not matter, how long a line is does.

use crate::support::{Client, Options, TestJail, Value, json};

const INFO: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"coder::info"}"#;
const SMALL_FRAMES: &str = "[[root]]\npath = \"ROOT\"\n[limits]\nmax_frame_bytes = 65536\n";

fn served(line: &Value) -> bool {
    line["result"]["server"]["name"] == "stockade"
}

#[test]
fn crlf_and_blank_lines_are_tolerated() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let other = br#"{"jsonrpc":"2.0","id":2,"method":"coder::info"}"#;
    client.send_bytes(&[b"\n\r\n\n", INFO, b"\r\n\r\n", other, b"\n\n"].concat());
    client.half_close();
    let lines = client.rest();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(served), "{lines:?}");
}

#[test]
fn a_call_may_come_byte_by_byte() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for byte in [INFO, b"\n"].concat() {
        client.send_bytes(&[byte]);
    }
    assert!(served(&client.line().unwrap()));
}

#[test]
fn a_line_without_its_end_is_not_a_call() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    client.send_bytes(INFO);
    client.half_close();
    assert_eq!(client.rest(), Vec::<Value>::new());
}

/// Far more than the calls that may be open and than any buffer between us holds.
#[test]
fn a_half_closed_client_still_gets_every_reply() {
    let jail = TestJail::new();
    jail.write("long.txt", "a line of text\n".repeat(8000));
    let mut client = jail.connect();
    let sender = client.stream.try_clone().unwrap();
    let calls = 120;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sender = Client::on(sender);
            for call in 0..calls {
                // Every other one is a long call, so that several threads answer.
                let etag = call % 2 == 0;
                sender.send("coder::read-file", json!({"path": "long.txt", "etag": etag}));
            }
            sender.half_close();
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut ids: Vec<u64> = client
            .rest()
            .iter()
            .map(|line| {
                assert_eq!(line["result"]["content"].as_str().unwrap().len(), 120_000);
                line["id"].as_u64().unwrap()
            })
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (1..=calls).collect::<Vec<_>>());
    });
}

#[test]
fn a_line_at_the_limit_passes_and_one_byte_more_ends_the_connection() {
    let jail = TestJail::with(Options { policy: Some(SMALL_FRAMES.into()), ..Options::default() });
    let padded = |len: usize| {
        let mut line = INFO.to_vec();
        line.resize(len, b' ');
        line
    };
    let mut client = jail.connect();
    client.send_bytes(&[&padded(65536)[..], b"\r\n"].concat());
    assert!(served(&client.line().unwrap()));
    client.send_bytes(&[INFO, b"\n", &padded(65537)[..], b"\n", INFO, b"\n"].concat());
    let lines = client.rest();
    assert_eq!(lines.len(), 2, "what came before is answered, what comes after is not: {lines:?}");
    let error = lines.iter().find(|line| !served(line)).unwrap();
    assert_eq!((&error["id"], &error["error"]["data"]["code"]), (&Value::Null, &json!("C213")));
    assert!(error["error"]["message"].as_str().unwrap().contains("max_frame_bytes (65536)"), "{error}");
    jail.assert_intact();
}

#[test]
fn a_line_that_never_ends_is_cut_off() {
    let jail = TestJail::with(Options { policy: Some(SMALL_FRAMES.into()), ..Options::default() });
    let mut client = jail.connect();
    // The service closes somewhere in between; what it does not take is not our failure.
    let sent = std::io::Write::write_all(&mut client.stream, &vec![b'['; 10 << 20]);
    assert!(sent.is_err(), "ten megabytes were taken");
    let lines = client.rest();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["id"], &lines[0]["error"]["data"]["code"]), (&Value::Null, &json!("C213")));
}
