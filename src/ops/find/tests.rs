use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::*;
use crate::jail::testing::{TestJail, TestJailOptions};

pub(super) fn find(test: &TestJail, request: Value) -> Result<Value> {
    test.run::<Find>(request)
}

/// Paths below the root, in the order of the reply.
fn names(test: &TestJail, reply: &Value) -> Vec<String> {
    let root = format!("{}/", test.root().to_str().unwrap());
    let files = reply["files"].as_array().unwrap();
    files.iter().map(|file| file["path"].as_str().unwrap().strip_prefix(&root).unwrap().to_owned()).collect()
}

pub(super) fn found(test: &TestJail, request: Value) -> Vec<String> {
    let mut request = request;
    request["sort"] = "path".into();
    names(test, &find(test, request).unwrap())
}

fn project() -> TestJail {
    let test = TestJail::new();
    for name in ["src/main.rs", "src/lib.rs", "src/deep/er/x.rs", "docs/a.md", "docs/b.rs", "top.rs", ".hidden/h.rs"] {
        test.write(name, name);
    }
    test
}

/// The contract's cases RW-49 and RW-50, and the cases between them.
#[test]
fn a_glob_alone_is_recursive_and_one_with_a_folder_is_not() {
    let test = project();
    let all = [".hidden/h.rs", "docs/b.rs", "src/deep/er/x.rs", "src/lib.rs", "src/main.rs", "top.rs"];
    assert_eq!(found(&test, json!({"paths": ["*.rs"]})), all);
    assert_eq!(found(&test, json!({"paths": ["**/*.rs"]})), all);
    assert_eq!(found(&test, json!({"paths": ["src/*.rs"]})), ["src/lib.rs", "src/main.rs"]);
    assert_eq!(found(&test, json!({"paths": ["./*.rs"]})), ["top.rs"]);
    assert_eq!(found(&test, json!({"paths": ["src/**/*.rs"]})), &all[2..5]);
    assert_eq!(found(&test, json!({"paths": ["src/*/*/*.rs"]})), ["src/deep/er/x.rs"]);
    assert_eq!(found(&test, json!({"paths": ["{src,docs}/*.rs"]})), ["docs/b.rs", "src/lib.rs", "src/main.rs"]);
    let absolute = format!("{}/src/*.rs", test.root().display());
    assert_eq!(found(&test, json!({"paths": [absolute]})), ["src/lib.rs", "src/main.rs"]);
    assert_eq!(found(&test, json!({"paths": ["*.rs"], "base_dir": "docs"})), ["docs/b.rs"]);
}

#[test]
fn a_folder_means_all_below_it_and_a_file_itself() {
    let test = project();
    let src = ["src/deep", "src/deep/er", "src/deep/er/x.rs", "src/lib.rs", "src/main.rs"];
    assert_eq!(found(&test, json!({"paths": ["src"]})), src);
    assert_eq!(found(&test, json!({"paths": ["top.rs", "docs/a.md"]})), ["docs/a.md", "top.rs"]);
    assert_eq!(found(&test, json!({"paths": ["src", "src/deep", "src/lib.rs", "*.rs"]})).len(), 8, "each once");
    let bytes = json!({"paths": [{"path_bytes": "c3Jj"}, {"path": "top.rs"}]});
    assert_eq!(found(&test, bytes).len(), 6);
}

#[test]
fn bytes_are_a_name_and_neither_a_glob_nor_a_list() {
    let test = TestJail::new();
    ["*.rs", "a.rs", "a,b", "a", "b"].iter().for_each(|name| test.write(name, ""));
    for (name, bytes) in [("*.rs", "Ki5ycw=="), ("a,b", "YSxi")] {
        assert_eq!(found(&test, json!({"paths": [{"path_bytes": bytes}]})), [name]);
    }
    let missing = find(&test, json!({"paths": [{"path_bytes": "Ki5weQ=="}]})).unwrap_err();
    assert_eq!(missing.code, Code::NotFound, "nothing is called *.py");
}

#[test]
fn kinds_sizes_and_times_filter() {
    let test = project();
    symlink("src", test.path("link")).unwrap();
    test.fifo("pipe");
    let dirs = [".hidden", "docs", "src", "src/deep", "src/deep/er"];
    assert_eq!(found(&test, json!({"paths": ["."], "kind": "dir"})), dirs);
    assert_eq!(found(&test, json!({"paths": ["."], "kind": "file"})).len(), 7);
    assert_eq!(found(&test, json!({"paths": ["."]})).len(), 14);
    assert_eq!(found(&test, json!({"paths": ["*"], "min_size": 12})), [".hidden/h.rs", "src/deep/er/x.rs"]);
    assert_eq!(found(&test, json!({"paths": ["*"], "max_size": 6})), ["top.rs"], "only files have a size");
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    let file = std::fs::File::options().append(true).open(test.path("docs/a.md")).unwrap();
    file.set_modified(old).unwrap();
    assert_eq!(found(&test, json!({"paths": ["*.md", "*.rs"], "modified_before": 1001})), ["docs/a.md"]);
    assert_eq!(found(&test, json!({"paths": ["*.md"], "modified_before": 1000})).len(), 0);
    assert_eq!(found(&test, json!({"paths": ["*.md"], "modified_after": 999})).len(), 1);
    assert_eq!(found(&test, json!({"paths": ["*.md"], "modified_after": 1000})).len(), 0);
}

#[test]
fn hits_carry_what_the_kernel_says() {
    let test = TestJail::new();
    test.write("d/a", "12345");
    symlink("d", test.path("l")).unwrap();
    let reply = find(&test, json!({"paths": ["."], "sort": "path"})).unwrap();
    let files = reply["files"].as_array().unwrap();
    let told: Vec<_> = files.iter().map(|file| (file["kind"].as_str().unwrap(), &file["size"])).collect();
    assert_eq!((told[0].0, told[1], told[2].0), ("dir", ("file", &json!(5)), "symlink"));
    assert!(files.iter().all(|file| file["mtime"].as_i64().unwrap() > 1_600_000_000));
    assert_eq!((&reply["file_count"], &reply["truncated"]), (&json!(3), &json!(false)));
    assert_eq!(reply["scope_path"], test.root().to_str().unwrap());
}

#[test]
fn newest_comes_first_unless_paths_are_asked_for() {
    let test = TestJail::new();
    for (name, second) in [("a", 10), ("b", 30), ("c", 20), ("d", 30)] {
        test.write(name, "");
        let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
        std::fs::File::options().append(true).open(test.path(name)).unwrap().set_modified(at).unwrap();
    }
    let reply = |request| names(&test, &find(&test, request).unwrap());
    assert_eq!(reply(json!({"paths": ["."]})), ["b", "d", "c", "a"]);
    assert_eq!(reply(json!({"paths": ["."], "sort": "mtime"})), ["b", "d", "c", "a"]);
    assert_eq!(reply(json!({"paths": ["."], "sort": "path"})), ["a", "b", "c", "d"]);
}

#[test]
fn pages_join_to_the_whole_in_either_order() {
    let test = TestJail::new();
    for at in 0..57u64 {
        let name = format!("d{}/f{}", at % 5, at * 31 % 57);
        test.write(&name, "");
        let second = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at / 3);
        std::fs::File::options().append(true).open(test.path(&name)).unwrap().set_modified(second).unwrap();
    }
    for sort in ["path", "mtime"] {
        let request = json!({"paths": ["*"], "kind": "file", "sort": sort});
        let whole = names(&test, &find(&test, request.clone()).unwrap());
        assert_eq!(whole.len(), 57);
        let (mut joined, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let mut page = request.clone();
            (page["limit"], page["cursor"]) = (json!(10), cursor);
            let reply = find(&test, page).unwrap();
            joined.extend(names(&test, &reply));
            pages += 1;
            let is_last = reply["next_cursor"].is_null();
            assert_eq!((&reply["truncated"], &reply["limit_reached"]), (&json!(!is_last), &json!(!is_last)));
            assert_eq!(reply["truncated_reason"].as_str(), (!is_last).then_some("limit"));
            if is_last {
                break;
            }
            cursor = reply["next_cursor"].clone();
        }
        assert_eq!((joined, pages), (whole, 6), "{sort}");
    }
}

#[test]
fn what_git_ignores_and_what_is_excluded_is_left_out_by_default() {
    let test = TestJail::new();
    test.write(".gitignore", "*.log\n");
    for name in ["a.log", "b.rs", "target/c.rs", ".git/config", "d/.git/x", ".e"] {
        test.write(name, "");
    }
    assert_eq!(found(&test, json!({"paths": ["."], "kind": "file"})), [".e", ".gitignore", "b.rs"]);
    assert_eq!(found(&test, json!({"paths": ["*"], "kind": "file", "hidden": false})), ["b.rs"]);
    let all = json!({"paths": ["*"], "kind": "file", "gitignore": false, "use_default_excludes": false});
    assert_eq!(found(&test, all), [".e", ".gitignore", "a.log", "b.rs", "target/c.rs"], "never .git");
    assert_eq!(found(&test, json!({"paths": ["target/*.rs"]})), ["target/c.rs"], "named as the folder");
    assert_eq!(found(&test, json!({"paths": ["**/target/*.rs"]})), ["target/c.rs"], "named in a glob");
    assert_eq!(found(&test, json!({"paths": ["a.log"]})), ["a.log"], "a file that was named is shown");
}

/// RW-57.
#[test]
fn denied_names_never_appear_however_they_are_asked_for() {
    let test = TestJail::new();
    for name in [".env", "secrets/key", "a/secrets/deep/key", "a/ok"] {
        test.write(name, "");
    }
    for request in [
        json!({"paths": ["*"]}),
        json!({"paths": [".env*"]}),
        json!({"paths": ["**/key"]}),
        json!({"paths": ["secrets/*"]}),
        json!({"paths": ["a/secrets"]}),
        json!({"paths": ["."], "gitignore": false, "use_default_excludes": false, "hidden": true}),
    ] {
        let reply = find(&test, request.clone()).unwrap();
        assert!(!reply["files"].to_string().contains("key") && !reply.to_string().contains(".env"), "{reply}");
        assert_eq!(reply["skipped"], json!({"unreadable": 0, "too_deep": 0}), "{request}");
    }
    let denied = find(&test, json!({"paths": [".env"]})).unwrap_err();
    let missing = find(&test, json!({"paths": [".enw"]})).unwrap_err();
    assert_eq!(denied.code, Code::NotFound);
    assert_eq!(denied.message.replace(".env", ".enw"), missing.message);
}

/// RW-51, RW-52.
#[test]
fn what_is_missing_is_told_and_an_error_only_when_nothing_is_left() {
    let test = project();
    let reply = find(&test, json!({"paths": ["src/*.rs", "gone", "no/*.rs"]})).unwrap();
    assert_eq!(reply["missing_paths"], json!(["gone", "no/*.rs"]));
    assert_eq!(reply["files"].as_array().unwrap().len(), 2);
    for paths in [json!(["gone"]), json!(["gone/*.rs"]), json!(["gone", "too"]), json!(["top.rs/*"])] {
        assert_eq!(find(&test, json!({"paths": paths})).unwrap_err().code, Code::NotFound, "{paths}");
    }
}

/// RW-58, RW-59.
#[test]
fn several_paths_in_one_text_are_told_apart_if_they_are_there() {
    let test = TestJail::new();
    ["a.txt", "b.txt", "c d", "x, y"].iter().for_each(|name| test.write(name, ""));
    for (sent, expected) in [
        ("a.txt, b.txt", vec!["a.txt", "b.txt"]),
        ("a.txt;gone", vec!["a.txt"]),
        ("a.txt b.txt", vec!["a.txt", "b.txt"]),
        ("x, y", vec!["x, y"]),
        ("c d", vec!["c d"]),
        ("a.txt, *d", vec!["a.txt", "c d"]),
        ("{a,b}.txt", vec!["a.txt", "b.txt"]),
    ] {
        assert_eq!(found(&test, json!({"paths": [sent]})), expected, "{sent}");
    }
    assert_eq!(find(&test, json!({"paths": ["a.txt gone"]})).unwrap_err().code, Code::NotFound);
}

#[test]
fn a_name_with_brackets_that_is_there_is_no_glob() {
    let test = TestJail::new();
    ["[id].ts", "i.ts"].iter().for_each(|name| test.write(name, ""));
    assert_eq!(found(&test, json!({"paths": ["[id].ts"]})), ["[id].ts"]);
    assert_eq!(found(&test, json!({"paths": ["[ie].ts"]})), ["i.ts"]);
}

#[test]
fn bad_requests_say_what_is_wrong() {
    let test = project();
    for (request, text) in [
        (json!({"paths": []}), "paths: empty"),
        (json!({"paths": [""]}), "paths[0]: empty"),
        (json!({"paths": [7]}), "paths[0]: expected a text or an object"),
        (json!({"paths": [{"path": "a", "path_bytes": "YQ=="}]}), "not both"),
        (json!({"paths": ["*"], "limit": 0}), "limit: 0"),
        (json!({"paths": ["*"], "limit": -1}), "limit"),
        (json!({"paths": ["["]}), "bad glob"),
        (json!({"paths": ["*/../x"]}), "no .."),
        (json!({"paths": ["*"], "cursor": "x"}), "cursor"),
        (json!({"paths": ["*"], "sort": "size"}), "sort"),
    ] {
        let error = find(&test, request.clone()).unwrap_err();
        assert_eq!(error.code, Code::BadInput, "{request}: {error}");
        assert!(error.message.contains(text), "{request}: {error}");
    }
    for (path, code) in [("../x", Code::OutsideRoots), ("/etc/*", Code::OutsideRoots), ("/", Code::OutsideRoots)] {
        assert_eq!(find(&test, json!({"paths": [path]})).unwrap_err().code, code, "{path}");
    }
    assert_eq!(find(&test, json!({"paths": vec!["x"; 1001]})).unwrap_err().code, Code::TooLarge);
}

/// RW-54, with the limit of this service.
#[test]
fn limits_are_clamped() {
    let test = TestJail::new();
    (0..250).for_each(|at| test.write(&format!("{at}"), ""));
    let count = |request| find(&test, request).unwrap()["file_count"].as_u64().unwrap();
    assert_eq!(count(json!({"paths": ["*"]})), 200);
    assert_eq!(count(json!({"paths": ["*"], "limit": 4_000_000})), 250);
}

/// RW-56.
#[test]
fn links_are_listed_and_loops_end() {
    let test = TestJail::new();
    std::fs::create_dir(test.path("d")).unwrap();
    symlink("..", test.path("d/up")).unwrap();
    symlink("/etc", test.path("out")).unwrap();
    assert_eq!(found(&test, json!({"paths": ["."]})), ["d", "d/up", "out"]);
    assert_eq!(find(&test, json!({"paths": ["out/*"]})).unwrap_err().code, Code::OutsideRoots);
}

#[test]
fn names_that_are_no_text_can_be_used_back() {
    let test = TestJail::new();
    std::fs::write(test.raw(b"a\xff.rs"), "").unwrap();
    let reply = find(&test, json!({"paths": ["*.rs"]})).unwrap();
    let bytes = reply["files"][0]["path_bytes"].as_str().unwrap();
    let again = find(&test, json!({"paths": [{"path_bytes": bytes}]})).unwrap();
    assert_eq!(again["files"], reply["files"]);
}

#[test]
fn grouped_text_stands_beside_the_list() {
    let test = project();
    let reply = find(&test, json!({"paths": ["src"], "sort": "path", "render": "grouped"})).unwrap();
    assert_eq!(reply["text"], "deep/\nlib.rs\nmain.rs\n\n# deep/\ner/\n\n# deep/er/\nx.rs\n");
    assert!(find(&test, json!({"paths": ["src"]})).unwrap().get("text").is_none());
}

#[test]
fn when_the_time_is_up_the_reply_says_so_and_how_to_go_on() {
    let test = project();
    let request = json!({"paths": ["*.rs"], "sort": "path"});
    let mut late = test.call_with_deadline(std::time::Duration::from_millis(1));
    std::thread::sleep(std::time::Duration::from_millis(5));
    let reply = test.run_in::<Find>(&mut late, request.clone());
    // At the deadline, the target was not open yet, or nothing below it was examined.
    let reply = match reply {
        Err(error) => return assert_eq!(error.code, Code::Deadline),
        Ok(reply) => reply,
    };
    assert_eq!((&reply["timed_out"], &reply["truncated_reason"]), (&json!(true), &json!("deadline")));
    let mut again = request;
    again["cursor"] = reply["next_cursor"].clone();
    assert_eq!(names(&test, &find(&test, again).unwrap()).len(), 6);
}

#[test]
fn several_threads_find_what_one_does() {
    let test = TestJail::with(TestJailOptions::default());
    (0..900).for_each(|at| test.write(&format!("d{}/e{}/f{at}", at % 30, at % 7), ""));
    let request = json!({"paths": ["*"], "kind": "file", "sort": "path", "limit": 300});
    let alone = find(&test, request.clone()).unwrap();
    for _ in 0..5 {
        let together = test.run_in::<Find>(&mut test.call_with_helpers(3), request.clone()).unwrap();
        assert_eq!(together, alone);
    }
}
