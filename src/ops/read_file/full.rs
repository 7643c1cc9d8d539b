//! Reads a whole file in a call with only this file: returns all of it, or C213, or its head if `truncate` allows that.

use super::{
    plan::ReadPlan,
    utf16_bytes,
    version::VersionSource,
    view::{ReadBudget, base64_capacity, base64_len, metadata_view, set_charset, set_content, set_window},
};
use crate::{
    jail::{Call, JailFile, ReadControl, ReadIntoError},
    ops::survey::Survey,
    text::{
        BOM, Etag, LineWindow, Measure, Tally,
        charset::{self, Decoder},
        number,
        tally::Totals,
        window::WindowSpec,
    },
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
    let whole = read_content(file, call, plan, cap, budget)?;
    if whole.totals.bytes > cap {
        // The file grew while it was read.
        return read_over_cap(file, call, plan, whole.totals.bytes, budget);
    }
    let returned = returned_len(&whole.totals, plan);
    let mut view = metadata_view(file);
    view.etag = Some(whole.etag.clone());
    if returned > budget {
        if !plan.truncate {
            return Err(over_budget_error(file, &whole.totals, returned, budget, cap));
        }
        set_head(&mut view, (file, call), plan, &whole.head(), budget)?;
        view.total_lines = Some(whole.totals.lines);
        return Ok(view);
    }
    view.lines_returned = whole.totals.lines;
    view.total_lines = Some(whole.totals.lines);
    set_content(&mut view, plan, if plan.numbered { number_lines(&whole.text) } else { whole.text });
    set_charset(&mut view, &whole.decoder);
    Ok(view)
}

struct FullContent {
    /// The text of the file, or its head when it is above the budget; the bytes for base64.
    text: Vec<u8>,
    is_complete: bool,
    totals: Totals,
    etag: String,
    decoder: Decoder,
}

impl FullContent {
    fn head(&self) -> Head<'_> {
        Head { text: &self.text, is_complete: self.is_complete, decoder: &self.decoder }
    }
}

/// The beginning of a file.
struct Head<'a> {
    text: &'a [u8],
    is_complete: bool,
    decoder: &'a Decoder,
}

/// Reads the file up to one byte above `cap`, holding only what may be returned.
fn read_content(file: &JailFile, call: &Call, plan: &ReadPlan, cap: u64, budget: u64) -> Result<FullContent> {
    let most = budget.saturating_add(BEYOND_BUDGET_BYTES);
    let (held, ended) = read_head(file, call, most)?;
    if charset::utf16(&held).is_some() {
        return read_utf16(file, call, plan, held, ended, (cap, most));
    }
    let mut tally = Tally::default();
    tally.push(&held);
    let decoder = Decoder::default();
    if ended {
        let etag = Etag::of(&held);
        return Ok(FullContent { text: held, is_complete: true, totals: tally.finish(), etag, decoder });
    }
    let mut etag = Etag::default();
    etag.push(&held);
    file.read_chunks(call, held.len() as u64, cap.saturating_add(1), |chunk| {
        tally.push(chunk);
        etag.push(chunk);
        Ok(ReadControl::Continue)
    })?;
    let totals = tally.finish();
    let is_complete = held.len() as u64 == totals.bytes;
    Ok(FullContent { text: held, is_complete, totals, etag: etag.finish(), decoder })
}

/// Like `read_content`, for a UTF-16 file. Its first bytes are `held`. Holds at most `most` bytes of its text.
fn read_utf16(
    file: &JailFile,
    call: &Call,
    plan: &ReadPlan,
    held: Vec<u8>,
    ended: bool,
    (cap, most): (u64, u64),
) -> Result<FullContent> {
    let mut survey = Survey::default();
    let mut decoder = Decoder::default();
    let mut text = decoder.push(&held).to_vec();
    survey.push(&held);
    let mut is_complete = true;
    if !ended {
        file.read_chunks(call, held.len() as u64, cap.saturating_add(1), |chunk| {
            let part = survey.push(chunk);
            let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(text.len());
            is_complete &= part.len() <= room;
            text.extend_from_slice(&part[..part.len().min(room)]);
            Ok(ReadControl::Continue)
        })?;
    }
    text.extend_from_slice(survey.end());
    let decoder = survey.decoder().clone();
    let surveyed = survey.finish();
    let (text, is_complete) = if plan.base64 { (held, ended) } else { (text, is_complete) };
    Ok(FullContent { text, is_complete, totals: surveyed.totals, etag: surveyed.etag, decoder })
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

/// The first lines (for base64: bytes) within the budget.
fn set_head(
    view: &mut FileView,
    (file, call): (&JailFile, &Call),
    plan: &ReadPlan,
    head: &Head<'_>,
    budget: u64,
) -> Result<()> {
    let limit = if plan.budget_bytes == Some(budget) { TruncatedBy::BudgetBytes } else { TruncatedBy::MaxOutputBytes };
    if plan.base64 {
        let len = usize::try_from(base64_capacity(budget)).unwrap_or(usize::MAX).min(head.text.len());
        let mut tally = Tally::default();
        tally.push(&head.text[..len]);
        view.lines_returned = tally.finish().lines;
        // A file that shrank while it was read may fit after all.
        if !head.is_complete || len < head.text.len() {
            view.more_lines = true;
            view.next_byte = Some(len as u64);
            view.truncated_reason = Some(limit);
            view.hint = Some(format!("continue with byte_from: {len}"));
        }
        set_content(view, plan, head.text[..len].to_vec());
        return Ok(());
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
    window.push(head.text);
    let mut cut = window.finish(head.is_complete);
    if cut.has_more && head.decoder.endian().is_some() {
        cut.next_byte = utf16_bytes::offset_in_file(file, call, cut.next_byte)?;
    }
    set_window(view, plan, cut, &ReadBudget::for_full(budget, Measure::Converted, limit));
    set_charset(view, head.decoder);
    Ok(())
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
    // Before the head, so that the version is never newer than the content.
    let version = VersionSource::of(file, call, plan);
    let surveyed = version.survey(file, call, plan)?;
    let mut view = metadata_view(file);
    let (held, ended) = read_head(file, call, budget.saturating_add(BEYOND_BUDGET_BYTES))?;
    let mut decoder = Decoder::default();
    let text = if plan.base64 { held } else { decoder.push(&held).to_vec() };
    set_head(&mut view, (file, call), plan, &Head { text: &text, is_complete: ended, decoder: &decoder }, budget)?;
    match surveyed {
        Some(surveyed) => (view.etag, view.total_lines) = (Some(surveyed.etag), Some(surveyed.totals.lines)),
        None => view.etag = version.stat_version(),
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
