//! Swap races against everything that changes something: an attacker renames in a loop while a client creates, updates,
//! deletes, moves and copies. Whatever the moment, nothing outside changes, and a reply is one of a closed list.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat_with};

use super::{
    attack::{INSIDE, outcomes},
    layers,
    support::{Build, Failure, Options, TestJail, Value, canary::SECRET, json},
};

/// Calls of the ordinary run, of one attacker in one build.
const ROUNDS: u64 = 1_200;
/// Calls that are on their way at a time.
const PIPELINE: u64 = 8;

/// `STOCKADE_SOAK_ROUNDS` is the number for an attacker.
fn rounds() -> u64 {
    std::env::var("STOCKADE_SOAK_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attacker {
    /// The folder and a link to the canaries change places.
    Folder,
    /// The file is now a file and now a link to a canary.
    File,
    /// A folder in the tree that is deleted and copied is now one and now a link to the canaries.
    Tree,
}

impl Attacker {
    /// One turn. A client changes the same names: whatever fails, the next turn is another.
    fn turn(self, root: &Path) {
        let outside = root.parent().unwrap().join("outside");
        let place = root.join("place");
        match self {
            Self::Folder => {
                let _ = renameat_with(CWD, place.join("d"), CWD, place.join("link"), RenameFlags::EXCHANGE);
            }
            Self::File => {
                for (name, is_link) in [("l", true), ("f", false)] {
                    let made = place.join(name);
                    let _ = match is_link {
                        true => symlink(outside.join("secret.txt"), &made),
                        false => fs::write(&made, INSIDE),
                    };
                    let _ = fs::rename(&made, place.join("d/secret.txt"));
                }
            }
            Self::Tree => {
                let deep = place.join("d/deep");
                let _ = fs::create_dir_all(deep.join("er"));
                let _ = write_in_folder(&deep.join("er"));
                let _ = symlink(outside.join("deep/er"), deep.join("link"));
                for _ in 0..4 {
                    let _ = renameat_with(CWD, deep.join("er"), CWD, deep.join("link"), RenameFlags::EXCHANGE);
                }
            }
        }
    }
}

/// Unless the folder is the link just then, which a client may have left so: it would be the attacker who writes outside.
fn write_in_folder(folder: &Path) -> rustix::io::Result<()> {
    let folder = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
    let file = openat(folder, "secret.txt", flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(file, INSIDE.as_bytes()).map(|_| ())
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("place/d/deep/er")).unwrap();
    fs::write(root.join("inside.txt"), INSIDE).unwrap();
    fs::write(root.join("place/d/secret.txt"), INSIDE).unwrap();
    symlink(root.parent().unwrap().join("outside"), root.join("place/link")).unwrap();
}

fn request(attacker: Attacker, round: u64) -> (&'static str, Value) {
    const FILE: &str = "place/d/secret.txt";
    let loot = format!("loot{}", round % 4);
    if attacker == Attacker::Tree {
        return match round % 4 {
            0 | 1 => ("coder::delete-file", json!({"paths": ["place/d/deep"], "recursive": true})),
            2 => ("coder::copy", json!({"files": [{"from": "place/d/deep", "to": loot, "recursive": true}]})),
            _ => ("coder::delete-file", json!({"paths": [loot], "recursive": true, "trash": true})),
        };
    }
    let write = |path: &str| json!({"path": path, "content": format!("mine {round}\n"), "overwrite": true});
    let onto = |from: &str, to: &str| json!({"files": [{"from": from, "to": to, "overwrite": true}]});
    match round % 10 {
        0 => ("coder::create-file", json!({"files": [write(FILE)]})),
        1 => ("coder::create-file", json!({"files": [write(&format!("place/d/new{}", round % 7))]})),
        2 => ("coder::create-file", json!({"files": [write(FILE), write("place/d/n/e/w")], "atomic": true})),
        3 => {
            let op = json!({"op": "update_lines", "from_line": 1, "to_line": 1, "content": format!("{round}")});
            ("coder::update-file", json!({"files": [{"path": FILE, "ops": [op]}]}))
        }
        4 => ("coder::copy", onto("inside.txt", FILE)),
        5 => ("coder::copy", onto(FILE, &loot)),
        6 => ("coder::move", onto(&loot, FILE)),
        7 => ("coder::delete-file", json!({"paths": [FILE, "place/d/n"], "recursive": true})),
        8 => ("coder::mkdir", json!({"paths": ["place/d/made", "place/d/n/e"]})),
        _ => ("coder::delete-file", json!({"paths": ["place/d/made", format!("place/d/new{}", round % 7)]})),
    }
}

/// Done; missing; a link stood there; something else has the name; it changed too fast, or a batch met such a thing.
const KNOWN: [&str; 6] = ["ok", "C211", "C215", "C216", "C217", "C222"];

fn race(jail: &TestJail, attacker: Attacker) -> (BTreeMap<String, u64>, u64) {
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut answers = BTreeMap::<String, u64>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                attacker.turn(&jail.root);
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut client = jail.connect();
        let mut round = 0;
        while round < rounds() {
            for _ in 0..PIPELINE {
                let (function, params) = request(attacker, round);
                client.send(function, params);
                round += 1;
            }
            for _ in 0..PIPELINE {
                let mut line = client.line().expect("the connection holds");
                let reply = match line.get_mut("error") {
                    Some(error) => Err(Failure::Error(error.take())),
                    None => Ok(line["result"].take()),
                };
                outcomes(&reply).into_iter().for_each(|one| *answers.entry(one).or_default() += 1);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    (answers, turns.load(Ordering::Relaxed))
}

/// The content of every file in the root, our own state included: nothing of the canaries.
fn assert_no_loot(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            assert_no_loot(&entry.path());
        } else if kind.is_file() {
            let content = fs::read(entry.path()).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains(SECRET), "{:?}", entry.path());
            assert!(!entry.file_name().to_string_lossy().starts_with(".stockade-tmp"), "{:?}", entry.path());
        }
    }
}

fn hold(case: &str, attacker: Attacker) {
    for build in Build::attacked() {
        let options = Options { in_memory: true, ..build.options() };
        let jail = TestJail::with_tree(options, plant);
        let (answers, turns) = race(&jail, attacker);
        println!("{case} {build:?}: {turns} turns, {answers:?}");
        assert!(turns > 0, "the attacker never came to it");
        assert!(answers.get("ok").is_some_and(|count| *count > 0), "nothing was ever done: {answers:?}");
        if build == Build::Normal {
            let odd: Vec<_> = answers.keys().filter(|code| !KNOWN.contains(&code.as_str())).collect();
            assert!(odd.is_empty(), "{odd:?} among {answers:?}");
        }
        let escapes = match jail.canaries.are_untouched() {
            true => Vec::new(),
            false => vec!["a canary was touched".to_owned()],
        };
        layers::judge(case, build, &escapes);
        assert_no_loot(&jail.root);
        jail.assert_intact();
    }
}

#[test]
fn changes_in_a_folder_swapped_with_a_link_never_escape() {
    hold("changes_in_a_folder_swapped_with_a_link_never_escape", Attacker::Folder);
}

#[test]
fn changes_of_a_file_swapped_with_a_link_never_escape() {
    hold("changes_of_a_file_swapped_with_a_link_never_escape", Attacker::File);
}

#[test]
fn trees_that_are_deleted_while_a_folder_in_them_becomes_a_link_never_escape() {
    hold("trees_that_are_deleted_while_a_folder_in_them_becomes_a_link_never_escape", Attacker::Tree);
}
