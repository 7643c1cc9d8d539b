//! One record: a JSON object on a line of its own, of printable ASCII alone, never longer than a pipe takes whole.
//! docs/AUDIT.md describes it. What a worker says stands in fields called `reported_…`: a hostile one can say anything.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Serialize, Serializer};
use serde_json::{Value, ser::Formatter};

use crate::{
    broker::{Became, Intent, Outcome, Refusal},
    terms::Code,
};

/// Bytes of a record, escapes included. Together with the names and numbers around them less than a line may have.
const PATH_BYTES: usize = 2000;
const ROOT_BYTES: usize = 500;
const REASON_BYTES: usize = 400;
/// Bytes of an etag or of an id in the trash.
const WORD_BYTES: usize = 100;
/// Bytes of a path that is not text, before base64 makes four of three.
const RAW_PATH_BYTES: usize = 480;

/// The fields of one record, in the order in which they are written.
pub struct Record(Vec<(&'static str, Value)>);

impl Record {
    pub fn at(time_ms: u64) -> Self {
        Self(Vec::with_capacity(16)).and("time_ms", time_ms)
    }

    /// Adds a field. A value that is absent adds none.
    pub fn and(mut self, name: &'static str, value: impl Serialize) -> Self {
        // No value of a record can fail to become JSON.
        let value = serde_json::to_value(value).unwrap_or_default();
        if !value.is_null() {
            self.0.push((name, value));
        }
        self
    }

    /// Adds a field if it is true.
    fn flag(self, name: &'static str, is_set: bool) -> Self {
        self.and(name, is_set.then_some(true))
    }

    /// A connection was given to a worker.
    pub fn accepted(self) -> Self {
        self.and("event", "accepted")
    }

    /// A connection was not.
    pub fn refused(self, code: Code, reason: &str) -> Self {
        self.and("event", "refused").and("code", code).and("reason", cut(reason, REASON_BYTES))
    }

    /// A connection that was accepted is over.
    pub fn ended(self, reason: &str) -> Self {
        self.and("event", "ended").and("reason", cut(reason, REASON_BYTES))
    }

    /// The supervisor's answer to a worker's question.
    pub fn decided(
        self,
        refusal: Option<Refusal>,
        intent: Intent,
        root: &str,
        path: &[u8],
        function: &str,
    ) -> Self {
        let path = Shown::new(path, 1);
        self.and("event", "decided")
            .and("decision", decision(refusal))
            .and("code", refusal.map(Refusal::code))
            .and("intent", intent)
            .and("root", cut(root, ROOT_BYTES))
            .and("path", path.text)
            .and("path_bytes", path.base64)
            .flag("path_cut", path.was_cut)
            .and("reported_function", function)
    }

    /// What a worker refused by itself, without a question.
    pub fn reported(self, code: Code, path: &[u8], function: &str) -> Self {
        let path = Shown::new(path, 1);
        self.and("event", "reported")
            .and("reported_code", code)
            .and("reported_path", path.text)
            .and("reported_path_bytes", path.base64)
            .flag("reported_path_cut", path.was_cut)
            .and("reported_function", function)
    }

    /// The outcome of one entry of a call that changes something, as the worker reports it.
    pub fn outcome(self, outcome: &Outcome, function: &str) -> Self {
        let Outcome { became, names, effect } = outcome;
        let (word, code, denied) = match became {
            Became::Changed => ("changed", None, false),
            Became::Unchanged => ("unchanged", None, false),
            Became::DryRun => ("dry-run", None, false),
            Became::Refused { code, denied } => ("refused", Some(*code), *denied),
        };
        let count = 1 + usize::from(names.to.is_some());
        let path = Shown::new(&names.path, count);
        let to = names.to.as_deref().map(|to| Shown::new(to, count));
        let short = |word: &Option<String>| word.as_deref().map(|word| cut(word, WORD_BYTES).to_owned());
        self.and("event", "outcome")
            .and("reported_outcome", word)
            .and("reported_code", code)
            .flag("reported_denied", denied)
            .and("reported_path", path.text)
            .and("reported_path_bytes", path.base64)
            .and("reported_to", to.as_ref().map(|to| &to.text))
            .and("reported_to_bytes", to.as_ref().and_then(|to| to.base64.as_ref()))
            .flag("reported_path_cut", path.was_cut || to.is_some_and(|to| to.was_cut))
            .and("reported_bytes", effect.bytes)
            .and("reported_entries", effect.entries)
            .and("reported_etag_before", short(&effect.etag_before))
            .and("reported_etag_after", short(&effect.etag_after))
            .and("reported_trash_id", short(&effect.trash_id))
            .and("reported_function", function)
    }

    /// With its newline. `None` if it could not be written, which no value here brings about.
    pub fn line(&self) -> Option<Vec<u8>> {
        let mut line = Vec::with_capacity(512);
        let mut to = serde_json::Serializer::with_formatter(&mut line, Ascii);
        to.collect_map(self.0.iter().map(|(name, value)| (name, value))).ok()?;
        line.push(b'\n');
        Some(line)
    }
}

fn decision(refusal: Option<Refusal>) -> &'static str {
    match refusal {
        None => "granted",
        Some(Refusal::Denied) => "denied",
        Some(Refusal::Escape) => "escape",
        Some(Refusal::Mount) => "mount",
        Some(Refusal::ReadOnly) => "read-only",
        Some(Refusal::Protected(_)) => "protected",
        Some(Refusal::NotFound | Refusal::NotDirectory) => "missing",
        Some(Refusal::Busy | Refusal::Unsettled) => "busy",
        Some(Refusal::Io(_)) => "error",
    }
}

/// A path as a record shows it.
struct Shown {
    text: String,
    /// Set if the path is not UTF-8.
    base64: Option<String>,
    was_cut: bool,
}

impl Shown {
    /// `count` paths share the limits of one record.
    fn new(path: &[u8], count: usize) -> Self {
        let text = String::from_utf8_lossy(path);
        let raw = std::str::from_utf8(path).is_err().then(|| &path[..path.len().min(RAW_PATH_BYTES / count)]);
        let kept = cut(&text, PATH_BYTES / count);
        let was_cut = kept.len() < text.len() || raw.is_some_and(|raw| raw.len() < path.len());
        Self { text: kept.into(), base64: raw.map(|raw| STANDARD.encode(raw)), was_cut }
    }
}

/// The beginning of `text` that takes at most so many bytes once it is escaped.
fn cut(text: &str, most_bytes: usize) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        bytes += match c {
            '"' | '\\' => 2,
            ' '..='~' => 1,
            // `\u0000`, twice beyond the first 65,536.
            _ => 6 * c.len_utf16(),
        };
        (bytes > most_bytes).then_some(at)
    });
    &text[..end.unwrap_or(text.len())]
}

/// Printable ASCII alone: whatever a name holds, no viewer, terminal or line-splitting tool sees anything but one line
/// of text. serde_json by itself lets DEL, C1 controls, U+2028 and changes of direction through.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte);
        if fragment.as_bytes().iter().all(is_plain) {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            match c {
                ' '..='~' => writer.write_all(&[c as u8])?,
                _ => {
                    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
