//! What became of every entry of a call that changes something.

use std::fs;

use super::{
    Client, Options, TestJail, Value, audit_of, of_connection, policy, start,
    support::{json, process::eventually},
};

/// An outcome as a record has it, and as a script expects it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Expected {
    function: String,
    /// `changed`, `unchanged`, `dry-run`, or the code of a refusal.
    became: String,
    path: String,
    to: Option<String>,
    bytes: Option<u64>,
    entries: Option<u64>,
    before: Option<String>,
    after: Option<String>,
    is_denied: bool,
    in_trash: bool,
}

fn outcome_of(record: &Value) -> Expected {
    let text = |field: &str| record[format!("reported_{field}")].as_str().map(str::to_owned);
    let number = |field: &str| record[format!("reported_{field}")].as_u64();
    let refused = text("outcome").as_deref() == Some("refused");
    assert_eq!(refused, record["reported_code"].is_string(), "{record}");
    Expected {
        function: text("function").unwrap(),
        became: if refused { text("code").unwrap() } else { text("outcome").unwrap() },
        path: text("path").unwrap(),
        to: text("to"),
        bytes: number("bytes"),
        entries: number("entries"),
        before: text("etag_before"),
        after: text("etag_after"),
        is_denied: record["reported_denied"] == true,
        in_trash: record["reported_trash_id"].is_string(),
    }
}

fn outcomes_of(records: &[Value]) -> Vec<Expected> {
    records.iter().filter(|record| record["event"] == "outcome").map(outcome_of).collect()
}

/// A client, and the outcomes that its calls should have by now.
struct Script {
    client: Client,
    root: String,
    calls: usize,
    expected: Vec<Expected>,
}

impl Script {
    fn new(jail: &TestJail) -> Self {
        let root = jail.root.to_str().unwrap().to_owned();
        Self { client: jail.connect(), root, calls: 0, expected: Vec::new() }
    }

    /// An outcome for a name below the root.
    fn at(&self, became: &str, path: &str) -> Expected {
        Expected { became: became.into(), path: format!("{}/{path}", self.root), ..Expected::default() }
    }

    fn both(&self, became: &str, from: &str, to: &str) -> Expected {
        Expected { to: Some(format!("{}/{to}", self.root)), ..self.at(became, from) }
    }

    /// A read, which has no outcome.
    fn read(&mut self, function: &str, params: Value) {
        self.calls += 1;
        let _ = self.client.call(function, params);
    }

    /// A change, and what becomes of its entries. Returns their results.
    fn call(&mut self, function: &str, params: Value, entries: Vec<Expected>) -> Vec<Value> {
        self.calls += 1;
        let reply = self.client.call(function, params.clone());
        let results = match &reply {
            Ok(reply) => reply["results"].as_array().unwrap().clone(),
            Err(_) => Vec::new(),
        };
        for (index, entry) in entries.iter().enumerate() {
            let code = match &reply {
                Ok(_) => results[index]["error"]["code"].as_str().map(str::to_owned),
                Err(failure) => Some(failure.code()),
            };
            let is_refused = entry.became.starts_with('C');
            assert_eq!(code, is_refused.then(|| entry.became.clone()), "{function} {params}: {reply:?}");
        }
        self.expected.extend(entries.into_iter().map(|entry| Expected { function: function.into(), ..entry }));
        results
    }

    fn call_one(&mut self, function: &str, params: Value, entry: Expected) -> Value {
        self.call(function, params, vec![entry]).pop().unwrap_or_default()
    }

    fn assert_audited(self, jail: &TestJail) {
        let records = of_connection(jail, self.client);
        let found = outcomes_of(&records);
        for (index, (found, expected)) in found.iter().zip(&self.expected).enumerate() {
            assert_eq!(found, expected, "outcome {index}");
        }
        assert_eq!(found.len(), self.expected.len());
        assert!(!records.iter().any(|record| record["event"] == "reported" && {
            let function = record["reported_function"].as_str().unwrap();
            ["create", "update", "delete", "move", "copy", "mkdir"].iter().any(|word| function.contains(word))
        }));
    }
}

const CREATE: &str = "coder::create-file";
const UPDATE: &str = "coder::update-file";
const DELETE: &str = "coder::delete-file";
const MOVE: &str = "coder::move";
const COPY: &str = "coder::copy";
const MKDIR: &str = "coder::mkdir";
const RESTORE: &str = "coder::restore";

fn etag(result: &Value) -> Option<String> {
    result["etag"].as_str().map(str::to_owned)
}

fn replaced(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "ops": [{"op": "str_replace", "old": old, "new": new}]})
}

/// Files made, edited and replaced. Leaves `d/a` with the content `three`.
fn files(script: &mut Script, d: &str) {
    let (a, b, empty) = (format!("{d}/a"), format!("{d}/b"), String::new());
    let entry = |path: &str, more: Value| {
        let mut entry = json!({"path": path, "content": "one"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"files": [entry]})
    };
    let bytes = |entry: Expected, bytes: u64| Expected { bytes: Some(bytes), ..entry };
    let expected = bytes(script.at("dry-run", &a), 3);
    script.call_one(CREATE, entry(&a, json!({"dry_run": true})), expected);
    script.read("coder::read-file", json!({"path": a}));
    // Its etag is in the reply, which the script has only afterwards.
    let made = script.call_one(CREATE, entry(&a, json!({})), Expected::default());
    let first = etag(&made);
    let last = script.expected.last_mut().unwrap();
    *last = Expected { after: first.clone(), function: CREATE.into(), ..bytes(last.clone(), 3) };
    last.became = "changed".into();
    last.path = format!("{}/{a}", script.root);
    let expected = script.at("C217", &a);
    script.call_one(CREATE, entry(&a, json!({})), expected);
    let expected = script.at("C219", &a);
    script.call_one(CREATE, entry(&a, json!({"overwrite": true, "if_match": "0123"})), expected);
    let expected = Expected { before: first.clone(), ..bytes(script.at("dry-run", &a), 3) };
    script.call_one(CREATE, entry(&a, json!({"overwrite": true, "dry_run": true})), expected);
    let expected = Expected { before: first.clone(), after: first.clone(), ..bytes(script.at("changed", &a), 3) };
    script.call_one(CREATE, entry(&a, json!({"overwrite": true, "if_match": first})), expected);
    // Neither read nor hashed, so nothing is known about the old content.
    let expected = Expected { after: first.clone(), ..bytes(script.at("changed", &a), 3) };
    script.call_one(CREATE, entry(&a, json!({"overwrite": true})), expected);

    let expected = Expected { before: first.clone(), ..bytes(script.at("dry-run", &a), 5) };
    script.call_one(UPDATE, json!({"files": [replaced(&a, "one", "three")], "dry_run": true}), expected);
    let expected = Expected { before: first.clone(), after: first.clone(), ..script.at("unchanged", &a) };
    script.call_one(UPDATE, json!({"files": [replaced(&a, "one", "one")]}), expected);
    let expected = script.at("C210", &a);
    script.call_one(UPDATE, json!({"files": [replaced(&a, "absent", "x")]}), expected);
    let expected = script.at("C211", &b);
    script.call_one(UPDATE, json!({"files": [replaced(&b, "x", "y")]}), expected);
    let mut edit = replaced(&a, "one", "three");
    edit["if_match"] = json!("0123");
    let expected = script.at("C219", &a);
    script.call_one(UPDATE, json!({"files": [edit.clone()]}), expected);
    edit["if_match"] = json!(first);
    let expected = Expected { before: first, ..bytes(script.at("changed", &a), 5) };
    let edited = script.call_one(UPDATE, json!({"files": [edit]}), expected);
    script.expected.last_mut().unwrap().after = etag(&edited);
    script.read("coder::stat", json!({"paths": [a]}));

    // Refused before anything is asked of the supervisor.
    let sent = |became: &str, path: &str| Expected { became: became.into(), path: path.into(), ..Expected::default() };
    let denied = |path: &str| Expected { is_denied: true, ..sent("C211", path) };
    script.call_one(CREATE, entry("../x", json!({})), sent("C215", "../x"));
    script.call_one(CREATE, entry(".env", json!({})), denied(".env"));
    script.call_one(UPDATE, json!({"files": [replaced("a/.env", "x", "y")]}), denied("a/.env"));
    script.call_one(CREATE, entry(&b, json!({"mode": "rwx"})), sent("C210", &b));
    script.call_one(CREATE, entry(&b, json!({"encoding": "base64"})), sent("C210", &b));
    let away = json!({"base_dir": d, "files": [{"path": "../../c", "content": "x"}, {"path": "../c", "content": "x"}]});
    let outside = sent("C215", &format!("{d}/../../c"));
    script.call(CREATE, away, vec![outside, sent("C218", &format!("{d}/../c"))]);
    // Refused as a whole: a member that is not known, no list, an empty one.
    script.call_one(CREATE, json!({"files": [{"path": b, "content": "x"}], "atomc": true}), sent("C210", &b));
    script.call_one(CREATE, json!({"files": "x"}), sent("C210", &empty));
    script.call_one(CREATE, json!({"files": []}), sent("C210", &empty));
    let mixed = json!({"atomic": true, "files": [
        {"path": b, "content": "x", "dry_run": true}, {"path": a, "content": "x"}]});
    script.call(CREATE, mixed, vec![sent("C210", &b), sent("C210", &a)]);
}

/// Folders made, copied, moved and deleted.
fn folders(script: &mut Script, d: &str) {
    let name = |name: &str| format!("{d}/{name}");
    let (tree, copy, moved) = (name("tree"), name("copy"), name("moved"));
    let expected = script.at("dry-run", &tree);
    script.call_one(MKDIR, json!({"paths": [tree], "dry_run": true}), expected);
    let expected = script.at("changed", &format!("{tree}/deep"));
    script.call_one(MKDIR, json!({"paths": [format!("{tree}/deep")]}), expected);
    let expected = script.at("unchanged", &tree);
    script.call_one(MKDIR, json!({"paths": [tree]}), expected);
    let expected = script.at("C217", &name("a"));
    script.call_one(MKDIR, json!({"paths": [name("a")]}), expected);
    let files: Vec<Value> =
        (0..3).map(|n| json!({"path": format!("{tree}/deep/{n}"), "content": "12345678"})).collect();
    let expected =
        |script: &Script, n: usize| Expected { bytes: Some(8), ..script.at("changed", &format!("{tree}/deep/{n}")) };
    let expected = (0..3).map(|n| expected(script, n)).collect();
    let results = script.call(CREATE, json!({"files": files}), expected);
    let made = script.expected.len() - 3;
    for (expected, result) in script.expected[made..].iter_mut().zip(&results) {
        expected.after = etag(result);
    }
    let hash = etag(&results[0]);

    let from_to = |from: &str, to: &str, more: Value| {
        let mut entry = json!({"from": from, "to": to});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"files": [entry]})
    };
    let sized = |entry: Expected| Expected { bytes: Some(24), entries: Some(4), ..entry };
    let expected = sized(script.both("dry-run", &tree, &copy));
    script.call_one(COPY, from_to(&tree, &copy, json!({"recursive": true, "dry_run": true})), expected);
    let expected = script.both("C210", &tree, &copy);
    script.call_one(COPY, from_to(&tree, &copy, json!({})), expected);
    let expected = sized(script.both("changed", &tree, &copy));
    script.call_one(COPY, from_to(&tree, &copy, json!({"recursive": true})), expected);
    let expected = Expected {
        bytes: Some(8),
        after: hash.clone(),
        ..script.both("changed", &format!("{tree}/deep/0"), &name("c"))
    };
    script.call_one(COPY, from_to(&format!("{tree}/deep/0"), &name("c"), json!({})), expected);
    let expected = script.both("C217", &name("c"), &name("a"));
    script.call_one(COPY, from_to(&name("c"), &name("a"), json!({})), expected);

    let expected = script.both("dry-run", &copy, &moved);
    script.call_one(MOVE, from_to(&copy, &moved, json!({"dry_run": true})), expected);
    let expected = script.both("changed", &copy, &moved);
    script.call_one(MOVE, from_to(&copy, &moved, json!({})), expected);
    let expected = script.both("unchanged", &moved, &moved);
    script.call_one(MOVE, from_to(&moved, &moved, json!({})), expected);
    let expected = script.both("C211", &copy, &moved);
    script.call_one(MOVE, from_to(&copy, &moved, json!({})), expected);
    let denied = Expected {
        became: "C211".into(),
        path: name("c"),
        to: Some(name("c.pem")),
        is_denied: true,
        ..Expected::default()
    };
    script.call_one(MOVE, from_to(&name("c"), &name("c.pem"), json!({})), denied);
    let expected =
        Expected { before: hash.clone(), after: hash.clone(), ..script.both("changed", &name("c"), &name("e")) };
    script.call_one(MOVE, from_to(&name("c"), &name("e"), json!({"if_match": hash})), expected);

    let counted = |entry: Expected| Expected { entries: Some(4), ..entry };
    let expected = counted(script.at("dry-run", &moved));
    script.call_one(DELETE, json!({"paths": [moved], "recursive": true, "dry_run": true}), expected);
    let expected = script.at("C216", &moved);
    script.call_one(DELETE, json!({"paths": [moved]}), expected);
    let expected = counted(script.at("changed", &moved));
    script.call_one(DELETE, json!({"paths": [moved], "recursive": true}), expected);
    let expected = script.at("unchanged", &moved);
    script.call_one(DELETE, json!({"paths": [moved]}), expected);
    let expected = Expected { before: hash.clone(), ..script.at("changed", &name("e")) };
    script.call_one(DELETE, json!({"paths": [{"path": name("e"), "if_match": hash}]}), expected);

    let expected = Expected { in_trash: true, ..counted(script.at("changed", &tree)) };
    let trashed = script.call_one(DELETE, json!({"paths": [tree], "recursive": true, "trash": true}), expected);
    let id = trashed["trash_id"].as_str().unwrap().to_owned();
    script.read(RESTORE, json!({"list": true}));
    let expected = Expected { in_trash: true, ..script.at("dry-run", &tree) };
    script.call_one(RESTORE, json!({"ids": [id], "dry_run": true}), expected);
    let unknown = Expected { became: "C211".into(), in_trash: true, ..Expected::default() };
    let expected = Expected { in_trash: true, ..script.at("changed", &tree) };
    script.call(RESTORE, json!({"ids": [id, "0-0-0"]}), vec![expected, unknown]);
}

/// Batches of which entries fail alone or together.
fn batches(script: &mut Script, d: &str) {
    let name = |name: &str| format!("{d}/{name}");
    let made = script.at("changed", &name("m1"));
    let exists = script.at("C217", &name("a"));
    let also = script.at("changed", &name("m2"));
    script.call(MKDIR, json!({"paths": [name("m1"), name("a"), name("m2")]}), vec![made, exists, also]);
    // Undone as a whole: nothing was changed.
    let others = |path: &str| script.at("C216", path);
    let expected = vec![others(&name("m3")), script.at("C217", &name("a")), others(&name("m4"))];
    script.call(MKDIR, json!({"paths": [name("m3"), name("a"), name("m4")], "atomic": true}), expected);
    let expected = vec![script.at("C216", &name("x1")), script.at("C219", &name("a"))];
    let files = json!([{"path": name("x1"), "content": "x"},
        {"path": name("a"), "content": "x", "overwrite": true, "if_match": "0123"}]);
    script.call(CREATE, json!({"files": files, "atomic": true}), expected);
    let expected = vec![script.at("changed", &name("m3")), script.at("changed", &name("m4"))];
    script.call(MKDIR, json!({"paths": [name("m3"), name("m4")], "atomic": true}), expected);
    let expected = vec![script.at("dry-run", &name("m5")), script.at("changed", &name("m6"))];
    script.call(MKDIR, json!({"paths": [{"path": name("m5"), "dry_run": true}, name("m6")]}), expected);
    // More than one message holds.
    let paths: Vec<String> = (0..70).map(|n| name(&format!("many/{n}"))).collect();
    let expected = paths.iter().map(|path| script.at("changed", path)).collect();
    script.call(MKDIR, json!({ "paths": paths }), expected);
    let expected = vec![Expected { entries: Some(70), ..script.at("changed", &name("many")) }];
    script.call(DELETE, json!({"paths": [name("many")], "recursive": true, "atomic": true}), expected);
}

fn reads(script: &mut Script, d: &str) {
    script.read("coder::info", json!({}));
    for function in ["coder::list-folder", "coder::tree"] {
        script.read(function, json!({"path": d}));
        script.read(function, json!({"path": "../outside"}));
    }
    script.read("coder::find", json!({"paths": [format!("{d}/**")]}));
    script.read("coder::search", json!({"query": "three", "path": d}));
    script.read("coder::read-file", json!({"path": ".env"}));
    script.read("coder::read-file", json!({"path": format!("{d}/a")}));
}

#[test]
fn a_long_session_leaves_one_outcome_for_each_entry_and_no_other() {
    let jail = start(Options { in_memory: true, ..policy("all", "") });
    let mut script = Script::new(&jail);
    for round in 0..4 {
        let d = format!("d{round}");
        files(&mut script, &d);
        folders(&mut script, &d);
        batches(&mut script, &d);
        reads(&mut script, &d);
    }
    assert!(script.calls > 200, "{}", script.calls);
    script.assert_audited(&jail);
    jail.canaries.assert_untouched();
}

#[test]
fn a_read_only_root_refuses_with_an_outcome_at_the_lowest_level() {
    let options = policy("denials", "mode = \"ro\"");
    let jail = TestJail::with_tree(options, |root| {
        super::make_log_folder(root);
        fs::write(root.join("file"), "x").unwrap();
    });
    let mut client = jail.connect();
    let _ = client.call(CREATE, json!({"files": [{"path": "new", "content": "x"}]}));
    let _ = client.call(MOVE, json!({"files": [{"from": "file", "to": "other"}]}));
    // Missing, not denied: nothing for this level.
    let _ = client.call(MOVE, json!({"files": [{"from": "no/such", "to": "../x"}]}));
    eventually("all are told", || outcomes_of(&audit_of(&jail)).len() >= 3);
    let codes: Vec<String> = outcomes_of(&audit_of(&jail)).into_iter().map(|outcome| outcome.became).collect();
    assert_eq!(codes, ["C221", "C221", "C215"]);
}

#[test]
fn what_was_only_missing_is_no_denial() {
    let jail = start(policy("denials", ""));
    let mut client = jail.connect();
    for path in ["missing", "../x", ".env"] {
        let _ = client.call(UPDATE, json!({"files": [replaced(path, "x", "y")]}));
    }
    let _ = client.call(MKDIR, json!({"paths": ["made"]}));
    let _ = client.call(CREATE, json!({"files": [{"path": "made", "content": "x"}]}));
    let _ = client.call(DELETE, json!({"paths": ["../last"]}));
    eventually("the last is told", || outcomes_of(&audit_of(&jail)).iter().any(|last| last.path == "../last"));
    let paths: Vec<String> = outcomes_of(&audit_of(&jail)).into_iter().map(|outcome| outcome.path).collect();
    assert_eq!(paths, ["../x", ".env", "../last"]);
}

/// A call that is cancelled before it runs, one whose id is taken, one with a member that is not known.
#[test]
fn a_change_that_never_ran_has_an_outcome() {
    let jail = start(policy("decisions", ""));
    let mut client = jail.connect();
    let call = |id: u64, path: &str, more: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"coder::mkdir\",\"params\":{{\"paths\":[\"{path}\"]}}{more}}}\n"
        )
    };
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":3}}\n";
    let lines = [call(1, "a", ",\"timeot_ms\":1"), call(2, "b", ""), call(2, "c", ""), call(3, "d", ""), cancel.into()];
    client.send_bytes(lines.concat().as_bytes());
    let records = {
        for _ in 0..4 {
            client.line().unwrap();
        }
        of_connection(&jail, client)
    };
    let mut found: Vec<(String, String)> =
        outcomes_of(&records).into_iter().map(|outcome| (outcome.path, outcome.became)).collect();
    found.sort();
    let root = jail.root.to_str().unwrap();
    let cancelled = if jail.root.join("d").exists() { (format!("{root}/d"), "changed") } else { ("d".into(), "C220") };
    let mut expected = vec![(format!("{root}/b"), "changed"), cancelled, ("a".into(), "C210"), ("c".into(), "C210")];
    expected.sort();
    assert_eq!(found, expected.into_iter().map(|(path, became)| (path, became.to_owned())).collect::<Vec<_>>());
}

/// To another root a file is copied and then removed; the bytes are known, and so is the etag.
#[test]
fn a_move_to_another_root_has_both_ends_and_its_bytes() {
    let jail = TestJail::with_tree(policy("decisions", "[[root]]\npath = \"ROOT/../second\""), |root| {
        super::make_log_folder(root);
        fs::create_dir(root.parent().unwrap().join("second")).unwrap();
        fs::write(root.join("file"), "12345").unwrap();
    });
    let mut client = jail.connect();
    let second = jail.dir.path().canonicalize().unwrap().join("second/file");
    let reply = client.call(MOVE, json!({"files": [{"from": "file", "to": second}]})).unwrap();
    let etag = etag(&reply["results"][0]);
    assert!(etag.is_some(), "{reply}");
    let found = outcomes_of(&of_connection(&jail, client));
    let expected = Expected {
        function: MOVE.into(),
        became: "changed".into(),
        path: format!("{}/file", jail.root.to_str().unwrap()),
        to: Some(second.to_str().unwrap().to_owned()),
        bytes: Some(5),
        before: etag.clone(),
        after: etag,
        ..Expected::default()
    };
    assert_eq!(found, [expected]);
}
