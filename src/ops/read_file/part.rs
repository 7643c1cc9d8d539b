//! Every shape of content but a single full read: facts alone, lines, the tail, bytes, and the files of a batch.
//! What does not fit is cut, and the reply says where to continue.

use super::{
    plan::{ReadPlan, ReadShape},
    tail,
    view::{ReadBudget, metadata_view, read_totals, set_content, set_window},
};
use crate::{
    jail::{Call, JailFile, ReadControl},
    text::{Etag, LineWindow, Tally, utf8, window::WindowSpec},
    wire::{Result, types::read_file::FileView},
};

/// Read behind the window: tells whether the file goes on, and whether a character at the cut is whole.
const READ_AHEAD_BYTES: u64 = 4;

/// A single full read is not among them: it alone answers C213 instead of cutting.
pub(super) fn read(file: &JailFile, call: &Call, plan: &ReadPlan, budget: ReadBudget) -> Result<FileView> {
    match plan.shape {
        ReadShape::Stat => read_metadata(file, call, plan),
        // Exact bytes have no lines to keep whole.
        ReadShape::Full if plan.base64 => read_bytes(file, call, plan, 0, u64::MAX, budget),
        ReadShape::Full => read_lines(file, call, plan, 1, u64::MAX, budget),
        ReadShape::Lines { from, to } => read_lines(file, call, plan, from, to, budget),
        ReadShape::Tail { lines } => tail::read(file, call, plan, lines, budget),
        ReadShape::Bytes { from, to } => read_bytes(file, call, plan, from, to, budget),
    }
}

/// A probe: what is known about a file, without its content.
fn read_metadata(file: &JailFile, call: &Call, plan: &ReadPlan) -> Result<FileView> {
    let mut view = metadata_view(file);
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
        Ok(ReadControl::Continue)
    })?;
    let totals = tally.finish();
    if totals.bytes <= cap || plan.count_lines {
        view.total_lines = Some(totals.lines);
        view.is_utf8 = Some(totals.is_utf8);
    }
    view.etag = etag.map(|etag| etag.finish());
    Ok(view)
}

/// Streamed: lines before the window are skipped without being held.
fn read_lines(
    file: &JailFile,
    call: &Call,
    plan: &ReadPlan,
    from: u64,
    to: u64,
    budget: ReadBudget,
) -> Result<FileView> {
    let budget = budget.for_content(plan);
    let spec = WindowSpec {
        from,
        to,
        max_bytes: budget.max_bytes,
        measure: budget.measure,
        numbered: plan.numbered,
        keep_bom: false,
    };
    let mut window = LineWindow::new(spec);
    // A batch entry without a window reads its whole file anyway; windows pay for a version only on request.
    let mut etag = (plan.etag || plan.shape == ReadShape::Full).then(Etag::default);
    let mut tally = plan.count_lines.then(Tally::default);
    let to_the_end = plan.etag || plan.count_lines;
    let mut done = false;
    let ended = file.read_chunks(call, 0, u64::MAX, |chunk| {
        etag.iter_mut().for_each(|etag| etag.push(chunk));
        tally.iter_mut().for_each(|tally| tally.push(chunk));
        done = done || window.push(chunk);
        Ok(if done && !to_the_end { ReadControl::Stop } else { ReadControl::Continue })
    })?;
    let mut view = metadata_view(file);
    set_window(&mut view, plan, window.finish(ended), &budget);
    if ended {
        view.etag = etag.map(|etag| etag.finish());
    }
    if let Some(tally) = tally {
        view.total_lines = Some(tally.finish().lines);
    }
    Ok(view)
}

/// A cut lands between characters where there are any.
fn read_bytes(
    file: &JailFile,
    call: &Call,
    plan: &ReadPlan,
    from: u64,
    to: u64,
    budget: ReadBudget,
) -> Result<FileView> {
    let budget = budget.for_content(plan);
    let asked = to - from;
    let read_to = from.saturating_add(asked.min(budget.max_bytes)).saturating_add(READ_AHEAD_BYTES);
    let mut held = Vec::new();
    file.read_chunks(call, from, read_to, |chunk| {
        held.extend_from_slice(chunk);
        Ok(ReadControl::Continue)
    })?;
    let available = &held[..len_within(held.len(), asked)];
    let len = if plan.base64 {
        len_within(available.len(), budget.max_bytes)
    } else {
        utf8::prefix_within(available, budget.max_bytes, budget.measure)
    };
    let cut = len < available.len();
    let more = len < held.len();
    held.truncate(len);

    let mut view = metadata_view(file);
    let next_byte = from + len as u64;
    view.more_lines = more;
    view.next_byte = more.then_some(next_byte);
    if cut {
        view.truncated_reason = Some(budget.limit);
        view.hint = Some(format!("continue with byte_from: {next_byte}"));
    }
    set_totals(&mut view, file, call, plan, &held, from == 0 && !more)?;
    set_content(&mut view, plan, held);
    Ok(view)
}

fn set_totals(
    view: &mut FileView,
    file: &JailFile,
    call: &Call,
    plan: &ReadPlan,
    held: &[u8],
    is_whole: bool,
) -> Result<()> {
    let mut tally = Tally::default();
    tally.push(held);
    view.lines_returned = tally.finish().lines;
    if is_whole {
        view.total_lines = Some(view.lines_returned);
        if plan.etag || plan.shape == ReadShape::Full {
            let mut etag = Etag::default();
            etag.push(held);
            view.etag = Some(etag.finish());
        }
    } else if plan.etag || plan.count_lines {
        let (totals, etag) = read_totals(file, call)?;
        view.etag = plan.etag.then_some(etag);
        view.total_lines = plan.count_lines.then_some(totals.lines);
    }
    Ok(())
}

fn len_within(len: usize, cap: u64) -> usize {
    usize::try_from(cap).unwrap_or(usize::MAX).min(len)
}
