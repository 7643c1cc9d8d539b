//! From raw bytes to the fields of a result.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::plan::ReadPlan;
use crate::{
    jail::{Call, JailFile, ReadControl},
    ops::survey::charset,
    text::{Measure, charset::Decoder, utf8, window::WindowContent},
    wire::{
        Limits, Result,
        types::read_file::{Encoding, FileView, TruncatedBy},
    },
};

/// The bytes that a read may return, and the limit that sets this number.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadBudget {
    pub(super) max_bytes: u64,
    pub(super) measure: Measure,
    pub(super) limit: TruncatedBy,
    /// The budget that the same read would have in a call of its own.
    of_own_call: u64,
}

impl ReadBudget {
    /// Windows of a single read: bytes of text up to the budget of the call, or raw bytes up to `max_read_bytes`.
    pub(super) fn for_single(limits: &Limits, budget_bytes: Option<u64>) -> Self {
        let of_own_call = limits.max_read_bytes.min(budget_bytes.unwrap_or(u64::MAX));
        let (measure, limit) = match budget_bytes {
            Some(_) => (Measure::Converted, TruncatedBy::BudgetBytes),
            None => (Measure::Raw, TruncatedBy::MaxReadBytes),
        };
        Self { max_bytes: of_own_call, measure, limit, of_own_call }
    }

    /// A batch entry: bytes of text, out of what is left of the batch. `total` is the budget of all entries.
    pub(super) fn for_batch(limits: &Limits, remaining: u64, total: u64, is_shared: bool) -> Self {
        let (max_bytes, limit) = match (remaining <= limits.max_read_bytes, is_shared) {
            (true, true) => (remaining, TruncatedBy::BudgetBytes),
            (true, false) => (remaining, TruncatedBy::BatchReadBudgetBytes),
            (false, _) => (limits.max_read_bytes, TruncatedBy::MaxReadBytes),
        };
        Self { max_bytes, measure: Measure::Converted, limit, of_own_call: total.min(limits.max_read_bytes) }
    }

    /// True if a line that does not fit into this reply may fit into the reply to a call for this line alone.
    fn is_rest(&self) -> bool {
        self.max_bytes < self.of_own_call
    }

    /// A full read of one file, which has this budget alone.
    pub(super) fn for_full(max_bytes: u64, measure: Measure, limit: TruncatedBy) -> Self {
        Self { max_bytes, measure, limit, of_own_call: max_bytes }
    }

    /// The same budget in raw bytes, for content that becomes base64: the length of the text follows from theirs.
    pub(super) fn for_content(self, plan: &ReadPlan) -> Self {
        match self.measure {
            Measure::Converted if plan.base64 => {
                Self { max_bytes: base64_capacity(self.max_bytes), measure: Measure::Raw, ..self }
            }
            _ => self,
        }
    }
}

/// Most bytes whose base64 has at most `text_bytes`.
pub(super) fn base64_capacity(text_bytes: u64) -> u64 {
    text_bytes / 4 * 3
}

/// Bytes of the base64 of so many bytes.
pub(super) fn base64_len(bytes: u64) -> u64 {
    bytes.div_ceil(3).saturating_mul(4)
}

/// The fields that are known without reading the file.
pub(super) fn metadata_view(file: &JailFile) -> FileView {
    let stat = file.stat();
    FileView {
        size: stat.size_bytes,
        mode: stat.mode,
        mtime: stat.mtime,
        mtime_ns: stat.mtime_ns,
        ..FileView::default()
    }
}

pub(super) fn set_content(view: &mut FileView, plan: &ReadPlan, bytes: Vec<u8>) {
    let (mut content, is_utf8) = if plan.base64 {
        view.encoding = Some(Encoding::Base64);
        (STANDARD.encode(&bytes), std::str::from_utf8(&bytes).is_ok())
    } else {
        utf8::to_text(bytes)
    };
    // Shrinks the buffer, because a line that did not fit leaves a large one, and a batch holds up to a thousand results. A
    // smaller excess is not worth a copy.
    if content.capacity() > content.len() + content.len() / 4 {
        content.shrink_to_fit();
    }
    view.content = Some(content);
    view.is_utf8 = Some(is_utf8);
}

/// A window's fields. `budget` is what cut it, if it was cut.
pub(super) fn set_window(view: &mut FileView, plan: &ReadPlan, cut: WindowContent, budget: &ReadBudget) {
    view.lines_returned = cut.lines;
    view.total_lines = cut.total_lines;
    view.more_lines = cut.has_more;
    if cut.has_more {
        view.next_line = Some(cut.next_line);
    }
    if cut.over_budget {
        view.truncated_reason = Some(budget.limit);
        view.hint = Some(if cut.lines > 0 {
            format!("continue with line_from: {}", cut.next_line)
        } else if budget.is_rest() {
            format!(
                "line {0} does not fit into what is left of this batch; continue with line_from: {0} in a call of its own",
                cut.next_line
            )
        } else {
            view.next_byte = Some(cut.next_byte);
            format!(
                "line {} alone is above the limit; read it in pieces with byte_from: {} and byte_to",
                cut.next_line, cut.next_byte
            )
        });
    }
    set_content(view, plan, cut.content);
}

/// Adds the encoding if the content was decoded. The bytes of the file are then not UTF-8, although the text is.
pub(super) fn set_charset(view: &mut FileView, decoder: &Decoder) {
    let Some(charset) = charset(decoder) else { return };
    view.charset = Some(charset);
    view.replaced = decoder.has_replaced();
    view.is_utf8 = view.is_utf8.map(|_| false);
}

/// Adds the end of a line that alone is above the limit, so that the client can read this line and nothing else by its bytes.
pub(super) fn add_line_end(view: &mut FileView, file: &JailFile, call: &Call) -> Result<()> {
    let (Some(begin), Some(_)) = (view.next_byte, view.next_line) else { return Ok(()) };
    // A byte of UTF-16 can have the value of a newline.
    if view.charset.is_some() {
        return Ok(());
    }
    let (mut at, mut end) = (begin, None);
    file.read_chunks(call, begin, begin.saturating_add(call.limits.max_read_bytes), |chunk| {
        end = memchr::memchr(b'\n', chunk).map(|offset| at + offset as u64 + 1);
        at += chunk.len() as u64;
        Ok(if end.is_some() { ReadControl::Stop } else { ReadControl::Continue })
    })?;
    view.line_end = end.or((at >= view.size).then_some(at));
    Ok(())
}
