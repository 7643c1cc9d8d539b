//! `coder::restore_entry`.

use serde_json::Value;

use super::{
    Handler, changes,
    folder::wire_kind,
    names::{decode_path, encode_path},
    outcomes,
};
use crate::{
    broker::{Effect, Question},
    jail::{Call, Claim, Jail, Located, PlanMode, Planning},
    path::{JailPath, RawPath},
    sys::fs::FileKind,
    wire::{
        Error, Result,
        decode::decode,
        types::restore::{Restore, RestoreEntry, RestoreRequest, RestoreResponse, RestoreResult, TrashEntry},
    },
};

/// The path that was restored, and the id that it had in the trash.
struct RestoreOutput {
    path: JailPath,
    id: String,
}

impl outcomes::AuditedChange for RestoreOutput {
    fn effect(&self, _: bool, _: Option<String>) -> (bool, Effect) {
        (true, Effect { trash_id: Some(self.id.clone()), ..Effect::default() })
    }
}

impl Handler for Restore {
    fn questions(_: &Jail, _: &RestoreRequest) -> Vec<Question> {
        Vec::new()
    }

    fn may_change(request: &RestoreRequest) -> bool {
        request.list != Some(true)
    }

    fn run(jail: &Jail, call: &mut Call, request: RestoreRequest) -> Result<RestoreResponse> {
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        if request.ids.is_some() && (request.path.is_some() || request.path_bytes.is_some()) {
            return Err(Error::bad_input(
                "path: only with list; entries of ids go back to the path they were deleted from",
            ));
        }
        if request.list == Some(true) && (request.dry_run.is_some() || request.overwrite.is_some()) {
            return Err(Error::bad_input("dry_run, overwrite: only with ids; leave them out to list the trash"));
        }
        match (request.list == Some(true), request.ids) {
            (true, None) => {
                let path = decode_path(request.path.as_deref(), request.path_bytes.as_deref())?;
                let path = path.or_else(|| base_dir.is_some().then(|| RawPath::text(".")));
                let below = path.map(|path| jail.locate(call, &path, base_dir.as_ref())).transpose()?;
                let entries = list_trash(jail, call, below.as_ref())?;
                Ok(RestoreResponse { entries: Some(entries), results: None })
            }
            (false, Some(ids)) => {
                changes::check_entry_count(call, "ids", ids.len())?;
                let overwrite = request.overwrite.unwrap_or(false);
                let mut dry = Planning::new(PlanMode::DryRun { atomic: false });
                let mut restored = |(index, id)| {
                    let (id, is_dry, restored) = match decode_restore_entry(call, index, id, request.dry_run) {
                        Ok((RestoreEntry { id, .. }, is_dry)) => {
                            let mut single = Planning::new(PlanMode::Single);
                            let planning = if is_dry { &mut dry } else { &mut single };
                            let restored = restore_entry(jail, call, &id, base_dir.as_ref(), overwrite, planning);
                            (id, is_dry, restored)
                        }
                        Err((id, error)) => (id, request.dry_run == Some(true), Err(error)),
                    };
                    let located = restored.as_ref().ok().map(|restored| restored.path.clone());
                    outcomes::record_outcome(jail, call, index, located.as_slice(), is_dry, None, &restored);
                    to_result(jail, id, is_dry, restored)
                };
                let results = ids.into_iter().enumerate().map(&mut restored).collect();
                Ok(RestoreResponse { entries: None, results: Some(results) })
            }
            _ => Err(Error::bad_input("give list: true to see what is in the trash, or ids to restore, not both")),
        }
    }
}

fn list_trash(jail: &Jail, call: &Call, below: Option<&Located>) -> Result<Vec<TrashEntry>> {
    let is_wanted = |path: &JailPath| below.is_none_or(|below| path.is_at_or_below(&below.path));
    let trashed = jail.list_trash(call)?.into_iter();
    let shown = trashed.filter(|trashed| is_wanted(&trashed.path) && !jail.is_denied(&trashed.path));
    let entries = shown.map(|trashed| {
        let (path, path_bytes) = encode_path(jail, &trashed.path);
        TrashEntry {
            id: trashed.id,
            path,
            path_bytes,
            kind: wire_kind(trashed.kind),
            size: trashed.size_bytes,
            deleted_at: trashed.deleted_at,
        }
    });
    Ok(entries.collect())
}

fn restore_entry(
    jail: &Jail,
    call: &mut Call,
    id: &str,
    base_dir: Option<&RawPath>,
    overwrite: bool,
    planning: &mut Planning,
) -> Result<RestoreOutput> {
    call.checkpoint()?;
    let found = jail.find_trashed(call, planning, id, base_dir, overwrite)?;
    check_destination(found.trashed.kind, &found.claim, call)?;
    let path = found.trashed.path.clone();
    found.plan(planning).run(jail, call).map_err(|failed| failed.error)?;
    Ok(RestoreOutput { path, id: id.to_owned() })
}

fn to_result(jail: &Jail, id: String, dry_run: bool, restored: Result<RestoreOutput>) -> RestoreResult {
    match restored {
        Ok(RestoreOutput { path, .. }) => {
            let (path, path_bytes) = encode_path(jail, &path);
            RestoreResult { id, path, path_bytes, success: true, dry_run, error: None }
        }
        Err(error) => {
            let (path, path_bytes) = Default::default();
            RestoreResult { id, path, path_bytes, success: false, dry_run, error: Some(error) }
        }
    }
}

/// An entry of `ids`, and whether it is dry; or its id as far as it has one, and what is wrong.
fn decode_restore_entry(
    call: &mut Call,
    index: usize,
    value: Value,
    dry_run: Option<bool>,
) -> Result<(RestoreEntry, bool), (String, Error)> {
    let sent = value.as_str().or_else(|| value.get("id").and_then(Value::as_str)).unwrap_or_default().to_owned();
    let entry = match value {
        Value::String(id) => Ok(RestoreEntry { id, dry_run: None }),
        value => decode(value, &format!("ids[{index}]"), &mut call.warnings),
    };
    entry
        .and_then(|entry: RestoreEntry| {
            let position = changes::EntryPosition { field: "ids", index };
            let is_dry = changes::resolve_dry_run(dry_run, entry.dry_run, position)?;
            Ok((entry, is_dry))
        })
        .map_err(|error| (sent, error))
}

/// Like a move: a folder can only replace an empty folder, a file only a file.
fn check_destination(kind: FileKind, there: &Claim, call: &Call) -> Result<()> {
    let sent = &there.name().sent;
    let Some(stat) = there.stat() else { return Ok(()) };
    if (kind == FileKind::Dir) != (stat.kind == FileKind::Dir) {
        return Err(Error::bad_input(format!("{sent}: a folder and a file cannot take each other's place")));
    }
    if kind == FileKind::Dir && !there.is_empty(call)? {
        return Err(Error::bad_input(format!("{sent}: a folder that is not empty cannot be replaced")));
    }
    Ok(())
}
