use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcRequest, NumberOrString};
use serde_json::json;

use super::*;

fn call(id: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// `rmcp` as an independent reader of the same lines.
#[test]
fn a_call_is_read_as_rmcp_reads_it() {
    for line in [
        call("1", r#"{"name":"read","arguments":{"path":"a","n":[1,{"b":null}]}}"#),
        call("\"x\"", r#"{"arguments":{},"name":"info"}"#),
        call("1.0", r#"{"name":"info"}"#),
        call("-3", r#"{"name":"info","arguments":null}"#),
        call("7", r#"{"name":"read","arguments":{},"_meta":{"progressToken":7,"host/any":{"a":1}}}"#),
        call("7", r#"{"name":"r\u0065ad","_meta":{"progressToken":"t"},"task":{}}"#),
    ] {
        let expected: ClientJsonRpcMessage = serde_json::from_str(&line).unwrap();
        let ClientJsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = expected else {
            panic!("{line}");
        };
        let token = request.get_meta().get_progress_token();
        let ClientRequest::CallToolRequest(expected) = request else { panic!("{line}") };
        let HostMessage::Request { id: own_id, method, params, malformed: None } = parse_message(line.as_bytes())
        else {
            panic!("{line}");
        };
        let id = match id {
            NumberOrString::Number(number) => Id::Integer(number),
            NumberOrString::String(text) => Id::Text(text.as_ref().into()),
        };
        assert_eq!((own_id, &*method), (id, "tools/call"));
        assert_eq!(decode::<String>(params.name).unwrap(), expected.params.name);
        let arguments = serde_json::to_value(params.arguments.unwrap_or_default()).unwrap();
        assert_eq!(arguments, Value::Object(expected.params.arguments.unwrap_or_default()));
        let own_token: Option<Value> = decode(params.meta.unwrap_or_default().progress_token);
        assert_eq!(own_token, token.map(|token| serde_json::to_value(token).unwrap()), "{line}");
    }
}

/// The code and the id of the error that answers a line.
fn refused(line: &str) -> Option<(i32, Option<Id>)> {
    match parse_message(line.as_bytes()) {
        HostMessage::Invalid { id, error } => Some((error.code, id)),
        _ => None,
    }
}

#[test]
fn a_line_that_is_no_message_is_refused_with_the_id_that_it_shows() {
    let seven = Some(Id::Integer(7));
    for (line, expected) in [
        ("garbage".to_owned(), (PARSE_ERROR, None)),
        (r#"{"jsonrpc":"2.0","id":7,"#.into(), (PARSE_ERROR, None)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping"} x"#.into(), (PARSE_ERROR, None)),
        (format!("[{}]", call("7", "{}")), (INVALID_REQUEST, None)),
        ("7".into(), (INVALID_REQUEST, None)),
        (r#"["2.0",7,"ping"]"#.into(), (INVALID_REQUEST, None)),
        ("\"tools/call\"".into(), (INVALID_REQUEST, None)),
        ("{}".into(), (INVALID_REQUEST, None)),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#.into(), (INVALID_REQUEST, seven.clone())),
        (r#"{"id":7,"method":"ping"}"#.into(), (INVALID_REQUEST, seven.clone())),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#.into(), (INVALID_REQUEST, seven.clone())),
        (r#"{"jsonrpc":"2.0","id":7}"#.into(), (INVALID_REQUEST, seven.clone())),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.into(), (INVALID_REQUEST, None)),
        (r#"{"jsonrpc":"2.0","id":[7],"method":"ping"}"#.into(), (INVALID_REQUEST, None)),
        (call("7", r#"{"name":"read","name":"list"}"#), (INVALID_REQUEST, seven.clone())),
        (call("7", r#"{"name":"d","arguments":{"dry":true,"dry":false}}"#), (INVALID_REQUEST, seven.clone())),
        (call("7", r#"{"name":"d","arguments":{"a":{"b":1,"b":2}}}"#), (INVALID_REQUEST, seven)),
    ] {
        assert_eq!(refused(&line), Some(expected), "{line}");
    }
}

#[test]
fn params_of_an_unexpected_shape_leave_the_request_a_request() {
    for params in ["[]", "7", r#"{"arguments":[]}"#, r#"{"_meta":[]}"#, r#"{"arguments":{"a":"\ud800"}}"#] {
        let line = call("1", params);
        assert!(matches!(parse_message(line.as_bytes()), HostMessage::Request { malformed: Some(_), .. }), "{params}");
    }
    let line = call("1", r#"{"arguments":[],"_meta":{"progressToken":1}}"#);
    let HostMessage::Request { params, malformed: Some(_), .. } = parse_message(line.as_bytes()) else { panic!() };
    assert!(params.meta.unwrap().progress_token.is_some(), "what it says about itself is still read");
}

#[test]
fn notifications_are_never_answered() {
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
        r#"{"jsonrpc":"1.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"x","params":{"name":1,"name":2}}"#,
        " ",
    ] {
        assert!(matches!(parse_message(line.as_bytes()), HostMessage::Ignored), "{line}");
    }
}

#[test]
fn responses_of_the_host_are_results_or_errors() {
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}"#, Some(json!({"roots": []}))),
        (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, Some(json!(null))),
        (r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}"#, None),
    ] {
        let HostMessage::Response { id, result } = parse_message(line.as_bytes()) else { panic!("{line}") };
        assert_eq!((id, decode::<Value>(result)), (Id::Integer(3), expected));
    }
}
