//! `atomic: true`: all entries or none.

use std::fs;

use super::*;

/// All entries failed: the one that is to blame with its own code, the others with C216 that names it.
#[track_caller]
fn assert_rolled_back(results: &[Value], to_blame: usize, code: &str) {
    for (index, result) in results.iter().enumerate() {
        if index == to_blame {
            assert_refused(result, code);
        } else {
            let text = assert_refused(result, "C216");
            assert!(text.contains("rolled back") && text.contains(&format!("entry {to_blame}")), "{text}");
        }
    }
}

fn atomic(jail: &TestJail, function: &str, mut params: Value) -> Vec<Value> {
    params["atomic"] = json!(true);
    results(jail.call(function, params))
}

/// Everything there is to act on.
fn plant(jail: &TestJail) {
    jail.write("a", "a");
    jail.write("b", "b");
    jail.write("d/f", "f");
    jail.write("hidden/.env", "hidden");
    set_mode(&jail.root.join("a"), 0o640);
}

#[test]
fn all_entries_are_done_if_all_can_be() {
    let jail = jail();
    plant(&jail);
    let files = json!({"files": [
        {"path": "new/1", "content": "1"},
        {"path": "a", "content": "2", "overwrite": true},
        {"path": "new/deep/3", "content": "3", "mode": "0700"},
    ]});
    atomic(&jail, CREATE, files).iter().for_each(assert_success);
    assert_eq!(
        (read(&jail, "new/1"), read(&jail, "a"), read(&jail, "new/deep/3")),
        ("1".into(), "2".into(), "3".into())
    );
    assert_eq!((mode(&jail, "a"), mode(&jail, "new/deep/3"), mode(&jail, "new")), (0o640, 0o700, 0o755));
    let moves = json!({"files": [{"from": "a", "to": "moved/a"}, {"from": "d", "to": "moved/d"}, {"from": "new/1", "to": "b", "overwrite": true}]});
    atomic(&jail, MOVE, moves).iter().for_each(assert_success);
    assert_eq!(
        (read(&jail, "moved/a"), read(&jail, "moved/d/f"), read(&jail, "b")),
        ("2".into(), "f".into(), "1".into())
    );
    let copies = json!({"files": [{"from": "moved", "to": "copied", "recursive": true}, {"from": "b", "to": "moved/a", "overwrite": true}]});
    atomic(&jail, COPY, copies).iter().for_each(assert_success);
    assert_eq!((read(&jail, "copied/a"), read(&jail, "moved/a")), ("2".into(), "1".into()));
    atomic(&jail, MKDIR, json!({"paths": ["x/y", "x/z", "x", "copied"]})).iter().for_each(assert_success);
    atomic(&jail, DELETE, json!({"paths": ["x", "copied", "moved/d/f", "missing"], "recursive": true}))
        .iter()
        .for_each(assert_success);
    assert!(!jail.root.join("x").exists() && !jail.root.join("copied").exists());
    assert_eq!(fs::read_dir(jail.root.join("moved/d")).unwrap().count(), 0);
    jail.assert_intact();
}

/// One bad entry, wherever it stands, and nothing has changed: not a name, not a mode, not an inode.
#[test]
fn one_entry_that_cannot_be_done_undoes_all() {
    let jail = jail();
    plant(&jail);
    let bad = [
        (CREATE, json!({"path": "b", "content": "x"}), "C217"),
        (CREATE, json!({"path": ".env", "content": "x"}), "C211"),
        (CREATE, json!({"path": "x", "content": "x", "mode": "9"}), "C210"),
        (CREATE, json!({"path": "a/x", "content": "x"}), "C216"),
        (CREATE, json!({"path": "b", "content": "x", "overwrite": true, "if_match": "0"}), "C219"),
        (CREATE, json!(7), "C210"),
        (MOVE, json!({"from": "missing", "to": "x"}), "C211"),
        (MOVE, json!({"from": "hidden", "to": "x"}), "C211"),
        (MOVE, json!({"from": "b", "to": "hidden"}), "C210"),
        (COPY, json!({"from": "hidden", "to": "x", "recursive": true}), "C211"),
        (COPY, json!({"from": "b", "to": "../x"}), "C215"),
        (DELETE, json!({"path": "hidden"}), "C216"),
        (DELETE, json!("secrets"), "C211"),
        (MKDIR, json!("b"), "C217"),
    ];
    for (function, entry, code) in bad {
        let good = |n: usize| match function {
            CREATE => json!({"path": format!("new{n}/f"), "content": "x"}),
            MOVE => [json!({"from": "a", "to": "new/a"}), json!({"from": "d", "to": "new/d"})][n].clone(),
            COPY => json!({"from": "d", "to": format!("new{n}"), "recursive": true}),
            DELETE => [json!("a"), json!("d/f")][n].clone(),
            _ => json!(format!("new{n}/deep")),
        };
        let field = if [DELETE, MKDIR].contains(&function) { "paths" } else { "files" };
        for place in 0..3 {
            let mut entries = vec![good(0), good(1)];
            entries.insert(place, entry.clone());
            let inodes = ["a", "b", "d", "d/f"].map(|name| ino(&jail, name));
            let results = changes_nothing(&jail, || atomic(&jail, function, json!({ field: entries })));
            assert_rolled_back(&results, place, code);
            assert_eq!(["a", "b", "d", "d/f"].map(|name| ino(&jail, name)), inodes, "{function}");
        }
    }
}

/// A later entry sees what the earlier ones will have done, and fails before the first of them has happened.
#[test]
fn entries_that_stand_in_each_others_way_are_rolled_back() {
    let jail = jail();
    plant(&jail);
    changes_nothing(&jail, || {
        let twice = json!({"files": [{"path": "x", "content": "1"}, {"path": "x", "content": "2"}]});
        assert_rolled_back(&atomic(&jail, CREATE, twice), 1, "C217");
        let replaced_twice = json!({"files": [
            {"path": "a", "content": "1", "overwrite": true},
            {"path": "a", "content": "2", "overwrite": true},
        ]});
        let refused = atomic(&jail, CREATE, replaced_twice);
        assert_rolled_back(&refused, 1, "C210");
        let said = assert_refused(&refused[1], "C210");
        assert!(said.contains("an earlier entry") && said.contains("without atomic"), "{said}");
        let both_onto_one = json!({"files": [{"from": "a", "to": "x/y"}, {"from": "b", "to": "x/y"}]});
        assert_rolled_back(&atomic(&jail, MOVE, both_onto_one), 1, "C217");
        let moved_twice = json!({"files": [{"from": "a", "to": "x/y"}, {"from": "a", "to": "z"}]});
        assert_rolled_back(&atomic(&jail, MOVE, moved_twice), 1, "C211");
        let folder_made_and_moved = json!({"files": [{"from": "a", "to": "x/y"}, {"from": "x", "to": "z"}]});
        let refused = atomic(&jail, MOVE, folder_made_and_moved);
        assert_rolled_back(&refused, 1, "C210");
        let filled_and_moved = json!({"files": [{"from": "a", "to": "d/a"}, {"from": "d", "to": "e"}]});
        let refused = atomic(&jail, MOVE, filled_and_moved);
        assert_rolled_back(&refused, 1, "C210");
        let said = assert_refused(&refused[1], "C210");
        assert!(said.contains("reorder the two entries"), "{said}");
        let copied_twice = json!({"files": [{"from": "a", "to": "x"}, {"from": "b", "to": "x", "overwrite": true}]});
        assert_rolled_back(&atomic(&jail, COPY, copied_twice), 1, "C210");
        let parent_missing =
            json!({"files": [{"path": "n/a", "content": ""}, {"path": "m/b", "content": "", "parents": false}]});
        assert_rolled_back(&atomic(&jail, CREATE, parent_missing), 1, "C211");
        let file_as_folder = json!({"files": [{"path": "x", "content": ""}, {"path": "x/y", "content": ""}]});
        let results = atomic(&jail, CREATE, file_as_folder);
        assert!(results.iter().all(|result| result["success"] == json!(false)), "{results:?}");
    });
}

#[test]
fn a_later_entry_sees_what_earlier_ones_will_have_done() {
    let jail = jail();
    plant(&jail);
    let all = |function: &str, request: Value| atomic(&jail, function, request).iter().for_each(assert_success);
    all(
        CREATE,
        json!({"files": [
            {"path": "n/a", "content": "1"},
            {"path": "n/b", "content": "2", "parents": false},
        ]}),
    );
    assert_eq!((read(&jail, "n/a").as_str(), read(&jail, "n/b").as_str()), ("1", "2"));
    all(MKDIR, json!({"paths": ["m/deep", "m/deep/er"], "parents": true}));
    let made = atomic(&jail, MKDIR, json!({"paths": ["p", "p/q", "p"], "parents": false}));
    assert_eq!(
        made.iter().map(|made| made["created"].clone()).collect::<Vec<_>>(),
        [true, true, false].map(Value::from)
    );
    // A chain, and a swap by a third name.
    all(MOVE, json!({"files": [{"from": "n/a", "to": "x"}, {"from": "x", "to": "y"}, {"from": "y", "to": "q/z"}]}));
    assert_eq!(read(&jail, "q/z"), "1");
    assert!(!jail.root.join("x").exists() && !jail.root.join("y").exists());
    let inodes = (ino(&jail, "a"), ino(&jail, "b"));
    all(MOVE, json!({"files": [{"from": "a", "to": "t"}, {"from": "b", "to": "a"}, {"from": "t", "to": "b"}]}));
    assert_eq!((ino(&jail, "b"), ino(&jail, "a")), inodes);
    // Out of a folder, then the folder itself, then a new one of its name.
    all(MOVE, json!({"files": [{"from": "d/f", "to": "f"}, {"from": "d", "to": "e"}, {"from": "f", "to": "d/g"}]}));
    assert_eq!(read(&jail, "d/g"), "f");
    assert_eq!(fs::read_dir(jail.root.join("e")).unwrap().count(), 0);
    // A file goes away, and a folder of its name is made.
    all(MOVE, json!({"files": [{"from": "q/z", "to": "was"}, {"from": "was", "to": "q/z/in"}]}));
    assert_eq!(read(&jail, "q/z/in"), "1");
    all(
        COPY,
        json!({"files": [
        {"from": "a", "to": "c/1"},
        {"from": "c/1", "to": "c/2", "parents": false},
        ]}),
    );
    assert_eq!((read(&jail, "c/1"), read(&jail, "c/2")), (read(&jail, "a"), read(&jail, "a")));
    // A folder is empty once what was in it is deleted; what is in a deleted folder is gone.
    all(DELETE, json!({"paths": ["c/1", "c/2", "c"]}));
    let deleted = atomic(&jail, DELETE, json!({"paths": ["d", "d/f"], "recursive": true}));
    assert_eq!(
        deleted.iter().map(|result| result["removed"].clone()).collect::<Vec<_>>(),
        [true, false].map(Value::from)
    );
    assert!(!jail.root.join("c").exists() && !jail.root.join("d").exists());
    jail.assert_intact();
}

/// The last entry of a chain fails: nothing of the chain has happened.
#[test]
fn a_chain_of_moves_that_fails_changes_nothing() {
    let jail = jail();
    plant(&jail);
    let inodes = ["a", "b", "d", "d/f"].map(|name| ino(&jail, name));
    changes_nothing(&jail, || {
        let files = json!([
            {"from": "a", "to": "t"}, {"from": "b", "to": "a"}, {"from": "t", "to": "n/b"},
            {"from": "d/f", "to": "f"}, {"from": "d", "to": "e"}, {"from": "missing", "to": "x"},
        ]);
        assert_rolled_back(&atomic(&jail, MOVE, json!({ "files": files })), 5, "C211");
    });
    assert_eq!(["a", "b", "d", "d/f"].map(|name| ino(&jail, name)), inodes);
}

#[test]
fn without_atomic_the_good_entries_are_done() {
    let jail = jail();
    plant(&jail);
    let files =
        json!({"files": [{"path": "x", "content": ""}, {"path": "a", "content": ""}, {"path": "y", "content": ""}]});
    let results = results(jail.call(CREATE, files));
    assert_eq!(
        results.iter().map(|result| result["success"].clone()).collect::<Vec<_>>(),
        [true, false, true].map(Value::from)
    );
    assert!(jail.root.join("x").exists() && jail.root.join("y").exists());
}

#[test]
fn a_batch_of_a_thousand_files_in_as_many_folders_is_one_step() {
    let jail = jail();
    let file = |n: usize| json!({"path": format!("folder{n}/f"), "content": n.to_string()});
    let mut files: Vec<_> = (0..999).map(file).collect();
    files.push(json!({"path": "folder0/f/x", "content": ""}));
    let results = atomic(&jail, CREATE, json!({ "files": files }));
    assert!(results.iter().all(|result| result["success"] == json!(false)));
    assert!(everything(&jail.root).is_empty());
    files.pop();
    atomic(&jail, CREATE, json!({ "files": files })).iter().for_each(assert_success);
    assert_eq!(read(&jail, "folder998/f"), "998");
    let paths: Vec<_> = (0..999).map(|n| format!("folder{n}")).collect();
    atomic(&jail, DELETE, json!({"paths": paths, "recursive": true})).iter().for_each(assert_success);
    assert!(everything(&jail.root).is_empty());
    jail.assert_intact();
}

#[test]
fn a_batch_stays_in_one_root() {
    let policy = "[[root]]\npath = \"ROOT/one\"\n[[root]]\npath = \"ROOT/two\"\n";
    let options = Options { policy: Some(policy.into()), in_memory: true, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir_all(root.join("one")).unwrap();
        fs::create_dir_all(root.join("two")).unwrap();
    });
    let two = jail.root.join("two/f").to_str().unwrap().to_owned();
    let files = json!({"files": [{"path": "f", "content": ""}, {"path": two, "content": ""}]});
    let results = atomic(&jail, CREATE, files);
    assert_rolled_back(&results, 1, "C210");
    assert!(!jail.root.join("one/f").exists() && !jail.root.join("two/f").exists());
}

/// Where the service cannot keep its own state, single changes go on and what needs it is refused.
#[test]
fn without_a_place_for_our_own_state_single_changes_go_on_and_batches_do_not() {
    // The top of the root may not be written, a folder in it may.
    let jail = TestJail::with(Options { in_memory: true, ..Options::default() });
    for (name, content) in [("a", "a"), ("b", "b"), ("d/f", "f")] {
        jail.write(&format!("in/{name}"), content);
    }
    set_mode(&jail.root, 0o555);
    assert_success(&create(&jail, json!({"path": "in/a", "content": "new", "overwrite": true})));
    assert_eq!(read(&jail, "in/a"), "new");
    assert_success(&relocate(&jail, MOVE, json!({"from": "in/a", "to": "in/b", "overwrite": true})));
    assert_eq!(delete(&jail, "in/b")["removed"], json!(true));
    assert_success(&relocate(&jail, COPY, json!({"from": "in/d", "to": "in/e", "recursive": true})));
    assert_eq!(delete_tree(&jail, "in/d")["removed"], json!(true));
    changes_nothing(&jail, || {
        let files = json!({"files": [{"path": "in/x", "content": ""}, {"path": "in/y", "content": ""}]});
        assert_rolled_back(&atomic(&jail, CREATE, files), 0, "C216");
        let result = one(jail.call(DELETE, json!({"paths": ["in/e"], "recursive": true, "trash": true})));
        assert_refused(&result, "C216");
    });
    assert_eq!(everything(&jail.root).into_keys().collect::<Vec<_>>(), ["in", "in/e", "in/e/f"]);
    set_mode(&jail.root, 0o755);
    jail.assert_intact();
}
