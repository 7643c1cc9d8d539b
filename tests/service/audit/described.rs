//! docs/AUDIT.md and the records say the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Client, Value, audit_of, make_log_folder, policy,
    support::{TestJail, json},
};

/// Field, events, whether it is there always.
fn documented() -> BTreeMap<(String, String), bool> {
    let text = include_str!("../../../docs/AUDIT.md");
    let table = text.split("## Fields").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut fields = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (field, events) = (cells.next().unwrap(), cells.next().unwrap());
        let name = field.trim_end_matches('?').trim_matches('`');
        let all = "accepted, refused, ended, decided, reported, outcome";
        let events = if events == "all" { all } else { events };
        for event in events.split(", ") {
            fields.insert((name.to_owned(), event.to_owned()), !field.ends_with('?'));
        }
    }
    fields
}

/// Every kind of record, each with every field it can have.
fn all_kinds() -> Vec<Value> {
    let mut options = policy("all", "");
    options.policy.as_mut().unwrap().push_str("[limits]\nmax_connections_per_uid = 1\n");
    let jail = TestJail::with_tree(options, make_log_folder);
    let mut client = jail.connect();
    for path in ["../x", "no/such/file", "x"] {
        let _ = client.call("coder::read-file", json!({"path": path}));
    }
    jail.connect().rest();
    let long = format!("{}/", "x".repeat(200)).repeat(19);
    for path in [long.clone(), format!("../{long}")] {
        let _ = client.call("coder::read-file", json!({"path": path}));
    }
    // 0xff, below the root and outside.
    for path in ["/w==", "Li4v/w=="] {
        let _ = client.call("coder::read-file", json!({"path_bytes": path}));
    }
    changes(&mut client, &long);
    drop(client);
    super::eventually("the connection has ended", || {
        audit_of(&jail).iter().filter(|record| record["event"] == "ended").count() == 2
    });
    audit_of(&jail)
}

/// Outcomes with every field that they can have.
fn changes(client: &mut Client, long: &str) {
    let mut call = |function: &str, params: Value| client.call(function, params);
    let made = call("coder::create-file", json!({"files": [{"path": "d/a", "content": "x"}]})).unwrap();
    let etag = &made["results"][0]["etag"];
    let again = json!({"path": "d/a", "content": "y", "overwrite": true, "if_match": etag});
    call("coder::create-file", json!({"files": [again]})).unwrap();
    call("coder::delete-file", json!({"paths": ["d"], "recursive": true, "trash": true})).unwrap();
    let _ = call("coder::mkdir", json!({"paths": [".env", long]}));
    let _ = call("coder::move", json!({"files": [{"from_bytes": "/w==", "to_bytes": "/w=="}]}));
}

#[test]
fn every_field_is_described_and_every_description_is_true() {
    let documented = documented();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for record in all_kinds() {
        let record = record.as_object().unwrap();
        let event = record["event"].as_str().unwrap().to_owned();
        for field in record.keys() {
            let known = documented.contains_key(&(field.clone(), event.clone()));
            assert!(known, "{field} of {event} is not in docs/AUDIT.md");
            seen.insert((field.clone(), event.clone()));
        }
        for ((field, _), _) in documented.iter().filter(|((_, of), always)| **always && *of == event) {
            assert!(record.contains_key(field), "{event} without {field}: {record:?}");
        }
    }
    // Seen where something is lost; pidfds of peers come with the kernel.
    let elsewhere = ["lost_before", "peer_alive"];
    let unseen: Vec<_> =
        documented.keys().filter(|key| !elsewhere.contains(&key.0.as_str()) && !seen.contains(key)).collect();
    assert!(unseen.is_empty(), "docs/AUDIT.md describes what never was seen: {unseen:?}");
}

#[test]
fn the_example_is_a_record() {
    let text = include_str!("../../../docs/AUDIT.md");
    let example = text.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    let fields = documented();
    let event = example["event"].as_str().unwrap().to_owned();
    for field in example.as_object().unwrap().keys() {
        assert!(fields.contains_key(&(field.clone(), event.clone())), "{field}");
    }
}
