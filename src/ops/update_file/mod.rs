//! `coder::update-file`: edits of files that exist. Each file is claimed, read, edited in memory and replaced as a whole.
//! One that is named twice is edited twice, one after the other; in an atomic batch it is then replaced once, in a dry run never.

mod convert;
mod edit;

use super::{
    Handler,
    changes::{self, ChangeOptions, RequestedChange, required_path},
    pasted::{self, Pasted},
};
use crate::{
    broker::{Intent, Question},
    jail::{Call, Jail},
    path::RawPath,
    wire::{
        Code, Result,
        types::update_file::{UpdateEntry, UpdateFile, UpdateFileRequest, UpdateFileResponse, UpdateResult},
    },
};

use edit::{UpdateOperation, UpdateOutput, UpdateParameters};

impl Handler for UpdateFile {
    /// None: an update asks with its lease when it runs, and not before.
    fn questions(_: &Jail, _: &UpdateFileRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: UpdateFileRequest) -> Result<UpdateFileResponse> {
        changes::check_entry_count(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let mut paths = Vec::new();
        let strict = request.strict == Some(true);
        let prepare = |call: &mut Call, entry: UpdateEntry| {
            let intended = prepare_entry(jail, call, base_dir.as_ref(), strict, entry)?;
            paths.push(intended.names[0].0.path.clone());
            Ok(intended)
        };
        let entries = changes::decode_entries(call, "files", request.files, None, &[("path", "path_bytes")], prepare);
        let edits = UpdateOperation::new(jail, call, (request.diff == Some(true), strict), paths);
        let options = ChangeOptions { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", options, entries, edits)?;
        let results: Vec<UpdateResult> = done.into_iter().map(to_result).collect();
        // If every entry failed at the deadline, the call as a whole fails. If an entry was applied, its result is more useful than
        // an error for the whole call.
        let is_late = |result: &UpdateResult| result.error.as_ref().is_some_and(|error| error.code == Code::Deadline);
        if results.iter().all(is_late) {
            call.checkpoint()?;
        }
        Ok(UpdateFileResponse { results })
    }
}

fn prepare_entry(
    jail: &Jail,
    call: &Call,
    base_dir: Option<&RawPath>,
    strict: bool,
    entry: UpdateEntry,
) -> Result<RequestedChange<UpdateParameters>> {
    let name = required_path("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
    let located = jail.locate(call, &name, base_dir)?;
    let mut ops = entry.ops;
    let warnings = Pasted::new(strict, entry.verbatim, entry.strip_read_prefixes)
        .and_then(|rule| convert::check_pasted(rule, &mut ops))
        .map_err(|error| pasted::with_path(&located.sent, error))?;
    let parameters = UpdateParameters { ops, is_binary: entry.binary == Some(true), warnings };
    let names = vec![(located, Intent::Edit)];
    Ok(RequestedChange { parameters, names, if_match: entry.if_match, dry_run: entry.dry_run })
}

fn to_result(mut done: changes::ChangeResult<UpdateOutput>) -> UpdateResult {
    let ((path, path_bytes), dry_run) = (done.name(0), done.dry_run);
    let done = match done.outcome {
        Err(error) => {
            return UpdateResult { path, path_bytes, dry_run, error: Some(error), ..UpdateResult::default() };
        }
        Ok(done) => done,
    };
    UpdateResult {
        path,
        path_bytes,
        success: true,
        applied: done.applied,
        new_line_count: done.new_line_count,
        echoes: done.echoes,
        echoes_truncated: done.echoes_truncated,
        changed: done.changed,
        etag: Some(done.etag),
        diff_truncated: done.diff.as_ref().is_some_and(|diff| diff.truncated),
        diff: done.diff.map(|diff| diff.text),
        owner_changed: done.owner_changed,
        dry_run,
        error: None,
        bodies: done.bodies,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
