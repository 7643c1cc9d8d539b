use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::*;
use crate::jail::testing::{TestJail, TestJailOptions};

pub(super) fn search(test: &TestJail, request: Value) -> Result<Value> {
    test.run::<Search>(request)
}

/// `path:line:text` of each content match, the path below the root.
pub(super) fn lines(test: &TestJail, request: Value) -> Vec<String> {
    let mut request = request;
    request["search_paths"] = json!(request.get("search_paths").is_some_and(|wanted| wanted == true));
    let reply = search(test, request).unwrap();
    let show = |hit: &Value| format!("{}:{}:{}", below(test, &hit["path"]), hit["line"], hit["text"].as_str().unwrap());
    reply["content_matches"].as_array().unwrap().iter().map(show).collect()
}

pub(super) fn below(test: &TestJail, path: &Value) -> String {
    let root = format!("{}/", test.root().to_str().unwrap());
    path.as_str().unwrap().strip_prefix(&root).unwrap().to_owned()
}

fn paths(test: &TestJail, list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|hit| below(test, &hit["path"])).collect()
}

#[test]
fn content_and_paths_are_searched_in_order() {
    let test = TestJail::new();
    test.write("b/foo.txt", "x\nfoo bar foo\n");
    test.write("a.txt", "a foo\n");
    test.write("a/z", "foo");
    test.write("foo/q", "no\n");
    let reply = search(&test, json!({"query": "foo"})).unwrap();
    assert_eq!(paths(&test, &reply["content_matches"]), ["a/z", "a.txt", "b/foo.txt"]);
    assert_eq!(paths(&test, &reply["path_matches"]), ["b/foo.txt", "foo/q"]);
    let hit = &reply["content_matches"][2];
    assert_eq!((&hit["line"], &hit["column"], &hit["text"]), (&json!(2), &json!(1), &json!("foo bar foo")));
    assert_eq!(hit["spans"], json!([[0, 3], [8, 11]]));
    assert_eq!(hit.as_object().unwrap().len(), 5, "what does not apply is absent: {hit}");
    assert_eq!(reply["truncated"], false);
    let none = json!({"binary": 0, "unreadable": 0, "special": 0, "too_deep": 0, "long_line": 0, "too_large": 0});
    assert_eq!(reply["skipped"], none);
    assert_eq!(reply.as_object().unwrap().len(), 4, "{reply}");
}

#[test]
fn each_side_can_be_left_out() {
    let test = TestJail::new();
    test.write("foo", "foo");
    let only = |content: bool, paths: bool| {
        let reply = search(&test, json!({"query": "foo", "search_content": content, "search_paths": paths})).unwrap();
        (reply["content_matches"].as_array().unwrap().len(), reply["path_matches"].as_array().unwrap().len())
    };
    assert_eq!((only(true, false), only(false, true), only(true, true)), ((1, 0), (0, 1), (1, 1)));
}

#[test]
fn options_of_matching() {
    let test = TestJail::new();
    test.write("f", "Foo\nfoobar\nfoo bar\nf.o\n");
    assert_eq!(lines(&test, json!({"query": "foo"})), ["f:2:foobar", "f:3:foo bar"]);
    assert_eq!(lines(&test, json!({"query": "foo", "ignore_case": true})).len(), 3);
    assert_eq!(lines(&test, json!({"query": "foo", "word": true})), ["f:3:foo bar"]);
    assert_eq!(lines(&test, json!({"query": "f.o"})), ["f:4:f.o"]);
    assert_eq!(lines(&test, json!({"query": "^f.o$", "regex": true})), ["f:4:f.o"]);
    assert_eq!(lines(&test, json!({"query": "^f.o$", "regex": true, "ignore_case": true})).len(), 2);
    assert_eq!(lines(&test, json!({"query": "f.o", "regex": true, "word": true})), ["f:3:foo bar", "f:4:f.o"]);
}

#[test]
fn repairs_are_told() {
    let test = TestJail::new();
    test.write("f", "call foo(x)\n${name}\n");
    let reply = search(&test, json!({"query": "foo(", "regex": true})).unwrap();
    assert_eq!((&reply["pattern_used"], &reply["pattern_repaired"]), (&json!("foo\\("), &json!(true)));
    assert_eq!(reply["content_matches"][0]["line"], 1);
    assert_eq!(lines(&test, json!({"query": "${name}", "regex": true})), ["f:2:${name}"]);
    let plain = search(&test, json!({"query": "foo", "regex": true})).unwrap();
    assert!(plain.get("pattern_used").is_none() && plain.get("pattern_repaired").is_none());
    let error = search(&test, json!({"query": "(a", "regex": true, "repair": false})).unwrap_err();
    assert!(error.code == Code::BadInput && error.message.contains("invalid regex"), "{error}");
}

#[test]
fn matches_may_span_lines() {
    let test = TestJail::new();
    test.write("f", "one\nend\nfn x\ntail\n");
    test.write("g", "end\r\nfn y\r\n");
    let reply = search(&test, json!({"query": "end\\r?\\nfn", "regex": true})).unwrap();
    let hits = reply["content_matches"].as_array().unwrap();
    assert_eq!(
        (&hits[0]["line"], &hits[0]["last_line"], &hits[0]["text"]),
        (&json!(2), &json!(3), &json!("end\nfn x"))
    );
    assert_eq!(hits[0]["spans"], json!([[0, 6]]));
    assert_eq!(hits.len(), 2);
    assert_eq!(lines(&test, json!({"query": "d\nfn"})), ["f:2:end\nfn x"], "a literal with a newline");
    assert_eq!(lines(&test, json!({"query": "(?s)one.*tail", "regex": true, "multiline": true})).len(), 1);
    assert_eq!(lines(&test, json!({"query": "one.*tail", "regex": true, "multiline": true})).len(), 0);
}

#[test]
fn globs_select_by_the_path_below_the_root() {
    let test = TestJail::new();
    for name in ["src/a.rs", "src/deep/b.rs", "src/c.md", "docs/d.rs"] {
        test.write(name, "x\n");
    }
    let found = |request: Value| -> Vec<String> {
        lines(&test, request).into_iter().map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    let q = |include: Value, exclude: Value| json!({"query": "x", "include_globs": include, "exclude_globs": exclude});
    assert_eq!(found(q(json!(["*.rs"]), json!([]))), ["docs/d.rs", "src/a.rs", "src/deep/b.rs"]);
    assert_eq!(found(q(json!(["src/*.rs"]), json!([]))), ["src/a.rs", "src/deep/b.rs"], "a star crosses slashes");
    assert_eq!(found(q(json!(["**/*.md", "docs/**"]), json!([]))), ["docs/d.rs", "src/c.md"]);
    assert_eq!(found(q(json!([]), json!(["src/**"]))), ["docs/d.rs"]);
    assert_eq!(found(q(json!(["*.rs"]), json!(["**/deep/**", "docs/*"]))), ["src/a.rs"]);
    let below = json!({"query": "x", "path": "src", "include_globs": ["src/c*"]});
    assert_eq!(found(below), ["src/c.md"], "from the root, also when the walk begins lower");
}

#[test]
fn default_excludes_hold_unless_they_are_switched_off_or_named() {
    let test = TestJail::new();
    for name in ["a", "target/b", ".hidden/c", "x.pyc"] {
        test.write(name, "x\n");
    }
    assert_eq!(lines(&test, json!({"query": "x"})), [".hidden/c:1:x", "a:1:x"]);
    assert_eq!(lines(&test, json!({"query": "x", "use_default_excludes": false})).len(), 4);
    assert_eq!(lines(&test, json!({"query": "x", "path": "target"})), ["target/b:1:x"]);
}

#[test]
fn ignore_files_are_obeyed_when_asked() {
    let test = TestJail::new();
    test.write(".gitignore", "*.log\n");
    test.write("sub/.ignore", "!keep.log\nb\n");
    for name in ["a.log", "a", "sub/keep.log", "sub/b"] {
        test.write(name, "x\n");
    }
    assert_eq!(lines(&test, json!({"query": "x"})).len(), 4);
    assert_eq!(lines(&test, json!({"query": "x", "gitignore": true})), ["a:1:x", "sub/keep.log:1:x"]);
    assert_eq!(lines(&test, json!({"query": "x", "gitignore": true, "path": "sub"})), ["sub/keep.log:1:x"]);
}

/// Part A: neither in content nor path nor count nor cursor.
#[test]
fn denied_files_leave_no_trace() {
    let test = TestJail::with(TestJailOptions {
        deny: &["**/.env", "**/secrets/**", "a/*.pem"],
        ..TestJailOptions::default()
    });
    for name in [".env", "secrets/key", "a/x.pem", "a/.ENV", "b/secrets/deep/key"] {
        test.write(name, "needle\0");
    }
    test.write("a/ok", "needle\n");
    for request in [
        json!({"query": "needle"}),
        json!({"query": "secrets"}),
        json!({"query": ".", "regex": true, "include_globs": ["**/secrets/**", "*.pem", "*.env"]}),
        json!({"query": "needle", "count_only": true}),
        json!({"query": "needle", "path": "secrets"}),
        json!({"query": "needle", "path": "b", "max_matches": 0}),
        json!({"query": "e", "max_matches": 1, "search_content": false}),
        json!({"query": "needle", "paths": ["**/key", "a/*.pem", "secrets"]}),
    ] {
        let reply = search(&test, request.clone()).unwrap();
        assert_eq!(reply["skipped"]["binary"], 0, "not even counted: {request}");
        let mut shown = reply.clone();
        shown["next_cursor"] = Value::Null;
        let text = shown.to_string();
        assert!(!text.contains("key") && !text.contains("pem") && !text.to_lowercase().contains(".env"), "{text}");
        if let Some(cursor) = reply["next_cursor"].as_str() {
            use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
            let bytes = URL_SAFE_NO_PAD.decode(cursor).unwrap();
            assert!(memchr::memmem::find(&bytes, b"key").is_none(), "{request}");
        }
    }
    let denied = search(&test, json!({"query": "x", "paths": [".env"]})).unwrap_err();
    let missing = search(&test, json!({"query": "x", "paths": [".enw"]})).unwrap_err();
    assert_eq!(denied.message.replace(".env", ".enw"), missing.message);
}

#[test]
fn context_is_shown_and_bounded() {
    let test = TestJail::new();
    test.write("f", "1\n2\n3 x\n4\n5 x\n6\n");
    let request = json!({"query": "x", "context_lines_before": 2, "context_lines_after": 1, "search_paths": false});
    let reply = search(&test, request).unwrap();
    let context: Vec<_> =
        reply["content_matches"].as_array().unwrap().iter().map(|hit| (&hit["before"], &hit["after"])).collect();
    assert_eq!(context[0], (&json!(["1", "2"]), &json!(["4"])));
    assert_eq!(context[1], (&json!(["3 x", "4"]), &json!(["6"])), "windows overlap");
    for field in ["context_lines_before", "context_lines_after"] {
        let error = search(&test, json!({"query": "x", field: 11})).unwrap_err();
        assert_eq!(error.code, Code::BadInput);
        assert!(error.message.contains("11") && error.message.contains("10") && error.message.contains(field));
    }
}

#[test]
fn binaries_are_counted_and_a_late_nul_ends_a_file() {
    let test = TestJail::new();
    test.write("early", "needle\0");
    let late = format!("needle 1\n{}\nneedle 2\0\nneedle 3\n", "x".repeat(5000));
    test.write("late", late);
    let mut edge = vec![b'x'; 4095];
    edge.extend_from_slice(b"\0needle");
    test.write("edge", &edge);
    let reply = search(&test, json!({"query": "needle", "search_paths": false})).unwrap();
    assert_eq!(reply["skipped"]["binary"], 2);
    let hits = reply["content_matches"].as_array().unwrap();
    assert_eq!(hits.iter().map(|hit| hit["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(hits[1]["text"], "needle 2");
}

#[test]
fn utf_16_and_marks_are_understood() {
    let test = TestJail::new();
    let utf16 = |text: &str, is_big: bool| -> Vec<u8> {
        let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
        units.flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    test.write("be", utf16("a\r\nné needle 😀\r\n", true));
    test.write("le", utf16("a\nneedle\n", false));
    test.write("utf8", "\u{feff}needle\n");
    let long: String = (0..40_000).map(|at| format!("line {at}\n")).collect();
    test.write("long", utf16(&(long + "needle\n"), false));
    let found = lines(&test, json!({"query": "needle"}));
    assert_eq!(found, ["be:2:né needle 😀", "le:2:needle", "long:40001:needle", "utf8:1:needle"]);
    assert_eq!(lines(&test, json!({"query": "^needle", "regex": true})).len(), 3, "a mark belongs to no line");
    assert_eq!(lines(&test, json!({"query": "a\\nneedle", "regex": true})), ["le:1:a\nneedle"]);
}

#[test]
fn invalid_text_is_searched_by_bytes_and_shown_with_replacements() {
    let test = TestJail::new();
    test.write("f", b"no utf-16: needle \xff\n");
    test.write("g", b"a\xff needle\n");
    let reply = search(&test, json!({"query": "needle", "search_paths": false})).unwrap();
    let hit = &reply["content_matches"][1];
    assert_eq!((&hit["text"], &hit["column"]), (&json!("a\u{fffd} needle"), &json!(4)));
    assert_eq!(hit["spans"], json!([[5, 11]]), "in the text that is shown");
}

#[test]
fn special_files_and_links_are_never_opened() {
    let test = TestJail::new();
    test.fifo("pipe");
    test.write("real", "needle\n");
    symlink("real", test.path("link")).unwrap();
    symlink("/etc/passwd", test.path("out")).unwrap();
    let reply = search(&test, json!({"query": "needle|root", "regex": true, "search_paths": false})).unwrap();
    assert_eq!(paths(&test, &reply["content_matches"]), ["real"]);
    assert_eq!(reply["skipped"]["special"], 1);
}

#[test]
fn several_places_at_once() {
    let test = TestJail::new();
    for name in ["a/x.rs", "a/y.md", "b/z.rs", "c"] {
        test.write(name, "1\nhit\nhit\n");
    }
    let found = |paths: Value| lines(&test, json!({"query": "hit", "paths": paths, "max_per_file": 1}));
    assert_eq!(found(json!(["c", "a/*.rs"])), ["a/x.rs:2:hit", "c:2:hit"]);
    assert_eq!(found(json!(["a", "a/x.rs", "b"])), ["a/x.rs:2:hit", "a/y.md:2:hit", "b/z.rs:2:hit"]);
    assert_eq!(found(json!(["*.rs"])), ["a/x.rs:2:hit", "b/z.rs:2:hit"]);
    let ranged = json!({"query": "hit", "paths": [{"path": "c", "lines": [[3, 9]]}, "a/y.md"]});
    assert_eq!(lines(&test, ranged), ["a/y.md:2:hit", "a/y.md:3:hit", "c:3:hit"]);
    let reply = search(&test, json!({"query": "hit", "paths": ["c", "gone"]})).unwrap();
    assert_eq!(reply["missing_paths"], json!(["gone"]));
    for (request, code, text) in [
        (json!({"query": "x", "paths": ["gone"]}), Code::NotFound, "gone"),
        (json!({"query": "x", "paths": [""]}), Code::BadInput, "empty"),
        (json!({"query": "x", "paths": []}), Code::BadInput, "empty"),
        (json!({"query": "x", "paths": [{"path": "a", "lines": [[1, 2]]}]}), Code::BadInput, "only for a file"),
        (json!({"query": "x", "paths": [{"path": "c", "lines": [[0, 2]]}]}), Code::BadInput, "1-based"),
        (json!({"query": "x", "paths": [{"path": "c", "lines": [[3, 2]]}]}), Code::BadInput, "1-based"),
        (json!({"query": "x", "paths": ["c"], "path": "a"}), Code::BadInput, "not both"),
    ] {
        let error = search(&test, request.clone()).unwrap_err();
        assert_eq!(error.code, code, "{request}: {error}");
        assert!(error.message.contains(text), "{request}: {error}");
    }
}

/// Part B: the order of checks.
#[test]
fn errors_come_in_the_order_of_the_contract() {
    let test = TestJail::new();
    test.write("file", "");
    let mut request = json!({"query": "", "search_content": false, "search_paths": false, "context_lines_before": 11,
        "context_lines_after": 12, "path": "gone", "include_globs": ["["], "exclude_globs": ["{"], "regex": true, "repair": false});
    for (code, text, field, better) in [
        (Code::BadInput, "query: empty", "query", json!("(")),
        (Code::BadInput, "both false", "search_paths", json!(true)),
        (Code::BadInput, "context_lines_before: 11", "context_lines_before", json!(10)),
        (Code::BadInput, "context_lines_after: 12", "context_lines_after", json!(10)),
        (Code::NotFound, "gone: not found or not accessible", "path", json!(".")),
        (Code::BadInput, "include_globs: bad glob \"[\"", "include_globs", json!([])),
        (Code::BadInput, "exclude_globs: bad glob \"{\"", "exclude_globs", json!([])),
        (Code::BadInput, "invalid regex: unclosed group", "query", json!("a")),
    ] {
        let error = search(&test, request.clone()).unwrap_err();
        assert_eq!(error.code, code, "{request}: {error}");
        assert!(error.message.contains(text), "{text}: {error}");
        request[field] = better;
    }
    assert!(search(&test, request).is_ok());
    for (path, code) in [("../x", Code::OutsideRoots), ("/etc", Code::OutsideRoots)] {
        assert_eq!(search(&test, json!({"query": "x", "path": path})).unwrap_err().code, code);
    }
    let error = search(&test, json!({"query": "x", "files_only": true, "count_only": true})).unwrap_err();
    assert!(error.message.contains("not both"));
}

#[cfg(test)]
#[path = "bound_tests.rs"]
mod bounds;
