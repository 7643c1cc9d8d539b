//! Real history as oracle: what really changed between two published versions of a file, said as edits and applied
//! through the socket, has to give the newer version, byte for byte.
//!
//! `scripts/history` makes the corpus and `STOCKADE_HISTORY` names it; scripts/test takes a slice, scripts/soak all.
#![allow(clippy::unwrap_used, reason = "the corpus is given; what cannot be read or written is a failed test")]

use crate::support;

mod edits;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use edits::Change;
use support::{Client, TestJail, Value, json};

const POLICY: &str = "durability = \"none\"\n[[root]]\npath = \"ROOT\"\n";
/// Clients that work through the corpus side by side.
const CLIENTS: usize = 2;
/// Binary test data: bytes that no JSON text can say.
const MAX_UNSAYABLE_PERCENT: usize = 2;

#[derive(Debug, Default)]
struct Tally {
    line_ops: AtomicUsize,
    str_replaces: AtomicUsize,
    replaces: AtomicUsize,
    ambiguous: AtomicUsize,
    unsayable: AtomicUsize,
}

fn corpus() -> Vec<(String, PathBuf, PathBuf)> {
    let path = std::env::var("STOCKADE_HISTORY").expect("STOCKADE_HISTORY names the output of scripts/history");
    let field = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let changes = text.lines().map(parse);
    changes.map(|c| (field(&c, "name"), field(&c, "old").into(), field(&c, "new").into())).collect()
}

#[test]
#[ignore = "needs a corpus; scripts/test and scripts/soak make one"]
fn real_changes_are_applied_to_the_byte_in_every_form() {
    let corpus = corpus();
    let jail = TestJail::with_policy(POLICY);
    let (next, tally) = (AtomicUsize::new(0), Tally::default());
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (corpus, jail, next, tally) = (&corpus, &jail, &next, &tally);
            scope.spawn(move || {
                let mut editor = Editor { client: jail.connect(), jail, file: format!("file{number}"), tally };
                while let Some((name, old, new)) = corpus.get(next.fetch_add(1, Ordering::Relaxed)) {
                    editor.check(name, &fs::read(old).unwrap(), &fs::read(new).unwrap());
                }
            });
        }
    });
    println!("note: {} real changes, in {} forms that give the newer file: {tally:?}", corpus.len(), tally.applied());
    assert!(!corpus.is_empty());
    let unsayable = tally.unsayable.load(Ordering::Relaxed);
    assert!(unsayable * 100 <= corpus.len() * MAX_UNSAYABLE_PERCENT, "{unsayable} of {}", corpus.len());
    jail.assert_intact();
}

impl Tally {
    fn applied(&self) -> usize {
        [&self.line_ops, &self.str_replaces, &self.replaces].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

struct Editor<'a> {
    client: Client,
    jail: &'a TestJail,
    file: String,
    tally: &'a Tally,
}

impl Editor<'_> {
    fn check(&mut self, name: &str, old: &[u8], new: &[u8]) {
        let tally = self.tally;
        let Some(change) = Change::new(old, new) else {
            tally.unsayable.fetch_add(1, Ordering::Relaxed);
            return;
        };
        for (form, ops, count) in [
            ("line ops", change.line_ops(), &tally.line_ops),
            ("str_replace", change.str_replaces(), &tally.str_replaces),
            ("replace", change.replaces(), &tally.replaces),
        ] {
            let result = self.apply(old, &ops);
            assert_eq!(result["success"], true, "{name}, {form}: {result}\n{ops}");
            let after = fs::read(self.jail.root.join(&self.file)).unwrap();
            assert!(after == new, "{name}, {form}: not the newer file\n{ops}");
            count.fetch_add(1, Ordering::Relaxed);
        }
        for (text, times) in change.ambiguous() {
            let result = self.apply(old, &json!([{"op": "str_replace", "old": text, "new": "x"}]));
            let message = result["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(&format!("matched {times} times, expected 1")), "{name}: {result}");
            assert!(fs::read(self.jail.root.join(&self.file)).unwrap() == old, "{name}: refused and yet changed");
            tally.ambiguous.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn apply(&mut self, old: &[u8], ops: &Value) -> Value {
        self.jail.write(&self.file, old);
        let request = json!({"files": [{"path": self.file, "ops": ops}]});
        self.client.call("coder::update-file", request).unwrap()["results"][0].take()
    }
}
