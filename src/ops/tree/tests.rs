use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::*;
use crate::{
    jail::{
        DeniedInListings,
        testing::{TestJail, TestJailOptions},
    },
    wire::{
        Code,
        types::{ListFolder, info::Resolver},
    },
};

pub(super) fn tree(test: &TestJail, request: Value) -> Value {
    test.run::<Tree>(request).unwrap()["root"].take()
}

/// The node's children, drawn on one line: `a d(x y) s[max_depth] k!`.
pub(super) fn drawn(node: &Value) -> String {
    let children = node["children"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |child: &Value| {
        let mut text = child["name"].as_str().unwrap().to_owned();
        text.push_str(if child["non_accessible"] == true { "!" } else { "" });
        if let Some(reason) = child["truncated"]["reason"].as_str() {
            text += &format!("[{reason}]");
        }
        if child.get("children").is_some() {
            text += &format!("({})", drawn(child));
        }
        text
    };
    children.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_tree_has_the_fields_of_the_contract() {
    let test = TestJail::new();
    test.write("d/sub/b.txt", "12345");
    let reply = test.run::<Tree>(json!({"path": "d"})).unwrap();
    let mtime = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        let kernel = std::fs::metadata(test.path(name)).unwrap();
        (kernel.mtime(), kernel.size())
    };
    let ((d, d_size), (sub, sub_size), (b, _)) = (mtime("d"), mtime("d/sub"), mtime("d/sub/b.txt"));
    assert_eq!(
        reply,
        json!({
            "path": test.path("d").to_str().unwrap(),
            "root": {"name": "d", "kind": "dir", "size": d_size, "mtime": d, "children": [
                {"name": "sub", "kind": "dir", "size": sub_size, "mtime": sub, "children": [
                    {"name": "b.txt", "kind": "file", "size": 5, "mtime": b},
                ]},
            ]},
        })
    );
}

#[test]
fn the_default_is_the_primary_root_under_its_own_name() {
    let test = TestJail::new();
    test.write("a", "");
    let reply = test.run::<Tree>(json!({"path": null, "max_depth": null})).unwrap();
    assert_eq!(reply["path"], test.root().to_str().unwrap());
    assert_eq!(reply["root"]["name"], test.root().file_name().unwrap().to_str().unwrap());
    assert_eq!(drawn(&reply["root"]), "a");
}

#[test]
fn depth_counts_from_the_folder_itself_and_default_is_four() {
    let test = TestJail::new();
    test.write("1/2/3/4/5/file", "");
    std::fs::create_dir(test.path("empty")).unwrap();
    let root = tree(&test, json!({"max_depth": 0}));
    assert_eq!((root["truncated"]["reason"].as_str(), root.get("children")), (Some("max_depth"), None));
    assert_eq!(drawn(&tree(&test, json!({"max_depth": 1}))), "1[max_depth] empty[max_depth]");
    assert_eq!(drawn(&tree(&test, json!({"max_depth": 2}))), "1(2[max_depth]) empty()");
    assert_eq!(drawn(&tree(&test, json!({}))), "1(2(3(4[max_depth]))) empty()");
    assert_eq!(drawn(&tree(&test, json!({"max_depth": 4_000_000_000u32}))), "1(2(3(4(5(file))))) empty()");
    let stub = &tree(&test, json!({"max_depth": 1}))["children"][0]["truncated"];
    assert_eq!((&stub["shown"], stub.get("total")), (&0.into(), None));
    assert!(stub["hint"].as_str().unwrap().contains("max_depth"), "{stub}");
}

#[test]
fn one_call_goes_down_no_further_than_the_policy_says() {
    let mut test = TestJail::new();
    test.limits.tree_max_depth = 2;
    test.write("1/2/3", "");
    let root = tree(&test, json!({"max_depth": 9}));
    assert_eq!(drawn(&root), "1(2[max_depth])");
    let hint = root["children"][0]["children"][0]["truncated"]["hint"].as_str().unwrap();
    assert!(hint.contains("tree_max_depth 2 reached; call coder::tree {\"path\":\"1/2\"}"), "{hint}");
}

#[test]
fn the_first_by_name_are_shown_of_a_large_folder() {
    let test = TestJail::new();
    (0..60).for_each(|i| test.write(&format!("d/f{:02}", i * 7 % 60), ""));
    let root = tree(&test, json!({"path": "d"}));
    let names: Vec<_> = root["children"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..50).map(|i| format!("f{i:02}")).collect::<Vec<_>>());
    let truncated = &root["truncated"];
    assert_eq!(
        (&truncated["reason"], &truncated["shown"], &truncated["total"]),
        (&"per_folder_limit".into(), &50.into(), &60.into())
    );
    let hint = truncated["hint"].as_str().unwrap();
    assert!(hint.contains("coder::list-folder {\"path\":\"d\"}") && hint.contains("per_folder_limit"), "{hint}");
    assert!(tree(&test, json!({"path": "d", "per_folder_limit": 60})).get("truncated").is_none());
    assert_eq!(drawn(&tree(&test, json!({"path": "d", "per_folder_limit": 0}))), "f00");
}

#[test]
fn every_kind_is_told_and_links_are_leaves() {
    let test = TestJail::new();
    test.write("d/x", "");
    symlink("d", test.path("link")).unwrap();
    symlink(".", test.path("loop")).unwrap();
    test.fifo("pipe");
    let root = tree(&test, json!({}));
    let kinds: Vec<_> =
        root["children"].as_array().unwrap().iter().map(|child| child["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds, drawn(&root).as_str()), (vec!["dir", "symlink", "symlink", "other"], "d(x) link loop pipe"));
}

#[test]
fn children_are_sorted_by_bytes_with_folders_among_files() {
    let test = TestJail::new();
    for name in ["b", "a", "B", "é", "a0", "a.b", "aa/x"] {
        test.write(name, "");
    }
    assert_eq!(drawn(&tree(&test, json!({}))), "B a a.b a0 aa(x) b é");
}

#[test]
fn excluded_folders_are_stubs_and_excluded_files_are_left_out() {
    let test = TestJail::new();
    for name in ["target/debug/x", "a/target/x", "a/b/target/x", "cache.pyc/x", "m.pyc", "m.py", "t/target"] {
        test.write(name, "");
    }
    symlink("a", test.path("a/b/link.pyc")).unwrap();
    std::fs::create_dir(test.path("l")).unwrap();
    symlink("../a", test.path("l/target")).unwrap();
    let root = tree(&test, json!({"max_depth": 2}));
    let expected = "a(b[max_depth] target[default_exclude]) cache.pyc[default_exclude] l(target) m.py t(target) \
                    target[default_exclude]";
    assert_eq!(drawn(&root), expected, "a file or link that is only called target stays");
    let stub = &root["children"][5];
    assert_eq!((&stub["truncated"]["shown"], stub.get("children")), (&0.into(), None));
    let hint = stub["truncated"]["hint"].as_str().unwrap();
    assert!(hint.contains("use_default_excludes: false") && hint.contains("{\"path\":\"target\"}"), "{hint}");
    assert_eq!(
        drawn(&tree(&test, json!({"max_depth": 1}))),
        "a[max_depth] cache.pyc[default_exclude] l[max_depth] m.py t[max_depth] target[default_exclude]",
        "before depth"
    );
    let all = "a(b(link.pyc target(x)) target(x)) cache.pyc(x) l(target) m.py m.pyc t(target) target(debug(x))";
    assert_eq!(drawn(&tree(&test, json!({"use_default_excludes": false}))), all);
}

#[test]
fn who_names_an_excluded_folder_sees_it_whole() {
    let test = TestJail::new();
    test.write("target/debug/target/m.pyc", "");
    assert_eq!(drawn(&tree(&test, json!({"path": "target"}))), "debug(target(m.pyc))");
    assert_eq!(drawn(&tree(&test, json!({"path": "target/debug"}))), "target(m.pyc)");
}

#[test]
fn a_limit_counts_what_is_left_after_the_excludes() {
    let test = TestJail::new();
    ["a.pyc", "b", "c.pyc", "d", "e"].iter().for_each(|name| test.write(name, ""));
    let root = tree(&test, json!({"per_folder_limit": 2}));
    assert_eq!((drawn(&root).as_str(), &root["truncated"]["total"]), ("b d", &3.into()));
}

#[test]
fn denied_entries_are_flagged_and_denied_folders_are_not_opened() {
    let test = TestJail::with(TestJailOptions {
        deny: &["**/.env", "**/secrets/**", "private"],
        ..TestJailOptions::default()
    });
    for name in [".env", "a", "secrets/key", "secrets/deep/key", "private/x"] {
        test.write(name, "12");
    }
    let root = tree(&test, json!({}));
    // Like list-folder: `secrets` itself can be listed, its content is denied.
    assert_eq!(drawn(&root), ".env! a private! secrets(deep! key!)");
    assert_eq!((&root["children"][0]["size"], &root["children"][0]["mtime"]), (&0.into(), &0.into()));
    assert!(root["children"][1].get("non_accessible").is_none());
    for denied in ["private", "secrets/deep"] {
        assert_eq!(test.run::<Tree>(json!({ "path": denied })).unwrap_err().code, Code::NotFound);
        assert_eq!(test.run::<ListFolder>(json!({ "path": denied })).unwrap_err().code, Code::NotFound);
    }
}

#[test]
fn hidden_entries_are_not_even_counted() {
    let test = TestJail::with(TestJailOptions { list_denied: DeniedInListings::Hide, ..TestJailOptions::default() });
    [".env", "a", "b", "secrets/key"].iter().for_each(|name| test.write(name, ""));
    assert_eq!(drawn(&tree(&test, json!({}))), "a b secrets()");
    assert_eq!(tree(&test, json!({"per_folder_limit": 1}))["truncated"]["total"], 3);
}

#[test]
fn private_state_is_never_shown() {
    let test = TestJail::new();
    test.write(".stockade/1/journal", "");
    test.write("sub/.stockade/mine", "");
    assert_eq!(drawn(&tree(&test, json!({}))), "sub(.stockade(mine))");
}

#[test]
fn names_that_are_not_utf8_can_be_used_back() {
    let test = TestJail::new();
    std::fs::create_dir_all(test.raw(b"d\xff/e\xfe")).unwrap();
    std::fs::write(test.raw(b"d\xff/e\xfe/f\xfd"), "").unwrap();
    let root = tree(&test, json!({"max_depth": 2}));
    let (d, e) = (&root["children"][0], &root["children"][0]["children"][0]);
    assert_eq!((&d["name"], &d["name_bytes"]), (&"d\u{fffd}".into(), &"ZP8=".into()));
    assert_eq!(e["name_bytes"], "Zf4=");
    let hint = e["truncated"]["hint"].as_str().unwrap();
    assert!(hint.contains("{\"path_bytes\":\"ZP8vZf4=\"}"), "{hint}");
    let below = test.run::<Tree>(json!({"path_bytes": "ZP8vZf4="})).unwrap();
    assert_eq!(below["root"]["name_bytes"], "Zf4=");
    assert_eq!(below["root"]["children"][0]["name_bytes"], "Zv0=");
    assert!(below["path_bytes"].is_string());
}

#[test]
fn what_cannot_be_shown_says_why() {
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
        (json!({"max_depth": -1}), Code::BadInput, "max_depth"),
    ];
    for (request, code, text) in cases {
        let error = test.run::<Tree>(request.clone()).unwrap_err();
        assert_eq!(error.code, code, "{request}: {error}");
        assert!(error.message.contains(text), "{request}: {error}");
    }
}

#[test]
fn base_dir_is_where_relative_paths_begin() {
    let test = TestJail::new();
    test.write("sub/d/x/y", "");
    let root = tree(&test, json!({"path": "d", "base_dir": "sub", "max_depth": 1}));
    assert_eq!(drawn(&root), "x[max_depth]");
    let hint = root["children"][0]["truncated"]["hint"].as_str().unwrap();
    assert!(hint.contains("{\"path\":\"d/x\"}"), "{hint}");
}

#[test]
fn mount_points_are_flagged_and_not_looked_at() {
    let test = TestJail::with(TestJailOptions { root_folder: Some("/"), ..TestJailOptions::default() });
    let root = tree(&test, json!({"path": "/", "max_depth": 1}));
    assert_eq!(root["name"], ".");
    let proc = root["children"].as_array().unwrap().iter().find(|child| child["name"] == "proc").unwrap();
    assert_eq!(*proc, json!({"name": "proc", "kind": "dir", "size": 0, "mtime": 0, "mount_point": true}));
}

#[test]
fn a_folder_that_may_not_be_read_is_said_to_be_so_and_the_others_are_shown() {
    let test = TestJail::new();
    test.write("closed/x", "");
    test.write("open/x", "");
    test.set_mode("closed", 0o311);
    test.obey_permissions();
    let root = tree(&test, json!({}));
    assert_eq!(drawn(&root), "closed[io_error] open(x)");
    let truncated = &root["children"][0]["truncated"];
    assert_eq!(truncated["shown"], 0);
    let hint = truncated["hint"].as_str().unwrap();
    assert!(hint.starts_with("closed: ") && hint.to_lowercase().contains("permission denied"), "{hint}");
    let error = test.run::<Tree>(json!({"path": "closed"})).unwrap_err();
    assert_eq!(error.code, Code::Io, "who names it hears it as with list-folder");
    test.set_mode("closed", 0o755);
}

#[test]
fn the_walk_by_hand_shows_the_same_tree() {
    let [kernel, by_hand] = [Resolver::Openat2, Resolver::Stepwise].map(|resolver| {
        let test = TestJail::with(TestJailOptions { resolver, ..TestJailOptions::default() });
        test.write("a/b/c/d", "");
        test.write("a/secrets/key", "");
        test.write("target/x", "");
        symlink("a", test.path("link")).unwrap();
        drawn(&tree(&test, json!({"max_depth": 9})))
    });
    assert_eq!(kernel, "a(b(c(d)) secrets(key!)) link target[default_exclude]");
    assert_eq!(by_hand, kernel);
}

#[test]
fn a_passed_deadline_ends_the_walk() {
    let test = TestJail::new();
    test.write("a", "");
    let error = test.run_in::<Tree>(&mut test.expired_call(), json!({})).unwrap_err();
    assert_eq!(error.code, Code::Deadline);
}

#[test]
fn the_question_is_known_up_front_unless_the_path_is_refused() {
    let test = TestJail::new();
    let questions = |path: &str| {
        let request = TreeRequest { path: Some(path.to_owned()), ..TreeRequest::default() };
        Tree::questions(&test.jail, &request)
    };
    assert_eq!(questions("./a//b"), [Question { root: 0, path: b"a/b".to_vec(), intent: Intent::Read }]);
    assert!(questions("../a").is_empty() && questions("secrets/x").is_empty());
}
