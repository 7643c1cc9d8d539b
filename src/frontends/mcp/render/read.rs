//! `read`: a header, the lines, and where they go on.

use serde::Deserialize;

use super::{Asked, EntryError, JsonText, Object, Rendered, Written, count, hidden::Hidden, spelled};
use crate::frontends::escape::one_line;

/// One file, or the results of several. Not flattened: that would copy every content once more.
#[derive(Debug, Deserialize)]
pub(super) struct File<'a> {
    #[serde(borrow)]
    results: Option<Vec<File<'a>>>,
    #[serde(default)]
    path: String,
    #[serde(borrow)]
    content: Option<Written<'a>>,
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

pub(super) fn render(asked: &Asked<'_>, reply: File<'_>) -> Rendered {
    let mut text = JsonText::default();
    let Some(results) = reply.results else {
        push(asked, &reply, &mut text);
        return Rendered { text, is_error: false };
    };
    for file in &results {
        text.end_line();
        match &file.error {
            Some(error) => text.push(&error.text(asked)),
            None => push(asked, file, &mut text),
        }
    }
    let is_error = !results.is_empty() && results.iter().all(|file| file.error.is_some());
    Rendered { text, is_error }
}

fn push(asked: &Asked<'_>, file: &File<'_>, text: &mut JsonText) {
    text.push(&header(asked, file));
    let Some(content) = file.content else { return };
    // Before the content, which could imitate it.
    if let Some(warning) = warning(asked, file, content) {
        text.push(&warning);
    }
    text.push_written(content);
    if let Some(ending) = ending(asked, file) {
        text.end_line();
        text.push(&ending);
    }
}

fn header(asked: &Asked<'_>, file: &File<'_>) -> String {
    let mut text = String::with_capacity(200);
    text.push_str(&asked.path(&file.path));
    text.push_str(": ");
    text.push_str(&extent(file));
    if let Some(etag) = &file.etag {
        text.push_str(&format!(", etag {}", one_line(etag)));
    }
    match (file.is_utf8, &file.encoding) {
        (Some(false), None) => text.push_str(
            "; not UTF-8: \u{fffd} stands for other bytes, which edits keep; encoding \"base64\" reads them",
        ),
        (_, Some(_)) => text.push_str(", base64"),
        _ => {}
    }
    text.push('\n');
    text
}

/// Lines are named by their numbers, or where they have none, counted from the first that is shown.
fn warning(asked: &Asked<'_>, file: &File<'_>, content: Written<'_>) -> Option<String> {
    let mut hidden = Hidden::default();
    let path = asked.path(&file.path);
    match first_number(content.as_str()) {
        Some(first) => hidden.scan_json(content, |behind| format!("{path}:{}", first + behind)),
        None => hidden.scan_json(content, |behind| format!("line {} of this part of {path}", behind + 1)),
    }
    hidden.warning()
}

/// How to go on, if there is more.
fn ending(asked: &Asked<'_>, file: &File<'_>) -> Option<String> {
    if !file.more_lines && file.next_byte.is_none() {
        return None;
    }
    let path = asked.scope.show(&file.path);
    let next = match (file.next_line, file.next_byte) {
        (_, Some(byte)) => Some(part(path, ["byte_from", "byte_to"], [byte, byte + NEXT_BYTES])),
        (Some(line), None) => Some(part(path, ["line_from", "line_to"], [line, line + NEXT_LINES - 1])),
        (None, None) => None,
    };
    Some(match (next, &file.hint) {
        (Some(next), _) => format!("… goes on; next: {next}\n"),
        (None, Some(hint)) => format!("… {}\n", asked.words(hint)),
        (None, None) => String::new(),
    })
}

/// Of the part that is offered next.
const NEXT_LINES: u64 = 400;
const NEXT_BYTES: u64 = 64 << 10;

/// A read of its own: nothing of the first one's window applies.
fn part(path: &str, window: [&str; 2], [from, to]: [u64; 2]) -> String {
    let mut arguments = Object::default();
    arguments.set("path", &path);
    arguments.set(window[0], &from);
    arguments.set(window[1], &to);
    spelled("read", &arguments)
}

/// Which part of the file this is.
fn extent(file: &File<'_>) -> String {
    let Some(content) = file.content else {
        let lines = file.total_lines.map(|lines| format!(", {}", count(lines, "line"))).unwrap_or_default();
        return format!("{}{lines}, mode {:04o}", count(file.size, "byte"), file.mode);
    };
    let total = file.total_lines.map(|total| format!(" of {total}")).unwrap_or_default();
    match (file.lines_returned, first_number(content.as_str())) {
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
