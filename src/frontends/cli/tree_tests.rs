use serde_json::{Value, json};

use super::*;
use crate::frontends::cli::tests::{CommandRun, run_against};

fn file(name: &str) -> Value {
    json!({"name": name, "kind": "file", "size": 1, "mtime": 0})
}

fn folder(name: &str, children: Vec<Value>) -> Value {
    json!({"name": name, "kind": "dir", "size": 1, "mtime": 0, "children": children})
}

fn cut(mut node: Value, reason: &str, shown: u64, total: Option<u64>, hint: &str) -> Value {
    node["truncated"] = json!({"reason": reason, "shown": shown, "hint": hint});
    if let Some(total) = total {
        node["truncated"]["total"] = total.into();
    }
    node
}

fn stub(name: &str, reason: &str, hint: &str) -> Value {
    cut(json!({"name": name, "kind": "dir", "size": 1, "mtime": 0}), reason, 0, None, hint)
}

fn draw(line: &[&str], root: Value) -> CommandRun {
    let reply = json!({"path": "/r", "root": root});
    run_against(line, None, move |method, _| {
        assert_eq!(method, "coder::tree");
        Ok(reply.clone())
    })
}

fn render(path: &str, root: Value, style: OutputStyle) -> String {
    TreeDrawing::draw(&serde_json::from_value(root).unwrap(), path.as_bytes(), style)
}

fn some() -> Value {
    let link = json!({"name": "to", "kind": "symlink", "size": 1, "mtime": 0});
    folder("r", vec![folder("a", vec![folder("b", vec![file("x")]), file("y")]), folder("c", vec![]), link])
}

#[test]
fn lines_connect_parents_with_children() {
    let expected = "\
.
├── a/
│   ├── b/
│   │   └── x
│   └── y
├── c/
└── to@

3 directories, 3 files
";
    let ran = draw(&["tree"], some());
    assert_eq!((ran.code, ran.text()), (0, expected));
    assert_eq!(ran.calls[0].1, json!({"path": ".", "gitignore": true}));
}

#[test]
fn a_locale_without_unicode_gets_ascii_lines() {
    let expected = "\
src
|-- a/
|   |-- b/
|   |   `-- x
|   `-- y
|-- c/
`-- to@

3 directories, 3 files
";
    assert_eq!(render("src", some(), OutputStyle::PLAIN), expected);
}

#[test]
fn what_was_left_out_is_noted_with_the_way_to_see_it() {
    let mut denied = file(".env");
    denied["non_accessible"] = true.into();
    let mut mount = json!({"name": "mnt", "kind": "dir", "size": 0, "mtime": 0});
    mount["mount_point"] = true.into();
    let wide = cut(folder("wide", vec![file("1"), file("2")]), "per_folder_limit", 2, Some(812), "");
    let root = folder(
        "r",
        vec![
            denied,
            stub("bottom", "max_depth", "tree_max_depth 48 reached; call coder::tree"),
            stub("closed", "io_error", "s/closed: Permission denied (os error 13)"),
            stub("deep", "max_depth", "max_depth 1 reached"),
            stub("full", "budget", ""),
            mount,
            stub("target", "default_exclude", ""),
            wide,
        ],
    );
    let expected = "\
s
|-- .env  [denied]
|-- bottom/  [deeper: stockade tree s/bottom]
|-- closed/  [s/closed: Permission denied (os error 13)]
|-- deep/  [deeper: -L 2]
|-- full/  [the reply is full: stockade tree s/full]
|-- mnt/  [mount]
|-- target/  [left out by default: --all]
`-- wide/
    |-- 1
    |-- 2
    `-- ... 810 more  [--limit 812, or stockade ls s/wide]

7 directories, 3 files, more not shown
";
    assert_eq!(render("s", root, OutputStyle::PLAIN), expected);
}

#[test]
fn a_folder_that_is_cut_itself_says_so_too() {
    let root = cut(folder("r", vec![file("a")]), "budget", 1, Some(9), "");
    assert_eq!(
        render(".", root, OutputStyle::PLAIN),
        ".\n|-- a\n`-- ... 8 more  [stockade ls .]\n\n0 directories, 1 file, more not shown\n"
    );
    let root = stub("r", "max_depth", "max_depth 0 reached");
    assert!(render(".", root, OutputStyle::PLAIN).starts_with(".  [deeper: -L 1]\n"));
}

#[test]
fn colour_marks_kinds_and_dims_notes() {
    let style = OutputStyle { color: true, unicode: true, columns: None };
    let text = render(".", folder("r", vec![stub("d", "default_exclude", "")]), style);
    assert!(text.contains("\u{1b}[1;34md\u{1b}[0m/"), "{text:?}");
    assert!(text.contains("\u{1b}[2m  [left out by default: --all]\u{1b}[0m"), "{text:?}");
}

#[test]
fn hostile_names_and_hints_never_reach_the_output_raw() {
    let mut odd = file("caf\u{fffd}");
    odd["name_bytes"] = "Y2Fm6Q==".into();
    let root = folder("r", vec![file("a\u{1b}]0;x\u{7}\nb"), odd, stub("s\u{202e}", "new_reason", "h\u{1b}[2J")]);
    let ran = draw(&["tree"], root);
    assert!(ran.text().contains("a\\u001b]0;x\\u0007\\nb") && ran.text().contains("caf\\xe9"), "{}", ran.text());
    assert!(ran.text().contains("s\\u202e/  [h\\u001b[2J]"), "{}", ran.text());
    assert!(!ran.text().contains(['\u{1b}', '\u{202e}', '\u{7}']));
}

#[test]
fn options_become_fields_of_the_request() {
    let ran = draw(&["tree", "-L", "2", "--all", "--limit", "7", "src"], folder("r", vec![]));
    let expected =
        json!({"path": "src", "max_depth": 2, "per_folder_limit": 7, "use_default_excludes": false, "gitignore": true});
    assert_eq!(ran.calls[0].1, expected);
    assert_eq!(draw(&["tree", "--no-ignore"], folder("r", vec![])).calls[0].1["gitignore"], false);
}

#[test]
fn json_is_the_reply_itself() {
    let ran = draw(&["tree", "--json"], some());
    let reply: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(reply, json!({"path": "/r", "root": some()}));
}
