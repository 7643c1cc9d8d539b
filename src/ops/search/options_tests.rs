use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{
    tests::{below, lines, search},
    *,
};
use crate::jail::testing::TestJail;

fn project() -> TestJail {
    let test = TestJail::new();
    for name in
        ["main.rs", "src/main.rs", "src/deep/main.rs", "src/lib.rs", "src/src/lib.rs", "docs/Makefile", "gen/main.rs/x"]
    {
        test.write(name, "x\n");
    }
    test
}

/// Paths of the content matches, in order.
fn files(test: &TestJail, request: Value) -> Vec<String> {
    let mut request = request;
    request["query"] = "x".into();
    lines(test, request).into_iter().map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

fn set_age(test: &TestJail, name: &str, seconds: u64) {
    let file = std::fs::File::options().write(true).open(test.root().join(name)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds)).unwrap();
}

#[test]
fn a_glob_without_a_slash_is_for_names_at_any_depth() {
    let test = project();
    assert_eq!(files(&test, json!({"include_globs": ["main.rs"]})), ["main.rs", "src/deep/main.rs", "src/main.rs"]);
    assert_eq!(files(&test, json!({"include_globs": ["l?b.rs"]})), ["src/lib.rs", "src/src/lib.rs"]);
    let rest = ["docs/Makefile", "src/lib.rs", "src/src/lib.rs"];
    assert_eq!(
        files(&test, json!({"exclude_globs": ["main.rs"]})),
        rest,
        "a folder of this name, too, with all below it"
    );
    assert_eq!(files(&test, json!({"exclude_globs": ["main.?s"]})), rest);
    assert_eq!(files(&test, json!({"exclude_globs": ["src", "gen"]})), ["docs/Makefile", "main.rs"]);
    assert_eq!(files(&test, json!({"exclude_globs": ["/main.rs"]})).len(), 6, "only the one of the root");
}

#[test]
fn a_glob_with_a_slash_is_for_the_path_below_the_searched_folder_or_below_the_root() {
    let test = project();
    assert_eq!(files(&test, json!({"include_globs": ["src/lib.rs"]})), ["src/lib.rs"]);
    let both = files(&test, json!({"path": "src", "include_globs": ["src/lib.rs"]}));
    assert_eq!(both, ["src/lib.rs", "src/src/lib.rs"]);
    assert_eq!(files(&test, json!({"path": "src", "include_globs": ["deep/*"]})), ["src/deep/main.rs"]);
    assert_eq!(files(&test, json!({"path": "src", "include_globs": ["./*.rs"]})).len(), 4, "a star crosses slashes");
    let rest = ["src/lib.rs", "src/main.rs"];
    assert_eq!(files(&test, json!({"path": "src", "exclude_globs": ["deep/**", "src/src/**"]})), rest);
    assert_eq!(files(&test, json!({"paths": ["src"], "include_globs": ["deep/*"]})), ["src/deep/main.rs"]);
}

#[test]
fn types_select_files() {
    let test = project();
    assert_eq!(files(&test, json!({"type": "rust"})).len(), 5);
    assert_eq!(files(&test, json!({"type": ["make"]})), ["docs/Makefile"]);
    assert_eq!(files(&test, json!({"type": ["make", "rust"], "type_not": "make"})).len(), 5);
    assert_eq!(files(&test, json!({"type_not": ["rs"]})), ["docs/Makefile", "gen/main.rs/x"]);
    assert_eq!(files(&test, json!({"type": "rust", "include_globs": ["src/*"]})).len(), 4);
    assert_eq!(files(&test, json!({"type": []})).len(), 7);
    for (kind, near) in [("rusty", "did you mean rust?"), ("qqq", "there are types such as rust")] {
        let error = search(&test, json!({"query": "x", "type": kind})).unwrap_err();
        assert!(error.code == Code::BadInput && error.message.contains(near), "{error}");
    }
    let many = search(&test, json!({"query": "x", "type_not": vec!["rust"; 101]})).unwrap_err();
    assert!(many.message.starts_with("type_not: 101 types"), "{many}");
}

#[test]
fn a_file_can_be_searched_by_its_path() {
    let test = TestJail::new();
    test.write("a/b.txt", "foo\nbar\nfoo\n");
    assert_eq!(lines(&test, json!({"query": "foo", "path": "a/b.txt"})), ["a/b.txt:1:foo", "a/b.txt:3:foo"]);
    assert_eq!(lines(&test, json!({"query": "foo", "path": "b.txt", "base_dir": "a"})).len(), 2);
    let page =
        search(&test, json!({"query": "foo", "path": "a/b.txt", "max_matches": 1, "search_paths": false})).unwrap();
    let next = json!({"query": "foo", "path": "a/b.txt", "max_matches": 1, "cursor": page["next_cursor"]});
    assert_eq!(lines(&test, next), ["a/b.txt:3:foo"]);
    std::os::unix::fs::symlink("a/b.txt", test.root().join("link")).unwrap();
    assert!(search(&test, json!({"query": "foo", "path": "link"})).is_err(), "links are not followed");
}

#[test]
fn single_matches_are_entries_and_pages_end_within_a_line() {
    let test = TestJail::new();
    test.write("f", "ab abc\nx\nab\n");
    let found = |request: Value| -> Vec<(u64, u64, String)> {
        let mut request = request;
        (request["query"], request["only_matching"], request["search_paths"]) =
            (json!("abc?"), json!(true), json!(false));
        (request["regex"], request["max_matches"]) = (json!(true), json!(2));
        let mut all = Vec::new();
        loop {
            let mut page = search(&test, request.clone()).unwrap();
            let hits = page["content_matches"].as_array().unwrap();
            assert!(
                hits.len() <= 2
                    && hits.iter().all(|hit| hit["spans"] == json!([[0, hit["text"].as_str().unwrap().len()]]))
            );
            all.extend(hits.iter().map(|hit| {
                (
                    hit["line"].as_u64().unwrap(),
                    hit["column"].as_u64().unwrap(),
                    hit["text"].as_str().unwrap().to_owned(),
                )
            }));
            if page["next_cursor"].is_null() {
                return all;
            }
            request["cursor"] = page["next_cursor"].take();
        }
    };
    let all = [(1, 1, "ab".to_owned()), (1, 4, "abc".to_owned()), (3, 1, "ab".to_owned())];
    assert_eq!(found(json!({})), all);
    assert_eq!(found(json!({"multiline": true})), all);
    assert_eq!(found(json!({"max_per_file": 1})), all[..1]);
    test.write("f", "abcab\n".repeat(2));
    let cut = search(&test, json!({"query": "abcab\nab", "only_matching": true, "max_line_bytes": 4})).unwrap();
    let hit = &cut["content_matches"][0];
    assert_eq!((&hit["text"], &hit["text_truncated"], &hit["last_line"]), (&json!("abca"), &json!(true), &json!(2)));
}

#[test]
fn inverted_searches_are_about_lines() {
    let test = TestJail::new();
    test.write("b", "foo\n\nbar\r\nfoo");
    test.write("foo", "foo\n");
    let inverted = json!({"query": "foo", "invert": true});
    assert_eq!(lines(&test, inverted.clone()), ["b:2:", "b:3:bar"]);
    assert_eq!(search(&test, inverted).unwrap()["path_matches"], json!([]));
    let counts = search(&test, json!({"query": "foo", "invert": true, "count_only": true})).unwrap();
    assert_eq!((&counts["files"][0]["count"], &counts["total"]), (&json!(2), &json!(2)));
    let names = search(&test, json!({"query": "foo", "invert": true, "search_content": false})).unwrap();
    assert_eq!(below(&test, &names["path_matches"][0]["path"]), "b");
    let context =
        search(&test, json!({"query": "foo", "invert": true, "context_lines_before": 1, "max_matches": 1})).unwrap();
    assert_eq!(context["content_matches"][0]["before"], json!(["foo"]));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let test = TestJail::new();
    for (request, words) in [
        (json!({"only_matching": true, "invert": true}), "only_matching or invert, not both"),
        (json!({"only_matching": true, "context_lines_after": 1}), "context_lines_after: not with only_matching"),
        (json!({"invert": true, "multiline": true}), "invert: works line by line"),
    ] {
        let mut request = request;
        request["query"] = "x".into();
        let error = search(&test, request).unwrap_err();
        assert!(error.code == Code::BadInput && error.message.contains(words), "{error}");
    }
}

#[test]
fn sorted_by_time_the_newest_file_comes_first_on_every_page() {
    let test = TestJail::new();
    for (name, age) in [("old", 300), ("a/new", 10), ("b/newer", 5), ("a/same", 100), ("z/same", 100)] {
        test.write(name, "x same\nx\n");
        set_age(&test, name, age);
    }
    let expected = ["b/newer", "a/new", "a/same", "z/same", "old"];
    for page in [1, 2, 3, 100] {
        for list in ["content_matches", "files"] {
            let mut request = json!({"query": "x", "sort": "mtime", "max_matches": page, "search_paths": false});
            request["files_only"] = json!(list == "files");
            let mut all: Vec<String> = Vec::new();
            loop {
                let mut reply = search(&test, request.clone()).unwrap();
                all.extend(reply[list].as_array().unwrap().iter().map(|hit| below(&test, &hit["path"])));
                if reply["next_cursor"].is_null() {
                    break;
                }
                request["cursor"] = reply["next_cursor"].take();
            }
            let each = if list == "files" { 1 } else { 2 };
            let expected: Vec<&str> = expected.iter().flat_map(|name| std::iter::repeat_n(*name, each)).collect();
            assert_eq!(all, expected, "{list}, pages of {page}");
        }
    }
    let paths = search(&test, json!({"query": "same", "sort": "mtime", "search_content": false})).unwrap();
    let paths: Vec<_> =
        paths["path_matches"].as_array().unwrap().iter().map(|hit| below(&test, &hit["path"])).collect();
    assert_eq!(paths, ["a/same", "z/same"]);
}

#[test]
fn a_search_that_found_nothing_says_what_may_have_been_meant() {
    let test = TestJail::new();
    test.write(".gitignore", "*.log\nout/\n");
    test.write("a.log", "foo.*\n");
    test.write("out/x", "foo\n");
    test.write("b", "other\n");
    let reply = |request: Value| search(&test, request).unwrap();
    let none = reply(json!({"query": "foo", "gitignore": true}));
    assert_eq!((&none["skipped"]["ignored"], &none["hint"]), (&json!(2), &Value::Null));
    assert!(reply(json!({"query": "foo"}))["skipped"].get("ignored").is_none());
    let hint = reply(json!({"query": "bar.*", "gitignore": true}))["hint"].clone();
    assert!(hint.as_str().unwrap().contains("regex: true"), "{hint}");
    assert!(reply(json!({"query": "foo.*"})).get("hint").is_none(), "it was found");
    let hint = reply(json!({"query": "\u{8}foo\u{8}", "regex": true}))["hint"].clone();
    assert!(hint.as_str().unwrap().contains("backspace"), "{hint}");
}

#[test]
fn the_first_match_of_a_file_that_was_read_in_one_piece_carries_its_version() {
    let test = TestJail::new();
    let contents = [
        ("a", "x\nx\n".as_bytes().to_vec()),
        ("bom", b"\xef\xbb\xbfx\n".to_vec()),
        ("large", [b"x\n".as_slice(), &b"~".repeat(200 << 10)].concat()),
        ("utf16", b"\xff\xfex\0\n\0".to_vec()),
    ];
    contents.iter().for_each(|(name, content)| test.write(name, content));
    let etags = |request: Value| -> Vec<(String, Option<String>)> {
        let reply = search(&test, request).unwrap();
        let hits = reply["content_matches"].as_array().unwrap();
        hits.iter().map(|hit| (below(&test, &hit["path"]), hit["etag"].as_str().map(str::to_owned))).collect()
    };
    let etag = |content: &[u8]| Some(blake3::hash(content).to_hex()[..32].to_owned());
    let expected = [
        ("a".to_owned(), etag(&contents[0].1)),
        ("a".to_owned(), None),
        ("bom".to_owned(), etag(&contents[1].1)),
        ("large".to_owned(), None),
        ("utf16".to_owned(), None),
    ];
    let request = json!({"query": "x", "search_paths": false});
    assert!(etags(request.clone()).iter().all(|(_, etag)| etag.is_none()), "only on request");
    let mut request = request;
    request["etag"] = true.into();
    assert_eq!(etags(request.clone()), expected);
    request["multiline"] = true.into();
    assert_eq!(etags(request), expected);
}

#[test]
fn a_missing_path_offers_near_names_and_never_a_denied_one() {
    let test = TestJail::with(crate::jail::testing::TestJailOptions {
        deny: &["**/maim.rs"],
        ..crate::jail::testing::TestJailOptions::default()
    });
    for name in ["src/main.rs", "src/maim.rs", "src/lib.rs", "src/Main.rs"] {
        test.write(name, "x\n");
    }
    let message = |path: &str| search(&test, json!({"query": "x", "path": path})).unwrap_err().message;
    for path in ["src/mian.rs", "src/maim.rs"] {
        let near = "names near it: \"src/main.rs\"";
        let message = message(path);
        assert!(message.starts_with(&format!("{path}: not found or not accessible; names near it: ")), "{message}");
        assert!(
            message.contains("\"src/main.rs\"") && !message.replace(path, "").contains("maim"),
            "{near}: {message}"
        );
    }
    for path in ["src/zzz", "no/main.rs", "qqq/"] {
        assert!(!message(path).contains("near"), "{path}");
    }
    let paths = search(&test, json!({"query": "x", "paths": ["src/mian.rs", "gone"]})).unwrap_err();
    assert!(paths.message.contains("\"src/main.rs\""), "{paths}");
}
