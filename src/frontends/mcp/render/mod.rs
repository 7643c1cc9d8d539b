//! Runs in `stockade mcp`: replies as text that a model reads. Numbered lines, `path:line`, the next call spelled out.
//! Pure. Trusts the service's shape no further than its parser; nothing that it said is left out silently.

mod change;
mod find;
mod hidden;
mod info;
mod json_text;
mod list_tree;
mod read;
mod search;

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::json_text::EncodedText;
pub(super) use self::json_text::JsonText;
use super::{object::JsonObject, scope::HostScope};
use crate::{frontends::escape, wire::function::FUNCTIONS};

/// A reply in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RenderedReply {
    pub(super) text: JsonText,
    /// Nothing of what was asked for was done.
    pub(super) is_error: bool,
}

impl RenderedReply {
    fn success(text: &str) -> Self {
        Self { text: JsonText::from_text(text), is_error: false }
    }

    pub(super) fn failure(why: &str) -> Self {
        Self { text: JsonText::from_text(why), is_error: true }
    }
}

/// Where the words come from: what was asked, and where paths begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct RenderContext<'a> {
    pub(super) tool: &'a str,
    /// As the host sent them, without what is written to files.
    pub(super) arguments: &'a JsonObject,
    pub(super) scope: &'a HostScope,
}

impl RenderContext<'_> {
    /// As a call may name it again. A name is data: it must not look like another part of the reply.
    fn show_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        escape::quote_name(self.scope.shorten(path))
    }

    /// A text of the service in words of the caller.
    fn translate(&self, said: &str) -> String {
        translate_to_tools(Some(self.scope), said)
    }

    /// The same call with other arguments, as the next step of a reply.
    fn next_call<T: Serialize>(&self, name: &str, value: &T) -> String {
        let mut arguments = self.arguments.clone();
        arguments.set(name, value);
        render_call(self.tool, &arguments)
    }
}

/// A call that the reader may make next.
fn render_call(tool: &str, arguments: &JsonObject) -> String {
    format!("{tool} {}", escape::json(&serde_json::to_string(arguments).unwrap_or_default()))
}

pub(super) fn render_reply(asked: &RenderContext<'_>, result: &RawValue) -> RenderedReply {
    let rendered = match asked.tool {
        "read" => parse_result(result).map(|reply| read::render(asked, reply)),
        "list" => parse_result(result).map(|reply| RenderedReply::success(&list_tree::render_list(asked, &reply))),
        "tree" => parse_result(result).map(|reply| RenderedReply::success(&list_tree::render_tree(asked, &reply))),
        "search" => parse_result(result).map(|reply| RenderedReply::success(&search::render(asked, &reply))),
        "find" => parse_result(result).map(|reply| RenderedReply::success(&find::render(asked, &reply))),
        "info" => parse_result(result).map(|reply| RenderedReply::success(&info::render(asked, &reply))),
        _ => parse_result(result).map(|reply| change::render(asked, &reply)),
    };
    let mut rendered = rendered.unwrap_or_else(|| RenderedReply::success(&escape::json(result.get())));
    push_warnings(asked, &mut rendered, result);
    rendered
}

/// One line that says what `structuredContent` holds, so that no text is sent twice.
pub(super) fn render_summary(asked: &RenderContext<'_>, result: &RawValue) -> RenderedReply {
    let is_error = parse_result(result).is_some_and(|reply| change::is_failure(&reply));
    RenderedReply { is_error, ..RenderedReply::success(&format!("{}: see structuredContent", asked.tool)) }
}

/// A newer service may say things that we do not know; then its own words have to do.
fn parse_result<'r, T: Deserialize<'r>>(result: &'r RawValue) -> Option<T> {
    serde_json::from_str(result.get()).ok()
}

fn push_warnings(asked: &RenderContext<'_>, rendered: &mut RenderedReply, result: &RawValue) {
    static WARNINGS_FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("\"warnings\":["));
    #[derive(Deserialize)]
    struct ReplyWarnings {
        #[serde(default)]
        warnings: Vec<String>,
    }
    // Most replies have none, and large ones are not parsed twice for it.
    if WARNINGS_FINDER.find(result.get().as_bytes()).is_none() {
        return;
    }
    for warning in parse_result::<ReplyWarnings>(result).into_iter().flat_map(|warned| warned.warnings) {
        rendered.text.end_line();
        rendered.text.push(&format!("warning: {}\n", asked.translate(&warning)));
    }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// What the service says about functions and their lists, in the words of tools and their flat arguments.
pub(super) fn translate_to_tools(scope: Option<&HostScope>, said: &str) -> String {
    let mut text = scope.map_or_else(|| said.to_owned(), |scope| scope.translate_base_dir(said));
    for list in ["files[0].", "paths[0]."] {
        if let Some(rest) = text.strip_prefix(list) {
            text = rest.to_owned();
        }
    }
    if text.contains("coder::") {
        for function in FUNCTIONS {
            if let Some(tool) = function.tool {
                text = text.replace(function.name, tool.name);
            }
        }
    }
    escape::escape_text(&text)
}

/// `{"code":…,"message":…}` of one entry of a batch.
#[derive(Debug, Clone, Deserialize)]
struct McpEntryError {
    code: String,
    message: String,
}

impl McpEntryError {
    fn render(&self, asked: &RenderContext<'_>) -> String {
        format!("{} {}", escape::escape_text(&self.code), asked.translate(&self.message))
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
