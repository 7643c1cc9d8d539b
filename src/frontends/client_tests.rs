use std::{io::BufRead, io::BufReader, thread};

use serde_json::Value;

use super::*;

/// A service that reads one call, writes `answer` and hangs up.
fn answered_with(answer: &'static [u8]) -> Result<String, CallError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(&theirs).read_line(&mut line).unwrap();
        (&theirs).write_all(answer).unwrap();
    });
    let outcome = Client::new(ours, None).call("coder::info", "{}").map(|result| result.get().to_owned());
    server.join().unwrap();
    outcome
}

#[test]
fn result_is_handed_over_as_received() {
    let result = answered_with(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"b\":1.0, \"a\":2}}\r\n");
    assert_eq!(result.unwrap(), "{\"b\":1.0, \"a\":2}");
}

#[test]
fn coded_errors_come_from_data() {
    let error = answered_with(
        b"{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"C211 x\",\"data\":{\"code\":\"C211\",\"message\":\"x\",\"etag\":\"e\"}}}\n",
    );
    let json = "{\"code\":\"C211\",\"message\":\"x\",\"etag\":\"e\"}".into();
    assert_eq!(error, Err(CallError::Remote(RemoteError { code: "C211".into(), message: "x".into(), json })));
}

#[test]
fn errors_without_data_keep_their_number() {
    let Err(CallError::Remote(error)) = answered_with(b"{\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}\n")
    else {
        panic!()
    };
    assert_eq!((error.code.as_str(), error.message.as_str()), ("-32601", "no"));
}

#[test]
fn error_of_the_connection_ends_the_waiting_call_with_its_code() {
    for prefix in [&b""[..], b"\n", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"resu\n"] {
        let line = b"{\"id\":null,\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"C220\",\"message\":\"late\"}}}\n";
        let answer: &'static [u8] = [prefix, line].concat().leak();
        let Err(CallError::Remote(error)) = answered_with(answer) else { panic!("{prefix:?}") };
        assert_eq!(error.code, "C220");
    }
}

#[test]
fn replies_to_other_calls_and_notifications_are_passed_over() {
    let answer = b"{\"id\":9,\"result\":1}\n{\"method\":\"note\",\"params\":{}}\n{\"id\":\"1\",\"result\":2}\n{\"id\":1,\"result\":3}\n";
    assert_eq!(answered_with(answer).unwrap(), "3");
}

#[test]
fn end_of_stream_leaves_the_outcome_unknown() {
    assert_eq!(answered_with(b"").unwrap_err(), CallError::Closed);
    assert_eq!(answered_with(b"{\"id\":1,\"result\":").unwrap_err(), CallError::Closed);
    assert!(CallError::Closed.to_string().contains("outcome is unknown"));
}

#[test]
fn a_stream_of_something_else_is_named_so() {
    assert!(matches!(answered_with(b"SSH-2.0-x\nmore\n"), Err(CallError::Protocol(_))));
    assert!(matches!(answered_with(b"SSH-2.0-x\n"), Err(CallError::Protocol(_))));
}

#[test]
fn refusal_written_before_the_call_is_still_read() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&theirs)
        .write_all(b"{\"id\":null,\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"C222\",\"message\":\"full\"}}}\n")
        .unwrap();
    drop(theirs);
    let Err(CallError::Remote(error)) = Client::new(ours, None).call("coder::info", "{}") else { panic!() };
    assert_eq!(error.code, "C222");
}

#[test]
fn a_line_over_the_limit_is_refused_without_being_kept() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let chunk = vec![b' '; 1 << 20];
        while (&theirs).write_all(&chunk).is_ok() {}
    });
    let outcome = Client::new(ours, None).call("coder::info", "{}");
    assert!(matches!(outcome, Err(CallError::Protocol(_))), "{outcome:?}");
    server.join().unwrap();
}

#[test]
fn formatted_requests_become_one_line_with_a_deadline() {
    let frame = frame_call(3, "coder::x", "{\n \"a\":\r\n 1}", Some(Duration::from_millis(1500))).unwrap();
    let frame = String::from_utf8(frame).unwrap();
    assert_eq!(frame.matches('\n').count(), 1);
    assert!(frame.ends_with('\n') && !frame.contains('\r'));
    let call: Value = serde_json::from_str(&frame).unwrap();
    let expected =
        serde_json::json!({"jsonrpc": "2.0", "id": 3, "method": "coder::x", "params": {"a": 1}, "timeout_ms": 1500});
    assert_eq!(call, expected);
}

#[test]
fn consecutive_calls_share_one_connection() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        // Both replies in one write: the second waits in the buffer.
        let mut lines = BufReader::new(&theirs).lines();
        lines.next();
        (&theirs).write_all(b"{\"id\":1,\"result\":1}\n{\"id\":2,\"result\":2}\n").unwrap();
        lines.next();
    });
    let mut client = Client::new(ours, None);
    assert_eq!(client.call("coder::info", "{}").unwrap().get(), "1");
    assert_eq!(client.call("coder::info", "{}").unwrap().get(), "2");
    server.join().unwrap();
}
