//! One file of an update, from its name to its new content.

use std::time::{Duration, Instant};

use super::convert;
use crate::{
    broker::Intent,
    jail::{Call, Claim, File, Jail, Like, Located, Want, Written},
    text::{
        Etag,
        diff::{self, Diff},
        edit::{self, Bounds, Echo, Op, Problem},
        utf8,
    },
    wire::{
        Code, Error, Limits, Result,
        compat::Wire,
        types::update_file::{Bodies, OpEcho, UpdateEntry},
    },
};

/// A diff that is not found by then is not the smallest one.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// What the call wants of every file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) dry_run: bool,
    pub(super) diff: bool,
}

/// What is left for the echoes and for the diffs of a call: as much as a batch of reads may return, each.
#[derive(Debug)]
pub(super) struct Room {
    echo_bytes: usize,
    diff_bytes: usize,
    /// For whole texts, in the wire that has them: more than a frame holds is no reply.
    body_bytes: u64,
}

impl Room {
    pub(super) fn of(limits: &Limits) -> Self {
        let bytes = usize::try_from(limits.batch_read_budget_bytes).unwrap_or(usize::MAX);
        Self { echo_bytes: bytes, diff_bytes: bytes, body_bytes: limits.max_frame_bytes }
    }
}

pub(super) struct Done {
    pub(super) applied: u32,
    pub(super) new_line_count: u64,
    pub(super) echoes: Vec<OpEcho>,
    pub(super) echoes_truncated: bool,
    pub(super) changed: bool,
    pub(super) etag: String,
    pub(super) diff: Option<Diff>,
    pub(super) owner_changed: bool,
    pub(super) lost_attributes: Vec<String>,
    pub(super) bodies: Option<Bodies>,
}

pub(super) fn run(
    jail: &Jail,
    call: &mut Call,
    name: &Located,
    entry: &UpdateEntry,
    asked: Asked,
    room: &mut Room,
) -> Result<Done> {
    // A dry run, too, so that it fails where the real one would.
    let claim = jail.claim(call, name, Intent::Edit)?;
    claim.check_content(jail)?;
    let max_bytes = call.limits.max_write_bytes;
    let size = claim.stat().map_or(0, |stat| stat.size_bytes);
    if size > max_bytes {
        return Err(too_large(&name.sent, size, max_bytes));
    }
    if entry.ops.is_empty() {
        let text = format!(
            "{}: ops: empty; give at least one, for example {{\"op\": \"append\", \"content\": \"x\\n\"}}",
            name.sent
        );
        return Err(Error::bad_input(text));
    }
    let file = claim.open_content(jail)?;
    let old = read(&file, call, max_bytes)?;
    let old_etag = etag(&old);
    if entry.if_match.as_ref().is_some_and(|wanted| *wanted != old_etag) {
        return Err(Error::stale(&name.sent, Some(old_etag)));
    }
    let ops: Vec<Op<'_>> = entry.ops.iter().map(convert::op).collect();
    let bounds = Bounds { max_bytes, goes_on: &|| call.checkpoint().is_ok() };
    let edited = edit::apply(&old, &ops, bounds).map_err(|problem| refused(name, call, problem))?;
    let diff = asked.diff.then(|| compare(name, call, &old, &edited.bytes, room));
    let bodies = (jail.settings().wire == Wire::V02).then(|| Bodies {
        before: body(&call.limits, &old, room),
        after: body(&call.limits, &edited.bytes, room),
    });
    drop(old);
    let (echoes, echoes_truncated) = admit(edited.echoes, edited.echoes_truncated, room);
    let mut done = Done {
        applied: convert::count(edited.applied),
        new_line_count: edited.new_line_count,
        echoes,
        echoes_truncated,
        changed: edited.changed,
        etag: old_etag,
        diff,
        owner_changed: false,
        lost_attributes: Vec::new(),
        bodies,
    };
    if edited.changed && !asked.dry_run {
        let written = write(jail, call, &claim, &file, &edited.bytes)?;
        done.etag = etag(&edited.bytes);
        done.owner_changed = written.owner_changed;
        done.lost_attributes = written.lost_attributes;
    }
    Ok(done)
}

/// The whole file. It may have grown since it was looked at.
fn read(file: &File, call: &Call, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_chunks(call, 0, max_bytes.saturating_add(1), |chunk| {
        bytes.try_reserve(chunk.len()).map_err(|_| out_of_memory(file.sent()))?;
        bytes.extend_from_slice(chunk);
        Ok(Want::More)
    })?;
    match bytes.len() as u64 {
        size if size > max_bytes => Err(too_large(file.sent(), size, max_bytes)),
        _ => Ok(bytes),
    }
}

fn write(jail: &Jail, call: &Call, claim: &Claim, file: &File, bytes: &[u8]) -> Result<Written> {
    let like = Like { mode: file.stat().mode, old: Some(file) };
    let staged = claim.stage(jail, call, like, bytes)?;
    claim.replace(jail, call, staged, file.stat())
}

fn etag(bytes: &[u8]) -> String {
    let mut etag = Etag::default();
    etag.push(bytes);
    etag.finish()
}

fn compare(name: &Located, call: &Call, old: &[u8], new: &[u8], room: &mut Room) -> Diff {
    let path = String::from_utf8_lossy(name.path.rel());
    let deadline = call.caller().deadline.min(Instant::now() + DIFF_TIME);
    let diff = diff::unified(&path, old, new, room.diff_bytes, deadline);
    room.diff_bytes -= diff.text.len();
    diff
}

fn body(limits: &Limits, bytes: &[u8], room: &mut Room) -> Option<String> {
    let len = utf8::converted_len(bytes);
    if len > limits.max_read_bytes || len > room.body_bytes {
        return None;
    }
    room.body_bytes -= len;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// One line may be as long as a file, and a call may name very many of those.
fn admit(echoes: Vec<Echo>, truncated: bool, room: &mut Room) -> (Vec<OpEcho>, bool) {
    if room.echo_bytes == 0 && !echoes.is_empty() {
        return (Vec::new(), true);
    }
    let bytes = echoes.iter().flat_map(|echo| &echo.lines).map(String::len).sum();
    room.echo_bytes = room.echo_bytes.saturating_sub(bytes);
    (echoes.into_iter().map(convert::echo).collect(), truncated)
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
            Error::new(Code::C213, text)
        }
        // The clock does not go back.
        Problem::Stopped => call.checkpoint().err().unwrap_or_else(|| Error::busy(&name.sent)),
    }
}

fn too_large(sent: &str, bytes: u64, max_bytes: u64) -> Error {
    let text = format!(
        "{sent}: {bytes} bytes, above max_write_bytes ({max_bytes}); split the file, or raise max_write_bytes in the policy"
    );
    Error::new(Code::C213, text)
}

fn out_of_memory(sent: &str) -> Error {
    Error::new(Code::C213, format!("{sent}: more than this worker's memory holds; split the file"))
}
