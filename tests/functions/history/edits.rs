//! One change of a file, said in three forms. The diff only decides where the edits are; whether they are right is
//! decided by the newer file.

use memchr::memmem;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices};

/// A region of so many lines is named by its first and last one.
const ANCHORED_LINES: usize = 4;
/// Ambiguous texts tried per change.
const MAX_AMBIGUOUS: usize = 3;

pub struct Change<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    hunks: Vec<DiffOp>,
}

/// A text that occurs once, and what stands for it.
struct Exchange {
    old: String,
    new: String,
    /// The file before it.
    body: String,
}

impl<'a> Change<'a> {
    /// None for files that are no text, and for CRs: line ops follow the style of the file on purpose.
    pub fn new(old: &'a [u8], new: &'a [u8]) -> Option<Self> {
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\r'));
        let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<_>>();
        let (old, new) = (lines(text(old)?), lines(text(new)?));
        let ops = capture_diff_slices(Algorithm::Myers, &old, &new);
        let hunks = ops.into_iter().filter(|op| op.tag() != DiffTag::Equal).collect();
        Some(Self { old, new, hunks })
    }

    pub fn line_ops(&self) -> Value {
        let mut ops: Vec<Value> = self.hunks.iter().map(|hunk| self.line_op(hunk)).collect();
        // Line ops leave the end of the file as it is.
        let ends = |lines: &[&str]| lines.last().is_none_or(|line| line.ends_with('\n'));
        match (ends(&self.old), ends(&self.new)) {
            (true, false) => ops.push(json!({"op": "replace", "pattern": r"\n\z", "replacement": ""})),
            (false, true) => ops.push(json!({"op": "replace", "pattern": r"\z", "replacement": "\n"})),
            _ => {}
        }
        json!(ops)
    }

    fn line_op(&self, hunk: &DiffOp) -> Value {
        let (old, content) = (hunk.old_range(), self.new[hunk.new_range()].concat());
        match hunk.tag() {
            DiffTag::Insert => json!({"op": "insert", "at_line": old.start + 1, "content": content}),
            DiffTag::Delete => json!({"op": "remove", "from_line": old.start + 1, "to_line": old.end}),
            _ => {
                json!({"op": "update_lines", "from_line": old.start + 1, "to_line": old.end, "content": content})
            }
        }
    }

    pub fn str_replaces(&self) -> Value {
        let op = |exchange: Exchange| json!({"op": "str_replace", "old": exchange.old, "new": exchange.new});
        self.or_append(self.exchanges().map(op).collect())
    }

    pub fn replaces(&self) -> Value {
        let op = |exchange: Exchange| {
            let whole = regex::escape(&exchange.old);
            let pattern = anchored(&exchange).unwrap_or(whole);
            let replacement = exchange.new.replace('$', "$$");
            json!({"op": "replace", "pattern": pattern, "replacement": replacement, "dot_matches_newline": true,
                   "expect_matches": 1})
        };
        self.or_append(self.exchanges().map(op).collect())
    }

    /// There is nothing to replace in an empty file.
    fn or_append(&self, ops: Vec<Value>) -> Value {
        match self.old.is_empty() {
            true => json!([{"op": "append", "content": self.new.concat()}]),
            false => json!(ops),
        }
    }

    /// From the top down: the file is then the newer one up to each hunk, and the older one from there on.
    fn exchanges(&self) -> impl Iterator<Item = Exchange> {
        self.hunks.iter().filter(|_| !self.old.is_empty()).map(|hunk| {
            let (old, new) = (hunk.old_range(), hunk.new_range());
            let lines: Vec<&str> = self.new[..new.start].iter().chain(&self.old[old.start..]).copied().collect();
            let (from, to) = (new.start, new.start + old.len());
            let body = lines.concat();
            // As many lines around it as it takes to be the only one.
            let fewest = usize::from(old.is_empty());
            let (before, after) = (fewest..)
                .map(|context| (from.saturating_sub(context), (to + context).min(lines.len())))
                .find(|(before, after)| places(&body, &lines[*before..*after].concat()) == 1)
                .unwrap();
            let (head, tail) = (lines[before..from].concat(), lines[to..after].concat());
            Exchange { old: lines[before..after].concat(), new: head + &self.new[new].concat() + &tail, body }
        })
    }

    /// Changed lines of the older file that occur in it more than once, and how often.
    pub fn ambiguous(&self) -> Vec<(String, usize)> {
        let body = self.old.concat();
        let texts = self.hunks.iter().map(|hunk| self.old[hunk.old_range()].concat()).filter(|text| !text.is_empty());
        let mut found: Vec<_> = texts.map(|text| (count(&body, &text), text)).filter(|(times, _)| *times > 1).collect();
        found.truncate(MAX_AMBIGUOUS);
        found.into_iter().map(|(times, text)| (text, times)).collect()
    }
}

/// Where a text is found, also inside of itself.
fn places(body: &str, text: &str) -> usize {
    let (body, finder) = (body.as_bytes(), memmem::Finder::new(text));
    let next = |at: &usize| finder.find(&body[at + 1..]).map(|found| at + 1 + found);
    std::iter::successors(finder.find(body), next).count()
}

fn count(body: &str, text: &str) -> usize {
    memmem::find_iter(body.as_bytes(), text.as_bytes()).count()
}

/// The first and the last line joined by `.*?`, where that means the same text and no other.
fn anchored(exchange: &Exchange) -> Option<String> {
    let lines: Vec<&str> = exchange.old.split_inclusive('\n').collect();
    let (first, last) = (lines.first()?, lines.last()?);
    if lines.len() < ANCHORED_LINES {
        return None;
    }
    let pattern = format!("{}.*?{}", regex::escape(first), regex::escape(last));
    let regex = regex::RegexBuilder::new(&pattern).dot_matches_new_line(true).build().ok()?;
    let mut matches = regex.find_iter(&exchange.body);
    (matches.next()?.as_str() == exchange.old && matches.next().is_none()).then_some(pattern)
}
