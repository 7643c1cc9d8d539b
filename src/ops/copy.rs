//! `coder::copy`.

use super::{
    Handler,
    changes::{self, How, Intended, Operation, Planned, Turn},
    outcomes,
    two_names::{
        NAMES, check_destination, check_new_name, check_not_into_itself, locate, shown, stage_content,
    },
    versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{self, Call, Claim, Entry, Jail, Located, Planning, Source, Staged},
    path::{JailPath, RawPath},
    sys::fs::Kind,
    wire::{
        Error, Result,
        types::relocate::{Copy, CopyEntry, CopyRequest, CopyResponse, CopyResult},
    },
};

#[derive(Debug, Clone, Copy)]
struct Wanted {
    overwrite: bool,
    parents: bool,
    recursive: bool,
}

#[derive(Debug, Default)]
struct Copied {
    bytes: u64,
    etag: Option<String>,
    owner_changed: bool,
    /// Number of entries of a copied folder, for the audit.
    entries: Option<u64>,
}

impl outcomes::Done for Copied {
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
        changes::check_len(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let intend = |call: &mut Call, entry: CopyEntry| {
            let (from, to) = locate(jail, call, base_dir.as_ref(), &entry.names, Intent::Look)?;
            let what = Wanted {
                overwrite: entry.overwrite.unwrap_or(false),
                parents: entry.parents.unwrap_or(true),
                recursive: entry.recursive.unwrap_or(false),
            };
            let names = vec![(from, Intent::Look), (to, Intent::Create)];
            Ok(Intended { what, names, if_match: entry.if_match, dry_run: entry.dry_run })
        };
        let entries = changes::decode_entries(call, "files", request.files, None, &NAMES, intend);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", how, entries, Copying { jail })?;
        let results = done.into_iter().map(|mut done| {
            let (names, dry_run) = (shown(done.name(0), done.name(1)), done.dry_run);
            let (copied, error) =
                done.outcome.map_or_else(|e| (Copied::default(), Some(e)), |copied| (copied, None));
            let (success, Copied { bytes, etag, owner_changed, .. }) = (error.is_none(), copied);
            CopyResult { names, success, copied: success, bytes, etag, owner_changed, dry_run, error }
        });
        Ok(CopyResponse { results: results.collect() })
    }
}

struct Copying<'a> {
    jail: &'a Jail,
}

impl Operation for Copying<'_> {
    type Wanted = Wanted;
    type Reply = Copied;

    fn plan(
        &mut self,
        call: &mut Call,
        turn: &mut Turn<Wanted>,
        planning: &mut Planning,
    ) -> Result<Planned<Copied>> {
        let jail = self.jail;
        let from = turn.open(jail, call, planning, 0)?;
        let to = turn.claim(jail, call, planning, 1)?;
        let (wanted, name) = (turn.what, turn.name(0).clone());
        let path = from.as_ref().map_or(&name.path, Entry::path).clone();
        let kind = from.as_ref().map_or(Kind::Dir, Entry::kind);
        if path == *to.path() {
            return Err(Error::bad_input(format!("{}: cannot be copied onto itself", name.sent)));
        }
        jail.check_operand(call, &name, &path, Intent::Look)?;
        check_new_name(jail, call, &to)?;
        check_not_into_itself("copied", &name.sent, &path, to.path())?;
        if kind == Kind::Dir && !wanted.recursive {
            return Err(Error::bad_input(format!(
                "{}: is a folder; pass recursive=true to copy it",
                name.sent
            )));
        }
        check_destination(call, kind, &name, &to, wanted.overwrite)?;
        to.check_parents(wanted.parents)?;
        if let (Some(from), Some(_)) = (&from, turn.if_match()) {
            from.check_content(jail, call)?;
        }
        if planning.is_dry() && kind == Kind::Dir && planning.adds_below(&path) {
            let text =
                "`bytes` does not count what earlier entries of this dry run would put into the folder";
            call.warnings.push(format!("{}: {text}", turn.place.text()));
        }
        let (staged, reply) = stage(jail, call, planning, (from, &name, &path), &to, turn.if_match())?;
        let lost = staged.lost_attributes().to_vec();
        let plan = match to.stat() {
            Some(there) => planning.replace(jail, call, &to, staged, there, Source::Copy(&path))?,
            None => planning.place(jail, call, &to, staged, Source::Copy(&path))?,
        };
        Ok(Planned { plan, reply, lost })
    }
}

fn stage(
    jail: &Jail,
    call: &Call,
    planning: &Planning,
    (from, name, path): (Option<Entry>, &Located, &JailPath),
    to: &Claim,
    if_match: Option<&str>,
) -> Result<(Staged, Copied)> {
    let Some(from) = from else {
        return Ok((planning.stage_planned_tree(jail, call, to, (name, path))?, Copied::default()));
    };
    match from.kind() {
        Kind::Dir => {
            let source = from.open_dir(jail, call)?;
            let (staged, copied) = planning.stage_tree(jail, call, to, (name, path), &source)?;
            let jail::Copied { bytes, entries } = copied;
            Ok((staged, Copied { bytes, entries: Some(entries), ..Copied::default() }))
        }
        Kind::Symlink => {
            jail.check_new_link(call, to.name(), to.path())?;
            to.check_link_copy(jail, name).inspect_err(|error| jail.report_escape(call, name, error))?;
            Ok((planning.stage_link(jail, call, to, &from.link_target()?)?, Copied::default()))
        }
        _ => {
            let file = from.open_content(jail, call)?;
            let (staged, bytes, etag) = stage_content(jail, call, planning, &file, to)?;
            if if_match.is_some_and(|wanted| wanted != etag) {
                return Err(versions::stale(&name.sent, Some(etag)));
            }
            let owner_changed = staged.owner_changed();
            Ok((staged, Copied { bytes, etag: Some(etag), owner_changed, entries: None }))
        }
    }
}
