//! The audit as an operator reads it: one JSON object per line, on standard error among the lines of the log.

use std::{collections::BTreeMap, time::Duration, time::Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::TestJail;

/// How long to wait for a record, which is written a few milliseconds after its event.
const PATIENCE: Duration = Duration::from_secs(20);

/// The bytes of a path of plain letters that a record keeps, according to docs/AUDIT.md.
const MAX_SHOWN_BYTES: usize = 2000;

/// Codes of refusals. C211 is also one if a rule, and not the disk, causes it.
const REFUSED: [&str; 3] = ["C215", "C218", "C221"];

/// Functions whose entries have outcomes.
pub const CHANGES: [&str; 7] = [
    "coder::create-file",
    "coder::update-file",
    "coder::delete-file",
    "coder::move",
    "coder::copy",
    "coder::mkdir",
    "coder::restore",
];

/// Every record of a text. Each line has to be one JSON object, of the audit or of the log.
pub fn records(text: &str) -> Vec<Value> {
    let parsed = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parsed).filter(|record| record.get("event").is_some()).collect()
}

/// `(function, code, path)` of a refused access.
type Access = (String, String, Vec<u8>);

/// The refusals that a test caused and that the audit must contain.
#[derive(Debug, Default)]
pub struct Refused {
    expected: BTreeMap<Access, usize>,
    is_denied: bool,
}

impl Refused {
    /// For names that a rule denies: they answer C211, like missing names.
    pub fn denied(is_denied: bool) -> Self {
        Self { is_denied, ..Self::default() }
    }

    /// `path` as sent, below its `base_dir` if it has one.
    pub fn expect(&mut self, function: &str, code: &str, path: &[u8]) {
        if REFUSED.contains(&code) || (self.is_denied && code == "C211") {
            *self.expected.entry((function.into(), code.into(), path.into())).or_default() += 1;
        }
    }

    /// Each of them has one record, and there are no others of a refusal. The decisions of the supervisor about a change
    /// stand beside its outcome and do not count.
    pub fn assert_audited(&self, jail: &TestJail) {
        let mut wanted = BTreeMap::new();
        for ((function, code, path), count) in &self.expected {
            let path = normal(path, jail.root.to_str().unwrap().as_bytes());
            *wanted.entry((function.clone(), code.clone(), path)).or_default() += count;
        }
        let start = Instant::now();
        loop {
            let found = found(jail, &wanted);
            if found == wanted {
                return;
            }
            let late = start.elapsed() > PATIENCE;
            assert!(!late, "in the audit:\n{}\nexpected:\n{}", shown(&found), shown(&wanted));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn shown(accesses: &BTreeMap<Access, usize>) -> String {
    let line = |((function, code, path), count): (&Access, &usize)| {
        format!("  {count} × {function} {code} {:.200}", path.escape_ascii().to_string())
    };
    accesses.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn found(jail: &TestJail, wanted: &BTreeMap<Access, usize>) -> BTreeMap<Access, usize> {
    let root = jail.root.to_str().unwrap().as_bytes();
    let mut found = BTreeMap::new();
    for record in jail.audit() {
        let function = record["reported_function"].as_str().unwrap_or_default();
        let prefix = match record["event"].as_str().unwrap() {
            "decided" if !CHANGES.contains(&function) => "",
            "reported" | "outcome" => "reported_",
            _ => continue,
        };
        let text = |field: &str| record[format!("{prefix}{field}")].as_str();
        let Some(code) = text("code").filter(|_| is_denial(&record)) else { continue };
        let path = |field: &str| match text(&format!("{field}_bytes")) {
            Some(bytes) => Some(STANDARD.decode(bytes).unwrap()),
            None => text(field).map(|path| path.as_bytes().to_vec()),
        };
        // A move has two names; takes the one that the test expects.
        let access = |path: Vec<u8>| (function.to_owned(), code.to_owned(), normal(&path, root));
        let ends: Vec<Access> = ["path", "to"].into_iter().filter_map(path).map(access).collect();
        let end = ends.iter().find(|end| wanted.contains_key(end)).unwrap_or(&ends[0]);
        *found.entry(end.clone()).or_default() += 1;
    }
    found
}

/// True if a rule refused it, and not because it is missing or busy.
fn is_denial(record: &Value) -> bool {
    match record["event"].as_str() {
        Some("outcome") => {
            record["reported_denied"] == true || REFUSED.contains(&record["reported_code"].as_str().unwrap())
        }
        _ => !["missing", "busy", "error"].iter().any(|decision| record["decision"] == *decision),
    }
}

/// Requests and reports have a path as sent, decisions below the root: one spelling for both. Cut as a record is.
fn normal(path: &[u8], root: &[u8]) -> Vec<u8> {
    let path = &path[..path.len().min(MAX_SHOWN_BYTES)];
    let absolute = path.starts_with(b"/");
    let mut names: Vec<&[u8]> = Vec::new();
    let mut climbs = 0;
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if names.pop().is_none() => climbs += 1,
            b".." => {}
            name => names.push(name),
        }
    }
    let joined = names.join(&b'/');
    match (absolute, climbs) {
        (true, _) => {
            let full = [b"/", &joined[..]].concat();
            let below = full.strip_prefix(root).and_then(|rest| match rest {
                [] => Some(&[][..]),
                [b'/', rest @ ..] => Some(rest),
                _ => None,
            });
            below.map(<[u8]>::to_vec).unwrap_or(full)
        }
        (false, 0) => joined,
        (false, climbs) => ["../".repeat(climbs).as_bytes(), &joined].concat(),
    }
}
