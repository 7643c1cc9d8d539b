//! The last lines. Found from the end backwards, so the tail of a large log costs its tail.

use super::{
    full, part,
    plan::ReadPlan,
    utf16_bytes,
    version::VersionSource,
    view::{ReadBudget, metadata_view, set_content},
};
use crate::{
    jail::{CHUNK_BYTES, Call, JailFile, ReadControl},
    ops::survey::survey,
    text::{
        BOM, Tally,
        tail::{FittedTail, TailFinder, fit_tail},
    },
    wire::{Error, Result, types::read_file::FileView},
};

pub(super) fn read(file: &JailFile, call: &Call, plan: &ReadPlan, lines: u64, budget: ReadBudget) -> Result<FileView> {
    if !plan.base64 && utf16_bytes::endian(file)?.is_some() {
        // Newlines of UTF-16 are not found from the end, so its lines are counted first.
        let last = survey(file, call)?.totals.lines;
        let from = (last + 1).saturating_sub(lines).max(1);
        return part::read_lines(file, call, plan, from, u64::MAX, budget);
    }
    let budget = budget.for_content(plan);
    let mut view = metadata_view(file);
    let mut end = file.stat().size_bytes;
    // Before the tail, so that the version is never newer than the content: an edit of old content must not succeed.
    let version = VersionSource::of(file, call, plan);
    // Line numbers count from the first line, so they need the whole file. A file with size 0 may be generated while it is
    // read; its end is only known after reading it.
    let surveyed = match plan.numbered || end == 0 {
        true => Some(survey(file, call)?),
        false => version.survey(file, call, plan)?,
    };
    match surveyed {
        Some(surveyed) => {
            end = surveyed.totals.bytes;
            (view.total_lines, view.etag) = (Some(surveyed.totals.lines), Some(surveyed.etag));
        }
        None => view.etag = version.stat_version(),
    }
    let floor = first_line_offset(file)?;
    let (start, cut) = find_start(file, call, TailFinder::new(lines, budget.max_bytes, end), floor, end)?;
    let bytes = read_range(file, call, start, end)?;
    if start == floor && view.total_lines.is_none() {
        let mut tally = Tally::default();
        tally.push(&bytes);
        view.total_lines = Some(tally.finish().lines);
    }
    let last_number = view.total_lines.filter(|_| plan.numbered);
    let fitted = fit_tail(&bytes, last_number, budget.max_bytes, budget.measure);
    if cut || fitted.cut {
        view.truncated_reason = Some(budget.limit);
        view.hint = Some(tail_hint(&fitted, lines, end, budget.max_bytes));
    }
    view.lines_returned = fitted.lines;
    set_content(&mut view, plan, fitted.content);
    Ok(view)
}

fn first_line_offset(file: &JailFile) -> Result<u64> {
    let mut head = [0; BOM.len()];
    let len = file.read_full_at(&mut head, 0)?;
    Ok(if head[..len] == *BOM { BOM.len() as u64 } else { 0 })
}

fn find_start(file: &JailFile, call: &Call, mut backward: TailFinder, floor: u64, end: u64) -> Result<(u64, bool)> {
    let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(end).unwrap_or(CHUNK_BYTES))];
    let mut cursor = end;
    while cursor > floor {
        call.checkpoint()?;
        let from = cursor.saturating_sub(buffer.len() as u64).max(floor);
        let chunk = &mut buffer[..(cursor - from) as usize];
        if file.read_full_at(chunk, from)? < chunk.len() {
            // The file has become shorter, so the bytes before this range are no longer its tail.
            return Err(Error::busy(file.sent()));
        }
        if backward.push(chunk) {
            return Ok(backward.finish());
        }
        cursor = from;
    }
    backward.reach(floor.min(end));
    Ok(backward.finish())
}

/// At most the room's bytes: `TailFinder` goes no further.
fn read_range(file: &JailFile, call: &Call, start: u64, end: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_chunks(call, start, end, |chunk| {
        bytes.try_reserve(chunk.len()).map_err(|_| full::out_of_memory_error(file))?;
        bytes.extend_from_slice(chunk);
        Ok(ReadControl::Continue)
    })?;
    Ok(bytes)
}

fn tail_hint(fitted: &FittedTail, wanted: u64, end: u64, cap: u64) -> String {
    if fitted.lines > 0 {
        format!("only the last {} of {wanted} lines fit; read earlier ones with line_from/line_to", fitted.lines)
    } else {
        format!("the last line alone is above the limit; read its end with byte_from: {}", end.saturating_sub(cap))
    }
}
