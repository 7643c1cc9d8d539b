//! `find`: one path per line.

use serde::Deserialize;

use super::{RenderContext, ignored_note, pager::Pager};
use crate::frontends::escape::{escape_text, quote_name};

#[derive(Debug, Deserialize)]
pub(super) struct McpFindPage {
    files: Vec<McpFindEntry>,
    truncated_reason: Option<String>,
    next_cursor: Option<String>,
    #[serde(default)]
    missing_paths: Vec<String>,
    skipped: Option<McpFindSkipped>,
}

#[derive(Debug, Deserialize)]
struct McpFindSkipped {
    #[serde(default)]
    ignored: u64,
}

#[derive(Debug, Deserialize)]
struct McpFindEntry {
    path: String,
    kind: Option<String>,
}

pub(super) fn render(context: &RenderContext<'_>, page: &McpFindPage) -> String {
    let next = page.next_cursor.as_ref().map(|cursor| context.next_call("cursor", cursor));
    let mut pager = Pager::new(context, next);
    for found in &page.files {
        let end = if found.kind.as_deref() == Some("dir") { "/\n" } else { "\n" };
        pager.push(&format!("{}{end}", context.show_path(&found.path)));
    }
    if page.files.is_empty() {
        pager.push("nothing found\n");
        pager.push(&ignored_note(page.skipped.as_ref().map(|skipped| skipped.ignored)));
    }
    for path in &page.missing_paths {
        pager.push(&format!("note: {} is not there\n", quote_name(path)));
    }
    if let (None, Some(reason)) = (&page.next_cursor, page.truncated_reason.as_deref()) {
        pager.push(&format!("… incomplete ({}); name a folder or a narrower glob\n", escape_text(reason)));
    }
    pager.finish(context)
}
