//! Text before the first line and after the last one.

use super::{Body, EchoShape, EditError, line_ops::last_style, splice::Splice};
use crate::text::lines::{self, Terminator};

/// The file then ends as `content` ends.
pub(super) fn append(body: &mut Body<'_>, op_index: usize, content: &str) -> Result<(), EditError> {
    if content.is_empty() {
        return Ok(());
    }
    let end = body.bytes.len();
    let is_unterminated = end > 0 && !body.bytes.ends_with(b"\n");
    let style = Terminator::at_end_of(&body.bytes).unwrap_or_else(|| last_style(&body.bytes));
    let mut splice = body.splice();
    let mut region = splice.replace(end..end, |out| {
        if is_unterminated {
            out.push(style.bytes());
        }
        push_text(out, content, style);
    });
    if is_unterminated {
        region.start += style.bytes().len();
    }
    let built = splice.finish()?;
    body.set(built);
    body.anchors.add(op_index, EchoShape::Region, region);
    Ok(())
}

/// Always whole lines: whether the file ends with a newline is not changed here.
pub(super) fn prepend(body: &mut Body<'_>, op_index: usize, content: &str) -> Result<(), EditError> {
    if content.is_empty() {
        return Ok(());
    }
    let first = &body.bytes[..lines::end_at(&body.bytes, 0)];
    let style = Terminator::at_end_of(first).unwrap_or(Terminator::Lf);
    let mut splice = body.splice();
    let region = splice.replace(0..0, |out| {
        push_text(out, content, style);
        if !content.ends_with('\n') {
            out.push(style.bytes());
        }
    });
    let built = splice.finish()?;
    body.set(built);
    body.anchors.add(op_index, EchoShape::Region, region);
    Ok(())
}

/// Text of a request, its newlines (LF or CRLF) in the style of the place it goes to.
pub(super) fn push_text(out: &mut Splice<'_>, text: &str, style: Terminator) {
    let mut rest = text.as_bytes();
    while let Some(lf) = memchr::memchr(b'\n', rest) {
        let (line, more) = rest.split_at(lf + 1);
        out.push(lines::text_of(line));
        out.push(style.bytes());
        rest = more;
    }
    out.push(rest);
}
