//! `read`: a header, the lines, and where they go on.

use serde::Deserialize;
use serde_json::json;

use super::{Asked, EntryError, Rendered, count, end_line};

/// One file, or the results of several. Not flattened: that would copy every content once more.
#[derive(Debug, Deserialize)]
pub(super) struct File {
    results: Option<Vec<File>>,
    #[serde(default)]
    path: String,
    content: Option<String>,
    encoding: Option<String>,
    is_utf8: Option<bool>,
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
    error: Option<EntryError>,
}

pub(super) fn render(asked: &Asked<'_>, reply: &File) -> Rendered {
    let Some(results) = &reply.results else {
        let mut text = String::with_capacity(reply.content.as_ref().map_or(0, String::len) + 200);
        one(asked, reply, &mut text);
        return Rendered::done(text);
    };
    let mut text = String::new();
    for file in results {
        end_line(&mut text);
        match &file.error {
            Some(error) => text.push_str(&error.text()),
            None => one(asked, file, &mut text),
        }
    }
    let is_error = !results.is_empty() && results.iter().all(|file| file.error.is_some());
    Rendered { text, is_error }
}

fn one(asked: &Asked<'_>, file: &File, text: &mut String) {
    text.push_str(&asked.path(&file.path));
    text.push_str(": ");
    text.push_str(&extent(file));
    if let Some(etag) = &file.etag {
        text.push_str(&format!(", etag {etag}"));
    }
    match (file.is_utf8, &file.encoding) {
        (Some(false), None) => text.push_str(
            "; not UTF-8: \u{fffd} stands for other bytes, which edits keep; encoding \"base64\" reads them",
        ),
        (_, Some(_)) => text.push_str(", base64"),
        _ => {}
    }
    text.push('\n');
    let Some(content) = &file.content else { return };
    text.push_str(content);
    if !file.more_lines && file.next_byte.is_none() {
        return;
    }
    end_line(text);
    let path = ("path", json!(asked.scope.show(&file.path)));
    let next = match (file.next_line, file.next_byte) {
        (_, Some(byte)) => {
            Some(asked.next(&[path, ("byte_from", json!(byte)), ("byte_to", json!(byte + NEXT_BYTES))]))
        }
        (Some(line), None) => {
            Some(asked.next(&[path, ("line_from", json!(line)), ("line_to", json!(line + NEXT_LINES - 1))]))
        }
        (None, None) => None,
    };
    match (next, &file.hint) {
        (Some(next), _) => text.push_str(&format!("… goes on; next: {next}\n")),
        (None, Some(hint)) => text.push_str(&format!("… {}\n", super::in_tool_words(hint))),
        (None, None) => {}
    }
}

/// Of the part that is offered next.
const NEXT_LINES: u64 = 400;
const NEXT_BYTES: u64 = 64 << 10;

impl Asked<'_> {
    /// A read of its own: nothing of the first one's window applies.
    fn next(&self, arguments: &[(&str, serde_json::Value)]) -> String {
        let members: serde_json::Map<_, _> =
            arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        format!("read {}", serde_json::Value::Object(members))
    }
}

/// Which part of the file this is.
fn extent(file: &File) -> String {
    let Some(content) = &file.content else {
        let lines = file.total_lines.map(|lines| format!(", {}", count(lines, "line"))).unwrap_or_default();
        return format!("{}{lines}, mode {:04o}", count(file.size, "byte"), file.mode);
    };
    let total = file.total_lines.map(|total| format!(" of {total}")).unwrap_or_default();
    match (file.lines_returned, first_number(content)) {
        (0, _) => format!("{}, {}", count(0, "line"), count(file.size, "byte")),
        (returned, Some(first)) => format!("lines {first}-{}{total}", first + returned - 1),
        (returned, None) => format!("{}{total}, {}", count(returned, "line"), count(file.size, "byte")),
    }
}

/// Of the line that numbered content begins with.
fn first_number(content: &str) -> Option<u64> {
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    content[digits..].starts_with('→').then(|| content[..digits].parse().ok())?
}
