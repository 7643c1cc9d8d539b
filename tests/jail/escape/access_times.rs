//! Reading leaves access times as they are, in every function that reads, where the service's user owns what is read.
//!
//! Each test first shows that its file system records access times at all: a plain read changes that of a control file.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use crate::support::{
    Build, IS_POSIX, Options, TestJail, Value, bin_dir, in_own_mounts, json,
    peer::NOBODY,
    process::{runs_as_root, skip},
};

/// Older than the modification, so that `relatime` updates it at the next read.
const ACCESSED: u64 = 1_000_000_000;
const MODIFIED: u64 = 1_200_000_000;

const FILES: [&str; 6] =
    [".gitignore", "a.txt", "folder/b.txt", "folder/deep/.gitignore", "folder/deep/c.txt", "large"];
/// The root itself is the last one.
const FOLDERS: [&str; 4] = ["folder", "folder/deep", "empty", ""];

/// One read-only root with an operator's deny glob, which `policy check` looks for; one writable root to copy to.
const POLICY: &str = "[[root]]\npath = \"ROOT\"\nmode = \"ro\"\n[[root]]\npath = \"ROOT-work\"\n\
    [deny]\nnon_accessible_globs = [\"**/*.never\"]\n";

fn age(path: &Path) {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let times = fs::FileTimes::new().set_accessed(at(ACCESSED)).set_modified(at(MODIFIED));
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

fn is_kept(path: &Path) -> bool {
    fs::symlink_metadata(path).unwrap().atime() == ACCESSED as i64
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("folder/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for name in FILES {
        let content = if name == "large" { "needle\n".repeat(100_000) } else { "needle\n".into() };
        fs::write(root.join(name), content).unwrap();
    }
    FILES.iter().chain(&FOLDERS).for_each(|name| age(&root.join(name)));
}

/// Whether a plain read of a new file beside the root, and listing a new folder, change their access times.
fn records_access_times(beside: &Path) -> bool {
    let (file, folder) = (beside.join("control"), beside.join("control.d"));
    fs::write(&file, "content").unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("entry"), "").unwrap();
    age(&file);
    age(&folder);
    assert_eq!(fs::read(&file).unwrap(), b"content");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    !is_kept(&file) && !is_kept(&folder)
}

/// Every way to read.
fn reads() -> Vec<(&'static str, Value)> {
    let copy = |to: &str, path: &str| json!({"files": [{"from": path, "to": format!("WORK/{to}"), "recursive": true}]});
    vec![
        ("coder::read-file", json!({"path": "a.txt", "etag": true, "count_lines": true})),
        ("coder::read-file", json!({"path": "a.txt", "stat": true})),
        ("coder::read-file", json!({"path": "large", "line_from": 3, "line_to": 9})),
        ("coder::read-file", json!({"path": "large", "tail": 3})),
        ("coder::read-file", json!({"path": "large", "byte_from": 70_000, "byte_to": 70_100})),
        ("coder::read-file", json!({"paths": ["a.txt", "folder/b.txt"]})),
        ("coder::stat", json!({"paths": ["", "folder", "a.txt", "folder/deep/c.txt"], "etag": true, "lines": true})),
        ("coder::list-folder", json!({"path": "."})),
        ("coder::list-folder", json!({"path": "folder"})),
        ("coder::list-folder", json!({"path": "empty"})),
        ("coder::tree", json!({"path": "."})),
        ("coder::find", json!({"paths": ["."], "gitignore": true, "hidden": true})),
        ("coder::search", json!({"query": "needle", "gitignore": true})),
        ("coder::search", json!({"query": "ne+dle", "regex": true, "paths": ["folder", "large"]})),
        ("coder::copy", copy("file", "a.txt")),
        ("coder::copy", copy("tree", "folder")),
        ("coder::copy", copy("refused", "missing")),
    ]
}

/// Makes every call; `root` is where the test sees the jail's root, `jail.root` is its name for the service.
fn assert_reads_keep_times(jail: &TestJail, root: &Path, what: &str) {
    let assert_kept = |after: &str| {
        for name in FILES.iter().chain(&FOLDERS) {
            assert!(is_kept(&root.join(name)), "{what}: the access time of {name:?} has changed after {after}");
        }
    };
    let work = format!("{}-work", jail.root.display());
    for (function, params) in reads() {
        let params: Value = serde_json::from_str(&params.to_string().replace("WORK", &work)).unwrap();
        let reply = jail.call(function, params.clone()).unwrap();
        assert!(params.to_string().contains("missing") || reply["results"][0]["error"].is_null(), "{reply}");
        assert_kept(&format!("{function} {params}"));
    }
    assert_eq!(jail.call("coder::search", json!({"query": "needle"})).unwrap()["truncated"], true);
}

#[test]
fn reads_of_a_read_only_root_leave_every_access_time() {
    for build in [Build::Normal, Build::Userspace] {
        let options = Options { policy: Some(POLICY.into()), ..build.options() };
        let jail = TestJail::with_tree(options, |root| {
            fs::create_dir(root.with_file_name("root-work")).unwrap();
            plant(root);
        });
        if !records_access_times(jail.dir.path()) {
            skip("access times; the folder of temporary files records none");
            return;
        }
        assert_reads_keep_times(&jail, &jail.root, &format!("{build:?}"));
        let policy = jail.dir.path().join("policy.toml");
        let mut check = Command::new(bin_dir(false).join("stockade"));
        let checked = check.args(["policy", "check"]).arg(policy).env_clear().output().unwrap();
        let warnings = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(warnings.contains("\"**/*.never\" matches nothing"), "{checked:?}");
        assert!(is_kept(&jail.root) && is_kept(&jail.root.join("folder")), "policy check lists every folder");
    }
}

/// Every read counts here, not only the first after a change.
#[test]
fn reads_leave_access_times_under_strictatime() {
    if !runs_as_root("reads_leave_access_times_under_strictatime") {
        return;
    }
    // Beside the root's own name: the service needs the planted names before it starts.
    let script = "mount -t tmpfs -o strictatime,mode=755 tmpfs $d/root; cp -a $d/planted/. $d/root";
    let through = in_own_mounts(script);
    let options = Options { policy: Some(POLICY.into()), through, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir(root.with_file_name("root-work")).unwrap();
        let planted = root.with_file_name("planted");
        fs::create_dir(&planted).unwrap();
        plant(&planted);
    });
    let root = PathBuf::from(format!("/proc/{}/root{}", jail.daemon.pid(), jail.root.display()));
    assert_reads_keep_times(&jail, &root, "strictatime");
    assert!(records_access_times(&root), "the mount is not as it was asked for");
}

fn told(jail: &TestJail) -> Value {
    jail.call("coder::info", json!({})).unwrap()["roots"][0]["access_times"].clone()
}

#[test]
fn info_tells_whether_reads_change_access_times() {
    let mounted = |options: &str| {
        let through = in_own_mounts(&format!("mount -t tmpfs -o mode=755,{options} tmpfs $d/root"));
        told(&TestJail::with(Options { suffix: ":ro", through, ..Options::default() }))
    };
    assert_eq!(mounted("noatime"), "kept");
    assert_eq!(mounted("ro"), "kept");
    assert_eq!(mounted("strictatime"), if IS_POSIX { "updated" } else { "owner_only" });
}

/// The kernel lets only the owner keep an access time. What others own is read all the same, and whatever the order
/// of owners, no file of the service's own user pays for it.
#[test]
fn files_of_others_are_read_and_own_ones_keep_their_times() {
    if !runs_as_root("files_of_others_are_read_and_own_ones_keep_their_times") {
        return;
    }
    let names: Vec<String> = (0..24).map(|n| format!("{n:02}.txt")).collect();
    let is_own = |n: usize| !matches!(n % 6, 1 | 2 | 4);
    // Two other owners, beside each other and apart.
    let owner = |n: usize| if n % 6 == 4 { NOBODY - 1 } else { NOBODY };
    let jail = TestJail::with_tree(Options { suffix: ":ro", ..Options::default() }, |root| {
        for (n, name) in names.iter().enumerate() {
            let path = root.join(name);
            fs::write(&path, "needle\n").unwrap();
            age(&path);
            if !is_own(n) {
                std::os::unix::fs::chown(&path, Some(owner(n)), None).unwrap();
            }
        }
    });
    if !records_access_times(jail.dir.path()) {
        skip("access times; the folder of temporary files records none");
        return;
    }
    let mut client = jail.connect();
    for name in &names {
        assert_eq!(client.call("coder::read-file", json!({"path": name})).unwrap()["content"], "needle\n");
    }
    let found = client.call("coder::search", json!({"query": "needle"})).unwrap();
    assert_eq!(found["content_matches"].as_array().unwrap().len(), names.len(), "{found}");
    for (n, name) in names.iter().enumerate() {
        assert_eq!(is_kept(&jail.root.join(name)), is_own(n), "{name}");
    }
}
