//! Ignore files against git itself, on trees and rules that nobody would write.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use super::{
    differential::path_below,
    support::random::{Random, seed},
    support::{Client, Options, TestJail, Value, json},
};

const TREES: usize = 500;
const NAMES: &[&str] = &[
    "a", "b", "ab", "a.o", "b.o", "x.txt", "a b", "#a", "!a", "[a]", "a\\", "foo", "é", "build", "d", "A", "a.", ".h",
    "a-b", "**",
];
const PIECES: &[&str] = &[
    "a",
    "b",
    "d",
    "foo",
    "build",
    ".o",
    "*",
    "*",
    "?",
    "[ab]",
    "[!a]",
    "[^b]",
    "**",
    "/",
    "/",
    "\\",
    "[[:alpha:]]",
    "[a-d]",
    "é",
    " ",
    ".",
    "-",
    "[]a]",
    "[a-]",
    "[",
    "]",
    "\\*",
    "#",
    "!",
    "{a,b}",
    "[\\]]",
    "\t",
];

/// A repository as far as git looks before it answers about rules.
fn make_repository(root: &Path) {
    for folder in ["objects", "refs", "info"] {
        fs::create_dir_all(root.join(".git").join(folder)).unwrap();
    }
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
}

fn rules(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..=random.below(5) {
        text.push_str(random.pick(&["", "", "", "!", "/", "\\", "#", "**/", "!/"]));
        match random.one_in(2) {
            true => text.push_str(random.pick(NAMES)),
            false => (0..=random.below(4)).for_each(|_| text.push_str(random.pick(PIECES))),
        }
        text.push_str(random.pick(&["", "", "", "/", "/**", "/*", " ", "\\ ", "\r", "  "]));
        text.push_str(random.pick(&["\n", "\n", "\n\n", "\r\n"]));
    }
    text
}

/// Files and folders by the same few names, and rules in some of the folders.
fn plant(random: &mut Random, folder: &Path, depth: usize) {
    fs::create_dir_all(folder).unwrap();
    for _ in 0..4 + random.below(4) {
        let path = folder.join(random.pick(NAMES));
        if path.exists() {
            continue;
        }
        match depth > 0 && random.one_in(3) {
            true => plant(random, &path, depth - 1),
            false => fs::write(&path, "").unwrap(),
        }
    }
    if random.one_in(2) {
        fs::write(folder.join(".gitignore"), rules(random)).unwrap();
    }
}

/// Every name below a folder, relative to it.
fn names(top: &Path, folder: &Path, found: &mut BTreeSet<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != ".git") {
        let path = entry.path();
        found.insert(path.strip_prefix(top).unwrap().as_os_str().as_encoded_bytes().to_vec());
        if entry.file_type().unwrap().is_dir() {
            names(top, &path, found);
        }
    }
}

/// What git would ignore of these.
fn ignored_by_git(root: &Path, all: &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
    let mut git = Command::new("git")
        .args(["check-ignore", "--no-index", "--stdin", "-z"])
        .current_dir(root)
        // Neither the rules nor the settings of the person who runs the tests.
        .envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("HOME", "/nonexistent"),
            ("XDG_CONFIG_HOME", "/nonexistent"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut asked = Vec::new();
    all.iter().for_each(|name| asked.extend_from_slice(&[name, b"\0".as_slice()].concat()));
    git.stdin.take().unwrap().write_all(&asked).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "git: {:?}", output.status);
    output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Names that `coder::tree` shows, relative to its folder.
fn names_of_tree(client: &mut Client, folder: &str) -> BTreeSet<Vec<u8>> {
    fn add(folder: &Value, path: &str, found: &mut BTreeSet<Vec<u8>>) {
        for child in folder["children"].as_array().into_iter().flatten() {
            let path = format!("{path}{}", child["name"].as_str().unwrap());
            if child["name"] != ".git" {
                add(child, &format!("{path}/"), found);
                found.insert(path.into_bytes());
            }
        }
    }
    let request = json!({"path": folder, "gitignore": true, "use_default_excludes": false, "max_depth": 20});
    let reply = client.call("coder::tree", request).unwrap();
    let mut found = BTreeSet::new();
    add(&reply["root"], "", &mut found);
    found
}

#[track_caller]
fn assert_agrees(client: &mut Client, jail: &TestJail, tree: &str) {
    let top = if tree.is_empty() { jail.root.clone() } else { jail.root.join(tree) };
    let mut all = BTreeSet::new();
    names(&top, &top, &mut all);
    let ignored = ignored_by_git(&top, &all);
    let request = json!({"paths": [if tree.is_empty() { "." } else { tree }], "sort": "path", "limit": 10_000, "use_default_excludes": false});
    let reply = client.call("coder::find", request).unwrap();
    let found = reply["files"].as_array().unwrap().iter();
    let ours: BTreeSet<Vec<u8>> = found.map(|found| path_below(&top, found)).collect();
    let theirs: BTreeSet<Vec<u8>> = all.difference(&ignored).cloned().collect();
    if ours == theirs {
        let folder = if tree.is_empty() { "." } else { tree };
        assert_eq!(names_of_tree(client, folder), ours, "{tree}: the tree shows what is found");
        return;
    }
    let show = |names: Vec<&Vec<u8>>| {
        names.into_iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
    };
    let mut text = format!(
        "{tree}: only ours: {:?}, only git's: {:?}",
        show(ours.difference(&theirs).collect()),
        show(theirs.difference(&ours).collect())
    );
    let files =
        all.iter().map(|name| String::from_utf8_lossy(name).into_owned()).filter(|name| name.ends_with(".gitignore"));
    files.for_each(|name| text.push_str(&format!("\n{name}: {:?}", fs::read_to_string(top.join(&name)).unwrap())));
    panic!("{text}");
}

fn jail() -> TestJail {
    // Names such as `a.key` are not among ours, so nothing is denied here.
    TestJail::with(Options { in_memory: true, ..Options::default() })
}

#[test]
fn git_ignores_the_same() {
    let seed = seed("git_ignores_the_same");
    let (jail, mut random) = (jail(), Random::new(seed));
    let mut client = jail.connect();
    for number in 0..TREES {
        let tree = format!("t{number}");
        plant(&mut random, &jail.root.join(&tree), 3);
        make_repository(&jail.root.join(&tree));
        assert_agrees(&mut client, &jail, &tree);
    }
}

#[test]
fn the_roots_own_list_counts_as_with_git() {
    let seed = seed("the_roots_own_list_counts_as_with_git");
    let mut random = Random::new(seed);
    for _ in 0..8 {
        let jail = jail();
        plant(&mut random, &jail.root, 3);
        make_repository(&jail.root);
        fs::write(jail.root.join(".git/info/exclude"), rules(&mut random)).unwrap();
        assert_agrees(&mut jail.connect(), &jail, "");
    }
}
