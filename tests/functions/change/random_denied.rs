//! Deny and protect globs against random sequences of all changing functions. After every call: no name exists that `create`
//! would refuse, unless it existed before that call; and every protected name is as it was.
//!
//! The oracle is `create` itself, asked about every name on disk: it answers C211 for a denied name, C221 for a protected one,
//! and something else for one that merely exists.

use std::{collections::BTreeSet, os::unix::fs::symlink};

use super::*;
use crate::support::{
    Client,
    random::{Random, seed},
};

/// Few, so that paths meet each other and the globs.
const NAMES: &[&str] = &["a", "b", ".git", "config", "S", "in", "link"];
const GLOBS: &[&str] = &[
    "**/.git/**",
    "**/.git/config",
    "**/config",
    "a/b/config",
    "b/**",
    "**/s",
    "*/s/*",
    "a/*/b",
    "**/b/**/config",
    ".git",
    "**/in/a",
];

fn times() -> usize {
    std::env::var("STOCKADE_SOAK_CHANGES").map_or(24, |times| times.parse().expect("a number"))
}

fn policy(random: &mut Random) -> String {
    // Not many of both: something has to be left to change.
    let (most_denied, most_protected) =
        [(4, 1), (1, 4), (2, 2), (1, 3), (2, 1), (1, 2), (2, 1), (1, 2)][random.below(8)];
    let mut globs = |most| (0..random.below(most)).map(|_| random.pick(GLOBS)).collect::<BTreeSet<&str>>();
    let (deny, protect, except) = (globs(most_denied), globs(most_protected), globs(2));
    let links = random.pick(&["refuse", "beneath"]);
    format!(
        "durability = \"none\"\n[[root]]\npath = \"ROOT\"\nsymlinks = \"{links}\"\n\
         [[root]]\npath = \"ROOT/a/in\"\nallow_nested = true\noptional = true\n\
         [deny]\nnon_accessible_globs = {deny:?}\n\
         [protect]\nread_only_globs = {protect:?}\nexcept_globs = {except:?}\n[trash]\nenabled = true\n"
    )
    .replace("{\"", "[\"")
    .replace("\"}", "\"]")
    .replace("{}", "[]")
}

fn path(random: &mut Random) -> String {
    let depth = 1 + random.below(3);
    (0..depth).map(|_| random.pick(NAMES)).collect::<Vec<_>>().join("/")
}

/// One call, and what it is for a failure's text.
fn random_call(random: &mut Random, trashed: &[String]) -> (&'static str, Value) {
    let function = random.pick(&[CREATE, MKDIR, MOVE, MOVE, MOVE, COPY, COPY, DELETE, RESTORE]);
    let function = *[CREATE, MKDIR, MOVE, COPY, DELETE, RESTORE].iter().find(|name| **name == function).unwrap();
    if function == RESTORE {
        let ids: Vec<&String> = trashed.iter().rev().take(1 + random.below(3)).collect();
        return (function, json!({"ids": ids, "overwrite": random.one_in(2)}));
    }
    let entry = |random: &mut Random| match function {
        MOVE | COPY => {
            let mut entry = json!({"from": path(random), "to": path(random)});
            entry["overwrite"] = json!(random.one_in(2));
            entry["parents"] = json!(!random.one_in(4));
            if function == COPY {
                entry["recursive"] = json!(true);
            }
            entry
        }
        CREATE => json!({"path": path(random), "content": "x", "overwrite": random.one_in(2)}),
        _ => json!({"path": path(random)}),
    };
    let entries: Vec<Value> = (0..1 + random.below(3)).map(|_| entry(random)).collect();
    let list = if matches!(function, MKDIR | DELETE) { "paths" } else { "files" };
    let mut request = json!({ list: entries, "atomic": random.one_in(2) });
    if function == DELETE {
        request["recursive"] = json!(true);
        request["trash"] = json!(!random.one_in(4));
    }
    if random.one_in(6) {
        request["base_dir"] = json!(random.pick(&["a", "b", "a/link"]));
    }
    (function, request)
}

/// Names on disk that `create` refuses: denied, and protected.
fn refused_names(jail: &TestJail, client: &mut Client) -> [BTreeSet<String>; 2] {
    let names: Vec<String> = everything(&jail.root).into_keys().collect();
    let mut refused = [BTreeSet::new(), BTreeSet::new()];
    for names in names.chunks(100) {
        let entries: Vec<Value> = names.iter().map(|name| json!({"path": name, "content": "x"})).collect();
        let results = results(client.call(CREATE, json!({ "files": entries })));
        for (found, code) in refused.iter_mut().zip(["C211", "C221"]) {
            let by_code = names.iter().zip(&results).filter(|(_, result)| result["error"]["code"] == code);
            found.extend(by_code.map(|(name, _)| name.clone()));
        }
        assert!(results.iter().all(|result| result["success"] == json!(false)), "{names:?} exist: {results:?}");
    }
    refused
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("b/a")).unwrap();
    fs::write(root.join("b/config"), "x").unwrap();
    fs::write(root.join("b/a/config"), "x").unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink("../b", root.join("a/link")).unwrap();
    symlink("a/b", root.join("link")).unwrap();
}

#[test]
fn no_call_brings_about_a_name_that_create_refuses() {
    let seed = seed("denied names");
    let (mut calls, mut changed, mut refusals, mut protected) = (0, 0, 0, 0);
    for round in 0..times() {
        let mut random = Random::new(seed.wrapping_add(round as u64));
        let options =
            |random: &mut Random| Options { in_memory: true, policy: Some(policy(random)), ..Options::default() };
        let mut jail = TestJail::with_tree(options(&mut random), plant);
        let mut trashed: Vec<String> = Vec::new();
        let mut log: Vec<String> = Vec::new();
        for phase in 0..3 {
            if phase > 0 {
                // Other globs, the same tree and trash.
                jail.restart(&options(&mut random));
            }
            let mut client = jail.connect();
            let mut before = refused_names(&jail, &mut client);
            for _ in 0..30 {
                let tree = everything(&jail.root);
                let (function, request) = random_call(&mut random, &trashed);
                if function == RESTORE && trashed.is_empty() {
                    continue;
                }
                log.push(format!("{function} {request}"));
                let results = results(client.call(function, request));
                calls += 1;
                let is_refused = |result: &&Value| ["C211", "C221"].map(Value::from).contains(&result["error"]["code"]);
                refusals += results.iter().filter(is_refused).count();
                trashed.extend(results.iter().filter_map(|result| Some(result["trash_id"].as_str()?.to_owned())));
                let after = refused_names(&jail, &mut client);
                let now = everything(&jail.root);
                changed += usize::from(now != tree);
                for (before, after) in before.iter().zip(&after) {
                    let new: Vec<_> = after.difference(before).collect();
                    assert!(new.is_empty(), "round {round}: {new:?} came about by\n{}", log.join("\n"));
                }
                for name in &before[1] {
                    assert_eq!(tree.get(name), now.get(name), "round {round}: {name}: {}", log.join("\n"));
                }
                protected += before[1].len();
                before = after;
            }
        }
        jail.canaries.assert_untouched();
    }
    println!(
        "{calls} calls, {changed} changed something, {refusals} entries were C211 or C221, {protected} names stayed"
    );
    assert!(
        changed * 5 > calls && refusals > calls / 10 && protected > calls / 10,
        "too little happens: {changed}, {refusals} and {protected} of {calls}"
    );
}
