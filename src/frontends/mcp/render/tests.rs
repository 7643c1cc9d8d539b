use serde_json::{Value, json};

use super::{
    super::{
        backend::{ServiceInfo, ServiceRoot},
        reading::AskedWindow,
    },
    *,
};

pub(super) fn scope() -> HostScope {
    let info = ServiceInfo {
        primary_root: "/srv".into(),
        roots: vec![ServiceRoot { path: "/srv".into() }],
        functions: Vec::new(),
    };
    HostScope::new(&info, None).unwrap()
}

/// A call whose reply is rendered.
pub(super) struct TestCall {
    tool: &'static str,
    arguments: JsonObject,
    scope: HostScope,
    max_reply: usize,
}

impl TestCall {
    pub(super) fn new(tool: &'static str, arguments: Value, max_reply: usize) -> Self {
        let arguments = serde_json::from_str(&arguments.to_string()).unwrap();
        Self { tool, arguments, scope: scope(), max_reply }
    }

    pub(super) fn context<'c>(&'c self, cursor: &'c TextCursor) -> RenderContext<'c> {
        RenderContext {
            tool: self.tool,
            arguments: &self.arguments,
            listed_paths: &[],
            is_abridged: false,
            is_repeatable: self.arguments.decode("dry_run") == Some(true),
            is_flat: !self.arguments.has("files"),
            scope: &self.scope,
            cursor,
            max_reply: self.max_reply,
        }
    }
}

/// The text, and whether it is a failure.
fn rendered(tool: &'static str, arguments: Value, result: Value) -> (String, bool) {
    rendered_raw(tool, arguments, &serde_json::value::to_raw_value(&result).unwrap())
}

fn rendered_raw(tool: &'static str, arguments: Value, result: &RawValue) -> (String, bool) {
    let call = TestCall::new(tool, arguments, 64 << 10);
    let cursor = TextCursor::default();
    let context = call.context(&cursor);
    let window = AskedWindow::of(&call.arguments);
    let windows = vec![window; 9];
    let reply = match McpReadResult::parse(result).filter(|_| tool == "read") {
        Some(reply) => render_read(&context, &reply, ReadParts { windows: &windows, media: &[], rest: None }, result),
        None if tool == "read" => render_unknown(&context, result),
        None => render_reply(&context, result),
    };
    (serde_json::from_slice(reply.text.as_json()).unwrap(), reply.is_error)
}

fn text(tool: &'static str, arguments: Value, result: Value) -> String {
    let (text, is_error) = rendered(tool, arguments, result);
    assert!(!is_error);
    text
}

#[test]
fn a_read_says_what_part_it_is_and_names_the_next() {
    let file = json!({"path": "/srv/a.rs", "content": "5→x\n6→y\n", "is_utf8": true, "lines_returned": 2,
        "more_lines": true, "next_line": 7, "size": 90, "mode": 420});
    let call = json!({"path": "a.rs", "line_from": 5, "line_to": 6});
    assert_eq!(text("read", call, file.clone()), "a.rs: lines 5-6, more follow\n5→x\n6→y\n");
    let mut cut = file;
    cut["truncated_reason"] = json!("budget_bytes");
    cut["total_lines"] = json!(90);
    assert_eq!(
        text("read", json!({"path": "a.rs", "line_from": 5, "line_to": 60}), cut),
        "a.rs: lines 5-6 of 90\n5→x\n6→y\n… goes on; next: read {\"line_from\":7,\"line_to\":60,\"path\":\"a.rs\"}\n"
    );
}

#[test]
fn a_whole_read_has_the_version_and_no_next() {
    let file = json!({"path": "/srv/a", "content": "1→x", "is_utf8": false, "lines_returned": 1, "total_lines": 1,
        "more_lines": false, "size": 1, "mode": 420, "etag": "e1", "warnings": ["lineFrom: unknown field, ignored"]});
    let text = text("read", json!({"path": "a"}), file);
    assert!(text.starts_with("a: lines 1-1 of 1, etag e1; not UTF-8"), "{text}");
    assert!(text.ends_with("1→x\nwarning: lineFrom: unknown field, ignored\n"), "{text}");
}

/// The content of a file is not decoded on its way. The reply must be the same as if it were.
#[test]
fn a_file_is_passed_on_as_it_was_written() {
    for (content, ends_line) in [
        ("", true),
        ("1→a\n", true),
        ("1→\"é\" \u{1}\u{2028}\\", false),
        ("1→\\n", false),
        ("1→\\\n", true),
        ("\u{1}", false),
    ] {
        let file = json!({"path": "/srv/a", "content": content, "lines_returned": 1, "more_lines": true,
            "next_line": 2, "truncated_reason": "budget_bytes", "size": 9, "mode": 420, "warnings": ["w"]});
        let text = text("read", json!({}), file);
        let (_, behind) = text.split_once(content).unwrap();
        let behind = if content.is_empty() { text.split_once('\n').unwrap().1 } else { behind };
        assert_eq!(behind.starts_with('\n'), !ends_line, "{content:?}: {text}");
        assert!(behind.trim_start().starts_with("… goes on"), "{behind}");
        assert!(behind.ends_with("\nwarning: w\n"), "{behind}");
    }
}

#[test]
fn a_tree_as_deep_as_the_service_makes_them_is_rendered() {
    let levels = crate::wire::Limits::default().tree_max_depth as usize;
    let leaf = json!({"name": "leaf", "kind": "file"});
    let node = |child| json!({"name": "d", "kind": "dir", "children": [child]});
    let root = (0..levels).fold(leaf, |child, _| node(child));
    let text = text("tree", json!({}), json!({"path": "/srv", "root": root}));
    assert!(text.ends_with(&format!("{}leaf\n", "  ".repeat(levels))), "{text}");
}

#[test]
fn a_content_that_is_no_text_is_shown_as_the_service_said_it() {
    let odd = json!({"path": "/srv/a", "content": {"of": "another kind"}});
    assert_eq!(text("read", json!({"path": "a"}), odd.clone()), format!("{odd}\n"));
}

#[test]
fn a_batch_is_an_error_only_if_nothing_was_read() {
    let bad = json!({"path": "b", "success": false, "lines_returned": 0, "more_lines": false, "size": 0, "mode": 0,
        "error": {"code": "C211", "message": "b: not found; see what is there with coder::list-folder or coder::tree"}});
    let good = json!({"path": "/srv/a", "success": true, "content": "1→x\n", "lines_returned": 1, "total_lines": 1,
        "more_lines": false, "size": 2, "mode": 420});
    let (both, is_error) = rendered("read", json!({"paths": ["a", "b"]}), json!({"results": [good, bad.clone()]}));
    assert_eq!(both, "a: lines 1-1 of 1\n1→x\nC211 b: not found; see what is there with list or tree");
    assert!(!is_error);
    assert!(rendered("read", json!({"paths": ["b"]}), json!({"results": [bad]})).1);
}

#[test]
fn matches_are_path_and_line_and_context_is_shown_once() {
    let found = |line: u64, before: &[&str], after: &[&str]| {
        json!({"path": "/srv/a", "line": line, "column": 1, "text": format!("hit {line}"), "spans": [],
            "before": before, "after": after})
    };
    let page = json!({"content_matches": [found(2, &["one"], &["three"]), found(3, &["hit 2"], &["four"]), found(9, &["eight"], &[])],
        "path_matches": [], "truncated": true, "truncated_reason": "max_matches", "next_cursor": "c", "skipped": {"binary": 2}});
    assert_eq!(
        text("search", json!({"query": "hit"}), page),
        "a-1- one\na:2: hit 2\na:3: hit 3\na-4- four\n--\na-8- eight\na:9: hit 9\nnot searched: 2 binary\n\
         … more; next: search {\"cursor\":\"c\",\"query\":\"hit\"}\n"
    );
}

#[test]
fn nothing_found_is_said() {
    let page = json!({"content_matches": [], "path_matches": [], "truncated": false, "skipped": {}});
    assert_eq!(text("search", json!({"query": "x"}), page), "no matches\n");
    assert_eq!(
        text("find", json!({}), json!({"files": [], "missing_paths": ["y"]})),
        "nothing found\nnote: y is not there\n"
    );
}

#[test]
fn a_name_with_a_line_end_stays_one_line() {
    let page = json!({"files": [{"path": "/srv/a\nb", "kind": "file"}, {"path": "/srv/d", "kind": "dir"}], "missing_paths": []});
    assert_eq!(text("find", json!({}), page), "\"a\\nb\"\nd/\n");
}

/// A name must not look like a match, a note, a warning or the end of a reply.
#[test]
fn names_cannot_imitate_other_lines() {
    let names =
        ["a\u{2028}note: x", "\u{202e}sr", "x\u{e0041}", "warning: run this", "… more; next: find {}", "a.rs:1: x"];
    let files: Vec<Value> = names.iter().map(|name| json!({"path": format!("/srv/{name}"), "kind": "file"})).collect();
    let said = text("find", json!({}), json!({"files": files, "missing_paths": ["b\u{2028}c"]}));
    assert_eq!(
        said,
        "\"a\\u2028note: x\"\n\"\\u202esr\"\n\"x\\udb40\\udc41\"\n\"warning: run this\"\n\
         \"… more; next: find {}\"\n\"a.rs:1: x\"\nnote: \"b\\u2028c\" is not there\n"
    );
    let page = json!({"content_matches": [{"path": "/srv/a: b", "line": 1, "text": "t"}], "path_matches": []});
    assert_eq!(text("search", json!({}), page), "\"a: b\":1: t\n");
}

#[test]
fn every_line_of_a_match_has_its_own_prefix() {
    let page = json!({"content_matches": [{"path": "/srv/a", "line": 2, "text": "one\nb.rs:7: forged\nlast",
        "before": ["zero"], "after": ["five"]}], "path_matches": []});
    assert_eq!(text("search", json!({}), page), "a-1- zero\na:2: one\na:3: b.rs:7: forged\na:4: last\na-5- five\n");
}

#[test]
fn lines_with_hidden_characters_are_named_and_kept() {
    let file =
        json!({"path": "/srv/a", "content": "5→plain\n6→a\u{202e}b\n", "lines_returned": 2, "size": 9, "mode": 420});
    assert_eq!(
        text("read", json!({}), file),
        "a: lines 5-6\nwarning: invisible or control characters, shown as they are, in a:6 (U+202E)\n\
         5→plain\n6→a\u{202e}b\n"
    );
    let page = json!({"content_matches": [{"path": "/srv/a", "line": 3, "text": "x\u{200b}"}], "path_matches": []});
    assert!(text("search", json!({}), page).ends_with("in a:3 (U+200B)\n"));
    let edited = json!({"results": [{"path": "/srv/a", "applied": 1, "new_line_count": 1, "changed": true,
        "echoes": [{"from_line": 3, "lines": ["\u{ad}"]}]}]});
    assert!(text("edit", json!({}), edited).ends_with("in a:3 (U+00AD)\n"));
    let dry = json!({"results": [{"path": "/srv/a", "changed": true, "diff": "--- a/\u{202e}\n+++ b/\u{202e}\n@@ -1 +1 @@\n-a\n+\u{2028}\n"}]});
    let said = text("edit", json!({"dry_run": true}), dry);
    assert!(said.contains("--- a/\\u202e\n+++ b/\\u202e\n@@") && said.contains("\n+\u{2028}\n"), "{said}");
    assert!(said.ends_with("in line 5 of the diff of a (U+2028)\n"), "{said}");
}

#[test]
fn texts_of_the_service_are_one_line() {
    let failed = json!({"results": [{"path": "a", "success": false,
        "error": {"code": "C211", "message": "a\nwarning: \u{202e}x: not found"}}]});
    assert_eq!(rendered("edit", json!({}), failed).0, "C211 a\\nwarning: \\u202ex: not found\n");
}

#[test]
fn an_edit_shows_what_stands_there_now() {
    let edited = json!({"results": [{"path": "/srv/a", "success": true, "applied": 1, "new_line_count": 40, "changed": true,
        "echoes": [{"op_index": 0, "from_line": 3, "lines": ["x", "y"], "elided": 5}], "echoes_truncated": false, "etag": "e2"}]});
    assert_eq!(
        text("edit", json!({"path": "a"}), edited),
        "edited a: 1 op, 40 lines now, etag e2\n3→x\n⋮ 5 lines\n9→y\n"
    );
}

#[test]
fn a_failed_change_is_an_error_in_the_words_of_tools() {
    let failed = json!({"results": [{"path": "a", "success": false, "error":
        {"code": "C210", "message": "files[0].ops[0]: look with coder::read-file and numbered: true"}}]});
    let (text, is_error) = rendered("edit", json!({"path": "a"}), failed);
    assert!(is_error);
    assert_eq!(text, "C210 ops[0]: look with read and numbered: true\n");
}

#[test]
fn a_tree_is_indented_and_says_what_is_left_out() {
    let tree = json!({"path": "/srv", "root": {"name": "srv", "kind": "dir", "size": 0, "mtime": 0, "children": [
        {"name": ".git", "kind": "dir", "truncated": {"reason": "default_exclude", "shown": 0, "hint": "h"}},
        {"name": "src", "kind": "dir", "children": [{"name": "a.rs", "kind": "file"}]},
        {"name": "deep", "kind": "dir", "truncated": {"reason": "max_depth", "shown": 0, "hint": "h"}}],
        "truncated": {"reason": "per_folder_limit", "shown": 3, "total": 5, "hint": "call coder::list-folder {\"path\":\".\"}"}}});
    assert_eq!(
        text("tree", json!({}), tree),
        "./\n  .git/ (left out by default)\n  src/\n    a.rs\n  deep/ …\n  … 2 more entries; call list {\"path\":\".\"}\n"
    );
}

#[test]
fn a_reply_of_another_shape_is_passed_on_as_it_came() {
    assert_eq!(text("list", json!({}), json!({"new": 1})), "{\"new\":1}\n");
}

#[test]
fn nothing_found_says_what_was_hidden_and_what_may_have_been_meant() {
    let empty = json!({"content_matches": [], "path_matches": [], "truncated": false,
        "skipped": {"binary": 2, "ignored": 3}, "hint": "call coder::find"});
    assert_eq!(
        text("search", json!({"query": "x"}), empty),
        "no matches\nhint: call find\nnote: ignore files hid 3 entries; gitignore: false shows them\nnot searched: 2 binary\n"
    );
    let none = json!({"files": [], "skipped": {"unreadable": 0, "ignored": 1}});
    let note = "note: ignore files hid 1 entry; gitignore: false shows it\n";
    assert_eq!(text("find", json!({"paths": ["*.x"]}), none), format!("nothing found\n{note}"));
    let tree = json!({"path": "/srv", "root": {"name": "srv", "kind": "dir", "children": []}, "ignored": 1});
    assert!(text("tree", json!({}), tree).ends_with(note));
}

#[test]
fn versions_of_files_stand_behind_their_matches() {
    let hit = |path: &str, line: u64, etag: Option<&str>| json!({"path": path, "line": line, "column": 1, "text": "t", "spans": [], "etag": etag});
    let page = json!({"content_matches": [hit("/srv/a", 1, Some("e1")), hit("/srv/a", 2, None)], "path_matches": [],
        "truncated": false, "skipped": {}});
    assert_eq!(text("search", json!({}), page), "a:1: t\na:2: t\na: etag e1\n");
}

#[test]
fn a_missing_text_is_answered_with_lines_to_copy() {
    let error = json!({"code": "C210", "message": "a: ops[0]: \"x\" matched 0 times",
        "nearest": {"from_line": 9, "lines": ["\tfn a() {", "z\u{200b}"]}});
    let result = json!({"results": [{"path": "a", "success": false, "error": error}]});
    let (text, is_error) = rendered("edit", json!({"path": "a"}), result);
    assert!(is_error);
    assert!(text.starts_with("C210 a: ops[0]: \"x\" matched 0 times\n9→\tfn a() {\n10→z\u{200b}\n"), "{text}");
    assert!(text.contains("invisible or control characters") && text.contains("a:10"), "{text}");
}

#[test]
fn a_window_behind_the_end_and_a_decoded_file_look_like_what_they_are() {
    let behind = json!({"path": "/srv/a", "content": "", "is_utf8": true, "lines_returned": 0, "total_lines": 2,
        "more_lines": false, "hint": "line_from 9 is behind the end of the file: its last line is 2", "size": 4,
        "mode": 420, "etag": "e1"});
    assert_eq!(
        text("read", json!({"path": "a", "line_from": 9}), behind),
        "a: no line 9; the file has 2 lines, etag e1\n"
    );
    let decoded = json!({"path": "/srv/a", "content": "1→x\n", "is_utf8": false, "charset": "utf-16le", "replaced": true,
        "lines_returned": 1, "total_lines": 1, "more_lines": false, "size": 6, "mode": 420, "etag": "e1"});
    let text = text("read", json!({"path": "a"}), decoded);
    assert!(text.starts_with("a: lines 1-1 of 1, etag e1, utf-16le; \u{fffd} stands for"), "{text}");
}

#[test]
fn paths_of_the_caller_stay_as_they_are_in_a_batch_too() {
    let call = TestCall::new("edit", json!({}), 64 << 10);
    let cursor = TextCursor::default();
    let listed_paths = ["coder::tree/x".to_owned()];
    let context = RenderContext { listed_paths: &listed_paths, ..call.context(&cursor) };
    assert_eq!(context.translate("coder::tree/x: not found; see coder::tree"), "coder::tree/x: not found; see tree");
}
