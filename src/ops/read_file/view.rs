//! From raw bytes to the fields of a result.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::plan::ReadPlan;
use crate::{
    jail::JailFile,
    ops::survey::charset,
    text::{Measure, charset::Decoder, utf8, window::WindowContent},
    wire::{
        Limits,
        types::read_file::{Encoding, FileView, TruncatedBy},
    },
};

/// How much a read may collect, and which limit says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadBudget {
    pub(super) max_bytes: u64,
    pub(super) measure: Measure,
    pub(super) limit: TruncatedBy,
}

impl ReadBudget {
    /// Windows of a single read: raw bytes, up to `max_read_bytes`.
    pub(super) fn for_single(limits: &Limits) -> Self {
        Self { max_bytes: limits.max_read_bytes, measure: Measure::Raw, limit: TruncatedBy::MaxReadBytes }
    }

    /// A batch entry: bytes of text, out of what is left of the batch.
    pub(super) fn for_batch(limits: &Limits, remaining: u64) -> Self {
        let (max_bytes, limit) = if remaining <= limits.max_read_bytes {
            (remaining, TruncatedBy::BatchReadBudgetBytes)
        } else {
            (limits.max_read_bytes, TruncatedBy::MaxReadBytes)
        };
        Self { max_bytes, measure: Measure::Converted, limit }
    }

    /// The same room in raw bytes, for content that will be base64: there the text's length follows from theirs.
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

/// What is known without reading.
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
    // A line that did not fit leaves its room behind; a thousand results of a batch would hold the budget each. Less is
    // not worth a copy.
    if content.capacity() > content.len() + content.len() / 4 {
        content.shrink_to_fit();
    }
    view.content = Some(content);
    view.is_utf8 = Some(is_utf8);
}

/// A window's fields. `limit` is the limit to name when it was cut.
pub(super) fn set_window(view: &mut FileView, plan: &ReadPlan, cut: WindowContent, limit: TruncatedBy) {
    view.lines_returned = cut.lines;
    view.total_lines = cut.total_lines;
    view.more_lines = cut.has_more;
    if cut.has_more {
        view.next_line = Some(cut.next_line);
    }
    if cut.over_budget {
        view.truncated_reason = Some(limit);
        view.hint = Some(if cut.lines > 0 {
            format!("continue with line_from: {}", cut.next_line)
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

/// Names the encoding, if the content was decoded. Its bytes are not UTF-8 then, whatever the text is.
pub(super) fn set_charset(view: &mut FileView, decoder: &Decoder) {
    let Some(charset) = charset(decoder) else { return };
    view.charset = Some(charset);
    view.replaced = decoder.has_replaced();
    view.is_utf8 = view.is_utf8.map(|_| false);
}
