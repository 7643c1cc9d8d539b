//! `stockade stat`: one line for each name.

use std::ffi::OsString;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    super::client::CallError,
    CommandResult, FileSession,
    args::StatArgs,
    escape::{self, escape_text},
    failure::{EXIT_REFUSED, entry_failure, unexpected_result},
    output::{Output, OutputStyle, Paint},
    paths::PathBase,
    progress,
    units::utc_minute,
};

const METHOD: &str = "coder::stat";

/// Names of one call; far below the service's limit of 1,000, which a policy may lower.
const BATCH_PATHS: usize = 100;

#[derive(Debug, Deserialize)]
struct CliStatBatch {
    results: Vec<CliStatEntry>,
}

#[derive(Debug, Deserialize)]
struct CliStatEntry {
    kind: Option<String>,
    size: Option<u64>,
    mode: Option<u32>,
    mtime: Option<i64>,
    nlink: Option<u64>,
    link_target: Option<String>,
    link_target_bytes: Option<String>,
    total_lines: Option<u64>,
    is_utf8: Option<bool>,
    etag: Option<String>,
    error: Option<Box<RawValue>>,
}

pub(super) fn run(args: &StatArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    // A program gets one reply for one command, so all names go into one call.
    let step = if out.json { args.paths.len() } else { BATCH_PATHS };
    let mut failed = Vec::new();
    for paths in args.paths.chunks(step.max(1)) {
        let request = request(args, paths, session.path_base());
        let reply = progress::show_during("looking", || session.call(METHOD, &request))?;
        let batch: CliStatBatch = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        if batch.results.len() != paths.len() {
            return Err(CallError::Protocol("a batch with another number of results".into()).into());
        }
        if out.json {
            out.write_json_line(reply.get())?;
            let is_refused = batch.results.iter().any(|facts| facts.error.is_some());
            return Ok(if is_refused { EXIT_REFUSED } else { 0 });
        }
        for (path, facts) in paths.iter().zip(&batch.results) {
            match &facts.error {
                // One failed name does not hide the others.
                Some(error) => failed.push(out.report_entry(entry_failure(error))),
                None => out.write_text(&render(path, facts, out.style))?,
            }
        }
    }
    Ok(out.report_hints(&failed))
}

fn request(args: &StatArgs, paths: &[OsString], base: &PathBase) -> String {
    let mut request = json!({ "paths": paths.iter().map(|path| base.wire_path(path)).collect::<Vec<Value>>() });
    for (field, is_set) in [("etag", args.etag), ("lines", args.lines)] {
        if is_set {
            request[field] = true.into();
        }
    }
    request.to_string()
}

fn render(path: &OsString, facts: &CliStatEntry, style: OutputStyle) -> String {
    let name = escape::name(path.as_encoded_bytes());
    let name = match facts.kind.as_deref() {
        Some("dir") => style.paint(Paint::Folder, &name),
        Some("symlink") => style.paint(Paint::Link, &name),
        _ => name,
    };
    let mut words = vec![describe_kind(facts)];
    words.extend(facts.size.map(|size| format!("{size} bytes")));
    words.extend(facts.total_lines.map(|lines| format!("{lines} lines")));
    words.extend(facts.is_utf8.map(|utf8| if utf8 { "UTF-8" } else { "not UTF-8" }.to_owned()));
    words.extend(facts.mode.map(|mode| format!("mode {mode:04o}")));
    // Folders always have several links. For other kinds, a count above 1 means that there is another name.
    let is_dir = facts.kind.as_deref() == Some("dir");
    words.extend(facts.nlink.filter(|links| *links > 1 && !is_dir).map(|links| format!("{links} names")));
    words.extend(facts.mtime.map(|mtime| format!("modified {} UTC", utc_minute(mtime))));
    words.extend(facts.etag.as_deref().map(|etag| format!("etag {}", escape_text(etag))));
    format!("{name}: {}\n", words.join(", "))
}

fn describe_kind(facts: &CliStatEntry) -> String {
    match (facts.kind.as_deref(), &facts.link_target) {
        (Some("file"), _) => "file".into(),
        (Some("dir"), _) => "folder".into(),
        (Some("symlink"), Some(target)) => {
            let bytes = facts.link_target_bytes.as_ref().and_then(|bytes| BASE64.decode(bytes).ok());
            format!("link to {}", escape::name(bytes.as_deref().unwrap_or(target.as_bytes())))
        }
        (Some("symlink"), None) => "link".into(),
        _ => "special".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::cli::tests::{CommandRun, run_against};

    fn stat(line: &[&str], results: Vec<Value>) -> CommandRun {
        let mut rest = results;
        run_against(line, None, move |method, params| {
            assert_eq!(method, "coder::stat");
            let later = rest.split_off(params["paths"].as_array().unwrap().len());
            Ok(json!({"results": std::mem::replace(&mut rest, later)}))
        })
    }

    fn facts(kind: &str, more: Value) -> Value {
        let mut facts = json!({"path": "/r/x", "success": true, "kind": kind, "size": 8, "mode": 0o640,
            "mtime": 951_782_400, "mtime_ns": 5, "nlink": 2});
        facts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        facts
    }

    fn refused() -> Value {
        json!({"path": "no", "success": false, "error": {"code": "C211", "message": "no: not found or not accessible"}})
    }

    #[test]
    fn each_name_gets_one_line() {
        let results = vec![
            facts("file", json!({"total_lines": 2, "is_utf8": true, "etag": "00ff"})),
            facts("dir", json!({})),
            facts("symlink", json!({"link_target": "caf\u{fffd}", "link_target_bytes": "Y2Fm6Q==", "nlink": 1})),
            facts("other", json!({"nlink": 1})),
        ];
        let ran = stat(&["stat", "--etag", "--lines", "a", "d", "l", "p"], results);
        let expected = "\
a: file, 8 bytes, 2 lines, UTF-8, mode 0640, 2 names, modified 2000-02-29 00:00 UTC, etag 00ff
d: folder, 8 bytes, mode 0640, modified 2000-02-29 00:00 UTC
l: link to caf\\xe9, 8 bytes, mode 0640, modified 2000-02-29 00:00 UTC
p: special, 8 bytes, mode 0640, modified 2000-02-29 00:00 UTC
";
        assert_eq!((ran.code, ran.text()), (0, expected));
        assert_eq!(
            ran.calls[0].1,
            json!({"paths": [{"path": "a"}, {"path": "d"}, {"path": "l"}, {"path": "p"}], "etag": true, "lines": true})
        );
    }

    #[test]
    fn a_refused_name_hides_no_other_and_shows_in_the_exit_code() {
        let ran = stat(&["stat", "no", "b"], vec![refused(), facts("file", json!({}))]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("C211 no: not found") && ran.text().starts_with("b: file"), "{ran:?}");
    }

    #[test]
    fn many_names_go_in_several_calls_and_as_json_in_one() {
        let names: Vec<String> = (0..150).map(|i| i.to_string()).collect();
        let mut line = vec!["stat"];
        line.extend(names.iter().map(String::as_str));
        let results = || vec![facts("file", json!({})); 150];
        let ran = stat(&line, results());
        assert_eq!((ran.calls.len(), ran.text().lines().count()), (2, 150));
        line.push("--json");
        let ran = stat(&line, results());
        assert_eq!((ran.calls.len(), ran.text().lines().count()), (1, 1));
        let ran = stat(&["stat", "--json", "no"], vec![refused()]);
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "the reply has the error");
    }

    #[test]
    fn hostile_names_and_targets_never_reach_the_output_raw() {
        let results = vec![facts("symlink", json!({"link_target": "\u{1b}[2J\n"}))];
        let ran = stat(&["stat", "a\u{7}"], results);
        assert!(ran.text().starts_with("a\\u0007: link to \\u001b[2J\\n, 8 bytes"), "{}", ran.text());
    }
}
