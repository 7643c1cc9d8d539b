use super::*;
use crate::frontends::cli::tests::{CommandRun, run_against, run_in};

/// Replies in turn.
fn search(line: &[&str], terminal: Option<usize>, pages: Vec<Value>) -> CommandRun {
    let mut pages = pages.into_iter();
    run_against(line, terminal, move |_, _| Ok(pages.next().expect("a page for every call")))
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
    let (_, request) = &ran.calls[0];
    assert_eq!((&request["context_lines_before"], &request["context_lines_after"]), (&json!(1), &json!(1)));
}

#[test]
fn matches_are_painted_and_hostile_text_is_escaped() {
    let found = page(vec![hit("e\u{1b}vil", 1, "a\u{1b}[2Jfoo", json!([[5, 8]]))]);
    let mut view = MatchPrinter {
        base: PathBase::new("/r", &["/r"], None),
        style: OutputStyle { color: true, unicode: true, columns: None },
        is_grouped: true,
        is_for_person: true,
        shows_names: true,
        shows_numbers: true,
        is_for_xargs: false,
        last_printed: None,
    };
    let found: CliSearchPage = serde_json::from_value(found).unwrap();
    let mut text = Vec::new();
    view.push_match(&found.content_matches[0], &mut text);
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "\u{1b}[35me\\u001bvil\u{1b}[0m\n\u{1b}[32m1\u{1b}[0m:a\\u001b[2J\u{1b}[1;31mfoo\u{1b}[0m\n"
    );
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
    assert_eq!(ran.calls[1].1["cursor"], "c1");
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
    assert_eq!((ran.text(), &ran.calls[0].1["count_only"]), ("a:3\n", &json!(true)));
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
    assert_eq!(ran.calls[0].1, expected);
}

#[test]
fn what_was_not_searched_and_repairs_are_remarked() {
    let mut reply = page(vec![]);
    reply["pattern_used"] = json!("foo\\(");
    reply["missing_paths"] = json!(["gone"]);
    reply["skipped"] = json!({"binary": 3, "unreadable": 2, "long_line": 1});
    let ran = search(&["search", "foo(", "gone", "."], None, vec![reply]);
    assert_eq!((ran.code, ran.text()), (1, ""));
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

#[test]
fn nothing_found_exits_with_one_and_quiet_says_only_that() {
    let found = || vec![page(vec![hit("a", 1, "x", json!([]))])];
    for (line, code) in [(&["search", "x"][..], 1), (&["search", "x", "--json"], 1), (&["search", "-q", "x"], 1)] {
        assert_eq!(search(line, None, vec![page(vec![])]).code, code, "{line:?}");
        assert_eq!(search(line, None, found()).code, 0, "{line:?}");
    }
    let ran = search(&["search", "-q", "x"], None, found());
    assert_eq!((ran.text(), &ran.calls[0].1["max_matches"]), ("", &json!(1)));
}

#[test]
fn options_of_ripgrep_become_fields_or_another_form() {
    let line = ["search", "-e", "a.b", "-e", "-c", "-vS", "-t", "rust", "-T", "py", "--sort", "mtime", "src"];
    let request = &search(&line, None, vec![page(vec![])]).calls[0].1;
    for (field, value) in [
        ("query", json!("(?:a.b)|(?:-c)")),
        ("regex", json!(true)),
        ("invert", json!(true)),
        ("smart_case", json!(true)),
        ("type", json!(["rust"])),
        ("type_not", json!(["py"])),
        ("sort", json!("mtime")),
        ("paths", json!([{"path": "src"}])),
    ] {
        assert_eq!(request[field], value, "{field}");
    }
    let request = &search(&["search", "-F", "-e", "a.b", "-e", "c"], None, vec![page(vec![])]).calls[0].1;
    assert_eq!((&request["query"], &request["regex"]), (&json!("a\\.b|c"), &json!(true)));
    assert_eq!(search(&["search", "-o", "x"], None, vec![page(vec![])]).calls[0].1["only_matching"], true);
    let two = || vec![page(vec![hit("a", 1, "x", json!([])), hit("b", 2, "x", json!([]))])];
    for (line, text) in [
        (&["search", "-N", "x"][..], "a:x\nb:x\n"),
        (&["search", "-I", "x"], "1:x\n2:x\n"),
        (&["search", "-NI", "x"], "x\nx\n"),
        (&["search", "-NInH", "x"], "a:1:x\nb:2:x\n"),
    ] {
        assert_eq!(search(line, None, two()).text(), text, "{line:?}");
    }
    let mut files = page(vec![]);
    files["files"] = json!([{"path": "/r/a b"}, {"path": "/r/c\nd"}]);
    assert_eq!(search(&["search", "-l0", "x"], None, vec![files]).text(), "a b\0c\nd\0");
}

#[test]
fn options_that_ripgrep_means_otherwise_are_refused() {
    for line in ["-a x", "-d 1 x", "-0 x", "--sort modified x", "-r y x", "-ov x", "-o -C 1 x", "-I -l x"] {
        let line = ["stockade", "search"].into_iter().chain(line.split(' '));
        assert!(crate::frontends::cli::args::parse(line.clone()).is_err(), "{line:?}");
    }
}

#[test]
fn a_search_begins_at_the_folder_of_the_shell_and_shows_paths_from_there() {
    let reply = page(vec![hit("src/a", 1, "x", json!([])), hit("docs/b", 1, "x", json!([]))]);
    let ran = run_in(Some("/r/src"), &["search", "x", "-g", "gen/*.rs"], None, move |_, _| Ok(reply.clone()));
    assert_eq!(ran.text(), "a:1:x\n../docs/b:1:x\n");
    let request = &ran.calls[0].1;
    assert_eq!((&request["base_dir"], &request["include_globs"]), (&json!("/r/src"), &json!(["src/gen/*.rs"])));
}

#[test]
fn an_option_that_the_service_does_not_know_is_refused() {
    let reply = || {
        let mut reply = page(vec![hit("a", 1, "x", json!([]))]);
        reply["warnings"] = json!(["only_matching: unknown field, ignored; did you mean x?"]);
        vec![reply]
    };
    for line in [&["search", "-o", "x"][..], &["search", "-o", "x", "--json"]] {
        let ran = search(line, None, reply());
        assert_eq!((ran.code, ran.text()), (1, ""), "{line:?}");
        assert!(ran.err.contains("does not know the option for `only-matching`"), "{}", ran.err);
    }
}
