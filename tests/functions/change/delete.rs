//! Part B, section 9.3, and what Part A says differently.

use std::fs;

use super::*;

#[test]
fn a_file_is_removed_and_a_missing_one_is_success() {
    let jail = jail();
    jail.write("f", "x");
    let result = delete(&jail, "f");
    assert_success(&result);
    assert_eq!(result["removed"], json!(true));
    for missing in ["f", "no/such/folder/f"] {
        let result = delete(&jail, missing);
        assert_success(&result);
        assert_eq!(result["removed"], json!(false), "{missing}");
    }
    assert!(everything(&jail.root).is_empty());
}

#[test]
fn paths_are_required_and_an_empty_list_fails_the_call() {
    let jail = jail();
    for params in [json!({}), json!({"paths": []}), json!({"paths": "f"})] {
        assert_eq!(jail.call(DELETE, params).expect_err("refused").code(), "C210");
    }
}

#[test]
fn an_allowed_root_is_never_deleted() {
    let jail = jail();
    jail.write("f", "x");
    let root = jail.root.to_str().unwrap().to_owned();
    for name in [".", "", "./", "f/..", &root] {
        changes_nothing(&jail, || {
            assert_refused(&delete(&jail, name), "C210");
            assert_refused(&delete_tree(&jail, name), "C210");
        });
    }
}

#[test]
fn a_root_inside_the_folder_protects_it() {
    let policy = "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT/a/inner\"\nallow_nested = true\n";
    let options = Options { policy: Some(policy.into()), in_memory: true, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir_all(root.join("a/inner")).unwrap();
        fs::write(root.join("a/inner/f"), "x").unwrap();
    });
    changes_nothing(&jail, || {
        assert_refused(&delete_tree(&jail, "a"), "C211");
        assert_refused(&delete_tree(&jail, "a/inner"), "C210");
        assert_refused(&relocate(&jail, MOVE, json!({"from": "a", "to": "b"})), "C211");
        assert_refused(&relocate(&jail, COPY, json!({"from": "a", "to": "b", "recursive": true})), "C211");
    });
}

#[test]
fn a_folder_that_is_not_empty_needs_recursive() {
    let jail = jail();
    jail.write("d/f", "x");
    fs::create_dir(jail.root.join("empty")).unwrap();
    let text = changes_nothing(&jail, || assert_refused(&delete(&jail, "d"), "C216"));
    assert!(text.contains('d') && text.contains("recursive=true"), "{text}");
    assert_eq!(delete(&jail, "empty")["removed"], json!(true));
    assert_eq!(delete_tree(&jail, "d")["removed"], json!(true));
    assert!(everything(&jail.root).is_empty());
}

#[test]
fn a_tree_of_every_kind_of_thing_is_removed_whole() {
    let jail = jail();
    (0..300).for_each(|n| drop(jail.write(&format!("d/many/{n}"), "x")));
    jail.write(&format!("d/{}/f", ["deep"; 200].join("/")), "x");
    std::os::unix::fs::symlink("../../outside", jail.root.join("d/link")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, jail.root.join("d/fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(delete_tree(&jail, "d")["removed"], json!(true));
    assert!(everything(&jail.root).is_empty());
    jail.assert_intact();
}

#[test]
fn a_subtree_with_a_denied_entry_is_refused_and_the_entry_is_not_named() {
    let jail = jail();
    for hidden in ["d/.env", "d/deep/er/server.PEM", "d/secrets/x"] {
        jail.write("d/f", "x");
        jail.write(hidden, "hidden");
        let text = changes_nothing(&jail, || assert_refused(&delete_tree(&jail, "d"), "C211"));
        assert!(text.contains('d') && text.contains("not found or not accessible"), "{text}");
        let leaf = hidden.rsplit('/').next().unwrap();
        assert!(leaf == "x" || !text.contains(leaf), "{text}");
        fs::remove_dir_all(jail.root.join("d")).unwrap();
    }
}

#[test]
fn denied_names_are_refused_whether_they_exist_or_not() {
    let jail = jail();
    for exists in [false, true] {
        for name in [".env", "a/.ENV", "secrets", "Secrets/x", ".stockade", ".stockade/0/work"] {
            if exists && !name.starts_with(".stockade") && name != "secrets" {
                jail.write(name, "hidden");
            }
            changes_nothing(&jail, || {
                assert_refused(&delete(&jail, name), "C211");
                assert_refused(&delete_tree(&jail, name), "C211");
            });
        }
    }
}

#[test]
fn a_path_below_a_file_is_an_error() {
    let jail = jail();
    jail.write("f", "x");
    changes_nothing(&jail, || assert_refused(&delete(&jail, "f/x"), "C216"));
}

#[test]
fn entries_may_be_objects_and_fail_alone() {
    let jail = jail();
    jail.write("a", "");
    jail.write("b", "");
    let results = results(jail.call(DELETE, json!({"paths": [{"path": "a"}, 7, {}, {"path_bytes": "Yg=="}]})));
    assert_success(&results[0]);
    assert!(assert_refused(&results[1], "C210").contains("paths[1]"));
    assert!(assert_refused(&results[2], "C210").contains("path: missing"));
    assert_success(&results[3]);
    assert!(everything(&jail.root).is_empty());
}

#[test]
fn what_may_not_be_removed_stays_whole() {
    let jail = jail();
    jail.write("d/a/f", "x");
    jail.write("d/locked/f", "x");
    jail.write("d/z/f", "x");
    set_mode(&jail.root.join("d/locked"), 0o500);
    set_mode(&jail.root.join("d"), 0o755);
    let result = delete_tree(&jail, "d");
    assert_refused(&result, "C216");
    assert!(jail.root.join("d/locked/f").exists(), "what could not be removed is where it was");
    set_mode(&jail.root.join("d/locked"), 0o700);
}

#[test]
fn a_file_in_a_folder_that_may_not_be_written_is_an_error() {
    let jail = jail();
    jail.write("d/f", "x");
    set_mode(&jail.root.join("d"), 0o555);
    let text = changes_nothing(&jail, || assert_refused(&delete(&jail, "d/f"), "C216"));
    assert!(text.contains("permission denied"), "{text}");
    set_mode(&jail.root.join("d"), 0o755);
}
