//! Limits of a reply: pages, budgets, deadlines, long lines.

use std::time::Duration;

use serde_json::{Value, json};

use super::{below, lines, search};
use crate::{jail::testing::TestJail, wire::Code, wire::types::Search};

/// All pages of a request joined: `path:line` of content, then paths, then files.
fn paged(test: &TestJail, request: &Value, page: u64) -> (Vec<String>, Vec<String>, Vec<String>, usize) {
    let (mut content, mut paths, mut files) = (Vec::new(), Vec::new(), Vec::new());
    let mut cursor = Value::Null;
    for pages in 1..1000 {
        let mut next = request.clone();
        (next["cursor"], next["max_matches"]) = (cursor, json!(page));
        let reply = search(test, next).unwrap();
        let list = |field: &str| reply[field].as_array().cloned().unwrap_or_default();
        assert!(list("content_matches").len() as u64 <= page && list("path_matches").len() as u64 <= page);
        content
            .extend(list("content_matches").iter().map(|hit| format!("{}:{}", below(test, &hit["path"]), hit["line"])));
        paths.extend(list("path_matches").iter().map(|hit| below(test, &hit["path"])));
        files.extend(list("files").iter().map(|hit| format!("{}:{}", below(test, &hit["path"]), hit["count"])));
        cursor = reply["next_cursor"].clone();
        assert_eq!(reply["truncated"], !cursor.is_null());
        if cursor.is_null() {
            return (content, paths, files, pages);
        }
        assert!(["max_matches", "budget"].contains(&reply["truncated_reason"].as_str().unwrap()));
    }
    panic!("pages without end");
}

fn corpus() -> TestJail {
    let test = TestJail::new();
    for at in 0..40 {
        let name = format!("d{}/{}{at}", at % 7, if at % 3 == 0 { "hit" } else { "x" });
        test.write(&name, "hit\nno\nhit\nhit\n".repeat(at % 4));
    }
    test
}

#[test]
fn pages_join_to_the_whole_at_any_size_and_number_of_threads() {
    let test = corpus();
    for request in [
        json!({"query": "hit"}),
        json!({"query": "hit", "search_paths": false}),
        json!({"query": "hit", "files_only": true}),
        json!({"query": "hit", "count_only": true}),
        json!({"query": "hit", "max_per_file": 2}),
        json!({"query": "hit\\nno", "regex": true}),
    ] {
        let (content, paths, files, one) = paged(&test, &request, 100_000);
        assert_eq!(one, 1);
        assert!(content.len() + files.len() > 15, "{request}");
        for page in [1, 2, 7, 30] {
            let again = paged(&test, &request, page);
            assert_eq!((&again.0, &again.1, &again.2), (&content, &paths, &files), "{request} by {page}");
        }
        let alone = test.run::<Search>(request.clone()).unwrap();
        for helpers in [1, 4] {
            assert_eq!(test.run_in::<Search>(&mut test.call_with_helpers(helpers), request.clone()).unwrap(), alone);
        }
    }
}

#[test]
fn a_budget_ends_a_page_and_the_next_one_goes_on() {
    let mut test = corpus();
    let request = json!({"query": "hit"});
    let (content, paths, ..) = paged(&test, &request, 100_000);
    for budget in [300, 1000, 3000] {
        test.limits.search_response_budget_bytes = budget;
        let (again, again_paths, _, pages) = paged(&test, &request, 100_000);
        assert_eq!((&again, &again_paths), (&content, &paths), "{budget}");
        assert!(pages > 1);
        let reply = search(&test, request.clone()).unwrap();
        let sum = |field: &str, text: bool| -> usize {
            let hits = reply[field].as_array().unwrap().iter();
            hits.map(|hit| {
                hit["path"].as_str().unwrap().len() + if text { hit["text"].as_str().unwrap().len() } else { 0 }
            })
            .sum()
        };
        let used = sum("content_matches", true) + sum("path_matches", false);
        assert!(used as u64 <= budget && reply["truncated_reason"] == "budget", "{used} of {budget}");
    }
}

#[test]
fn nothing_wanted_is_nothing_shown_and_truncated() {
    let test = corpus();
    let reply = search(&test, json!({"query": "hit", "max_matches": 0})).unwrap();
    assert_eq!((&reply["truncated"], &reply["truncated_reason"]), (&json!(true), &json!("max_matches")));
    assert!(reply["content_matches"].as_array().unwrap().is_empty());
    assert_eq!(search(&test, json!({"query": "nowhere", "max_matches": 0})).unwrap()["truncated"], false);
}

#[test]
fn exactly_a_page_is_not_truncated() {
    let test = TestJail::new();
    test.write("a", "x\nx\n");
    test.write("b", "x\n");
    let truncated = |most: u64| search(&test, json!({"query": "x", "max_matches": most})).unwrap()["truncated"].clone();
    assert_eq!((truncated(3), truncated(2)), (json!(false), json!(true)));
}

#[test]
fn a_files_own_limit_is_told_where_it_cuts() {
    let test = TestJail::new();
    test.write("a", "x\nx\nx\n");
    test.write("b", "x\nx\n");
    let reply = search(&test, json!({"query": "x", "max_per_file": 2})).unwrap();
    let more: Vec<_> =
        reply["content_matches"].as_array().unwrap().iter().map(|hit| hit["more_in_file"].as_bool()).collect();
    assert_eq!(more, [None, Some(true), None, None]);
    assert_eq!(reply["truncated"], false);
}

#[test]
fn lists_of_files_have_counts_and_a_total() {
    let test = TestJail::new();
    test.write("a", "x\nx\n");
    test.write("b", "x x\n");
    test.write("xc", "\n");
    let root = test.root().to_str().unwrap();
    let reply = search(&test, json!({"query": "x", "count_only": true})).unwrap();
    assert_eq!(
        reply["files"],
        json!([{"path": format!("{root}/a"), "count": 2}, {"path": format!("{root}/b"), "count": 1}])
    );
    assert_eq!(
        (&reply["total"], &reply["content_matches"], &reply["path_matches"]),
        (&json!(3), &json!([]), &json!([]))
    );
    let reply = search(&test, json!({"query": "x", "files_only": true})).unwrap();
    assert_eq!(reply["files"], json!([{"path": format!("{root}/a")}, {"path": format!("{root}/b")}]));
    assert!(reply.get("total").is_none());
    let reply = search(&test, json!({"query": "x", "files_only": true, "search_content": false})).unwrap();
    assert_eq!(reply["files"], json!([{"path": format!("{root}/xc")}]));
}

#[test]
fn a_cursor_belongs_to_its_request() {
    let test = corpus();
    let reply = search(&test, json!({"query": "hit", "max_matches": 3})).unwrap();
    let cursor = &reply["next_cursor"];
    assert!(search(&test, json!({"query": "hit", "max_matches": 5, "cursor": cursor})).is_ok());
    for request in [json!({"query": "no", "cursor": cursor}), json!({"query": "hit", "cursor": "AAAA"})] {
        let error = search(&test, request).unwrap_err();
        assert!(error.code == Code::BadInput && error.message.starts_with("cursor: "), "{error}");
    }
}

#[test]
fn a_deadline_gives_what_there_is_and_where_to_go_on() {
    let test = corpus();
    let request = json!({"query": "hit"});
    let mut late = test.call_with_deadline(Duration::from_micros(1));
    std::thread::sleep(Duration::from_millis(2));
    let reply = match test.run_in::<Search>(&mut late, request.clone()) {
        Err(error) => return assert_eq!(error.code, Code::Deadline),
        Ok(reply) => reply,
    };
    assert_eq!((&reply["truncated"], &reply["truncated_reason"]), (&json!(true), &json!("deadline")));
    let whole = search(&test, request.clone()).unwrap();
    let mut again = request;
    again["cursor"] = reply["next_cursor"].clone();
    assert_eq!(search(&test, again).unwrap(), whole);
}

#[test]
fn a_cancelled_search_is_an_error() {
    let test = corpus();
    let cancelled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let caller = test.call().caller();
    let mut call = crate::jail::Call::new(caller, std::sync::Arc::new(test.limits.clone()), cancelled);
    let error = test.run_in::<Search>(&mut call, json!({"query": "hit"})).unwrap_err();
    assert!(error.code == Code::Deadline && error.message.contains("cancelled"), "{error}");
}

#[test]
fn long_lines_are_matched_whole_and_shown_in_part() {
    let mut test = TestJail::new();
    let line = |len: usize| format!("first\n{}needle{}\nlast needle\n", "x".repeat(len), "y".repeat(len));
    test.write("middle", line(100_000));
    test.write("long", line(2_000_000));
    let found = |query: Value| {
        let reply = search(&test, query).unwrap();
        let hits = reply["content_matches"].as_array().unwrap().clone();
        (hits, reply["skipped"]["long_line"].clone())
    };
    let context = |query: &str, regex: bool| json!({"query": query, "regex": regex, "search_paths": false, "context_lines_before": 1, "context_lines_after": 1});
    let (text, skipped) = found(context("needle", false));
    let (regex, _) = found(context("needl[ef]", true));
    assert_eq!((text.len(), skipped), (4, json!(0)));
    for (hit, twin) in text.iter().zip(&regex) {
        assert_eq!((&hit["line"], &hit["column"], &hit["path"]), (&twin["line"], &twin["column"], &twin["path"]));
        let shown = hit["text"].as_str().unwrap();
        assert!(shown.len() <= 4096);
        let (from, to) = (hit["spans"][0][0].as_u64().unwrap() as usize, hit["spans"][0][1].as_u64().unwrap() as usize);
        assert_eq!(&shown[from..to], "needle");
        let offset = hit["text_offset"].as_u64().unwrap_or(0);
        assert_eq!(hit["column"].as_u64().unwrap(), offset + from as u64 + 1);
        assert_eq!(hit["text_truncated"].as_bool(), (hit["line"] == 2).then_some(true));
    }
    assert_eq!((&text[0]["before"], &text[0]["after"]), (&json!(["first"]), &json!(["last needle"])));
    assert_eq!((text[1]["before"][0].as_str().unwrap().len(), text[1].get("after")), (4096, None));
    test.limits.search_max_line_buffer = 1 << 20;
    let reply = search(&test, context("needl[ef]", true)).unwrap();
    assert_eq!(reply["skipped"]["long_line"], 1);
    let reply = search(&test, context("needle", false)).unwrap();
    assert_eq!((reply["content_matches"].as_array().unwrap().len(), &reply["skipped"]["long_line"]), (4, &json!(0)));
}

#[test]
fn files_too_large_to_be_held_are_counted_where_matches_span_lines() {
    let mut test = TestJail::new();
    test.limits.max_read_bytes = 1000;
    test.write("large", "a\nb\n".repeat(251));
    test.write("small", "a\nb\n".repeat(250));
    let reply = search(&test, json!({"query": "a\nb", "count_only": true})).unwrap();
    assert_eq!((&reply["skipped"]["too_large"], &reply["total"]), (&json!(1), &json!(250)));
    assert_eq!(lines(&test, json!({"query": "a", "max_matches": 9999})).len(), 501, "lines stream");
}

#[test]
fn many_regions_give_the_lines_of_one() {
    let test = TestJail::new();
    let text: String = (0..60_000).map(|at| format!("line {at} {}\n", at * 7919 % 1000)).collect();
    assert!(text.len() > 800_000);
    test.write("f", &text);
    for query in [" 500$", "line 5999[0-9]", r"\b77\b", "e 4.*9"] {
        let request = json!({"query": query, "regex": true, "max_matches": 100_000, "count_only": true});
        let naive = regex::Regex::new(query).unwrap();
        let expected = text.lines().filter(|line| naive.is_match(line)).count();
        assert_eq!(search(&test, request).unwrap()["total"], expected, "{query}");
    }
    let request = json!({"query": "line 59999 ", "context_lines_before": 3});
    let hit = search(&test, request).unwrap()["content_matches"][0].clone();
    assert_eq!((&hit["line"], hit["before"].as_array().unwrap().len()), (&json!(60_000), 3));
}

#[test]
fn bombs_are_refused_by_name() {
    let test = TestJail::new();
    for (request, text) in [
        (json!({"query": r"\w{3000}", "regex": true}), "too large when compiled"),
        (json!({"query": "a".repeat(70_000)}), "at most 65536 bytes"),
        (json!({"query": "x", "include_globs": ["{".repeat(50)]}), "nest too deep"),
        (json!({"query": "x", "exclude_globs": vec!["*"; 200]}), "at most 100"),
        (json!({"query": "x", "include_globs": ["a".repeat(9000)]}), "at most 8192"),
    ] {
        let error = search(&test, request).unwrap_err();
        assert_eq!(error.code, Code::BadInput);
        assert!(error.message.contains(text), "{error}");
    }
}
