//! `search`: `path:line: text`, as every tool that models know writes it.

use serde::Deserialize;

use super::{RenderContext, counted, ignored_note, pager::Pager};
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

pub(super) fn render(context: &RenderContext<'_>, page: &McpSearchPage) -> String {
    let next = page.next_cursor.as_ref().map(|cursor| context.next_call("cursor", cursor));
    let mut pager = Pager::new(context, next);
    let mut last: Option<(&str, u64)> = None;
    for (at, found) in page.content_matches.iter().enumerate() {
        let next = page.content_matches.get(at + 1).filter(|next| next.path == found.path);
        last = Some((&found.path, push_match(context, found, last, next.map(|next| next.line), &mut pager)));
    }
    for found in page.files.iter().flatten().chain(&page.path_matches) {
        let matches = found.count.map(|matches| format!(": {}", counted(matches, "line"))).unwrap_or_default();
        pager.push(&format!("{}{matches}\n", context.show_path(&found.path)));
    }
    push_summary(context, page, &mut pager);
    pager.finish(context)
}

/// A match with its context; the last line that is shown. Context of neighbours overlaps, but a line is shown once. Every
/// line begins with its file and number, so that none can be taken for a match elsewhere.
fn push_match(
    context: &RenderContext<'_>,
    found: &McpSearchMatch,
    last: Option<(&str, u64)>,
    next: Option<u64>,
    pager: &mut Pager,
) -> u64 {
    let path = context.show_path(&found.path);
    let push = |number: u64, mark: char, line: &str, end: &str, pager: &mut Pager| {
        let name = || format!("{path}:{number}");
        pager.push_content(&format!("{path}{mark}{number}{mark} {line}{end}\n"), line, name);
    };
    let first = found.line.saturating_sub(found.before.len() as u64);
    let has_context = !found.before.is_empty() || !found.after.is_empty();
    if has_context && last.is_some_and(|(file, line)| file != found.path || first > line + 1) {
        pager.push("--\n");
    }
    let shown = last.filter(|(file, _)| *file == found.path).map_or(0, |(_, line)| line);
    for (number, line) in (first..).zip(&found.before).filter(|(number, _)| *number > shown) {
        push(number, '-', line, "", pager);
    }
    let mut end = found.line;
    let mut parts = found.text.split('\n').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let cut = if is_last && found.text_truncated { " … (long line)" } else { "" };
        push(end, ':', part, cut, pager);
        end += u64::from(!is_last);
    }
    let until = next.unwrap_or(u64::MAX);
    for (number, line) in (end + 1..).zip(&found.after).filter(|(number, _)| *number < until) {
        push(number, '-', line, "", pager);
        end = number;
    }
    if found.more_in_file {
        pager.push(&format!("{path}: … more matches in this file\n"));
    }
    end
}

fn push_summary(context: &RenderContext<'_>, page: &McpSearchPage, pager: &mut Pager) {
    if pager.is_empty() {
        pager.push("no matches\n");
        if let Some(hint) = &page.hint {
            pager.push(&format!("hint: {}\n", context.translate(hint)));
        }
        pager.push(&ignored_note(page.skipped.get("ignored").and_then(serde_json::Value::as_u64)));
    }
    for found in &page.content_matches {
        if let Some(etag) = &found.etag {
            pager.push(&format!("{}: etag {}\n", context.show_path(&found.path), escape_text(etag)));
        }
    }
    if let Some(total) = page.total {
        pager.push(&format!("{} in all\n", counted(total, "line")));
    }
    if let Some(pattern) = &page.pattern_used {
        pager.push(&format!("note: the query is no valid regex; searched for {}\n", escape_text(pattern)));
    }
    for path in &page.missing_paths {
        pager.push(&format!("note: {} is not there\n", quote_name(path)));
    }
    let skipped: Vec<String> = page
        .skipped
        .iter()
        .filter(|(why, files)| *why != "ignored" && files.as_u64().is_some_and(|files| files > 0))
        .map(|(why, files)| format!("{files} {}", escape_text(why).replace('_', " ")))
        .collect();
    if !skipped.is_empty() {
        pager.push(&format!("not searched: {}\n", skipped.join(", ")));
    }
    if let (None, Some(reason)) = (&page.next_cursor, page.truncated_reason.as_deref()) {
        pager.push(&format!("… incomplete ({}); narrow path or include_globs\n", escape_text(reason)));
    }
}
