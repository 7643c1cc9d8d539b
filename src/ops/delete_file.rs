//! `coder::delete-file`.

use super::{
    Handler,
    changes::{self, How, Plan, Turn, required},
    outcomes, versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Commit, Counted, Jail},
    path::RawPath,
    sys::fs::Kind,
    wire::{
        Error, Result,
        types::delete_file::{DeleteEntry, DeleteFile, DeleteFileRequest, DeleteFileResponse, DeleteResult},
    },
};

/// What became of a name.
#[derive(Debug, Default)]
struct Deleted {
    removed: bool,
    trash_id: Option<String>,
    /// In a dry run, of a folder.
    counted: Option<Counted>,
    /// Number of entries of a folder that was deleted as a whole, for the audit.
    entries: Option<u64>,
}

impl outcomes::Done for Deleted {
    fn effect(&self, _: bool, matched: Option<String>) -> (bool, Effect) {
        let entries = self.entries.or(self.counted.map(|counted| counted.entries));
        let trash_id = self.trash_id.clone();
        (self.removed, Effect { entries, etag_before: matched, trash_id, ..Effect::default() })
    }
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    recursive: bool,
    trash: bool,
}

impl Handler for DeleteFile {
    fn questions(_: &Jail, _: &DeleteFileRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: DeleteFileRequest) -> Result<DeleteFileResponse> {
        changes::check_len(call, "paths", request.paths.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let wanted = Wanted {
            recursive: request.recursive.unwrap_or(false),
            trash: request.trash.unwrap_or(jail.settings().trash.default),
        };
        let plan = |call: &mut Call, entry: DeleteEntry| plan(jail, call, base_dir.as_ref(), entry);
        let of_path = |path| DeleteEntry { path: Some(path), ..DeleteEntry::default() };
        let names = [("path", "path_bytes")];
        let wishes = changes::wishes(call, "paths", request.paths, Some(of_path), &names, plan);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "paths", how, wishes, |call, turn, commit| {
            delete(jail, call, turn, commit, wanted)
        })?;
        let made = done.iter().filter_map(|done| done.outcome.as_ref().ok()?.trash_id.as_deref());
        jail.trim_trash(&made.collect::<Vec<_>>());
        let results = done.into_iter().map(|mut done| {
            let ((path, path_bytes), dry_run) = (done.name(0), done.dry_run);
            let (deleted, error) =
                done.outcome.map_or_else(|error| (Deleted::default(), Some(error)), |done| (done, None));
            let Deleted { removed, trash_id, counted, .. } = deleted;
            DeleteResult {
                path,
                path_bytes,
                success: error.is_none(),
                removed,
                trash_id,
                entries: counted.map(|counted| counted.entries),
                entries_more: counted.is_some_and(|counted| counted.more),
                dry_run,
                error,
            }
        });
        Ok(DeleteFileResponse { results: results.collect() })
    }
}

fn plan(jail: &Jail, call: &Call, base_dir: Option<&RawPath>, entry: DeleteEntry) -> Result<Plan<()>> {
    let name = required("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
    let located = jail.locate(call, &name, base_dir)?;
    if located.path.is_root() {
        return Err(Error::bad_input(format!(
            "{}: is an allowed root, which is never deleted",
            located.sent
        )));
    }
    jail.check_operand(call, &located, &located.path, Intent::Write)?;
    let names = vec![(located, Intent::Write)];
    Ok(Plan { what: (), names, if_match: entry.if_match, dry_run: entry.dry_run })
}

fn delete(
    jail: &Jail,
    call: &mut Call,
    turn: &mut Turn<()>,
    commit: &mut Commit<'_>,
    wanted: Wanted,
) -> Result<Deleted> {
    // A folder on the way is missing, so the name is, too.
    if turn.is_missing(0) && turn.if_match().is_none() {
        return Ok(Deleted::default());
    }
    let claim = turn.claim(jail, call, commit, 0)?;
    jail.check_operand(call, claim.name(), claim.path(), Intent::Write)?;
    versions::check(jail, call, &claim, turn.if_match())?;
    let Some(stat) = claim.stat().copied() else { return Ok(Deleted::default()) };
    if wanted.trash && stat.kind == Kind::Dir && !wanted.recursive {
        claim.check_empty(call)?;
    }
    // Before the change: afterwards the names in it are foreseen to be gone.
    let is_counted = commit.is_dry() && stat.kind == Kind::Dir && wanted.recursive;
    let counted = if is_counted { Some(claim.count_entries(call)?) } else { None };
    if wanted.trash {
        let (trash_id, entries) = commit.discard(jail, call, &claim, &stat)?;
        let entries = entries.filter(|_| wanted.recursive);
        return Ok(Deleted { removed: true, trash_id, counted, entries });
    }
    let mut entries = None;
    match (stat.kind, wanted.recursive) {
        (Kind::Dir, true) => entries = Some(commit.remove_tree(jail, call, &claim, &stat)?),
        (Kind::Dir, false) => commit.remove_folder(jail, call, &claim, &stat)?,
        _ => commit.remove(jail, call, &claim, &stat)?,
    }
    Ok(Deleted { removed: true, trash_id: None, counted, entries })
}
