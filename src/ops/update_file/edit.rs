//! One file of an update, from its name to its new content.

use std::{collections::VecDeque, time::Instant};

use super::convert;
use crate::{
    broker::Effect,
    jail::{Call, Claim, File, Jail, Like, Located, Planning, Source, Unread},
    ops::{
        changes::{Operation, Planned, Turn},
        outcomes, versions,
    },
    path::JailPath,
    text::{
        diff::{self, DIFF_TIME, Diff},
        edit::{self, Bounds, Echo, Op, Problem},
        utf8,
    },
    wire::{
        Code, Error, Limits, Result,
        compat::Wire,
        types::update_file::{Bodies, OpEcho, UpdateOp},
    },
};

/// The edits of one call.
pub(super) struct Edits<'a> {
    jail: &'a Jail,
    /// Add a diff to every result. Dry entries always get one.
    diff: bool,
    /// The files of all entries, as far as those were understood.
    all_paths: Vec<JailPath>,
    /// The files of the entries that have not been edited yet, as far as those were understood.
    paths: VecDeque<JailPath>,
    /// Files that a later entry edits again, of an atomic batch or a dry run.
    pending: Vec<Pending>,
    /// The budget of the whole call, and what is left of it.
    whole_room: Room,
    room: Room,
}

/// The content of a file after the edits so far, and whether it differs from the file on disk.
struct Pending {
    path: JailPath,
    bytes: Vec<u8>,
    changed: bool,
}

/// What is left for the echoes and for the diffs of a call: as much as a batch of reads may return, each.
#[derive(Debug, Clone, Copy)]
struct Room {
    echo_bytes: usize,
    diff_bytes: usize,
    /// For whole texts, which only wire 0.2 returns: a reply cannot be longer than a frame.
    body_bytes: u64,
}

pub(super) struct Done {
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
    pub(super) bodies: Option<Bodies>,
}

impl outcomes::Done for Done {
    fn effect(&self, dry_run: bool, matched: Option<String>) -> (bool, Effect) {
        let etag = Some(self.etag.clone());
        // The etag of a dry run, and of a file that stays as it is, is that of the old content, too.
        let etag_before = matched.or_else(|| etag.clone().filter(|_| dry_run || !self.changed));
        let bytes = self.changed.then_some(self.bytes);
        let etag_after = etag.filter(|_| !dry_run);
        (self.changed, Effect { bytes, etag_before, etag_after, ..Effect::default() })
    }
}

impl<'a> Edits<'a> {
    pub(super) fn new(jail: &'a Jail, call: &Call, diff: bool, paths: Vec<JailPath>) -> Self {
        let bytes = usize::try_from(call.limits.batch_read_budget_bytes).unwrap_or(usize::MAX);
        let room = Room { echo_bytes: bytes, diff_bytes: bytes, body_bytes: call.limits.max_frame_bytes };
        let (pending, left) = (Vec::new(), VecDeque::new());
        Self { jail, diff, all_paths: paths, paths: left, pending, whole_room: room, room }
    }
}

impl Operation for Edits<'_> {
    type Wanted = Vec<UpdateOp>;
    type Reply = Done;

    fn restart(&mut self) {
        self.paths = self.all_paths.iter().cloned().collect();
        self.pending.clear();
        self.room = self.whole_room;
    }

    fn plan(
        &mut self,
        call: &mut Call,
        turn: &mut Turn<Vec<UpdateOp>>,
        planning: &mut Planning,
    ) -> Result<Planned<Done>> {
        convert::warn_of_backspace(call, turn.place, &turn.what);
        self.skip_to(&turn.name(0).path);
        // A dry run, too, so that it fails where the real one would.
        let claim = turn.claim(self.jail, call, planning, 0)?;
        if claim.stat().is_none() && turn.if_match().is_some() {
            return Err(versions::stale(&turn.name(0).sent, None));
        }
        let file = self.open(call, &claim, &turn.what)?;
        // Pending content of dry entries is never written; a real entry starts from the disk.
        let pending = self.take_pending(&turn.name(0).path).filter(|_| planning.is_deferred());
        let (old, was_changed) = match pending {
            Some(pending) => (pending.bytes, pending.changed),
            None => (read(&file, call, call.limits.max_write_bytes)?, false),
        };
        if let Some(wanted) = turn.if_match() {
            let found = versions::etag_of_bytes(&old);
            if found != wanted {
                return Err(versions::stale(&turn.name(0).sent, Some(found)));
            }
        }
        let path = turn.name(0).path.clone();
        let is_edited_again = planning.is_deferred() && self.paths.contains(&path);
        let kept = (is_edited_again && planning.is_dry()).then(|| old.clone());
        let (mut done, new) = match self.apply(call, turn, planning.is_dry(), old) {
            Ok(applied) => applied,
            Err(error) => {
                // Dry run: the next edit of this file starts from the same content.
                self.pending.extend(kept.map(|bytes| Pending { path, bytes, changed: was_changed }));
                return Err(error);
            }
        };
        let changed = done.changed || was_changed;
        if is_edited_again {
            self.pending.push(Pending { path, bytes: new, changed });
        } else if changed {
            let like = Like { mode: file.stat().mode, old: Some(&file) };
            let staged = planning.stage(self.jail, call, &claim, like, &new)?;
            done.owner_changed = staged.owner_changed();
            let lost = staged.lost_attributes().to_vec();
            let plan = planning.replace(self.jail, call, &claim, staged, file.stat(), Source::Edit)?;
            return Ok(Planned { plan, reply: done, lost });
        }
        Ok(Planned::nothing(done))
    }
}

impl Edits<'_> {
    /// In the order of the contract: missing, no regular file, too large, no ops.
    fn open(&self, call: &Call, claim: &Claim, ops: &[UpdateOp]) -> Result<File> {
        let sent = &claim.name().sent;
        claim.check_content(self.jail)?;
        let (size, max_bytes) = (claim.stat().map_or(0, |stat| stat.size_bytes), call.limits.max_write_bytes);
        if size > max_bytes {
            return Err(too_large(sent, size, max_bytes));
        }
        if ops.is_empty() {
            let text = format!(
                "{sent}: ops: empty; give at least one, for example {{\"op\": \"append\", \"content\": \"x\\n\"}}"
            );
            return Err(Error::bad_input(text));
        }
        claim.open_content(self.jail)
    }

    fn take_pending(&mut self, path: &JailPath) -> Option<Pending> {
        let at = self.pending.iter().position(|pending| pending.path == *path)?;
        Some(self.pending.swap_remove(at))
    }

    /// Drops the paths of this entry and of earlier ones that failed.
    fn skip_to(&mut self, path: &JailPath) {
        while self.paths.pop_front().is_some_and(|next| next != *path) {}
    }

    fn apply(
        &mut self,
        call: &Call,
        turn: &Turn<Vec<UpdateOp>>,
        is_dry: bool,
        old: Vec<u8>,
    ) -> Result<(Done, Vec<u8>)> {
        let name = turn.name(0);
        let ops: Vec<Op<'_>> = turn.what.iter().map(convert::op).collect();
        let bounds =
            Bounds { max_bytes: call.limits.max_write_bytes, goes_on: &|| call.checkpoint().is_ok() };
        let edited = edit::apply(&old, &ops, bounds).map_err(|problem| refused(name, call, problem))?;
        let diff = (self.diff || is_dry).then(|| self.room.compare(name, call, &old, &edited.bytes));
        let bodies = (self.jail.settings().wire == Wire::V02).then(|| Bodies {
            before: self.room.body(&call.limits, &old),
            after: self.room.body(&call.limits, &edited.bytes),
        });
        let (echoes, echoes_truncated) = self.room.admit(edited.echoes, edited.echoes_truncated);
        let done = Done {
            bytes: edited.bytes.len() as u64,
            applied: convert::count(edited.applied),
            new_line_count: edited.new_line_count,
            echoes,
            echoes_truncated,
            changed: edited.changed,
            // A dry run leaves the version that is there.
            etag: versions::etag_of_bytes(if is_dry { &old } else { &edited.bytes }),
            diff,
            owner_changed: false,
            bodies,
        };
        Ok((done, edited.bytes))
    }
}

impl Room {
    fn compare(&mut self, name: &Located, call: &Call, old: &[u8], new: &[u8]) -> Diff {
        let path = String::from_utf8_lossy(name.path.rel());
        let deadline = call.caller().deadline.min(Instant::now() + DIFF_TIME);
        let diff = diff::unified(&path, old, new, self.diff_bytes, deadline);
        self.diff_bytes -= diff.text.len();
        diff
    }

    fn body(&mut self, limits: &Limits, bytes: &[u8]) -> Option<String> {
        let len = utf8::converted_len(bytes);
        if len > limits.max_read_bytes || len > self.body_bytes {
            return None;
        }
        self.body_bytes -= len;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Takes the bytes of the echoes from the budget: one line may be as long as a file, and a call may name many files.
    fn admit(&mut self, echoes: Vec<Echo>, truncated: bool) -> (Vec<OpEcho>, bool) {
        if self.echo_bytes == 0 && !echoes.is_empty() {
            return (Vec::new(), true);
        }
        let bytes = echoes.iter().flat_map(|echo| &echo.lines).map(String::len).sum();
        self.echo_bytes = self.echo_bytes.saturating_sub(bytes);
        (echoes.into_iter().map(convert::echo).collect(), truncated)
    }
}

/// Reads the whole file, which may have grown since it was examined.
fn read(file: &File, call: &Call, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_into(call, max_bytes.saturating_add(1), &mut bytes).map_err(|error| match error {
        Unread::Memory => out_of_memory(file.sent()),
        Unread::Failed(error) => error,
    })?;
    match bytes.len() as u64 {
        size if size > max_bytes => Err(too_large(file.sent(), size, max_bytes)),
        _ => Ok(bytes),
    }
}

fn refused(name: &Located, call: &Call, problem: Problem) -> Error {
    let max_bytes = call.limits.max_write_bytes;
    match problem {
        Problem::Invalid(text) => Error::bad_input(format!("{}: {text}", name.sent)),
        Problem::TooLarge { bytes } if bytes <= max_bytes => out_of_memory(&name.sent),
        Problem::TooLarge { bytes } => {
            let text = format!(
                "{}: the ops make it {bytes} bytes or more, above max_write_bytes ({max_bytes}); nothing was written. \
                 Replace fewer matches or shorter text, or raise max_write_bytes in the policy",
                name.sent
            );
            Error::new(Code::TooLarge, text)
        }
        // The engine stopped at the deadline, so this checkpoint fails as well.
        Problem::Stopped => call.checkpoint().err().unwrap_or_else(|| Error::busy(&name.sent)),
    }
}

fn too_large(sent: &str, bytes: u64, max_bytes: u64) -> Error {
    let text = format!(
        "{sent}: {bytes} bytes, above max_write_bytes ({max_bytes}); split the file, or raise max_write_bytes in the policy"
    );
    Error::new(Code::TooLarge, text)
}

fn out_of_memory(sent: &str) -> Error {
    Error::new(Code::TooLarge, format!("{sent}: more than this worker's memory holds; split the file"))
}
