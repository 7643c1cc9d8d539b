//! `coder::create-file`.

use std::time::Instant;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    Handler,
    changes::{self, How, Intended, Operation, Planned, Turn, required},
    modes, outcomes, versions,
};
use crate::{
    broker::{Effect, Intent, Question},
    jail::{Call, Claim, File, Jail, Like, Planning, Source, Unread},
    path::{RawPath, Symlinks},
    sys::fs::Kind,
    text::diff::{self, DIFF_TIME, Diff},
    wire::{
        Code, Error, Result,
        types::{
            create_file::{CreateEntry, CreateFile, CreateFileRequest, CreateFileResponse, CreateResult},
            read_file::Encoding,
        },
    },
};

const MODE: u32 = 0o644;

/// What an entry wants, checked as far as its text goes.
struct Wanted {
    content: Vec<u8>,
    mode: Option<u32>,
    parents: bool,
    overwrite: bool,
}

#[derive(Default)]
struct Created {
    bytes: u64,
    etag: Option<String>,
    owner_changed: bool,
    diff: Option<Diff>,
}

impl outcomes::Done for Created {
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
        changes::check_len(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let intend = |call: &mut Call, entry: CreateEntry| intend(jail, call, base_dir.as_ref(), entry);
        let names = [("path", "path_bytes")];
        let entries = changes::decode_entries(call, "files", request.files, None, &names, intend);
        let how = How { atomic: request.atomic, dry_run: request.dry_run };
        let create = Create { jail, diffs: Diffs::new(call) };
        let done = changes::run(jail, call, "files", how, entries, create)?;
        let results = done.into_iter().map(|mut done| {
            let (path, path_bytes) = done.name(0);
            let dry_run = done.dry_run;
            let (created, error) =
                done.outcome.map_or_else(|e| (Created::default(), Some(e)), |created| (created, None));
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

fn intend(
    jail: &Jail,
    call: &Call,
    base_dir: Option<&RawPath>,
    entry: CreateEntry,
) -> Result<Intended<Wanted>> {
    let name = required("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
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
    let content = match entry.encoding.unwrap_or_default() {
        Encoding::Utf8 => entry.content.into_bytes(),
        Encoding::Base64 => STANDARD.decode(&entry.content).map_err(|_| {
            Error::bad_input(
                "content: not base64; expected standard base64 with padding, for example \"YWJj\"",
            )
        })?,
    };
    let located = jail.locate(call, &name, base_dir)?;
    let wanted = Wanted { content, mode, parents: entry.parents.unwrap_or(true), overwrite };
    let names = vec![(located, Intent::Create)];
    Ok(Intended { what: wanted, names, if_match: entry.if_match, dry_run: entry.dry_run })
}

struct Create<'a> {
    jail: &'a Jail,
    diffs: Diffs,
}

impl Operation for Create<'_> {
    type Wanted = Wanted;
    type Reply = Created;

    fn plan(
        &mut self,
        call: &mut Call,
        turn: &mut Turn<Wanted>,
        planning: &mut Planning,
    ) -> Result<Planned<Created>> {
        let jail = self.jail;
        let claim = turn.claim(jail, call, planning, 0)?;
        check_size(call, &claim.name().sent, turn.what.content.len())?;
        let claim = match claim.kind() {
            Some(Kind::Symlink) => follow(jail, call, claim, turn.what.overwrite)?,
            _ => claim,
        };
        versions::check(jail, call, &claim, turn.if_match())?;
        let wanted = &turn.what;
        match claim.stat() {
            None => self.plan_new(call, &claim, wanted, planning),
            Some(_) if !wanted.overwrite => Err(exists(&claim.name().sent)),
            Some(stat) if stat.kind == Kind::Dir => {
                Err(Error::io(&claim.name().sent, "is a folder, which no file replaces"))
            }
            Some(_) => self.plan_replace(call, &claim, wanted, planning),
        }
    }
}

impl Create<'_> {
    fn plan_new(
        &self,
        call: &Call,
        claim: &Claim,
        wanted: &Wanted,
        planning: &mut Planning,
    ) -> Result<Planned<Created>> {
        claim.check_parents(wanted.parents)?;
        let like = Like { mode: wanted.mode.unwrap_or(MODE), old: None };
        let staged = planning.stage(self.jail, call, claim, like, &wanted.content)?;
        let mut plan = planning.place(self.jail, call, claim, staged, Source::Bytes(&wanted.content))?;
        if wanted.overwrite {
            plan.may_replace();
        }
        // A dry run leaves the version that is there: none.
        let etag = (!planning.is_dry()).then(|| versions::etag_of_bytes(&wanted.content));
        let reply = Created { bytes: wanted.content.len() as u64, etag, ..Created::default() };
        Ok(Planned { plan, reply, lost: Vec::new() })
    }

    fn plan_replace(
        &mut self,
        call: &Call,
        claim: &Claim,
        wanted: &Wanted,
        planning: &mut Planning,
    ) -> Result<Planned<Created>> {
        let (jail, content) = (self.jail, &wanted.content);
        // Only an earlier entry of this batch writes it: a dry run goes on from there, an atomic batch refuses.
        let old = if claim.is_only_foreseen() { None } else { Some(claim.open_content(jail)?) };
        let read = old.as_ref().map(File::stat).or(claim.stat()).copied();
        let read = read.ok_or_else(|| Error::not_found(&claim.name().sent))?;
        let like = Like { mode: wanted.mode.unwrap_or(read.mode), old: old.as_ref() };
        let staged = planning.stage(jail, call, claim, like, content)?;
        let (owner_changed, lost) = (staged.owner_changed(), staged.lost_attributes().to_vec());
        let plan = planning.replace(jail, call, claim, staged, &read, Source::Bytes(content))?;
        let mut reply = Created { bytes: content.len() as u64, owner_changed, ..Created::default() };
        (reply.etag, reply.diff) = match &old {
            _ if !planning.is_dry() => (Some(versions::etag_of_bytes(content)), None),
            Some(old) => {
                (Some(versions::etag_of(call, old)?), self.diffs.of_file(claim, call, old, content)?)
            }
            None => {
                let before = claim.foreseen_content();
                let diff = before.and_then(|before| self.diffs.of_texts(claim, call, before, content));
                (before.map(versions::etag_of_bytes), diff)
            }
        };
        Ok(Planned { plan, reply, lost })
    }
}

/// The diffs of one dry call, which share a budget.
struct Diffs {
    left_bytes: usize,
}

impl Diffs {
    fn new(call: &Call) -> Self {
        Self { left_bytes: usize::try_from(call.limits.batch_read_budget_bytes).unwrap_or(usize::MAX) }
    }

    /// None unless both are text, and for a file above `max_write_bytes`.
    fn of_file(&mut self, claim: &Claim, call: &Call, old: &File, new: &[u8]) -> Result<Option<Diff>> {
        if old.stat().size_bytes > call.limits.max_write_bytes {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        match old.read_into(call, call.limits.max_write_bytes, &mut bytes) {
            Ok(_) => Ok(self.of_texts(claim, call, &bytes, new)),
            Err(Unread::Memory) => Ok(None),
            Err(Unread::Failed(error)) => Err(error),
        }
    }

    fn of_texts(&mut self, claim: &Claim, call: &Call, old: &[u8], new: &[u8]) -> Option<Diff> {
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
fn follow(jail: &Jail, call: &mut Call, claim: Claim, overwrite: bool) -> Result<Claim> {
    let name = claim.name().clone();
    if jail.roots().rules(&name.path).symlinks == Symlinks::Refuse {
        return claim.check_content(jail).map(|()| claim);
    }
    if !overwrite {
        return Err(exists(&name.sent));
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

fn check_size(call: &Call, sent: &str, len: usize) -> Result<()> {
    let most = call.limits.max_write_bytes;
    if len as u64 > most {
        return Err(Error::new(Code::TooLarge, format!("{sent}: {len} bytes, max_write_bytes is {most}")));
    }
    Ok(())
}

fn exists(sent: &str) -> Error {
    Error::new(Code::Exists, format!("{sent} already exists; pass overwrite=true to replace it"))
}
