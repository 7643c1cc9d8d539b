//! Runs in `stockade mcp`: replies as text that a model reads. Numbered lines, `path:line`, the next call spelled out.
//! Pure. Trusts the service's shape no further than its parser; nothing that it said is left out silently.

mod change;
mod find;
mod folder;
mod info;
mod read;
mod search;

use std::borrow::Cow;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::scope::Scope;
use crate::wire::function::FUNCTIONS;

/// A reply in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// Nothing of what was asked for was done.
    pub(super) is_error: bool,
}

impl Rendered {
    fn done(text: String) -> Self {
        Self { text, is_error: false }
    }
}

/// Where the words come from: what was asked, and where paths begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) tool: &'a str,
    /// As the host sent them.
    pub(super) arguments: &'a serde_json::Map<String, Value>,
    pub(super) scope: &'a Scope,
}

impl Asked<'_> {
    /// As a call may name it again. A name is data: one that holds a line end must not look like two.
    fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        one_line(self.scope.show(path))
    }

    /// The same call with other arguments, as the next step of a reply.
    fn again(&self, with: &[(&str, Value)]) -> String {
        let mut arguments = self.arguments.clone();
        for (name, value) in with {
            arguments.insert((*name).into(), value.clone());
        }
        format!("{} {}", self.tool, Value::Object(arguments))
    }
}

pub(super) fn render(asked: &Asked<'_>, result: &RawValue) -> Rendered {
    let rendered = match asked.tool {
        "read" => parse(result).map(|reply| read::render(asked, &reply)),
        "list" => parse(result).map(|reply| Rendered::done(folder::list(asked, &reply))),
        "tree" => parse(result).map(|reply| Rendered::done(folder::tree(asked, &reply))),
        "search" => parse(result).map(|reply| Rendered::done(search::render(asked, &reply))),
        "find" => parse(result).map(|reply| Rendered::done(find::render(asked, &reply))),
        "info" => parse(result).map(|reply| Rendered::done(info::render(asked, &reply))),
        _ => parse(result).map(|reply| change::render(asked, &reply)),
    };
    let mut rendered = rendered.unwrap_or_else(|| Rendered::done(result.get().to_owned()));
    push_warnings(&mut rendered.text, result);
    rendered
}

/// One line that says what `structuredContent` holds, so that no text is sent twice.
pub(super) fn summary(asked: &Asked<'_>, result: &RawValue) -> Rendered {
    let is_error = parse(result).is_some_and(|reply| change::is_failure(&reply));
    Rendered { text: format!("{}: see structuredContent", asked.tool), is_error }
}

/// A newer service may say things that we do not know; then its own words have to do.
fn parse<T: DeserializeOwned>(result: &RawValue) -> Option<T> {
    serde_json::from_str(result.get()).ok()
}

fn push_warnings(text: &mut String, result: &RawValue) {
    #[derive(Deserialize)]
    struct Warned {
        #[serde(default)]
        warnings: Vec<String>,
    }
    // Most replies have none, and large ones are not parsed twice for it.
    if memchr::memmem::find(result.get().as_bytes(), b"\"warnings\":[").is_none() {
        return;
    }
    for warning in parse::<Warned>(result).into_iter().flat_map(|warned| warned.warnings) {
        end_line(text);
        text.push_str("warning: ");
        text.push_str(&in_tool_words(&warning));
        text.push('\n');
    }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// What the service says about functions and their lists, in the words of tools and their flat arguments.
pub(super) fn in_tool_words(said: &str) -> String {
    let mut text = said.to_owned();
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
    text
}

/// `{"code":…,"message":…}` of one entry of a batch.
#[derive(Debug, Clone, Deserialize)]
struct EntryError {
    code: String,
    message: String,
}

impl EntryError {
    fn text(&self) -> String {
        format!("{} {}", self.code, in_tool_words(&self.message))
    }
}

/// `1 line`, `2 lines`.
fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

fn one_line(name: &str) -> Cow<'_, str> {
    match name.contains(|c: char| c.is_control()) {
        true => format!("{name:?}").into(),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests;
