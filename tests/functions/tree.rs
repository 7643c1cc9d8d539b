//! `coder::tree` and `coder::stat` with the real binaries: against a naive walk, over a corpus too large for one reply,
//! and while somebody changes it.
#![allow(clippy::unwrap_used, reason = "the corpus is ours; what cannot be made or named is a failed test")]

use crate::support;

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use support::{COLD, NO_STATE, Options, TestJail, Value, bin_dir, canary::assert_no_secret, json, process};

const TREE: &str = "coder::tree";
const STAT: &str = "coder::stat";
/// The policy's default, and what the envelope adds.
const BUDGET_BYTES: usize = 262_144;
/// What a walk may hold beside the worker's own few.
const MAX_DESCRIPTORS: usize = 32;
const MAX_RESIDENT_KIB: u64 = 64 << 10;

/// Files of the large corpus. `STOCKADE_SOAK_ENTRIES` makes it larger, up to what a debug build walks in its time.
fn entries() -> usize {
    match std::env::var("STOCKADE_SOAK_ENTRIES") {
        Ok(entries) => entries.parse::<usize>().expect("a number of entries").min(100_000),
        Err(_) => 20_000,
    }
}

/// Half of the files in one folder, the others a hundred to a folder, three levels deep.
fn plant_corpus(root: &Path) {
    let half = entries() / 2;
    fs::create_dir(root.join("wide")).unwrap();
    for i in 0..half {
        // Neither sorted nor reversed.
        fs::write(root.join(format!("wide/{:07}", i * 7919 % half)), "").unwrap();
    }
    for folder in 0..half / 100 {
        let folder = root.join(format!("deep/{:03}/{folder:05}", folder % 40));
        fs::create_dir_all(&folder).unwrap();
        (0..100).for_each(|i| fs::write(folder.join(format!("f{i}")), "").unwrap());
    }
}

/// The same as a tree reply where nothing is cut, by the standard library alone.
fn naive(path: &Path) -> Value {
    let facts = fs::symlink_metadata(path).unwrap();
    let kind = match facts.file_type() {
        kind if kind.is_dir() => "dir",
        kind if kind.is_file() => "file",
        kind if kind.is_symlink() => "symlink",
        _ => "other",
    };
    let name = path.file_name().unwrap().to_string_lossy();
    let mut node = json!({"name": name, "kind": kind, "size": facts.size(), "mtime": facts.mtime()});
    if kind == "dir" {
        let mut children: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        children.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
        node["children"] = children.iter().map(|child| naive(child)).collect();
    }
    node
}

/// Every folder of a reply.
fn folders(root: &Value) -> Vec<&Value> {
    let mut all = vec![root];
    let mut at = 0;
    while at < all.len() {
        let children = all[at]["children"].as_array().into_iter().flatten();
        all.extend(children.filter(|child| child["kind"] == "dir"));
        at += 1;
    }
    all
}

fn assert_sorted(root: &Value) {
    for folder in folders(root) {
        let names: Vec<&str> = folder["children"]
            .as_array()
            .map_or_else(Vec::new, |children| children.iter().map(|child| child["name"].as_str().unwrap()).collect());
        assert!(names.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes()), "{names:?}");
    }
}

#[test]
fn a_tree_that_fits_is_what_a_naive_walk_finds() {
    let jail = TestJail::with_tree(Options::default(), |root| {
        for (at, name) in ["z", "a/b/c/d", "a/B", "a/b.txt", "é/ü", "a/b/0", "e m p t y"].iter().enumerate() {
            fs::create_dir_all(root.join(name)).unwrap();
            (0..at * 3).for_each(|i| fs::write(root.join(name).join(format!("{i}.rs")), "x".repeat(i)).unwrap());
        }
        std::os::unix::fs::symlink("../outside", root.join("a/link")).unwrap();
        std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    });
    let reply = jail.call(TREE, json!({"max_depth": 48, "per_folder_limit": 1000})).unwrap();
    assert_eq!(reply["root"], naive(&jail.root));
    assert_eq!(reply["path"], jail.root.canonicalize().unwrap().to_str().unwrap());
    let below = jail.call(TREE, json!({"path": "a/b", "max_depth": 48})).unwrap();
    assert_eq!(below["root"], naive(&jail.root.join("a/b")));
    assert_no_secret(&reply);
    jail.assert_intact();
}

#[test]
fn a_corpus_too_large_for_a_reply_is_shown_from_the_top_within_its_budget() {
    let options = Options { policy: Some(COLD.into()), ..Options::default() };
    let jail = TestJail::with_tree(options, plant_corpus);
    let (mut client, worker) = jail.connect_and_find_worker();
    let half = entries() / 2;

    let shallow = client.call(TREE, json!({"max_depth": 2})).unwrap();
    let wide = &shallow["root"]["children"][1];
    assert_eq!((&wide["truncated"]["shown"], &wide["truncated"]["total"]), (&json!(50), &json!(half)));
    assert_eq!(wide["children"][49]["name"], "0000049");
    assert_eq!(shallow["root"]["children"][0]["children"].as_array().unwrap().len(), 40);

    for request in [
        json!({"max_depth": 48}),
        json!({"max_depth": 48, "per_folder_limit": u32::MAX}),
        json!({"path": "wide", "per_folder_limit": u32::MAX}),
        json!({"path": "deep", "max_depth": 1_000_000, "per_folder_limit": 1000}),
    ] {
        let reply = client.call(TREE, request.clone()).unwrap();
        let bytes = reply.to_string().len();
        assert!((BUDGET_BYTES / 2..=BUDGET_BYTES).contains(&bytes), "{request}: {bytes} bytes");
        assert_sorted(&reply["root"]);
        let cut: Vec<_> =
            folders(&reply["root"]).into_iter().filter(|folder| folder["truncated"]["reason"] == "budget").collect();
        assert!(!cut.is_empty(), "{request}");
        assert!(cut.iter().all(|folder| folder["truncated"]["hint"].as_str().unwrap().contains("call coder::")));
    }
    let peak: u64 = process::status(worker, "VmHWM")[0].parse().unwrap();
    println!("{peak} KiB at most for {} files", 2 * half);
    assert!(peak < MAX_RESIDENT_KIB, "{peak} KiB");

    // A part that fits is what it would be alone.
    let part = client.call(TREE, json!({"path": "deep/007", "per_folder_limit": 1000})).unwrap();
    assert_eq!(part["root"], naive(&jail.root.join("deep/007")));
}

#[test]
fn a_walk_holds_few_descriptors_at_any_depth_and_width() {
    if !process::runs_as_root("counting another process's descriptors") {
        return;
    }
    let options = Options { policy: Some(COLD.into()), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        for top in 0..30 {
            let mut folder = root.join(format!("{top}"));
            (0..45).for_each(|level| folder.push(format!("{level}")));
            fs::create_dir_all(folder).unwrap();
        }
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let idle = process::open_files(worker);
    let done = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(process::open_files(worker));
            }
            most
        });
        for _ in 0..4 {
            let reply = client.call(TREE, json!({"max_depth": 48, "per_folder_limit": 100})).unwrap();
            assert!(folders(&reply["root"]).len() > 500);
        }
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    println!("{idle} descriptors when idle, {most} at most");
    assert!(most > idle && most - idle <= MAX_DESCRIPTORS, "{idle} when idle, {most} at most");
}

#[test]
fn folders_that_vanish_during_the_walk_fail_no_call() {
    let jail = TestJail::with_tree(Options::default(), |root| {
        (0..30).for_each(|i| fs::create_dir_all(root.join(format!("d{i}/sub/sub"))).unwrap());
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let folder = jail.root.join(format!("d{}/sub", round % 30));
                fs::remove_dir_all(&folder).unwrap();
                if round % 2 == 0 {
                    std::os::unix::fs::symlink(&jail.canaries.dir, &folder).unwrap();
                    fs::remove_file(&folder).unwrap();
                }
                fs::create_dir_all(folder.join("sub")).unwrap();
            }
        });
        let mut client = jail.connect();
        for _ in 0..60 {
            let reply = client.call(TREE, json!({"max_depth": 9}));
            assert_no_secret(&reply);
            let reply = reply.expect("a walk does not fail for what changes in it");
            assert_eq!(reply["root"]["children"].as_array().unwrap().len(), 30);
            for folder in folders(&reply["root"]) {
                let reason = folder["truncated"]["reason"].as_str();
                assert!(matches!(reason, None | Some("io_error")), "{folder}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    jail.assert_intact();
}

#[test]
fn stat_tells_what_the_kernel_tells_and_reads_links_without_following() {
    let jail = TestJail::new();
    jail.write("dir/a.txt", "one\ntwo\n");
    std::os::unix::fs::symlink("../outside/secret.txt", jail.root.join("out")).unwrap();
    std::os::unix::fs::symlink("dir", jail.root.join("in")).unwrap();
    let request =
        json!({"paths": ["dir/a.txt", "dir", "out", "in", "in/a.txt", "gone", ".env"], "lines": true, "etag": true});
    let reply = jail.call(STAT, request).unwrap();
    let results = reply["results"].as_array().unwrap();
    for (result, name) in results.iter().zip(["dir/a.txt", "dir", "out", "in"]) {
        let kernel = fs::symlink_metadata(jail.root.join(name)).unwrap();
        let told = ["size", "mode", "mtime", "mtime_ns", "nlink"].map(|field| result[field].as_i64().unwrap());
        let expected = [
            kernel.size() as i64,
            i64::from(kernel.mode() & 0o777),
            kernel.mtime(),
            kernel.mtime_nsec(),
            kernel.nlink() as i64,
        ];
        assert_eq!(told, expected, "{name}");
    }
    assert_eq!((&results[0]["total_lines"], &results[0]["is_utf8"]), (&json!(2), &json!(true)));
    let read = jail.call("coder::read-file", json!({"path": "dir/a.txt"})).unwrap();
    assert_eq!(results[0]["etag"], read["etag"]);
    assert_eq!(
        (&results[2]["link_target"], &results[3]["link_target"]),
        (&json!("../outside/secret.txt"), &json!("dir"))
    );
    let codes: Vec<_> = results[4..].iter().map(|result| result["error"]["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["C215", "C211", "C211"]);
    assert_no_secret(&reply);
    jail.assert_intact();
}

#[test]
fn where_links_are_followed_stat_still_describes_the_link_and_a_tree_goes_where_it_was_sent() {
    let policy = "[[root]]\npath = \"ROOT\"\nsymlinks = \"beneath\"\n";
    let jail = TestJail::with(Options { policy: Some(policy.into()), ..Options::default() });
    jail.write("real/sub/file", "x");
    jail.write("secrets/key", "x");
    for (target, name) in [("real", "to"), ("secrets", "open"), ("../outside", "out"), ("to/sub", "chain")] {
        std::os::unix::fs::symlink(target, jail.root.join(name)).unwrap();
    }
    let reply = jail.call(STAT, json!({"paths": ["to", "chain", "out", "to/sub/file"], "etag": true})).unwrap();
    let told: Vec<_> =
        reply["results"].as_array().unwrap().iter().map(|r| (r["kind"].as_str(), r["link_target"].as_str())).collect();
    let link = |target| (Some("symlink"), Some(target));
    assert_eq!(told, [link("real"), link("to/sub"), link("../outside"), (Some("file"), None)]);
    let names = |node: &Value| -> Vec<String> {
        let children = node["children"].as_array().unwrap();
        children.iter().map(|child| child["name"].as_str().unwrap().to_owned()).collect()
    };
    let tree = |path: &str| jail.call(TREE, json!({ "path": path }));
    assert_eq!(names(&tree("chain").unwrap()["root"]), ["file"]);
    let denied = tree("open").unwrap();
    assert_eq!(
        (names(&denied["root"]), &denied["root"]["children"][0]["non_accessible"]),
        (vec!["key".to_owned()], &json!(true))
    );
    assert_eq!(tree("out").unwrap_err().code(), "C215");
    let whole = tree(".").unwrap();
    assert!(folders(&whole["root"]).iter().all(|folder| folder["name"] != "to"), "links are leaves: {whole}");
    jail.assert_intact();
}

#[test]
fn the_commands_draw_and_describe_for_people() {
    let dir = TestJail::directory();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("src/bin")).unwrap();
    fs::create_dir_all(root.join("target/debug")).unwrap();
    fs::write(root.join("src/bin/main.rs"), "fn main() {}\n").unwrap();
    fs::write(root.join("src/odd\nname"), "").unwrap();
    std::os::unix::fs::symlink("src", root.join("to")).unwrap();
    let run = |arguments: &[&str]| {
        let (command, rest) = arguments.split_first().unwrap();
        let output = Command::new(bin_dir(false).join("stockade"))
            .arg(command)
            .arg("--root")
            .arg(&root)
            .args(rest)
            .env("LC_ALL", "C.UTF-8")
            .envs([NO_STATE])
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let expected = "\
.
├── src/
│   ├── bin/
│   │   └── main.rs
│   └── odd\\nname
├── target/  [left out by default: --all]
└── to@

3 directories, 3 files, more not shown
";
    assert_eq!(run(&["tree"]), (Some(0), expected.into()));
    let (code, text) = run(&["tree", "--all", "-L", "1", "--json"]);
    let reply: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, reply["root"]["children"].as_array().unwrap().len()), (Some(0), 3));
    let (code, text) = run(&["stat", "--lines", "src/bin/main.rs", "to", "missing"]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("src/bin/main.rs: file, 13 bytes, 1 lines, UTF-8, mode 0"), "{text}");
    assert!(text.contains("\nto: link to src, 3 bytes, mode 0777, modified "), "{text}");
}
