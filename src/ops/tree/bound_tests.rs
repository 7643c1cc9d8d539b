//! Limits of a reply: its bytes, its depth, and that the note of every cut names a call that works.

use serde_json::{Value, json};

use super::{tests::tree, *};
use crate::{jail::testing::TestJail, wire::types::ListFolder};

/// Bytes of a reply without any budget: its paths, its first node, and the reason why that has no children.
const UNAVOIDABLE_BYTES: u64 = 600;

/// Some levels, wide and narrow folders, names of all lengths and some that need escapes.
fn grove(test: &TestJail) {
    for folder in ["a", "a/deep", "a/deep/er", "b \"quoted\" \\ \u{1}", "c", "c/long"] {
        for i in 0..12 {
            test.write(&format!("{folder}/file {i}"), "x".repeat(i));
        }
    }
    test.write(&format!("c/long/{}", "n".repeat(250)), "");
    test.write("d/target/x", "");
    std::fs::create_dir_all(test.raw(b"e/\xff\xfe")).unwrap();
    std::fs::create_dir(test.path("f")).unwrap();
}

fn bytes(reply: &Value) -> u64 {
    reply.to_string().len() as u64
}

/// Every node and the path that leads to it.
fn nodes(root: &Value) -> Vec<(String, &Value)> {
    let mut all = vec![(String::new(), root)];
    let mut at = 0;
    while at < all.len() {
        let (path, node) = all[at].clone();
        for child in node["children"].as_array().into_iter().flatten() {
            all.push((format!("{path}/{}", child["name"].as_str().unwrap()), child));
        }
        at += 1;
    }
    all
}

#[test]
fn no_reply_is_larger_than_its_budget_and_every_cut_is_told() {
    let mut test = TestJail::new();
    grove(&test);
    let whole = test.run::<Tree>(json!({})).unwrap();
    let everything: Vec<String> = nodes(&whole["root"]).into_iter().map(|(path, _)| path).collect();
    assert!(everything.len() > 80 && bytes(&whole) > 4000);
    let mut cut = 0;
    for budget in (1..=bytes(&whole) + 600).step_by(41) {
        test.limits.tree_response_budget_bytes = budget;
        let reply = test.run::<Tree>(json!({})).unwrap();
        assert!(bytes(&reply) <= budget.max(UNAVOIDABLE_BYTES), "{} bytes of {budget}: {reply}", bytes(&reply));
        let shown = nodes(&reply["root"]);
        for (path, node) in &shown {
            assert!(everything.contains(path), "{path}");
            check_count(path, node, &everything);
        }
        cut += u32::from(shown.len() < everything.len());
    }
    assert!(cut > 50, "most of these budgets are too small");
    assert_eq!(test.run::<Tree>(json!({})).unwrap(), whole, "and the last one is not");
}

/// Checks that all children are there, or that `truncated` says how many are not.
fn check_count(path: &str, node: &Value, everything: &[String]) {
    let is_child =
        |other: &&String| other.strip_prefix(path).is_some_and(|rest| rest.rfind('/') == Some(0) && rest.len() > 1);
    let really = everything.iter().filter(is_child).count();
    let shown = node["children"].as_array().map_or(0, Vec::len);
    match node.get("truncated") {
        None => assert_eq!(shown, really, "{path}"),
        Some(why) => {
            assert_eq!(why["shown"], shown, "{path}");
            assert!(why.get("total").is_none_or(|total| total == really), "{path}");
            assert_eq!(node.get("children").is_some(), shown > 0, "{path}");
        }
    }
}

#[test]
fn a_budget_shows_the_top_before_any_branch() {
    let mut test = TestJail::new();
    for top in 0..20 {
        (0..20).for_each(|i| test.write(&format!("d{top:02}/sub/f{i}"), ""));
    }
    test.limits.tree_response_budget_bytes = 8000;
    let root = tree(&test, json!({}));
    let tops = root["children"].as_array().unwrap();
    assert_eq!(tops.len(), 20);
    assert!(tops.iter().all(|top| top["children"].as_array().is_some_and(|subs| subs.len() == 1)), "{root}");
    assert!(tops.iter().any(|top| top["children"][0]["truncated"]["reason"] == "budget"));
}

#[test]
fn after_the_first_cut_later_folders_are_stubs() {
    let mut test = TestJail::new();
    (0..200).for_each(|i| test.write(&format!("a/{i:03}"), ""));
    test.write("b/x", "");
    test.limits.tree_response_budget_bytes = 4000;
    let root = tree(&test, json!({"per_folder_limit": 1000}));
    let (a, b) = (&root["children"][0], &root["children"][1]);
    let shown = a["children"].as_array().unwrap().len();
    assert_eq!((&a["truncated"]["reason"], &a["truncated"]["total"]), (&"budget".into(), &200.into()));
    assert!(shown > 20 && a["truncated"]["shown"] == shown, "{shown}");
    assert_eq!((&b["truncated"]["reason"], &b["truncated"]["shown"]), (&"budget".into(), &0.into()));
    assert!(b.get("children").is_none() && b["truncated"].get("total").is_none());
}

#[test]
fn every_hint_names_a_call_that_works() {
    let mut test = TestJail::new();
    grove(&test);
    let mut followed = std::collections::BTreeSet::new();
    for (budget, request) in [
        (3000, json!({"max_depth": 9})),
        (262_144, json!({"max_depth": 1})),
        (262_144, json!({"path": "./c/", "per_folder_limit": 3, "max_depth": 1})),
        (262_144, json!({"path": test.path("d")})),
    ] {
        test.limits.tree_response_budget_bytes = budget;
        let root = tree(&test, request);
        test.limits.tree_response_budget_bytes = 262_144;
        for (_, node) in nodes(&root) {
            let Some(hint) = node["truncated"]["hint"].as_str() else { continue };
            let (_, call) = hint.split_once("call coder::").unwrap_or_else(|| panic!("{hint}"));
            let (function, rest) = call.split_once(' ').unwrap();
            let request: Value = serde_json::Deserializer::from_str(rest).into_iter().next().unwrap().unwrap();
            match function {
                "tree" => assert_eq!(tree(&test, request)["name"], node["name"], "{hint}"),
                "list-folder" => {
                    let listing = test.run::<ListFolder>(request).unwrap();
                    assert_eq!(listing["total"], node["truncated"]["total"], "{hint}");
                }
                other => panic!("{other}"),
            }
            followed.insert(node["truncated"]["reason"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(
        followed.into_iter().collect::<Vec<_>>(),
        ["budget", "default_exclude", "max_depth", "per_folder_limit"]
    );
}

#[test]
fn paths_longer_than_the_kernel_takes_are_walked_to_the_last_level() {
    let test = TestJail::new();
    let name = "n".repeat(200);
    let mut dir = rustix::fs::open(test.root(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..60 {
        rustix::fs::mkdirat(&dir, name.as_str(), rustix::fs::Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, name.as_str(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    let root = tree(&test, json!({"max_depth": 1000}));
    let all = nodes(&root);
    assert_eq!(all.len(), 49, "48 levels below the folder");
    let (path, last) = all.last().unwrap();
    assert!(path.len() > 9000);
    assert_eq!(last["truncated"]["reason"], "max_depth");
    assert!(last["truncated"]["hint"].as_str().unwrap().contains("longer than a call can name"));
    remove_deep(test.root(), &name);
}

/// The standard library removes by path; this goes from the bottom of what it can reach.
fn remove_deep(root: &std::path::Path, name: &str) {
    // Each round moves a lower half to the top until every path is short.
    let top = root.join(name);
    let mut from = root.to_owned();
    (0..15).for_each(|_| from.push(name));
    let mut round = 0;
    while from.exists() {
        std::fs::rename(&from, root.join(format!("cut{round}"))).unwrap();
        std::fs::remove_dir_all(&top).unwrap();
        std::fs::rename(root.join(format!("cut{round}")), &top).unwrap();
        round += 1;
    }
}

#[test]
fn folders_too_large_for_the_budget_are_not_held_in_memory() {
    let mut test = TestJail::new();
    (0..3000).for_each(|i| test.write(&format!("d/{:04}", i * 7 % 3000), ""));
    test.limits.tree_response_budget_bytes = 2000;
    let root = tree(&test, json!({"path": "d", "per_folder_limit": u32::MAX}));
    let names: Vec<_> = root["children"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..names.len()).map(|i| format!("{i:04}")).collect::<Vec<_>>());
    assert!(names.len() > 10);
    assert_eq!((&root["truncated"]["reason"], &root["truncated"]["total"]), (&"budget".into(), &3000.into()));
}
