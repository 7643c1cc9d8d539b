//! A probe: what is known about a file, without its content.

use super::{plan::Plan, view::metadata};
use crate::{
    jail::{Call, File, Want},
    text::{Etag, Tally},
    wire::{Result, types::read_file::FileView},
};

pub(super) fn read(file: &File, call: &Call, plan: &Plan) -> Result<FileView> {
    let mut view = metadata(file);
    let cap = call.limits.max_read_bytes;
    let to_the_end = plan.etag || plan.count_lines;
    if file.stat().size_bytes > cap && !to_the_end {
        return Ok(view);
    }
    let mut tally = Tally::default();
    let mut etag = plan.etag.then(Etag::default);
    let read_to = if to_the_end { u64::MAX } else { cap.saturating_add(1) };
    file.read_chunks(call, 0, read_to, |chunk| {
        tally.push(chunk);
        etag.iter_mut().for_each(|etag| etag.push(chunk));
        Ok(Want::More)
    })?;
    let totals = tally.finish();
    if totals.bytes <= cap || plan.count_lines {
        view.total_lines = Some(totals.lines);
        view.is_utf8 = Some(totals.is_utf8);
    }
    view.etag = etag.map(|etag| etag.finish());
    Ok(view)
}
