//! `coder::find` against `rg --files` and fd: the same names, apart from denied ones and `.git`.

use std::{collections::BTreeSet, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{
    corpus,
    differences::{Differences, Side},
    differential::path_below,
    query::Query,
    ripgrep::run,
    support::random::{Random, seed},
    support::{Client, Options, TestJail, Value, json},
};

/// Questions of an ordinary run, to each of the two.
const QUERIES: usize = 150;

type Names = BTreeSet<Vec<u8>>;

/// Parts of globs that all three read alike.
const NAMES: &[&str] = &[
    "*",
    "*.rs",
    "*.txt",
    "f?.rs",
    "f1*",
    "[ab]*",
    "*.[ch]",
    "*.{rs,md}",
    "{a,b}",
    "?",
    ".*",
    "*é*",
    "*.o",
    "su[b]",
    "x*",
    "{build,sub}",
];
const FOLDERS: &[&str] =
    &["plain", "plain/a", "plain/*", "ignored/*", "ignored/**", "**", "deep/d/d", "p*/[ab]", "wide", "names"];

fn glob(random: &mut Random) -> String {
    match random.one_in(2) {
        true => format!("{}/{}", random.pick(FOLDERS), random.pick(NAMES)),
        false => random.pick(NAMES).to_owned(),
    }
}

fn ours(client: &mut Client, jail: &TestJail, mut request: Value) -> Names {
    let mut names = Names::new();
    loop {
        let mut reply = client.call("coder::find", request.clone()).unwrap();
        let found = reply["files"].as_array().unwrap();
        names.extend(found.iter().map(|found| path_below(&jail.root, found)));
        if reply["next_cursor"].is_null() {
            assert_eq!(reply["truncated"], false, "{reply}");
            return names;
        }
        request["cursor"] = reply["next_cursor"].take();
    }
}

/// As `find` reads them: a star stops at a slash, and a glob without a folder is for every depth.
fn chosen_by(globs: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = if glob.contains('/') { glob.clone() } else { format!("**/{glob}") };
        set.add(GlobBuilder::new(&glob).literal_separator(true).build().unwrap());
    }
    set.build().unwrap()
}

/// What a program printed, one name per NUL.
fn listed(output: &[u8]) -> Names {
    let names = output.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| name.strip_prefix(b"./").unwrap_or(name))
        .map(|name| name.strip_suffix(b"/").unwrap_or(name).to_vec())
        .collect()
}

fn assert_same(differences: &Differences, gitignore: bool, what: &str, ours: &Names, theirs: &Names) {
    let query = Query { gitignore, ..Query::default() };
    let is_new = |name: &Vec<u8>, side| differences.allowing(&query, side, name, b"").is_none();
    let missing: Vec<_> = theirs.difference(ours).filter(|name| is_new(name, Side::Ripgrep)).collect();
    let extra: Vec<_> = ours.difference(theirs).filter(|name| is_new(name, Side::Ours)).collect();
    let show = |names: &[&Vec<u8>]| {
        names.iter().take(8).map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
    };
    assert!(missing.is_empty() && extra.is_empty(), "{what}\nmissing: {:?}\nextra: {:?}", show(&missing), show(&extra));
}

fn jail(seed: u64) -> TestJail {
    TestJail::with_tree(Options { in_memory: true, ..Options::default() }, |root| corpus::plant(root, seed))
}

#[test]
fn files_are_those_of_ripgrep() {
    let seed = seed("files_are_those_of_ripgrep");
    let (jail, mut random, differences) = (jail(seed), Random::new(seed), Differences::read());
    let mut client = jail.connect();
    for _ in 0..QUERIES {
        let globs: Vec<String> = (0..=random.below(2)).map(|_| glob(&mut random)).collect();
        let (gitignore, hidden) = (random.one_in(2), !random.one_in(3));
        let mut arguments: Vec<String> =
            ["--no-config", "--files", "--null", "--no-messages", "--threads=1", "--no-ignore-global"]
                .map(Into::into)
                .into();
        arguments.extend((!gitignore).then(|| "--no-ignore".into()));
        arguments.extend(hidden.then(|| "--hidden".into()));
        // ripgrep's own globs would overrule its ignore files.
        arguments.push("--glob=!.git".into());
        let request = json!({"paths": globs, "kind": "file", "gitignore": gitignore, "hidden": hidden, "sort": "path",
            "limit": random.below(300) + 20, "use_default_excludes": false});
        let what = format!("{request} {arguments:?}");
        let chosen = chosen_by(&globs);
        let mut theirs = listed(&run("rg", &jail.root, &arguments).stdout);
        theirs.retain(|name| chosen.is_match(Path::new(OsStr::from_bytes(name))));
        assert_same(&differences, gitignore, &what, &ours(&mut client, &jail, request), &theirs);
    }
}

#[test]
fn files_and_folders_are_those_of_fd() {
    let seed = seed("files_and_folders_are_those_of_fd");
    let (jail, mut random, differences) = (jail(seed), Random::new(seed), Differences::read());
    let mut client = jail.connect();
    for _ in 0..QUERIES {
        let glob = random.pick(NAMES);
        let (gitignore, hidden) = (random.one_in(2), !random.one_in(3));
        let kind = random.pick(&["any", "file", "dir"]);
        let mut arguments: Vec<String> =
            ["--glob", "--print0", "--color=never", "--threads=1", "--case-sensitive", "--exclude=.git"]
                .map(Into::into)
                .into();
        arguments.extend((!gitignore).then(|| "--no-ignore".into()));
        arguments.extend(hidden.then(|| "--hidden".into()));
        arguments.extend((kind != "any").then(|| format!("--type={}", &kind[..1])));
        arguments.extend(["--".into(), glob.to_owned()]);
        let request = json!({"paths": [glob], "kind": kind, "gitignore": gitignore, "hidden": hidden, "sort": "path",
            "limit": 10_000, "use_default_excludes": false});
        let what = format!("{request} {arguments:?}");
        let theirs = listed(&run("fdfind", &jail.root, &arguments).stdout);
        assert_same(&differences, gitignore, &what, &ours(&mut client, &jail, request), &theirs);
    }
}
