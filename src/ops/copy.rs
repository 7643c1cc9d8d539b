//! `coder::copy`.

use super::{
    Handler,
    changes::{self, ChangeOptions, EntryRun, Operation, PlannedChange, RequestedChange},
    move_copy::{
        PATH_FIELDS, check_destination, check_new_operand, check_not_into_itself, encode_both, locate_both,
        stage_content,
    },
    outcomes, versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{self, Call, Claim, ContentSource, Jail, JailEntry, Located, Planning, Staged},
    path::{JailPath, RawPath},
    sys::fs::FileKind,
    wire::{
        Error, Result,
        types::move_copy::{Copy, CopyEntry, CopyRequest, CopyResponse, CopyResult},
    },
};

#[derive(Debug, Clone, Copy)]
struct CopyParameters {
    overwrite: bool,
    parents: bool,
    recursive: bool,
}

#[derive(Debug, Default)]
struct CopyOutput {
    bytes: u64,
    etag: Option<String>,
    owner_changed: bool,
    /// Number of entries of a copied folder, for the audit.
    entries: Option<u64>,
}

impl outcomes::AuditedChange for CopyOutput {
    fn effect(&self, dry_run: bool, _: Option<String>) -> (bool, Effect) {
        let etag_after = self.etag.clone().filter(|_| !dry_run);
        (true, Effect { bytes: Some(self.bytes), entries: self.entries, etag_after, ..Effect::default() })
    }
}

impl Handler for Copy {
    fn questions(_: &Jail, _: &CopyRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: CopyRequest) -> Result<CopyResponse> {
        changes::check_entry_count(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let prepare = |call: &mut Call, entry: CopyEntry| {
            let (from, to) = locate_both(jail, call, base_dir.as_ref(), &entry.names, Intent::Look)?;
            let parameters = CopyParameters {
                overwrite: entry.overwrite.unwrap_or(false),
                parents: entry.parents.unwrap_or(true),
                recursive: entry.recursive.unwrap_or(false),
            };
            let names = vec![(from, Intent::Look), (to, Intent::Create)];
            Ok(RequestedChange { parameters, names, if_match: entry.if_match, dry_run: entry.dry_run })
        };
        let entries = changes::decode_entries(call, "files", request.files, None, &PATH_FIELDS, prepare);
        let options = ChangeOptions { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", options, entries, CopyOperation { jail })?;
        let results = done.into_iter().map(|mut done| {
            let (names, dry_run) = (encode_both(done.name(0), done.name(1)), done.dry_run);
            let (copied, error) =
                done.outcome.map_or_else(|e| (CopyOutput::default(), Some(e)), |copied| (copied, None));
            let (success, CopyOutput { bytes, etag, owner_changed, .. }) = (error.is_none(), copied);
            CopyResult { names, success, copied: success, bytes, etag, owner_changed, dry_run, error }
        });
        Ok(CopyResponse { results: results.collect() })
    }
}

struct CopyOperation<'a> {
    jail: &'a Jail,
}

impl Operation for CopyOperation<'_> {
    type Parameters = CopyParameters;
    type Output = CopyOutput;

    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<CopyParameters>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<CopyOutput>> {
        let jail = self.jail;
        let from = entry_run.open(jail, call, planning, 0)?;
        let to = entry_run.claim(jail, call, planning, 1)?;
        let (parameters, name) = (entry_run.parameters, entry_run.name(0).clone());
        let path = from.as_ref().map_or(&name.path, JailEntry::path).clone();
        let kind = from.as_ref().map_or(FileKind::Dir, JailEntry::kind);
        if path == *to.path() {
            return Err(Error::bad_input(format!("{}: cannot be copied onto itself", name.sent)));
        }
        jail.check_operand(call, &name, &path, Intent::Look)?;
        check_new_operand(jail, call, &to)?;
        check_not_into_itself("copied", &name.sent, &path, to.path())?;
        if kind == FileKind::Dir && !parameters.recursive {
            return Err(Error::bad_input(format!("{}: is a folder; pass recursive=true to copy it", name.sent)));
        }
        check_destination(call, kind, &name, &to, parameters.overwrite)?;
        to.check_parents(parameters.parents)?;
        if let (Some(from), Some(_)) = (&from, entry_run.if_match()) {
            from.check_content(jail, call)?;
        }
        if planning.is_dry() && kind == FileKind::Dir && planning.adds_below(&path) {
            let text = "`bytes` does not count what earlier entries of this dry run would put into the folder";
            call.warnings.push(format!("{}: {text}", entry_run.position.text()));
        }
        let (staged, output) = stage_copy(jail, call, planning, (from, &name, &path), &to, entry_run.if_match())?;
        let lost_attributes = staged.lost_attributes().to_vec();
        let plan = match to.stat() {
            Some(there) => planning.replace(jail, call, &to, staged, there, ContentSource::Copy(&path))?,
            None => planning.place(jail, call, &to, staged, ContentSource::Copy(&path))?,
        };
        Ok(PlannedChange { plan, output, lost_attributes })
    }
}

fn stage_copy(
    jail: &Jail,
    call: &Call,
    planning: &Planning,
    (from, name, path): (Option<JailEntry>, &Located, &JailPath),
    to: &Claim,
    if_match: Option<&str>,
) -> Result<(Staged, CopyOutput)> {
    let Some(from) = from else {
        return Ok((planning.stage_planned_tree(jail, call, to, (name, path))?, CopyOutput::default()));
    };
    match from.kind() {
        FileKind::Dir => {
            let source = from.open_dir(jail, call)?;
            let (staged, copied) = planning.stage_tree(jail, call, to, (name, path), &source)?;
            let jail::CopyTotals { bytes, entries } = copied;
            Ok((staged, CopyOutput { bytes, entries: Some(entries), ..CopyOutput::default() }))
        }
        FileKind::Symlink => {
            jail.check_new_link(call, to.name(), to.path())?;
            to.check_link_copy(jail, name).inspect_err(|error| jail.report_escape(call, name, error))?;
            Ok((planning.stage_link(jail, call, to, &from.link_target()?)?, CopyOutput::default()))
        }
        _ => {
            let file = from.open_content(jail, call)?;
            let (staged, bytes, etag) = stage_content(jail, call, planning, &file, to)?;
            if if_match.is_some_and(|wanted| !versions::is_version(wanted, &file, &etag)) {
                return Err(versions::stale_error(&name.sent, Some(etag)));
            }
            let owner_changed = staged.owner_changed();
            Ok((staged, CopyOutput { bytes, etag: Some(etag), owner_changed, entries: None }))
        }
    }
}
