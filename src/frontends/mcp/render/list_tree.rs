//! `render_list` and `render_tree`: names, one per line.

use std::{borrow::Cow, fmt::Write};

use serde::Deserialize;

use super::{RenderContext, counted, ignored_note};
use crate::frontends::escape::{escape_text, quote_name};

#[derive(Debug, Deserialize)]
pub(super) struct McpListPage<'a> {
    path: String,
    #[serde(borrow)]
    entries: Vec<McpListEntry<'a>>,
    total: u64,
    page: u64,
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct McpListEntry<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    non_accessible: bool,
    #[serde(default)]
    mount_point: bool,
}

/// What stands behind a name.
fn kind_mark(kind: &str) -> &'static str {
    match kind {
        "dir" => "/",
        "symlink" => " (link, not followed)",
        "other" => " (FIFO, socket or device)",
        _ => "",
    }
}

fn access_note(non_accessible: bool, mount_point: bool) -> &'static str {
    match (non_accessible, mount_point) {
        (true, _) => " (no access)",
        (_, true) => " (mount point)",
        _ => "",
    }
}

pub(super) fn render_list(asked: &RenderContext<'_>, page: &McpListPage<'_>) -> String {
    let mut text = format!("{}: {}\n", asked.show_path(&page.path), count_entries(page.total));
    for entry in &page.entries {
        text.push_str(&quote_name(&entry.name));
        text.push_str(kind_mark(&entry.kind));
        if entry.kind == "file" && !entry.non_accessible {
            // A String takes everything.
            let _ = write!(text, "  {}", entry.size);
        }
        text.push_str(access_note(entry.non_accessible, entry.mount_point));
        text.push('\n');
    }
    if page.has_more {
        text.push_str(&format!("… more; next: {}\n", asked.next_call("page", &(page.page + 1))));
    }
    text
}

fn count_entries(total: u64) -> String {
    if total == 1 { "1 entry".into() } else { format!("{total} entries") }
}

#[derive(Debug, Deserialize)]
pub(super) struct McpTreeResult<'a> {
    path: String,
    #[serde(borrow)]
    root: McpTreeNode<'a>,
    #[serde(default)]
    ignored: u64,
}

#[derive(Debug, Deserialize)]
struct McpTreeNode<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    non_accessible: bool,
    #[serde(default)]
    mount_point: bool,
    #[serde(default)]
    children: Vec<McpTreeNode<'a>>,
    truncated: Option<McpTreeTruncation>,
}

#[derive(Debug, Deserialize)]
struct McpTreeTruncation {
    reason: String,
    #[serde(default)]
    shown: u64,
    total: Option<u64>,
    #[serde(default)]
    hint: String,
}

pub(super) fn render_tree(asked: &RenderContext<'_>, reply: &McpTreeResult<'_>) -> String {
    let mut text = format!("{}/", asked.show_path(&reply.path));
    end_entry(asked, &reply.root, 0, true, &mut text);
    push_children(asked, &reply.root, 1, &mut text);
    text.push_str(&ignored_note(Some(reply.ignored)));
    text
}

/// As deep as the reply, which the JSON parser bounds.
fn push_children(asked: &RenderContext<'_>, folder: &McpTreeNode<'_>, depth: usize, text: &mut String) {
    for node in &folder.children {
        text.push_str(&"  ".repeat(depth));
        text.push_str(&quote_name(&node.name));
        text.push_str(kind_mark(&node.kind));
        end_entry(asked, node, depth, node.truncated.as_ref().is_some_and(|cut| cut.reason == "io_error"), text);
        push_children(asked, node, depth + 1, text);
    }
    if let Some(cut) = folder.truncated.as_ref().filter(|cut| cut.shown > 0) {
        let left =
            cut.total.map(|total| counted(total.saturating_sub(cut.shown), "more entry").replace("entrys", "entries"));
        text.push_str(&"  ".repeat(depth));
        text.push_str(&format!("… {}; {}\n", left.unwrap_or_else(|| "more".into()), asked.translate(&cut.hint)));
    }
}

/// Why a folder has no children here. The call that shows them is the same for all of a kind, so it is spelled out only where
/// it says something new.
fn end_entry(asked: &RenderContext<'_>, node: &McpTreeNode<'_>, depth: usize, with_hint: bool, text: &mut String) {
    text.push_str(access_note(node.non_accessible, node.mount_point));
    if let Some(cut) = node.truncated.as_ref().filter(|cut| cut.shown == 0) {
        match cut.reason.as_str() {
            "max_depth" => text.push_str(" …"),
            "default_exclude" => text.push_str(" (left out by default)"),
            reason => text.push_str(&format!(" ({})", escape_text(reason).replace('_', " "))),
        }
        if with_hint || depth == 0 {
            text.push_str(&format!(" {}", asked.translate(&cut.hint)));
        }
    }
    text.push('\n');
}
