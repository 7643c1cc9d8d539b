//! `coder::move`.

use super::{NAMES, check_destination, check_new_name, check_not_into_itself, locate, replaced, shown};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Claim, Commit, File, Jail, Like, Renamed, Source, Want, check_size},
    ops::{
        Handler,
        changes::{self, How, Plan, Turn},
        outcomes, versions,
    },
    path::RawPath,
    sys::fs::{Kind, Stat},
    text::Etag,
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
        let plan = |call: &mut Call, entry: MoveEntry| {
            let (from, to) = locate(jail, call, base_dir.as_ref(), &entry.names, Intent::Write)?;
            let what = Wanted {
                overwrite: entry.overwrite.unwrap_or(false),
                parents: entry.parents.unwrap_or(true),
                etag: entry.etag.unwrap_or(false),
            };
            let names = vec![(from, Intent::Write), (to, Intent::Create)];
            Ok(Plan { what, names, if_match: entry.if_match, dry_run: entry.dry_run })
        };
        let wishes = changes::wishes(call, "files", request.files, None, &NAMES, plan);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "files", how, wishes, |call, turn, commit| {
            relocate(jail, call, turn, commit)
        })?;
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

fn relocate(jail: &Jail, call: &mut Call, turn: &mut Turn<Wanted>, commit: &mut Commit<'_>) -> Result<Moved> {
    let sent = turn.name(0).sent.clone();
    if turn.name(0).path.is_root() {
        return Err(Error::bad_input(format!("{sent}: is an allowed root, which is never moved")));
    }
    let from = turn.claim(jail, call, commit, 0)?;
    jail.check_operand(call, from.name(), from.path(), Intent::Write)?;
    let to = turn.claim(jail, call, commit, 1)?;
    versions::check(jail, call, &from, turn.if_match())?;
    if from.path() == to.path() {
        return Ok(Moved::default());
    }
    let stat = *from.stat().ok_or_else(|| Error::not_found(&sent))?;
    check_new_name(jail, call, &to)?;
    commit.check_same_root(&from, &to)?;
    if !matches!(stat.kind, Kind::File | Kind::Dir | Kind::Symlink) {
        // Landlock lets nobody make such a name, and a rename makes one.
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
    if !other_root && commit.rename(jail, call, &from, &to, &stat)? == Renamed::Done {
        return Ok(Moved { moved: true, etag, ..Moved::default() });
    }
    transfer(jail, call, turn, commit, &from, &to)
}

/// To another root or file system: a copy, and then the original goes.
fn transfer(
    jail: &Jail,
    call: &mut Call,
    turn: &Turn<Wanted>,
    commit: &mut Commit<'_>,
    from: &Claim,
    to: &Claim,
) -> Result<Moved> {
    let sent = &from.name().sent;
    let stat = *from.stat().ok_or_else(|| Error::not_found(sent))?;
    let replaced_file = replaced(jail, to)?;
    let (mut etag, mut bytes) = (None, None);
    let staged = match stat.kind {
        Kind::Dir => {
            let what = "a folder cannot be moved to another file system; copy it instead";
            return Err(Error::io(sent, what));
        }
        Kind::Symlink => {
            to.check_link_copy(jail, from.name())?;
            commit.stage_link(jail, call, to, &from.link_target()?)?
        }
        _ => {
            let file = from.open_content(jail)?;
            check_size(call, sent, file.stat())?;
            let like = Like { mode: file.stat().mode, old: replaced_file.as_ref() };
            let hash = etag.insert(Etag::default());
            let written = bytes.insert(0);
            commit.stage_with(jail, call, to, like, |fill| {
                let copied = file.read_chunks(call, 0, u64::MAX, |chunk| {
                    hash.push(chunk);
                    *written += chunk.len() as u64;
                    fill.write(chunk).map(|()| Want::More)
                });
                copied.map(drop)
            })?
        }
    };
    let (owner_changed, lost) = (staged.owner_changed(), staged.lost_attributes().to_vec());
    let copy = staged.stat_now();
    match to.stat() {
        Some(there) => commit.replace(jail, call, to, staged, there, Source::Copy(from.path()))?,
        None => commit.place(jail, call, to, staged, Source::Copy(from.path()))?,
    }
    if let Err(error) = commit.remove(jail, call, from, &stat) {
        return Err(match commit {
            Commit::Now => take_back(jail, call, to, &copy, replaced_file, error),
            // Nothing is on disk yet.
            Commit::Together(..) | Commit::Dry(_) => error,
        });
    }
    changes::warn_of_lost(call, turn.place, &lost);
    Ok(Moved { moved: true, etag: etag.map(|etag| etag.finish()), owner_changed, bytes })
}

/// The original could not be removed, so its copy must not stay: the file that it replaced comes back, if there was one.
/// Touches nothing but that copy.
fn take_back(
    jail: &Jail,
    call: &mut Call,
    to: &Claim,
    copy: &Stat,
    replaced: Option<File>,
    error: Error,
) -> Error {
    let undone = jail.claim(call, to.name(), Intent::Write).and_then(|there| {
        let Some(stat) = there.stat().copied().filter(|stat| stat.is_same_file(copy)) else { return Ok(()) };
        match (&replaced, to.stat()) {
            (Some(old), _) => {
                let like = Like { mode: old.stat().mode, old: Some(old) };
                let restored = there.stage_with(jail, call, like, |fill| {
                    old.read_chunks(call, 0, u64::MAX, |chunk| fill.write(chunk).map(|()| Want::More))
                        .map(drop)
                })?;
                there.replace(jail, call, restored, &stat).map(drop)
            }
            (None, Some(_)) => {
                let restored = there.stage_link(jail, call, &to.link_target()?)?;
                there.replace(jail, call, restored, &stat).map(drop)
            }
            (None, None) => there.remove(jail, call, &stat),
        }
    });
    match undone {
        Ok(()) => error,
        Err(_) => Error::io(
            &error.message,
            format!("and {} could not be put back either; the file is at both names now", to.name().sent),
        ),
    }
}
