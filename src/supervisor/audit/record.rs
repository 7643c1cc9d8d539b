//! One record: one line with a JSON object in printable ASCII, never longer than what a pipe takes in one write. See
//! docs/AUDIT.md. Fields from a worker's report have names that begin with `reported_`, because a hostile worker can report
//! anything.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Serialize, Serializer};
use serde_json::{Value, ser::Formatter};

use crate::{
    broker::{EntryOutcome, Intent, OutcomeKind, Refusal},
    terms::Code,
};

/// Bytes of a path, a root and a reason in a record, escapes included. With all names and numbers around them they are
/// shorter than the longest line.
const PATH_BYTES: usize = 2000;
const ROOT_BYTES: usize = 500;
const REASON_BYTES: usize = 400;
/// Bytes of an etag or of an id in the trash.
const ETAG_OR_ID_BYTES: usize = 100;
/// Bytes of a path that is not text. Base64 turns three bytes into four.
const RAW_PATH_BYTES: usize = 480;

/// The fields of one record, in the order in which they are written.
pub struct AuditRecord(Vec<(&'static str, Value)>);

impl AuditRecord {
    pub fn with_time(time_ms: u64) -> Self {
        Self(Vec::with_capacity(16)).with_field("time_ms", time_ms)
    }

    /// Adds a field. A value that is absent adds none.
    pub fn with_field(mut self, name: &'static str, value: impl Serialize) -> Self {
        // No value of a record can fail to be serialized.
        let value = serde_json::to_value(value).unwrap_or_default();
        if !value.is_null() {
            self.0.push((name, value));
        }
        self
    }

    /// Adds the field with the value true, or nothing if the flag is not set.
    fn with_flag(self, name: &'static str, is_set: bool) -> Self {
        self.with_field(name, is_set.then_some(true))
    }

    /// The service gave a connection to a worker.
    pub fn accepted(self) -> Self {
        self.with_field("event", "accepted")
    }

    /// The service refused a connection.
    pub fn refused(self, code: Code, reason: &str) -> Self {
        self.with_field("event", "refused")
            .with_field("code", code)
            .with_field("reason", truncate_escaped(reason, REASON_BYTES))
    }

    /// An accepted connection has ended.
    pub fn ended(self, reason: &str) -> Self {
        self.with_field("event", "ended").with_field("reason", truncate_escaped(reason, REASON_BYTES))
    }

    /// The supervisor's answer to a worker's question.
    pub fn decided(self, refusal: Option<Refusal>, intent: Intent, root: &str, path: &[u8], function: &str) -> Self {
        let path = RecordedPath::new(path, 1);
        self.with_field("event", "decided")
            .with_field("decision", decision_name(refusal))
            .with_field("code", refusal.map(Refusal::code))
            .with_field("intent", intent)
            .with_field("root", truncate_escaped(root, ROOT_BYTES))
            .with_field("path", path.text)
            .with_field("path_bytes", path.base64)
            .with_flag("path_cut", path.was_cut)
            .with_field("reported_function", function)
    }

    /// A refusal by the worker itself, which asked no question about it.
    pub fn reported(self, code: Code, path: &[u8], function: &str) -> Self {
        let path = RecordedPath::new(path, 1);
        self.with_field("event", "reported")
            .with_field("reported_code", code)
            .with_field("reported_path", path.text)
            .with_field("reported_path_bytes", path.base64)
            .with_flag("reported_path_cut", path.was_cut)
            .with_field("reported_function", function)
    }

    /// The outcome of one entry of a call that changes something, as the worker reports it.
    pub fn outcome(self, outcome: &EntryOutcome, function: &str) -> Self {
        let EntryOutcome { kind: became, paths: names, effect } = outcome;
        let (word, code, denied) = match became {
            OutcomeKind::Changed => ("changed", None, false),
            OutcomeKind::Unchanged => ("unchanged", None, false),
            OutcomeKind::DryRun => ("dry-run", None, false),
            OutcomeKind::Refused { code, denied } => ("refused", Some(*code), *denied),
        };
        let count = 1 + usize::from(names.to.is_some());
        let path = RecordedPath::new(&names.path, count);
        let to = names.to.as_deref().map(|to| RecordedPath::new(to, count));
        let short =
            |word: &Option<String>| word.as_deref().map(|word| truncate_escaped(word, ETAG_OR_ID_BYTES).to_owned());
        self.with_field("event", "outcome")
            .with_field("reported_outcome", word)
            .with_field("reported_code", code)
            .with_flag("reported_denied", denied)
            .with_field("reported_path", path.text)
            .with_field("reported_path_bytes", path.base64)
            .with_field("reported_to", to.as_ref().map(|to| &to.text))
            .with_field("reported_to_bytes", to.as_ref().and_then(|to| to.base64.as_ref()))
            .with_flag("reported_path_cut", path.was_cut || to.is_some_and(|to| to.was_cut))
            .with_field("reported_bytes", effect.bytes)
            .with_field("reported_entries", effect.entries)
            .with_field("reported_etag_before", short(&effect.etag_before))
            .with_field("reported_etag_after", short(&effect.etag_after))
            .with_field("reported_trash_id", short(&effect.trash_id))
            .with_field("reported_function", function)
    }

    /// The record as a line with its newline. `None` if it cannot be serialized, which does not happen with the values used
    /// here.
    pub fn encode_line(&self) -> Option<Vec<u8>> {
        let mut line = Vec::with_capacity(512);
        let mut to = serde_json::Serializer::with_formatter(&mut line, AsciiFormatter);
        to.collect_map(self.0.iter().map(|(name, value)| (name, value))).ok()?;
        line.push(b'\n');
        Some(line)
    }

    /// The same for a person at a terminal, without the date: `08:15:03 audit event="accepted" connection=1 uid=1000`.
    pub fn encode_text(&self) -> Option<Vec<u8>> {
        let mut text = Vec::with_capacity(512);
        for (name, value) in &self.0 {
            if let ("time_ms", Some(ms)) = (*name, value.as_u64()) {
                let s = ms / 1000;
                text.extend(format!("{:02}:{:02}:{:02} audit", s / 3600 % 24, s / 60 % 60, s % 60).into_bytes());
            } else {
                text.extend(format!(" {name}=").into_bytes());
                value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, AsciiFormatter)).ok()?;
            }
        }
        text.push(b'\n');
        Some(text)
    }
}

fn decision_name(refusal: Option<Refusal>) -> &'static str {
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

/// A path in the form that a record shows.
struct RecordedPath {
    text: String,
    /// Set if the path is not UTF-8.
    base64: Option<String>,
    was_cut: bool,
}

impl RecordedPath {
    /// `count` paths share the limits of one record.
    fn new(path: &[u8], count: usize) -> Self {
        let text = String::from_utf8_lossy(path);
        let raw = std::str::from_utf8(path).is_err().then(|| &path[..path.len().min(RAW_PATH_BYTES / count)]);
        let kept = truncate_escaped(&text, PATH_BYTES / count);
        let was_cut = kept.len() < text.len() || raw.is_some_and(|raw| raw.len() < path.len());
        Self { text: kept.into(), base64: raw.map(|raw| STANDARD.encode(raw)), was_cut }
    }
}

/// The longest beginning of `text` that has at most `most_bytes` bytes once it is escaped.
fn truncate_escaped(text: &str, most_bytes: usize) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        bytes += match c {
            '"' | '\\' => 2,
            ' '..='~' => 1,
            // `\u0000`: one escape, or two for a character above U+FFFF.
            _ => 6 * c.len_utf16(),
        };
        (bytes > most_bytes).then_some(at)
    });
    &text[..end.unwrap_or(text.len())]
}

/// Writes printable ASCII only, so that every viewer, terminal and line-splitting tool shows one line of text, whatever a
/// name contains. serde_json alone does not escape DEL, C1 controls, U+2028 and changes of text direction.
struct AsciiFormatter;

impl Formatter for AsciiFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte);
        if fragment.as_bytes().iter().all(is_plain) {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            match c {
                ' '..='~' => writer.write_all(&[c as u8])?,
                _ => c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
