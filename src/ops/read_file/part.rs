//! Reads everything except a single full file: metadata alone, lines, the tail, bytes, and the files of a batch. Content that
//! does not fit is cut, and the reply says where to continue.

use super::{
    plan::{ReadPlan, ReadShape},
    tail,
    utf16_bytes::{self, Units},
    version::{VersionSource, most_unasked},
    view::{ReadBudget, metadata_view, set_charset, set_content, set_window},
};
use crate::{
    jail::{Call, JailFile, ReadControl},
    ops::survey::Survey,
    text::{LineWindow, Tally, charset::Decoder, utf8, window::WindowSpec},
    wire::{Result, types::read_file::FileView},
};

/// Bytes read after the window. They show whether the file continues, and whether the character at the cut is complete.
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

/// Reads the metadata of a file, without its content.
fn read_metadata(file: &JailFile, call: &Call, plan: &ReadPlan) -> Result<FileView> {
    let mut view = metadata_view(file);
    let version = VersionSource::of(file, call, plan);
    let is_asked = plan.etag || plan.count_lines;
    if !is_asked && version != VersionSource::Content && file.stat().size_bytes > call.limits.max_read_bytes {
        view.etag = version.stat_version();
        return Ok(view);
    }
    let mut survey = Survey::default();
    let read_to = if is_asked { u64::MAX } else { most_unasked(call).saturating_add(1) };
    let ended = file.read_chunks(call, 0, read_to, |chunk| {
        survey.push(chunk);
        Ok(ReadControl::Continue)
    })?;
    if !ended {
        // The file has grown.
        return Ok(view);
    }
    survey.end();
    set_charset(&mut view, survey.decoder());
    let surveyed = survey.finish();
    view.total_lines = Some(surveyed.totals.lines);
    view.is_utf8 = Some(surveyed.totals.is_utf8);
    view.etag = Some(surveyed.etag);
    Ok(view)
}

/// Reads lines as a stream: lines before the window are skipped without being held.
pub(super) fn read_lines(
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
    let version = VersionSource::of(file, call, plan);
    let is_asked = plan.etag || plan.count_lines;
    let to_the_end = is_asked || version == VersionSource::Content;
    // A batch entry without a window is read whole anyway, unless it does not fit.
    let is_surveyed = to_the_end || plan.shape == ReadShape::Full;
    let (mut survey, mut decoder) = (Survey::default(), Decoder::default());
    let mut done = false;
    let ended = file.read_chunks(call, 0, u64::MAX, |chunk| {
        let text = if is_surveyed { survey.push(chunk) } else { decoder.push(chunk) };
        done = done || window.push(if plan.base64 { chunk } else { text });
        // A file that reports no size may have no end, so it is read only this far for a version that the caller did not ask
        // for.
        let goes_on = is_asked || (to_the_end && survey.bytes() <= most_unasked(call));
        Ok(if done && !goes_on { ReadControl::Stop } else { ReadControl::Continue })
    })?;
    if ended {
        let text = if is_surveyed { survey.end() } else { decoder.finish() };
        if !done && !plan.base64 {
            window.push(text);
        }
    }
    let decoder = if is_surveyed { survey.decoder() } else { &decoder };
    let mut cut = window.finish(ended);
    if cut.has_more && decoder.endian().is_some() && !plan.base64 {
        cut.next_byte = utf16_bytes::offset_in_file(file, call, cut.next_byte)?;
    }
    let mut view = metadata_view(file);
    set_window(&mut view, plan, cut, &budget);
    set_charset(&mut view, decoder);
    if is_surveyed && ended {
        let surveyed = survey.finish();
        view.etag = Some(surveyed.etag);
        view.total_lines = Some(surveyed.totals.lines);
    } else {
        view.etag = version.stat_version();
    }
    if view.lines_returned == 0 && !view.more_lines && plan.shape != ReadShape::Full {
        view.hint = Some(match view.total_lines {
            None | Some(0) => "the file has no lines".into(),
            Some(last) => format!("line_from {from} is behind the end of the file: its last line is {last}"),
        });
    }
    Ok(view)
}

/// Reads bytes. A cut in text falls between two characters.
fn read_bytes(
    file: &JailFile,
    call: &Call,
    plan: &ReadPlan,
    from: u64,
    to: u64,
    budget: ReadBudget,
) -> Result<FileView> {
    let budget = budget.for_content(plan);
    // Before the window, so that the version is never newer than the content: an edit of old content must not succeed.
    let version = VersionSource::of(file, call, plan);
    let surveyed = version.survey(file, call, plan)?;
    let endian = if plan.base64 { None } else { utf16_bytes::endian(file)? };
    let asked = to - from;
    let read_to = from.saturating_add(asked.min(budget.max_bytes)).saturating_add(READ_AHEAD_BYTES);
    let mut held = Vec::new();
    let ended = file.read_chunks(call, from, read_to, |chunk| {
        held.extend_from_slice(chunk);
        Ok(ReadControl::Continue)
    })?;
    let available = &held[..len_within(held.len(), asked)];
    let units = endian.map(|endian| Units::read((&held, available.len()), from, ended, endian, budget));
    let len = match &units {
        Some(units) => units.len,
        None if plan.base64 => len_within(available.len(), budget.max_bytes),
        None => utf8::prefix_within(available, budget.max_bytes, budget.measure),
    };
    let cut = len < available.len();
    // The text of UTF-16 may be shorter than its bytes, so that all that was read fits.
    let more = len < held.len() || (units.is_some() && !ended);
    let mut view = metadata_view(file);
    let next_byte = from + len as u64;
    view.more_lines = more;
    view.next_byte = more.then_some(next_byte);
    if cut {
        view.truncated_reason = Some(budget.limit);
        view.hint = Some(format!("continue with byte_from: {next_byte}"));
    } else if held.is_empty() && plan.shape != ReadShape::Full {
        view.hint = Some(format!("byte_from {from} is behind the end of the file: it has {} bytes", view.size));
    }
    held.truncate(len);
    let decoded = units.map(|units| (units.text, units.charset, units.has_replaced));
    let (content, charset) = match decoded {
        None => (held, None),
        Some((text, charset, replaced)) => (text, Some((charset, replaced))),
    };
    view.lines_returned = count_lines(&content);
    (view.etag, view.total_lines) = match surveyed {
        Some(surveyed) => (Some(surveyed.etag), Some(surveyed.totals.lines)),
        None => (version.stat_version(), (from == 0 && !more).then_some(view.lines_returned)),
    };
    set_content(&mut view, plan, content);
    if let Some((charset, replaced)) = charset {
        (view.is_utf8, view.charset, view.replaced) = (Some(false), Some(charset), replaced);
    }
    Ok(view)
}

fn count_lines(text: &[u8]) -> u64 {
    let mut tally = Tally::default();
    tally.push(text);
    tally.finish().lines
}

fn len_within(len: usize, cap: u64) -> usize {
    usize::try_from(cap).unwrap_or(usize::MAX).min(len)
}
