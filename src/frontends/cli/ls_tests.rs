use serde_json::{Value, json};

use crate::frontends::cli::tests::{CommandRun, run_against, run_in};

fn entry(name: &str, kind: &str, size: u64) -> Value {
    json!({"name": name, "kind": kind, "size": size, "mtime": 951_782_400, "non_accessible": false})
}

/// A service with these entries, at most `cap` a page.
fn list(line: &[&str], terminal: Option<usize>, entries: Vec<Value>, cap: usize) -> CommandRun {
    run_against(line, terminal, move |method, params| {
        assert_eq!(method, "coder::list-folder");
        let size = (params["page_size"].as_u64().unwrap() as usize).min(cap);
        let page = params["page"].as_u64().unwrap() as usize;
        let from = ((page - 1) * size).min(entries.len());
        let to = (from + size).min(entries.len());
        Ok(json!({"path": "/r", "entries": entries[from..to], "total": entries.len(), "page": page,
            "page_size": size, "has_more": to < entries.len()}))
    })
}

fn some() -> Vec<Value> {
    vec![entry("README", "file", 10), entry("src", "dir", 4096), entry("to", "symlink", 3)]
}

#[test]
fn a_pipe_gets_one_plain_name_per_line_from_all_pages() {
    for cap in [1, 2, 1000] {
        let ran = list(&["ls"], None, some(), cap);
        assert_eq!((ran.code, ran.text()), (0, "README\nsrc\nto\n"));
        assert_eq!(ran.calls.len(), 3usize.div_ceil(cap));
    }
}

#[test]
fn a_terminal_gets_columns_with_marks() {
    assert_eq!(list(&["ls"], Some(80), some(), 1000).text(), "README  src/  to@\n");
    assert_eq!(list(&["ls"], Some(10), some(), 1000).text(), "README\nsrc/\nto@\n");
}

#[test]
fn long_form_aligns_sizes_and_names_its_marks() {
    let mut entries = some();
    entries[0]["non_accessible"] = true.into();
    entries.push(json!({"name": "mnt", "kind": "dir", "mount_point": true}));
    let ran = list(&["ls", "-l"], None, entries.clone(), 1000);
    let expected = "\
-    -  -                 README  [denied]
d 4096  2000-02-29 00:00  src/
l    3  2000-02-29 00:00  to@
d    -  -                 mnt/  [mount]
";
    assert_eq!(ran.text(), expected);
    assert!(list(&["ls", "-lh"], None, entries, 1000).text().contains("d 4.0K  2000"));
}

#[test]
fn hostile_names_reach_neither_terminal_nor_pipe_raw() {
    let mut odd = entry("caf\u{fffd}", "file", 1);
    odd["name_bytes"] = "Y2Fm6Q==".into();
    let entries = vec![entry("a\u{1b}]0;x\u{7}\nb", "file", 1), odd];
    for line in [&["ls"][..], &["ls", "-l"]] {
        for terminal in [None, Some(80)] {
            let ran = list(line, terminal, entries.clone(), 1000);
            assert!(ran.text().contains("a\\u001b]0;x\\u0007\\nb"), "{}", ran.text());
            assert!(ran.text().contains("caf\\xe9"), "{}", ran.text());
            assert!(!ran.text().contains('\u{1b}'));
        }
    }
}

#[test]
fn one_page_is_one_call() {
    let ran = list(&["ls", "--page", "2", "--page-size", "2"], None, some(), 1000);
    assert_eq!((ran.text(), ran.calls.len()), ("to\n", 1));
}

#[test]
fn json_joins_the_pages_into_one_result() {
    let ran = list(&["ls", "--json"], None, some(), 1);
    let whole: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(whole["entries"], json!(some()));
    assert_eq!((&whole["has_more"], &whole["total"]), (&json!(false), &json!(3)));
    let page = list(&["ls", "--json", "--page", "1"], None, some(), 1);
    let page: Value = serde_json::from_slice(&page.out).unwrap();
    assert_eq!(page["has_more"], true);
}

#[test]
fn a_page_that_promises_more_and_brings_nothing_ends_the_listing() {
    let ran = run_against(&["ls"], None, |_, _| Ok(json!({"entries": [], "has_more": true})));
    assert_eq!((ran.code, ran.calls.len()), (0, 1));
}

/// A service with a folder and a file.
fn list_both(line: &[&str]) -> CommandRun {
    run_in(Some("/r/d"), line, None, |method, params| {
        let path = params["path"].as_str().or(params["paths"][0]["path"].as_str()).unwrap().to_owned();
        match (method, path.as_str()) {
            ("coder::list-folder", "/r/d/src" | "/r/d/./src") => {
                Ok(json!({"path": path, "entries": some(), "has_more": false}))
            }
            ("coder::stat", "/r/d/notes") => {
                Ok(json!({"results": [{"kind": "file", "size": 7, "mtime": 951_782_400}]}))
            }
            ("coder::stat", "/r/d/src") => Ok(json!({"results": [{"kind": "dir", "size": 0, "mtime": 951_782_400}]})),
            ("coder::stat", _) => {
                Ok(json!({"results": [{"error": {"code": "C211", "message": format!("{path}: not found")}}]}))
            }
            _ => Err(json!({"code": "C211", "message": format!("{path}: not found")})),
        }
    })
}

#[test]
fn several_names_are_listed_files_first_and_each_folder_under_its_name() {
    let ran = list_both(&["ls", "src", "notes"]);
    assert_eq!((ran.code, ran.text()), (0, "notes\n\nsrc:\nREADME\nsrc\nto\n"));
    let ran = list_both(&["ls", "src", "gone", "./src"]);
    assert_eq!((ran.code, ran.text()), (1, "src:\nREADME\nsrc\nto\n\n./src:\nREADME\nsrc\nto\n"));
    assert!(ran.err.starts_with("stockade: C211 gone: not found\n"), "{}", ran.err);
    assert_eq!(list_both(&["ls", "-l", "notes"]).text(), "- 7  2000-02-29 00:00  notes\n");
    assert_eq!(list_both(&["ls", "-d", "src", "notes"]).text(), "src\nnotes\n");
    let ran = list_both(&["ls", "-d", "gone"]);
    assert_eq!((ran.code, ran.text()), (1, ""));
    let both: Value = serde_json::from_slice(&list_both(&["ls", "--json", "src", "./src"]).out).unwrap();
    assert_eq!(both[1]["entries"], json!(some()));
}

#[test]
fn options_of_ls_do_what_they_do_everywhere() {
    let mut entries = some();
    entries[0]["mtime"] = json!(951_782_401);
    for (line, text) in [
        (&["ls", "-a"][..], "README\nsrc\nto\n"),
        (&["ls", "-S"], "src\nREADME\nto\n"),
        (&["ls", "-St"], "README\nsrc\nto\n"),
        (&["ls", "-r"], "to\nsrc\nREADME\n"),
        (&["ls", "-h"], "README\nsrc\nto\n"),
    ] {
        assert_eq!(list(line, None, entries.clone(), 2).text(), text, "{line:?}");
    }
    assert_eq!(list(&["ls", "-1"], Some(80), entries.clone(), 1000).text(), "README\nsrc\nto\n");
    assert!(list(&["ls", "-lah"], None, entries, 1000).text().contains("d 4.0K  2000"));
}
