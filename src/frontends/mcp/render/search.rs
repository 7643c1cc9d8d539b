//! `search`: `path:line: text`, as every tool that models know writes it.

use serde::Deserialize;

use super::{RenderContext, counted, hidden::HiddenCharacters, ignored_note};
use crate::frontends::escape::{escape_text, quote_name};

#[derive(Debug, Deserialize)]
pub(super) struct McpSearchPage {
    content_matches: Vec<McpSearchMatch>,
    path_matches: Vec<McpSearchFile>,
    files: Option<Vec<McpSearchFile>>,
    total: Option<u64>,
    truncated_reason: Option<String>,
    next_cursor: Option<String>,
    pattern_used: Option<String>,
    #[serde(default)]
    missing_paths: Vec<String>,
    #[serde(default)]
    skipped: serde_json::Map<String, serde_json::Value>,
    hint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct McpSearchMatch {
    path: String,
    line: u64,
    text: String,
    #[serde(default)]
    text_truncated: bool,
    #[serde(default)]
    before: Vec<String>,
    #[serde(default)]
    after: Vec<String>,
    #[serde(default)]
    more_in_file: bool,
    etag: Option<String>,
}

#[derive(Debug, Deserialize)]
struct McpSearchFile {
    path: String,
    count: Option<u64>,
}

pub(super) fn render(asked: &RenderContext<'_>, page: &McpSearchPage) -> String {
    let mut text = String::new();
    let mut last: Option<(&str, u64)> = None;
    let mut hidden = HiddenCharacters::default();
    for (at, found) in page.content_matches.iter().enumerate() {
        let next = page.content_matches.get(at + 1).filter(|next| next.path == found.path);
        last = Some((&found.path, push_match(asked, found, last, next.map(|next| next.line), &mut hidden, &mut text)));
    }
    for found in page.files.iter().flatten().chain(&page.path_matches) {
        let matches = found.count.map(|matches| format!(": {}", counted(matches, "line"))).unwrap_or_default();
        text.push_str(&format!("{}{matches}\n", asked.show_path(&found.path)));
    }
    push_summary(asked, page, &mut text);
    text.extend(hidden.warning());
    text
}

/// A match with its context; the last line that is shown. Context of neighbours overlaps, but a line is shown once. Every
/// line begins with its file and number, so that none can be taken for a match elsewhere.
fn push_match(
    asked: &RenderContext<'_>,
    found: &McpSearchMatch,
    last: Option<(&str, u64)>,
    next: Option<u64>,
    hidden: &mut HiddenCharacters,
    text: &mut String,
) -> u64 {
    let path = asked.show_path(&found.path);
    let mut push = |number: u64, mark: char, line: &str, end: &str, text: &mut String| {
        hidden.scan(line, |_| format!("{path}:{number}"));
        text.push_str(&format!("{path}{mark}{number}{mark} {line}{end}\n"));
    };
    let first = found.line.saturating_sub(found.before.len() as u64);
    let has_context = !found.before.is_empty() || !found.after.is_empty();
    if has_context && last.is_some_and(|(file, line)| file != found.path || first > line + 1) {
        text.push_str("--\n");
    }
    let shown = last.filter(|(file, _)| *file == found.path).map_or(0, |(_, line)| line);
    for (number, line) in (first..).zip(&found.before).filter(|(number, _)| *number > shown) {
        push(number, '-', line, "", text);
    }
    let mut end = found.line;
    let mut parts = found.text.split('\n').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let cut = if is_last && found.text_truncated { " … (long line)" } else { "" };
        push(end, ':', part, cut, text);
        end += u64::from(!is_last);
    }
    let until = next.unwrap_or(u64::MAX);
    for (number, line) in (end + 1..).zip(&found.after).filter(|(number, _)| *number < until) {
        push(number, '-', line, "", text);
        end = number;
    }
    if found.more_in_file {
        text.push_str(&format!("{path}: … more matches in this file\n"));
    }
    end
}

fn push_summary(asked: &RenderContext<'_>, page: &McpSearchPage, text: &mut String) {
    if text.is_empty() {
        text.push_str("no matches\n");
        if let Some(hint) = &page.hint {
            text.push_str(&format!("hint: {}\n", asked.translate(hint)));
        }
        text.push_str(&ignored_note(page.skipped.get("ignored").and_then(serde_json::Value::as_u64)));
    }
    for found in &page.content_matches {
        if let Some(etag) = &found.etag {
            text.push_str(&format!("{}: etag {}\n", asked.show_path(&found.path), escape_text(etag)));
        }
    }
    if let Some(total) = page.total {
        text.push_str(&format!("{} in all\n", counted(total, "line")));
    }
    if let Some(pattern) = &page.pattern_used {
        text.push_str(&format!("note: the query is no valid regex; searched for {}\n", escape_text(pattern)));
    }
    for path in &page.missing_paths {
        text.push_str(&format!("note: {} is not there\n", quote_name(path)));
    }
    let skipped: Vec<String> = page
        .skipped
        .iter()
        .filter(|(why, files)| *why != "ignored" && files.as_u64().is_some_and(|files| files > 0))
        .map(|(why, files)| format!("{files} {}", escape_text(why).replace('_', " ")))
        .collect();
    if !skipped.is_empty() {
        text.push_str(&format!("not searched: {}\n", skipped.join(", ")));
    }
    match (&page.next_cursor, page.truncated_reason.as_deref()) {
        (Some(cursor), _) => {
            text.push_str(&format!("… more; next: {}\n", asked.next_call("cursor", &cursor)));
        }
        (None, Some(reason)) => {
            text.push_str(&format!("… incomplete ({}); narrow path or include_globs\n", escape_text(reason)))
        }
        (None, None) => {}
    }
}
