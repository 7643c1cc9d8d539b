use serde_json::{Value, json};

use super::*;
use crate::frontends::cli::tests::{CommandRun, run_against};

/// A service whose files are `files`; a byte window holds at most `cap` bytes, a line window `cap` lines.
fn read_from(line: &[&str], files: &'static [(&str, &[u8])], cap: usize) -> CommandRun {
    run_against(line, None, move |method, params| {
        assert_eq!(method, "coder::read-file");
        match params["paths"].as_array() {
            None => one(params, files, cap),
            Some(paths) => {
                let entry = |params| match one(params, files, cap) {
                    Ok(mut reply) => {
                        reply["success"] = true.into();
                        reply
                    }
                    Err(error) => json!({"path": params["path"], "success": false, "error": error}),
                };
                Ok(json!({ "results": paths.iter().map(entry).collect::<Vec<_>>() }))
            }
        }
    })
}

fn one(params: &Value, files: &[(&str, &[u8])], cap: usize) -> Result<Value, Value> {
    let path = params["path"].as_str().unwrap();
    let Some((_, bytes)) = files.iter().find(|(name, _)| *name == path) else {
        return Err(json!({"code": "C211", "message": format!("{path}: not found or not accessible")}));
    };
    let number = |key: &str| params[key].as_u64().map(|n| n as usize);
    let mut reply = json!({"path": path, "size": bytes.len(), "mtime": 0, "mode": 0o644});
    if params["stat"] == true {
        reply["total_lines"] = 2.into();
        reply["is_utf8"] = true.into();
        return Ok(reply);
    }
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let content = match (number("line_from"), number("tail")) {
        (Some(from), _) => {
            let end = number("line_to").unwrap_or(lines.len()).min(from - 1 + cap).min(lines.len());
            let window = &lines[(from - 1).min(end)..end];
            reply["lines_returned"] = window.len().into();
            reply["more_lines"] = (end < lines.len()).into();
            let numbered = params["numbered"] == true;
            let prefix = |at: usize| if numbered { format!("{}→", from + at) } else { String::new() };
            window.iter().enumerate().flat_map(|(at, line)| [prefix(at).as_bytes(), line].concat()).collect()
        }
        (None, Some(count)) => lines[lines.len().saturating_sub(count)..].concat(),
        (None, None) => {
            let from = number("byte_from").unwrap_or(0).min(bytes.len());
            let to = number("byte_to").unwrap_or(bytes.len()).min(from + cap).min(bytes.len());
            bytes[from..to].to_vec()
        }
    };
    let base64 = params["encoding"] == "base64";
    reply["content"] =
        if base64 { BASE64.encode(content) } else { String::from_utf8_lossy(&content).into_owned() }.into();
    Ok(reply)
}

const FILES: &[(&str, &[u8])] = &[("a.txt", b"one\ntwo\nthree"), ("b.bin", b"\x00\xff\r\n\x1b\x80"), ("empty", b"")];

#[test]
fn bytes_arrive_exactly_and_nothing_is_added() {
    for (name, bytes) in FILES {
        for cap in [1, 2, 100] {
            let ran = read_from(&["read", name], FILES, cap);
            assert_eq!((ran.code, ran.out.as_slice()), (0, *bytes), "{name} {cap}");
            assert_eq!(ran.calls.len(), bytes.len().div_ceil(cap).max(1), "{name} {cap}");
        }
    }
}

#[test]
fn line_windows_are_paged_without_repeating_or_losing_a_line() {
    for cap in [1, 2, 100] {
        assert_eq!(read_from(&["read", "--lines", "2:3", "a.txt"], FILES, cap).text(), "two\nthree");
        assert_eq!(read_from(&["read", "--lines", ":2", "a.txt"], FILES, cap).text(), "one\ntwo\n");
        assert_eq!(read_from(&["read", "-n", "a.txt"], FILES, cap).text(), "1→one\n2→two\n3→three");
    }
    assert_eq!(read_from(&["read", "--lines", "9:", "a.txt"], FILES, 1).text(), "");
}

#[test]
fn byte_windows_and_tails_are_exact() {
    assert_eq!(read_from(&["read", "--bytes", "1:5", "b.bin"], FILES, 2).out, b"\xff\r\n\x1b");
    assert_eq!(read_from(&["read", "--tail", "1", "a.txt"], FILES, 100).text(), "three");
}

#[test]
fn a_tail_that_was_cut_goes_on_as_lines() {
    let ran = run_against(&["read", "--tail", "2", "x"], None, |_, params| match params["tail"].is_null() {
        false => Ok(json!({"content": "YQo=", "size": 9, "more_lines": true, "next_line": 8, "lines_returned": 1})),
        true => Ok(json!({"content": "Ygo=", "size": 9, "more_lines": false, "lines_returned": 1})),
    });
    assert_eq!(ran.text(), "a\nb\n");
    assert_eq!(ran.calls[1].1, json!({"path": "x", "line_from": 8, "encoding": "base64"}));
}

#[test]
fn base64_is_one_text_whatever_the_windows_were() {
    assert_eq!(read_from(&["read", "--base64", "b.bin"], FILES, 2).text(), "AP8NChuA\n");
}

#[test]
fn max_bytes_cuts_and_says_so() {
    let ran = read_from(&["read", "--max-bytes", "5", "a.txt"], FILES, 2);
    assert_eq!((ran.code, ran.text()), (0, "one\nt"));
    assert_eq!(ran.err, "stockade: a.txt: first 5 of 13 bytes\n");
    assert_eq!(read_from(&["read", "--max-bytes", "13", "a.txt"], FILES, 99).err, "");
}

#[test]
fn several_files_are_one_batch_with_headers() {
    let ran = read_from(&["read", "a.txt", "empty", "b.bin"], FILES, 100);
    let expected = b"==> a.txt <==\none\ntwo\nthree\n==> empty <==\n\n==> b.bin <==\n\x00\xff\r\n\x1b\x80";
    assert_eq!(ran.out, expected);
    assert_eq!(ran.calls.len(), 1);
}

#[test]
fn files_cut_by_the_batch_are_read_to_their_end() {
    let ran = read_from(&["read", "a.txt", "empty"], FILES, 4);
    assert_eq!(ran.text(), "==> a.txt <==\none\ntwo\nthree\n==> empty <==\n");
}

#[test]
fn a_missing_file_does_not_hide_the_others() {
    let ran = read_from(&["read", "nope", "a.txt"], FILES, 100);
    assert_eq!((ran.code, ran.text()), (1, "==> nope <==\n\n==> a.txt <==\none\ntwo\nthree"));
    assert!(ran.err.starts_with("stockade: C211 nope: not found"), "{}", ran.err);
    let alone = read_from(&["read", "nope"], FILES, 100);
    assert_eq!((alone.code, alone.text()), (1, ""));
}

#[test]
fn an_exhausted_batch_budget_costs_a_call_and_no_content() {
    let ran = run_against(&["read", "x", "y"], None, |_, params| match params["paths"].is_array() {
        true => Ok(json!({"results": [
            {"path": "x", "success": true, "content": "eA==", "size": 1},
            {"path": "y", "success": false, "error": {"code": "C213", "message": "budget"}},
        ]})),
        false => Ok(json!({"path": "y", "content": "eQ==", "size": 1})),
    });
    assert_eq!((ran.code, ran.text()), (0, "==> x <==\nx\n==> y <==\ny"));
}

#[test]
fn a_file_that_changes_between_windows_is_reported() {
    let mut mtime = 0;
    let ran = run_against(&["read", "x"], None, move |_, _| {
        mtime += 1;
        Ok(json!({"path": "x", "content": "eA==", "size": 3, "mtime": mtime}))
    });
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("x: changed while it was being read"), "{}", ran.err);
}

#[test]
fn a_line_too_long_for_a_reply_is_an_error_and_not_a_loop() {
    let ran = run_against(&["read", "--lines", "4:", "x"], None, |_, _| {
        Ok(json!({"path": "x", "content": "", "size": 9, "lines_returned": 0, "more_lines": true, "next_byte": 7}))
    });
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--bytes 7:"), "{}", ran.err);
}

#[test]
fn a_file_that_cannot_be_printed_whole_does_not_hide_the_others() {
    let ran = run_against(&["read", "-n", "x", "y"], None, |_, _| {
        Ok(json!({"results": [
            {"success": true, "content": "", "size": 9, "lines_returned": 0, "more_lines": true},
            {"success": true, "content": "1→y", "size": 1, "lines_returned": 1, "more_lines": false},
        ]}))
    });
    assert_eq!((ran.code, ran.text()), (1, "==> x <==\n\n==> y <==\n1→y"));
}

#[test]
fn stat_is_one_line_per_file() {
    let ran = read_from(&["read", "--stat", "a.txt", "empty"], FILES, 100);
    assert_eq!(
        ran.text(),
        "a.txt: 13 bytes, 2 lines, UTF-8, mode 0644, modified 1970-01-01 00:00 UTC\n\
         empty: 0 bytes, 2 lines, UTF-8, mode 0644, modified 1970-01-01 00:00 UTC\n"
    );
}

#[test]
fn json_is_one_call_exactly_as_asked_for() {
    let ran = read_from(&["read", "--json", "--lines", "1:1", "a.txt"], FILES, 100);
    assert_eq!(ran.calls[0].1, json!({"path": "a.txt", "line_from": 1, "line_to": 1}));
    let reply: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(reply["content"], "one\n");
    let rest = read_from(&["read", "--json", "--bytes", "2:", "a.txt"], FILES, 100);
    assert_eq!(rest.calls[0].1, json!({"path": "a.txt", "byte_from": 2}));
    let whole = read_from(&["read", "--json", "a.txt"], FILES, 100);
    assert_eq!(whole.calls[0].1, json!({"path": "a.txt"}));
    let batch = read_from(&["read", "--json", "a.txt", "nope"], FILES, 100);
    assert_eq!((batch.code, batch.out.iter().filter(|byte| **byte == b'\n').count()), (1, 1));
}

#[test]
fn names_that_are_not_utf8_travel_as_bytes() {
    use std::os::unix::ffi::OsStringExt;
    let path = std::ffi::OsString::from_vec(b"caf\xe9".to_vec());
    assert_eq!(super::super::paths::wire_path(&path), json!({"path_bytes": "Y2Fm6Q=="}));
    assert_eq!(display_path(&path), "caf\\xe9");
}
