//! `confinement = "userspace"`, with the real programs: what it serves, what it still refuses, and that it claims no
//! more than it has. And links beneath a root, which both kinds of confinement follow alike.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its tree has failed")]

use crate::support;

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use support::{Failure, Options, TestJail, Value, canary::assert_no_secret, json};

const CONFINEMENTS: &[&str] = if support::IS_POSIX { &["userspace"] } else { &["kernel", "userspace"] };

fn policy(confinement: &str, root: &str) -> Options {
    let deny = "[deny]\nnon_accessible_globs = [\"**/.env\", \"sub/hidden\"]\nlist_denied = \"hide\"\n";
    let policy = format!("confinement = \"{confinement}\"\n[[root]]\npath = \"ROOT\"\n{root}\n{deny}");
    Options { policy: Some(policy), ..Options::default() }
}

fn fill(root: &Path) {
    fs::create_dir_all(root.join("sub/hidden")).unwrap();
    fs::write(root.join("sub/file"), "inside\n").unwrap();
    fs::write(root.join("sub/hidden/key"), "hidden\n").unwrap();
    fs::write(root.join(".env"), "denied\n").unwrap();
    let links = [
        ("to-file", "sub/file"),
        ("to-folder", "sub"),
        ("chain", "to-folder/../to-file"),
        ("innocent.txt", ".env"),
        ("innocent-folder", "sub/hidden"),
        ("here", "."),
        ("out", "../outside/secret.txt"),
        ("out-folder", "../outside"),
        ("absolute", "/etc/passwd"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
    ];
    for (name, target) in links {
        symlink(target, root.join(name)).unwrap();
    }
}

#[track_caller]
fn assert_refused(jail: &TestJail, path: &str, code: &str) {
    let reply = jail.read(path);
    assert_no_secret(&format!("{reply:?}"));
    assert_eq!(reply.map_err(|failure| failure.code()), Err(code.to_owned()), "{path}");
}

fn names(listing: Result<Value, Failure>) -> Vec<String> {
    let listing = listing.expect("lists");
    let entries = listing["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

fn content(jail: &TestJail, path: &str) -> Value {
    jail.read(path).unwrap_or_else(|failure| panic!("{path}: {failure:?}"))["content"].take()
}

#[test]
fn userspace_serves_and_says_what_it_is() {
    let jail = TestJail::with_tree(policy("userspace", ""), fill);
    assert_eq!(content(&jail, "sub/file"), "inside\n");
    assert_eq!(names(jail.call("coder::list-folder", json!({"path": "sub"}))), ["file"]);
    let info = jail.call("coder::info", json!({})).expect("served");
    let told = &info["confinement"];
    assert_eq!((&told["level"], &told["resolver"]), (&json!("userspace"), &json!("stepwise")));
    assert!(told["landlock_abi"].is_null());
    let layers = told["layers"].to_string();
    for promise in ["landlock", "seccomp", "openat2"] {
        assert!(!layers.contains(promise), "{layers}");
    }
    assert!(told["limitations"].to_string().contains("without the kernel's jail"), "{told}");
    jail.assert_intact();
}

#[test]
fn userspace_still_refuses_every_path_that_leads_out() {
    let jail = TestJail::with_tree(policy("userspace", ""), fill);
    let outside = jail.dir.path().join("outside/secret.txt");
    let refusals = [
        ("../outside/secret.txt", "C215"),
        ("sub/../../outside/secret.txt", "C215"),
        (outside.to_str().unwrap(), "C215"),
        ("/etc/passwd", "C215"),
        ("out", "C215"),
        ("out-folder/secret.txt", "C215"),
        ("absolute", "C215"),
        ("to-file", "C215"),
        ("to-folder/file", "C215"),
        (".env", "C211"),
        ("missing", "C211"),
        ("sub/file/x", "C216"),
        ("sub", "C210"),
    ];
    for (path, code) in refusals {
        assert_refused(&jail, path, code);
    }
    jail.assert_intact();
}

#[test]
fn links_that_stay_beneath_are_followed_and_no_others() {
    for confinement in CONFINEMENTS {
        let jail = TestJail::with_tree(policy(confinement, "symlinks = \"beneath\""), fill);
        for path in ["sub/file", "to-file", "to-folder/file", "chain", "here/here/to-file"] {
            assert_eq!(content(&jail, path), "inside\n", "{confinement}");
        }
        for path in ["out", "out-folder/secret.txt", "absolute", "loop", "here/out"] {
            assert_refused(&jail, path, "C215");
        }
        assert_refused(&jail, "dangling", "C211");
        jail.assert_intact();
    }
}

#[test]
fn what_a_link_really_names_is_what_is_denied() {
    for confinement in CONFINEMENTS {
        let jail = TestJail::with_tree(policy(confinement, "symlinks = \"beneath\""), fill);
        for path in ["innocent.txt", "innocent-folder/key", "to-folder/hidden/key", "here/innocent.txt"] {
            let denied = jail.read(path).expect_err("denied");
            assert_eq!(denied.code(), "C211", "{path}");
            // Exactly as if it were missing.
            let missing = jail.read("missing").expect_err("missing").message();
            assert_eq!(denied.message().replace(path, "missing"), missing);
        }
        // By way of a link a listing hides what it hides by name.
        for path in ["sub", "to-folder"] {
            assert_eq!(names(jail.call("coder::list-folder", json!({"path": path}))), ["file"], "{path}");
        }
        for state in [".stockade", ".stockade-0123456789abcdef"] {
            fs::create_dir(jail.root.join(state)).unwrap();
        }
        for path in [".", "here"] {
            let names = names(jail.call("coder::list-folder", json!({"path": path})));
            assert!(!names.iter().any(|name| name.starts_with(".stockade") || name == ".env"), "{names:?}");
        }
    }
}

#[test]
fn a_batch_of_links_into_many_folders_is_answered_whole() {
    for confinement in CONFINEMENTS {
        let jail = TestJail::with_tree(policy(confinement, "symlinks = \"beneath\""), |root| {
            for i in 0..200 {
                fs::create_dir(root.join(format!("d{i}"))).unwrap();
                fs::write(root.join(format!("d{i}/file")), format!("{i}")).unwrap();
                symlink(format!("d{i}/file"), root.join(format!("l{i}"))).unwrap();
            }
        });
        let paths: Vec<String> = (0..200).map(|i| format!("l{i}")).collect();
        let reply = jail.call("coder::read-file", json!({ "paths": paths })).expect("read");
        let results = reply["results"].as_array().unwrap();
        assert_eq!(results.len(), 200);
        for (i, result) in results.iter().enumerate() {
            assert_eq!(result["content"], json!(format!("{i}")), "{result}");
        }
    }
}

#[test]
fn files_with_several_names_are_refused_where_the_root_says_so() {
    for confinement in CONFINEMENTS {
        let jail = TestJail::with_tree(policy(confinement, "hardlinks = \"refuse\""), |root| {
            fs::write(root.join("single"), "one name\n").unwrap();
            fs::write(root.join("first"), "two names\n").unwrap();
            fs::hard_link(root.join("first"), root.join("second")).unwrap();
        });
        assert_eq!(content(&jail, "single"), "one name\n");
        assert_refused(&jail, "first", "C215");
        assert_refused(&jail, "second", "C215");
    }
}

/// Calls that userspace confinement must do without, as an old kernel or a container's filter would have it.
fn without_the_kernels_help() -> BpfProgram {
    let missing = [
        libc::SYS_openat2,
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
        libc::SYS_seccomp,
    ];
    let rules: BTreeMap<i64, Vec<_>> = missing.into_iter().map(|number| (number, vec![])).collect();
    let action = SeccompAction::Errno(libc::ENOSYS as u32);
    let arch: TargetArch = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap().try_into().unwrap()
}

#[test]
fn userspace_needs_nothing_of_the_kernel_and_kernel_confinement_refuses_to_start() {
    // The filter holds for this thread and for what it starts.
    let guarded = std::thread::spawn(|| {
        seccompiler::apply_filter(&without_the_kernels_help()).expect("filtered");
        let jail = TestJail::with_tree(policy("userspace", "symlinks = \"beneath\""), fill);
        assert_eq!(content(&jail, "to-folder/file"), "inside\n");
        assert_eq!(names(jail.call("coder::list-folder", json!({"path": "sub"}))), ["file"]);
        assert_refused(&jail, "out", "C215");
        jail.assert_intact();
        let root = jail.root.to_str().unwrap();
        let socket = jail.dir.path().join("run/second.sock");
        let (status, text) = support::refused_start(&["--root", root, "--socket", socket.to_str().unwrap()], None);
        assert_ne!(status, Some(0));
        let missing = if support::IS_POSIX { "only Linux has it" } else { "openat2 is missing" };
        assert!(text.contains(missing) && text.contains("userspace"), "{text}");
    });
    guarded.join().expect("all holds behind the filter");
}
