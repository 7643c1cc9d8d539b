//! `read`: a header, the lines, and where they go on.

use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{Asked, EntryError, Rendered, Written, count, end_line, hidden::Hidden, spelled};
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

/// None if the reply is of a shape that is not known.
pub(super) fn render<'r>(asked: &Asked<'_>, reply: &'r RawValue) -> Option<Rendered<'r>> {
    match apart(reply.get()) {
        Some((rest, content)) => {
            let file: File<'_> = serde_json::from_str(&rest).ok()?;
            Some(one(asked, &file, Some(content)))
        }
        None => super::parse(reply).map(|reply| all(asked, reply)),
    }
}

/// The reply about one file without its content, and that: nearly all of the reply, which is known to be JSON and need not be
/// looked at a second time, character by character.
fn apart(reply: &str) -> Option<(String, Written<'_>)> {
    const MEMBER: &str = "\"content\":";
    // Inside of a string the quotes would be escaped, so this is the name of a member.
    let at = reply.find(MEMBER)? + MEMBER.len();
    let content = Written::at_start_of(reply[at..].strip_prefix('"')?)?;
    let (before, behind) = (&reply[..at], &reply[at + content.as_str().len() + 2..]);
    // Of the outermost object, if no other has begun.
    let is_outermost = !before.get(1..)?.contains(['{', '[']);
    is_outermost.then(|| ([before, "null", behind].concat(), content))
}

fn all<'r>(asked: &Asked<'_>, reply: File<'r>) -> Rendered<'r> {
    let Some(results) = reply.results else { return one(asked, &reply, reply.content) };
    let is_error = !results.is_empty() && results.iter().all(|file| file.error.is_some());
    let mut text = String::new();
    for file in results {
        end_line(&mut text);
        text.push_str(&match &file.error {
            Some(error) => error.text(asked),
            None => one(asked, &file, file.content).whole(),
        });
    }
    Rendered { is_error, ..Rendered::done(text) }
}

/// `file` may be without its content.
fn one<'r>(asked: &Asked<'_>, file: &File<'_>, content: Option<Written<'r>>) -> Rendered<'r> {
    let mut text = header(asked, file, content);
    let Some(content) = content else { return Rendered::done(text) };
    // Before the content, which could imitate it.
    text.extend(warning(asked, file, content));
    let mut said = Rendered { content: Some((text.len(), content)), ..Rendered::done(text) };
    if let Some(ending) = ending(asked, file) {
        said.end_line();
        said.text.push_str(&ending);
    }
    said
}

fn header(asked: &Asked<'_>, file: &File<'_>, content: Option<Written<'_>>) -> String {
    let mut text = String::with_capacity(200);
    text.push_str(&asked.path(&file.path));
    text.push_str(": ");
    text.push_str(&extent(file, content));
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
    Some(match (next, &file.hint) {
        (Some(next), _) => format!("… goes on; next: {next}\n"),
        (None, Some(hint)) => format!("… {}\n", asked.words(hint)),
        (None, None) => String::new(),
    })
}

/// Of the part that is offered next.
const NEXT_LINES: u64 = 400;
const NEXT_BYTES: u64 = 64 << 10;

impl Asked<'_> {
    /// A read of its own: nothing of the first one's window applies.
    fn next(&self, arguments: &[(&str, serde_json::Value)]) -> String {
        let members: serde_json::Map<_, _> =
            arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        spelled("read", members)
    }
}

/// Which part of the file this is.
fn extent(file: &File<'_>, content: Option<Written<'_>>) -> String {
    let Some(content) = content else {
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
