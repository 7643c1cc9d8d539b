use super::*;
use crate::frontends::cli::tests::{CommandRun, run_against};

/// Replies in turn; the first call asks for the root.
fn search(line: &[&str], terminal: Option<usize>, pages: Vec<Value>) -> CommandRun {
    let mut pages = pages.into_iter();
    run_against(line, terminal, move |method, _| match method {
        "coder::info" => Ok(json!({"primary_root": "/r"})),
        _ => Ok(pages.next().expect("a page for every call")),
    })
}

fn hit(path: &str, line: u64, text: &str, spans: Value) -> Value {
    json!({"path": format!("/r/{path}"), "line": line, "column": 1, "text": text, "spans": spans})
}

fn page(matches: Vec<Value>) -> Value {
    json!({"content_matches": matches, "path_matches": [], "truncated": false, "skipped": {"binary": 9}})
}

#[test]
fn on_a_terminal_lines_stand_under_their_file() {
    let matches = vec![
        hit("a.rs", 3, "x foo", json!([[2, 5]])),
        hit("a.rs", 9, "foo", json!([[0, 3]])),
        hit("b", 1, "foo\ty", json!([[0, 3]])),
    ];
    let ran = search(&["search", "foo"], Some(80), vec![page(matches.clone())]);
    assert_eq!((ran.code, ran.text()), (0, "a.rs\n3:x foo\n9:foo\n\nb\n1:foo\ty\n"));
    let ran = search(&["search", "foo"], None, vec![page(matches)]);
    assert_eq!(ran.text(), "a.rs:3:x foo\na.rs:9:foo\nb:1:foo\ty\n");
    assert_eq!(ran.err, "");
}

#[test]
fn neighbours_are_shown_once_and_gaps_are_marked() {
    let around = |mut found: Value, before: Value, after: Value| {
        (found["before"], found["after"]) = (before, after);
        found
    };
    let matches = vec![
        around(hit("f", 2, "hit", json!([[0, 3]])), json!(["1"]), json!(["3"])),
        around(hit("f", 4, "hit", json!([[0, 3]])), json!(["3"]), json!(["5"])),
        around(hit("f", 9, "hit", json!([[0, 3]])), json!(["8"]), json!([])),
    ];
    let ran = search(&["search", "hit", "-C", "1"], Some(80), vec![page(matches)]);
    assert_eq!(ran.text(), "f\n1-1\n2:hit\n3-3\n4:hit\n5-5\n--\n8-8\n9:hit\n");
    let (_, request) = &ran.calls[1];
    assert_eq!((&request["context_lines_before"], &request["context_lines_after"]), (&json!(1), &json!(1)));
}

#[test]
fn matches_are_painted_and_hostile_text_is_escaped() {
    let found = page(vec![hit("e\u{1b}vil", 1, "a\u{1b}[2Jfoo", json!([[5, 8]]))]);
    let mut view = MatchPrinter {
        home: PrimaryRoot::query(&mut FixedRootSession).unwrap(),
        style: OutputStyle { color: true, unicode: true, columns: None },
        is_grouped: true,
        is_for_person: true,
        last_printed: None,
    };
    let found: CliSearchPage = serde_json::from_value(found).unwrap();
    let mut text = String::new();
    view.push_match(&found.content_matches[0], &mut text);
    assert_eq!(text, "\u{1b}[35me\\u001bvil\u{1b}[0m\n\u{1b}[32m1\u{1b}[0m:a\\u001b[2J\u{1b}[1;31mfoo\u{1b}[0m\n");
}

/// A session that knows its root.
struct FixedRootSession;

impl CallSession for FixedRootSession {
    fn call(
        &mut self,
        _: &str,
        _: &str,
    ) -> Result<Box<serde_json::value::RawValue>, crate::frontends::client::CallError> {
        Ok(serde_json::value::to_raw_value(&json!({"primary_root": "/r"})).unwrap())
    }
}

#[test]
fn a_match_over_lines_shows_each_with_its_number() {
    let found = hit("f", 2, "a foo\nbar b", json!([[2, 9]]));
    assert_eq!(search(&["search", "-U", "foo.bar"], Some(80), vec![page(vec![found])]).text(), "f\n2:a foo\n3:bar b\n");
}

#[test]
fn pages_are_followed_to_the_end_and_never_in_a_circle() {
    let mut first = page(vec![hit("a", 1, "x", json!([[0, 1]]))]);
    (first["next_cursor"], first["truncated_reason"]) = (json!("c1"), json!("budget"));
    let ran = search(&["search", "x"], None, vec![first.clone(), page(vec![hit("b", 1, "x", json!([[0, 1]]))])]);
    assert_eq!((ran.code, ran.text()), (0, "a:1:x\nb:1:x\n"));
    assert_eq!(ran.calls[2].1["cursor"], "c1");
    let mut late = page(vec![]);
    (late["next_cursor"], late["truncated_reason"]) = (json!("c1"), json!("deadline"));
    let ran = search(&["search", "x"], None, vec![first, late]);
    assert_eq!((ran.code, ran.text()), (1, "a:1:x\n"));
    assert!(ran.err.contains("--timeout"), "{}", ran.err);
}

#[test]
fn lists_of_files_and_counts() {
    let mut files = page(vec![]);
    files["files"] = json!([{"path": "/r/a"}, {"path": "/elsewhere/b"}]);
    assert_eq!(search(&["search", "-l", "x"], None, vec![files]).text(), "a\n/elsewhere/b\n");
    let mut counts = page(vec![]);
    counts["files"] = json!([{"path": "/r/a", "count": 3}]);
    let ran = search(&["search", "-c", "x"], None, vec![counts]);
    assert_eq!((ran.text(), &ran.calls[1].1["count_only"]), ("a:3\n", &json!(true)));
}

#[test]
fn flags_become_fields() {
    let line = [
        "search",
        "-iwF",
        "a.b",
        "src",
        "x.rs",
        "-g",
        "*.rs",
        "-g",
        "!gen/**",
        "-m",
        "2",
        "-A",
        "3",
        "--all",
        "--no-ignore",
    ];
    let ran = search(&line, None, vec![page(vec![])]);
    let expected = json!({"query": "a.b", "regex": false, "ignore_case": true, "word": true, "search_paths": false,
        "max_matches": 10_000, "gitignore": false, "use_default_excludes": false, "include_globs": ["*.rs"],
        "exclude_globs": ["gen/**"], "max_per_file": 2, "context_lines_after": 3,
        "paths": [{"path": "src"}, {"path": "x.rs"}]});
    assert_eq!(ran.calls[1].1, expected);
}

#[test]
fn what_was_not_searched_and_repairs_are_remarked() {
    let mut reply = page(vec![]);
    reply["pattern_used"] = json!("foo\\(");
    reply["missing_paths"] = json!(["gone"]);
    reply["skipped"] = json!({"binary": 3, "unreadable": 2, "long_line": 1});
    let ran = search(&["search", "foo(", "gone", "."], None, vec![reply]);
    assert_eq!((ran.code, ran.text()), (0, ""));
    assert!(ran.err.contains("searching for foo\\(") && ran.err.contains("gone"), "{}", ran.err);
    assert!(ran.err.contains("not searched: 2 could not be read, 1 have lines too long"), "{}", ran.err);
}

#[test]
fn a_search_that_found_nothing_says_what_may_help() {
    let mut reply = page(vec![]);
    reply["skipped"] = json!({"ignored": 4});
    reply["hint"] = json!("the query was taken literally");
    let ran = search(&["search", "-F", "a|b"], None, vec![reply.clone()]);
    assert!(
        ran.err.contains("leave -F out") && ran.err.contains("ignore files hid 4 entries: --no-ignore"),
        "{}",
        ran.err
    );
    reply["content_matches"] = json!([hit("a", 1, "x", json!([]))]);
    reply["hint"] = Value::Null;
    assert_eq!(search(&["search", "x"], None, vec![reply]).err, "", "something was found");
}

#[test]
fn json_is_one_reply_joined_from_all_pages() {
    let one = page(vec![hit("a", 1, "x", json!([]))]);
    let ran = search(&["search", "x", "--json"], None, vec![one.clone()]);
    assert_eq!(serde_json::from_str::<Value>(ran.text()).unwrap(), one);
    let mut first = one;
    (first["next_cursor"], first["truncated"], first["truncated_reason"]) = (json!("c"), json!(true), json!("budget"));
    let ran = search(&["search", "x", "--json"], None, vec![first, page(vec![hit("b", 1, "x", json!([]))])]);
    let whole: Value = serde_json::from_str(ran.text()).unwrap();
    assert_eq!(whole["content_matches"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&whole["truncated"], whole.get("next_cursor"), &whole["skipped"]["binary"]),
        (&json!(false), None, &json!(18))
    );
}
