//! `coder::delete-file`.

use super::{
    Handler,
    changes::{self, ChangeOptions, EntryRun, Operation, PlannedChange, RequestedChange, required_path},
    outcomes, versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, EntryCount, Jail, Planning},
    path::RawPath,
    sys::fs::FileKind,
    wire::{
        Error, Result,
        types::delete_file::{DeleteEntry, DeleteFile, DeleteFileRequest, DeleteFileResponse, DeleteResult},
    },
};

/// The result for one name.
#[derive(Debug, Default)]
struct DeleteOutput {
    removed: bool,
    trash_id: Option<String>,
    /// The number of entries of a folder, in a dry run.
    counted: Option<EntryCount>,
    /// Number of entries of a folder that was deleted as a whole, for the audit.
    entries: Option<u64>,
}

impl outcomes::AuditedChange for DeleteOutput {
    fn effect(&self, _: bool, matched: Option<String>) -> (bool, Effect) {
        let entries = self.entries.or(self.counted.map(|counted| counted.entries));
        let trash_id = self.trash_id.clone();
        (self.removed, Effect { entries, etag_before: matched, trash_id, ..Effect::default() })
    }
}

struct DeleteOperation<'a> {
    jail: &'a Jail,
    recursive: bool,
    trash: bool,
}

impl Handler for DeleteFile {
    fn questions(_: &Jail, _: &DeleteFileRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: DeleteFileRequest) -> Result<DeleteFileResponse> {
        changes::check_entry_count(call, "paths", request.paths.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let delete = DeleteOperation {
            jail,
            recursive: request.recursive.unwrap_or(false),
            trash: request.trash.unwrap_or(jail.settings().trash.default),
        };
        let prepare = |call: &mut Call, entry: DeleteEntry| prepare_entry(jail, call, base_dir.as_ref(), entry);
        let of_path = |path| DeleteEntry { path: Some(path), ..DeleteEntry::default() };
        let names = [("path", "path_bytes")];
        let entries = changes::decode_entries(call, "paths", request.paths, Some(of_path), &names, prepare);
        let options = ChangeOptions { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "paths", options, entries, delete)?;
        let made = done.iter().filter_map(|done| done.outcome.as_ref().ok()?.trash_id.as_deref());
        jail.trim_trash(&made.collect::<Vec<_>>());
        let results = done.into_iter().map(|mut done| {
            let ((path, path_bytes), dry_run) = (done.name(0), done.dry_run);
            let (deleted, error) =
                done.outcome.map_or_else(|error| (DeleteOutput::default(), Some(error)), |done| (done, None));
            let DeleteOutput { removed, trash_id, counted, .. } = deleted;
            DeleteResult {
                path,
                path_bytes,
                success: error.is_none(),
                removed,
                trash_id,
                entries: counted.map(|counted| counted.entries),
                entries_more: counted.is_some_and(|counted| counted.is_partial),
                dry_run,
                error,
            }
        });
        Ok(DeleteFileResponse { results: results.collect() })
    }
}

fn prepare_entry(
    jail: &Jail,
    call: &Call,
    base_dir: Option<&RawPath>,
    entry: DeleteEntry,
) -> Result<RequestedChange<()>> {
    let name = required_path("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
    let located = jail.locate(call, &name, base_dir)?;
    if located.path.is_root() {
        return Err(Error::bad_input(format!("{}: is an allowed root, which is never deleted", located.sent)));
    }
    jail.check_operand(call, &located, &located.path, Intent::Write)?;
    let names = vec![(located, Intent::Write)];
    Ok(RequestedChange { parameters: (), names, if_match: entry.if_match, dry_run: entry.dry_run })
}

impl Operation for DeleteOperation<'_> {
    type Parameters = ();
    type Output = DeleteOutput;

    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<()>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<DeleteOutput>> {
        let jail = self.jail;
        // A folder on the way is missing, so the name is, too.
        if entry_run.is_parent_missing(0) && entry_run.if_match().is_none() {
            return Ok(PlannedChange::unchanged(DeleteOutput::default()));
        }
        let claim = entry_run.claim(jail, call, planning, 0)?;
        jail.check_operand(call, claim.name(), claim.path(), Intent::Write)?;
        versions::check_if_match(jail, call, &claim, entry_run.if_match())?;
        let Some(stat) = claim.stat().copied() else {
            return Ok(PlannedChange::unchanged(DeleteOutput::default()));
        };
        if self.trash && stat.kind == FileKind::Dir && !self.recursive {
            claim.check_empty(call)?;
        }
        // Before the change: afterwards the names in it are foreseen to be gone.
        let is_counted = planning.is_dry() && stat.kind == FileKind::Dir && self.recursive;
        let counted = if is_counted { Some(claim.count_entries(call)?) } else { None };
        let mut output = DeleteOutput { removed: true, trash_id: None, counted, entries: None };
        let plan = match (stat.kind, self.recursive) {
            _ if self.trash => {
                let (plan, trash_id, entries) = planning.move_to_trash(jail, call, &claim, &stat)?;
                (output.trash_id, output.entries) = (trash_id, entries.filter(|_| self.recursive));
                plan
            }
            (FileKind::Dir, true) => {
                let (plan, entries) = planning.remove_tree(jail, call, &claim, &stat)?;
                output.entries = Some(entries);
                plan
            }
            (FileKind::Dir, false) => planning.remove_folder(jail, call, &claim, &stat)?,
            _ => planning.remove(jail, call, &claim, &stat)?,
        };
        Ok(PlannedChange { plan, output, lost_attributes: Vec::new() })
    }
}
