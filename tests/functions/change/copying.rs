//! `coder::copy`.

use std::fs;

use super::*;

fn cp(jail: &TestJail, entry: Value) -> Value {
    relocate(jail, COPY, entry)
}

#[test]
fn a_file_is_copied_with_its_mode_into_a_file_of_its_own() {
    let jail = jail();
    set_mode(&jail.write("a", "content"), 0o751);
    let result = cp(&jail, json!({"from": "a", "to": "new/b"}));
    assert_success(&result);
    assert_eq!((&result["copied"], &result["bytes"]), (&json!(true), &json!(7)));
    assert_eq!((read(&jail, "new/b").as_str(), mode(&jail, "new/b")), ("content", 0o751));
    assert_ne!(ino(&jail, "a"), ino(&jail, "new/b"));
    let stat = jail.call("coder::stat", json!({"paths": ["a"], "etag": true})).unwrap();
    assert_eq!(result["etag"], stat["results"][0]["etag"]);
}

#[test]
fn a_folder_needs_recursive_and_is_copied_whole() {
    let jail = jail();
    jail.write("d/deep/f", "x");
    jail.write("d/g", "yy");
    set_mode(&jail.root.join("d/deep"), 0o750);
    fs::create_dir(jail.root.join("d/empty")).unwrap();
    changes_nothing(&jail, || assert_refused(&cp(&jail, json!({"from": "d", "to": "e"})), "C210"));
    let result = cp(&jail, json!({"from": "d", "to": "new/e", "recursive": true}));
    assert_success(&result);
    assert_eq!((&result["bytes"], result.get("etag")), (&json!(3), None));
    let below = |folder: &str| {
        let all = everything(&jail.root.join(folder));
        assert!(!all.is_empty());
        all
    };
    assert_eq!(below("d"), below("new/e"));
    assert_eq!(mode(&jail, "new/e/deep"), 0o750);
}

#[test]
fn nothing_is_copied_onto_or_into_itself() {
    let jail = jail();
    jail.write("d/f", "x");
    jail.write("f", "x");
    for (from, to) in [("f", "f"), ("f", "./f"), ("d", "d"), ("d", "d/x"), ("d", "d/new/x"), (".", "d/x")] {
        let entry = json!({"from": from, "to": to, "recursive": true, "overwrite": true});
        changes_nothing(&jail, || assert_refused(&cp(&jail, entry), "C210"));
    }
}

#[test]
fn an_existing_destination_is_refused_unless_overwrite_and_keeps_nothing_of_its_content() {
    let jail = jail();
    set_mode(&jail.write("a", "new"), 0o644);
    set_mode(&jail.write("b", "old and longer"), 0o600);
    fs::hard_link(jail.root.join("b"), jail.root.join("other-name-of-b")).unwrap();
    changes_nothing(&jail, || assert_refused(&cp(&jail, json!({"from": "a", "to": "b"})), "C217"));
    assert_success(&cp(&jail, json!({"from": "a", "to": "b", "overwrite": true})));
    assert_eq!((read(&jail, "b").as_str(), mode(&jail, "b")), ("new", 0o644));
    assert_eq!(read(&jail, "other-name-of-b"), "old and longer", "no inode is written through");
}

#[test]
fn folders_and_files_do_not_take_each_others_place() {
    let jail = jail();
    jail.write("d/f", "x");
    jail.write("full/g", "x");
    jail.write("f", "x");
    fs::create_dir(jail.root.join("empty")).unwrap();
    changes_nothing(&jail, || {
        let over = |from: &str, to: &str| json!({"from": from, "to": to, "overwrite": true, "recursive": true});
        assert!(assert_refused(&cp(&jail, over("f", "d")), "C210").contains("destination is a directory"));
        assert_refused(&cp(&jail, over("d", "f")), "C210");
        assert_refused(&cp(&jail, over("d", "full")), "C210");
    });
    assert_success(&cp(&jail, json!({"from": "d", "to": "empty", "overwrite": true, "recursive": true})));
    assert_eq!(read(&jail, "empty/f"), "x");
}

#[test]
fn a_folder_with_denied_entries_is_refused_and_leaves_nothing() {
    let jail = jail();
    jail.write("d/a", "x");
    jail.write("d/z/.env", "hidden");
    let entry = json!({"from": "d", "to": "e", "recursive": true});
    let text = changes_nothing(&jail, || assert_refused(&cp(&jail, entry), "C211"));
    assert!(!text.contains(".env"), "{text}");
}

#[test]
fn a_missing_parent_with_parents_false_is_missing() {
    let jail = jail();
    jail.write("f", "x");
    let entry = json!({"from": "f", "to": "no/folder", "parents": false});
    changes_nothing(&jail, || assert_refused(&cp(&jail, entry), "C211"));
}

#[test]
fn a_file_above_max_write_bytes_is_not_copied_alone_nor_in_a_folder() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n[limits]\nmax_write_bytes = 5\n");
    jail.write("d/six", "123456");
    jail.write("d/one", "1");
    changes_nothing(&jail, || {
        assert_refused(&cp(&jail, json!({"from": "d/six", "to": "x"})), "C213");
        assert_refused(&cp(&jail, json!({"from": "d", "to": "x", "recursive": true})), "C213");
    });
}

#[test]
fn special_files_are_not_copied() {
    let jail = jail();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    fs::create_dir(jail.root.join("d")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, jail.root.join("d/fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    changes_nothing(&jail, || {
        assert_refused(&cp(&jail, json!({"from": "d/fifo", "to": "x"})), "C210");
        assert_refused(&cp(&jail, json!({"from": "d", "to": "x", "recursive": true})), "C210");
    });
}

#[test]
fn a_copy_may_go_to_another_root_and_come_from_a_read_only_one() {
    let policy = "[[root]]\npath = \"ROOT/one\"\nmode = \"ro\"\n[[root]]\npath = \"ROOT/two\"\n";
    let options = Options { policy: Some(policy.into()), in_memory: true, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir_all(root.join("one/d")).unwrap();
        fs::create_dir_all(root.join("two")).unwrap();
        fs::write(root.join("one/d/f"), "x").unwrap();
    });
    let two = jail.root.join("two");
    let to = |name: &str| two.join(name).to_str().unwrap().to_owned();
    assert_success(&cp(&jail, json!({"from": "d", "to": to("d"), "recursive": true})));
    assert_success(&cp(&jail, json!({"from": "d/f", "to": to("f")})));
    assert_eq!((read(&jail, "two/d/f").as_str(), read(&jail, "two/f").as_str()), ("x", "x"));
    assert_refused(&cp(&jail, json!({"from": to("f"), "to": "back"})), "C221");
    assert_refused(&relocate(&jail, MOVE, json!({"from": "d/f", "to": to("moved")})), "C221");
}

/// What is built elsewhere does not get the group that the folder hands down.
#[test]
fn a_copy_into_a_folder_that_hands_its_group_down_gets_it() {
    let jail = jail();
    jail.write("d/sub/f", "x");
    fs::create_dir(jail.root.join("shared")).unwrap();
    set_mode(&jail.root.join("shared"), 0o2775);
    assert_success(&cp(&jail, json!({"from": "d", "to": "shared/d", "recursive": true})));
    assert_eq!((mode(&jail, "shared/d"), mode(&jail, "shared/d/sub")), (0o2755, 0o2755));
    assert_eq!(everything(&jail.root.join("shared")).len(), 3, "and no name of ours is left");
}
