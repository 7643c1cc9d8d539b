use super::*;
use crate::frontends::cli::tests::{CommandRun, run_against};

fn find(line: &[&str], pages: Vec<Value>) -> CommandRun {
    let mut pages = pages.into_iter();
    run_against(line, None, move |method, _| match method {
        "coder::info" => Ok(json!({"primary_root": "/r"})),
        _ => Ok(pages.next().expect("a page for every call")),
    })
}

fn page(paths: &[(&str, &str)], cursor: Option<&str>) -> Value {
    let files: Vec<Value> = paths
        .iter()
        .map(|(path, kind)| json!({"path": path, "kind": kind, "size": 2048, "mtime": 951_782_400}))
        .collect();
    let mut page = json!({"files": files, "file_count": files.len(), "missing_paths": [], "timed_out": false});
    if let Some(cursor) = cursor {
        page["next_cursor"] = cursor.into();
    }
    page
}

#[test]
fn one_path_per_line_below_the_root_and_marked() {
    let reply = page(&[("/r/a.rs", "file"), ("/r/d", "dir"), ("/r/d/l", "symlink"), ("/x/y\n", "file")], None);
    let ran = find(&["find", "*"], vec![reply.clone()]);
    assert_eq!((ran.code, ran.text()), (0, "a.rs\nd/\nd/l@\n/x/y\\n\n"));
    let ran = find(&["find", "-l"], vec![reply]);
    assert!(ran.text().starts_with("- 2.0K  2000-02-29 00:00  a.rs\n"), "{}", ran.text());
    assert_eq!(ran.calls[1].1["paths"], json!(["."]));
}

#[test]
fn pages_are_followed_up_to_the_limit() {
    let pages = || vec![page(&[("/r/a", "file"), ("/r/b", "file")], Some("c")), page(&[("/r/c", "file")], None)];
    assert_eq!(find(&["find"], pages()).text(), "a\nb\nc\n");
    let ran = find(&["find", "-n", "2"], pages());
    assert_eq!((ran.text(), ran.calls.len()), ("a\nb\n", 2));
    assert_eq!(ran.calls[1].1["limit"], 2);
    let stuck = vec![page(&[], Some("c")), page(&[], Some("c"))];
    assert_eq!(find(&["find"], stuck).code, 1);
}

#[test]
fn flags_become_fields() {
    let line = ["find", "*.rs", "src", "-t", "f", "-s", "mtime", "--no-hidden", "--no-ignore", "-a", "--min-size", "5"];
    let ran = find(&line, vec![page(&[], None)]);
    let request = &ran.calls[1].1;
    let expected = json!({"paths": [{"path": "*.rs"}, {"path": "src"}], "kind": "file", "sort": "mtime", "hidden": false,
        "gitignore": false, "use_default_excludes": false, "min_size": 5, "limit": 10_000, "timeout": 60.0});
    assert_eq!(*request, expected);
}

#[test]
fn ages_become_seconds_since_1970() {
    use clap::Parser;
    let line = ["stockade", "find", "--changed-within", "60m", "--changed-before", "10s"];
    let super::super::CliCommand::Find(args) = super::super::args::CliArgs::parse_from(line).command else { panic!() };
    let request = request(&args, UNIX_EPOCH + Duration::from_secs(10_000));
    assert_eq!((&request["modified_after"], &request["modified_before"]), (&json!(6400), &json!(9990)));
}

#[test]
fn json_is_one_reply_joined_from_all_pages() {
    let pages = vec![page(&[("/r/a", "file")], Some("c")), page(&[("/r/b", "file")], None)];
    let ran = find(&["find", "--json"], pages);
    let whole: Value = serde_json::from_str(ran.text()).unwrap();
    assert_eq!((&whole["file_count"], &whole["files"][0]["path"]), (&json!(2), &json!("/r/a")));
}

#[test]
fn what_is_missing_or_closed_is_remarked() {
    let mut reply = page(&[], None);
    (reply["missing_paths"], reply["skipped"]) = (json!(["gone"]), json!({"unreadable": 2}));
    let ran = find(&["find", "gone", "."], vec![reply]);
    assert!(ran.err.contains("gone") && ran.err.contains("2 folders could not be read"), "{}", ran.err);
}
