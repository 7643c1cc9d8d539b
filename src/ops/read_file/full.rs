//! A whole file in a call of its own: all of it, or C213, or its head if `truncate` allows that.

use super::{
    plan::ReadPlan,
    view::{ReadBudget, base64_capacity, base64_len, metadata_view, read_totals, set_content, set_window},
};
use crate::{
    jail::{Call, JailFile, ReadControl, ReadIntoError},
    text::{BOM, Etag, LineWindow, Measure, Tally, number, tally::Totals, window::WindowSpec},
    wire::{
        Code, Error, Result,
        types::read_file::{FileView, TruncatedBy},
    },
};

/// Bytes to read beyond the budget, so that the content certainly exceeds it even without its byte order mark.
const BEYOND_BUDGET_BYTES: u64 = 4;

pub(super) fn read(file: &JailFile, call: &Call, plan: &ReadPlan) -> Result<FileView> {
    let cap = call.limits.max_read_bytes;
    let asked = plan.max_output_bytes.into_iter().chain(plan.budget_bytes).min();
    let budget = asked.map_or(call.limits.max_output_bytes, |bytes| bytes.min(cap));
    let size = file.stat().size_bytes;
    // Before any read or allocation: a sparse file may claim eight exbibytes.
    if size > cap {
        return read_over_cap(file, call, plan, size, budget);
    }
    let whole = read_content(file, call, cap, budget)?;
    if whole.totals.bytes > cap {
        // The file grew while it was read.
        return read_over_cap(file, call, plan, whole.totals.bytes, budget);
    }
    let returned = returned_len(&whole.totals, plan);
    let mut view = metadata_view(file);
    view.etag = Some(whole.etag);
    if returned > budget {
        if !plan.truncate {
            return Err(over_budget_error(file, &whole.totals, returned, budget, cap));
        }
        let ended = whole.held.len() as u64 == whole.totals.bytes;
        set_head(&mut view, plan, &whole.held, ended, budget);
        if plan.count_lines {
            view.total_lines = Some(whole.totals.lines);
        }
        return Ok(view);
    }
    view.lines_returned = whole.totals.lines;
    view.total_lines = Some(whole.totals.lines);
    set_content(&mut view, plan, if plan.numbered { number_lines(&whole.held) } else { whole.held });
    Ok(view)
}

struct FullContent {
    /// The file, or its head when it is above the budget.
    held: Vec<u8>,
    totals: Totals,
    etag: String,
}

/// Reads the file up to one byte above `cap`, holding only what may be returned.
fn read_content(file: &JailFile, call: &Call, cap: u64, budget: u64) -> Result<FullContent> {
    let (held, ended) = read_head(file, call, budget.saturating_add(BEYOND_BUDGET_BYTES))?;
    let mut tally = Tally::default();
    tally.push(&held);
    if ended {
        let etag = Etag::of(&held);
        return Ok(FullContent { held, totals: tally.finish(), etag });
    }
    let mut etag = Etag::default();
    etag.push(&held);
    file.read_chunks(call, held.len() as u64, cap.saturating_add(1), |chunk| {
        tally.push(chunk);
        etag.push(chunk);
        Ok(ReadControl::Continue)
    })?;
    Ok(FullContent { held, totals: tally.finish(), etag: etag.finish() })
}

/// The first `most` bytes, read into the place where they stay. True = the file ended before that.
fn read_head(file: &JailFile, call: &Call, most: u64) -> Result<(Vec<u8>, bool)> {
    let mut held = Vec::new();
    let ended = file.read_into(call, most, &mut held).map_err(|error| match error {
        ReadIntoError::OutOfMemory => out_of_memory_error(file),
        ReadIntoError::Read(error) => error,
    })?;
    Ok((held, ended))
}

fn returned_len(totals: &Totals, plan: &ReadPlan) -> u64 {
    if plan.base64 {
        return base64_len(totals.bytes);
    }
    if !plan.numbered {
        return totals.converted;
    }
    let mark = if totals.has_bom { BOM.len() as u64 } else { 0 };
    totals.converted - mark + number::prefixes_len(totals.lines)
}

/// Puts a number before every line. The byte order mark belongs to no line, so it is left out.
fn number_lines(bytes: &[u8]) -> Vec<u8> {
    let spec = WindowSpec {
        from: 1,
        to: u64::MAX,
        max_bytes: u64::MAX,
        measure: Measure::Raw,
        numbered: true,
        keep_bom: false,
    };
    let mut window = LineWindow::new(spec);
    window.push(bytes);
    window.finish(true).content
}

/// The first lines (for base64: bytes) within the budget. `ended`: `held` is the whole file.
fn set_head(view: &mut FileView, plan: &ReadPlan, held: &[u8], ended: bool, budget: u64) {
    let limit = if plan.budget_bytes == Some(budget) { TruncatedBy::BudgetBytes } else { TruncatedBy::MaxOutputBytes };
    if plan.base64 {
        let len = usize::try_from(base64_capacity(budget)).unwrap_or(usize::MAX).min(held.len());
        let mut tally = Tally::default();
        tally.push(&held[..len]);
        view.lines_returned = tally.finish().lines;
        // A file that shrank while it was read may fit after all.
        if !ended || len < held.len() {
            view.more_lines = true;
            view.next_byte = Some(len as u64);
            view.truncated_reason = Some(limit);
            view.hint = Some(format!("continue with byte_from: {len}"));
        }
        set_content(view, plan, held[..len].to_vec());
        return;
    }
    let spec = WindowSpec {
        from: 1,
        to: u64::MAX,
        max_bytes: budget,
        measure: Measure::Converted,
        numbered: plan.numbered,
        keep_bom: !plan.numbered,
    };
    let mut window = LineWindow::new(spec);
    window.push(held);
    set_window(view, plan, window.finish(ended), &ReadBudget::for_full(budget, Measure::Converted, limit));
}

fn read_over_cap(file: &JailFile, call: &Call, plan: &ReadPlan, size: u64, budget: u64) -> Result<FileView> {
    let cap = call.limits.max_read_bytes;
    if !plan.truncate {
        let text = format!(
            "{}: {size} bytes, above max_read_bytes ({cap}); read a window with line_from/line_to (or tail, \
             byte_from/byte_to), or pass truncate: true for the head",
            file.sent()
        );
        return Err(Error::new(Code::TooLarge, text));
    }
    let mut view = metadata_view(file);
    let (held, ended) = read_head(file, call, budget.saturating_add(BEYOND_BUDGET_BYTES))?;
    set_head(&mut view, plan, &held, ended, budget);
    if plan.etag || plan.count_lines {
        let (totals, etag) = read_totals(file, call)?;
        view.etag = plan.etag.then_some(etag);
        view.total_lines = plan.count_lines.then_some(totals.lines).or(view.total_lines);
    }
    Ok(view)
}

fn over_budget_error(file: &JailFile, totals: &Totals, returned: u64, budget: u64, cap: u64) -> Error {
    let text = format!(
        "{}: a full read returns {returned} bytes, above the budget of {budget} (max_output_bytes); the file has {} \
         bytes and {} lines. Read a window with line_from/line_to, probe with stat: true, pass truncate: true for the \
         head, or raise max_output_bytes for this call (up to {cap})",
        file.sent(),
        totals.bytes,
        totals.lines
    );
    Error::new(Code::TooLarge, text)
}

pub(super) fn out_of_memory_error(file: &JailFile) -> Error {
    let text = format!("{}: more than this worker's memory holds; read a window with line_from/line_to", file.sent());
    Error::new(Code::TooLarge, text)
}
