//! `coder::move`.

use super::{
    Handler,
    changes::{self, ChangeOptions, EntryRun, Operation, PlannedChange, RequestedChange},
    move_copy::{
        PATH_FIELDS, check_destination, check_new_operand, check_not_into_itself, encode_both, locate_both,
        open_replaced, stage_content,
    },
    outcomes, versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Claim, ContentSource, Jail, Planning},
    path::RawPath,
    sys::fs::FileKind,
    wire::{
        Error, Result,
        types::move_copy::{Move, MoveEntry, MoveRequest, MoveResponse, MoveResult},
    },
};

#[derive(Debug, Clone, Copy)]
struct MoveParameters {
    overwrite: bool,
    parents: bool,
    etag: bool,
}

#[derive(Debug, Default)]
struct MoveOutput {
    moved: bool,
    etag: Option<String>,
    owner_changed: bool,
    /// Bytes written if the file was copied instead of renamed, for the audit.
    bytes: Option<u64>,
}

impl outcomes::AuditedChange for MoveOutput {
    /// A move changes no content.
    fn effect(&self, dry_run: bool, matched: Option<String>) -> (bool, Effect) {
        let etag = self.etag.clone().or(matched);
        let etag_after = etag.clone().filter(|_| !dry_run);
        (self.moved, Effect { bytes: self.bytes, etag_before: etag, etag_after, ..Effect::default() })
    }
}

impl Handler for Move {
    fn questions(_: &Jail, _: &MoveRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: MoveRequest) -> Result<MoveResponse> {
        changes::check_entry_count(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let prepare = |call: &mut Call, entry: MoveEntry| {
            let (from, to) = locate_both(jail, call, base_dir.as_ref(), &entry.names, Intent::Write)?;
            let parameters = MoveParameters {
                overwrite: entry.overwrite.unwrap_or(false),
                parents: entry.parents.unwrap_or(true),
                etag: entry.etag.unwrap_or(false),
            };
            let names = vec![(from, Intent::Write), (to, Intent::Create)];
            Ok(RequestedChange { parameters, names, if_match: entry.if_match, dry_run: entry.dry_run })
        };
        let entries = changes::decode_entries(call, "files", request.files, None, &PATH_FIELDS, prepare);
        let options = ChangeOptions { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", options, entries, MoveOperation { jail })?;
        let results = done.into_iter().map(|mut done| {
            let (names, dry_run) = (encode_both(done.name(0), done.name(1)), done.dry_run);
            let (moved, error) = done.outcome.map_or_else(|e| (MoveOutput::default(), Some(e)), |moved| (moved, None));
            let MoveOutput { moved, etag, owner_changed, .. } = moved;
            MoveResult { names, success: error.is_none(), moved, etag, owner_changed, dry_run, error }
        });
        Ok(MoveResponse { results: results.collect() })
    }
}

struct MoveOperation<'a> {
    jail: &'a Jail,
}

impl Operation for MoveOperation<'_> {
    type Parameters = MoveParameters;
    type Output = MoveOutput;

    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<MoveParameters>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<MoveOutput>> {
        let jail = self.jail;
        let sent = entry_run.name(0).sent.clone();
        if entry_run.name(0).path.is_root() {
            return Err(Error::bad_input(format!("{sent}: is an allowed root, which is never moved")));
        }
        let from = entry_run.claim(jail, call, planning, 0)?;
        jail.check_operand(call, from.name(), from.path(), Intent::Write)?;
        let to = entry_run.claim(jail, call, planning, 1)?;
        versions::check_if_match(jail, call, &from, entry_run.if_match())?;
        if from.path() == to.path() {
            return Ok(PlannedChange::unchanged(MoveOutput::default()));
        }
        let stat = *from.stat().ok_or_else(|| Error::not_found(&sent))?;
        check_new_operand(jail, call, &to)?;
        planning.check_same_root(&from, &to)?;
        if !matches!(stat.kind, FileKind::File | FileKind::Dir | FileKind::Symlink) {
            // A rename makes a name, and the worker's Landlock rights do not allow it to make names of these kinds.
            return Err(Error::bad_input(format!("{sent}: FIFOs, sockets and devices stay where they are")));
        }
        if stat.kind == FileKind::Symlink {
            jail.check_new_link(call, to.name(), to.path())?;
        }
        let other_root = from.path().root() != to.path().root();
        if stat.kind == FileKind::Dir && other_root {
            return Err(Error::bad_input(format!(
                "{sent}: a cross-root move of a folder is not possible; copy it with coder::copy, then delete it"
            )));
        }
        check_not_into_itself("moved", &sent, from.path(), to.path())?;
        check_destination(call, stat.kind, from.name(), &to, entry_run.parameters.overwrite)?;
        if stat.kind == FileKind::Dir {
            from.check_tree(jail, call, "moved", Some(&to))?;
        }
        to.check_parents(entry_run.parameters.parents)?;
        // Hashing takes time that grows with the file, so a move hashes only on request.
        let etag = match (stat.kind, entry_run.if_match()) {
            (FileKind::File, Some(matched)) if !versions::is_stat_version(matched) => Some(matched.to_owned()),
            (FileKind::File, _) if entry_run.parameters.etag => Some(versions::etag_of_claim(jail, call, &from)?),
            _ => None,
        };
        call.checkpoint()?;
        if other_root || entry_run.is_cross_filesystem {
            return self.plan_copy(call, &from, &to, planning);
        }
        let plan = planning.rename(jail, call, &from, &to, &stat)?;
        Ok(PlannedChange {
            plan,
            output: MoveOutput { moved: true, etag, ..MoveOutput::default() },
            lost_attributes: Vec::new(),
        })
    }
}

impl MoveOperation<'_> {
    /// Plans a move to another root or file system: a copy, then the delete of the original. If the delete fails, the copy is
    /// undone.
    fn plan_copy(
        &self,
        call: &mut Call,
        from: &Claim,
        to: &Claim,
        planning: &mut Planning,
    ) -> Result<PlannedChange<MoveOutput>> {
        let (jail, sent) = (self.jail, &from.name().sent);
        let stat = *from.stat().ok_or_else(|| Error::not_found(sent))?;
        let mut output = MoveOutput { moved: true, ..MoveOutput::default() };
        let staged = match stat.kind {
            FileKind::Dir => {
                let what = "a folder cannot be moved to another file system; copy it instead";
                return Err(Error::io(sent, what));
            }
            FileKind::Symlink => {
                open_replaced(jail, to)?;
                to.check_link_copy(jail, from.name())?;
                planning.stage_link(jail, call, to, &from.link_target()?)?
            }
            _ => {
                let file = from.open_content(jail)?;
                let (staged, bytes, etag) = stage_content(jail, call, planning, &file, to)?;
                (output.bytes, output.etag) = (Some(bytes), Some(etag));
                staged
            }
        };
        output.owner_changed = staged.owner_changed();
        let lost_attributes = staged.lost_attributes().to_vec();
        let mut plan = match to.stat() {
            Some(there) => planning.replace(jail, call, to, staged, there, ContentSource::Copy(from.path()))?,
            None => planning.place(jail, call, to, staged, ContentSource::Copy(from.path()))?,
        };
        plan.chain(planning.remove(jail, call, from, &stat)?);
        Ok(PlannedChange { plan, output, lost_attributes })
    }
}
