use super::*;
use crate::frontends::cli::tests::{CommandRun, run_against, run_in};

fn find(line: &[&str], pages: Vec<Value>) -> CommandRun {
    let mut pages = pages.into_iter();
    run_against(line, None, move |_, _| Ok(pages.next().expect("a page for every call")))
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
    assert_eq!(ran.calls[0].1["paths"], json!([{"path": "."}]));
}

#[test]
fn pages_are_followed_up_to_the_limit() {
    let pages = || vec![page(&[("/r/a", "file"), ("/r/b", "file")], Some("c")), page(&[("/r/c", "file")], None)];
    assert_eq!(find(&["find"], pages()).text(), "a\nb\nc\n");
    let ran = find(&["find", "-n", "2"], pages());
    assert_eq!((ran.text(), ran.calls.len()), ("a\nb\n", 1));
    assert_eq!(ran.calls[0].1["limit"], 2);
    let stuck = vec![page(&[], Some("c")), page(&[], Some("c"))];
    assert_eq!(find(&["find"], stuck).code, 1);
}

#[test]
fn flags_become_fields() {
    let line = ["find", "*.rs", "src", "-t", "f", "-s", "mtime", "--no-hidden", "-I", "--all", "--min-size", "5k"];
    let ran = find(&line, vec![page(&[], None)]);
    let request = &ran.calls[0].1;
    let expected = json!({"paths": [{"path": "*.rs"}, {"path": "src"}], "kind": "file", "sort": "mtime", "hidden": false,
        "gitignore": false, "use_default_excludes": false, "min_size": 5120, "limit": 10_000, "timeout": 60.0});
    assert_eq!(*request, expected);
}

#[test]
fn ages_become_seconds_since_1970() {
    use clap::Parser;
    let line = ["stockade", "find", "--changed-within", "1h", "--changed-before", "1970-01-01T02:46:30Z"];
    let super::super::CliCommand::Find(args) = super::super::args::CliArgs::parse_from(line).command else { panic!() };
    let request = request(&args, &PathBase::new("/r", &["/r"], None), 10_000_000).unwrap();
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

#[test]
fn nothing_found_exits_with_one() {
    for line in [&["find", "x"][..], &["find", "x", "--json"]] {
        assert_eq!(find(line, vec![page(&[], None)]).code, 1, "{line:?}");
        assert_eq!(find(line, vec![page(&[("/r/x", "file")], None)]).code, 0, "{line:?}");
    }
}

#[test]
fn extensions_become_globs_below_each_folder() {
    let request = |line: &[&str]| find(line, vec![page(&[], None)]).calls[0].1["paths"].clone();
    assert_eq!(request(&["find", "-e", "rs"]), json!([{"path": "*.rs"}]));
    let expected = json!([{"path": "src/**/*.rs"}, {"path": "src/**/*.md"}, {"path": "[[]id[]]/**/*.rs"},
        {"path": "[[]id[]]/**/*.md"}]);
    assert_eq!(request(&["find", "-e", ".rs", "-e", "md", "src/", "[id]"]), expected);
    let ran = find(&["find", "-e", "rs", "*.md"], vec![]);
    assert_eq!((ran.code, ran.calls.len()), (2, 0), "{}", ran.err);
}

#[test]
fn depth_counts_from_the_folders_named() {
    let reply = || page(&[("/r/a", "file"), ("/r/d", "dir"), ("/r/d/b", "file"), ("/r/d/e/c", "file")], None);
    for (line, text) in [
        (&["find", "-d", "1"][..], "a\nd/\n"),
        (&["find", "--max-depth", "2"], "a\nd/\nd/b\n"),
        (&["find", "-d", "1", "d"], "d/\nd/b\n"),
        (&["find", "-d", "1", "d/*"], "d/\nd/b\n"),
        (&["find", "-d1", "-n1"], "a\n"),
    ] {
        assert_eq!(find(line, vec![reply()]).text(), text, "{line:?}");
    }
    let ran = find(&["find", "-d", "1", "--json"], vec![reply()]);
    let whole: Value = serde_json::from_str(ran.text()).unwrap();
    assert_eq!((&whole["file_count"], ran.calls[0].1["limit"].as_u64()), (&json!(2), Some(PAGE_ENTRIES)));
}

#[test]
fn paths_are_absolute_or_end_with_a_nul_if_asked_for() {
    let reply = || page(&[("/r/a b", "file"), ("/r/d\n", "dir")], None);
    assert_eq!(find(&["find", "-a"], vec![reply()]).text(), "/r/a b\n/r/d\\n/\n");
    assert_eq!(find(&["find", "-0"], vec![reply()]).text(), "a b\0d\n\0");
    let ran = run_in(Some("/r/a"), &["find", "*.rs"], None, move |_, _| Ok(page(&[("/r/a/x.rs", "file")], None)));
    assert_eq!((ran.text(), &ran.calls[0].1["base_dir"]), ("x.rs\n", &json!("/r/a")));
}
