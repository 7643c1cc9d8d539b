//! Swap races: an attacker renames in a loop while a client reads, in batches, singly, and lists. Whatever the moment,
//! a reply is one of a closed list.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::{
    attack::{FIND, INSIDE, LIST, READ, SEARCH, TREE},
    layers,
    support::{Build, Client, Failure, TestJail, Value, canary::holds_secret, json, process::eventually},
    swap::{ALSO_INSIDE, Attacker, Swap},
};

/// Calls of the ordinary run, over all variants, operations and builds together.
const ROUNDS: u64 = 24_000;
/// Calls that are on their way at a time.
const PIPELINE: u64 = 16;
/// An escape that the data promises must show itself by then.
const PATIENCE: Duration = Duration::from_secs(20);

const SWAPS: [Swap; 4] = [Swap::FolderAndLink, Swap::FileAndLink, Swap::OutAndBack, Swap::FolderAndOutsideFolder];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Single,
    Batch,
    List,
    Tree,
    Find,
    Search,
}

const OPERATIONS: [Operation; 6] =
    [Operation::Single, Operation::Batch, Operation::List, Operation::Tree, Operation::Find, Operation::Search];

/// Calls of one variant, one operation, one build. `STOCKADE_SOAK_ROUNDS` is the number for an operation.
fn rounds() -> u64 {
    match std::env::var("STOCKADE_SOAK_ROUNDS") {
        Ok(rounds) => rounds.parse::<u64>().expect("a number of rounds") / SWAPS.len() as u64,
        Err(_) => ROUNDS / (SWAPS.len() * OPERATIONS.len() * Build::ALL.len()) as u64,
    }
}

impl Operation {
    fn request(self) -> (&'static str, Value) {
        const NAME: &str = "place/d/secret.txt";
        match self {
            Self::Single => (READ, json!({"path": NAME})),
            Self::Batch => (READ, json!({"paths": [NAME, {"path": NAME, "encoding": "base64"}, NAME]})),
            Self::List => (LIST, json!({"path": "place/d"})),
            Self::Tree => (TREE, json!({"path": "place"})),
            Self::Find => (FIND, json!({"paths": ["place/d"]})),
            Self::Search => {
                (SEARCH, json!({"paths": ["place/d"], "query": ".+", "regex": true, "search_paths": false}))
            }
        }
    }

    /// Reads what a folder moved out would show where only Landlock could see it leave.
    fn reads_content(self) -> bool {
        matches!(self, Self::Single | Self::Batch)
    }
}

/// What a reply says, in the words of the closed lists.
fn describe(reply: &Result<Value, Failure>) -> Vec<String> {
    let one = |result: &Value| match result["content"].as_str() {
        Some(content) if content == INSIDE || content == "aW5zaWRlCg==" => "inside".to_owned(),
        Some(content) if content == ALSO_INSIDE || content == "YWxzbyBpbnNpZGUK" => "also inside".to_owned(),
        Some(other) => format!("content {other:?}"),
        None => result["error"]["code"].as_str().unwrap_or("nothing").to_owned(),
    };
    match reply {
        Err(failure) => vec![failure.code()],
        Ok(result) if result["entries"].is_array() => {
            let entries = result["entries"].as_array().unwrap();
            let names: Vec<_> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
            vec![format!("entries {}", names.join(" "))]
        }
        Ok(result) if result["files"].is_array() => {
            let files = result["files"].as_array().unwrap();
            let names = files.iter().map(|file| file["path"].as_str().unwrap().rsplit('/').next().unwrap());
            vec![format!("files {}", names.collect::<Vec<_>>().join(" "))]
        }
        Ok(result) if result["content_matches"].is_array() => {
            let matches = result["content_matches"].as_array().unwrap();
            let texts = matches.iter().map(|found| found["text"].as_str().unwrap());
            vec![format!("matches {}", texts.collect::<Vec<_>>().join(" "))]
        }
        Ok(result) if result["root"].is_object() => {
            result["root"]["children"].as_array().unwrap().iter().map(drawn).collect()
        }
        Ok(result) if result["results"].is_array() => result["results"].as_array().unwrap().iter().map(one).collect(),
        Ok(result) => vec![one(result)],
    }
}

/// `dir secret.txt`, `symlink`, `dir io_error`.
fn drawn(node: &Value) -> String {
    let names = node["children"].as_array().into_iter().flatten().map(|child| &child["name"]);
    let words = std::iter::once(&node["kind"]).chain(names).chain(node["truncated"].get("reason"));
    words.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// The normal build's answers: what lies inside at some moment of the call, that a link stood there, that it was missing,
/// that it changed too fast.
fn acceptable(swap: Swap, operation: Operation) -> &'static [&'static str] {
    match (swap, operation) {
        // Below the folder that was named a walk never fails: what has changed by then is unreadable or gone.
        (Swap::FileAndLink, Operation::Tree) => &["dir secret.txt", "file", "symlink"],
        (Swap::FolderAndLink, Operation::Tree) => &["dir secret.txt", "symlink", "dir io_error"],
        (_, Operation::Tree) => &["dir secret.txt", "dir io_error"],
        // Nor is what a walk does not find there, or not as a file, worth an error.
        (Swap::FolderAndLink, Operation::Find) => &["files secret.txt", "files d", "files ", "C215", "C222"],
        (Swap::FileAndLink, Operation::Find) => &["files secret.txt"],
        (Swap::OutAndBack, Operation::Find) => &["files secret.txt", "files ", "C211", "C222"],
        (Swap::FolderAndOutsideFolder, Operation::Find) => &["files secret.txt", "files ", "C222"],
        (Swap::FolderAndLink, Operation::Search) => &["matches inside", "matches ", "C215", "C222"],
        (Swap::FileAndLink, Operation::Search) => &["matches inside", "matches "],
        (Swap::OutAndBack, Operation::Search) => &["matches inside", "matches ", "C211", "C222"],
        (Swap::FolderAndOutsideFolder, Operation::Search) => {
            &["matches inside", "matches also inside", "matches ", "C222"]
        }
        (Swap::FolderAndLink, Operation::List) => &["entries secret.txt", "C215", "C222"],
        (Swap::FolderAndLink, _) => &["inside", "C215", "C222"],
        (Swap::FileAndLink, Operation::List) => &["entries secret.txt"],
        (Swap::FileAndLink, _) => &["inside", "C215", "C222"],
        (Swap::OutAndBack, Operation::List) => &["entries secret.txt", "C211", "C222"],
        (Swap::OutAndBack, _) => &["inside", "C211", "C222"],
        (Swap::FolderAndOutsideFolder, Operation::List) => &["entries secret.txt", "C222"],
        (Swap::FolderAndOutsideFolder, _) => &["inside", "also inside", "C222"],
    }
}

struct Seen {
    escapes: Vec<String>,
    answers: std::collections::BTreeMap<String, u64>,
    swaps: u64,
}

/// `rounds` calls during the storm; goes on until an escape or the end of patience where one is promised.
fn race(jail: &TestJail, attacker: &Attacker, operation: Operation, promised: bool) -> Seen {
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut seen = Seen { escapes: Vec::new(), answers: Default::default(), swaps: 0 };
    std::thread::scope(|scope| {
        scope.spawn(|| attacker.storm(&stop, &swaps));
        let start = Instant::now();
        let mut client = jail.connect();
        let (function, params) = operation.request();
        let mut done = 0;
        while done < rounds() || (promised && seen.escapes.is_empty() && start.elapsed() < PATIENCE) {
            let ids: Vec<_> = (0..PIPELINE).map(|_| client.send(function, params.clone())).collect();
            for _ in ids {
                let reply = next_reply(&mut client);
                if holds_secret(&reply) {
                    seen.escapes.push(format!("{operation:?}: {reply:?}"));
                }
                for answer in describe(&reply) {
                    *seen.answers.entry(answer).or_default() += 1;
                }
                done += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    seen.swaps = swaps.load(Ordering::Relaxed);
    seen
}

/// Replies may come in any order.
fn next_reply(client: &mut Client) -> Result<Value, Failure> {
    let mut reply = client.line().expect("the connection holds");
    match reply.get_mut("error") {
        Some(error) => Err(Failure::Error(error.take())),
        None => Ok(reply["result"].take()),
    }
}

fn race_all(case: &str, swap: Swap) {
    for build in Build::attacked() {
        let options = build.options();
        let mut attacker = None;
        let jail = TestJail::with_tree(options, |root| attacker = Some(Attacker::plant(swap, root)));
        let attacker = attacker.unwrap();
        let promised = layers::is_excepted(case, build);
        let mut escapes = Vec::new();
        let mut refused = 0;
        for operation in OPERATIONS {
            // Listings show names, which the attacker does not change: only reads can show the secret.
            let seen = race(&jail, &attacker, operation, promised && operation.reads_content());
            assert!(seen.swaps > 0, "the attacker never came to it");
            if build.is_whole() && !promised {
                let expected = acceptable(swap, operation);
                let odd: Vec<_> = seen.answers.iter().filter(|(a, _)| !expected.contains(&a.as_str())).collect();
                assert!(odd.is_empty(), "{swap:?} {operation:?}: {odd:?} among {:?}", seen.answers);
            }
            refused += seen.answers.get("C215").copied().unwrap_or(0);
            println!("{case} {build:?} {operation:?}: {} swaps, {:?}", seen.swaps, seen.answers);
            escapes.extend(seen.escapes);
        }
        jail.assert_intact();
        if build.is_whole() {
            let of_c215 = |record: &Value| record["code"] == "C215" || record["reported_code"] == "C215";
            let told = || jail.audit().iter().filter(|record| of_c215(record)).count() as u64;
            eventually("every refusal is in the audit", || told() >= refused);
        }
        escapes.truncate(3);
        layers::judge(case, build, &escapes);
    }
}

#[test]
fn a_folder_swapped_with_a_link_never_escapes() {
    race_all("a_folder_swapped_with_a_link_never_escapes", Swap::FolderAndLink);
}

#[test]
fn a_file_swapped_with_a_link_never_escapes() {
    race_all("a_file_swapped_with_a_link_never_escapes", Swap::FileAndLink);
}

#[test]
fn a_folder_moved_out_and_back_never_escapes() {
    race_all("a_folder_moved_out_and_back_never_escapes", Swap::OutAndBack);
}

#[test]
fn a_folder_swapped_with_an_outside_folder_never_escapes() {
    race_all("a_folder_swapped_with_an_outside_folder_never_escapes", Swap::FolderAndOutsideFolder);
}
