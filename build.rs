//! Turns `policy/seccomp/worker.toml` into the table that `confine::linux::seccomp` compiles into a filter.
//! At build time, so that the worker carries no TOML parser and a list with a mistake never ships. Also describes the build for
//! `stockade --version`.

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

const LIST: &str = "policy/seccomp/worker.toml";
/// A reason shorter than this is not one.
const SHORTEST_REASON: usize = 5;
/// This many digits of a commit tell it apart from millions of others.
const COMMIT_DIGITS: usize = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    syscall: Vec<Syscall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Syscall {
    name: String,
    why: String,
    when: Option<Vec<Condition>>,
    any: Option<Vec<Vec<Condition>>>,
    #[serde(default)]
    writable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    arg: u8,
    mask: Option<u64>,
    is: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Name(String),
}

fn main() {
    println!("cargo::rerun-if-changed={LIST}");
    println!("cargo::rerun-if-changed=build.rs");
    let text = fs::read_to_string(LIST).expect("the list is part of the package");
    let list: List = toml::from_str(&text).unwrap_or_else(|error| panic!("{LIST}: {error}"));
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("seccomp_worker.rs");
    fs::write(out, table(&list)).expect("cargo's output folder is writable");
    describe_build();
}

/// What `stockade --version` says about the build. A debug build does not name its commit: it changes with every edit, and each
/// commit would compile the crate again.
fn describe_build() {
    let target = env::var("TARGET").expect("cargo sets it");
    let commit = env::var("PROFILE").is_ok_and(|profile| profile == "release").then(commit).flatten();
    let commit = commit.map_or_else(String::new, |commit| format!("commit {}, ", &commit[..COMMIT_DIGITS]));
    println!("cargo::rustc-env=STOCKADE_BUILD={commit}target {target}");
}

/// The commit that is checked out, if the package is a clone. Read from git's files, not by its program: git refuses the clone of
/// another user, and the same commit has to give the same bytes for every user who builds it.
fn commit() -> Option<String> {
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut git = PathBuf::from(".git");
    // In a worktree a file names the folder, and that folder the one with the branches.
    if let Some(folder) = read(&git).and_then(|text| text.strip_prefix("gitdir: ").map(PathBuf::from)) {
        git = folder;
    }
    let common = read(&git.join("commondir")).map_or_else(|| git.clone(), |folder| git.join(folder));
    let head = read(&git.join("HEAD"))?;
    for file in ["HEAD", "logs/HEAD"].map(|name| git.join(name)) {
        // A file that is missing would run this program again at every build.
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let commit = match head.strip_prefix("ref: ") {
        None => head,
        Some(branch) => read(&git.join(branch)).or_else(|| read(&common.join(branch))).or_else(|| {
            let packed = read(&common.join("packed-refs"))?;
            packed.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(' ').map(str::to_owned))
        })?,
    };
    let is_commit = commit.len() >= COMMIT_DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then_some(commit)
}

fn table(list: &List) -> String {
    let mut seen = BTreeSet::new();
    let mut code = String::from("&[\n");
    for call in &list.syscall {
        assert!(seen.insert(&call.name), "{LIST}: {} is listed twice", call.name);
        assert!(call.why.trim().len() >= SHORTEST_REASON, "{LIST}: {} has no reason", call.name);
        assert!(
            call.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "{LIST}: {:?} is no syscall name",
            call.name
        );
        let alternatives = match (&call.when, &call.any) {
            (None, None) => String::new(),
            (Some(all), None) => alternative(&call.name, all),
            (None, Some(any)) => any.iter().map(|all| alternative(&call.name, all)).collect(),
            (Some(_), Some(_)) => panic!("{LIST}: {} has both `when` and `any`", call.name),
        };
        let Syscall { name, why, writable, .. } = call;
        writeln!(
            code,
            "AllowedCall {{ name: {name:?}, number: nr::SYS_{name}, why: {why:?}, when: &[{alternatives}], writable: {writable} }},"
        )
        .expect("writing to a string");
    }
    code + "]\n"
}

fn alternative(name: &str, conditions: &[Condition]) -> String {
    assert!(!conditions.is_empty(), "{LIST}: {name} has an empty condition");
    let conditions: String = conditions
        .iter()
        .map(|Condition { arg, mask, is }| {
            assert!(*arg < 6, "{LIST}: {name} has no argument {arg}");
            let is = match is {
                Value::Number(number) => format!("ExpectedArgument::Number({number})"),
                Value::Name(word) if word == "own-pid" => "ExpectedArgument::WorkerPid".to_string(),
                Value::Name(word) => panic!("{LIST}: {name}: {word:?} is not a value"),
            };
            format!("ArgumentCondition {{ arg: {arg}, mask: {mask:?}, is: {is} }}, ")
        })
        .collect();
    format!("&[{conditions}], ")
}
