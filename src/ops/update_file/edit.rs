//! Edits one file, from its name to its new content.

use std::{collections::VecDeque, time::Instant};

use super::convert;
use crate::{
    broker::Effect,
    jail::{Call, Claim, ContentSource, FileProperties, Jail, JailFile, Located, Planning, ReadIntoError},
    ops::{
        changes::{EntryRun, Operation, PlannedChange},
        outcomes, versions,
    },
    path::JailPath,
    text::{
        charset,
        diff::{self, DIFF_TIME, Diff},
        edit::{self, EditBounds, EditError, FileEditEcho, FileEditOp},
        utf8,
        utf16::Endian,
    },
    wire::{
        Code, Error, Limits, Result,
        compat::WireVersion,
        error::NearestLines,
        types::update_file::{OpEcho, UpdateBodies, UpdateOp},
    },
};

/// The edits of one entry.
pub(super) struct UpdateParameters {
    pub(super) ops: Vec<UpdateOp>,
    /// Nothing is decoded, and NUL bytes are no reason to refuse.
    pub(super) is_binary: bool,
    /// Without the position of the entry.
    pub(super) warnings: Vec<String>,
}

/// The edits of one call.
pub(super) struct UpdateOperation<'a> {
    jail: &'a Jail,
    /// Add a diff to every result. Dry entries always get one.
    diff: bool,
    /// Probable mistakes are errors, such as a regular expression without a match.
    strict: bool,
    /// The files of all entries that could be parsed.
    all_paths: Vec<JailPath>,
    /// The files of the entries that could be parsed and have not been edited yet.
    remaining_paths: VecDeque<JailPath>,
    /// Files that a later entry edits again, of an atomic batch or a dry run.
    pending: Vec<PendingFile>,
    /// The budget of the whole call, and what is left of it.
    total_budget: UpdateBudget,
    budget: UpdateBudget,
}

/// The content of a file after the edits so far, and whether it differs from the file on disk.
struct PendingFile {
    path: JailPath,
    bytes: Vec<u8>,
    changed: bool,
}

/// Budget of a call for its echoes and for its diffs: each as large as the budget of a batch of reads.
#[derive(Debug, Clone, Copy)]
struct UpdateBudget {
    echo_bytes: usize,
    diff_bytes: usize,
    /// For whole texts, which only wire 0.2 returns: a reply cannot be longer than a frame.
    body_bytes: u64,
}

pub(super) struct UpdateOutput {
    /// Size of the whole file after the edits so far, for the audit.
    bytes: u64,
    pub(super) applied: u32,
    pub(super) new_line_count: u64,
    pub(super) echoes: Vec<OpEcho>,
    pub(super) echoes_truncated: bool,
    pub(super) changed: bool,
    pub(super) etag: String,
    pub(super) diff: Option<Diff>,
    pub(super) owner_changed: bool,
    pub(super) bodies: Option<UpdateBodies>,
}

impl outcomes::AuditedChange for UpdateOutput {
    fn effect(&self, dry_run: bool, matched: Option<String>) -> (bool, Effect) {
        let etag = Some(self.etag.clone());
        // The etag of a dry run, and of a file that stays as it is, is that of the old content, too.
        let etag_before = matched.or_else(|| etag.clone().filter(|_| dry_run || !self.changed));
        let bytes = self.changed.then_some(self.bytes);
        let etag_after = etag.filter(|_| !dry_run);
        (self.changed, Effect { bytes, etag_before, etag_after, ..Effect::default() })
    }
}

impl<'a> UpdateOperation<'a> {
    pub(super) fn new(jail: &'a Jail, call: &Call, (diff, strict): (bool, bool), paths: Vec<JailPath>) -> Self {
        let bytes = usize::try_from(call.limits.batch_read_budget_bytes).unwrap_or(usize::MAX);
        let budget = UpdateBudget { echo_bytes: bytes, diff_bytes: bytes, body_bytes: call.limits.max_frame_bytes };
        let (pending, left) = (Vec::new(), VecDeque::new());
        Self { jail, diff, strict, all_paths: paths, remaining_paths: left, pending, total_budget: budget, budget }
    }
}

impl Operation for UpdateOperation<'_> {
    type Parameters = UpdateParameters;
    type Output = UpdateOutput;

    fn restart(&mut self) {
        self.remaining_paths = self.all_paths.iter().cloned().collect();
        self.pending.clear();
        self.budget = self.total_budget;
    }

    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<UpdateParameters>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<UpdateOutput>> {
        let position = entry_run.position;
        convert::warn_of_backspace(call, position, &entry_run.parameters.ops);
        for warning in &entry_run.parameters.warnings {
            call.warnings.push(format!("{}.{warning}", position.text()));
        }
        self.skip_to(&entry_run.name(0).path);
        // A dry run, too, so that it fails where the real one would.
        let claim = entry_run.claim(self.jail, call, planning, 0)?;
        if claim.stat().is_none() && entry_run.if_match().is_some() {
            return Err(versions::stale_error(&entry_run.name(0).sent, None));
        }
        let file = self.open(call, &claim, &entry_run.parameters.ops)?;
        // Pending content of dry entries is never written; a real entry starts from the disk.
        let pending = self.take_pending(&entry_run.name(0).path).filter(|_| planning.is_deferred());
        let is_pending = pending.is_some();
        let (old, was_changed) = match pending {
            Some(pending) => (pending.bytes, pending.changed),
            None => (read_content(&file, call, call.limits.max_write_bytes)?, false),
        };
        if let Some(wanted) = entry_run.if_match() {
            let found = versions::etag_of_bytes(&old);
            // No stat version is that of content which is not on disk.
            let is_wanted = if is_pending { found == wanted } else { versions::is_version(wanted, &file, &found) };
            if !is_wanted {
                return Err(versions::stale_error(&entry_run.name(0).sent, Some(found)));
            }
        }
        let path = entry_run.name(0).path.clone();
        let is_edited_again = planning.is_deferred() && self.remaining_paths.contains(&path);
        let kept = (is_edited_again && planning.is_dry()).then(|| old.clone());
        let (mut done, new) = match self.apply(call, entry_run, planning.is_dry(), old) {
            Ok(applied) => {
                for (op, note) in &applied.notes {
                    call.warnings.push(format!("{}.ops[{op}].{note}", position.text()));
                }
                (applied.output, applied.bytes)
            }
            Err(error) => {
                // Dry run: the next edit of this file starts from the same content.
                self.pending.extend(kept.map(|bytes| PendingFile { path, bytes, changed: was_changed }));
                return Err(error);
            }
        };
        let changed = done.changed || was_changed;
        if is_edited_again {
            self.pending.push(PendingFile { path, bytes: new, changed });
        } else if changed {
            let like = FileProperties { mode: file.stat().mode, replaced: Some(&file) };
            let staged = planning.stage(self.jail, call, &claim, like, &new)?;
            done.owner_changed = staged.owner_changed();
            let lost_attributes = staged.lost_attributes().to_vec();
            let plan = planning.replace(self.jail, call, &claim, staged, file.stat(), ContentSource::Edit)?;
            return Ok(PlannedChange { plan, output: done, lost_attributes });
        }
        Ok(PlannedChange::unchanged(done))
    }
}

impl UpdateOperation<'_> {
    /// In the order of the contract: missing, no regular file, too large, no ops.
    fn open(&self, call: &Call, claim: &Claim, ops: &[UpdateOp]) -> Result<JailFile> {
        let sent = &claim.name().sent;
        claim.check_content(self.jail)?;
        let (size, max_bytes) = (claim.stat().map_or(0, |stat| stat.size_bytes), call.limits.max_write_bytes);
        if size > max_bytes {
            return Err(too_large_error(sent, size, max_bytes));
        }
        if ops.is_empty() {
            let text = format!(
                "{sent}: ops: empty; give at least one, for example {{\"op\": \"append\", \"content\": \"x\\n\"}}"
            );
            return Err(Error::bad_input(text));
        }
        claim.open_content(self.jail)
    }

    fn take_pending(&mut self, path: &JailPath) -> Option<PendingFile> {
        let at = self.pending.iter().position(|pending| pending.path == *path)?;
        Some(self.pending.swap_remove(at))
    }

    /// Removes the paths up to and including this entry's. Those before it belong to entries that failed.
    fn skip_to(&mut self, path: &JailPath) {
        while self.remaining_paths.pop_front().is_some_and(|next| next != *path) {}
    }

    fn apply(
        &mut self,
        call: &Call,
        entry_run: &EntryRun<UpdateParameters>,
        is_dry: bool,
        old: Vec<u8>,
    ) -> Result<AppliedOps> {
        let name = entry_run.name(0);
        let UpdateParameters { ops, is_binary, .. } = &entry_run.parameters;
        let ops: Vec<FileEditOp<'_>> = ops.iter().map(|op| convert::to_text_op(op, self.strict)).collect();
        let decoded = if *is_binary { None } else { self.decode(&name.sent, &old)? };
        let max_bytes = call.limits.max_write_bytes;
        let bounds = EditBounds {
            // Two bytes of UTF-16 are up to three of UTF-8. Its own length is checked when it is encoded.
            max_bytes: if decoded.is_some() { max_bytes.saturating_mul(3) / 2 + 3 } else { max_bytes },
            should_continue: &|| call.checkpoint().is_ok(),
        };
        let text = decoded.as_ref().map_or(old.as_slice(), |(_, text)| text);
        let edited = edit::apply(text, &ops, bounds).map_err(|problem| edit_error(name, call, problem))?;
        let diff = (self.diff || is_dry).then(|| self.budget.take_diff(name, call, text, &edited.bytes));
        let bodies = (self.jail.settings().wire == WireVersion::V02).then(|| UpdateBodies {
            before: self.budget.take_body(&call.limits, text),
            after: self.budget.take_body(&call.limits, &edited.bytes),
        });
        let (echoes, echoes_truncated) = self.budget.take_echoes(edited.echoes, edited.echoes_truncated);
        let bytes = match decoded {
            None => edited.bytes,
            Some((endian, _)) => encode(name, call, &edited.bytes, endian)?,
        };
        let output = UpdateOutput {
            bytes: bytes.len() as u64,
            applied: convert::to_u32(edited.applied),
            new_line_count: edited.new_line_count,
            echoes,
            echoes_truncated,
            changed: edited.changed,
            // A dry run leaves the version that is there.
            etag: versions::etag_of_bytes(if is_dry { &old } else { &bytes }),
            diff,
            owner_changed: false,
            bodies,
        };
        Ok(AppliedOps { output, bytes, notes: edited.notes })
    }

    /// The text of a UTF-16 file. None for a file whose bytes are edited as they are. C210 for a binary file: an edit of it as text is
    /// most likely a mistake.
    fn decode(&self, sent: &str, bytes: &[u8]) -> Result<Option<(Endian, Vec<u8>)>> {
        if let Some(endian) = charset::utf16(bytes) {
            let text = charset::decode(bytes, endian).ok_or_else(|| {
                Error::bad_input(format!(
                    "{sent}: is UTF-16 and ends with half a character; pass binary: true to edit its bytes, or write it whole \
                     with coder::create-file"
                ))
            })?;
            return Ok(Some((endian, text)));
        }
        // Wire 0.2 has no field that would allow it.
        let nul = charset::binary_at(bytes).filter(|_| self.jail.settings().wire != WireVersion::V02);
        match nul {
            None => Ok(None),
            Some(at) => Err(Error::bad_input(format!(
                "{sent}: is a binary file (byte {at} is NUL); pass binary: true to edit its bytes all the same, or write it whole \
                 with coder::create-file and encoding: \"base64\""
            ))),
        }
    }
}

/// A file with all ops applied.
struct AppliedOps {
    output: UpdateOutput,
    bytes: Vec<u8>,
    /// Notes about ops that were applied in another way than written, with the index of the op.
    notes: Vec<(usize, String)>,
}

fn encode(name: &Located, call: &Call, text: &[u8], endian: Endian) -> Result<Vec<u8>> {
    let bytes = charset::encode(text, endian).ok_or_else(|| {
        Error::bad_input(format!(
            "{}: the ops leave bytes that UTF-16 cannot hold; name characters and not bytes in the pattern",
            name.sent
        ))
    })?;
    let len = bytes.len() as u64;
    if len > call.limits.max_write_bytes {
        return Err(edit_error(name, call, EditError::TooLarge { bytes: len }));
    }
    Ok(bytes)
}

impl UpdateBudget {
    fn take_diff(&mut self, name: &Located, call: &Call, old: &[u8], new: &[u8]) -> Diff {
        let path = String::from_utf8_lossy(name.path.rel());
        let deadline = call.caller().deadline.min(Instant::now() + DIFF_TIME);
        let diff = diff::unified(&path, old, new, self.diff_bytes, deadline);
        self.diff_bytes -= diff.text.len();
        diff
    }

    fn take_body(&mut self, limits: &Limits, bytes: &[u8]) -> Option<String> {
        let len = utf8::converted_len(bytes);
        if len > limits.max_read_bytes || len > self.body_bytes {
            return None;
        }
        self.body_bytes -= len;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Takes the bytes of the echoes from the budget: one line may be as long as a file, and a call may name many files.
    fn take_echoes(&mut self, echoes: Vec<FileEditEcho>, truncated: bool) -> (Vec<OpEcho>, bool) {
        if self.echo_bytes == 0 && !echoes.is_empty() {
            return (Vec::new(), true);
        }
        let bytes = echoes.iter().flat_map(|echo| &echo.lines).map(String::len).sum();
        self.echo_bytes = self.echo_bytes.saturating_sub(bytes);
        (echoes.into_iter().map(convert::to_op_echo).collect(), truncated)
    }
}

/// Reads the whole file, which may have grown since it was examined.
fn read_content(file: &JailFile, call: &Call, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_into(call, max_bytes.saturating_add(1), &mut bytes).map_err(|error| match error {
        ReadIntoError::OutOfMemory => out_of_memory_error(file.sent()),
        ReadIntoError::Read(error) => error,
    })?;
    match bytes.len() as u64 {
        size if size > max_bytes => Err(too_large_error(file.sent(), size, max_bytes)),
        _ => Ok(bytes),
    }
}

fn edit_error(name: &Located, call: &Call, problem: EditError) -> Error {
    let max_bytes = call.limits.max_write_bytes;
    match problem {
        EditError::Invalid(text) => Error::bad_input(format!("{}: {text}", name.sent)),
        EditError::Missing { text, nearest } => {
            let nearest = NearestLines { from_line: nearest.from_line, lines: nearest.lines };
            let error = Error::bad_input(format!("{}: {text}", name.sent));
            Error { nearest: Some(Box::new(nearest)), ..error }
        }
        EditError::TooLarge { bytes } if bytes <= max_bytes => out_of_memory_error(&name.sent),
        EditError::TooLarge { bytes } => {
            let text = format!(
                "{}: the ops make it {bytes} bytes or more, above max_write_bytes ({max_bytes}); nothing was written. \
                 Replace fewer matches or shorter text, or raise max_write_bytes in the policy",
                name.sent
            );
            Error::new(Code::TooLarge, text)
        }
        // The engine stopped at the deadline, so this checkpoint fails as well.
        EditError::Stopped => call.checkpoint().err().unwrap_or_else(|| Error::busy(&name.sent)),
    }
}

fn too_large_error(sent: &str, bytes: u64, max_bytes: u64) -> Error {
    let text = format!(
        "{sent}: {bytes} bytes, above max_write_bytes ({max_bytes}); split the file, or raise max_write_bytes in the policy"
    );
    Error::new(Code::TooLarge, text)
}

fn out_of_memory_error(sent: &str) -> Error {
    Error::new(Code::TooLarge, format!("{sent}: more than this worker's memory holds; split the file"))
}
