//! A change that is stopped at each of its steps in turn, while somebody swaps the folder that it works in. What the
//! storms meet by chance, this meets every time: at every single call that changes something.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    attack::{INSIDE, outcomes},
    layers,
    support::{
        Build, COLD, Failure, Options, TestJail, Value, json,
        process::{Signal, resume_to_the_end, signal, stands_still},
        state::is_state,
    },
};

/// Far more steps than any change has.
const MOST: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swap {
    /// The folder and a link to the canaries change places.
    Folder,
    /// A folder deep in the one that is dealt with becomes a link to the canaries, wherever it lies by then.
    Deep,
    /// The folder leaves the root.
    Out,
}

type Change = (&'static str, fn() -> Value);

const CHANGES: &[Change] = &[
    ("coder::create-file", || json!({"files": [{"path": "place/d/new", "content": "mine"}]})),
    ("coder::create-file", || json!({"files": [{"path": "place/d/n/e/w", "content": "mine"}]})),
    ("coder::create-file", || json!({"files": [{"path": "place/d/secret.txt", "content": "mine", "overwrite": true}]})),
    ("coder::create-file", || {
        json!({"atomic": true, "files": [
            {"path": "place/d/secret.txt", "content": "mine", "overwrite": true},
            {"path": "place/d/n/e/w", "content": "mine"},
        ]})
    }),
    (
        "coder::update-file",
        || json!({"files": [{"path": "place/d/secret.txt", "ops": [{"op": "append", "content": "mine"}]}]}),
    ),
    ("coder::delete-file", || json!({"paths": ["place/d/secret.txt"]})),
    ("coder::delete-file", || json!({"paths": ["place/d/secret.txt"], "trash": true})),
    ("coder::move", || json!({"files": [{"from": "inside.txt", "to": "place/d/moved"}]})),
    ("coder::move", || json!({"files": [{"from": "inside.txt", "to": "place/d/secret.txt", "overwrite": true}]})),
    ("coder::move", || json!({"files": [{"from": "place/d/secret.txt", "to": "loot"}]})),
    ("coder::copy", || json!({"files": [{"from": "inside.txt", "to": "place/d/secret.txt", "overwrite": true}]})),
    ("coder::mkdir", || json!({"paths": ["place/d/made", "place/d/n/e/w"]})),
];

/// Those that walk.
const TREES: &[Change] = &[
    ("coder::delete-file", || json!({"paths": ["place/d"], "recursive": true})),
    ("coder::delete-file", || json!({"atomic": true, "paths": ["place/d/deep"], "recursive": true})),
    ("coder::copy", || json!({"files": [{"from": "place/d", "to": "loot", "recursive": true}]})),
    ("coder::move", || json!({"files": [{"from": "place/d/deep", "to": "loot"}]})),
];

/// The names are those of the canaries.
fn plant(root: &Path) {
    for name in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        if !is_state(name.file_name().unwrap()) {
            let _ = fs::remove_dir_all(&name).or_else(|_| fs::remove_file(&name));
        }
    }
    let _ = fs::remove_dir_all(elsewhere(root));
    fs::create_dir_all(root.join("place/d/deep/er")).unwrap();
    for name in ["inside.txt", "place/d/secret.txt", "place/d/deep/er/secret.txt", "place/d/deep/er/other"] {
        fs::write(root.join(name), INSIDE).unwrap();
    }
    symlink(root.parent().unwrap().join("outside"), root.join("place/link")).unwrap();
}

fn elsewhere(root: &Path) -> PathBuf {
    root.parent().unwrap().join("elsewhere")
}

impl Swap {
    /// What lay outside right afterwards, where nothing may change any more.
    fn make(self, root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let folder = root.join("place/d");
        match self {
            Self::Folder => {
                // It may have been taken away as a whole by now.
                let _ = renameat_with(CWD, &folder, CWD, root.join("place/link"), RenameFlags::EXCHANGE);
            }
            Self::Deep => {
                if let Some(deep) = find(root, "er") {
                    fs::rename(&deep, deep.with_file_name("away")).unwrap();
                    symlink(root.parent().unwrap().join("outside/deep/er"), &deep).unwrap();
                }
            }
            Self::Out => {
                let _ = fs::rename(&folder, elsewhere(root));
            }
        }
        survey(&elsewhere(root))
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() == name {
                return Some(entry.path());
            }
            if let Some(found) = find(&entry.path(), name) {
                return Some(found);
            }
        }
    }
    None
}

fn survey(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(survey(&entry.path()));
        }
        found.insert(entry.path(), fs::read(entry.path()).ok());
    }
    found
}

/// One change, stopped at every step; at the n-th the swap is made. False if there was no n-th.
fn swap_at(jail: &TestJail, swap: Swap, (function, params): Change, at: usize) -> (bool, Vec<String>, String) {
    plant(&jail.root);
    let (mut client, worker) = jail.connect_and_find_worker();
    let id = client.send(function, params());
    let (mut seen, mut outside) = (0, None);
    while stands_still(worker, &mut client) {
        if seen == at {
            outside = Some(swap.make(&jail.root));
        }
        seen += 1;
        assert!(seen < MOST, "{function}: no end of steps");
        signal(worker, Signal::CONT);
    }
    let reply: Result<Value, Failure> = client.reply_to(id);
    let mut escapes = Vec::new();
    let mut told = |what: &str| escapes.push(format!("{swap:?} at {at} of {function} {}: {what}", params()));
    if !jail.canaries.are_untouched() {
        told("a canary was touched");
    }
    if outside.as_ref().is_some_and(|outside| *outside != survey(&elsewhere(&jail.root))) {
        told("what had left the root was changed");
    }
    // It leaves its folder, stopping at every step of that, too.
    drop(client);
    resume_to_the_end(worker);
    (outside.is_some(), escapes, outcomes(&reply).join(" "))
}

fn hold(case: &str, swap: Swap, changes: &[Change]) {
    for build in Build::attacked() {
        let fault = Some("stop:0".into());
        let options = Options { fault, policy: Some(COLD.into()), in_memory: true, ..build.options() };
        let jail = TestJail::with_tree(options, plant);
        let (mut escapes, mut swaps) = (Vec::new(), 0);
        for change in changes {
            for at in 0.. {
                let (was_made, escaped, outcome) = swap_at(&jail, swap, *change, at);
                escapes.extend(escaped);
                if !was_made {
                    assert!(outcome.split(' ').all(|one| one == "ok"), "undisturbed: {change:?}: {outcome}");
                    break;
                }
                swaps += 1;
                let known = ["ok", "C211", "C215", "C216", "C217", "C222"];
                let odd = outcome.split(' ').find(|one| build == Build::Normal && !known.contains(one));
                assert_eq!(odd, None, "{case}: {swap:?} at {at} of {change:?}");
            }
        }
        println!("{case} {build:?}: swapped at {swaps} steps");
        assert!(swaps >= 3 * changes.len(), "only {swaps} steps were met");
        jail.assert_intact();
        escapes.truncate(5);
        layers::judge(case, build, &escapes);
    }
}

#[test]
fn a_folder_swapped_with_a_link_at_any_step_of_a_change_never_leads_outside() {
    let case = "a_folder_swapped_with_a_link_at_any_step_of_a_change_never_leads_outside";
    hold(case, Swap::Folder, CHANGES);
}

#[test]
fn a_folder_deep_in_a_tree_swapped_with_a_link_at_any_step_never_leads_outside() {
    hold("a_folder_deep_in_a_tree_swapped_with_a_link_at_any_step_never_leads_outside", Swap::Deep, TREES);
}

#[test]
fn a_folder_that_leaves_the_root_at_any_step_of_a_change_is_lost() {
    hold("a_folder_that_leaves_the_root_at_any_step_of_a_change_is_lost", Swap::Out, CHANGES);
}
