//! The wire as files, so that a change of it is seen in review: every function with its description and schemas
//! (`functions/`), and what the service says when something is wrong or cut (`replies/`), call by call.
//!
//! `calls/NAME.jsonl` holds the calls; a text of the sources that none of them brings out needs one, or a reason in
//! `unseen.toml`. `UPDATE_GOLDEN=1 cargo test --test source golden` writes the files anew.
#![allow(clippy::unwrap_used, reason = "the files are in the tree; what cannot be read or called is a failed test")]

use crate::support;

mod fixture;
mod told;
mod unseen;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use stockade::internals::wire::schema;
use support::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/source/golden")
}

/// Names of the files in a folder, sorted.
fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Compares a folder with what it has to hold, or writes it.
fn compare(part: &str, expected: Vec<(String, String)>) {
    let folder = folder().join(part);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        expected.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }
    let (found, wanted) = (names(&folder), expected.iter().map(|(name, _)| name.clone()).collect());
    assert_eq!(found, wanted, "the files of {part}");
    for (name, text) in expected {
        let golden = fs::read_to_string(folder.join(&name)).unwrap();
        let differs = golden.lines().zip(text.lines()).find(|(old, new)| old != new);
        assert!(
            golden == text,
            "{part}/{name} is another now; if that is meant, UPDATE_GOLDEN=1 writes it anew\n  was {}\n  is  {}",
            differs.map_or("", |(old, _)| old),
            differs.map_or("", |(_, new)| new)
        );
    }
}

#[test]
fn functions_are_described_as_before() {
    let text = |doc: &schema::FunctionDoc| serde_json::to_string_pretty(doc).unwrap() + "\n";
    let file = |doc: schema::FunctionDoc| (format!("{}.json", doc.function_id.replace("::", ".")), text(&doc));
    compare("functions", schema::catalogue().into_iter().map(file).collect());
}

/// Each file of calls, made on a service of its own, and what was said.
fn replies() -> Vec<(String, String)> {
    let calls = folder().join("calls");
    names(&calls)
        .iter()
        .map(|name| {
            let function = name.strip_suffix(".jsonl").expect("calls are lines of JSON");
            let text = fs::read_to_string(calls.join(name)).unwrap();
            let mut jails = fixture::Jails::default();
            let said: Vec<String> = text.lines().map(|line| jails.told(function, line)).collect();
            (format!("{function}.txt"), said.concat())
        })
        .collect()
}

#[test]
fn the_service_says_what_it_said_before_and_no_text_is_left_out() {
    let replies = replies();
    let all: String = replies.iter().map(|(_, text)| text.as_str()).collect();
    compare("replies", replies);
    unseen::check(&all);
    // The catalogue is what the service itself offers.
    let listed = schema::catalogue().iter().map(|doc| json!(doc.function_id)).collect::<Vec<Value>>();
    assert!(listed.iter().all(|name| {
        folder().join("calls").join(format!("{}.jsonl", name.as_str().unwrap().replace("::", "."))).is_file()
    }));
}
