//! Renders replies as text for a model: numbered lines, `path:line`, and the complete next call. Runs in `stockade mcp`.
//! Pure. Trusts the form of the service's replies only as far as its parser checks it, and leaves nothing of them out
//! silently. No text is longer than `max_reply`: the text names the call that shows what does not fit.

mod change;
mod find;
mod hidden;
mod info;
mod json_text;
mod list_tree;
mod pager;
mod read;
mod search;

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::{json_text::EncodedText, pager::Pager};
pub(super) use self::{
    json_text::JsonText,
    pager::TextCursor,
    read::{McpReadResult, ReadParts},
};
use super::{object::JsonObject, reading::ShownImage, scope::HostScope};
use crate::{
    frontends::{escape, function_names},
    wire::function::FunctionEntry,
};

/// A reply as text, and the images beside it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RenderedReply {
    pub(super) text: JsonText,
    pub(super) images: Vec<ShownImage>,
    /// Nothing of what was asked for was done.
    pub(super) is_error: bool,
}

impl RenderedReply {
    fn success(text: &str) -> Self {
        Self { text: JsonText::from_text(text), images: Vec::new(), is_error: false }
    }

    /// A failure in one line, which is cut if it is longer than a reply.
    pub(super) fn failure(why: &str, max_reply: usize) -> Self {
        const CUT: &str = "… (cut)";
        let text: Cow<'_, str> = match why.len() <= max_reply {
            true => why.into(),
            false => format!("{}{CUT}", &why[..why.floor_char_boundary(max_reply - CUT.len())]).into(),
        };
        Self { is_error: true, ..Self::success(&text) }
    }
}

/// What rendering needs beside the reply: the call, the folder of relative paths, and the longest text.
#[derive(Debug, Clone, Copy)]
pub(super) struct RenderContext<'a> {
    pub(super) tool: &'a str,
    /// By our names, without what is written to files, and without the cursor.
    pub(super) arguments: &'a JsonObject,
    /// Paths of the caller in the list `files`, which `arguments` leaves out.
    pub(super) listed_paths: &'a [String],
    /// Content to be written to files was removed from `arguments`.
    pub(super) is_abridged: bool,
    /// The call can be made again for another part of its reply.
    pub(super) is_repeatable: bool,
    /// The arguments were those of the only entry of a list.
    pub(super) is_flat: bool,
    pub(super) scope: &'a HostScope,
    /// The place where this reply begins.
    pub(super) cursor: &'a TextCursor,
    /// Bytes of text.
    pub(super) max_reply: usize,
}

impl RenderContext<'_> {
    /// The path in a form that a call may use. Quoted if needed, because a name must not look like another part of the reply.
    fn show_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        escape::quote_name(self.scope.shorten(path))
    }

    /// A text of the service in the terms of the caller.
    pub(super) fn translate(&self, text: &str) -> String {
        let sent = if text.contains(function_names::PREFIX) {
            [super::scope::request_paths(self.arguments).as_slice(), self.listed_paths].concat()
        } else {
            Vec::new()
        };
        translate_to_tools(Some(self.scope), text, &sent, self.is_flat)
    }

    /// The same call with another value of one argument, as the next step of a reply. Described instead if the arguments are
    /// not complete or the call would take too much of the reply.
    fn next_call<T: Serialize>(&self, name: &str, value: &T) -> String {
        let mut changed = JsonObject::default();
        changed.set(name, value);
        if !self.is_abridged {
            let mut arguments = self.arguments.clone();
            arguments.set(name, value);
            let call = render_call(self.tool, &arguments);
            if call.len() <= self.max_reply / 4 {
                return call;
            }
        }
        format!("the same call with {}", render_object(&changed))
    }
}

fn render_object(object: &JsonObject) -> String {
    escape::json(&serde_json::to_string(object).unwrap_or_default())
}

/// A call that the reader may make next.
pub(super) fn render_call(tool: &str, arguments: &JsonObject) -> String {
    format!("{tool} {}", render_object(arguments))
}

pub(super) fn render_reply(context: &RenderContext<'_>, result: &RawValue) -> RenderedReply {
    with_warnings(context, result, |context| {
        let rendered = match context.tool {
            "list" => parse_result(result).map(|reply| list_tree::render_list(context, &reply)),
            "tree" => parse_result(result).map(|reply| list_tree::render_tree(context, &reply)),
            "search" => parse_result(result).map(|reply| search::render(context, &reply)),
            "find" => parse_result(result).map(|reply| find::render(context, &reply)),
            "info" => parse_result(result).map(|reply| render_lines(context, &info::render(context, &reply))),
            _ => {
                return parse_result(result)
                    .map_or_else(|| render_unknown(context, result), |reply| change::render(context, &reply));
            }
        };
        rendered.map_or_else(|| render_unknown(context, result), |text| RenderedReply::success(&text))
    })
}

/// A reply of `read`.
pub(super) fn render_read(
    context: &RenderContext<'_>,
    reply: &McpReadResult<'_>,
    parts: ReadParts<'_>,
    result: &RawValue,
) -> RenderedReply {
    with_warnings(context, result, |context| read::render(context, reply, parts))
}

/// A newer service may send a shape that this bridge does not know; then the reply is shown as it came.
pub(super) fn render_unknown(context: &RenderContext<'_>, result: &RawValue) -> RenderedReply {
    RenderedReply::success(&render_lines(context, &escape::json(result.get())))
}

fn render_lines(context: &RenderContext<'_>, text: &str) -> String {
    let mut pager = Pager::new(context, None);
    for line in text.split_inclusive('\n') {
        pager.push(line);
    }
    pager.finish(context)
}

fn parse_result<'r, T: Deserialize<'r>>(result: &'r RawValue) -> Option<T> {
    serde_json::from_str(result.get()).ok()
}

/// Adds the warnings of the service to what `render` returns, which gets so much less space.
fn with_warnings(
    context: &RenderContext<'_>,
    result: &RawValue,
    render: impl FnOnce(&RenderContext<'_>) -> RenderedReply,
) -> RenderedReply {
    let warnings = render_warnings(context, result);
    let mut rendered = render(&RenderContext { max_reply: context.max_reply - warnings.len(), ..*context });
    if !warnings.is_empty() {
        rendered.text.end_line();
        rendered.text.push(&warnings);
    }
    rendered
}

/// One line for each warning, together at most an eighth of a reply.
fn render_warnings(context: &RenderContext<'_>, result: &RawValue) -> String {
    static WARNINGS_FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("\"warnings\":["));
    #[derive(Deserialize)]
    struct ReplyWarnings {
        #[serde(default)]
        warnings: Vec<String>,
    }
    let mut text = String::new();
    // Most replies have none, and large ones are not parsed twice for it.
    if WARNINGS_FINDER.find(result.get().as_bytes()).is_none() {
        return text;
    }
    for warning in parse_result::<ReplyWarnings>(result).into_iter().flat_map(|reply| reply.warnings) {
        let line = format!("warning: {}\n", context.translate(&warning));
        if text.len() + line.len() > context.max_reply / 8 {
            text.push_str("warning: more warnings were left out\n");
            break;
        }
        text.push_str(&line);
    }
    text
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Translates texts of the service about functions and their lists into the terms of tools and their flat arguments. `sent`:
/// paths of the caller, which stay unchanged.
pub(super) fn translate_to_tools(scope: Option<&HostScope>, text: &str, sent: &[String], is_flat: bool) -> String {
    let mut text = scope.map_or_else(|| text.to_owned(), |scope| scope.translate_base_dir(text));
    for list in ["files[0].", "paths[0]."] {
        if let Some(rest) = text.strip_prefix(list).filter(|_| is_flat) {
            text = rest.to_owned();
        }
    }
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    escape::escape_text(&function_names::translate(&text, &sent, write_as_tool))
}

/// A function as its tool. Functions without one are named in no text for clients, which a test of `function_names` holds.
fn write_as_tool(function: &'static FunctionEntry, request: Option<&str>) -> String {
    let name = function.tool.map_or(function.name, |tool| tool.name);
    request.map_or_else(|| name.to_owned(), |request| format!("{name} {request}"))
}

/// `{"code":…,"message":…}` of one entry of a batch.
#[derive(Debug, Clone, Deserialize)]
struct McpEntryError {
    code: String,
    message: String,
    nearest: Option<McpNearestLines>,
}

/// Lines of a file that are most like a text which is not in it.
#[derive(Debug, Clone, Deserialize)]
struct McpNearestLines {
    from_line: u64,
    lines: Vec<String>,
}

impl McpEntryError {
    fn render(&self, context: &RenderContext<'_>) -> String {
        format!("{} {}", escape::escape_text(&self.code), context.translate(&self.message))
    }
}

/// How much ignore files hid, and how to see it; nothing if they hid nothing. Folders that were not entered count as one entry.
fn ignored_note(ignored: Option<u64>) -> String {
    match ignored {
        None | Some(0) => String::new(),
        Some(1) => "note: ignore files hid 1 entry; gitignore: false shows it\n".into(),
        Some(count) => format!("note: ignore files hid {count} entries; gitignore: false shows them\n"),
    }
}

/// `1 line`, `2 lines`.
fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests;
