//! What an attacker tried with batches: failed moves between roots, chains through links, names that look unrelated.

use std::os::unix::fs::symlink;

use super::*;

const TWO_ROOTS: &str = "[[root]]\npath = \"ROOT/a\"\n[[root]]\npath = \"ROOT/b\"\n";
const BENEATH: &str =
    "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n[deny]\nnon_accessible_globs = [\"x/g/secret\", \"e/*.key\"]\n";

fn two_roots() -> TestJail {
    let options = Options { in_memory: true, policy: Some(TWO_ROOTS.into()), ..Options::default() };
    TestJail::with_tree(options, |root| {
        for folder in ["a/p", "b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("a/f"), "new").unwrap();
        fs::write(root.join("a/p/f"), "new").unwrap();
        fs::write(root.join("b/f"), "precious").unwrap();
    })
}

#[test]
fn a_refused_or_dry_move_to_another_root_loses_nothing() {
    let jail = two_roots();
    let to = jail.root.join("b/f");
    for (atomic, dry_run) in [(true, true), (true, false), (false, true)] {
        let entry = json!({"from": "f", "to": to, "overwrite": true});
        let request = json!({"files": [entry], "atomic": atomic, "dry_run": dry_run});
        let result = changes_nothing(&jail, || one(jail.call(MOVE, request)));
        assert_eq!(result["success"], json!(!atomic), "{result}");
        assert!(state::folders(&jail.root.join("b")).is_empty(), "a dry run and a refusal leave no state");
    }
}

#[test]
fn a_move_whose_original_cannot_be_removed_brings_the_replaced_file_back() {
    let jail = two_roots();
    set_mode(&jail.root.join("b/f"), 0o640);
    let folder = jail.root.join("a/p");
    // No mode keeps root from removing a file, so the folder is immutable where root runs the service.
    let lock = |is_locked: bool| {
        if !rustix::process::geteuid().is_root() {
            return set_mode(&folder, if is_locked { 0o555 } else { 0o755 });
        }
        let flags = if is_locked { rustix::fs::IFlags::IMMUTABLE } else { rustix::fs::IFlags::empty() };
        rustix::fs::ioctl_setflags(fs::File::open(&folder).unwrap(), flags).unwrap();
    };
    lock(true);
    let result = relocate(&jail, MOVE, json!({"from": "p/f", "to": jail.root.join("b/f"), "overwrite": true}));
    lock(false);
    assert_refused(&result, "C216");
    assert_eq!((read(&jail, "b/f"), read(&jail, "a/p/f")), ("precious".into(), "new".into()));
    assert_eq!(mode(&jail, "b/f"), 0o640);
}

#[test]
fn a_chain_through_a_moved_link_is_refused() {
    let jail = jail_with(BENEATH);
    jail.write("sub/f", "mine");
    jail.write("sub/d/secret", "mine");
    fs::create_dir_all(jail.root.join("sub/x")).unwrap();
    fs::create_dir_all(jail.root.join("x")).unwrap();
    fs::create_dir_all(jail.root.join("sub/deep")).unwrap();
    // From its new place it leads to another folder.
    symlink("../x", jail.root.join("sub/deep/link")).unwrap();
    for function in [MOVE, COPY] {
        for last in ["f", "d"] {
            for dry_run in [true, false] {
                let mut files = vec![
                    json!({"from": "deep/link", "to": "link"}),
                    json!({"from": last, "to": format!("link/{}", if last == "d" { "g" } else { "f" })}),
                ];
                if function == COPY {
                    files.iter_mut().for_each(|entry| entry["recursive"] = json!(true));
                }
                let request = json!({"files": files, "atomic": true, "base_dir": "sub", "dry_run": dry_run});
                let results = changes_nothing(&jail, || results(jail.call(function, request)));
                assert!(results.iter().all(|result| result["success"] == json!(false)), "{results:?}");
            }
        }
    }
}

#[test]
fn names_behind_links_are_not_taken_for_unrelated() {
    let jail = jail_with(BENEATH);
    jail.write("d/x", "x");
    jail.write("f", "x");
    symlink("d", jail.root.join("l")).unwrap();
    let files = json!([{"from": "d", "to": "e"}, {"from": "f", "to": "l/y.key"}]);
    let results = results(jail.call(MOVE, json!({"files": files})));
    assert_success(&results[0]);
    assert_eq!(results[1]["success"], json!(false), "{results:?}");
    assert!(!jail.root.join("e/y.key").exists());
}

#[test]
fn an_atomic_batch_moves_no_file_back_to_a_name_that_it_had() {
    let jail = jail();
    jail.write("a", "a");
    jail.write("q/x", "x");
    for files in [
        json!([{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "a"}]),
        json!([{"from": "q", "to": "r"}, {"from": "r/x", "to": "q/x"}]),
    ] {
        for dry_run in [true, false] {
            let request = json!({"files": files, "atomic": true, "dry_run": dry_run});
            let results = changes_nothing(&jail, || results(jail.call(MOVE, request)));
            let last = assert_refused(results.last().unwrap(), "C210");
            assert!(last.contains("a name that it had before"), "{last}");
        }
    }
}

#[test]
fn a_move_onto_itself_still_obeys_its_guards() {
    let jail = jail();
    jail.write("f", "x");
    assert_refused(&relocate(&jail, MOVE, json!({"from": "f", "to": "f", "if_match": "00"})), "C219");
    assert_eq!(relocate(&jail, MOVE, json!({"from": "f", "to": "f"}))["moved"], json!(false));
}

/// The first entry changes nothing, so nothing says that it lies in another root; its folder there has the same path.
#[test]
fn an_entry_that_changes_nothing_in_another_root_does_not_lead_the_batch_there() {
    let jail = two_roots();
    fs::create_dir_all(jail.root.join("a/there")).unwrap();
    let (a, b) = (jail.root.join("a"), jail.root.join("b"));
    for (function, field, entries) in [
        (MKDIR, "paths", json!([a.join("there"), b.join("new")])),
        (
            MOVE,
            "files",
            json!([{"from": a.join("f"), "to": a.join("f")}, {"from": b.join("new"), "to": b.join("more")}]),
        ),
        (DELETE, "paths", json!([a.join("missing"), b.join("f")])),
    ] {
        let request = json!({field: entries, "atomic": true});
        results(jail.call(function, request)).iter().for_each(assert_success);
    }
    assert!(b.join("more").is_dir() && !b.join("new").exists() && !b.join("f").exists());
    assert!(!a.join("new").exists() && !a.join("more").exists());
    assert_eq!(read(&jail, "a/f"), "new");
}
