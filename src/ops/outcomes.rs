//! Builds the audit's outcomes of a call that changes something, one for each entry. Runs in the worker. Uses only what the
//! call knows anyway: opens, reads and hashes nothing.

use serde_json::Value;

use super::names::decode_path_field;
use crate::{
    broker::{Effect, EntryOutcome, OutcomeKind, OutcomePaths},
    jail::{Call, Jail, SentEntry},
    path::{JailPath, RawPath},
    wire::{Code, Result},
};

/// Fields of requests that hold the list of entries.
const LIST_FIELDS: [&str; 3] = ["files", "paths", "ids"];

/// The entries of a request as the client sent them, at most `most`. A request without entries gets one entry without names, so
/// that every refused call has a record.
pub fn sent_entries(params: &Value, most: usize) -> Vec<SentEntry> {
    let base_dir = params.get("base_dir").and_then(Value::as_str);
    let list = LIST_FIELDS.iter().find_map(|list| params.get(list)?.as_array());
    let entries = list.into_iter().flatten().take(most).map(|entry| sent_entry(entry, base_dir));
    let entries: Vec<SentEntry> = match params.get("ids") {
        Some(_) => list.into_iter().flatten().take(most).map(sent_trash_id).collect(),
        None => entries.collect(),
    };
    if entries.is_empty() { vec![SentEntry::default()] } else { entries }
}

fn sent_trash_id(entry: &Value) -> SentEntry {
    let id = entry.as_str().or_else(|| entry.get("id")?.as_str());
    SentEntry { names: OutcomePaths::default(), trash_id: id.map(str::to_owned) }
}

fn sent_entry(entry: &Value, base_dir: Option<&str>) -> SentEntry {
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    let name = |field: &str, bytes: &str| {
        let name = decode_path_field(field, text(field), text(bytes)).ok().flatten();
        name.or_else(|| text(field).map(RawPath::text)).map(|name| join_base_dir(base_dir, &name))
    };
    let path = match entry.as_str() {
        Some(path) => Some(join_base_dir(base_dir, &RawPath::text(path))),
        None => name("path", "path_bytes").or_else(|| name("from", "from_bytes")),
    };
    let names = OutcomePaths { path: path.unwrap_or_default(), to: name("to", "to_bytes") };
    SentEntry { names, trash_id: None }
}

/// A path as sent, behind the `base_dir` that it is relative to.
fn join_base_dir(base_dir: Option<&str>, path: &RawPath) -> Vec<u8> {
    match base_dir {
        Some(base) if !path.as_bytes().starts_with(b"/") => [base.as_bytes(), b"/", path.as_bytes()].concat(),
        _ => path.as_bytes().to_vec(),
    }
}

/// The outcomes of a call that failed before its first entry.
pub fn refused_outcomes(sent: Vec<SentEntry>, code: Code) -> Vec<EntryOutcome> {
    let refuse = |SentEntry { names, trash_id }| {
        let effect = Effect { trash_id, ..Effect::default() };
        EntryOutcome { effect, ..EntryOutcome::refused(names, code, false) }
    };
    sent.into_iter().map(refuse).collect()
}

/// The effect of an entry that succeeded, or the effect that it would have without a dry run.
pub(super) trait AuditedChange {
    /// Returns whether the entry changed anything, and the known effect. `matched` is the `if_match` of the entry, which was
    /// the etag of the file.
    fn effect(&self, dry_run: bool, matched: Option<String>) -> (bool, Effect);
}

/// Adds the outcome of the entry `index` to the call, which sends all outcomes at its end. `located` are the names of the entry
/// that could be resolved to a root.
pub(super) fn record_outcome<T: AuditedChange>(
    jail: &Jail,
    call: &mut Call,
    index: usize,
    located: &[JailPath],
    dry_run: bool,
    matched: Option<String>,
    outcome: &Result<T>,
) {
    let absolute = |path: &JailPath| jail.roots().absolute(path).into_os_string().into_encoded_bytes();
    let mut located = located.iter().map(absolute);
    let sent = call.take_sent_entry(index);
    let names = match located.next() {
        Some(path) => OutcomePaths { path, to: located.next() },
        None => sent.names,
    };
    let (became, effect) = match outcome {
        Ok(done) => match (done.effect(dry_run, matched), dry_run) {
            ((_, effect), true) => (OutcomeKind::DryRun, effect),
            ((true, effect), false) => (OutcomeKind::Changed, effect),
            ((false, effect), false) => (OutcomeKind::Unchanged, effect),
        },
        Err(error) => {
            let effect = Effect { trash_id: sent.trash_id, ..Effect::default() };
            (OutcomeKind::Refused { code: error.code, denied: error.is_denied }, effect)
        }
    };
    call.outcomes.push(EntryOutcome { kind: became, paths: names, effect });
}

#[cfg(test)]
mod tests;
