//! Shared parts of the commands that change files: one call for many names, and one output line for the result of each.

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    super::client::CallError,
    CommandResult, FileSession,
    args::{BatchOptions, VersionOptions},
    diff,
    failure::{CliFailure, EXIT_REFUSED, entry_failure, unexpected_result},
    output::Output,
    paths::PathBase,
    progress,
    service_texts::in_commands,
};

/// Names of one call; far below the service's limit of 1,000, which a policy may lower.
pub(super) const BATCH_ENTRIES: usize = 100;

/// A change in the form of its function.
#[derive(Debug)]
pub(super) struct ChangeCommand {
    method: &'static str,
    /// The request's field that holds the entries.
    list: &'static str,
    entries: Vec<Value>,
    /// The other fields of the request.
    request: Value,
    /// Entries of one call, if that is not all of them.
    pub(super) entries_per_call: usize,
}

#[derive(Debug, Deserialize)]
struct CliChangeResult {
    results: Vec<EntryOutcome>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// The result of one entry, with the fields of all functions.
#[derive(Debug, Deserialize)]
pub(super) struct EntryOutcome {
    error: Option<Box<RawValue>>,
    pub(super) bytes_written: Option<u64>,
    pub(super) bytes: Option<u64>,
    #[serde(default)]
    pub(super) removed: bool,
    #[serde(default)]
    pub(super) moved: bool,
    #[serde(default)]
    pub(super) created: bool,
    #[serde(default)]
    pub(super) changed: bool,
    pub(super) trash_id: Option<String>,
    pub(super) new_line_count: Option<u64>,
    #[serde(default)]
    pub(super) echoes: Vec<CliEcho>,
    pub(super) diff: Option<String>,
    #[serde(default)]
    pub(super) diff_truncated: bool,
    pub(super) path: Option<String>,
    pub(super) path_bytes: Option<String>,
    /// Number of entries in the folder that a dry run would remove.
    pub(super) entries: Option<u64>,
    #[serde(default)]
    pub(super) entries_more: bool,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    owner_changed: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct CliEcho {
    pub(super) op_index: usize,
    pub(super) total_replacements: Option<u64>,
}

impl EntryOutcome {
    /// The diff, if there is one, and a remark if it was cut.
    pub(super) fn print_diff(&self, name: &str, out: &mut Output<'_>) -> Result<(), CliFailure> {
        let Some(text) = &self.diff else { return Ok(()) };
        out.write_text(&diff::render(text, out.is_for_person(), out.style))?;
        match self.diff_truncated {
            true => out.write_remark(&format!("{name}: the diff is too large to be shown whole")),
            false => Ok(()),
        }
    }

    /// The verb for the change; with `would` in a dry run.
    pub(super) fn verb(&self, done: &'static str, would: &'static str) -> String {
        if self.dry_run { format!("would {would}") } else { done.to_owned() }
    }

    /// A note for the user if a replaced file has another owner now.
    pub(super) fn owner_note(&self) -> &'static str {
        if self.owner_changed { ", with another owner" } else { "" }
    }
}

impl ChangeCommand {
    pub(super) fn new(method: &'static str, list: &'static str, entries: Vec<Value>, options: &BatchOptions) -> Self {
        let mut request = json!({});
        if options.dry_run {
            request["dry_run"] = true.into();
        }
        if options.atomic {
            request["atomic"] = true.into();
        }
        if let Some(folder) = &options.base_dir {
            request["base_dir"] = folder.as_str().into();
        }
        Self { method, list, entries, request, entries_per_call: BATCH_ENTRIES }
    }

    /// Sets a field of the whole request.
    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.request[field] = value.into();
    }

    /// Converts the paths to the form that the service takes. If there is a `base_dir`, the paths of the entries are relative
    /// to it.
    fn place_paths(&mut self, entries: &mut [Value], base: &PathBase) {
        match self.request.get_mut("base_dir") {
            Some(Value::String(folder)) => *folder = base.sent_text(folder),
            _ => entries.iter_mut().for_each(|entry| base.place(entry)),
        }
    }

    /// Makes the change. `show` prints the result of each entry that succeeded, with its number. A failed entry does not hide
    /// the others.
    pub(super) fn run(
        mut self,
        session: &mut dyn FileSession,
        out: &mut Output<'_>,
        mut show: impl FnMut(usize, &EntryOutcome, &mut Output<'_>) -> Result<(), CliFailure>,
    ) -> CommandResult {
        // A program gets one reply for one command. An atomic change must also be one call.
        let in_one = out.json || self.request["atomic"] == true;
        let step = if in_one { self.entries.len() } else { self.entries_per_call };
        let mut entries = std::mem::take(&mut self.entries);
        self.place_paths(&mut entries, session.path_base());
        let (mut failed, mut is_read) = (Vec::new(), true);
        for (index, part) in entries.chunks(step.max(1)).enumerate() {
            self.request[self.list] = part.into();
            let reply = progress::show_during("working", || session.call(self.method, &self.request.to_string()))?;
            let results = parse_outcomes(&reply, part.len(), out)?;
            if out.json {
                out.write_json_line(reply.get())?;
                let is_refused = results.iter().any(|done| done.error.is_some());
                return Ok(if is_refused { EXIT_REFUSED } else { 0 });
            }
            for (at, done) in results.iter().enumerate() {
                match &done.error {
                    Some(error) => {
                        failed.push(out.report_entry(entry_failure(error)));
                        out.write_nearest(error);
                    }
                    None if is_read => match show(index * step + at, done, out) {
                        // A closed output stops the report, not the changes.
                        Err(CliFailure::PipeClosed) => is_read = false,
                        other => other?,
                    },
                    None => {}
                }
            }
        }
        Ok(out.report_hints(&failed))
    }
}

fn parse_outcomes(reply: &RawValue, expected: usize, out: &mut Output<'_>) -> Result<Vec<EntryOutcome>, CliFailure> {
    let reply: CliChangeResult = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    if reply.results.len() != expected {
        return Err(CallError::Protocol("a batch with another number of results".into()).into());
    }
    if !out.json {
        reply.warnings.iter().try_for_each(|warning| out.write_remark(&in_commands(warning)))?;
    }
    Ok(reply.results)
}

/// Sets the version, which is only possible for a single file.
pub(super) fn set_if_match(version: &VersionOptions, entries: &mut [Value]) -> Result<(), CliFailure> {
    match (&version.if_match, entries) {
        (None, _) => Ok(()),
        (Some(etag), [entry]) => {
            entry["if_match"] = etag.as_str().into();
            Ok(())
        }
        (Some(_), _) => Err(CliFailure::Usage("--if-match is for a single file".into())),
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
