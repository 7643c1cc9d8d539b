//! `coder::mkdir`.

use super::{
    Handler,
    changes::{self, ChangeOptions, EntryRun, Operation, PlannedChange, RequestedChange, required_path},
    modes, outcomes,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Jail, Planning},
    path::RawPath,
    sys::fs::FileKind,
    wire::{
        Code, Error, Result,
        types::mkdir::{Mkdir, MkdirEntry, MkdirRequest, MkdirResponse, MkdirResult},
    },
};

const DEFAULT_MODE: u32 = 0o755;

struct MkdirOperation<'a> {
    jail: &'a Jail,
    parents: bool,
    mode: u32,
}

/// False if the folder was there already.
#[derive(Debug, Clone, Copy, Default)]
struct MkdirOutput(bool);

impl outcomes::AuditedChange for MkdirOutput {
    fn effect(&self, _: bool, _: Option<String>) -> (bool, Effect) {
        (self.0, Effect::default())
    }
}

impl Handler for Mkdir {
    fn questions(_: &Jail, _: &MkdirRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: MkdirRequest) -> Result<MkdirResponse> {
        changes::check_entry_count(call, "paths", request.paths.len())?;
        let mode = request.mode.as_deref().map(|text| modes::parse("mode", text)).transpose()?;
        let make =
            MkdirOperation { jail, parents: request.parents.unwrap_or(true), mode: mode.unwrap_or(DEFAULT_MODE) };
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let prepare = |call: &mut Call, entry: MkdirEntry| {
            let name = required_path("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
            let located = jail.locate(call, &name, base_dir.as_ref())?;
            let names = vec![(located, Intent::Create)];
            Ok(RequestedChange { parameters: (), names, if_match: None, dry_run: entry.dry_run })
        };
        let of_path = |path| MkdirEntry { path: Some(path), ..MkdirEntry::default() };
        let names = [("path", "path_bytes")];
        let entries = changes::decode_entries(call, "paths", request.paths, Some(of_path), &names, prepare);
        let options = ChangeOptions { atomic: request.atomic, dry_run: request.dry_run };
        let done = changes::run(jail, call, "paths", options, entries, make)?;
        let results = done.into_iter().map(|mut done| {
            let ((path, path_bytes), dry_run) = (done.name(0), done.dry_run);
            let (created, error) = done.outcome.map_or_else(|e| (false, Some(e)), |made| (made.0, None));
            MkdirResult { path, path_bytes, success: error.is_none(), created, dry_run, error }
        });
        Ok(MkdirResponse { results: results.collect() })
    }
}

impl Operation for MkdirOperation<'_> {
    type Parameters = ();
    type Output = MkdirOutput;

    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<()>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<MkdirOutput>> {
        let claim = entry_run.claim(self.jail, call, planning, 0)?;
        match claim.kind() {
            None => {}
            Some(FileKind::Dir) => return Ok(PlannedChange::unchanged(MkdirOutput(false))),
            Some(FileKind::Symlink) => {
                claim.check_content(self.jail)?;
                return Err(exists_error(&claim.name().sent));
            }
            Some(_) => return Err(exists_error(&claim.name().sent)),
        }
        claim.check_parents(self.parents)?;
        let plan = planning.make_dir(self.jail, call, &claim, self.mode)?;
        Ok(PlannedChange { plan, output: MkdirOutput(true), lost_attributes: Vec::new() })
    }
}

fn exists_error(sent: &str) -> Error {
    Error::new(Code::Exists, format!("{sent} already exists and is no folder; delete or move it first"))
}
