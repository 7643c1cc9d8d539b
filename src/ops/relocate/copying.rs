//! `coder::copy`.

use super::{NAMES, check_destination, check_new_name, check_not_into_itself, locate, replaced, shown};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{self, Call, Claim, Commit, Entry, Jail, Like, Located, Source, Staged, Want, check_size},
    ops::{
        Handler,
        changes::{self, How, Plan, Turn},
        outcomes, versions,
    },
    path::{JailPath, RawPath},
    sys::fs::Kind,
    text::Etag,
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
        let plan = |call: &mut Call, entry: CopyEntry| {
            let (from, to) = locate(jail, call, base_dir.as_ref(), &entry.names, Intent::Look)?;
            let what = Wanted {
                overwrite: entry.overwrite.unwrap_or(false),
                parents: entry.parents.unwrap_or(true),
                recursive: entry.recursive.unwrap_or(false),
            };
            let names = vec![(from, Intent::Look), (to, Intent::Create)];
            Ok(Plan { what, names, if_match: entry.if_match, dry_run: entry.dry_run })
        };
        let wishes = changes::wishes(call, "files", request.files, None, &NAMES, plan);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", how, wishes, |call, turn, commit| {
            copy(jail, call, turn, commit)
        })?;
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

fn copy(jail: &Jail, call: &mut Call, turn: &mut Turn<Wanted>, commit: &mut Commit<'_>) -> Result<Copied> {
    let from = turn.open(jail, call, commit, 0)?;
    let to = turn.claim(jail, call, commit, 1)?;
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
        return Err(Error::bad_input(format!("{}: is a folder; pass recursive=true to copy it", name.sent)));
    }
    check_destination(call, kind, &name, &to, wanted.overwrite)?;
    to.check_parents(wanted.parents)?;
    if let (Some(from), Some(_)) = (&from, turn.if_match()) {
        from.check_content(jail, call)?;
    }
    if commit.is_dry() && kind == Kind::Dir && commit.adds_below(&path) {
        let text = "`bytes` does not count what earlier entries of this dry run would put into the folder";
        call.warnings.push(format!("{}: {text}", turn.place.text()));
    }
    let (staged, copied) = stage(jail, call, commit, (from, &name, &path), &to, turn.if_match())?;
    let lost = staged.lost_attributes().to_vec();
    match to.stat() {
        Some(there) => commit.replace(jail, call, &to, staged, there, Source::Copy(&path))?,
        None => commit.place(jail, call, &to, staged, Source::Copy(&path))?,
    }
    changes::warn_of_lost(call, turn.place, &lost);
    Ok(copied)
}

fn stage(
    jail: &Jail,
    call: &Call,
    commit: &Commit<'_>,
    (from, name, path): (Option<Entry>, &Located, &JailPath),
    to: &Claim,
    if_match: Option<&str>,
) -> Result<(Staged, Copied)> {
    let Some(from) = from else {
        return Ok((commit.stage_planned_tree(jail, call, to, (name, path))?, Copied::default()));
    };
    match from.kind() {
        Kind::Dir => {
            let source = from.open_dir(jail, call)?;
            let (staged, copied) = commit.stage_tree(jail, call, to, (name, path), &source)?;
            let jail::Copied { bytes, entries } = copied;
            Ok((staged, Copied { bytes, entries: Some(entries), ..Copied::default() }))
        }
        Kind::Symlink => {
            jail.check_new_link(call, to.name(), to.path())?;
            to.check_link_copy(jail, name).inspect_err(|error| jail.report_escape(call, name, error))?;
            Ok((commit.stage_link(jail, call, to, &from.link_target()?)?, Copied::default()))
        }
        _ => {
            let file = from.open_content(jail, call)?;
            check_size(call, &name.sent, file.stat())?;
            let old = replaced(jail, to)?;
            let like = Like { mode: file.stat().mode, old: old.as_ref() };
            let (mut etag, mut bytes) = (Etag::default(), 0);
            let staged = commit.stage_with(jail, call, to, like, |fill| {
                let copied = file.read_chunks(call, 0, u64::MAX, |chunk| {
                    etag.push(chunk);
                    bytes += chunk.len() as u64;
                    fill.write(chunk).map(|()| Want::More)
                });
                copied.map(drop)
            })?;
            let etag = etag.finish();
            if if_match.is_some_and(|wanted| wanted != etag) {
                return Err(versions::stale(&name.sent, Some(etag)));
            }
            let owner_changed = staged.owner_changed();
            Ok((staged, Copied { bytes, etag: Some(etag), owner_changed, entries: None }))
        }
    }
}
