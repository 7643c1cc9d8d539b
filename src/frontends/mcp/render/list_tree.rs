//! `list` and `tree`: names, one per line.

use std::{borrow::Cow, fmt::Write};

use serde::Deserialize;

use super::{RenderContext, counted, ignored_note, pager::Pager};
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

/// The mark after a name.
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

pub(super) fn render_list(context: &RenderContext<'_>, page: &McpListPage<'_>) -> String {
    let next = page.has_more.then(|| context.next_call("page", &(page.page + 1)));
    let mut pager = Pager::new(context, next);
    pager.push(&format!("{}: {}\n", context.show_path(&page.path), count_entries(page.total)));
    for entry in &page.entries {
        let mut line = format!("{}{}", quote_name(&entry.name), kind_mark(&entry.kind));
        if entry.kind == "file" && !entry.non_accessible {
            // Writing to a String cannot fail.
            let _ = write!(line, "  {}", entry.size);
        }
        line.push_str(access_note(entry.non_accessible, entry.mount_point));
        line.push('\n');
        pager.push(&line);
    }
    pager.finish(context)
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

pub(super) fn render_tree(context: &RenderContext<'_>, reply: &McpTreeResult<'_>) -> String {
    let mut pager = Pager::new(context, None);
    let mut line = format!("{}/", context.show_path(&reply.path));
    let mut above = vec![line.clone()];
    end_entry(context, &reply.root, 0, true, &mut line);
    pager.push(&line);
    push_children(context, &reply.root, &mut above, &mut pager);
    pager.push(&ignored_note(Some(reply.ignored)));
    pager.finish(context)
}

/// Recurses as deep as the reply, which the JSON parser bounds. `above`: the names of the folder and of all folders above it.
fn push_children(context: &RenderContext<'_>, folder: &McpTreeNode<'_>, above: &mut Vec<String>, pager: &mut Pager) {
    let indent = "  ".repeat(above.len());
    for node in &folder.children {
        let name = format!("{indent}{}{}", quote_name(&node.name), kind_mark(&node.kind));
        let mut line = name.clone();
        let is_own = |cut: &McpTreeTruncation| ["io_error", "budget"].contains(&cut.reason.as_str());
        end_entry(context, node, above.len(), node.truncated.as_ref().is_some_and(is_own), &mut line);
        push_below(above, &line, pager);
        above.push(name);
        push_children(context, node, above, pager);
        above.pop();
    }
    if let Some(cut) = folder.truncated.as_ref().filter(|cut| cut.shown > 0) {
        let left =
            cut.total.map(|total| counted(total.saturating_sub(cut.shown), "more entry").replace("entrys", "entries"));
        let left = left.unwrap_or_else(|| "more".into());
        push_below(above, &format!("{indent}… {left}; {}\n", context.translate(&cut.hint)), pager);
    }
}

/// Adds a line. A reply that begins in the middle of a tree first names the folders above its first line.
fn push_below(above: &[String], line: &str, pager: &mut Pager) {
    let is_at_middle = pager.is_at_middle();
    if pager.push(line) && is_at_middle {
        pager.set_preface(above.iter().map(|name| format!("{name} (continued)\n")).collect());
    }
}

/// Adds the reason why a folder has no children here. The call that shows them is the same for all folders with that reason,
/// so it is only written out where it adds information.
fn end_entry(context: &RenderContext<'_>, node: &McpTreeNode<'_>, depth: usize, with_hint: bool, line: &mut String) {
    line.push_str(access_note(node.non_accessible, node.mount_point));
    if let Some(cut) = node.truncated.as_ref().filter(|cut| cut.shown == 0) {
        match cut.reason.as_str() {
            "max_depth" => line.push_str(" …"),
            "default_exclude" => line.push_str(" (left out by default)"),
            reason => line.push_str(&format!(" ({})", escape_text(reason).replace('_', " "))),
        }
        if with_hint || depth == 0 {
            line.push_str(&format!(" {}", context.translate(&cut.hint)));
        }
    }
    line.push('\n');
}
