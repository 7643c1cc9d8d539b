//! The attempt of `stockade check` that no confined worker can make by itself: a client asks the service to change protected
//! names, and every one must be refused with C221 and the reason `protected`. It uses a dry run, which runs all checks of
//! supervisor and worker, but would change nothing even if they failed.

use std::{ffi::OsString, path::Path};

use serde_json::{Value, json};

use super::{
    super::{client::Client, endpoint::Endpoint},
    CallSession,
};
use crate::path::{DenyGlobs, ProtectGlobs};

const NAME: &str = "change_protected_names";
const ATTEMPT: &str = "change protected names as a client (dry run)";
const EXPECTED: &str = "C221 protected";

/// The attempt as an entry of the report, or why it could not be made. `arguments` are those of the supervisor, whose program
/// is `program`.
pub(super) fn attempt_changes(program: &Path, mut arguments: Vec<OsString>) -> Result<Value, String> {
    if arguments.is_empty() {
        // Nothing is changed, so any folder can be the root. The folder of the program exists on every machine.
        let folder = program.parent().unwrap_or(program);
        arguments = vec!["--root".into(), folder.as_os_str().to_owned()];
    }
    if !arguments.iter().any(|argument| argument == "--policy") {
        // In the audit of the user, these refusals would look like an attack. A policy names its own audit.
        arguments.extend(["--audit".into(), "off".into()]);
    }
    let connection = Endpoint::Private(arguments).open().map_err(|error| error.message)?;
    let mut client = Client::new(connection.stream, None);
    let outcome = request_changes(&mut client);
    drop(client);
    if let Some(supervisor) = connection.supervisor {
        let _ = supervisor.wait();
    }
    outcome
}

fn request_changes(session: &mut dyn CallSession) -> Result<Value, String> {
    let mut call = |method: &str, params: &Value| {
        let reply = session.call(method, &params.to_string()).map_err(|error| error.to_string())?;
        serde_json::from_str::<Value>(reply.get()).map_err(|error| error.to_string())
    };
    let info = call("coder::info", &json!({}))?;
    let names = protected_names(&info)?;
    let files: Vec<Value> = names.iter().map(|name| json!({"path": name, "content": ""})).collect();
    let reply = call("coder::create-file", &json!({"files": files, "dry_run": true}))?;
    Ok(judge_results(&names, reply["results"].as_array().map(Vec::as_slice).unwrap_or_default()))
}

/// The plain name of each glob that contains one, as a name in the first writable root.
fn protected_names(info: &Value) -> Result<Vec<String>, String> {
    let strings = |key: &str| -> Vec<String> {
        let list = info[key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let globs = strings("read_only_globs");
    if globs.is_empty() {
        return Err("the policy protects no names".into());
    }
    let is_writable = |root: &&Value| root["mode"] == "rw";
    let root = info["roots"].as_array().into_iter().flatten().find(is_writable);
    let root = root.and_then(|root| root["path"].as_str()).ok_or("no root is writable")?;
    let wrong = |(glob, error)| format!("{glob}: {error}");
    let protect = ProtectGlobs::new(&globs, &strings("read_only_except_globs")).map_err(wrong)?;
    let deny = DenyGlobs::new(&strings("non_accessible_globs"), &strings("non_accessible_except_globs"));
    let deny = deny.map_err(wrong)?;
    // A denied name is refused as a missing one, and an exception is not refused at all.
    let is_right = |name: &&str| protect.rule(name.as_bytes()).is_some() && !deny.matches(name.as_bytes());
    let plain = globs.iter().map(|glob| glob.trim_start_matches("**/").trim_end_matches('*'));
    let plain = plain.filter(|name| !name.contains(['*', '?', '[', ']', '{', '}', '\\', '!']));
    let names: Vec<String> =
        plain.filter(is_right).map(|name| Path::new(root).join(name).to_string_lossy().into_owned()).collect();
    if names.is_empty() { Err("no protect glob gives a plain name to try".into()) } else { Ok(names) }
}

/// Held only if every name was refused for the right reason.
fn judge_results(names: &[String], results: &[Value]) -> Value {
    let is_held = |result: Option<&Value>| {
        let error = result.map(|result| &result["error"]);
        error.is_some_and(|error| error["code"] == "C221" && error["reason"] == "protected")
    };
    let wrong = names.iter().enumerate().find(|(at, _)| !is_held(results.get(*at)));
    let got = wrong.map(|(at, name)| match results.get(at) {
        Some(result) if result["success"] == true => format!("{name} went through"),
        Some(result) => format!("{name} {}", result["error"]["code"].as_str().unwrap_or("?")),
        None => format!("{name} not answered"),
    });
    json!({
        "name": NAME,
        "attempt": ATTEMPT,
        "layer": "globs",
        "expected": EXPECTED,
        "held": got.is_none(),
        "got": got.unwrap_or_else(|| EXPECTED.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(globs: &[&str], except: &[&str], mode: &str) -> Value {
        json!({"read_only_globs": globs, "read_only_except_globs": except, "non_accessible_globs": ["**/hidden"],
            "roots": [{"path": "/ro", "mode": "ro"}, {"path": "/r", "mode": mode}]})
    }

    #[test]
    fn names_are_those_that_a_client_must_not_change() {
        let globs = ["**/.git", "**/.cargo/config*", "**/a?b", "hidden/x", "free", "**/{a,b}"];
        let found = protected_names(&info(&globs, &["free"], "rw")).unwrap();
        assert_eq!(found, ["/r/.git", "/r/.cargo/config"]);
        assert!(protected_names(&info(&[], &[], "rw")).unwrap_err().contains("protects no names"));
        assert!(protected_names(&info(&globs, &[], "ro")).unwrap_err().contains("writable"));
    }

    #[test]
    fn only_the_right_refusal_of_every_name_is_held() {
        let names = ["/r/a".to_owned(), "/r/b".to_owned()];
        let held = json!({"success": false, "error": {"code": "C221", "reason": "protected"}});
        assert_eq!(judge_results(&names, &[held.clone(), held.clone()])["held"], true);
        for (wrong, got) in [
            (json!({"success": true}), "/r/b went through"),
            (json!({"success": false, "error": {"code": "C221"}}), "/r/b C221"),
            (json!({"success": false, "error": {"code": "C211", "reason": "protected"}}), "/r/b C211"),
        ] {
            let attempt = judge_results(&names, &[held.clone(), wrong]);
            assert_eq!((&attempt["held"], &attempt["got"]), (&json!(false), &json!(got)));
        }
        assert_eq!(judge_results(&names, &[held])["got"], "/r/b not answered");
    }
}
