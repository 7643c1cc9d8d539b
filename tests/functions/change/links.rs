//! Links: refused for content, acted on as themselves by delete and move, followed where the root says so.

use std::{fs, os::unix::fs::symlink};

use super::*;

const BENEATH: &str = "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n";

/// Links of every kind: to a file, a folder, out, and to nowhere.
fn plant(jail: &TestJail) {
    jail.write("file", "inside");
    jail.write("folder/f", "inside");
    symlink("file", jail.root.join("to-file")).unwrap();
    symlink("folder", jail.root.join("to-folder")).unwrap();
    symlink("../outside/secret.txt", jail.root.join("out")).unwrap();
    symlink("../outside/made", jail.root.join("dangling-out")).unwrap();
    symlink("made", jail.root.join("dangling")).unwrap();
}

#[test]
fn nothing_is_created_or_replaced_through_a_link() {
    let jail = jail();
    plant(&jail);
    for name in ["to-file", "out", "dangling", "dangling-out", "to-folder/new", "to-folder/f"] {
        for overwrite in [false, true] {
            let entry = json!({"path": name, "content": "x", "overwrite": overwrite});
            changes_nothing(&jail, || assert_refused(&create(&jail, entry), "C215"));
        }
    }
    changes_nothing(&jail, || {
        for name in ["to-folder", "dangling", "to-folder/new"] {
            assert_refused(&one(jail.call(MKDIR, json!({"paths": [name]}))), "C215");
        }
    });
}

#[test]
fn delete_removes_the_link_and_never_what_it_points_to() {
    for policy in [None, Some(BENEATH.to_owned())] {
        let jail = TestJail::with(Options { policy, in_memory: true, ..Options::default() });
        plant(&jail);
        for name in ["to-file", "to-folder", "out", "dangling", "dangling-out"] {
            for recursive in [true, false] {
                let result = one(jail.call(DELETE, json!({"paths": [name], "recursive": recursive})));
                assert_success(&result);
                assert_eq!(result["removed"], json!(recursive), "{name}");
            }
        }
        assert_eq!(everything(&jail.root).keys().collect::<Vec<_>>(), ["file", "folder", "folder/f"]);
        jail.assert_intact();
    }
}

#[test]
fn move_moves_the_link_itself() {
    for policy in [None, Some(BENEATH.to_owned())] {
        let jail = TestJail::with(Options { policy, in_memory: true, ..Options::default() });
        plant(&jail);
        for name in ["to-file", "out", "dangling"] {
            let to = format!("{name}-moved");
            let result = relocate(&jail, MOVE, json!({"from": name, "to": to}));
            assert_success(&result);
            assert_eq!(result.get("etag"), None, "a link has no content of its own");
            assert!(fs::symlink_metadata(jail.root.join(to)).unwrap().is_symlink());
        }
        assert_eq!(read(&jail, "file"), "inside");
        jail.assert_intact();
    }
}

#[test]
fn a_link_at_the_destination_is_replaced_itself() {
    for policy in [None, Some(BENEATH.to_owned())] {
        let jail = TestJail::with(Options { policy, in_memory: true, ..Options::default() });
        plant(&jail);
        jail.write("new", "new");
        changes_nothing(&jail, || assert_refused(&relocate(&jail, MOVE, json!({"from": "new", "to": "out"})), "C217"));
        assert_success(&relocate(&jail, MOVE, json!({"from": "new", "to": "out", "overwrite": true})));
        assert_eq!(everything(&jail.root)["out"], "new");
        jail.assert_intact();
    }
}

#[test]
fn links_are_not_copied_where_links_are_refused() {
    let jail = jail();
    plant(&jail);
    jail.write("d/f", "x");
    symlink("f", jail.root.join("d/link")).unwrap();
    changes_nothing(&jail, || {
        assert_refused(&relocate(&jail, COPY, json!({"from": "to-file", "to": "x"})), "C215");
        assert_refused(&relocate(&jail, COPY, json!({"from": "d", "to": "x", "recursive": true})), "C215");
        assert_refused(&relocate(&jail, COPY, json!({"from": "file", "to": "out", "overwrite": true})), "C215");
    });
}

#[test]
fn links_are_copied_as_links_where_the_root_follows_them() {
    let jail = jail_with(BENEATH);
    plant(&jail);
    jail.write("d/f", "x");
    symlink("f", jail.root.join("d/link")).unwrap();
    symlink("../../outside/secret.txt", jail.root.join("d/out")).unwrap();
    for from in ["to-file", "out", "dangling"] {
        assert_success(&relocate(&jail, COPY, json!({"from": from, "to": format!("{from}-copy")})));
    }
    assert_success(&relocate(&jail, COPY, json!({"from": "d", "to": "e", "recursive": true})));
    let all = everything(&jail.root);
    assert_eq!((&*all["to-file-copy"], &*all["out-copy"]), ("-> file", "-> ../outside/secret.txt"));
    assert_eq!((&*all["e/link"], &*all["e/out"]), ("-> f", "-> ../../outside/secret.txt"));
    jail.assert_intact();
}

#[test]
fn where_links_are_followed_content_goes_behind_them_and_nothing_behind_a_dangling_one() {
    let jail = jail_with(BENEATH);
    plant(&jail);
    changes_nothing(&jail, || {
        assert_refused(&create(&jail, json!({"path": "to-file", "content": "x"})), "C217");
        assert_refused(&create(&jail, json!({"path": "dangling", "content": "x", "overwrite": true})), "C215");
        for name in ["out", "dangling-out"] {
            assert_refused(&create(&jail, json!({"path": name, "content": "x", "overwrite": true})), "C215");
        }
    });
    assert_success(&create(&jail, json!({"path": "to-file", "content": "new", "overwrite": true})));
    assert_success(&create(&jail, json!({"path": "to-folder/g", "content": "new"})));
    let all = everything(&jail.root);
    assert_eq!((&*all["to-file"], &*all["file"], &*all["folder/g"]), ("-> file", "new", "new"));
    jail.assert_intact();
}

#[test]
fn denied_names_behind_links_are_denied() {
    let jail = jail_with(BENEATH);
    jail.write("secrets/key", "hidden");
    jail.write(".env", "hidden");
    jail.write("f", "x");
    symlink("secrets", jail.root.join("innocent")).unwrap();
    symlink(".env", jail.root.join("harmless")).unwrap();
    changes_nothing(&jail, || {
        for name in ["innocent/key", "innocent/new"] {
            assert_refused(&create(&jail, json!({"path": name, "content": "x", "overwrite": true})), "C211");
            assert_refused(&delete(&jail, name), "C211");
            assert_refused(&relocate(&jail, MOVE, json!({"from": "f", "to": name, "overwrite": true})), "C211");
        }
        assert_refused(&create(&jail, json!({"path": "harmless", "content": "x", "overwrite": true})), "C211");
    });
}
