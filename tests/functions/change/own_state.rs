//! The service's own state in a root: what a repository brings along can neither stand in for it nor disable it, and what an
//! earlier version left is put in order and can be restored.

use std::{
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, symlink},
    },
    path::PathBuf,
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::*;

const BROUGHT: &str = ".stockade-0123456789abcdef";

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn make_folder(path: &Path, mode: u32) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).unwrap();
    set_mode(path, mode);
}

fn make_fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A state folder as the service makes it, whose identity names an inode that may be wrong.
fn make_state(path: &Path, wrong_by: u64) {
    make_folder(path, 0o700);
    let ino = fs::metadata(path).unwrap().ino() + wrong_by;
    let identity = json!({"version": 1, "uid": uid(), "ino": ino}).to_string();
    fs::write(path.join("identity"), identity).unwrap();
}

/// A path with what cannot change unseen: inode, mode, size and the time of the last change.
type Seen = (PathBuf, u64, u32, u64, (i64, i64));

/// Every name below a path.
fn picture(path: &Path) -> Vec<Seen> {
    let at = fs::symlink_metadata(path).unwrap();
    let mut found = vec![(path.to_owned(), at.ino(), at.mode(), at.size(), (at.ctime(), at.ctime_nsec()))];
    if at.is_dir() {
        let below = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        found.extend(below.flat_map(|path| picture(&path)));
    }
    found.sort();
    found
}

/// Where the trash is, whatever the version of the service.
fn trash(root: &Path) -> PathBuf {
    let earlier = root.join(format!(".stockade/{}", uid()));
    let mut found: Vec<_> =
        state::folders(root).into_iter().chain([earlier]).map(|state| state.join("trash")).collect();
    found.retain(|trash| trash.is_dir());
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn discard(jail: &TestJail, paths: &[&str]) -> Vec<String> {
    let done = results(jail.call(DELETE, json!({"paths": paths, "recursive": true, "trash": true})));
    done.iter().for_each(assert_success);
    done.iter().map(|result| result["trash_id"].as_str().unwrap().to_owned()).collect()
}

fn listed(jail: &TestJail) -> Vec<String> {
    let reply = jail.call(RESTORE, json!({"list": true})).unwrap();
    let entries = reply["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

fn restore(jail: &TestJail, id: &str) -> Value {
    one(jail.call(RESTORE, json!({"ids": [id]})))
}

/// All that needs state: replacing, an atomic batch, a delete into the trash, and back.
fn everything_works(jail: &TestJail) {
    jail.write("w/f", "old");
    assert_success(&create(jail, json!({"path": "w/f", "content": "new", "overwrite": true})));
    let files = json!([{"path": "w/f", "content": "2", "overwrite": true}, {"path": "w/g", "content": "3"}]);
    results(jail.call(CREATE, json!({"files": files, "atomic": true}))).iter().for_each(assert_success);
    let id = discard(jail, &["w"]).remove(0);
    assert!(!jail.root.join("w").exists());
    assert_eq!(listed(jail), [id.as_str()]);
    assert_success(&restore(jail, &id));
    assert_eq!((read(jail, "w/f"), read(jail, "w/g")), ("2".into(), "3".into()));
    assert_eq!(delete_tree(jail, "w")["removed"], json!(true));
}

#[test]
fn what_a_repository_brings_along_disables_nothing_and_is_not_touched() {
    type Bring = fn(&Path);
    let bring: [Bring; 11] = [
        |root| fs::write(root.join(".stockade"), "a file").unwrap(),
        |root| symlink("../outside", root.join(".stockade")).unwrap(),
        |root| make_folder(&root.join(".stockade"), 0o755),
        |root| make_fifo(&root.join(".stockade")),
        |root| fs::write(root.join(BROUGHT), "a file").unwrap(),
        |root| symlink("../outside", root.join(BROUGHT)).unwrap(),
        |root| make_fifo(&root.join(BROUGHT)),
        |root| make_folder(&root.join(BROUGHT), 0o755),
        |root| make_folder(&root.join(BROUGHT), 0o700),
        |root| make_state(&root.join(BROUGHT), 1),
        |root| {
            // All but the mode, and the names that a worker would use are in its way.
            make_state(&root.join(BROUGHT), 0);
            fs::write(root.join(BROUGHT).join("work"), "").unwrap();
            fs::write(root.join(BROUGHT).join("trash"), "").unwrap();
            set_mode(&root.join(BROUGHT), 0o755);
        },
    ];
    for bring in bring {
        let options = Options { in_memory: true, ..Options::default() };
        let jail = TestJail::with_tree(options, bring);
        let brought = fs::read_dir(&jail.root).unwrap().next().unwrap().unwrap().path();
        let before = picture(&brought);
        everything_works(&jail);
        assert_eq!(picture(&brought), before, "{brought:?}");
        assert_eq!(state::folders(&jail.root).iter().filter(|path| **path != brought).count(), 1);
        jail.assert_intact();
    }
}

/// State that passes every check of its own, with planted contents: a journal that wants a file undone, and an entry of the trash.
#[test]
fn a_plausible_state_with_planted_contents_is_not_acted_upon() {
    let options = Options { in_memory: true, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir(root.join("made")).unwrap();
        for own in [root.join(BROUGHT), root.join(format!(".stockade/{}", uid()))] {
            let dead = own.join("work/dead");
            make_folder(&dead, 0o700);
            let step = json!({"makedir": {"path": STANDARD.encode("made"), "mode": 0o755}});
            fs::write(dead.join("note-1"), json!({"batch": {"steps": [step]}}).to_string() + "\n").unwrap();
            let header = json!({"header": {"dev": fs::metadata(&dead).unwrap().dev(), "ino": 1}});
            fs::write(dead.join("journal"), header.to_string() + "\n").unwrap();
            let entry = own.join("trash/7ffffffffff-ffffffffffffffff-0123456789abcdef0123456789abcdef");
            make_folder(&entry, 0o700);
            let about = json!({"path": STANDARD.encode("evil"), "item": {"dev": 1, "ino": 1}});
            fs::write(entry.join("about"), about.to_string()).unwrap();
            fs::write(entry.join("item"), "evil").unwrap();
        }
        make_state(&root.join(BROUGHT), 7);
    });
    let places = [jail.root.join(BROUGHT), jail.root.join(".stockade")];
    let before = places.each_ref().map(|place| picture(place));
    assert!(listed(&jail).is_empty());
    everything_works(&jail);
    assert!(jail.root.join("made").is_dir());
    assert_eq!(places.each_ref().map(|place| picture(place)), before);
}

/// Folders in the trash that nobody deleted, larger and newer than everything: an earlier version then destroyed what it had
/// just put there, and answered with its id.
#[test]
fn planted_folders_in_the_trash_cost_no_deleted_file() {
    let jail = jail();
    ["first", "second", "third"].iter().for_each(|name| drop(jail.write(name, name)));
    let first = discard(&jail, &["first"]).remove(0);
    let trash = trash(&jail.root);
    let planted: Vec<_> =
        (0..3).map(|number| trash.join(format!("7ffffffffff-{:x}-{number:032x}", u64::MAX - number))).collect();
    make_folder(&planted[0], 0o700);
    make_folder(&planted[1].join("item/full"), 0o700);
    fs::write(&planted[2], "a file").unwrap();
    let before: Vec<_> = planted.iter().map(|path| picture(path)).collect();
    let second = discard(&jail, &["second"]).remove(0);
    let third = discard(&jail, &["third"]).remove(0);
    assert_eq!(listed(&jail), [third.as_str(), &second, &first]);
    for (id, name) in [(&first, "first"), (&second, "second"), (&third, "third")] {
        assert_success(&restore(&jail, id));
        assert_eq!(read(&jail, name), name);
    }
    assert_eq!(planted.iter().map(|path| picture(path)).collect::<Vec<_>>(), before);
}

/// One call may delete more than the trash holds: every id that it answers with can be restored.
#[test]
fn what_one_call_deletes_is_not_dropped_by_the_same_call() {
    for atomic in [false, true] {
        let jail = jail_with("[[root]]\npath = \"ROOT\"\n[trash]\nmax_bytes = 10\n");
        ["old", "a", "b", "c", "last"].iter().for_each(|name| drop(jail.write(name, "123456")));
        discard(&jail, &["old"]);
        let params = json!({"paths": ["a", "b", "c"], "trash": true, "atomic": atomic});
        let done = results(jail.call(DELETE, params));
        let mut ids: Vec<_> = done.iter().map(|result| result["trash_id"].as_str().unwrap()).collect();
        ids.sort_by(|a, b| b.cmp(a));
        assert_eq!(listed(&jail), ids, "the oldest has gone");
        assert_success(&restore(&jail, ids[0]));
        let last = discard(&jail, &["last"]).remove(0);
        assert_eq!(listed(&jail), [last], "the next call drops the oldest until the rest fits");
    }
}

#[test]
fn a_copied_tree_has_neither_the_trash_nor_the_journals_of_the_first() {
    let jail = jail();
    jail.write("f", "content");
    discard(&jail, &["f"]);
    let original = state::folder(&jail.root);
    let dead = original.join("work/dead");
    make_folder(&dead, 0o700);
    let at = fs::metadata(&dead).unwrap();
    let header = json!({"header": {"dev": at.dev(), "ino": at.ino()}});
    fs::write(dead.join("journal"), header.to_string() + "\n").unwrap();
    fs::write(dead.join("1"), "a user's").unwrap();
    let copy = TestJail::with_tree(Options { in_memory: true, ..Options::default() }, |root| {
        let all = jail.root.join(".");
        assert!(std::process::Command::new("cp").arg("-a").args([all.as_path(), root]).status().unwrap().success());
    });
    let copied = copy.root.join(original.file_name().unwrap());
    let before = picture(&copied);
    assert!(listed(&copy).is_empty());
    everything_works(&copy);
    assert_eq!(picture(&copied), before);
    assert_eq!(listed(&jail).len(), 1);
}

#[test]
fn connections_that_begin_together_share_one_state() {
    let jail = jail();
    let names: Vec<String> = (0..6).map(|number| format!("f{number}")).collect();
    names.iter().for_each(|name| drop(jail.write(name, "old")));
    let ids: Vec<String> = std::thread::scope(|scope| {
        let delete = |name: &String| discard(&jail, &[name]).remove(0);
        let running: Vec<_> = names.iter().map(|name| scope.spawn(move || delete(name))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    state::folder(&jail.root);
    let (mut listed, mut made) = (listed(&jail), ids.clone());
    listed.sort();
    made.sort();
    assert_eq!(listed, made);
    ids.iter().for_each(|id| assert_success(&restore(&jail, id)));
}

/// Two states that are ours, as two workers can make them where a file system has no locks.
#[test]
fn the_trash_of_every_state_is_listed_restored_and_counted() {
    let jail = jail_with("[[root]]\npath = \"ROOT\"\n[trash]\nmax_bytes = 10\n");
    ["a", "b", "c"].iter().for_each(|name| drop(jail.write(name, "1234")));
    let first = discard(&jail, &["a"]).remove(0);
    let other = jail.root.join(".stockade-0000000000000000");
    make_state(&other, 0);
    let second = discard(&jail, &["b"]).remove(0);
    assert!(other.join("trash").join(&second).is_dir(), "the first by name is used");
    assert_eq!(listed(&jail), [second.as_str(), &first]);
    let third = discard(&jail, &["c"]).remove(0);
    assert_eq!(listed(&jail), [third.as_str(), &second], "the oldest of both was dropped");
    assert_success(&restore(&jail, &second));
}

#[test]
fn names_of_state_are_invisible_and_denied_whoever_made_them() {
    let policy = "[[root]]\npath = \"ROOT\"\n[[root]]\npath = \"ROOT/in\"\nallow_nested = true\n[deny]\nlist_denied = \"show\"\n";
    let states = [".stockade", BROUGHT, ".Stockade", ".STOCKADE-0123456789ABCDEF"];
    let options = Options { policy: Some(policy.into()), in_memory: true, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        for folder in [root.to_owned(), root.join("in"), root.join("other")] {
            make_folder(&folder, 0o755);
            for name in states {
                make_folder(&folder.join(name), 0o755);
                fs::write(folder.join(name).join("needle"), "needle").unwrap();
            }
        }
    });
    let names = |path: &str| -> Vec<String> {
        let reply = jail.call("coder::list-folder", json!({"path": path})).unwrap();
        let entries = reply["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("."), ["in", "other"]);
    assert!(names("in").is_empty());
    assert_eq!(names("other").len(), states.len());
    let found = jail.call("coder::search", json!({"query": "needle"})).unwrap();
    let found: Vec<_> = found["content_matches"].as_array().unwrap().iter().map(|at| at["path"].clone()).collect();
    let other = json!(jail.root.join("other"));
    assert_eq!(found.len(), states.len(), "{found:?}");
    assert!(found.iter().all(|path| path.as_str().unwrap().starts_with(other.as_str().unwrap())), "{found:?}");
    for name in states.iter().flat_map(|name| [name.to_string(), format!("in/{name}")]) {
        for path in [name.clone(), format!("{name}/needle")] {
            assert_eq!(jail.read(&path).expect_err("denied").code(), "C211", "{path}");
            assert_refused(&create(&jail, json!({"path": path, "content": "", "overwrite": true})), "C211");
            assert_refused(&delete_tree(&jail, &path), "C211");
            assert_refused(&relocate(&jail, MOVE, json!({"from": "other/.stockade", "to": path})), "C211");
        }
    }
    for free in [".stockade-fffffffffffffff0", ".stockade/x"] {
        assert_refused(&create(&jail, json!({"path": free, "content": ""})), "C211");
    }
    assert_success(&create(&jail, json!({"path": ".stockade-notes", "content": ""})));
}

/// State as the versions before `.stockade-…` made it.
struct Earlier<'a> {
    root: &'a Path,
}

impl Earlier<'_> {
    fn own(&self) -> PathBuf {
        let own = self.root.join(format!(".stockade/{}", uid()));
        if !own.exists() {
            make_folder(&own, 0o700);
            fs::write(self.root.join(".stockade/.gitignore"), "*\n").unwrap();
            set_mode(&self.root.join(".stockade/.gitignore"), 0o600);
        }
        own
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        set_mode(path, 0o600);
    }

    /// Moves a file into the trash.
    fn discard(&self, name: &str, time_ms: u64) -> String {
        let from = self.root.join(name);
        let at = fs::symlink_metadata(&from).unwrap();
        let id = format!("{time_ms:011x}-{:x}-{:032x}", at.len(), at.ino());
        let entry = self.own().join("trash").join(&id);
        make_folder(&entry, 0o700);
        let (path, dev, ino) = (STANDARD.encode(Path::new(name).as_os_str().as_bytes()), at.dev(), at.ino());
        let about = format!(r#"{{"path":"{path}","item":{{"dev":{dev},"ino":{ino}}}}}"#);
        Self::write(&entry.join("about"), &about);
        fs::rename(from, entry.join("item")).unwrap();
        id
    }

    fn thing(path: &Path) -> String {
        let at = fs::symlink_metadata(path).unwrap();
        let (size, mtime, mtime_ns) = (at.size(), at.mtime(), at.mtime_nsec());
        format!(
            r#"{{"id":{{"dev":{},"ino":{}}},"content":{{"size":{size},"mtime":{mtime},"mtime_ns":{mtime_ns}}}}}"#,
            at.dev(),
            at.ino()
        )
    }

    /// An atomic batch that has replaced a file and was killed before it could say that all was done.
    fn leave_batch(&self, name: &str, new: &str) {
        let id = "00112233445566778899aabbccddeeff";
        let dir = self.own().join("work").join(id);
        make_folder(&dir, 0o700);
        let at = fs::metadata(&dir).unwrap();
        let header = format!("{{\"header\":{{\"dev\":{},\"ino\":{}}}}}\n", at.dev(), at.ino());
        Self::write(&dir.join("journal"), &header);
        let (to, old) = (self.root.join(name), dir.join("0123456789abcdef"));
        fs::rename(&to, &old).unwrap();
        fs::write(&to, new).unwrap();
        let (from, to_name) = (STANDARD.encode(format!("work/{id}/0123456789abcdef")), STANDARD.encode(name));
        let (moved, displaced) = (Self::thing(&to), Self::thing(&old));
        let step = format!(
            r#"{{"rename":{{"from":{{"own":"{from}"}},"to":{{"path":"{to_name}"}},"moved":{moved},"displaced":{displaced}}}}}"#
        );
        Self::write(&dir.join("note-fedcba9876543210"), &format!("{{\"batch\":{{\"steps\":[{step}]}}}}\n"));
    }
}

#[test]
fn the_first_start_settles_what_an_earlier_version_left_and_keeps_its_trash() {
    let ids = std::cell::RefCell::new(Vec::new());
    let policy = "[[root]]\npath = \"ROOT\"\n[trash]\nmax_bytes = 22\n";
    let options = Options { in_memory: true, policy: Some(policy.into()), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        let earlier = Earlier { root };
        for (name, content) in [("f", "old"), ("x", "xxxx"), ("y", "yyyyyyyy"), ("z", "zzzzzzzz")] {
            fs::write(root.join(name), content).unwrap();
        }
        let gone = |(name, time_ms)| earlier.discard(name, time_ms);
        *ids.borrow_mut() = [("x", 0x1a0_0000_0000), ("y", 0x1a0_0000_0001)].map(gone).to_vec();
        earlier.leave_batch("f", "new");
    });
    let ids = ids.into_inner();
    assert_eq!(read(&jail, "f"), "old", "the batch was undone before the first connection");
    assert!(!state::has_work(&jail.root));
    assert_eq!(listed(&jail), [ids[1].as_str(), &ids[0]]);
    // Nothing new goes where the earlier version kept its state, and both count together.
    let before = picture(&jail.root.join(".stockade"));
    assert_success(&create(&jail, json!({"path": "f", "content": "next", "overwrite": true})));
    let third = discard(&jail, &["z"]).remove(0);
    assert_eq!(picture(&jail.root.join(".stockade")), before);
    assert_eq!(listed(&jail), [third.as_str(), &ids[1], &ids[0]]);
    assert_success(&restore(&jail, &ids[1]));
    assert_eq!(read(&jail, "y"), "yyyyyyyy");
    jail.write("large", "1234567890123456");
    let fourth = discard(&jail, &["large"]).remove(0);
    assert_eq!(listed(&jail), [fourth.as_str()], "the oldest goes first, wherever it lies");
}
