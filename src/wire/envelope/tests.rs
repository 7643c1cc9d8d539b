use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::wire::Code;

fn refused(frame: &str) -> (Option<Id>, RpcError) {
    match parse(frame.as_bytes()) {
        Incoming::Invalid { id, error } => (id, error),
        other => panic!("{frame} gave {other:?}"),
    }
}

fn called(frame: &str) -> (Id, String, Value, Option<u64>, Vec<String>) {
    match parse(frame.as_bytes()) {
        Incoming::Call { id, method, params, timeout_ms, unknown } => {
            (id, method, params, timeout_ms, unknown.warnings().as_slice().to_vec())
        }
        other => panic!("{frame} gave {other:?}"),
    }
}

#[test]
fn a_call_is_read_whole() {
    let (id, method, params, timeout_ms, warnings) =
        called(r#"{"jsonrpc":"2.0","id":7,"method":"coder::read-file","params":{"path":"a"},"timeout_ms":250}"#);
    assert_eq!((id, method.as_str(), timeout_ms), (Id::Integer(7), "coder::read-file", Some(250)));
    assert_eq!(params, json!({"path": "a"}));
    assert!(warnings.is_empty());
}

#[test]
fn absent_or_null_params_are_an_empty_object() {
    for params in ["", r#","params":null"#, r#","params":{}"#] {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"coder::info"{params}}}"#);
        assert_eq!(called(&frame).2, json!({}));
    }
}

#[test]
fn no_member_may_come_twice_however_it_is_written() {
    for member in [
        r#""jsonrpc":"2.0""#,
        r#""\u0069d":1"#,
        r#""method":"m""#,
        r#""params":{}"#,
        r#""timeout_ms":1"#,
        r#""more":1"#,
    ] {
        let (name, _) = member.split_once(':').unwrap();
        let name = name.replace("\\u0069", "i");
        let frame =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{}},"timeout_ms":1,"more":1,{member}}}"#);
        let (id, error) = refused(&frame);
        assert_eq!((id, error.code), (None, -32600), "{frame}");
        assert!(error.message.contains(&name), "{frame}: {}", error.message);
    }
}

#[test]
fn params_that_are_no_object_are_c210() {
    for params in ["[]", "[\"a\"]", "1", "\"a\"", "true"] {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"coder::info","params":{params}}}"#);
        let (id, error) = refused(&frame);
        assert_eq!((id, error.code), (Some(Id::Integer(3)), -32602), "{params}");
        assert_eq!(error.data.unwrap().error.code, Code::BadInput);
    }
}

#[test]
fn ids_are_integers_and_strings() {
    let call = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
    for (sent, id) in [
        ("0", Id::Integer(0)),
        ("-9223372036854775808", Id::Integer(i64::MIN)),
        ("18446744073709551615", Id::Large(u64::MAX)),
        ("\"\"", Id::Text(String::new())),
        ("\"7\"", Id::Text("7".into())),
    ] {
        assert_eq!(called(&call(sent)).0, id);
        assert_eq!(serde_json::to_string(&id).unwrap(), sent);
    }
    for sent in ["null", "1.5", "1.0", "1e3", "18446744073709551616", "[]", "{}", "true"] {
        let (id, error) = refused(&call(sent));
        assert_eq!((id, error.code), (None, -32600), "{sent}");
    }
}

#[test]
fn a_call_without_id_is_refused_and_told_why() {
    let (id, error) = refused(r#"{"jsonrpc":"2.0","method":"coder::info"}"#);
    assert_eq!((id, error.code), (None, -32600));
    assert!(error.message.contains("needs an id"), "{}", error.message);
}

#[test]
fn cancel_comes_with_or_without_an_id_of_its_own() {
    let frame = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}"#;
    assert_eq!(parse(frame.as_bytes()), Incoming::Cancel { id: Id::Integer(7), reply_to: None });
    let frame = r#"{"jsonrpc":"2.0","id":8,"method":"$/cancelRequest","params":{"id":"x"}}"#;
    let reply_to = Some(Id::Integer(8));
    assert_eq!(parse(frame.as_bytes()), Incoming::Cancel { id: Id::Text("x".into()), reply_to });
    for params in ["{}", "null", "{\"id\":null}", "{\"id\":1.5}"] {
        let frame = format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{params}}}"#);
        assert_eq!(refused(&frame).1.code, -32602, "{params}");
    }
}

#[test]
fn broken_envelopes_have_the_codes_of_the_contract() {
    for (frame, code) in [
        ("", -32700),
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, -32600),
        ("1", -32600),
        ("null", -32600),
        (r#"{"id":1,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"\u0061":2}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","timeout_ms":-1}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","timeout_ms":"5"}"#, -32602),
    ] {
        assert_eq!(refused(frame).1.code, code, "{frame}");
    }
}

#[test]
fn a_complaint_reaches_the_call_that_caused_it() {
    for rest in [r#""method":"m""#, r#""jsonrpc":"2.0""#, r#""jsonrpc":"2.0","method":"m","params":[]"#] {
        assert_eq!(refused(&format!(r#"{{{rest},"id":"mine"}}"#)).0, Some(Id::Text("mine".into())));
    }
}

#[test]
fn unknown_members_are_named_and_cut_short() {
    let long = "z".repeat(10_000);
    let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","param":{{}},"path":"a","timeout":5,"{long}":1}}"#);
    let warnings = called(&frame).4;
    assert_eq!(
        warnings[..3],
        [
            "param: unknown member beside params, ignored; did you mean params?",
            "path: unknown member beside params, ignored; fields of the function belong inside params",
            "timeout: unknown member beside params, ignored; did you mean timeout_ms?",
        ]
    );
    assert!(warnings[3].len() < 200);
}

/// Any JSON four levels deep in any member of the envelope.
fn nested() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just("2.0".to_owned()), Just(CANCEL_METHOD.to_owned()), ".{0,8}"].prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![prop::sample::select(&MEMBERS[..]).prop_map(str::to_owned), ".{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        parse(&bytes);
    }

    #[test]
    fn no_json_makes_the_parser_panic_and_ids_survive(mut frame in nested(), keep_version in any::<bool>()) {
        if let (true, Some(members)) = (keep_version, frame.as_object_mut()) {
            members.insert("jsonrpc".into(), json!("2.0"));
        }
        let sent = frame.get("id").and_then(Id::from_value);
        let answered = match parse(&serde_json::to_vec(&frame).unwrap()) {
            Incoming::Call { id, params, .. } => { prop_assert!(params.is_object()); Some(id) }
            Incoming::Cancel { reply_to, .. } => reply_to,
            Incoming::Invalid { id, .. } => id,
        };
        prop_assert_eq!(answered, sent);
    }

    #[test]
    fn cutting_a_frame_anywhere_is_a_parse_error(cut in 0usize..70) {
        let frame = br#"{"jsonrpc":"2.0","id":7,"method":"coder::info","params":{"a":["b"]}}"#;
        let is_error = matches!(parse(&frame[..cut.min(frame.len() - 1)]), Incoming::Invalid { id: None, .. });
        prop_assert!(is_error);
    }
}
