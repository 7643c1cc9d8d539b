//! One record: a JSON object on a line of its own, of printable ASCII alone, never longer than a pipe takes whole.
//! docs/AUDIT.md describes it. What a worker says stands in fields called `reported_…`: a hostile one can say anything.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::{
    broker::{Became, Intent, Outcome, Refusal},
    terms::{Code, Level},
};

/// Bytes of a record, escapes included. Together with the names and numbers around them less than a line may have.
const PATH_BYTES: usize = 2000;
const ROOT_BYTES: usize = 500;
const REASON_BYTES: usize = 400;
/// Bytes of an etag or of an id in the trash.
const WORD_BYTES: usize = 100;
/// Bytes of a path that is not text, before base64 makes four of three.
const RAW_PATH_BYTES: usize = 480;

#[derive(Serialize)]
pub struct Record {
    pub time_ms: u64,
    #[serde(flatten)]
    pub event: Event,
    pub level: Level,
    pub connection: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_alive: Option<bool>,
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_before: u64,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// A connection was given to a worker.
    Accepted,
    /// A connection was not.
    Refused { code: Code, reason: String },
    /// A connection that was accepted is over.
    Ended { reason: String },
    /// The supervisor's answer to a worker's question.
    Decided {
        decision: Decision,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        intent: Intent,
        root: String,
        path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        path_bytes: Option<String>,
        #[serde(skip_serializing_if = "is_false")]
        path_cut: bool,
        reported_function: &'static str,
    },
    /// What a worker refused by itself, without a question.
    Reported {
        reported_code: Code,
        reported_path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reported_path_bytes: Option<String>,
        #[serde(skip_serializing_if = "is_false")]
        reported_path_cut: bool,
        reported_function: &'static str,
    },
    /// The outcome of one entry of a call that changes something, as the worker reports it.
    Outcome(Box<Reported>),
}

#[derive(Serialize)]
pub struct Reported {
    reported_outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_code: Option<Code>,
    #[serde(skip_serializing_if = "is_false")]
    reported_denied: bool,
    reported_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_path_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_to_bytes: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    reported_path_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_etag_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_etag_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_trash_id: Option<String>,
    reported_function: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    Granted,
    Denied,
    Escape,
    Mount,
    ReadOnly,
    Protected,
    Missing,
    Busy,
    Error,
}

impl From<Option<Refusal>> for Decision {
    fn from(refusal: Option<Refusal>) -> Self {
        match refusal {
            None => Self::Granted,
            Some(Refusal::Denied) => Self::Denied,
            Some(Refusal::Escape) => Self::Escape,
            Some(Refusal::Mount) => Self::Mount,
            Some(Refusal::ReadOnly) => Self::ReadOnly,
            Some(Refusal::Protected(_)) => Self::Protected,
            Some(Refusal::NotFound | Refusal::NotDirectory) => Self::Missing,
            Some(Refusal::Busy | Refusal::Unsettled) => Self::Busy,
            Some(Refusal::Io(_)) => Self::Error,
        }
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Event {
    pub fn refused(code: Code, reason: &str) -> Self {
        Self::Refused { code, reason: cut(reason, REASON_BYTES).into() }
    }

    pub fn ended(reason: &str) -> Self {
        Self::Ended { reason: cut(reason, REASON_BYTES).into() }
    }

    pub fn decided(
        refusal: Option<Refusal>,
        intent: Intent,
        root: &str,
        path: &[u8],
        function: &'static str,
    ) -> Self {
        let (path, path_bytes, path_cut) = shown(path, 1);
        Self::Decided {
            decision: refusal.into(),
            code: refusal.map(Refusal::code),
            intent,
            root: cut(root, ROOT_BYTES).into(),
            path,
            path_bytes,
            path_cut,
            reported_function: function,
        }
    }

    pub fn reported(code: Code, path: &[u8], function: &'static str) -> Self {
        let (reported_path, reported_path_bytes, reported_path_cut) = shown(path, 1);
        Self::Reported {
            reported_code: code,
            reported_path,
            reported_path_bytes,
            reported_path_cut,
            reported_function: function,
        }
    }

    pub fn outcome(outcome: &Outcome, function: &'static str) -> Self {
        let Outcome { became, names, effect } = outcome;
        let (reported_outcome, reported_code, reported_denied) = match became {
            Became::Changed => ("changed", None, false),
            Became::Unchanged => ("unchanged", None, false),
            Became::DryRun => ("dry-run", None, false),
            Became::Refused { code, denied } => ("refused", Some(*code), *denied),
        };
        let count = 1 + usize::from(names.to.is_some());
        let (reported_path, reported_path_bytes, path_cut) = shown(&names.path, count);
        let to = names.to.as_deref().map(|to| shown(to, count));
        let word = |word: &Option<String>| word.as_deref().map(|word| cut(word, WORD_BYTES).to_owned());
        Self::Outcome(Box::new(Reported {
            reported_outcome,
            reported_code,
            reported_denied,
            reported_path,
            reported_path_bytes,
            reported_path_cut: path_cut || to.as_ref().is_some_and(|to| to.2),
            reported_to_bytes: to.as_ref().and_then(|to| to.1.clone()),
            reported_to: to.map(|to| to.0),
            reported_bytes: effect.bytes,
            reported_entries: effect.entries,
            reported_etag_before: word(&effect.etag_before),
            reported_etag_after: word(&effect.etag_after),
            reported_trash_id: word(&effect.trash_id),
            reported_function: function,
        }))
    }
}

/// A path as text, also as base64 if it is not UTF-8, and whether either was cut. `count` paths share the limits of one record.
fn shown(path: &[u8], count: usize) -> (String, Option<String>, bool) {
    let text = String::from_utf8_lossy(path);
    let raw = std::str::from_utf8(path).is_err().then(|| &path[..path.len().min(RAW_PATH_BYTES / count)]);
    let kept = cut(&text, PATH_BYTES / count);
    let was_cut = kept.len() < text.len() || raw.is_some_and(|raw| raw.len() < path.len());
    (kept.into(), raw.map(|raw| STANDARD.encode(raw)), was_cut)
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

impl Record {
    /// With its newline. `None` if it could not be written, which no value here brings about.
    pub fn line(&self) -> Option<Vec<u8>> {
        let mut line = Vec::with_capacity(512);
        self.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Ascii)).ok()?;
        line.push(b'\n');
        Some(line)
    }
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
