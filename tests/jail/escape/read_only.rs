//! A read-only root: the request is refused before anything happens, and where nobody refuses it, Landlock and seccomp do.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

use super::{
    attack::{INSIDE, outcomes},
    support::{Options, TestJail, Value, json},
};

fn changes() -> Vec<(&'static str, Value)> {
    let moved = |from: &str, to: &str| json!({"files": [{"from": from, "to": to, "overwrite": true}]});
    let copied =
        |from: &str, to: &str| json!({"files": [{"from": from, "to": to, "overwrite": true, "recursive": true}]});
    let once = [
        ("coder::create-file", json!({"files": [{"path": "new", "content": "mine"}]})),
        ("coder::create-file", json!({"files": [{"path": "n/e/w", "content": "mine"}]})),
        ("coder::create-file", json!({"files": [{"path": "file", "content": "mine", "overwrite": true}]})),
        ("coder::update-file", json!({"files": [{"path": "file", "ops": [{"op": "append", "content": "x"}]}]})),
        ("coder::delete-file", json!({"paths": ["file"]})),
        ("coder::delete-file", json!({"paths": ["folder"], "recursive": true})),
        ("coder::delete-file", json!({"paths": ["empty"]})),
        ("coder::delete-file", json!({"paths": ["file"], "trash": true})),
        ("coder::move", moved("file", "moved")),
        ("coder::move", moved("file", "other")),
        ("coder::move", moved("folder", "moved")),
        ("coder::copy", copied("file", "copied")),
        ("coder::copy", copied("file", "other")),
        ("coder::copy", copied("folder", "copied")),
        ("coder::mkdir", json!({"paths": ["made", "n/e/w"]})),
    ];
    let atomic = once.iter().map(|(function, params)| {
        let mut params = params.clone();
        params["atomic"] = json!(true);
        (*function, params)
    });
    once.iter().cloned().chain(atomic).collect()
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("folder/deep")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    for name in ["file", "other", "folder/file", "folder/deep/file"] {
        fs::write(root.join(name), INSIDE).unwrap();
    }
}

type Facts = (u32, u32, u64, u64, i64, i64, i64, i64, Option<Vec<u8>>);

/// Everything, times included.
fn survey(path: &Path) -> BTreeMap<String, Facts> {
    let facts = fs::symlink_metadata(path).unwrap();
    let times = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
    let content = facts.is_file().then(|| fs::read(path).unwrap());
    let all = (facts.mode(), facts.uid(), facts.ino(), facts.nlink(), times.0, times.1, times.2, times.3, content);
    let mut found = BTreeMap::from([(path.display().to_string(), all)]);
    if facts.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| found.extend(survey(&entry.unwrap().path())));
    }
    found
}

/// The outcome of every change, and whether the root is as it was.
fn attempt(weakened: Option<&str>) -> (Vec<String>, bool) {
    let options = Options { suffix: ":ro", weakened: weakened.map(Into::into), ..Options::default() };
    let jail = TestJail::with_tree(options, plant);
    let before = survey(&jail.root);
    let outcome = |(function, params): (&str, Value)| outcomes(&jail.call(function, params));
    let all = changes().into_iter().flat_map(outcome).collect();
    jail.assert_intact();
    (all, survey(&jail.root) == before)
}

#[test]
fn every_change_of_a_read_only_root_is_refused_as_such() {
    let (outcomes, is_same) = attempt(None);
    // In an atomic batch the one that is to blame says so; the others say that it was.
    assert!(outcomes.iter().all(|code| ["C221", "C216"].contains(&code.as_str())), "{outcomes:?}");
    let single = changes().len() / 2;
    assert!(outcomes[..single].iter().all(|code| code == "C221"), "{outcomes:?}");
    assert!(is_same);
}

/// The request's own check is compiled out: what is left is what the kernel holds.
#[test]
fn where_nobody_refuses_it_landlock_does() {
    for weakened in ["read-only", "read-only,seccomp", "checks", "checks,seccomp"] {
        let (outcomes, is_same) = attempt(Some(weakened));
        assert!(outcomes.iter().all(|code| code.starts_with('C')), "{weakened}: {outcomes:?}");
        assert!(is_same, "{weakened}: something in the root has changed");
    }
}

#[test]
fn where_landlock_is_off_too_seccomp_does() {
    let (outcomes, is_same) = attempt(Some("read-only,landlock"));
    assert!(outcomes.iter().all(|code| code.starts_with('C')), "{outcomes:?}");
    assert!(is_same, "something in the root has changed");
}

/// The suite can fail: with all three off the same requests are done.
#[test]
fn without_all_three_the_root_is_changed() {
    let (outcomes, is_same) = attempt(Some("read-only,landlock,seccomp"));
    assert!(outcomes.iter().any(|code| code == "ok") && !is_same, "{outcomes:?}");
}
