use std::os::unix::{fs::symlink, net::UnixListener};

use serde_json::{Value, json};

use super::*;
use crate::{
    jail::{
        DeniedInListings,
        testing::{TestJail, TestJailOptions},
    },
    wire::Code,
};

fn list(test: &TestJail, request: Value) -> Result<Value> {
    test.run::<ListFolder>(request)
}

fn names(listing: &Value) -> Vec<&str> {
    listing["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[test]
fn a_listing_has_the_fields_of_the_contract() {
    let test = TestJail::new();
    test.write("d/b.txt", "12345");
    let listing = list(&test, json!({"path": "d"})).unwrap();
    let mtime = listing["entries"][0]["mtime"].as_i64().unwrap();
    assert!(mtime > 1_600_000_000);
    assert_eq!(
        listing,
        json!({
            "path": test.path("d").to_str().unwrap(),
            "entries": [{"name": "b.txt", "kind": "file", "size": 5, "mtime": mtime, "non_accessible": false}],
            "total": 1, "page": 1, "page_size": 100, "has_more": false,
        })
    );
}

#[test]
fn the_default_is_the_primary_root() {
    let test = TestJail::new();
    test.write("a", "");
    let root = test.root().to_str().unwrap();
    for request in [json!({}), json!({"path": null, "page": null, "page_size": null, "base_dir": null})] {
        let listing = list(&test, request).unwrap();
        assert_eq!((listing["path"].as_str(), names(&listing)), (Some(root), vec!["a"]));
    }
}

#[test]
fn every_kind_is_told_and_links_are_not_followed() {
    let test = TestJail::new();
    test.write("file", "x");
    std::fs::create_dir(test.path("folder")).unwrap();
    symlink("folder", test.path("link")).unwrap();
    symlink("nowhere", test.path("dangling")).unwrap();
    test.fifo("pipe");
    let _socket = UnixListener::bind(test.path("socket")).unwrap();
    let listing = list(&test, json!({})).unwrap();
    let kinds: Vec<_> = listing["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["name"].as_str().unwrap(), entry["kind"].as_str().unwrap()))
        .collect();
    let expected = [
        ("dangling", "symlink"),
        ("file", "file"),
        ("folder", "dir"),
        ("link", "symlink"),
        ("pipe", "other"),
        ("socket", "other"),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn names_are_sorted_by_bytes_with_folders_among_files() {
    let test = TestJail::new();
    for name in ["b", "a", "B", "é", "a0", "a.b"] {
        test.write(name, "");
    }
    std::fs::create_dir(test.path("aa")).unwrap();
    assert_eq!(names(&list(&test, json!({})).unwrap()), ["B", "a", "a.b", "a0", "aa", "b", "é"]);
}

#[test]
fn pages_cover_the_folder_exactly_once() {
    let test = TestJail::new();
    (0..10).for_each(|i| test.write(&format!("f{i}"), ""));
    let mut all = Vec::new();
    for page in 1..=4 {
        let listing = list(&test, json!({"page": page, "page_size": 3})).unwrap();
        assert_eq!((&listing["total"], &listing["page"], &listing["page_size"]), (&10.into(), &page.into(), &3.into()));
        assert_eq!(listing["has_more"], page < 4);
        all.extend(names(&listing).into_iter().map(str::to_owned));
    }
    assert_eq!(all, (0..10).map(|i| format!("f{i}")).collect::<Vec<_>>());
}

#[test]
fn page_and_size_are_clamped_and_echoed_as_used() {
    let mut test = TestJail::new();
    test.limits.list_max_page_size = 2;
    (0..5).for_each(|i| test.write(&format!("f{i}"), ""));
    // (request, page used, size used, names)
    let cases = [
        (json!({"page": 0, "page_size": 1}), 1, 1, vec!["f0"]),
        (json!({"page_size": 0}), 1, 1, vec!["f0"]),
        (json!({"page_size": 4_294_967_295u32}), 1, 2, vec!["f0", "f1"]),
        (json!({}), 1, 2, vec!["f0", "f1"]),
        (json!({"page": 3, "page_size": 2}), 3, 2, vec!["f4"]),
        (json!({"page": 4, "page_size": 2}), 4, 2, vec![]),
        (json!({"page": 4_294_967_295u32, "page_size": 2}), 4_294_967_295u32, 2, vec![]),
    ];
    for (request, page, size, expected) in cases {
        let listing = list(&test, request.clone()).unwrap();
        assert_eq!((&listing["page"], &listing["page_size"]), (&page.into(), &size.into()), "{request}");
        assert_eq!((names(&listing), &listing["total"]), (expected, &5.into()), "{request}");
    }
}

#[test]
fn numbers_beyond_u32_are_bad_input() {
    let test = TestJail::new();
    for request in [json!({"page": -1}), json!({"page": 4_294_967_296u64}), json!({"page_size": "ten"})] {
        assert_eq!(list(&test, request).unwrap_err().code, Code::BadInput);
    }
}

#[test]
fn denied_entries_show_only_name_and_kind() {
    let test = TestJail::new();
    test.write("a", "");
    test.write(".env", "12");
    let listing = list(&test, json!({})).unwrap();
    assert_eq!(names(&listing), [".env", "a"]);
    let denied = json!({"name": ".env", "kind": "file", "size": 0, "mtime": 0, "non_accessible": true});
    assert_eq!(listing["entries"][0], denied);
    assert_eq!(listing["entries"][1]["non_accessible"], false);
}

#[test]
fn a_folder_whose_content_is_denied_is_listed_with_flags() {
    let test = TestJail::new();
    test.write("secrets/key", "");
    let listing = list(&test, json!({"path": "secrets"})).unwrap();
    assert_eq!((names(&listing), &listing["entries"][0]["non_accessible"]), (vec!["key"], &true.into()));
}

#[test]
fn hidden_entries_are_not_even_counted() {
    let test = TestJail::with(TestJailOptions { list_denied: DeniedInListings::Hide, ..TestJailOptions::default() });
    test.write("a", "");
    test.write(".env", "");
    test.write("secrets/key", "");
    let listing = list(&test, json!({})).unwrap();
    assert_eq!((names(&listing), &listing["total"]), (vec!["a", "secrets"], &2.into()));
    assert_eq!(list(&test, json!({"path": "secrets"})).unwrap()["total"], 0);
}

#[test]
fn private_state_is_never_listed() {
    let test = TestJail::new();
    test.write(".stockade/1/journal", "");
    test.write("sub/.stockade/mine", "");
    let listing = list(&test, json!({})).unwrap();
    assert_eq!((names(&listing), &listing["total"]), (vec!["sub"], &1.into()));
    assert_eq!(names(&list(&test, json!({"path": "sub"})).unwrap()), [".stockade"]);
    assert_eq!(list(&test, json!({"path": ".stockade"})).unwrap_err().code, Code::NotFound);
}

#[test]
fn names_that_are_not_utf8_can_be_used_back() {
    let test = TestJail::new();
    std::fs::create_dir(test.raw(b"d\xff")).unwrap();
    std::fs::write(test.raw(b"d\xff/f\xfe"), "").unwrap();
    let listing = list(&test, json!({})).unwrap();
    let entry = &listing["entries"][0];
    assert_eq!((entry["name"].as_str(), entry["name_bytes"].as_str()), (Some("d\u{fffd}"), Some("ZP8=")));
    let below = list(&test, json!({"path_bytes": entry["name_bytes"]})).unwrap();
    assert_eq!(below["entries"][0]["name_bytes"], "Zv4=");
    assert!(below["path"].as_str().unwrap().ends_with("/d\u{fffd}"));
    assert!(below["path_bytes"].is_string());
}

#[test]
fn what_cannot_be_listed_says_why() {
    let test = TestJail::new();
    test.write("file", "");
    symlink(".", test.path("link")).unwrap();
    let cases = [
        (json!({"path": "file"}), Code::BadInput, "file: not a directory"),
        (json!({"path": "missing"}), Code::NotFound, "missing: not found or not accessible"),
        (json!({"path": ".env"}), Code::NotFound, ".env: not found or not accessible"),
        (json!({"path": "link"}), Code::OutsideRoots, "links are not followed"),
        (json!({"path": "file/below"}), Code::Io, "not a directory"),
        (json!({"path": "../x"}), Code::OutsideRoots, "../x"),
        (json!({"path": "a\0b"}), Code::BadInput, "NUL"),
        (json!({"path": "a", "path_bytes": "YQ=="}), Code::BadInput, "not both"),
        (json!({"path": "a", "base_dir": "/"}), Code::OutsideRoots, "base_dir is outside every allowed root"),
        (json!({"path": test.path("file"), "base_dir": "sub"}), Code::OutsideBaseDir, "inside an allowed root"),
    ];
    for (request, code, text) in cases {
        let error = list(&test, request.clone()).unwrap_err();
        assert_eq!(error.code, code, "{request}: {error}");
        assert!(error.message.contains(text), "{request}: {error}");
    }
}

#[test]
fn base_dir_is_where_relative_paths_begin() {
    let test = TestJail::new();
    test.write("sub/d/x", "");
    assert_eq!(names(&list(&test, json!({"path": "d", "base_dir": "sub"})).unwrap()), ["x"]);
    assert_eq!(names(&list(&test, json!({"base_dir": "sub"})).unwrap()), ["d"]);
}

#[test]
fn mount_points_are_flagged_and_not_looked_at() {
    let test = TestJail::with(TestJailOptions { root_folder: Some("/"), ..TestJailOptions::default() });
    let listing = list(&test, json!({"path": "/", "page_size": 1000})).unwrap();
    let entries = listing["entries"].as_array().unwrap();
    let proc = entries.iter().find(|entry| entry["name"] == "proc").unwrap();
    assert_eq!(
        *proc,
        json!({"name": "proc", "kind": "dir", "size": 0, "mtime": 0, "non_accessible": false, "mount_point": true})
    );
    let usr = entries.iter().find(|entry| entry["name"] == "usr").unwrap();
    assert!(usr.get("mount_point").is_none());
}

#[test]
fn entries_that_may_not_be_looked_at_are_left_out() {
    let test = TestJail::new();
    test.write("d/a", "");
    test.set_mode("d", 0o444);
    test.obey_permissions();
    let listing = list(&test, json!({"path": "d"})).unwrap();
    assert_eq!((names(&listing).len(), &listing["total"]), (0, &0.into()));
    test.set_mode("d", 0o755);
}

#[test]
fn a_folder_that_may_not_be_read_is_an_io_error() {
    let test = TestJail::new();
    std::fs::create_dir(test.path("d")).unwrap();
    test.set_mode("d", 0o311);
    test.obey_permissions();
    let error = list(&test, json!({"path": "d"})).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::Io, "d: permission denied"));
}

#[test]
fn a_passed_deadline_ends_a_long_listing() {
    let test = TestJail::new();
    (0..1100).for_each(|i| test.write(&format!("{i}"), ""));
    let error = test.run_in::<ListFolder>(&mut test.expired_call(), json!({})).unwrap_err();
    assert_eq!(error.code, Code::Deadline);
}

#[test]
fn the_question_is_known_up_front_unless_the_path_is_refused() {
    let test = TestJail::new();
    let questions = |path: &str| {
        let request = ListFolderRequest { path: Some(path.to_owned()), ..ListFolderRequest::default() };
        ListFolder::questions(&test.jail, &request)
    };
    assert_eq!(questions("./a//b"), [Question { root: 0, path: b"a/b".to_vec(), intent: Intent::Read }]);
    assert!(questions("../a").is_empty() && questions("secrets/x").is_empty());
}
