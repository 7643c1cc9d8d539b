//! `coder::move`.

use super::{
    Handler,
    changes::{self, How, Intended, Operation, Planned, Turn},
    outcomes,
    two_names::{
        NAMES, check_destination, check_new_name, check_not_into_itself, locate, replaced, shown,
        stage_content,
    },
    versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Claim, Jail, Planning, Source},
    path::RawPath,
    sys::fs::Kind,
    wire::{
        Error, Result,
        types::relocate::{Move, MoveEntry, MoveRequest, MoveResponse, MoveResult},
    },
};

#[derive(Debug, Clone, Copy)]
struct Wanted {
    overwrite: bool,
    parents: bool,
    etag: bool,
}

#[derive(Debug, Default)]
struct Moved {
    moved: bool,
    etag: Option<String>,
    owner_changed: bool,
    /// Bytes written if the file was copied instead of renamed, for the audit.
    bytes: Option<u64>,
}

impl outcomes::Done for Moved {
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
        changes::check_len(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let intend = |call: &mut Call, entry: MoveEntry| {
            let (from, to) = locate(jail, call, base_dir.as_ref(), &entry.names, Intent::Write)?;
            let what = Wanted {
                overwrite: entry.overwrite.unwrap_or(false),
                parents: entry.parents.unwrap_or(true),
                etag: entry.etag.unwrap_or(false),
            };
            let names = vec![(from, Intent::Write), (to, Intent::Create)];
            Ok(Intended { what, names, if_match: entry.if_match, dry_run: entry.dry_run })
        };
        let entries = changes::decode_entries(call, "files", request.files, None, &NAMES, intend);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", how, entries, Moving { jail })?;
        let results = done.into_iter().map(|mut done| {
            let (names, dry_run) = (shown(done.name(0), done.name(1)), done.dry_run);
            let (moved, error) =
                done.outcome.map_or_else(|e| (Moved::default(), Some(e)), |moved| (moved, None));
            let Moved { moved, etag, owner_changed, .. } = moved;
            MoveResult { names, success: error.is_none(), moved, etag, owner_changed, dry_run, error }
        });
        Ok(MoveResponse { results: results.collect() })
    }
}

struct Moving<'a> {
    jail: &'a Jail,
}

impl Operation for Moving<'_> {
    type Wanted = Wanted;
    type Reply = Moved;

    fn plan(
        &mut self,
        call: &mut Call,
        turn: &mut Turn<Wanted>,
        planning: &mut Planning,
    ) -> Result<Planned<Moved>> {
        let jail = self.jail;
        let sent = turn.name(0).sent.clone();
        if turn.name(0).path.is_root() {
            return Err(Error::bad_input(format!("{sent}: is an allowed root, which is never moved")));
        }
        let from = turn.claim(jail, call, planning, 0)?;
        jail.check_operand(call, from.name(), from.path(), Intent::Write)?;
        let to = turn.claim(jail, call, planning, 1)?;
        versions::check(jail, call, &from, turn.if_match())?;
        if from.path() == to.path() {
            return Ok(Planned::nothing(Moved::default()));
        }
        let stat = *from.stat().ok_or_else(|| Error::not_found(&sent))?;
        check_new_name(jail, call, &to)?;
        planning.check_same_root(&from, &to)?;
        if !matches!(stat.kind, Kind::File | Kind::Dir | Kind::Symlink) {
            // A rename makes a name, and the worker's Landlock rights do not allow it to make names of these kinds.
            return Err(Error::bad_input(format!("{sent}: FIFOs, sockets and devices stay where they are")));
        }
        if stat.kind == Kind::Symlink {
            jail.check_new_link(call, to.name(), to.path())?;
        }
        let other_root = from.path().root() != to.path().root();
        if stat.kind == Kind::Dir && other_root {
            return Err(Error::bad_input(format!(
                "{sent}: a cross-root move of a folder is not possible; copy it with coder::copy, then delete it"
            )));
        }
        check_not_into_itself("moved", &sent, from.path(), to.path())?;
        check_destination(call, stat.kind, from.name(), &to, turn.what.overwrite)?;
        if stat.kind == Kind::Dir {
            from.check_tree(jail, call, "moved", Some(&to))?;
        }
        to.check_parents(turn.what.parents)?;
        // Hashing takes time that grows with the file, so a move hashes only on request.
        let etag = match (stat.kind, turn.if_match()) {
            (Kind::File, Some(matched)) => Some(matched.to_owned()),
            (Kind::File, None) if turn.what.etag => Some(versions::etag_of_claim(jail, call, &from)?),
            _ => None,
        };
        call.checkpoint()?;
        if other_root || turn.is_across {
            return self.plan_copy(call, &from, &to, planning);
        }
        let plan = planning.rename(jail, call, &from, &to, &stat)?;
        Ok(Planned { plan, reply: Moved { moved: true, etag, ..Moved::default() }, lost: Vec::new() })
    }
}

impl Moving<'_> {
    /// Plans a move to another root or file system: a copy, then the delete of the original. If the delete fails, the copy is
    /// undone.
    fn plan_copy(
        &self,
        call: &mut Call,
        from: &Claim,
        to: &Claim,
        planning: &mut Planning,
    ) -> Result<Planned<Moved>> {
        let (jail, sent) = (self.jail, &from.name().sent);
        let stat = *from.stat().ok_or_else(|| Error::not_found(sent))?;
        let mut reply = Moved { moved: true, ..Moved::default() };
        let staged = match stat.kind {
            Kind::Dir => {
                let what = "a folder cannot be moved to another file system; copy it instead";
                return Err(Error::io(sent, what));
            }
            Kind::Symlink => {
                replaced(jail, to)?;
                to.check_link_copy(jail, from.name())?;
                planning.stage_link(jail, call, to, &from.link_target()?)?
            }
            _ => {
                let file = from.open_content(jail)?;
                let (staged, bytes, etag) = stage_content(jail, call, planning, &file, to)?;
                (reply.bytes, reply.etag) = (Some(bytes), Some(etag));
                staged
            }
        };
        reply.owner_changed = staged.owner_changed();
        let lost = staged.lost_attributes().to_vec();
        let mut plan = match to.stat() {
            Some(there) => planning.replace(jail, call, to, staged, there, Source::Copy(from.path()))?,
            None => planning.place(jail, call, to, staged, Source::Copy(from.path()))?,
        };
        plan.then(planning.remove(jail, call, from, &stat)?);
        Ok(Planned { plan, reply, lost })
    }
}
