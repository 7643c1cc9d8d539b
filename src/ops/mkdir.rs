//! `coder::mkdir`.

use super::{
    Handler,
    changes::{self, How, Plan, Turn, required},
    modes, outcomes,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Commit, Jail},
    path::RawPath,
    sys::fs::Kind,
    wire::{
        Code, Error, Result,
        types::mkdir::{Mkdir, MkdirEntry, MkdirRequest, MkdirResponse, MkdirResult},
    },
};

const MODE: u32 = 0o755;

#[derive(Debug, Clone, Copy)]
struct Wanted {
    parents: bool,
    mode: u32,
}

/// False if the folder was there already.
#[derive(Debug, Clone, Copy, Default)]
struct Made(bool);

impl outcomes::Done for Made {
    fn effect(&self, _: bool, _: Option<String>) -> (bool, Effect) {
        (self.0, Effect::default())
    }
}

impl Handler for Mkdir {
    fn questions(_: &Jail, _: &MkdirRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: MkdirRequest) -> Result<MkdirResponse> {
        changes::check_len(call, "paths", request.paths.len())?;
        let mode = request.mode.as_deref().map(|text| modes::parse("mode", text)).transpose()?;
        let wanted = Wanted { parents: request.parents.unwrap_or(true), mode: mode.unwrap_or(MODE) };
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let plan = |call: &mut Call, entry: MkdirEntry| {
            let name = required("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
            let located = jail.locate(call, &name, base_dir.as_ref())?;
            let names = vec![(located, Intent::Create)];
            Ok(Plan { what: wanted, names, if_match: None, dry_run: entry.dry_run })
        };
        let of_path = |path| MkdirEntry { path: Some(path), ..MkdirEntry::default() };
        let names = [("path", "path_bytes")];
        let wishes = changes::wishes(call, "paths", request.paths, Some(of_path), &names, plan);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "paths", how, wishes, |call, turn, commit| {
            make(jail, call, turn, commit)
        })?;
        let results = done.into_iter().map(|mut done| {
            let ((path, path_bytes), dry_run) = (done.name(0), done.dry_run);
            let (created, error) = done.outcome.map_or_else(|e| (false, Some(e)), |made| (made.0, None));
            MkdirResult { path, path_bytes, success: error.is_none(), created, dry_run, error }
        });
        Ok(MkdirResponse { results: results.collect() })
    }
}

fn make(jail: &Jail, call: &mut Call, turn: &mut Turn<Wanted>, commit: &mut Commit<'_>) -> Result<Made> {
    let claim = turn.claim(jail, call, commit, 0)?;
    match claim.kind() {
        None => {}
        Some(Kind::Dir) => return Ok(Made(false)),
        Some(Kind::Symlink) => {
            claim.check_content(jail)?;
            return Err(taken(&claim.name().sent));
        }
        Some(_) => return Err(taken(&claim.name().sent)),
    }
    claim.check_parents(turn.what.parents)?;
    commit.make_dir(jail, call, &claim, turn.what.mode)?;
    Ok(Made(true))
}

fn taken(sent: &str) -> Error {
    Error::new(Code::C217, format!("{sent} already exists and is no folder; delete or move it first"))
}
