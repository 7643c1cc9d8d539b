//! Lines A to B, streamed: lines before the window are skipped without being held.

use super::{
    plan::{Plan, Shape},
    view::{Room, metadata, set_window},
};
use crate::{
    jail::{Call, File, Want},
    text::{Etag, Tally, Window, window::Spec},
    wire::{Result, types::read_file::FileView},
};

pub(super) fn read(
    file: &File,
    call: &Call,
    plan: &Plan,
    from: u64,
    to: u64,
    room: Room,
) -> Result<FileView> {
    let room = room.for_content(plan);
    let spec =
        Spec { from, to, cap: room.cap, measure: room.measure, numbered: plan.numbered, keep_bom: false };
    let mut window = Window::new(spec);
    // A batch entry without a window reads its whole file anyway; windows pay for a version only on request.
    let mut etag = (plan.etag || plan.shape == Shape::Full).then(Etag::default);
    let mut tally = plan.count_lines.then(Tally::default);
    let to_the_end = plan.etag || plan.count_lines;
    let mut done = false;
    let ended = file.read_chunks(call, 0, u64::MAX, |chunk| {
        etag.iter_mut().for_each(|etag| etag.push(chunk));
        tally.iter_mut().for_each(|tally| tally.push(chunk));
        done = done || window.push(chunk);
        Ok(if done && !to_the_end { Want::Enough } else { Want::More })
    })?;
    let mut view = metadata(file);
    set_window(&mut view, plan, window.finish(ended), room.by);
    if ended {
        view.etag = etag.map(|etag| etag.finish());
    }
    if let Some(tally) = tally {
        view.total_lines = Some(tally.finish().lines);
    }
    Ok(view)
}
