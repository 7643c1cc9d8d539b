//! Runs in every frontend: texts of the service name functions of the wire; here each name becomes what the reader can call. Pure.
//! Trusts nothing in a text. Never rewrites what the caller sent: neither quoted text nor the caller's own paths.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::wire::function::{FunctionEntry, find_function};

/// The beginning of every function name.
pub(super) const PREFIX: &str = "coder::";

/// Replaces each function that `text` names, and the request that follows the name, by what `write` returns for them.
///
/// A text names a function as `coder::read-file`, outside of double quotes, optionally followed by one space and its request as a
/// JSON object (docs/contract/errors.md). `sent` are strings of the caller, such as paths, which a text repeats without quotes.
pub(super) fn translate<'t>(
    text: &'t str,
    sent: &[&str],
    mut write: impl FnMut(&'static FunctionEntry, Option<&str>) -> String,
) -> Cow<'t, str> {
    if !text.contains(PREFIX) {
        return text.into();
    }
    let sent: Vec<&str> = sent.iter().copied().filter(|sent| sent.contains(PREFIX)).collect();
    let mut translated = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kept = sent.iter().find(|sent| rest.starts_with(**sent)).map(|sent| sent.len());
        let kept = kept.or_else(|| quoted_length(rest));
        let named = if kept.is_none() && begins_word(&translated) { named_function(rest) } else { None };
        let length = match named {
            Some((function, name)) => {
                let request = request_behind(&rest[name..]);
                translated.push_str(&write(function, request));
                name + request.map_or(0, |request| 1 + request.len())
            }
            None => {
                let kept = kept.unwrap_or_else(|| first.len_utf8());
                translated.push_str(&rest[..kept]);
                kept
            }
        };
        rest = &rest[length..];
    }
    translated.into()
}

/// Bytes of the quoted text at the beginning, both quotes included. None if nothing is quoted here, or the quote never ends.
fn quoted_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let inside = text.strip_prefix('"')?;
    let end = inside.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(end + 2)
}

/// True if a function name may begin after this text, which must not end in the middle of a word or path.
fn begins_word(before: &str) -> bool {
    before.chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '/' | '.')))
}

/// The function that the text begins with, and the length of its name.
fn named_function(text: &str) -> Option<(&'static FunctionEntry, usize)> {
    let own = text.strip_prefix(PREFIX)?;
    let is_of_name = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'-';
    let length = PREFIX.len() + own.bytes().take_while(|byte| is_of_name(byte)).count();
    Some((find_function(&text[..length])?, length))
}

/// The JSON object that follows a name directly.
fn request_behind(text: &str) -> Option<&str> {
    let json = text.strip_prefix(' ').filter(|json| json.starts_with('{'))?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<&RawValue>();
    values.next()?.ok()?;
    Some(&json[..values.byte_offset()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, sent: &[&str]) -> String {
        let write = |function: &'static FunctionEntry, request: Option<&str>| {
            let name = function.name.trim_start_matches(PREFIX).to_uppercase();
            request.map_or(name.clone(), |request| format!("{name}<{request}>"))
        };
        translate(text, sent, write).into_owned()
    }

    #[test]
    fn names_and_the_requests_behind_them_are_translated() {
        for (text, expected) in [
            ("see coder::list-folder or coder::tree", "see LIST-FOLDER or TREE"),
            ("coder::info, coder::search: x", "INFO, SEARCH: x"),
            ("call coder::tree {\"path\":\"a} b\"} or so", "call TREE<{\"path\":\"a} b\"}> or so"),
            ("coder::restore {\"list\": true}.", "RESTORE<{\"list\": true}>."),
            ("coder::tree {broken", "TREE {broken"),
            (
                "coder::nonsense and xcoder::tree and a/coder::tree",
                "coder::nonsense and xcoder::tree and a/coder::tree",
            ),
            ("nothing", "nothing"),
        ] {
            assert_eq!(told(text, &[]), expected);
        }
    }

    #[test]
    fn what_the_caller_sent_stays_as_it_is() {
        assert_eq!(
            told(r#""coder::tree \" coder::tree" matched 0 times; use coder::search"#, &[]),
            r#""coder::tree \" coder::tree" matched 0 times; use SEARCH"#
        );
        assert_eq!(
            told("coder::tree: not found; see coder::tree", &["coder::tree:"]),
            "coder::tree: not found; see TREE"
        );
        assert_eq!(told("an open \" quote, coder::tree", &[]), "an open \" quote, TREE");
    }

    /// The golden replies, which models read over MCP, must name only functions that are tools.
    #[test]
    fn texts_of_the_service_name_only_functions_that_are_tools() {
        let replies = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/source/golden/replies");
        let mut named = 0;
        for file in std::fs::read_dir(replies).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for line in text.lines().filter(|line| line.starts_with("  ")) {
                translate(line, &[], |function, _| {
                    assert!(function.tool.is_some(), "{} in {line}", function.name);
                    named += 1;
                    String::new()
                });
            }
        }
        assert!(named > 20, "the golden replies name {named} functions");
    }
}
