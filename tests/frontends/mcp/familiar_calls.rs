//! Calls as models know them from other tools: their argument names, their command shapes, and types that are nearly right.

use std::fs;

use super::{
    host::{Host, Place},
    support::{Value, json},
};

fn place() -> Place {
    let place = Place::new();
    place.write("src/a.rs", "fn one() {}\nfn two() {}\nfn three() {}\nfn four() {}\n");
    place.write("src/deep/b.rs", "fn one() {}\n");
    place.write("c.txt", "one\n");
    place
}

/// Both calls have the same reply.
#[track_caller]
fn assert_same(host: &mut Host, tool: &str, familiar: Value, own: Value) {
    let expected = host.tool(tool, own.clone()).ok();
    assert_eq!(host.tool(tool, familiar.clone()).ok(), expected, "{familiar} and {own}");
}

#[test]
fn familiar_names_read_and_search_like_our_own() {
    let place = place();
    let host = &mut place.host(&[]);
    for (tool, familiar, own) in [
        ("read", json!({"file_path": "c.txt"}), json!({"path": "c.txt"})),
        (
            "read",
            json!({"file_path": "src/a.rs", "offset": 2, "limit": 2}),
            json!({"path": "src/a.rs", "line_from": 2, "line_to": 3}),
        ),
        (
            "read",
            json!({"path": "src/a.rs", "offset": 0, "limit": "1"}),
            json!({"path": "src/a.rs", "line_from": 1, "line_to": 1}),
        ),
        ("read", json!({"path": "src/a.rs", "limit": 2}), json!({"path": "src/a.rs", "line_to": 2})),
        ("read", json!({"path": "src/a.rs", "offset": "3"}), json!({"path": "src/a.rs", "line_from": 3})),
        (
            "read",
            json!({"command": "view", "path": "src/a.rs", "view_range": [2, 3]}),
            json!({"path": "src/a.rs", "line_from": 2, "line_to": 3}),
        ),
        (
            "read",
            json!({"command": "view", "path": "src/a.rs", "view_range": [2, -1]}),
            json!({"path": "src/a.rs", "line_from": 2}),
        ),
        ("read", json!({"paths": "c.txt"}), json!({"paths": ["c.txt"]})),
        ("read", json!({"paths": "[\"c.txt\",\"src/a.rs\"]"}), json!({"paths": ["c.txt", "src/a.rs"]})),
        ("search", json!({"pattern": "fn (one|two)"}), json!({"query": "fn (one|two)", "regex": true})),
        (
            "search",
            json!({"pattern": "one", "glob": "*.rs"}),
            json!({"query": "one", "regex": true, "include_globs": ["*.rs"]}),
        ),
        (
            "search",
            json!({"query": "two", "context": 1}),
            json!({"query": "two", "context_lines_before": 1, "context_lines_after": 1}),
        ),
        (
            "search",
            json!({"query": "two", "-C": 5, "-A": 1}),
            json!({"query": "two", "context_lines_before": 5, "context_lines_after": 1}),
        ),
        ("search", json!({"query": "two", "-B": "2", "-n": true}), json!({"query": "two", "context_lines_before": 2})),
        (
            "search",
            json!({"pattern": "ONE", "-i": true, "output_mode": "files_with_matches"}),
            json!({"query": "ONE", "regex": true, "ignore_case": true, "files_only": true}),
        ),
        ("find", json!({"pattern": "*.rs"}), json!({"paths": ["*.rs"]})),
        ("find", json!({"pattern": "*.rs", "path": "src/deep"}), json!({"paths": ["src/deep/*.rs"]})),
        ("find", json!({"glob": "src/*.rs"}), json!({"paths": ["src/*.rs"]})),
        ("find", json!({"path": "src"}), json!({"paths": ["src"]})),
    ] {
        assert_same(host, tool, familiar, own);
    }
}

#[test]
fn familiar_names_change_what_our_own_change() {
    let place = place();
    let host = &mut place.host(&[]);
    let content = |name: &str| fs::read_to_string(place.root.join(name)).unwrap();
    let mut done = |tool: &str, arguments: Value| host.tool(tool, arguments).ok();
    done("edit", json!({"file_path": "c.txt", "old_string": "one", "new_string": "two"}));
    assert_eq!(content("c.txt"), "two\n");
    done("edit", json!({"command": "str_replace", "path": "c.txt", "old_str": "two", "new_str": "a a a"}));
    done("edit", json!({"file_path": "c.txt", "old_string": "a", "new_string": "b", "replace_all": true}));
    assert_eq!(content("c.txt"), "b b b\n");
    done("edit", json!({"command": "insert", "path": "c.txt", "insert_line": 1, "insert_text": "below\n"}));
    done("edit", json!({"path": "c.txt", "insert_line": "0", "insert_text": "above"}));
    assert_eq!(content("c.txt"), "above\nb b b\nbelow\n");
    done(
        "edit",
        json!({"path": "c.txt", "edits": [{"oldText": "above", "newText": "x"}, {"old_string": "below", "new_string": "y"}]}),
    );
    assert_eq!(content("c.txt"), "x\nb b b\ny\n");
    done("create", json!({"command": "create", "path": "d.txt", "file_text": "new\n"}));
    done("create", json!({"file_path": "e.txt", "content": "new\n"}));
    done("move", json!({"command": "rename", "old_path": "d.txt", "new_path": "f.txt"}));
    done("copy", json!({"source": "f.txt", "destination": "g.txt"}));
    done("delete", json!({"command": "delete", "path": "e.txt"}));
    assert_eq!(
        (content("f.txt"), content("g.txt"), place.root.join("e.txt").exists()),
        ("new\n".into(), "new\n".into(), false)
    );
}

#[test]
fn two_names_for_one_thing_with_two_values_are_refused() {
    let place = place();
    let host = &mut place.host(&[]);
    for (tool, arguments) in [
        ("read", json!({"path": "c.txt", "file_path": "src/a.rs"})),
        ("read", json!({"path": "src/a.rs", "offset": 2, "line_from": 3})),
        ("edit", json!({"path": "c.txt", "old": "one", "old_string": "o", "new": "x"})),
        ("edit", json!({"files": [{"path": "c.txt", "file_path": "d", "old": "one", "new": "x"}]})),
        ("search", json!({"query": "a", "pattern": "b"})),
        ("search", json!({"query": "a", "context": 1, "-C": 2})),
        ("find", json!({"paths": ["*.rs"], "pattern": "*.txt"})),
    ] {
        let said = host.tool(tool, arguments.clone());
        assert!(said.code() == "C210" && said.text.contains("two names for one thing"), "{arguments}: {}", said.text);
    }
    for (tool, arguments) in [
        ("read", json!({"path": "c.txt", "file_path": "c.txt"})),
        ("find", json!({"paths": ["*.rs"], "pattern": "*.rs"})),
        ("search", json!({"query": "one", "pattern": "one"})),
    ] {
        host.tool(tool, arguments).ok();
    }
    assert_eq!(fs::read_to_string(place.root.join("c.txt")).unwrap(), "one\n");
}

/// Hosts allow tools by their names: a tool that only reads must not change anything, whatever its arguments say.
#[test]
fn a_command_of_another_tool_is_refused_with_its_name() {
    let place = place();
    let host = &mut place.host(&[]);
    for (tool, arguments, owner) in [
        ("read", json!({"command": "str_replace", "path": "c.txt", "old_str": "one", "new_str": "x"}), "edit"),
        ("edit", json!({"command": "delete", "path": "c.txt"}), "delete"),
        ("edit", json!({"command": "create", "path": "n", "file_text": ""}), "create"),
        ("edit", json!({"command": "view", "path": "c.txt"}), "read"),
    ] {
        let said = host.tool(tool, arguments.clone());
        assert!(said.code() == "C210" && said.text.contains(&format!("call {owner} ")), "{arguments}: {}", said.text);
    }
    assert_eq!(host.tool("edit", json!({"command": "undo_edit", "path": "c.txt"})).code(), "C210");
    assert_eq!(fs::read_to_string(place.root.join("c.txt")).unwrap(), "one\n");
    assert!(!place.root.join("n").exists());
}

/// One search, one dry run, one edit.
#[test]
fn a_rename_over_eight_files_is_three_calls() {
    let place = Place::new();
    let names: Vec<String> = (0..8).map(|at| format!("m{at}/file{at}.rs")).collect();
    for (at, name) in names.iter().enumerate() {
        place.write(name, format!("{}use old_name;\r\n", "old_name(\"$1\");\n".repeat(at + 1)));
    }
    let mut host = place.host(&[]);
    let found = host.tool("search", json!({"query": "old_name", "word": true, "files_only": true})).ok();
    let files: Vec<Value> =
        found.lines().map(|path| json!({"path": path, "old": "old_name", "new": "new_$1_name", "all": true})).collect();
    assert_eq!(files.len(), 8);
    let dry = host.tool("edit", json!({"files": files, "atomic": true, "dry_run": true})).ok();
    assert_eq!(dry.matches("would change, nothing was written").count(), 8, "{dry}");
    let edited = host.tool("edit", json!({"files": files, "atomic": true})).ok();
    assert_eq!(edited.matches("edited ").count(), 8, "{edited}");
    for (at, name) in names.iter().enumerate() {
        let expected = format!("{}use new_$1_name;\r\n", "new_$1_name(\"$1\");\n".repeat(at + 1));
        assert_eq!(fs::read_to_string(place.root.join(name)).unwrap(), expected);
    }
}

#[test]
fn several_files_are_created_and_edited_whole_or_not_at_all() {
    let place = place();
    let mut host = place.host(&[]);
    let files = json!([{"path": "n/1", "content": "1"}, {"path": "c.txt", "content": "2"}]);
    let refused = host.tool("create", json!({"files": files, "atomic": true}));
    assert!(refused.is_error && !place.root.join("n").exists(), "{}", refused.text);
    let files = json!([{"path": "n/1", "content": "1"}, {"path": "n/2", "content": "2"}]);
    let said = host.tool("create", json!({ "files": files })).ok();
    assert_eq!(said.matches("wrote n/").count(), 2, "{said}");
    let files = json!([{"path": "n/1", "old": "1", "new": "x"}, {"path": "n/2", "old": "absent", "new": "x"}]);
    let refused = host.tool("edit", json!({"files": files, "atomic": true}));
    assert!(refused.is_error && refused.text.contains("\"absent\" matched 0 times"), "{}", refused.text);
    assert_eq!(fs::read_to_string(place.root.join("n/1")).unwrap(), "1");
    let said = host.tool("edit", json!({"files": [{"path": "n/1", "old": "1"}]}));
    assert!(said.code() == "C210" && said.text.contains("files[0]"), "{}", said.text);
}
