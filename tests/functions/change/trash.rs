//! `trash` of delete-file, and `coder::restore`.

use std::{fs, time::SystemTime};

use super::*;

fn discard(jail: &TestJail, path: &str) -> String {
    let result = one(jail.call(DELETE, json!({"paths": [path], "recursive": true, "trash": true})));
    assert_success(&result);
    assert_eq!(result["removed"], json!(true));
    result["trash_id"].as_str().unwrap().to_owned()
}

fn list(jail: &TestJail, params: Value) -> Vec<Value> {
    let mut all = json!({"list": true});
    all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
    jail.call(RESTORE, all).unwrap()["entries"].as_array().unwrap().clone()
}

fn restore(jail: &TestJail, id: &str, overwrite: bool) -> Value {
    one(jail.call(RESTORE, json!({"ids": [id], "overwrite": overwrite})))
}

#[test]
fn what_goes_into_the_trash_comes_back_as_it_was() {
    let jail = jail();
    set_mode(&jail.write("d/f", "content"), 0o640);
    jail.write("d/deep/g", "more");
    std::os::unix::fs::symlink("/nowhere", jail.root.join("link")).unwrap();
    let before = everything(&jail.root);
    let inode = ino(&jail, "d/f");
    let ids = ["d/f", "d", "link"].map(|name| discard(&jail, name));
    assert!(everything(&jail.root).is_empty());
    for id in [&ids[1], &ids[0], &ids[2]] {
        let result = restore(&jail, id, false);
        assert_success(&result);
    }
    assert_eq!(everything(&jail.root), before);
    assert_eq!((ino(&jail, "d/f"), mode(&jail, "d/f")), (inode, 0o640));
    assert!(list(&jail, json!({})).is_empty());
}

#[test]
fn the_list_says_what_was_deleted_where_and_when_the_newest_first() {
    let jail = jail();
    jail.write("a", "12345");
    jail.write("d/b", "1234567");
    jail.write("d/c", "1");
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let before = now();
    let (first, second) = (discard(&jail, "a"), discard(&jail, "d"));
    let entries = list(&jail, json!({}));
    let facts: Vec<_> =
        entries.iter().map(|entry| (&entry["id"], &entry["kind"], &entry["size"], &entry["path"])).collect();
    let path = |name: &str| json!(jail.root.join(name).to_str().unwrap());
    assert_eq!(
        facts,
        [
            (&json!(second), &json!("dir"), &json!(8), &path("d")),
            (&json!(first), &json!("file"), &json!(5), &path("a")),
        ]
    );
    assert!((before..=now()).contains(&entries[0]["deleted_at"].as_i64().unwrap()));
}

#[test]
fn the_list_can_be_limited_to_a_path() {
    let jail = jail();
    ["a", "d/b", "dd"].iter().for_each(|name| drop(jail.write(name, "")));
    ["a", "d/b", "dd"].iter().for_each(|name| drop(discard(&jail, name)));
    let names = |params: Value| list(&jail, params).len();
    assert_eq!(
        [json!({}), json!({"path": "d"}), json!({"path": "d/b"}), json!({"path": "x"}), json!({"path": "."})]
            .map(names),
        [3, 1, 1, 0, 3]
    );
    assert_eq!(names(json!({"path": "b", "base_dir": "d"})), 1);
}

#[test]
fn an_existing_target_is_refused_unless_overwrite() {
    let jail = jail();
    jail.write("f", "old");
    let id = discard(&jail, "f");
    jail.write("f", "new");
    let text = changes_nothing(&jail, || assert_refused(&restore(&jail, &id, false), "C217"));
    assert!(text.contains("already exists; pass overwrite=true"), "{text}");
    assert_success(&restore(&jail, &id, true));
    assert_eq!(read(&jail, "f"), "old");
    assert!(list(&jail, json!({})).is_empty(), "what was replaced is gone");
}

#[test]
fn folders_that_are_gone_are_made_again_and_kinds_do_not_mix() {
    let jail = jail();
    jail.write("a/b/f", "x");
    let file = discard(&jail, "a/b/f");
    fs::remove_dir_all(jail.root.join("a")).unwrap();
    assert_success(&restore(&jail, &file, false));
    let file = discard(&jail, "a/b/f");
    jail.write("a/b/f/now", "a folder");
    changes_nothing(&jail, || assert_refused(&restore(&jail, &file, true), "C210"));
    fs::remove_dir_all(jail.root.join("a/b/f")).unwrap();
    jail.write("d/f", "x");
    let folder = discard(&jail, "d");
    jail.write("d/g", "not empty");
    changes_nothing(&jail, || assert_refused(&restore(&jail, &folder, true), "C210"));
    assert_success(&restore(&jail, &file, false));
}

#[test]
fn an_unknown_id_is_missing_and_each_id_fails_alone() {
    let jail = jail();
    jail.write("f", "x");
    let id = discard(&jail, "f");
    let results = results(jail.call(RESTORE, json!({"ids": ["nonsense", id, id, "../../../outside", ""]})));
    let codes: Vec<_> = results.iter().map(|result| result["error"]["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes, ["C211", "ok", "C211", "C211", "C211"]);
    jail.assert_intact();
}

#[test]
fn list_and_ids_exclude_each_other_and_one_is_needed() {
    let jail = jail();
    for params in [json!({}), json!({"list": true, "ids": ["x"]}), json!({"list": false}), json!({"ids": []})] {
        assert_eq!(jail.call(RESTORE, params).expect_err("refused").code(), "C210");
    }
}

#[test]
fn denied_names_do_not_go_there() {
    let jail = jail();
    jail.write("d/.env", "hidden");
    changes_nothing(&jail, || {
        for path in ["d", "d/.env", "."] {
            let result = one(jail.call(DELETE, json!({"paths": [path], "recursive": true, "trash": true})));
            assert_eq!(result["success"], json!(false), "{result}");
        }
    });
    assert!(list(&jail, json!({})).is_empty());
}

#[test]
fn a_folder_that_is_not_empty_needs_recursive_here_too() {
    let jail = jail();
    jail.write("d/f", "x");
    let result = changes_nothing(&jail, || one(jail.call(DELETE, json!({"paths": ["d"], "trash": true}))));
    assert_refused(&result, "C216");
}

#[test]
fn a_delete_that_does_not_say_follows_the_policy() {
    for (default, expected) in [("true", 1), ("false", 0)] {
        let jail = jail_with(&format!("[[root]]\npath = \"ROOT\"\n[trash]\ndefault = {default}\n"));
        jail.write("f", "x");
        let result = delete(&jail, "f");
        assert_eq!(result.get("trash_id").is_some(), expected == 1);
        assert_eq!(list(&jail, json!({})).len(), expected);
        jail.write("g", "x");
        let asked = one(jail.call(DELETE, json!({"paths": ["g"], "trash": false})));
        assert_eq!(asked.get("trash_id"), None, "what the call says comes first");
        let info = jail.call("coder::info", json!({})).unwrap();
        assert_eq!(info["trash"]["default"], json!(default == "true"));
    }
}

#[test]
fn a_policy_without_trash_refuses_it() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n[trash]\nenabled = false\n");
    jail.write("f", "x");
    let result = changes_nothing(&jail, || one(jail.call(DELETE, json!({"paths": ["f"], "trash": true}))));
    assert_refused(&result, "C210");
    assert_eq!(delete(&jail, "f")["removed"], json!(true));
}

#[test]
fn the_oldest_is_dropped_first_and_what_is_too_large_is_refused() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n[trash]\nmax_bytes = 10\n");
    let ids: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            jail.write(name, "1234");
            discard(&jail, name)
        })
        .collect();
    let kept: Vec<Value> = list(&jail, json!({})).iter().map(|entry| entry["id"].clone()).collect();
    assert_eq!(kept, [json!(ids[2]), json!(ids[1])]);
    jail.write("big", "12345678901");
    let result = changes_nothing(&jail, || one(jail.call(DELETE, json!({"paths": ["big"], "trash": true}))));
    assert!(assert_refused(&result, "C213").contains("big: 11 bytes"));
    assert_eq!(list(&jail, json!({})).len(), 2);
}

#[test]
fn an_atomic_delete_that_fails_leaves_nothing_in_the_trash() {
    let jail = jail();
    jail.write("a", "x");
    jail.write("d/.env", "x");
    let params = json!({"paths": ["a", "d"], "recursive": true, "trash": true, "atomic": true});
    let results = changes_nothing(&jail, || results(jail.call(DELETE, params)));
    assert!(results.iter().all(|result| result["success"] == json!(false) && result.get("trash_id").is_none()));
    assert!(list(&jail, json!({})).is_empty());
    let params = json!({"paths": ["a", "d/../a2", "b"], "trash": true, "atomic": true});
    let ids: Vec<_> = super::results(jail.call(DELETE, params));
    assert_eq!((ids[0].get("trash_id").is_some(), &ids[1]["removed"]), (true, &json!(false)));
    assert_eq!(list(&jail, json!({})).len(), 1);
}

/// A trash that a repository brought along: its entries do not know themselves.
#[test]
fn planted_entries_are_not_restored() {
    let jail = jail();
    jail.write("f", "x");
    let id = discard(&jail, "f");
    let trash = state::folder(&jail.root).join("trash");
    let planted = id.replace(&id[id.len() - 32..], "0123456789abcdef0123456789abcdef");
    fs::create_dir(trash.join(&planted)).unwrap();
    set_mode(&trash.join(&planted), 0o700);
    fs::copy(trash.join(&id).join("about"), trash.join(&planted).join("about")).unwrap();
    fs::write(trash.join(&planted).join("item"), "evil").unwrap();
    assert_eq!(list(&jail, json!({})).len(), 1);
    assert_refused(&restore(&jail, &planted, true), "C211");
}

#[test]
fn a_read_only_root_has_no_trash() {
    let jail = TestJail::with(Options { suffix: ":ro", in_memory: true, ..Options::default() });
    jail.write("f", "x");
    let result = one(jail.call(DELETE, json!({"paths": ["f"], "trash": true})));
    assert_refused(&result, "C221");
    assert!(list(&jail, json!({})).is_empty());
}

/// A call that is kept to a folder neither sees nor restores what lay elsewhere.
#[test]
fn base_dir_holds_for_the_trash_as_well() {
    let jail = jail();
    jail.write("mine/f", "mine");
    jail.write("theirs/g", "theirs");
    let (mine, theirs) = (discard(&jail, "mine/f"), discard(&jail, "theirs/g"));
    let ids = |entries: Vec<Value>| -> Vec<Value> { entries.iter().map(|entry| entry["id"].clone()).collect() };
    assert_eq!(ids(list(&jail, json!({"base_dir": "mine"}))), [json!(mine)]);
    assert_eq!(ids(list(&jail, json!({"base_dir": "theirs", "path": "g"}))), [json!(theirs)]);
    assert_eq!(list(&jail, json!({})).len(), 2);
    let params = json!({"ids": [theirs, mine], "base_dir": "mine"});
    let done = results(jail.call(RESTORE, params));
    let text = assert_refused(&done[0], "C218");
    assert!(text.contains("inside an allowed root") && text.contains("base_dir mine"), "{text}");
    assert!(!text.contains("theirs/g"), "a path that the caller did not send: {text}");
    assert_success(&done[1]);
    assert_eq!(read(&jail, "mine/f"), "mine");
    assert!(!jail.root.join("theirs/g").exists());
    let outside = one(jail.call(RESTORE, json!({"ids": [theirs], "base_dir": "/elsewhere"})));
    assert!(assert_refused(&outside, "C215").contains("base_dir is outside every allowed root"));
    assert_success(&one(jail.call(RESTORE, json!({"ids": [theirs], "base_dir": "."}))));
}
