//! Runs in `stockade mcp`: replies as text that a model reads. Numbered lines, `path:line`, the next call spelled out.
//! Pure. Trusts the service's shape no further than its parser; nothing that it said is left out silently.

mod change;
mod find;
mod folder;
mod hidden;
mod info;
mod read;
mod search;

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Value, value::RawValue};

use super::scope::Scope;
use crate::{frontends::escape, wire::function::FUNCTIONS};

/// A reply in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered<'r> {
    pub(super) text: String,
    /// Nothing of what was asked for was done.
    pub(super) is_error: bool,
    /// What is not yet in the text, and where it belongs.
    pub(super) content: Option<(usize, Written<'r>)>,
}

impl Rendered<'_> {
    fn done(text: String) -> Self {
        Self { text, is_error: false, content: None }
    }

    pub(super) fn refused(why: String) -> Self {
        Self { text: why, is_error: true, content: None }
    }

    /// In one piece.
    pub(super) fn whole(mut self) -> String {
        if let Some((at, content)) = self.content.take() {
            self.text.insert_str(at, &content.read());
        }
        self.text
    }

    fn end_line(&mut self) {
        match &self.content {
            Some((at, content)) if *at == self.text.len() && !content.is_empty() => {
                if !content.ends_line() {
                    self.text.push('\n');
                }
            }
            _ => end_line(&mut self.text),
        }
    }
}

/// A JSON string as it was written, without its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written<'a>(&'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Written<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
        inside.map(Self).ok_or_else(|| D::Error::custom("expected a string"))
    }
}

impl<'a> Written<'a> {
    pub(super) fn as_str(&self) -> &'a str {
        self.0
    }

    /// Up to the quote that ends it; `text` is known to be JSON.
    fn at_start_of(text: &'a str) -> Option<Self> {
        let mut end = 0;
        loop {
            end += memchr::memchr2(b'"', b'\\', text.as_bytes().get(end..)?)?;
            match text.as_bytes()[end] {
                b'"' => return Some(Self(&text[..end])),
                // With what it escapes.
                _ => end += 2,
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What it says.
    fn read(&self) -> String {
        serde_json::from_str(&format!("\"{}\"", self.0)).unwrap_or_else(|_| self.0.to_string())
    }

    /// `\n` at the end, and not a backslash before an n.
    fn ends_line(&self) -> bool {
        let backslashes = |before: &str| before.bytes().rev().take_while(|byte| *byte == b'\\').count();
        self.0.strip_suffix('n').is_some_and(|before| backslashes(before) % 2 == 1)
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
    /// As a call may name it again. A name is data: it must not look like another part of the reply.
    fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        escape::quoted_name(self.scope.show(path))
    }

    /// A text of the service in words of the caller.
    fn words(&self, said: &str) -> String {
        in_tool_words(Some(self.scope), said)
    }

    /// The same call with other arguments, as the next step of a reply.
    fn again(&self, with: &[(&str, Value)]) -> String {
        let mut arguments = self.arguments.clone();
        for (name, value) in with {
            arguments.insert((*name).into(), value.clone());
        }
        spelled(self.tool, arguments)
    }
}

/// A call that the reader may make next.
fn spelled(tool: &str, arguments: serde_json::Map<String, Value>) -> String {
    format!("{tool} {}", escape::json(&Value::Object(arguments).to_string()))
}

pub(super) fn render<'r>(asked: &Asked<'_>, result: &'r RawValue) -> Rendered<'r> {
    let rendered = match asked.tool {
        "read" => read::render(asked, result),
        "list" => parse(result).map(|reply| Rendered::done(folder::list(asked, &reply))),
        "tree" => parse(result).map(|reply| Rendered::done(folder::tree(asked, &reply))),
        "search" => parse(result).map(|reply| Rendered::done(search::render(asked, &reply))),
        "find" => parse(result).map(|reply| Rendered::done(find::render(asked, &reply))),
        "info" => parse(result).map(|reply| Rendered::done(info::render(asked, &reply))),
        _ => parse(result).map(|reply| change::render(asked, &reply)),
    };
    let mut rendered = rendered.unwrap_or_else(|| Rendered::done(escape::json(result.get())));
    push_warnings(asked, &mut rendered, result);
    rendered
}

/// One line that says what `structuredContent` holds, so that no text is sent twice.
pub(super) fn summary(asked: &Asked<'_>, result: &RawValue) -> Rendered<'static> {
    let is_error = parse(result).is_some_and(|reply| change::is_failure(&reply));
    Rendered { is_error, ..Rendered::done(format!("{}: see structuredContent", asked.tool)) }
}

/// A newer service may say things that we do not know; then its own words have to do.
fn parse<'r, T: Deserialize<'r>>(result: &'r RawValue) -> Option<T> {
    serde_json::from_str(result.get()).ok()
}

fn push_warnings(asked: &Asked<'_>, rendered: &mut Rendered<'_>, result: &RawValue) {
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
        rendered.end_line();
        rendered.text.push_str(&format!("warning: {}\n", asked.words(&warning)));
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
