//! Deny globs hold however a name comes about: by moving, copying or restoring a folder, and through links.

use std::os::unix::fs::symlink;

use super::*;

const GIT: &str = "[[root]]\npath = \"ROOT\"\n[deny]\nnon_accessible_globs = [\"**/.git/config\", \"**/secrets/**\"]\n[protect]\nread_only_globs = []\n";
const GIT_BENEATH: &str = "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n[deny]\n\
                           non_accessible_globs = [\"**/.git/config\", \"**/secrets/**\"]\n[protect]\nread_only_globs = []\n";

fn git() -> TestJail {
    jail_with(GIT)
}

/// `x/config` lies there and may; `sub/.git/config` may not be created.
fn plant(jail: &TestJail) {
    jail.write("x/config", "evil");
    jail.write("x/deep/other", "fine");
    fs::create_dir(jail.root.join("sub")).unwrap();
    assert_refused(&create(jail, json!({"path": "sub/.git/config", "content": "x"})), "C211");
}

#[test]
fn a_folder_cannot_be_moved_or_copied_to_where_an_entry_of_it_is_denied() {
    let jail = git();
    plant(&jail);
    for function in [MOVE, COPY] {
        for atomic in [false, true] {
            for (from, to) in [("x", "sub/.git"), ("x", "SUB/.GIT"), ("x", "new/.git")] {
                let entry = json!({"files": [{"from": from, "to": to}], "atomic": atomic});
                let entry = with_recursive(entry, function);
                let text = changes_nothing(&jail, || assert_refused(&one(jail.call(function, entry)), "C211"));
                assert!(text.contains("x: holds entries") && text.contains(to), "{text}");
            }
        }
    }
    // Deeper down, too.
    jail.write("y/.git2/config", "fine");
    jail.write("y/.git2/deep/.git", "a file of that name");
    assert_success(&relocate(&jail, MOVE, json!({"from": "y/.git2", "to": "y/z"})));
    fs::create_dir_all(jail.root.join("w/a")).unwrap();
    jail.write("w/a/config", "evil");
    let entry = json!({"from": "w/a", "to": "w/.git"});
    assert_refused(&relocate(&jail, MOVE, entry), "C211");
}

fn with_recursive(mut request: Value, function: &str) -> Value {
    if function == COPY {
        request["files"][0]["recursive"] = json!(true);
    }
    request
}

#[test]
fn a_folder_all_of_which_is_denied_is_no_destination() {
    let jail = git();
    jail.write("x/f", "x");
    jail.write("f", "x");
    fs::create_dir(jail.root.join("empty")).unwrap();
    for function in [MOVE, COPY] {
        for (from, overwrite) in [("x", false), ("empty", false), ("f", false), ("x", true)] {
            let request = json!({"files": [{"from": from, "to": "sub/secrets", "overwrite": overwrite}]});
            let request = with_recursive(request, function);
            changes_nothing(&jail, || assert_refused(&one(jail.call(function, request)), "C211"));
        }
    }
}

#[test]
fn what_is_denied_by_now_does_not_come_back_from_the_trash() {
    let mut jail =
        jail_with("[[root]]\npath = \"ROOT\"\n[deny]\nnon_accessible_globs = []\n[protect]\nread_only_globs = []\n");
    jail.write("d/.git/config", "evil");
    jail.write("d/fine", "fine");
    jail.write("secrets/f", "x");
    let discard = |path: &str| {
        let result = one(jail.call(DELETE, json!({"paths": [path], "recursive": true, "trash": true})));
        result["trash_id"].as_str().unwrap().to_owned()
    };
    let ids = [discard("d"), discard("secrets")];
    jail.restart(&Options { policy: Some(GIT.into()), ..Options::default() });
    for id in &ids {
        let restored = || one(jail.call(RESTORE, json!({"ids": [id]})));
        changes_nothing(&jail, || assert_refused(&restored(), "C211"));
    }
    jail.restart(&Options {
        policy: Some(
            "[[root]]\npath = \"ROOT\"\n[deny]\nnon_accessible_globs = []\n[protect]\nread_only_globs = []\n".into(),
        ),
        ..Options::default()
    });
    assert_success(&one(jail.call(RESTORE, json!({"ids": [ids[0]]}))));
    assert_eq!(read(&jail, "d/.git/config"), "evil", "nothing of it was lost");
}

#[test]
fn whether_a_folder_may_be_moved_or_deleted_is_asked_of_its_real_path() {
    let jail = jail_with(GIT_BENEATH);
    jail.write("vault/secrets/key", "hidden");
    jail.write("plain/f", "x");
    symlink("vault", jail.root.join("innocent")).unwrap();
    changes_nothing(&jail, || {
        assert_refused(&delete_tree(&jail, "innocent/secrets"), "C211");
        for function in [MOVE, COPY] {
            let away = json!({"files": [{"from": "innocent/secrets", "to": "open"}]});
            assert_refused(&one(jail.call(function, with_recursive(away, function))), "C211");
            let there = json!({"files": [{"from": "plain", "to": "innocent/new/secrets"}]});
            assert_refused(&one(jail.call(function, with_recursive(there, function))), "C211");
        }
    });
}

#[test]
fn new_names_are_tested_where_a_link_leads() {
    let jail = jail_with(GIT_BENEATH);
    jail.write("x/config", "evil");
    fs::create_dir_all(jail.root.join("repo/.git")).unwrap();
    symlink("repo/.git", jail.root.join("meta")).unwrap();
    fs::create_dir(jail.root.join("repo/.git/hooks")).unwrap();
    jail.write("y/.git/ok", "fine");
    for function in [MOVE, COPY] {
        let onto = json!({"files": [{"from": "x", "to": "meta/../meta"}]});
        changes_nothing(&jail, || {
            assert_eq!(one(jail.call(function, with_recursive(onto, function)))["success"], json!(false));
        });
        let below = json!({"files": [{"from": "x/config", "to": "meta/config"}]});
        changes_nothing(&jail, || assert_refused(&one(jail.call(function, below)), "C211"));
    }
}
