//! `dry_run`: every changing function says what would happen, and nothing happens.

use std::{cell::RefCell, os::unix::fs::symlink};

use super::{guards::picture, *};
use crate::support::{
    Client,
    random::{Random, seed},
};

/// One connection for all calls of a test: what a worker that ends takes away from its own folder is not the dry run's doing.
struct Dry {
    jail: TestJail,
    client: RefCell<Client>,
}

impl std::ops::Deref for Dry {
    type Target = TestJail;

    fn deref(&self) -> &TestJail {
        &self.jail
    }
}

impl Dry {
    fn call(&self, function: &str, request: Value) -> Result<Value, Failure> {
        self.client.borrow_mut().call(function, request)
    }
}

/// A call that is answered and leaves everything on disk as it was: content, inodes, times, and no folder of the service.
#[track_caller]
fn dry(jail: &Dry, function: &str, mut request: Value) -> Vec<Value> {
    request["dry_run"] = json!(true);
    let before = picture(&jail.root);
    let done = results(jail.call(function, request.clone()));
    assert_eq!(picture(&jail.root), before, "{function} {request}");
    for result in &done {
        assert_eq!(result["dry_run"], json!(true), "{result}");
    }
    done
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::write(root.join("a"), "one\ntwo\n").unwrap();
    fs::write(root.join("d/f"), "f\n").unwrap();
    fs::write(root.join("d/e/g"), "g\n").unwrap();
    fs::create_dir_all(root.join("hidden")).unwrap();
    fs::write(root.join("hidden/.env"), "secret").unwrap();
}

fn planted() -> Dry {
    let jail = jail();
    plant(&jail.root);
    let client = RefCell::new(jail.connect());
    Dry { jail, client }
}

#[test]
fn every_function_says_what_would_happen_with_the_fields_of_the_real_run() {
    let jail = planted();
    let made = dry(&jail, CREATE, json!({"files": [{"path": "n/x", "content": "123"}]})).remove(0);
    assert_success(&made);
    assert_eq!((&made["bytes_written"], made.get("etag"), made.get("diff")), (&json!(3), None, None), "{made}");
    let replaced = json!({"files": [{"path": "a", "content": "one\n2\n", "overwrite": true}]});
    let replaced = dry(&jail, CREATE, replaced).remove(0);
    assert!(replaced["diff"].as_str().unwrap().contains("-two\n+2\n"), "{replaced}");
    let stat = jail.call("coder::stat", json!({"paths": ["a"], "etag": true})).unwrap();
    assert_eq!(replaced["etag"], stat["results"][0]["etag"], "the version that is there");
    let edited = dry(&jail, UPDATE, json!({"files": [{"path": "a", "ops": [{"op": "append", "content": "x\n"}]}]}));
    assert!(edited[0]["diff"].as_str().unwrap().contains("+x\n"), "{edited:?}");
    let deleted = dry(&jail, DELETE, json!({"paths": ["d", "a", "missing"], "recursive": true}));
    assert_eq!((&deleted[0]["removed"], &deleted[0]["entries"]), (&json!(true), &json!(3)), "{deleted:?}");
    assert_eq!((&deleted[1]["removed"], deleted[1].get("entries")), (&json!(true), None));
    assert_eq!(deleted[2]["removed"], json!(false));
    let trashed = dry(&jail, DELETE, json!({"paths": ["a"], "trash": true})).remove(0);
    assert_eq!((&trashed["removed"], trashed.get("trash_id")), (&json!(true), None));
    let moved = dry(&jail, MOVE, json!({"files": [{"from": "d", "to": "n/d"}]})).remove(0);
    assert_eq!(moved["moved"], json!(true));
    let copied =
        dry(&jail, COPY, json!({"files": [{"from": "d", "to": "n/d", "recursive": true}, {"from": "a", "to": "b"}]}));
    assert_eq!((&copied[0]["bytes"], &copied[1]["bytes"]), (&json!(4), &json!(8)));
    assert_eq!(copied[1]["etag"], stat["results"][0]["etag"]);
    let folders = dry(&jail, MKDIR, json!({"paths": ["n/m", "d"]}));
    assert_eq!((&folders[0]["created"], &folders[1]["created"]), (&json!(true), &json!(false)));
}

#[test]
fn it_fails_where_the_real_run_fails() {
    let jail = planted();
    for (function, request, code) in [
        (CREATE, json!({"files": [{"path": "a", "content": ""}]}), "C217"),
        (CREATE, json!({"files": [{"path": ".env", "content": ""}]}), "C211"),
        (CREATE, json!({"files": [{"path": "n/x", "content": "", "parents": false}]}), "C211"),
        (CREATE, json!({"files": [{"path": "a", "content": "", "overwrite": true, "if_match": "0"}]}), "C219"),
        (CREATE, json!({"files": [{"path": "a/x", "content": ""}]}), "C216"),
        (DELETE, json!({"paths": ["d"]}), "C216"),
        (DELETE, json!({"paths": ["hidden"], "recursive": true}), "C211"),
        (DELETE, json!({"paths": [{"path": "d", "if_match": "0"}], "recursive": true}), "C210"),
        (DELETE, json!({"paths": [{"path": "no/x", "if_match": "0"}]}), "C219"),
        (MOVE, json!({"files": [{"from": "hidden", "to": "x"}]}), "C211"),
        (MOVE, json!({"files": [{"from": "a", "to": "d"}]}), "C210"),
        (MOVE, json!({"files": [{"from": "d", "to": "d/x"}]}), "C210"),
        (MOVE, json!({"files": [{"from": "no/x", "to": "y", "if_match": "0"}]}), "C219"),
        (COPY, json!({"files": [{"from": "d", "to": "x"}]}), "C210"),
        (COPY, json!({"files": [{"from": "hidden", "to": "x", "recursive": true}]}), "C211"),
        (COPY, json!({"files": [{"from": "no", "to": "y", "if_match": "0"}]}), "C219"),
        (UPDATE, json!({"files": [{"path": "no", "ops": [{"op": "append", "content": ""}], "if_match": "0"}]}), "C219"),
        (MKDIR, json!({"paths": ["a"]}), "C217"),
        (RESTORE, json!({"ids": ["none"]}), "C211"),
    ] {
        assert_refused(&dry(&jail, function, request.clone())[0], code);
        assert_refused(&one(jail.call(function, request)), code);
    }
}

#[test]
fn restore_foresees_taken_names_and_ids_that_are_used_up() {
    let jail = planted();
    let trash = |path: &str| {
        one(jail.call(DELETE, json!({"paths": [path], "trash": true, "recursive": true})))["trash_id"].clone()
    };
    let (file, folder) = (trash("d/f"), trash("d"));
    let done = dry(&jail, RESTORE, json!({"ids": [file, folder, file]}));
    assert_success(&done[0]);
    assert_refused(&done[1], "C217");
    assert_refused(&done[2], "C211");
    let done = dry(&jail, RESTORE, json!({"ids": [folder, {"id": file}]}));
    done.iter().for_each(assert_success);
    results(jail.call(RESTORE, json!({"ids": [folder, file]}))).iter().for_each(assert_success);
    assert_eq!(read(&jail, "d/f"), "f\n");
    let refused = jail.call(RESTORE, json!({"ids": [file], "trash": true})).unwrap_err();
    assert_eq!(refused.code(), "C210");
}

#[test]
fn one_entry_may_be_dry_alone() {
    let jail = planted();
    let files = json!([
        {"path": "x", "content": "1", "dry_run": true},
        {"path": "y", "content": "2"},
        {"path": "x", "content": "3", "dry_run": true},
    ]);
    let done = results(jail.call(CREATE, json!({ "files": files })));
    assert_success(&done[0]);
    assert_success(&done[1]);
    assert_eq!((&done[0]["dry_run"], done[1].get("dry_run")), (&json!(true), None));
    assert_refused(&done[2], "C217");
    assert!(!jail.root.join("x").exists() && read(&jail, "y") == "2");
    // What a dry entry left is never written by one that is not.
    let append = |text: &str, dry_run: bool| json!({"path": "y", "ops": [{"op": "append", "content": text}], "dry_run": dry_run});
    let files = json!([append("dry\n", true), append("real\n", false), append("dry\n", true)]);
    let done = results(jail.call(UPDATE, json!({ "files": files })));
    assert_eq!(read(&jail, "y"), "2\nreal\n");
    assert!(done[2]["diff"].as_str().unwrap().contains(" real\n+dry\n"), "{done:?}");
    let done = results(jail.call(DELETE, json!({"paths": [{"path": "a", "dry_run": true}, "y"]})));
    assert_eq!((&done[0]["removed"], &done[1]["removed"]), (&json!(true), &json!(true)));
    assert!(jail.root.join("a").exists() && !jail.root.join("y").exists());
}

#[test]
fn contradictions_are_refused() {
    let jail = planted();
    let before = picture(&jail.root);
    let files = json!([{"path": "x", "content": "", "dry_run": false}, {"path": "y", "content": ""}]);
    let done = results(jail.call(CREATE, json!({"files": files, "dry_run": true})));
    assert_refused(&done[0], "C210");
    assert_success(&done[1]);
    let mixed = json!({"paths": [{"path": "a", "dry_run": true}, "d/f"], "atomic": true});
    assert_eq!(jail.call(DELETE, mixed).unwrap_err().code(), "C210");
    assert_eq!(jail.call(RESTORE, json!({"ids": ["x"], "path": "d"})).unwrap_err().code(), "C210");
    assert_eq!(picture(&jail.root), before);
}

#[test]
fn a_dry_run_of_an_atomic_batch_says_whether_it_would_succeed() {
    let jail = planted();
    let swap = json!({"files": [{"from": "a", "to": "t"}, {"from": "d", "to": "a"}, {"from": "t", "to": "d"}], "atomic": true});
    dry(&jail, MOVE, swap.clone()).iter().for_each(assert_success);
    results(jail.call(MOVE, swap)).iter().for_each(assert_success);
    assert_eq!(read(&jail, "a/f"), "f\n");
    let fails = json!({"files": [{"path": "n", "content": ""}, {"path": "a", "content": ""}], "atomic": true});
    let done = dry(&jail, CREATE, fails);
    assert!(assert_refused(&done[0], "C216").contains("entry 1"));
    assert_refused(&done[1], "C217");
}

/// Listing a folder changes its time of last access; a dry run does not even do that.
#[test]
fn not_even_the_access_times_of_folders_change() {
    let jail = planted();
    let folders = ["", "d", "d/e", "empty", "hidden"];
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for folder in folders {
        let folder = fs::File::open(jail.root.join(folder)).unwrap();
        folder.set_times(fs::FileTimes::new().set_accessed(past).set_modified(past)).unwrap();
    }
    for (function, request) in [
        (DELETE, json!({"paths": ["d", "empty"], "recursive": true})),
        (DELETE, json!({"paths": ["d", "empty"], "recursive": true, "trash": true})),
        (DELETE, json!({"paths": ["empty"]})),
        (MOVE, json!({"files": [{"from": "d", "to": "empty", "overwrite": true}]})),
        (COPY, json!({"files": [{"from": "d", "to": "empty", "overwrite": true, "recursive": true}]})),
        (
            CREATE,
            json!({"files": [{"path": "empty/x", "content": ""}, {"path": "d/f", "content": "", "overwrite": true}]}),
        ),
        (MKDIR, json!({"paths": ["empty/x/y"]})),
    ] {
        let mut request = request;
        request["dry_run"] = json!(true);
        results(jail.call(function, request)).iter().for_each(assert_success);
        for folder in folders {
            let stat = fs::metadata(jail.root.join(folder)).unwrap();
            assert_eq!((stat.atime(), stat.mtime()), (1_000_000_000, 1_000_000_000), "{function} {folder:?}");
        }
    }
}

/// Random trees and calls.
struct Calls(Random);

impl Calls {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.0.one_in(one_in)
    }

    /// A path of one to three names; now and then a denied one.
    fn path(&mut self) -> String {
        let names = ["a", "b", "c"];
        let mut path = vec![names[self.below(3)]];
        while path.len() < 3 && self.chance(2) {
            path.push(names[self.below(3)]);
        }
        if self.chance(30) {
            path.push(".env");
        }
        path.join("/")
    }

    fn tree(&mut self, root: &Path) {
        for entry in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
            if is_state(entry.file_name().unwrap()) {
                continue;
            }
            let is_dir = fs::symlink_metadata(&entry).unwrap().is_dir();
            if is_dir { fs::remove_dir_all(entry).unwrap() } else { fs::remove_file(entry).unwrap() }
        }
        for _ in 0..self.below(8) {
            let path = root.join(self.path());
            // What is in the way stays.
            let _ = fs::create_dir_all(path.parent().unwrap());
            let _ = match self.below(5) {
                0 => fs::create_dir_all(&path),
                1 => symlink("a", &path),
                _ => fs::write(&path, format!("{}\n", self.below(3))),
            };
        }
    }

    fn call(&mut self) -> (&'static str, Value) {
        let count = 1 + self.below(4);
        let atomic = self.chance(2);
        let etag = |random: &mut Self, entry: &mut Value| {
            if random.chance(6) {
                // Of "0\n", so that it fits now and then.
                entry["if_match"] = json!(blake3::hash(b"0\n").to_hex()[..32]);
            }
        };
        let flag = |random: &mut Self, entry: &mut Value, name: &str| {
            if random.chance(2) {
                entry[name] = json!(random.chance(2));
            }
        };
        let function = [CREATE, UPDATE, DELETE, MOVE, COPY, MKDIR][self.below(6)];
        let mut entries = Vec::new();
        for _ in 0..count {
            let mut entry = match function {
                CREATE => json!({"path": self.path(), "content": format!("{}\n", self.below(3))}),
                UPDATE => {
                    json!({"path": self.path(), "ops": [{"op": "str_replace", "old": self.below(3).to_string(), "new": "1"}]})
                }
                DELETE | MKDIR => json!({"path": self.path()}),
                _ => json!({"from": self.path(), "to": self.path()}),
            };
            if function != MKDIR {
                etag(self, &mut entry);
            }
            if [CREATE, MOVE, COPY].contains(&function) {
                flag(self, &mut entry, "overwrite");
                flag(self, &mut entry, "parents");
            }
            if function == COPY {
                flag(self, &mut entry, "recursive");
            }
            entries.push(entry);
        }
        let field = if [DELETE, MKDIR].contains(&function) { "paths" } else { "files" };
        let mut request = json!({ field: entries, "atomic": atomic });
        if function == DELETE {
            flag(self, &mut request, "recursive");
            flag(self, &mut request, "trash");
        }
        if function == MKDIR {
            flag(self, &mut request, "parents");
        }
        (function, request)
    }
}

/// What became of an entry, as far as a dry run can know it.
fn outcome(result: &Value) -> Value {
    let fields =
        ["success", "bytes_written", "removed", "moved", "copied", "created", "changed", "applied", "new_line_count"];
    let mut outcome: serde_json::Map<String, Value> =
        fields.iter().filter_map(|field| Some(((*field).to_owned(), result.get(*field)?.clone()))).collect();
    outcome.insert("code".into(), result["error"]["code"].clone());
    outcome.into()
}

fn call(client: &mut Client, function: &str, request: &Value) -> Vec<Value> {
    results(client.call(function, request.clone()))
}

#[test]
fn random_calls_do_what_their_dry_run_said() {
    let jail = jail_with("durability = \"none\"\n[[root]]\npath = \"ROOT\"\n[trash]\nenabled = true\n");
    let mut client = jail.connect();
    let first = seed("dry runs");
    let (mut succeeded, mut failed) = (0, 0);
    for round in 0..1000 {
        let mut random = Calls(Random::new(first.wrapping_add(round)));
        random.tree(&jail.root);
        let (function, request) = random.call();
        let mut dry_request = request.clone();
        dry_request["dry_run"] = json!(true);
        let before = picture(&jail.root);
        let foreseen: Vec<Value> = call(&mut client, function, &dry_request).iter().map(outcome).collect();
        assert_eq!(picture(&jail.root), before, "round {round}: {function} {dry_request}");
        let done = call(&mut client, function, &request);
        let happened: Vec<Value> = done.iter().map(outcome).collect();
        assert_eq!(foreseen, happened, "round {round}: {function} {request}\n{done:#?}\n{before:#?}");
        let good = happened.iter().filter(|outcome| outcome["success"] == json!(true)).count();
        (succeeded, failed) = (succeeded + good, failed + happened.len() - good);
    }
    assert!(succeeded > 300 && failed > 300, "{succeeded} succeeded, {failed} failed: too one-sided to prove anything");
    jail.assert_intact();
}
