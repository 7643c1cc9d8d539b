//! Replies: written by the worker, read by frontends. Pure.
//! The worker's side trusts its own result types and nothing in the texts; the frontend's side trusts nothing.
//! Never leaves half a reply in the output, never more than one line per reply.

use serde::Serialize;
use serde_json::Value;

use super::{
    envelope::Id,
    error::{Code, Error},
    json::shown,
    rpc_error::RpcError,
};

/// Appends one success line. Results are objects; warnings become their first member.
pub fn write_result(out: &mut Vec<u8>, id: &Id, result: &impl Serialize, warnings: &[String]) {
    let before = out.len();
    if let Err(error) = try_write_result(out, id, result, warnings) {
        out.truncate(before);
        let error = Error::new(Code::C216, format!("the result cannot be written as JSON: {error}"));
        write_error(out, Some(id), &error.into());
    }
}

fn try_write_result(
    out: &mut Vec<u8>,
    id: &Id,
    result: &impl Serialize,
    warnings: &[String],
) -> serde_json::Result<()> {
    open(out, Some(id))?;
    out.extend_from_slice(b",\"result\":");
    let at = out.len();
    if !warnings.is_empty() {
        out.extend_from_slice(b"{\"warnings\":");
        serde_json::to_writer(&mut *out, warnings)?;
    }
    let body = out.len();
    serde_json::to_writer(&mut *out, result)?;
    if body > at {
        join_objects(out, at, body);
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// `{"warnings":[…]` + `{"a":1}` → `{"warnings":[…],"a":1}`: one byte changes, the result is not written twice.
fn join_objects(out: &mut Vec<u8>, at: usize, body: usize) {
    debug_assert_eq!(out[body], b'{', "results are objects");
    if out[body..] == *b"{}" {
        out.truncate(body);
        out.push(b'}');
    } else if out[body] == b'{' {
        out[body] = b',';
    } else {
        // A result that is no object has no place for warnings; the result matters more.
        out.drain(at..body);
    }
}

/// Appends one error line. Without an id the client cannot know which call failed; that is for bad frames only.
pub fn write_error(out: &mut Vec<u8>, id: Option<&Id>, error: &RpcError) {
    let before = out.len();
    let written = open(out, id).and_then(|()| {
        out.extend_from_slice(b",\"error\":");
        serde_json::to_writer(&mut *out, error)
    });
    debug_assert!(written.is_ok(), "ids and errors are numbers and strings, which always serialise");
    if written.is_err() {
        out.truncate(before);
        out.extend_from_slice(
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}"#,
        );
    }
    out.extend_from_slice(b"}\n");
}

fn open(out: &mut Vec<u8>, id: Option<&Id>) -> serde_json::Result<()> {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    serde_json::to_writer(out, &id)
}

/// What a frontend received. Without an id: the connection itself is in trouble, all open calls are unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub id: Option<Id>,
    pub outcome: Result<Value, RpcError>,
}

/// Reads one reply line. Not the strict parser: a tree reply nests two levels per folder and may pass the
/// depth a request is allowed; serde_json's own limit (128) still bounds the recursion.
pub fn parse_reply(line: &[u8]) -> super::Result<Reply> {
    let unusable = |why: String| Error::new(Code::C216, format!("the service sent no JSON-RPC reply: {why}"));
    let reply: Value = serde_json::from_slice(line).map_err(|e| unusable(e.to_string()))?;
    let Value::Object(mut members) = reply else {
        return Err(unusable("not an object".into()));
    };
    let id = match members.remove("id") {
        None | Some(Value::Null) => None,
        Some(id) => Some(
            Id::from_value(&id).ok_or_else(|| unusable(format!("{} is no id", shown(&id.to_string()))))?,
        ),
    };
    let outcome = match (members.remove("result"), members.remove("error")) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(parse_error(error).ok_or_else(|| unusable("no error object".into()))?),
        _ => return Err(unusable("neither a result nor an error".into())),
    };
    Ok(Reply { id, outcome })
}

fn parse_error(error: Value) -> Option<RpcError> {
    let Value::Object(mut members) = error else { return None };
    let code = i32::try_from(members.get("code")?.as_i64()?).ok()?;
    let Value::String(message) = members.remove("message")? else { return None };
    // `data` of another service may be anything; ours is a wire error.
    let data = members.remove("data").and_then(|data| serde_json::from_value(data).ok());
    Some(RpcError { code, message, data })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(result: &Value, warnings: &[&str]) -> Value {
        let mut out = b"earlier\n".to_vec();
        let warnings: Vec<String> = warnings.iter().map(|w| (*w).to_owned()).collect();
        write_result(&mut out, &Id::Integer(7), result, &warnings);
        let line = out.strip_prefix(b"earlier\n").unwrap();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        serde_json::from_slice(line).unwrap()
    }

    #[test]
    fn warnings_stand_at_the_top_of_the_result() {
        assert_eq!(
            written(&json!({"a": 1, "b": {"c": []}}), &["x: \"odd\"\n", "y"]),
            json!({"jsonrpc": "2.0", "id": 7, "result": {"warnings": ["x: \"odd\"\n", "y"], "a": 1, "b": {"c": []}}})
        );
        assert_eq!(written(&json!({}), &["w"])["result"], json!({"warnings": ["w"]}));
        assert_eq!(written(&json!({"a": 1}), &[])["result"], json!({"a": 1}));
        assert_eq!(written(&json!({}), &[])["result"], json!({}));
    }

    #[test]
    fn a_result_that_cannot_be_written_becomes_an_error_line() {
        let impossible = std::collections::BTreeMap::from([((1, 2), 3)]);
        let mut out = Vec::new();
        write_result(&mut out, &Id::Text("a".into()), &impossible, &["w".into()]);
        let reply = parse_reply(&out).unwrap();
        assert_eq!(reply.id, Some(Id::Text("a".into())));
        assert_eq!(reply.outcome.unwrap_err().data.unwrap().error.code, Code::C216);
    }

    #[test]
    fn errors_look_as_the_contract_shows_them() {
        let mut out = Vec::new();
        let mut error = Error::new(Code::C211, "a: not found");
        write_error(&mut out, Some(&Id::Integer(7)), &error.clone().into());
        error.code = Code::C219;
        error.etag = Some("00ff".into());
        write_error(&mut out, None, &error.into());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"C211 a: not found","#,
                r#""data":{"code":"C211","message":"a: not found"}}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"C219 a: not found","#,
                r#""data":{"code":"C219","message":"a: not found","etag":"00ff"}}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_frontend_reads_what_the_worker_writes() {
        let mut warnings = crate::wire::Warnings::default();
        warnings.push("pth: unknown field, ignored; did you mean path?".into());
        let error = RpcError::from(Error::bad_input("x")).with_warnings(&warnings);
        let mut out = Vec::new();
        write_error(&mut out, Some(&Id::Large(u64::MAX)), &error);
        assert_eq!(parse_reply(&out), Ok(Reply { id: Some(Id::Large(u64::MAX)), outcome: Err(error) }));
    }

    #[test]
    fn a_reply_as_deep_as_the_deepest_tree_is_read() {
        let levels = crate::wire::Limits::default().tree_max_depth as usize;
        let tree = format!("{}{}", r#"{"children":["#.repeat(levels), "]}".repeat(levels));
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"root":{tree}}}}}"#);
        assert!(parse_reply(line.as_bytes()).unwrap().outcome.is_ok());
    }

    #[test]
    fn other_lines_are_no_replies() {
        for line in [
            "",
            "[]",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":1,"result":{},"error":{}}"#,
            r#"{"id":[],"result":1}"#,
            r#"{"id":1,"error":{"code":1}}"#,
            r#"{"id":1,"error":{"code":1e9,"message":""}}"#,
        ] {
            assert_eq!(parse_reply(line.as_bytes()).unwrap_err().code, Code::C216, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_texts_make_one_valid_line(
            members in prop::collection::btree_map(".*", ".*", 0..4),
            warnings in prop::collection::vec(".*", 0..4),
            id in ".*",
        ) {
            prop_assume!(!members.contains_key("warnings"));
            let mut out = Vec::new();
            write_result(&mut out, &Id::Text(id.clone()), &members, &warnings);
            prop_assert_eq!(out.iter().position(|b| *b == b'\n'), Some(out.len() - 1));
            let reply = parse_reply(&out).unwrap();
            prop_assert_eq!(reply.id, Some(Id::Text(id)));
            let mut expected = json!(members);
            if !warnings.is_empty() {
                expected["warnings"] = json!(warnings);
            }
            prop_assert_eq!(reply.outcome.unwrap(), expected);
        }

        #[test]
        fn no_bytes_make_a_frontend_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_reply(&bytes);
        }
    }
}
