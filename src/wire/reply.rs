//! Runs in the worker: writes replies. Frontends read them (`frontends/client/replies.rs`). Pure.
//! Trusts its own result types and nothing in the texts.
//! Never leaves half a reply in the output, never more than one line per reply.

use serde::Serialize;

use super::{
    envelope::Id,
    error::{Code, Error},
    rpc_error::RpcError,
};

/// Appends one success line. Results are objects; warnings become their first member.
pub fn write_result(out: &mut Vec<u8>, id: &Id, result: &impl Serialize, warnings: &[String]) {
    let before = out.len();
    if let Err(error) = try_write_result(out, id, result, warnings) {
        out.truncate(before);
        let error = Error::new(Code::Io, format!("the result cannot be written as JSON: {error}"));
        write_error(out, Some(id), &error.into());
    }
}

fn try_write_result(
    out: &mut Vec<u8>,
    id: &Id,
    result: &impl Serialize,
    warnings: &[String],
) -> serde_json::Result<()> {
    begin_reply(out, Some(id))?;
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

/// `{"warnings":[…]` + `{"a":1}` → `{"warnings":[…],"a":1}`: changes one byte instead of writing the result twice.
fn join_objects(out: &mut Vec<u8>, at: usize, body: usize) {
    debug_assert_eq!(out[body], b'{', "results are objects");
    if out[body..] == *b"{}" {
        out.truncate(body);
        out.push(b'}');
    } else if out[body] == b'{' {
        out[body] = b',';
    } else {
        // A result that is no object cannot hold warnings. They are dropped, because the result matters more.
        out.drain(at..body);
    }
}

/// Appends one error line. Without an id the client cannot know which call failed; that is for bad frames only.
pub fn write_error(out: &mut Vec<u8>, id: Option<&Id>, error: &RpcError) {
    let before = out.len();
    let written = begin_reply(out, id).and_then(|()| {
        out.extend_from_slice(b",\"error\":");
        serde_json::to_writer(&mut *out, error)
    });
    debug_assert!(written.is_ok(), "ids and errors are numbers and strings, which always serialise");
    if written.is_err() {
        out.truncate(before);
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}"#);
    }
    out.extend_from_slice(b"}\n");
}

fn begin_reply(out: &mut Vec<u8>, id: Option<&Id>) -> serde_json::Result<()> {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    serde_json::to_writer(out, &id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
        let reply: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!("a"), &json!("C216")));
    }

    #[test]
    fn errors_look_as_the_contract_shows_them() {
        let mut out = Vec::new();
        let mut error = Error::new(Code::NotFound, "a: not found");
        write_error(&mut out, Some(&Id::Integer(7)), &error.clone().into());
        error.code = Code::Stale;
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
}
