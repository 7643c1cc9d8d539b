//! Bytes A up to B. A cut lands between characters where there are any.

use super::{
    plan::{Plan, Shape},
    view::{Room, metadata, set_content, survey},
};
use crate::{
    jail::{Call, File, Want},
    text::{Tally, utf8},
    wire::{Result, types::read_file::FileView},
};

/// Read behind the window: tells whether the file goes on, and whether a character at the cut is whole.
const LOOK_AHEAD_BYTES: u64 = 4;

pub(super) fn read(
    file: &File,
    call: &Call,
    plan: &Plan,
    from: u64,
    to: u64,
    room: Room,
) -> Result<FileView> {
    let room = room.for_content(plan);
    let asked = to - from;
    let read_to = from.saturating_add(asked.min(room.cap)).saturating_add(LOOK_AHEAD_BYTES);
    let mut held = Vec::new();
    file.read_chunks(call, from, read_to, |chunk| {
        held.extend_from_slice(chunk);
        Ok(Want::More)
    })?;
    let available = &held[..len_within(held.len(), asked)];
    let len = if plan.base64 {
        len_within(available.len(), room.cap)
    } else {
        utf8::prefix_within(available, room.cap, room.measure)
    };
    let cut = len < available.len();
    let more = len < held.len();
    held.truncate(len);

    let mut view = metadata(file);
    let next_byte = from + len as u64;
    view.more_lines = more;
    view.next_byte = more.then_some(next_byte);
    if cut {
        view.truncated_reason = Some(room.by);
        view.hint = Some(format!("continue with byte_from: {next_byte}"));
    }
    set_totals(&mut view, file, call, plan, &held, from == 0 && !more)?;
    set_content(&mut view, plan, held);
    Ok(view)
}

fn set_totals(
    view: &mut FileView,
    file: &File,
    call: &Call,
    plan: &Plan,
    held: &[u8],
    is_whole: bool,
) -> Result<()> {
    let mut tally = Tally::default();
    tally.push(held);
    view.lines_returned = tally.finish().lines;
    if is_whole {
        view.total_lines = Some(view.lines_returned);
        if plan.etag || plan.shape == Shape::Full {
            let mut etag = crate::text::Etag::default();
            etag.push(held);
            view.etag = Some(etag.finish());
        }
    } else if plan.etag || plan.count_lines {
        let (totals, etag) = survey(file, call)?;
        view.etag = plan.etag.then_some(etag);
        view.total_lines = plan.count_lines.then_some(totals.lines);
    }
    Ok(())
}

fn len_within(len: usize, cap: u64) -> usize {
    usize::try_from(cap).unwrap_or(usize::MAX).min(len)
}
