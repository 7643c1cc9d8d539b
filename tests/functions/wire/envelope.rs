//! Lines to calls: what is refused, with which code, to whom, and what the text teaches.

use crate::support::{TestJail, Value, json};

fn refusal(jail: &TestJail, line: &str) -> Value {
    let mut client = jail.connect();
    client.send_line(line);
    let reply = client.line().unwrap();
    assert!(reply["error"].is_object(), "{line}: {reply}");
    // Whatever was wrong with that line, the next one is served.
    client.call("coder::info", json!({})).expect("the next line is served");
    reply
}

fn call(id: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"coder::read-file","params":{params}}}"#)
}

#[test]
fn what_is_not_json_is_a_parse_error() {
    let jail = TestJail::new();
    for line in ["{", "{]}", "nonsense", "{\"a\":1}}", "\u{1}", "\"\\ud800\""] {
        let reply = refusal(&jail, line);
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32700)), "{line}");
    }
    let mut client = jail.connect();
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n");
    assert_eq!(client.line().unwrap()["error"]["code"], -32700);
}

#[test]
fn json_that_two_readers_could_read_differently_is_an_invalid_request() {
    let jail = TestJail::new();
    let deep = format!("{}1{}", "[".repeat(64), "]".repeat(64));
    for line in [
        call("1", r#"{"path":"a","path":"b"}"#),
        call("1", r#"{"path":"a","p\u0061th":"b"}"#),
        call("1", &format!(r#"{{"path":"a","x":{deep}}}"#)),
        format!("[{}]", call("1", "{}")),
        "[]".into(),
        "7".into(),
        "null".into(),
        call("null", "{}"),
        call("1.5", "{}"),
        call("true", "{}"),
        call("[1]", "{}"),
        call(r#"{"a":1}"#, "{}"),
    ] {
        let reply = refusal(&jail, &line);
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32600)), "{line}");
    }
}

#[test]
fn a_broken_envelope_is_answered_to_its_id() {
    let jail = TestJail::new();
    for line in [
        r#"{"id":"x","method":"coder::info"}"#,
        r#"{"jsonrpc":"1.0","id":"x","method":"coder::info"}"#,
        r#"{"jsonrpc":"2.0","id":"x"}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":7}"#,
    ] {
        let reply = refusal(&jail, line);
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!("x"), &json!(-32600)), "{line}");
    }
    let reply = refusal(&jail, r#"{"jsonrpc":"2.0","method":"coder::info"}"#);
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32600)));
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let jail = TestJail::new();
    for id in ["0", "-7", "18446744073709551615", r#""""#, r#""\u00fc \"quoted\"""#] {
        let mut client = jail.connect();
        client.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"coder::info"}}"#));
        let reply = client.line().unwrap();
        assert_eq!(reply["id"], serde_json::from_str::<Value>(id).unwrap());
        assert!(reply["result"].is_object(), "{reply}");
    }
}

#[test]
fn an_unknown_method_hears_of_the_nearest_one() {
    let jail = TestJail::new();
    for (sent, meant) in [
        ("coder::read_file", "coder::read-file"),
        ("coder::list", "coder::list-folder"),
        ("coder::inof", "coder::info"),
    ] {
        let error = jail.call(sent, json!({})).unwrap_err();
        assert_eq!(error.code(), "-32601");
        assert!(error.message().contains(meant), "{error:?}");
    }
}

#[test]
fn a_wrong_type_is_named_with_what_was_expected_and_an_example() {
    let jail = TestJail::new();
    for (method, params, field) in [
        ("coder::read-file", json!({"path": 7}), "path"),
        ("coder::read-file", json!({"path": "a", "line_from": "one"}), "line_from"),
        ("coder::read-file", json!({"path": "a", "stat": "yes"}), "stat"),
        ("coder::list-folder", json!({"path": ".", "page": -1}), "page"),
        ("coder::list-folder", json!({"path": ["."]}), "path"),
    ] {
        let error = jail.call(method, params.clone()).unwrap_err();
        let crate::support::Failure::Error(value) = &error else { panic!("{error:?}") };
        assert_eq!((value["code"].as_i64(), error.code().as_str()), (Some(-32602), "C210"), "{params}");
        let message = error.message();
        assert!(message.starts_with(field), "{message}");
        assert!(message.contains("expected") && message.contains("example"), "{message}");
    }
    let error = jail.call("coder::read-file", json!(["a"])).unwrap_err();
    assert_eq!(error.code(), "C210");
}

#[test]
fn unknown_fields_are_warned_about_with_what_was_meant() {
    let jail = TestJail::new();
    jail.write("a.txt", "a\n");
    let reply = jail.call("coder::read-file", json!({"path": "a.txt", "line_form": 1, "zzz": 1})).unwrap();
    let warnings: Vec<&str> = reply["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("line_form") && text.contains("did you mean line_from?")));
    assert!(warnings.iter().any(|text| text.contains("zzz") && !text.contains("did you mean")));
    // Beside params, where fields of the function do nothing.
    let mut client = jail.connect();
    client.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"coder::info","path":"a","timeout":5}"#);
    let reply = client.line().unwrap();
    let warnings = reply["result"]["warnings"].to_string();
    assert!(warnings.contains("belong inside params") && warnings.contains("did you mean timeout_ms?"), "{warnings}");
}

#[test]
fn a_deadline_is_a_number_and_at_most_the_longest() {
    let jail = TestJail::new();
    let send = |timeout: &str| {
        let mut client = jail.connect();
        client.send_line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"coder::info","timeout_ms":{timeout}}}"#));
        client.line().unwrap()
    };
    for wrong in ["-1", "\"5s\"", "1.5", "[]"] {
        let reply = send(wrong);
        assert_eq!((&reply["error"]["code"], &reply["error"]["data"]["code"]), (&json!(-32602), &json!("C210")));
        assert!(reply["error"]["message"].as_str().unwrap().contains("timeout_ms"), "{reply}");
    }
    let reply = send("600001");
    assert!(reply["result"]["warnings"][0].as_str().unwrap().contains("600000"), "{reply}");
    assert_eq!(send("0")["error"]["data"]["code"], "C220");
}

/// A misspelt field is often why another one is missing.
#[test]
fn a_refusal_names_unknown_fields_too() {
    let jail = TestJail::new();
    let warning = json!(["pth: unknown field, ignored; did you mean path?"]);
    for (params, code) in [(r#"{"pth":"a"}"#, -32000), (r#"{"pth":"a","path":7}"#, -32602)] {
        let reply = refusal(&jail, &call("1", params));
        let data = &reply["error"]["data"];
        assert_eq!((&reply["error"]["code"], &data["code"]), (&json!(code), &json!("C210")), "{reply}");
        assert_eq!(data["warnings"], warning, "{reply}");
    }
    let missing = refusal(&jail, &call("1", r#"{"path":"no-such-file","lines":1}"#));
    assert_eq!(missing["error"]["data"]["code"], "C211");
    assert!(missing["error"]["data"]["warnings"][0].as_str().unwrap().starts_with("lines: unknown"), "{missing}");
    let plain = refusal(&jail, &call("1", r#"{"path":"no-such-file"}"#));
    assert_eq!(plain["error"]["data"].as_object().unwrap().keys().collect::<Vec<_>>(), ["code", "message"]);
}
