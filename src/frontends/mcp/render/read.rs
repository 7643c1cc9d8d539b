//! `read`: a header, the lines, and where they go on.

use serde::Deserialize;

use super::{
    EncodedText, JsonObject, JsonText, McpEntryError, RenderContext, RenderedReply, counted, hidden::HiddenCharacters,
    render_call,
};
use crate::frontends::escape::escape_text;

/// One file, or the results of several. Not flattened: that would copy every content once more.
#[derive(Debug, Deserialize)]
pub(super) struct McpReadResult<'a> {
    #[serde(borrow)]
    results: Option<Vec<McpReadResult<'a>>>,
    #[serde(default)]
    path: String,
    #[serde(borrow)]
    content: Option<EncodedText<'a>>,
    encoding: Option<String>,
    is_utf8: Option<bool>,
    charset: Option<String>,
    #[serde(default)]
    replaced: bool,
    #[serde(default)]
    lines_returned: u64,
    total_lines: Option<u64>,
    #[serde(default)]
    more_lines: bool,
    next_line: Option<u64>,
    next_byte: Option<u64>,
    hint: Option<String>,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    mode: u32,
    etag: Option<String>,
    error: Option<McpEntryError>,
}

pub(super) fn render(asked: &RenderContext<'_>, reply: McpReadResult<'_>) -> RenderedReply {
    let mut text = JsonText::default();
    let Some(results) = reply.results else {
        push_file(asked, &reply, &mut text);
        return RenderedReply { text, is_error: false };
    };
    for file in &results {
        text.end_line();
        match &file.error {
            Some(error) => text.push(&error.render(asked)),
            None => push_file(asked, file, &mut text),
        }
    }
    let is_error = !results.is_empty() && results.iter().all(|file| file.error.is_some());
    RenderedReply { text, is_error }
}

fn push_file(asked: &RenderContext<'_>, file: &McpReadResult<'_>, text: &mut JsonText) {
    text.push(&render_header(asked, file));
    let Some(content) = file.content else { return };
    // Before the content, which could imitate it.
    if let Some(warning) = hidden_warning(asked, file, content) {
        text.push(&warning);
    }
    text.push_encoded(content);
    if let Some(ending) = render_continuation(asked, file) {
        text.end_line();
        text.push(&ending);
    }
}

fn render_header(asked: &RenderContext<'_>, file: &McpReadResult<'_>) -> String {
    let mut text = String::with_capacity(200);
    text.push_str(&asked.show_path(&file.path));
    text.push_str(": ");
    text.push_str(&describe_extent(file));
    if let Some(etag) = &file.etag {
        text.push_str(&format!(", etag {}", escape_text(etag)));
    }
    match (file.is_utf8, &file.encoding) {
        (_, None) if file.charset.is_some() => {
            text.push_str(&format!(", {}", escape_text(file.charset.as_deref().unwrap_or_default())));
            if file.replaced {
                text.push_str("; \u{fffd} stands for what is no character, which edits keep");
            }
        }
        (Some(false), None) => text
            .push_str("; not UTF-8: \u{fffd} stands for other bytes, which edits keep; encoding \"base64\" reads them"),
        (_, Some(_)) => text.push_str(", base64"),
        _ => {}
    }
    text.push('\n');
    text
}

/// Lines are named by their numbers, or where they have none, counted from the first that is shown.
fn hidden_warning(asked: &RenderContext<'_>, file: &McpReadResult<'_>, content: EncodedText<'_>) -> Option<String> {
    let mut hidden = HiddenCharacters::default();
    let path = asked.show_path(&file.path);
    match first_line_number(content.as_str()) {
        Some(first) => hidden.scan_json(content, |behind| format!("{path}:{}", first + behind)),
        None => hidden.scan_json(content, |behind| format!("line {} of this part of {path}", behind + 1)),
    }
    hidden.warning()
}

/// How to go on, if there is more.
fn render_continuation(asked: &RenderContext<'_>, file: &McpReadResult<'_>) -> Option<String> {
    if !file.more_lines && file.next_byte.is_none() {
        return None;
    }
    let path = asked.scope.shorten(&file.path);
    let next = match (file.next_line, file.next_byte) {
        (_, Some(byte)) => Some(render_read_call(path, ["byte_from", "byte_to"], [byte, byte + NEXT_BYTES])),
        (Some(line), None) => Some(render_read_call(path, ["line_from", "line_to"], [line, line + NEXT_LINES - 1])),
        (None, None) => None,
    };
    Some(match (next, &file.hint) {
        (Some(next), _) => format!("… goes on; next: {next}\n"),
        (None, Some(hint)) => format!("… {}\n", asked.translate(hint)),
        (None, None) => String::new(),
    })
}

/// Of the part that is offered next.
const NEXT_LINES: u64 = 400;
const NEXT_BYTES: u64 = 64 << 10;

/// A read of its own: nothing of the first one's window applies.
fn render_read_call(path: &str, window: [&str; 2], [from, to]: [u64; 2]) -> String {
    let mut arguments = JsonObject::default();
    arguments.set("path", &path);
    arguments.set(window[0], &from);
    arguments.set(window[1], &to);
    render_call("read", &arguments)
}

/// Which part of the file this is.
fn describe_extent(file: &McpReadResult<'_>) -> String {
    let Some(content) = file.content else {
        let lines = file.total_lines.map(|lines| format!(", {}", counted(lines, "line"))).unwrap_or_default();
        return format!("{}{lines}, mode {:04o}", counted(file.size, "byte"), file.mode);
    };
    let total = file.total_lines.map(|total| format!(" of {total}")).unwrap_or_default();
    match (file.lines_returned, first_line_number(content.as_str())) {
        // A window behind the end: an empty file looks otherwise.
        (0, _) if !file.more_lines && file.hint.is_some() => escape_text(file.hint.as_deref().unwrap_or_default()),
        (0, _) => format!("{}, {}", counted(0, "line"), counted(file.size, "byte")),
        (returned, Some(first)) => format!("lines {first}-{}{total}", first + returned - 1),
        (returned, None) => format!("{}{total}, {}", counted(returned, "line"), counted(file.size, "byte")),
    }
}

/// Of the line that numbered content begins with.
fn first_line_number(content: &str) -> Option<u64> {
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    content[digits..].starts_with('→').then(|| content[..digits].parse().ok())?
}
