//! Names that a client may not make, brought about by moving, copying or restoring what it may: names that deny globs hide,
//! and the names of roots, which the next start opens.

use std::{fs, os::unix::fs::symlink};

use super::{
    attack::outcomes,
    layers,
    support::{Build, Options, TestJail, Value, canary::holds_secret, json},
};

const MOVE: &str = "coder::move";
const COPY: &str = "coder::copy";

/// Deny globs are the application's own, so only builds with all checks are asked.
#[test]
fn a_denied_name_cannot_be_brought_about() {
    let policy = "[[root]]\npath = \"ROOT\"\n[deny]\nnon_accessible_globs = [\"**/.git/config\", \"**/.env\", \"keys/**\"]\n[protect]\nread_only_globs = []\n";
    for build in Build::attacked().filter(|build| build.is_whole()) {
        let options = Options { policy: Some(policy.into()), ..build.options() };
        let jail = TestJail::with_tree(options, |root| {
            fs::create_dir_all(root.join("x/deep")).unwrap();
            fs::create_dir_all(root.join("repo")).unwrap();
            fs::write(root.join("x/config"), "planted").unwrap();
            fs::write(root.join("x/deep/config"), "planted").unwrap();
            fs::write(root.join("plain"), "planted").unwrap();
        });
        let tries = [
            json!({"from": "x", "to": "repo/.git"}),
            json!({"from": "x/deep", "to": "repo/.GIT"}),
            json!({"from": "x", "to": "keys"}),
            json!({"from": "x", "to": "KEYS"}),
            json!({"from": "plain", "to": "keys"}),
            json!({"from": "plain", "to": "repo/.env"}),
            json!({"from": "x", "to": "repo/.env"}),
            json!({"from": "x", "to": "repo/../repo/.git"}),
        ];
        for (function, entry) in tries.iter().flat_map(|entry| [(MOVE, entry), (COPY, entry)]) {
            let mut entry = entry.clone();
            if function == COPY {
                entry["recursive"] = json!(true);
            }
            for request in [json!({"files": [entry]}), json!({"files": [entry], "atomic": true})] {
                let reply = jail.call(function, request.clone());
                assert_eq!(outcomes(&reply), ["C211"], "{build:?}: {function} {request}: {reply:?}");
            }
        }
        assert_eq!(fs::read_dir(jail.root.join("repo")).unwrap().count(), 0);
        assert!(!jail.root.join("keys").exists() && !jail.root.join("KEYS").exists());
        jail.assert_intact();
    }
}

const NESTED: &str =
    "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT/nest/in\"\nallow_nested = true\noptional = true\n";

/// A repository brings a link along, a client moves it onto the name of a root that is not there, the service starts anew.
fn escapes_by_a_moved_link(build: Build) -> Vec<String> {
    let options = || Options { policy: Some(NESTED.into()), ..build.options() };
    let mut jail = TestJail::with_tree(options(), |root| {
        fs::create_dir(root.join("nest")).unwrap();
        symlink(root.parent().unwrap().join("outside"), root.join("link")).unwrap();
    });
    let entry = json!({"files": [{"from": "link", "to": "nest/in"}]});
    let moved = jail.call(MOVE, entry);
    if build.is_whole() {
        assert_eq!(outcomes(&moved), ["C211"], "{moved:?}");
    }
    let mut escapes = Vec::new();
    // A service that refuses to start on a link has not followed it.
    if jail.try_restart(&options()) {
        for path in ["nest/in/secret.txt".to_owned(), format!("{}/nest/in/secret.txt", jail.root.display())] {
            let reply: Result<Value, _> = jail.read(&path);
            escapes.extend(holds_secret(&reply).then(|| format!("{path}: {reply:?}")));
        }
    }
    if !jail.canaries.are_untouched() {
        escapes.push("a canary was touched".into());
    }
    escapes
}

#[test]
fn a_moved_link_does_not_become_a_root_at_the_next_start() {
    for build in Build::attacked() {
        let case = "a_moved_link_does_not_become_a_root_at_the_next_start";
        layers::judge(case, build, &escapes_by_a_moved_link(build));
    }
}
