//! Guards are never ignored: a changing call with a field that the service does not know is refused before anything happens.

use super::*;

/// Everything on disk that a call could change: names, kinds, inodes, content and times, of the service's own folder too.
/// Folders have no access time here: taking this picture reads them.
pub(crate) fn picture(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        let what = if stat.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if stat.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else if stat.is_file() {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        } else {
            "special".into()
        };
        let facts = format!(
            "{:o} ino {} mtime {}.{} ctime {}.{} {what}",
            stat.mode(),
            stat.ino(),
            stat.mtime(),
            stat.mtime_nsec(),
            stat.ctime(),
            stat.ctime_nsec()
        );
        found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), facts);
    }
    found
}

fn planted() -> TestJail {
    let jail = jail();
    jail.write("a.txt", "one\n");
    jail.write("d/x.txt", "x\n");
    jail.write("d/y.txt", "y\n");
    jail
}

/// A request of every changing function that would succeed, with the lists of objects in it: the places where a field can be.
fn requests() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    vec![
        (
            CREATE,
            json!({"files": [{"path": "new.txt", "content": "x"}, {"path": "n2/b.txt", "content": "y"}]}),
            vec!["", "/files/0", "/files/1"],
        ),
        (
            "coder::update-file",
            json!({"files": [
                {"path": "a.txt", "ops": [{"op": "append", "content": "x"}, {"op": "remove", "from_line": 1, "to_line": 1}]},
                {"path": "d/x.txt", "ops": [{"op": "prepend", "content": "x"}]}]}),
            vec!["", "/files/0", "/files/1", "/files/0/ops/0", "/files/0/ops/1", "/files/1/ops/0"],
        ),
        (
            DELETE,
            json!({"paths": [{"path": "a.txt"}, {"path": "d"}], "recursive": true}),
            vec!["", "/paths/0", "/paths/1"],
        ),
        (
            MOVE,
            json!({"files": [{"from": "a.txt", "to": "b.txt"}, {"from": "d", "to": "e"}]}),
            vec!["", "/files/0", "/files/1"],
        ),
        (
            COPY,
            json!({"files": [{"from": "a.txt", "to": "b.txt"}, {"from": "d", "to": "e", "recursive": true}]}),
            vec!["", "/files/0", "/files/1"],
        ),
        (MKDIR, json!({"paths": [{"path": "m"}, {"path": "m/n"}]}), vec!["", "/paths/0", "/paths/1"]),
        (RESTORE, json!({"ids": ["ID"], "overwrite": true}), vec![""]),
    ]
}

/// Every guard, spelt as callers misspell it.
const MISSPELT: [(&str, &str); 12] = [
    ("dryRun", "dry_run"),
    ("dryrun", "dry_run"),
    ("dry-run", "dry_run"),
    ("ifMatch", "if_match"),
    ("if-match", "if_match"),
    ("if_mach", "if_match"),
    ("ifNoneMatch", "if_none_match"),
    ("Atomic", "atomic"),
    ("atomc", "atomic"),
    ("trsh", "trash"),
    ("baseDir", "base_dir"),
    ("base-dir", "base_dir"),
];

#[test]
fn a_misspelt_guard_refuses_the_whole_call_at_every_level() {
    let jail = planted();
    let trashed = one(jail.call(DELETE, json!({"paths": ["d/y.txt"], "trash": true})));
    let schemas = schemas();
    for (function, mut request, places) in requests() {
        if let Some(id) = request.pointer_mut("/ids/0") {
            *id = trashed["trash_id"].clone();
        }
        let known = schemas.iter().find(|(name, _)| name == function).map(|(_, text)| text.as_str()).unwrap();
        for place in places {
            for (misspelt, meant) in MISSPELT {
                let mut request = request.clone();
                request.pointer_mut(place).unwrap()[misspelt] = json!(true);
                let before = picture(&jail.root);
                let failure = jail.call(function, request.clone()).expect_err(&request.to_string());
                assert_eq!(failure.code(), "C210", "{function} {request}");
                let said = failure.message();
                assert!(said.contains(&format!("{misspelt}: unknown field")), "{said}");
                assert!(said.contains("nothing was changed"), "{said}");
                // A guard that the function has is named, also if it belongs to another level.
                if known.contains(&format!("\"{meant}\"")) {
                    assert!(said.contains(meant), "{function} {place} {misspelt}: {said}");
                }
                assert_eq!(picture(&jail.root), before, "{function} {request}");
            }
        }
    }
}

/// What every function accepts, as the command line prints it.
fn schemas() -> Vec<(String, String)> {
    let bin = support::bin_dir(false).join("stockade");
    let output = std::process::Command::new(bin).args(["schema"]).env_clear().output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = all.as_array().or_else(|| all["functions"].as_array()).expect("a list of functions");
    let of = |function: &Value| {
        (function["function_id"].as_str().unwrap().to_owned(), function["request_schema"].to_string())
    };
    list.iter().map(of).collect()
}

#[test]
fn a_guard_at_the_wrong_level_names_the_right_one() {
    let jail = planted();
    for (function, request, hint) in [
        (DELETE, json!({"paths": ["a.txt"], "if_match": "x"}), "if_match in each entry of paths"),
        (CREATE, json!({"files": [{"path": "n", "content": "", "atomic": true}]}), "atomic is a field of the request"),
        (DELETE, json!({"paths": [{"path": "d", "recursive": true}]}), "recursive is a field of the request"),
        (DELETE, json!({"paths": [{"path": "d", "recursve": true}]}), "did you mean recursive?"),
    ] {
        let before = picture(&jail.root);
        let failure = jail.call(function, request).unwrap_err();
        assert_eq!(failure.code(), "C210");
        assert!(failure.message().contains(hint), "{}", failure.message());
        assert_eq!(picture(&jail.root), before);
    }
}

#[test]
fn a_field_beside_params_refuses_a_changing_call() {
    let jail = planted();
    let mut client = jail.connect();
    let before = picture(&jail.root);
    client.send_line(
        r#"{"jsonrpc":"2.0","id":1,"method":"coder::delete-file","params":{"paths":["a.txt"]},"dry_run":true}"#,
    );
    let reply = client.line().unwrap();
    assert_eq!(reply["error"]["data"]["code"], "C210", "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("belong inside params"), "{reply}");
    assert_eq!(picture(&jail.root), before);
}

#[test]
fn an_entry_that_is_malformed_otherwise_still_fails_alone() {
    let jail = planted();
    let files = json!([{"path": 7, "content": "x"}, {"path": "new.txt", "content": "x"}]);
    let results = results(jail.call(CREATE, json!({"files": files})));
    assert_refused(&results[0], "C210");
    assert_success(&results[1]);
    assert_eq!(read(&jail, "new.txt"), "x");
}

#[test]
fn many_unknown_fields_are_named_briefly() {
    let jail = planted();
    let mut request = json!({"paths": ["a.txt"]});
    (0..1000).for_each(|n| request[format!("field{n:04}")] = json!(1));
    let failure = jail.call(DELETE, request).unwrap_err();
    assert!(failure.message().contains("and more unknown fields") && failure.message().len() < 500);
    assert_eq!(read(&jail, "a.txt"), "one\n");
}
