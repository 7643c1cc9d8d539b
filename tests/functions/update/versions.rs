//! Many writers of one file: with `if_match` exactly one wins each time, without it no edit is lost.

use std::{collections::BTreeSet, fs, thread};

use super::{
    UPDATE,
    support::{TestJail, Value, json},
};

const CLIENTS: usize = 16;
const TRIES: usize = 12;

#[test]
fn of_writers_with_the_same_version_exactly_one_wins() {
    let jail = TestJail::new();
    let path = jail.write("file", "start\n");
    let successes: usize = thread::scope(|scope| {
        let jail = &jail;
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || compete(jail, client))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let text = fs::read_to_string(path).unwrap();
    let lines: BTreeSet<&str> = text.lines().skip(1).collect();
    // Each version adds one line of its own: as many lines as successes means that none was lost and none counted twice.
    assert_eq!((text.lines().count() - 1, lines.len()), (successes, successes));
    assert!(successes >= TRIES, "somebody wins each round: {successes}");
}

/// Reads, edits what it has read, and counts how often that worked.
fn compete(jail: &TestJail, number: usize) -> usize {
    let mut client = jail.connect();
    let mut won = 0;
    for round in 0..TRIES {
        let read = client.call("coder::read-file", json!({"path": "file"})).unwrap();
        let line = format!("{number} {round}\n");
        let file = json!({"path": "file", "if_match": read["etag"], "ops": [{"op": "append", "content": line}]});
        let result = client.call(UPDATE, json!({"files": [file]})).unwrap()["results"][0].clone();
        match result["error"]["code"].as_str() {
            None => {
                let expected = read["content"].as_str().unwrap().to_owned() + &line;
                assert_eq!(result["new_line_count"], expected.lines().count(), "it edited what it had read");
                won += 1;
            }
            Some("C219") => assert!(result["error"]["etag"].is_string(), "{result}"),
            other => panic!("{other:?}: {result}"),
        }
    }
    won
}

#[test]
fn writers_without_a_version_wait_for_each_other_and_lose_nothing() {
    let jail = TestJail::new();
    let path = jail.write("file", "");
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let jail = &jail;
            scope.spawn(move || {
                let mut client = jail.connect();
                for round in 0..TRIES {
                    let ops = json!([{"op": "append", "content": format!("{number} {round}\n")}]);
                    let result: Value = super::update(&mut client, "file", ops);
                    assert_eq!(result["success"], true, "{result}");
                }
            });
        }
    });
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().collect::<BTreeSet<_>>().len(), CLIENTS * TRIES);
    assert_eq!(text.lines().count(), CLIENTS * TRIES);
}
