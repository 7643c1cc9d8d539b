//! `find`: one path per line.

use serde::Deserialize;

use super::{RenderContext, ignored_note};
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

pub(super) fn render(asked: &RenderContext<'_>, page: &McpFindPage) -> String {
    let mut text = String::new();
    for found in &page.files {
        text.push_str(&asked.show_path(&found.path));
        text.push_str(if found.kind.as_deref() == Some("dir") { "/\n" } else { "\n" });
    }
    if page.files.is_empty() {
        text.push_str("nothing found\n");
        text.push_str(&ignored_note(page.skipped.as_ref().map(|skipped| skipped.ignored)));
    }
    for path in &page.missing_paths {
        text.push_str(&format!("note: {} is not there\n", quote_name(path)));
    }
    match (&page.next_cursor, page.truncated_reason.as_deref()) {
        (Some(cursor), _) => {
            text.push_str(&format!("… more; next: {}\n", asked.next_call("cursor", &cursor)));
        }
        (None, Some(reason)) => {
            text.push_str(&format!("… incomplete ({}); name a folder or a narrower glob\n", escape_text(reason)))
        }
        (None, None) => {}
    }
    text
}
