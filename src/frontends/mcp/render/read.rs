//! `read`: a header, the lines, and where they go on. What a reply left out is named by the call that reads it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    EncodedText, JsonObject, JsonText, McpEntryError, RenderContext, RenderedReply, counted, hidden::HiddenCharacters,
    render_call,
};
use crate::frontends::{
    escape::escape_text,
    mcp::reading::{AskedWindow, Media, ShownImage},
};

/// One file, or the results of several. Not flattened: that would copy every content once more.
#[derive(Debug, Deserialize)]
pub(in crate::frontends::mcp) struct McpReadResult<'a> {
    #[serde(borrow)]
    results: Option<Vec<McpReadResult<'a>>>,
    #[serde(default)]
    pub(in crate::frontends::mcp) path: String,
    pub(in crate::frontends::mcp) path_bytes: Option<String>,
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
    /// With `next_byte`: where the line ends that alone is above the limit.
    line_end: Option<u64>,
    truncated_reason: Option<String>,
    #[serde(default)]
    pub(in crate::frontends::mcp) size: u64,
    #[serde(default)]
    mode: u32,
    etag: Option<String>,
    error: Option<McpEntryError>,
}

impl<'a> McpReadResult<'a> {
    pub(in crate::frontends::mcp) fn parse(result: &'a RawValue) -> Option<Self> {
        super::parse_result(result)
    }

    /// The files of a batch, or the one file.
    pub(in crate::frontends::mcp) fn files(&self) -> &[Self] {
        self.results.as_deref().unwrap_or(std::slice::from_ref(self))
    }

    /// True if the content has a NUL or bytes that are not UTF-8.
    pub(in crate::frontends::mcp) fn may_be_binary(&self) -> bool {
        let has_nul =
            |content: EncodedText<'_>| memchr::memmem::find(content.as_str().as_bytes(), b"\\u0000").is_some();
        self.is_utf8 == Some(false) || self.content.is_some_and(has_nul)
    }
}

/// The windows that a read asked for, file by file, and the media found in binary files.
#[derive(Debug, Clone, Copy)]
pub(in crate::frontends::mcp) struct ReadParts<'p> {
    pub(in crate::frontends::mcp) windows: &'p [AskedWindow],
    pub(in crate::frontends::mcp) media: &'p [Option<Media>],
    /// The call that reads the paths that this one left out.
    pub(in crate::frontends::mcp) rest: Option<&'p str>,
}

pub(in crate::frontends::mcp) fn render(
    context: &RenderContext<'_>,
    reply: &McpReadResult<'_>,
    parts: ReadParts<'_>,
) -> RenderedReply {
    let mut text = JsonText::default();
    let mut images = Vec::new();
    let files = reply.files();
    for (index, file) in files.iter().enumerate() {
        text.end_line();
        let window = parts.windows.get(index).cloned().unwrap_or_default();
        match (&file.error, parts.media.get(index)) {
            (Some(error), _) => text.push(&error.render(context)),
            (None, Some(Some(media))) => text.push(&render_media(context, file, media, &mut images)),
            (None, _) => push_file(context, file, &window, &mut text),
        }
    }
    if let Some(rest) = parts.rest {
        text.end_line();
        text.push(rest);
    }
    let is_error = !files.is_empty() && files.iter().all(|file| file.error.is_some());
    RenderedReply { text, images, is_error }
}

fn push_file(context: &RenderContext<'_>, file: &McpReadResult<'_>, window: &AskedWindow, text: &mut JsonText) {
    text.push(&render_header(context, file, window));
    let Some(content) = file.content else { return };
    // Before the content, which could imitate it.
    if let Some(warning) = hidden_warning(context, file, content) {
        text.push(&warning);
    }
    text.push_encoded(content);
    if let Some(ending) = render_continuation(context, file, window) {
        text.end_line();
        text.push(&ending);
    }
}

fn render_header(context: &RenderContext<'_>, file: &McpReadResult<'_>, window: &AskedWindow) -> String {
    let mut text = String::with_capacity(200);
    text.push_str(&context.show_path(&file.path));
    text.push_str(": ");
    text.push_str(&describe_extent(file, window));
    push_etag(file, &mut text);
    match (file.is_utf8, file.encoding.as_deref()) {
        (_, None) if file.charset.is_some() => {
            text.push_str(&format!(", {}", escape_text(file.charset.as_deref().unwrap_or_default())));
            if file.replaced {
                text.push_str("; \u{fffd} stands for what is no character, which edits keep");
            }
        }
        (Some(false), None) => text
            .push_str("; not UTF-8: \u{fffd} stands for other bytes, which edits keep; encoding \"base64\" reads them"),
        (_, Some("base64")) => text.push_str(", base64"),
        _ => {}
    }
    text.push('\n');
    text
}

fn push_etag(file: &McpReadResult<'_>, text: &mut String) {
    if let Some(etag) = &file.etag {
        text.push_str(&format!(", etag {}", escape_text(etag)));
    }
}

/// One line about a file that is not text. Its image, if it is one, is added to `images`.
fn render_media(
    context: &RenderContext<'_>,
    file: &McpReadResult<'_>,
    media: &Media,
    images: &mut Vec<ShownImage>,
) -> String {
    let mut text = format!("{}: ", context.show_path(&file.path));
    let base64 = || next_read(context, file, &AskedWindow::base64(), &[]);
    match media {
        Media::Image { kind, dimensions, data } => {
            text.push_str(kind.name());
            if let Some((width, height)) = dimensions {
                text.push_str(&format!(", {width}×{height}"));
            }
            text.push_str(&format!(", {}", counted(file.size, "byte")));
            push_etag(file, &mut text);
            match data {
                Some(data) => images.push(ShownImage { mime_type: kind.mime_type(), data: data.clone() }),
                None => text.push_str(&format!("; too large to be shown here; next: {}", base64())),
            }
        }
        Media::Binary { kind } => {
            text.push_str(&format!("{kind}, {}", counted(file.size, "byte")));
            push_etag(file, &mut text);
            text.push_str(&format!("; not shown as text; next: {}", base64()));
        }
    }
    text.push('\n');
    text
}

/// Lines are named by their numbers, or where they have none, counted from the first that is shown.
fn hidden_warning(context: &RenderContext<'_>, file: &McpReadResult<'_>, content: EncodedText<'_>) -> Option<String> {
    let mut hidden = HiddenCharacters::default();
    let path = context.show_path(&file.path);
    match first_line_number(content.as_str()) {
        Some(first) => hidden.scan_json(content, |behind| format!("{path}:{}", first + behind)),
        None => hidden.scan_json(content, |behind| format!("line {} of this part of {path}", behind + 1)),
    }
    hidden.warning()
}

/// The call that reads what was left out of what was asked for.
fn render_continuation(context: &RenderContext<'_>, file: &McpReadResult<'_>, window: &AskedWindow) -> Option<String> {
    let call = |fields: &[(&str, Option<u64>)]| next_read(context, file, window, fields);
    let is_cut = file.truncated_reason.is_some();
    if let (Some(lines), true) = (window.tail, is_cut) {
        let (total, shown) = (file.total_lines?, file.lines_returned);
        let first = total.saturating_sub(lines).saturating_add(1);
        let last = (shown > 0).then(|| total.saturating_sub(shown));
        let next = call(&[("line_from", Some(first)), ("line_to", last)]);
        return Some(format!("… these are the last {}; the lines before them: next: {next}\n", counted(shown, "line")));
    }
    if window.is_of_bytes() || window.is_base64() {
        let next = file.next_byte.filter(|_| is_cut)?;
        return Some(format!("… goes on; next: {}\n", call(&[("byte_from", Some(next)), ("byte_to", window.byte_to)])));
    }
    match (file.next_line, file.next_byte) {
        (Some(line), Some(begin)) if is_cut => {
            let pieces = call(&[("byte_from", Some(begin)), ("byte_to", file.line_end)]);
            let mut text = format!("… line {line} alone is too long for a reply; its bytes: next: {pieces}\n");
            let goes_on =
                file.line_end.is_some_and(|end| end < file.size) && window.line_to.is_none_or(|last| last > line);
            if goes_on {
                let behind = call(&[("line_from", Some(line + 1)), ("line_to", window.line_to)]);
                text.push_str(&format!("… the lines behind it: next: {behind}\n"));
            }
            Some(text)
        }
        (Some(line), _) if is_cut => {
            Some(format!("… goes on; next: {}\n", call(&[("line_from", Some(line)), ("line_to", window.line_to)])))
        }
        _ => None,
    }
}

/// A read of a part of the same file, in the form that was asked for.
fn next_read(
    context: &RenderContext<'_>,
    file: &McpReadResult<'_>,
    window: &AskedWindow,
    fields: &[(&str, Option<u64>)],
) -> String {
    let mut arguments = JsonObject::default();
    match &file.path_bytes {
        Some(bytes) => arguments.set("path_bytes", bytes),
        None => arguments.set("path", &context.scope.shorten(&file.path)),
    }
    for (name, value) in fields {
        if let Some(value) = value {
            arguments.set(name, value);
        }
    }
    if let Some(encoding) = &window.encoding {
        arguments.set("encoding", encoding);
    }
    if window.is_plain && !fields.iter().any(|(name, _)| name.starts_with("byte_")) {
        arguments.set("numbered", &false);
    }
    render_call("read", &arguments)
}

/// Which part of the file this is.
fn describe_extent(file: &McpReadResult<'_>, window: &AskedWindow) -> String {
    let Some(content) = file.content else {
        let lines = file.total_lines.map(|lines| format!(", {}", counted(lines, "line"))).unwrap_or_default();
        return format!("{}{lines}, mode {:04o}", counted(file.size, "byte"), file.mode);
    };
    let total = match file.total_lines {
        Some(total) => format!(" of {total}"),
        None if file.more_lines => ", more follow".into(),
        None => String::new(),
    };
    if window.is_of_bytes() || window.is_base64() {
        let first = window.byte_from.unwrap_or(0).min(file.size);
        let asked = window.byte_to.unwrap_or(file.size).min(file.size);
        return format!("bytes {first}-{} of {}", file.next_byte.unwrap_or(asked).max(first), file.size);
    }
    match (file.lines_returned, first_line_number(content.as_str()), window.line_from) {
        (0, _, Some(first)) if file.total_lines.is_some_and(|total| first > total) => {
            let last = file.total_lines.unwrap_or(0);
            format!("no line {first}; the file has {}", counted(last, "line"))
        }
        (0, ..) if file.size == 0 => "empty".into(),
        (0, ..) => format!("{}, {}", counted(0, "line"), counted(file.size, "byte")),
        (returned, Some(first), _) => format!("lines {first}-{}{total}", first + returned - 1),
        (returned, None, _) => format!("{}{total}, {}", counted(returned, "line"), counted(file.size, "byte")),
    }
}

/// The number of the first line of numbered content.
fn first_line_number(content: &str) -> Option<u64> {
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    content[digits..].starts_with('→').then(|| content[..digits].parse().ok())?
}
