//! Runs in `stockade mcp`: replies as text that a model reads. Numbered lines, `path:line`, the next call spelled out.
//! Pure. Trusts the service's shape no further than its parser; nothing that it said is left out silently.

mod change;
mod find;
mod folder;
mod hidden;
mod info;
mod json_text;
mod read;
mod search;

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) use self::json_text::JsonText;
use self::json_text::Written;
use super::{object::Object, scope::Scope};
use crate::{frontends::escape, wire::function::FUNCTIONS};

/// A reply in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) text: JsonText,
    /// Nothing of what was asked for was done.
    pub(super) is_error: bool,
}

impl Rendered {
    fn done(text: &str) -> Self {
        Self { text: JsonText::of(text), is_error: false }
    }

    pub(super) fn refused(why: &str) -> Self {
        Self { text: JsonText::of(why), is_error: true }
    }
}

/// Where the words come from: what was asked, and where paths begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) tool: &'a str,
    /// As the host sent them, without what is written to files.
    pub(super) arguments: &'a Object,
    pub(super) scope: &'a Scope,
}

impl Asked<'_> {
    /// As a call may name it again. A name is data: it must not look like another part of the reply.
    fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        escape::quoted_name(self.scope.show(path))
    }

    /// A text of the service in words of the caller.
    fn words(&self, said: &str) -> String {
        in_tool_words(Some(self.scope), said)
    }

    /// The same call with other arguments, as the next step of a reply.
    fn again<T: Serialize>(&self, name: &str, value: &T) -> String {
        let mut arguments = self.arguments.clone();
        arguments.set(name, value);
        spelled(self.tool, &arguments)
    }
}

/// A call that the reader may make next.
fn spelled(tool: &str, arguments: &Object) -> String {
    format!("{tool} {}", escape::json(&serde_json::to_string(arguments).unwrap_or_default()))
}

pub(super) fn render(asked: &Asked<'_>, result: &RawValue) -> Rendered {
    let rendered = match asked.tool {
        "read" => parse(result).map(|reply| read::render(asked, reply)),
        "list" => parse(result).map(|reply| Rendered::done(&folder::list(asked, &reply))),
        "tree" => parse(result).map(|reply| Rendered::done(&folder::tree(asked, &reply))),
        "search" => parse(result).map(|reply| Rendered::done(&search::render(asked, &reply))),
        "find" => parse(result).map(|reply| Rendered::done(&find::render(asked, &reply))),
        "info" => parse(result).map(|reply| Rendered::done(&info::render(asked, &reply))),
        _ => parse(result).map(|reply| change::render(asked, &reply)),
    };
    let mut rendered = rendered.unwrap_or_else(|| Rendered::done(&escape::json(result.get())));
    push_warnings(asked, &mut rendered, result);
    rendered
}

/// One line that says what `structuredContent` holds, so that no text is sent twice.
pub(super) fn summary(asked: &Asked<'_>, result: &RawValue) -> Rendered {
    let is_error = parse(result).is_some_and(|reply| change::is_failure(&reply));
    Rendered { is_error, ..Rendered::done(&format!("{}: see structuredContent", asked.tool)) }
}

/// A newer service may say things that we do not know; then its own words have to do.
fn parse<'r, T: Deserialize<'r>>(result: &'r RawValue) -> Option<T> {
    serde_json::from_str(result.get()).ok()
}

fn push_warnings(asked: &Asked<'_>, rendered: &mut Rendered, result: &RawValue) {
    static MEMBER: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new("\"warnings\":["));
    #[derive(Deserialize)]
    struct Warned {
        #[serde(default)]
        warnings: Vec<String>,
    }
    // Most replies have none, and large ones are not parsed twice for it.
    if MEMBER.find(result.get().as_bytes()).is_none() {
        return;
    }
    for warning in parse::<Warned>(result).into_iter().flat_map(|warned| warned.warnings) {
        rendered.text.end_line();
        rendered.text.push(&format!("warning: {}\n", asked.words(&warning)));
    }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// What the service says about functions and their lists, in the words of tools and their flat arguments.
pub(super) fn in_tool_words(scope: Option<&Scope>, said: &str) -> String {
    let mut text = scope.map_or_else(|| said.to_owned(), |scope| scope.in_client_words(said));
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
    escape::one_line(&text)
}

/// `{"code":…,"message":…}` of one entry of a batch.
#[derive(Debug, Clone, Deserialize)]
struct EntryError {
    code: String,
    message: String,
}

impl EntryError {
    fn text(&self, asked: &Asked<'_>) -> String {
        format!("{} {}", escape::one_line(&self.code), asked.words(&self.message))
    }
}

/// `1 line`, `2 lines`.
fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests;
