//! Part B, section 9.4, and what Part A says differently.

use std::fs;

use super::*;

fn mv(jail: &TestJail, from: &str, to: &str) -> Value {
    relocate(jail, MOVE, json!({"from": from, "to": to}))
}

fn mv_over(jail: &TestJail, from: &str, to: &str) -> Value {
    relocate(jail, MOVE, json!({"from": from, "to": to, "overwrite": true}))
}

const TWO_ROOTS: &str = "[[root]]\npath = \"ROOT/one\"\n[[root]]\npath = \"ROOT/two\"\n";

fn two_roots() -> TestJail {
    let options = Options { policy: Some(TWO_ROOTS.into()), in_memory: true, ..Options::default() };
    TestJail::with_tree(options, |root| {
        fs::create_dir_all(root.join("one")).unwrap();
        fs::create_dir_all(root.join("two")).unwrap();
    })
}

#[test]
fn a_file_gets_another_name_and_stays_the_same_file() {
    let jail = jail();
    set_mode(&jail.write("a", "content"), 0o640);
    let before = ino(&jail, "a");
    let result = mv(&jail, "a", "new/folder/b");
    assert_success(&result);
    assert_eq!(result["moved"], json!(true));
    assert_eq!(result["to"], json!(jail.root.join("new/folder/b").to_str().unwrap()));
    assert_eq!((ino(&jail, "new/folder/b"), mode(&jail, "new/folder/b")), (before, 0o640));
    assert_eq!(result.get("etag"), None, "nobody asked for it");
}

/// Hashing 1 TiB takes minutes; renaming it does not read a byte.
#[test]
fn a_file_of_any_size_is_moved_within_the_deadline() {
    let jail = jail();
    let file = fs::File::create(jail.root.join("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let mut client = jail.connect();
    let call = |id: u64, atomic: bool, from: &str, to: &str| {
        let params = json!({"files": [{"from": from, "to": to}], "atomic": atomic});
        json!({"jsonrpc": "2.0", "id": id, "timeout_ms": 5000, "method": MOVE, "params": params}).to_string()
    };
    client.send_line(&call(1, false, "huge", "moved"));
    assert_success(&one(client.reply_to(1)));
    client.send_line(&call(2, true, "moved", "back/huge"));
    assert_success(&one(client.reply_to(2)));
    assert_eq!(fs::metadata(jail.root.join("back/huge")).unwrap().len(), 1 << 40);
}

#[test]
fn a_move_tells_the_version_on_request() {
    let jail = jail();
    jail.write("a", "content");
    let wanted = jail.call("coder::stat", json!({"paths": ["a"], "etag": true})).unwrap()["results"][0]["etag"].clone();
    let dry = relocate(&jail, MOVE, json!({"from": "a", "to": "b", "etag": true, "dry_run": true}));
    assert_eq!((&dry["etag"], wanted.is_string()), (&wanted, true));
    assert_eq!(relocate(&jail, MOVE, json!({"from": "a", "to": "b", "etag": true}))["etag"], wanted);
    assert_eq!(relocate(&jail, MOVE, json!({"from": "b", "to": "c", "if_match": wanted}))["etag"], wanted);
    set_mode(&jail.root.join("c"), 0);
    let refused = relocate(&jail, MOVE, json!({"from": "c", "to": "d", "etag": true}));
    if !crate::support::process::is_root() {
        assert_refused(&refused, "C216");
        assert!(jail.root.join("c").exists(), "a move that cannot answer what was asked moves nothing");
    }
}

#[test]
fn a_folder_is_moved_with_all_it_holds() {
    let jail = jail();
    jail.write("d/deep/f", "x");
    let result = mv(&jail, "d", "e/d");
    assert_success(&result);
    assert_eq!(result.get("etag"), None, "only files have one");
    assert_eq!(everything(&jail.root).keys().collect::<Vec<_>>(), ["e", "e/d", "e/d/deep", "e/d/deep/f"]);
}

#[test]
fn the_same_path_is_success_even_if_missing() {
    let jail = jail();
    jail.write("f", "x");
    for (from, to) in [("f", "f"), ("f", "./x/../f"), ("missing", "missing")] {
        let result = changes_nothing(&jail, || mv(&jail, from, to));
        assert_success(&result);
        assert_eq!(result["moved"], json!(false));
    }
}

#[test]
fn a_root_is_not_moved_and_not_replaced() {
    let jail = jail();
    fs::create_dir(jail.root.join("d")).unwrap();
    changes_nothing(&jail, || {
        assert_refused(&mv(&jail, ".", "d/x"), "C210");
        assert_refused(&mv_over(&jail, "d", "."), "C210");
    });
}

#[test]
fn a_missing_source_is_missing() {
    let jail = jail();
    changes_nothing(&jail, || assert_refused(&mv(&jail, "missing", "new/x"), "C211"));
}

#[test]
fn an_existing_destination_is_refused_unless_overwrite() {
    let jail = jail();
    jail.write("a", "a");
    jail.write("b", "b");
    let text = changes_nothing(&jail, || assert_refused(&mv(&jail, "a", "b"), "C217"));
    assert!(text.contains("b already exists; pass overwrite=true to replace"), "{text}");
    assert_success(&mv_over(&jail, "a", "b"));
    assert_eq!(everything(&jail.root), [("b".to_owned(), "a".to_owned())].into());
}

#[test]
fn a_file_does_not_go_onto_a_folder_and_the_name_in_it_is_suggested() {
    let jail = jail();
    jail.write("f", "x");
    fs::create_dir(jail.root.join("d")).unwrap();
    for overwrite in [false, true] {
        let entry = json!({"from": "f", "to": "d", "overwrite": overwrite});
        let text = changes_nothing(&jail, || assert_refused(&relocate(&jail, MOVE, entry), "C210"));
        assert!(text.contains("destination is a directory") && text.contains("d/f"), "{text}");
    }
}

#[test]
fn a_folder_goes_onto_an_empty_folder_alone() {
    let jail = jail();
    jail.write("d/f", "x");
    jail.write("full/g", "y");
    jail.write("file", "z");
    fs::create_dir(jail.root.join("empty")).unwrap();
    changes_nothing(&jail, || {
        assert_refused(&mv(&jail, "d", "empty"), "C217");
        assert_refused(&mv_over(&jail, "d", "full"), "C210");
        assert_refused(&mv_over(&jail, "d", "file"), "C210");
    });
    assert_success(&mv_over(&jail, "d", "empty"));
    assert!(jail.root.join("empty/f").exists() && !jail.root.join("d").exists());
}

#[test]
fn a_missing_parent_with_parents_false_is_missing() {
    let jail = jail();
    jail.write("f", "x");
    let entry = json!({"from": "f", "to": "no/folder", "parents": false});
    changes_nothing(&jail, || assert_refused(&relocate(&jail, MOVE, entry), "C211"));
}

#[test]
fn a_folder_is_not_moved_into_itself() {
    let jail = jail();
    jail.write("d/f", "x");
    jail.write("dd/f", "x");
    for to in ["d/x", "d/new/x", "d/f/x"] {
        let result = changes_nothing(&jail, || mv(&jail, "d", to));
        assert!(["C210", "C216"].contains(&result["error"]["code"].as_str().unwrap()), "{result}");
    }
    assert_success(&mv(&jail, "d", "dd/d"));
}

#[test]
fn a_folder_that_holds_a_denied_entry_is_not_moved() {
    let jail = jail();
    jail.write("d/deep/.env", "hidden");
    let text = changes_nothing(&jail, || assert_refused(&mv(&jail, "d", "e"), "C211"));
    assert!(!text.contains(".env") && text.contains("not found or not accessible"), "{text}");
}

/// Both ends, existing or not, also the folder that a glob covers whole.
#[test]
fn denied_names_are_refused_at_either_end() {
    let jail = jail();
    jail.write("f", "x");
    for exists in [false, true] {
        if exists {
            jail.write(".env", "hidden");
            jail.write("secrets/key", "hidden");
        }
        for function in [MOVE, COPY] {
            for hidden in [".env", "a/.ENV", "secrets", "secrets/key", "secrets/new", ".stockade/x"] {
                let away = json!({"from": hidden, "to": "shown", "overwrite": true});
                let onto = json!({"from": "f", "to": hidden, "overwrite": true});
                changes_nothing(&jail, || {
                    assert_refused(&relocate(&jail, function, away), "C211");
                    if hidden != "secrets" || exists {
                        let result = relocate(&jail, function, onto);
                        assert_eq!(result["success"], json!(false), "{hidden}: {result}");
                    }
                });
            }
        }
    }
}

#[test]
fn rejections_make_no_folders() {
    let jail = jail();
    jail.write("f", "x");
    changes_nothing(&jail, || {
        assert_refused(&mv(&jail, "missing", "new/folder/x"), "C211");
        assert_refused(&mv(&jail, "f", "new/.env"), "C211");
        assert_refused(&mv(&jail, "f", "f/x"), "C216");
    });
}

#[test]
fn a_file_moves_to_another_root_with_its_mode() {
    let jail = two_roots();
    let other = jail.root.join("two/new/f");
    set_mode(&jail.write("one/f", "content"), 0o640);
    let result = mv(&jail, "f", other.to_str().unwrap());
    assert_success(&result);
    assert_eq!((fs::read_to_string(&other).unwrap().as_str(), mode(&jail, "two/new/f")), ("content", 0o640));
    assert!(!jail.root.join("one/f").exists());
    assert!(result["etag"].is_string());
}

#[test]
fn a_file_moves_onto_one_of_another_root_only_with_overwrite() {
    let jail = two_roots();
    jail.write("one/f", "new");
    let other = jail.write("two/f", "old");
    assert_refused(&mv(&jail, "f", other.to_str().unwrap()), "C217");
    assert_success(&mv_over(&jail, "f", other.to_str().unwrap()));
    assert_eq!((fs::read_to_string(other).unwrap().as_str(), jail.root.join("one/f").exists()), ("new", false));
}

#[test]
fn a_folder_does_not_move_to_another_root() {
    let jail = two_roots();
    jail.write("one/d/f", "x");
    let other = jail.root.join("two/d");
    let text = changes_nothing(&jail, || assert_refused(&mv(&jail, "d", other.to_str().unwrap()), "C210"));
    assert!(text.contains("cross-root"), "{text}");
}

#[test]
fn if_the_original_cannot_be_removed_the_copy_does_not_stay() {
    let jail = two_roots();
    jail.write("one/locked/f", "x");
    set_mode(&jail.root.join("one/locked"), 0o555);
    let other = jail.root.join("two/f");
    let result = mv(&jail, "locked/f", other.to_str().unwrap());
    assert_refused(&result, "C216");
    assert!(!other.exists() && jail.root.join("one/locked/f").exists());
    set_mode(&jail.root.join("one/locked"), 0o755);
}

#[test]
fn a_file_that_may_not_be_read_can_be_moved() {
    let jail = jail();
    set_mode(&jail.write("f", "x"), 0);
    let result = mv(&jail, "f", "g");
    assert_success(&result);
    assert_eq!((result.get("etag"), mode(&jail, "g")), (None, 0));
}

#[test]
fn moves_of_a_batch_follow_one_another() {
    let jail = jail();
    jail.write("a", "a");
    jail.write("b", "b");
    let steps = [("a", "t/a"), ("b", "a"), ("t/a", "b")];
    let files: Vec<_> = steps.iter().map(|(from, to)| json!({"from": from, "to": to})).collect();
    results(jail.call(MOVE, json!({"files": files}))).iter().for_each(assert_success);
    let expected = [("a", "b"), ("b", "a"), ("t", "")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(everything(&jail.root), expected.into());
}

#[test]
fn special_files_stay_where_they_are() {
    let jail = jail();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, jail.root.join("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    changes_nothing(&jail, || assert_refused(&mv(&jail, "fifo", "other"), "C210"));
    assert_eq!(delete(&jail, "fifo")["removed"], json!(true));
}
