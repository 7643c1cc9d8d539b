//! The entries of `paths`: each succeeds or fails alone, results are in request order, and names are asked about
//! together.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::names::{decode_path, encode_name, encode_path};
use crate::{
    broker::{Intent, Question, Refusal},
    jail::{BATCH_QUESTIONS, Call, Jail, JailEntry, Located, QuestionBatch},
    path::RawPath,
    wire::{Code, Error, Result, decode::decode},
};

/// An entry of `paths`: a path, or an object that names one.
pub(super) trait PathEntry: DeserializeOwned + JsonSchema + 'static {
    /// An example of an object, for the error about an entry of another kind.
    const EXAMPLE: &'static str;
    /// The intent that the name of an entry is opened with.
    const INTENT: Intent;

    fn from_path(path: String) -> Self;

    /// `path` and `path_bytes`.
    fn path_fields(&self) -> (Option<&str>, Option<&str>);
}

/// The result of an entry.
#[derive(Debug)]
pub(super) struct PathResult<T> {
    /// The canonical path; the path as sent if the entry failed.
    pub(super) path: String,
    pub(super) path_bytes: Option<String>,
    pub(super) outcome: Result<T>,
}

/// The questions of the first message. More would only hold descriptors of parents before they are used.
pub(super) fn questions<E: PathEntry>(jail: &Jail, paths: &[Value], base_dir: Option<&RawPath>) -> Vec<Question> {
    let mut together = QuestionBatch::default();
    paths
        .iter()
        .take(BATCH_QUESTIONS)
        .filter_map(|value| jail.locate_early(&path_as_sent(value)?, base_dir))
        .map(|located| located.question(E::INTENT))
        .take_while(|question| together.admit(jail, question))
        .collect()
}

pub(super) fn check_entry_count(call: &Call, paths: &[Value]) -> Result<()> {
    let most = call.limits.max_batch_entries as usize;
    if paths.len() > most {
        let text = format!("paths: {} entries, at most {most} in one call; split the batch", paths.len());
        return Err(Error::new(Code::TooLarge, text));
    }
    Ok(())
}

/// `plan` parses an entry before its name is opened; `each` handles the opened name. Call `check_entry_count` first, which
/// bounds the number of entries. Only the deadline of the call makes all entries fail.
pub(super) fn run<E: PathEntry, P, T>(
    jail: &Jail,
    call: &mut Call,
    paths: Vec<Value>,
    base_dir: Option<&RawPath>,
    plan: impl Fn(&E) -> Result<P>,
    mut each: impl FnMut(&mut Call, JailEntry, P, usize) -> Result<T>,
) -> Result<Vec<PathResult<T>>> {
    let total = paths.len();
    // Passes the number of entries that are left, including this one.
    let mut each = |call: &mut Call, entry, plan, index: usize| each(call, entry, plan, total - index);
    let mut results = Vec::with_capacity(paths.len());
    let mut together = QuestionBatch::default();
    let mut chunk = Vec::new();
    for (index, value) in paths.into_iter().enumerate() {
        let prepared = PreparedEntry::prepare(jail, call, value, index, base_dir, &plan);
        if !prepared.joins_message(jail, E::INTENT, &mut together) {
            run_chunk(jail, call, E::INTENT, std::mem::take(&mut chunk), &mut each, &mut results)?;
            together = QuestionBatch::default();
            prepared.joins_message(jail, E::INTENT, &mut together);
        }
        chunk.push(prepared);
    }
    run_chunk(jail, call, E::INTENT, chunk, &mut each, &mut results)?;
    Ok(results)
}

/// One entry, parsed as far as possible without the disk.
struct PreparedEntry<P> {
    /// The path as sent, for a failed result.
    sent: Option<RawPath>,
    plan: Result<(P, Located)>,
}

impl<P> PreparedEntry<P> {
    fn prepare<E: PathEntry>(
        jail: &Jail,
        call: &mut Call,
        value: Value,
        index: usize,
        base_dir: Option<&RawPath>,
        plan: impl Fn(&E) -> Result<P>,
    ) -> Self {
        let sent = path_as_sent(&value);
        let plan = decode_entry(call, value, index).and_then(|entry: E| {
            let (path, path_bytes) = entry.path_fields();
            let name = decode_path(path, path_bytes)?.ok_or_else(|| {
                Error::bad_input(format!(
                    "paths[{index}].path: missing; expected a path, for example \"src/main.rs\" or {{\"path\": \"src/main.rs\"}}"
                ))
            })?;
            Ok((plan(&entry)?, jail.locate(call, &name, base_dir)?))
        });
        Self { sent, plan }
    }

    /// An entry without a question joins any message.
    fn joins_message(&self, jail: &Jail, intent: Intent, together: &mut QuestionBatch) -> bool {
        match &self.plan {
            Ok((_, name)) => together.admit(jail, &name.question(intent)),
            Err(_) => true,
        }
    }
}

fn decode_entry<E: PathEntry>(call: &mut Call, value: Value, index: usize) -> Result<E> {
    match value {
        Value::String(path) => Ok(E::from_path(path)),
        Value::Object(_) => decode(value, &format!("paths[{index}]"), &mut call.warnings),
        _ => Err(Error::bad_input(format!(
            "paths[{index}]: expected a string or an object, for example \"src/main.rs\" or {}",
            E::EXAMPLE
        ))),
    }
}

/// The path of an entry that may be malformed otherwise.
fn path_as_sent(value: &Value) -> Option<RawPath> {
    let text = |field| value.get(field).and_then(Value::as_str);
    match value {
        Value::String(path) => Some(RawPath::text(path.as_str())),
        _ => decode_path(text("path"), text("path_bytes")).ok().flatten().or_else(|| text("path").map(RawPath::text)),
    }
}

/// Asks the questions of several entries in one message, then opens and handles the entries one after the other.
fn run_chunk<P, T>(
    jail: &Jail,
    call: &mut Call,
    intent: Intent,
    prepared: Vec<PreparedEntry<P>>,
    each: &mut impl FnMut(&mut Call, JailEntry, P, usize) -> Result<T>,
    results: &mut Vec<PathResult<T>>,
) -> Result<()> {
    let names: Vec<Located> =
        prepared.iter().filter_map(|wanted| wanted.plan.as_ref().ok()).map(|(_, name)| name.clone()).collect();
    let mut answers = jail.ask(call, &names, intent).into_iter();
    for PreparedEntry { sent, plan } in prepared {
        call.checkpoint()?;
        let outcome = plan.and_then(|(plan, name)| {
            let answer = answers.next().unwrap_or(Err(Refusal::Busy));
            let entry = jail.open_answered(call, &name, intent, answer)?;
            Ok((name, each(call, entry, plan, results.len())?))
        });
        let ((path, path_bytes), outcome) = match outcome {
            Ok((name, done)) => (encode_path(jail, &name.path), Ok(done)),
            // The deadline of the call has passed, so the call fails and not only this entry.
            Err(error) if error.code == Code::Deadline => return Err(error),
            Err(error) => (sent.map_or_else(Default::default, |sent| encode_name(sent.as_bytes())), Err(error)),
        };
        results.push(PathResult { path, path_bytes, outcome });
    }
    Ok(())
}
