//! A walk that starts in an outer root obeys the rules of the roots inside it.

use std::{fs, os::unix::fs::symlink};

use crate::support::{Options, TestJail, Value, in_own_mounts, json};

fn policy(outer: &str, inner: &str) -> String {
    format!(
        "[[root]]\npath = \"ROOT\"\n{outer}\n[[root]]\npath = \"ROOT/a/in\"\nallow_nested = true\n{inner}\n[workers]\npool = 0\n"
    )
}

/// The files that hold `needle`, below `path`.
fn found(jail: &TestJail, path: &str) -> Vec<String> {
    let reply = jail.call("coder::search", json!({"query": "needle", "path": path, "files_only": true})).unwrap();
    let root = format!("{}/", jail.root.display());
    let name = |file: &Value| file.as_str().or(file["path"].as_str()).unwrap().replace(&root, "");
    let list = reply.get("files").or(reply.get("results")).or(reply.get("matches")).unwrap();
    list.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn the_inner_rule_about_hard_links_holds_from_outside() {
    for (outer, inner, expected) in [
        ("", "hardlinks = \"refuse\"", vec!["a/in/single", "a/twice", "single"]),
        ("hardlinks = \"refuse\"", "", vec!["a/in/single", "a/in/twice", "single"]),
    ] {
        let options = Options { policy: Some(policy(outer, inner)), ..Options::default() };
        let jail = TestJail::with_tree(options, |root| {
            fs::create_dir_all(root.join("a/in")).unwrap();
            for name in ["a/in/single", "a/twice", "single"] {
                fs::write(root.join(name), "needle").unwrap();
            }
            fs::hard_link(root.join("a/twice"), root.join("a/in/twice")).unwrap();
        });
        for top in [".", "a"] {
            let expected: Vec<_> = expected.iter().filter(|name| top == "." || name.starts_with("a/")).collect();
            assert_eq!(found(&jail, top).iter().collect::<Vec<_>>(), expected, "{outer:?} {inner:?} {top}");
        }
    }
}

#[test]
fn the_inner_rule_about_mounts_holds_from_outside() {
    // Folders are mounted in the outer and in the inner root.
    let script = "mount -t tmpfs tmpfs $d/root/m && echo needle >$d/root/m/f && \
                  mount -t tmpfs tmpfs $d/root/a/in/m && mkdir $d/root/a/in/m/deep && echo needle >$d/root/a/in/m/deep/f";
    for (outer, inner, expected) in [
        ("cross_mounts = true", "", vec!["a/in/f", "m/f"]),
        ("", "cross_mounts = true", vec!["a/in/f", "a/in/m/deep/f"]),
    ] {
        let options =
            Options { policy: Some(policy(outer, inner)), through: in_own_mounts(script), ..Options::default() };
        let jail = TestJail::with_tree(options, |root| {
            fs::create_dir_all(root.join("a/in/m")).unwrap();
            fs::create_dir_all(root.join("m")).unwrap();
            fs::write(root.join("a/in/f"), "needle").unwrap();
        });
        assert_eq!(found(&jail, "."), expected, "{outer:?} {inner:?}");
    }
}

#[test]
fn a_link_of_the_outer_root_does_not_lead_into_the_inner_one() {
    let policy = policy("symlinks = \"beneath\"", "hardlinks = \"refuse\"");
    let jail = TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, |root| {
        fs::create_dir_all(root.join("a/in")).unwrap();
        fs::write(root.join("a/in/twice"), "needle").unwrap();
        fs::hard_link(root.join("a/in/twice"), root.join("a/in/again")).unwrap();
        fs::write(root.join("a/plain"), "fine").unwrap();
        symlink("a/in", root.join("link")).unwrap();
        symlink("a", root.join("above")).unwrap();
    });
    for path in ["link/twice", "above/in/twice", "a/in/twice"] {
        assert_eq!(jail.read(path).unwrap_err().code(), "C215", "{path}");
    }
    assert_eq!(jail.read("above/plain").unwrap()["content"], "fine");
}
