//! `info`: what a model has to know before it names a path.

use serde::Deserialize;

use super::RenderContext;
use crate::frontends::escape::{escape_text, quote_name};

#[derive(Debug, Deserialize)]
pub(super) struct McpInfoResult {
    roots: Vec<McpInfoRoot>,
    #[serde(default)]
    non_accessible_globs: Vec<String>,
    #[serde(default)]
    non_accessible_except_globs: Vec<String>,
    #[serde(default)]
    read_only_globs: Vec<String>,
    #[serde(default)]
    read_only_except_globs: Vec<String>,
    #[serde(default)]
    default_exclude_globs: Vec<String>,
    confinement: Option<McpInfoConfinement>,
    trash: Option<McpInfoTrash>,
    server: Option<McpInfoServer>,
    max_read_bytes: Option<u64>,
    max_write_bytes: Option<u64>,
    call_timeout_ms: Option<u64>,
    max_batch_entries: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct McpInfoRoot {
    path: String,
    mode: String,
}

#[derive(Debug, Deserialize)]
struct McpInfoConfinement {
    level: String,
    #[serde(default)]
    limitations: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct McpInfoTrash {
    enabled: bool,
    default: bool,
}

#[derive(Debug, Deserialize)]
struct McpInfoServer {
    name: String,
    version: String,
}

pub(super) fn render(asked: &RenderContext<'_>, info: &McpInfoResult) -> String {
    let mut text = String::new();
    if let Some(server) = &info.server {
        text.push_str(&format!("{} {}\n", escape_text(&server.name), escape_text(&server.version)));
    }
    for (at, root) in info.roots.iter().enumerate() {
        let begins = if at == 0 { "; relative paths begin here" } else { "" };
        let mode = if root.mode == "ro" { "read-only" } else { "read and write" };
        text.push_str(&format!("root {} ({mode}{begins})\n", quote_name(&root.path)));
    }
    for folder in asked.scope.narrowed_roots() {
        text.push_str(&format!(
            "only {}: the client's roots narrow the operator's; relative paths begin at the first\n",
            quote_name(folder)
        ));
    }
    if let Some(confinement) = &info.confinement {
        text.push_str(&format!("confined by the {}\n", escape_text(&confinement.level)));
        for limitation in &confinement.limitations {
            text.push_str(&format!("limitation: {}\n", escape_text(limitation)));
        }
    }
    for (what, globs) in [
        ("never accessible", &info.non_accessible_globs),
        ("accessible all the same", &info.non_accessible_except_globs),
        ("protected (readable, not writable)", &info.read_only_globs),
        ("writable all the same", &info.read_only_except_globs),
        ("left out of tree, search and find by default", &info.default_exclude_globs),
    ] {
        if !globs.is_empty() {
            text.push_str(&format!("{what}: {}\n", escape_text(&globs.join(" "))));
        }
    }
    if let Some(trash) = info.trash.as_ref().filter(|trash| trash.enabled) {
        let default = if trash.default { "deletes go there" } else { "delete with trash: true" };
        text.push_str(&format!("trash: {default}; restore {{\"list\":true}} shows it\n"));
    }
    for (name, limit) in [
        ("max_read_bytes", info.max_read_bytes),
        ("max_write_bytes", info.max_write_bytes),
        ("max_batch_entries", info.max_batch_entries),
        ("call_timeout_ms", info.call_timeout_ms),
    ] {
        if let Some(limit) = limit {
            text.push_str(&format!("{name}: {limit}\n"));
        }
    }
    text
}
