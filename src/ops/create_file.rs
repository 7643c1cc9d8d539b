//! `coder::create-file`.

use std::time::Instant;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    Handler,
    changes::{self, ChangeOptions, EntryRun, Operation, PlannedChange, RequestedChange, required_path},
    modes, outcomes,
    pasted::{self, Pasted},
    versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Claim, ContentSource, FileProperties, Jail, JailFile, Located, Planning, ReadIntoError},
    path::{RawPath, Symlinks},
    sys::fs::FileKind,
    text::diff::{self, DIFF_TIME, Diff},
    wire::{
        Code, Error, Result,
        types::{
            create_file::{CreateEntry, CreateFile, CreateFileRequest, CreateFileResponse, CreateResult},
            read_file::Encoding,
        },
    },
};

const DEFAULT_MODE: u32 = 0o644;

/// An entry, checked as far as possible without the disk.
struct CreateParameters {
    content: Vec<u8>,
    mode: Option<u32>,
    parents: bool,
    overwrite: bool,
    /// Without the position of the entry.
    warning: Option<String>,
}

#[derive(Default)]
struct CreateOutput {
    bytes: u64,
    etag: Option<String>,
    owner_changed: bool,
    diff: Option<Diff>,
}

impl outcomes::AuditedChange for CreateOutput {
    fn effect(&self, dry_run: bool, matched: Option<String>) -> (bool, Effect) {
        let mut effect = Effect { bytes: Some(self.bytes), etag_before: matched, ..Effect::default() };
        // A dry run shows the version that is there.
        let etag = if dry_run { &mut effect.etag_before } else { &mut effect.etag_after };
        etag.clone_from(&self.etag);
        (true, effect)
    }
}

impl Handler for CreateFile {
    fn questions(_: &Jail, _: &CreateFileRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: CreateFileRequest) -> Result<CreateFileResponse> {
        changes::check_entry_count(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let strict = request.strict == Some(true);
        let prepare = |call: &mut Call, entry: CreateEntry| prepare_entry(jail, call, base_dir.as_ref(), strict, entry);
        let names = [("path", "path_bytes")];
        let entries = changes::decode_entries(call, "files", request.files, None, &names, prepare);
        let options = ChangeOptions { atomic: request.atomic, dry_run: request.dry_run };
        let create = CreateOperation { jail, diff_budget: DiffBudget::new(call) };
        let done = changes::run(jail, call, "files", options, entries, create)?;
        let results = done.into_iter().map(|mut done| {
            let (path, path_bytes) = done.name(0);
            let dry_run = done.dry_run;
            let (created, error) =
                done.outcome.map_or_else(|e| (CreateOutput::default(), Some(e)), |created| (created, None));
            CreateResult {
                path,
                path_bytes,
                success: error.is_none(),
                bytes_written: created.bytes,
                etag: created.etag,
                owner_changed: created.owner_changed,
                diff_truncated: created.diff.as_ref().is_some_and(|diff| diff.truncated),
                diff: created.diff.map(|diff| diff.text),
                dry_run,
                error,
            }
        });
        Ok(CreateFileResponse { results: results.collect() })
    }
}

fn prepare_entry(
    jail: &Jail,
    call: &Call,
    base_dir: Option<&RawPath>,
    strict: bool,
    mut entry: CreateEntry,
) -> Result<RequestedChange<CreateParameters>> {
    let name = required_path("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
    let mode = entry.mode.as_deref().map(|text| modes::parse("mode", text)).transpose()?;
    let overwrite = entry.overwrite.unwrap_or(false);
    match (entry.if_none_match.as_deref(), &entry.if_match) {
        (None, _) => {}
        (Some("*"), None) if !overwrite => {}
        (Some("*"), _) => {
            return Err(Error::bad_input(
                "if_none_match: \"*\" means that nothing is there; not together with overwrite or if_match",
            ));
        }
        (Some(_), _) => return Err(Error::bad_input("if_none_match: only \"*\" is possible")),
    }
    let rule = Pasted::new(strict, entry.verbatim, entry.strip_read_prefixes)?;
    let is_text = entry.encoding.unwrap_or_default() == Encoding::Utf8;
    let pasted = if is_text { rule.apply("content", &mut entry.content) } else { Ok(None) };
    let content = match entry.encoding.unwrap_or_default() {
        Encoding::Utf8 => entry.content.into_bytes(),
        Encoding::Base64 => STANDARD.decode(&entry.content).map_err(|_| {
            Error::bad_input("content: not base64; expected standard base64 with padding, for example \"YWJj\"")
        })?,
    };
    let located = jail.locate(call, &name, base_dir)?;
    check_names_file(&located)?;
    let warning = pasted.map_err(|error| pasted::with_path(&located.sent, error))?;
    let parents = entry.parents.unwrap_or(true);
    let parameters = CreateParameters { content, mode, parents, overwrite, warning };
    let names = vec![(located, Intent::Create)];
    Ok(RequestedChange { parameters, names, if_match: entry.if_match, dry_run: entry.dry_run })
}

struct CreateOperation<'a> {
    jail: &'a Jail,
    diff_budget: DiffBudget,
}

impl Operation for CreateOperation<'_> {
    type Parameters = CreateParameters;
    type Output = CreateOutput;

    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<CreateParameters>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<CreateOutput>> {
        let jail = self.jail;
        let claim = entry_run.claim(jail, call, planning, 0)?;
        check_content_size(call, &claim.name().sent, entry_run.parameters.content.len())?;
        if let Some(warning) = &entry_run.parameters.warning {
            call.warnings.push(format!("{}.{warning}", entry_run.position.text()));
        }
        let claim = match claim.kind() {
            Some(FileKind::Symlink) => claim_link_target(jail, call, claim, entry_run.parameters.overwrite)?,
            _ => claim,
        };
        versions::check_if_match(jail, call, &claim, entry_run.if_match())?;
        let parameters = &entry_run.parameters;
        match claim.stat() {
            None => self.plan_new(call, &claim, parameters, planning),
            Some(_) if !parameters.overwrite => Err(exists_error(&claim.name().sent)),
            Some(stat) if stat.kind == FileKind::Dir => {
                Err(Error::io(&claim.name().sent, "is a folder, which no file replaces"))
            }
            Some(_) => {
                let is_versioned = entry_run.if_match().is_some();
                self.plan_replace(call, &claim, parameters, is_versioned, planning)
            }
        }
    }
}

impl CreateOperation<'_> {
    fn plan_new(
        &self,
        call: &Call,
        claim: &Claim,
        parameters: &CreateParameters,
        planning: &mut Planning,
    ) -> Result<PlannedChange<CreateOutput>> {
        claim.check_parents(parameters.parents)?;
        let like = FileProperties { mode: parameters.mode.unwrap_or(DEFAULT_MODE), replaced: None };
        let staged = planning.stage(self.jail, call, claim, like, &parameters.content)?;
        let mut plan = planning.place(self.jail, call, claim, staged, ContentSource::Bytes(&parameters.content))?;
        if parameters.overwrite {
            plan.set_may_replace();
        }
        // A dry run leaves the version that is there: none.
        let etag = (!planning.is_dry()).then(|| versions::etag_of_bytes(&parameters.content));
        let output = CreateOutput { bytes: parameters.content.len() as u64, etag, ..CreateOutput::default() };
        Ok(PlannedChange { plan, output, lost_attributes: Vec::new() })
    }

    fn plan_replace(
        &mut self,
        call: &Call,
        claim: &Claim,
        parameters: &CreateParameters,
        is_versioned: bool,
        planning: &mut Planning,
    ) -> Result<PlannedChange<CreateOutput>> {
        let (jail, content) = (self.jail, &parameters.content);
        // If only an earlier entry of this batch creates the file, there is nothing to open: a dry run continues without it,
        // an atomic batch refuses.
        let old = if claim.is_only_foreseen() { None } else { Some(claim.open_content(jail)?) };
        let read = old.as_ref().map(JailFile::stat).or(claim.stat()).copied();
        let read = read.ok_or_else(|| Error::not_found(&claim.name().sent))?;
        // The version was checked for the claim. A write since then must not be lost.
        if is_versioned && claim.stat().is_some_and(|claimed| !claimed.is_unchanged(&read)) {
            return Err(Error::busy(&claim.name().sent));
        }
        let like = FileProperties { mode: parameters.mode.unwrap_or(read.mode), replaced: old.as_ref() };
        let staged = planning.stage(jail, call, claim, like, content)?;
        let (owner_changed, lost_attributes) = (staged.owner_changed(), staged.lost_attributes().to_vec());
        let plan = planning.replace(jail, call, claim, staged, &read, ContentSource::Bytes(content))?;
        let mut output = CreateOutput { bytes: content.len() as u64, owner_changed, ..CreateOutput::default() };
        (output.etag, output.diff) = match &old {
            _ if !planning.is_dry() => (Some(versions::etag_of_bytes(content)), None),
            Some(old) => {
                (Some(versions::read_etag(call, old)?), self.diff_budget.diff_file(claim, call, old, content)?)
            }
            None => {
                let before = claim.foreseen_content();
                let diff = before.and_then(|before| self.diff_budget.diff_texts(claim, call, before, content));
                (before.map(versions::etag_of_bytes), diff)
            }
        };
        Ok(PlannedChange { plan, output, lost_attributes })
    }
}

/// The diffs of one dry call, which share a budget.
struct DiffBudget {
    left_bytes: usize,
}

impl DiffBudget {
    fn new(call: &Call) -> Self {
        Self { left_bytes: usize::try_from(call.limits.batch_read_budget_bytes).unwrap_or(usize::MAX) }
    }

    /// None unless both are text, and for a file above `max_write_bytes`.
    fn diff_file(&mut self, claim: &Claim, call: &Call, old: &JailFile, new: &[u8]) -> Result<Option<Diff>> {
        if old.stat().size_bytes > call.limits.max_write_bytes {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        match old.read_into(call, call.limits.max_write_bytes, &mut bytes) {
            Ok(_) => Ok(self.diff_texts(claim, call, &bytes, new)),
            Err(ReadIntoError::OutOfMemory) => Ok(None),
            Err(ReadIntoError::Read(error)) => Err(error),
        }
    }

    fn diff_texts(&mut self, claim: &Claim, call: &Call, old: &[u8], new: &[u8]) -> Option<Diff> {
        if old.contains(&0) || new.contains(&0) {
            return None;
        }
        let path = String::from_utf8_lossy(claim.name().path.rel());
        let deadline = call.caller().deadline.min(Instant::now() + DIFF_TIME);
        let diff = diff::unified(&path, old, new, self.left_bytes, deadline);
        self.left_bytes -= diff.text.len();
        Some(diff)
    }
}

/// Handles a link at the name: refuses it or, where the root follows links, claims its target. Never makes the target of a dangling
/// link.
fn claim_link_target(jail: &Jail, call: &mut Call, claim: Claim, overwrite: bool) -> Result<Claim> {
    let name = claim.name().clone();
    if jail.roots().rules(&name.path).symlinks == Symlinks::Refuse {
        return claim.check_content(jail).map(|()| claim);
    }
    if !overwrite {
        return Err(exists_error(&name.sent));
    }
    // Releases the lease first: a call that holds one name while it waits for another could deadlock with a second call.
    drop(claim);
    let behind = jail.claim(call, &name, Intent::Edit)?;
    if behind.stat().is_none() {
        let text = format!("{}: is a link that leads nowhere; name the file itself", name.sent);
        let error = Error::new(Code::OutsideRoots, text);
        jail.report_escape(call, &name, &error);
        return Err(error);
    }
    Ok(behind)
}

/// C210 for a name that ends with a slash: it names a folder, and the slash would be dropped.
fn check_names_file(name: &Located) -> Result<()> {
    if !name.sent.ends_with('/') || name.path.is_root() {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "{0}: ends with a slash, so it names a folder and no file; name the file itself, for example {0}notes.md",
        name.sent
    )))
}

fn check_content_size(call: &Call, sent: &str, len: usize) -> Result<()> {
    let most = call.limits.max_write_bytes;
    if len as u64 > most {
        return Err(Error::new(Code::TooLarge, format!("{sent}: {len} bytes, max_write_bytes is {most}")));
    }
    Ok(())
}

fn exists_error(sent: &str) -> Error {
    Error::new(Code::Exists, format!("{sent} already exists; pass overwrite=true to replace it"))
}
