//! `list` and `tree`: names, one per line.

use std::{borrow::Cow, fmt::Write};

use serde::Deserialize;

use super::{Asked, count};
use crate::frontends::escape::{one_line, quoted_name};

#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    path: String,
    #[serde(borrow)]
    entries: Vec<Entry<'a>>,
    total: u64,
    page: u64,
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct Entry<'a> {
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
fn mark(kind: &str) -> &'static str {
    match kind {
        "dir" => "/",
        "symlink" => " (link, not followed)",
        "other" => " (FIFO, socket or device)",
        _ => "",
    }
}

fn closed(non_accessible: bool, mount_point: bool) -> &'static str {
    match (non_accessible, mount_point) {
        (true, _) => " (no access)",
        (_, true) => " (mount point)",
        _ => "",
    }
}

pub(super) fn list(asked: &Asked<'_>, page: &Page<'_>) -> String {
    let mut text = format!("{}: {}\n", asked.path(&page.path), count_entries(page.total));
    for entry in &page.entries {
        text.push_str(&quoted_name(&entry.name));
        text.push_str(mark(&entry.kind));
        if entry.kind == "file" && !entry.non_accessible {
            // A String takes everything.
            let _ = write!(text, "  {}", entry.size);
        }
        text.push_str(closed(entry.non_accessible, entry.mount_point));
        text.push('\n');
    }
    if page.has_more {
        text.push_str(&format!("… more; next: {}\n", asked.again("page", &(page.page + 1))));
    }
    text
}

fn count_entries(total: u64) -> String {
    if total == 1 { "1 entry".into() } else { format!("{total} entries") }
}

#[derive(Debug, Deserialize)]
pub(super) struct Tree<'a> {
    path: String,
    #[serde(borrow)]
    root: Node<'a>,
}

#[derive(Debug, Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    non_accessible: bool,
    #[serde(default)]
    mount_point: bool,
    #[serde(default)]
    children: Vec<Node<'a>>,
    truncated: Option<Truncated>,
}

#[derive(Debug, Deserialize)]
struct Truncated {
    reason: String,
    #[serde(default)]
    shown: u64,
    total: Option<u64>,
    #[serde(default)]
    hint: String,
}

pub(super) fn tree(asked: &Asked<'_>, reply: &Tree<'_>) -> String {
    let mut text = format!("{}/", asked.path(&reply.path));
    finish(asked, &reply.root, 0, true, &mut text);
    below(asked, &reply.root, 1, &mut text);
    text
}

/// As deep as the reply, which the JSON parser bounds.
fn below(asked: &Asked<'_>, folder: &Node<'_>, depth: usize, text: &mut String) {
    for node in &folder.children {
        text.push_str(&"  ".repeat(depth));
        text.push_str(&quoted_name(&node.name));
        text.push_str(mark(&node.kind));
        finish(asked, node, depth, node.truncated.as_ref().is_some_and(|cut| cut.reason == "io_error"), text);
        below(asked, node, depth + 1, text);
    }
    if let Some(cut) = folder.truncated.as_ref().filter(|cut| cut.shown > 0) {
        let left = cut
            .total
            .map(|total| count(total.saturating_sub(cut.shown), "more entry").replace("entrys", "entries"));
        text.push_str(&"  ".repeat(depth));
        text.push_str(&format!("… {}; {}\n", left.unwrap_or_else(|| "more".into()), asked.words(&cut.hint)));
    }
}

/// Why a folder has no children here. The call that shows them is the same for all of a kind, so it is spelled out only where
/// it says something new.
fn finish(asked: &Asked<'_>, node: &Node<'_>, depth: usize, with_hint: bool, text: &mut String) {
    text.push_str(closed(node.non_accessible, node.mount_point));
    if let Some(cut) = node.truncated.as_ref().filter(|cut| cut.shown == 0) {
        match cut.reason.as_str() {
            "max_depth" => text.push_str(" …"),
            "default_exclude" => text.push_str(" (left out by default)"),
            reason => text.push_str(&format!(" ({})", one_line(reason).replace('_', " "))),
        }
        if with_hint || depth == 0 {
            text.push_str(&format!(" {}", asked.words(&cut.hint)));
        }
    }
    text.push('\n');
}
