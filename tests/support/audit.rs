//! The audit as an operator reads it: one JSON object per line, on standard error among the lines of the log.

use std::{collections::BTreeMap, time::Duration, time::Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::TestJail;

/// Records are written a few milliseconds after what they tell of.
const PATIENCE: Duration = Duration::from_secs(20);

/// What docs/AUDIT.md says a record keeps of a path of plain letters.
const MAX_SHOWN_BYTES: usize = 2000;

/// Codes of an access that somebody refused; C211 is one only where a rule, and not the disk, says so.
const REFUSED: [&str; 3] = ["C215", "C218", "C221"];

/// Every record of a text. Each line has to be one JSON object, of the audit or of the log.
pub fn records(text: &str) -> Vec<Value> {
    let parsed =
        |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parsed).filter(|record| record.get("event").is_some()).collect()
}

/// `(function, code, path)` of a refused access.
type Access = (String, String, Vec<u8>);

/// What a test was refused, to be found in the audit.
#[derive(Debug, Default)]
pub struct Refused {
    expected: BTreeMap<Access, usize>,
    is_denied: bool,
}

impl Refused {
    /// Of names that a rule denies, which answer C211 as missing ones do.
    pub fn denied(is_denied: bool) -> Self {
        Self { is_denied, ..Self::default() }
    }

    /// `path` as sent, below its `base_dir` if it has one.
    pub fn expect(&mut self, function: &str, code: &str, path: &[u8]) {
        if REFUSED.contains(&code) || (self.is_denied && code == "C211") {
            *self.expected.entry((function.into(), code.into(), path.into())).or_default() += 1;
        }
    }

    /// Each of them has one record, and there are no others of a refusal.
    pub fn assert_audited(&self, jail: &TestJail) {
        self.assert_found(jail, |found, wanted| found == wanted);
    }

    /// The same of calls that may ask twice about one name.
    pub fn assert_audited_once_or_twice(&self, jail: &TestJail) {
        self.assert_found(jail, |found, wanted| {
            let counts = found.values().zip(wanted.values());
            found.keys().eq(wanted.keys())
                && counts.into_iter().all(|(found, wanted)| (*wanted..=2 * wanted).contains(found))
        });
    }

    fn assert_found(
        &self,
        jail: &TestJail,
        is_right: impl Fn(&BTreeMap<Access, usize>, &BTreeMap<Access, usize>) -> bool,
    ) {
        let start = Instant::now();
        loop {
            let found = found(jail);
            let mut wanted = BTreeMap::new();
            for ((function, code, path), count) in &self.expected {
                let path = normal(path, jail.root.to_str().unwrap().as_bytes());
                *wanted.entry((function.clone(), code.clone(), path)).or_default() += count;
            }
            if is_right(&found, &wanted) {
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

fn found(jail: &TestJail) -> BTreeMap<Access, usize> {
    let root = jail.root.to_str().unwrap().as_bytes();
    let mut found = BTreeMap::new();
    for record in jail.audit() {
        let prefix = match record["event"].as_str().unwrap() {
            "decided" => "",
            "reported" => "reported_",
            _ => continue,
        };
        let text = |field: &str| record[format!("{prefix}{field}")].as_str();
        let Some(code) = text("code") else { continue };
        let path = match text("path_bytes") {
            Some(bytes) => STANDARD.decode(bytes).unwrap(),
            None => text("path").unwrap().as_bytes().to_vec(),
        };
        if !is_missing(&record) {
            let function = record["reported_function"].as_str().unwrap();
            *found.entry((function.into(), code.into(), normal(&path, root))).or_default() += 1;
        }
    }
    found
}

fn is_missing(record: &Value) -> bool {
    ["missing", "busy", "error"].iter().any(|decision| record["decision"] == *decision)
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
