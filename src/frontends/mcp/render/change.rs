//! `create`, `edit`, `move`, `copy`, `delete`, `restore`: what happened to each name, and what an edit left there.
//! A change cannot be made again for the rest of its reply. So a reply that would be too long shows what became of every name first,
//! and of the changed lines as many as fit; the others are named by the call that reads them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{McpEntryError, RenderContext, RenderedReply, counted, pager::Pager, render_call};
use crate::frontends::{
    escape::{self, escape_text},
    mcp::object::JsonObject,
};

#[derive(Debug, Deserialize)]
pub(super) struct McpChangeResult {
    #[serde(default)]
    results: Vec<McpChangedEntry>,
    /// The entries of the trash.
    entries: Option<Vec<McpTrashEntry>>,
}

#[derive(Debug, Deserialize)]
struct McpChangedEntry {
    #[serde(default)]
    path: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    error: Option<McpEntryError>,
    #[serde(default)]
    bytes_written: u64,
    #[serde(default)]
    applied: u64,
    #[serde(default)]
    new_line_count: u64,
    #[serde(default)]
    echoes: Vec<McpEcho>,
    #[serde(default)]
    echoes_truncated: bool,
    changed: Option<bool>,
    removed: Option<bool>,
    moved: Option<bool>,
    trash_id: Option<String>,
    etag: Option<String>,
    diff: Option<String>,
    #[serde(default)]
    diff_truncated: bool,
    #[serde(default)]
    owner_changed: bool,
    /// In a dry run, of a folder that would be deleted.
    entries: Option<u64>,
    #[serde(default)]
    entries_more: bool,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
struct McpEcho {
    from_line: u64,
    lines: Vec<String>,
    elided: Option<u64>,
    total_replacements: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct McpTrashEntry {
    id: String,
    path: String,
    kind: String,
    size: u64,
}

/// Bytes that the call beside an entry's left out lines may take.
const READ_CALL_BYTES: usize = 160;

/// True if every entry failed.
fn is_failure(reply: &McpChangeResult) -> bool {
    !reply.results.is_empty() && reply.results.iter().all(|change| change.error.is_some())
}

pub(super) fn render(context: &RenderContext<'_>, reply: &McpChangeResult) -> RenderedReply {
    let render = |detail: usize| {
        let mut pager = Pager::new(context, None);
        reply.results.iter().for_each(|change| push_entry(context, change, detail, &mut pager));
        push_trash(context, reply, &mut pager);
        pager
    };
    let mut pager = render(usize::MAX);
    if pager.is_cut() && !context.is_repeatable {
        let count = reply.results.len().max(1);
        let statuses: usize = reply
            .results
            .iter()
            .map(|change| status(context, change).len() + READ_CALL_BYTES + 2 * change.path.len())
            .sum();
        pager = render(pager.max_bytes().saturating_sub(statuses) / count);
        if pager.is_cut() {
            pager = summarise(context, reply);
        }
    }
    RenderedReply { is_error: is_failure(reply), ..RenderedReply::success(&pager.finish(context)) }
}

/// Failures, then as many successes as fit, then the number of the others.
fn summarise(context: &RenderContext<'_>, reply: &McpChangeResult) -> Pager {
    let mut pager = Pager::new(context, None);
    let (failed, done): (Vec<&McpChangedEntry>, Vec<_>) =
        reply.results.iter().partition(|change| change.error.is_some());
    let mut left: BTreeMap<&str, u64> = BTreeMap::new();
    for change in failed.into_iter().chain(done) {
        let status = status(context, change);
        if !pager.push_if_fits(&status, 512) {
            *left.entry(change.error.as_ref().map_or("done", |error| &error.code)).or_default() += 1;
        }
    }
    let left: Vec<String> = left.iter().map(|(what, count)| format!("{count} {}", escape_text(what))).collect();
    pager.push_if_fits(&format!("… {} more, not listed\n", left.join(", ")), 0);
    pager
}

fn push_trash(context: &RenderContext<'_>, reply: &McpChangeResult, pager: &mut Pager) {
    let Some(entries) = &reply.entries else { return };
    for entry in entries {
        let path = context.show_path(&entry.path);
        let (id, kind) = (escape_text(&entry.id), escape_text(&entry.kind));
        pager.push(&format!("{id} {path} ({kind}, {})\n", counted(entry.size, "byte")));
    }
    pager.push(match entries.is_empty() {
        true => "the trash is empty\n",
        false => "next: restore {\"ids\":[\"…\"]}\n",
    });
}

/// One entry; `detail`: bytes of its changed lines.
fn push_entry(context: &RenderContext<'_>, change: &McpChangedEntry, detail: usize, pager: &mut Pager) {
    pager.push(&status(context, change));
    if change.error.is_some() {
        return push_nearest(context, change, detail, pager);
    }
    match &change.diff {
        Some(diff) => push_diff(context, change, diff, detail, pager),
        None => push_echoes(context, change, detail, pager),
    }
}

/// The result of an entry, as one line.
fn status(context: &RenderContext<'_>, change: &McpChangedEntry) -> String {
    if let Some(error) = &change.error {
        return format!("{}\n", error.render(context));
    }
    let show = |path: &str| context.show_path(path).into_owned();
    let is_dry = change.dry_run;
    let verb = |done: &'static str, would: &'static str| if is_dry { would } else { done };
    let mut text = match context.tool {
        "create" => {
            let wrote = verb("wrote", "would write");
            format!("{wrote} {}: {}", show(&change.path), counted(change.bytes_written, "byte"))
        }
        "edit" if change.changed == Some(false) => format!("{}: nothing to change", show(&change.path)),
        "edit" if is_dry => format!("{}: would change, nothing was written", show(&change.path)),
        "edit" => format!(
            "edited {}: {}, {} now",
            show(&change.path),
            counted(change.applied, "op"),
            counted(change.new_line_count, "line")
        ),
        "move" if change.moved == Some(false) => format!("{}: both names are the same", show(&change.from)),
        "move" => format!("{} {} to {}", verb("moved", "would move"), show(&change.from), show(&change.to)),
        "copy" => format!("{} {} to {}", verb("copied", "would copy"), show(&change.from), show(&change.to)),
        "delete" if change.removed == Some(false) => format!("{}: was not there", show(&change.path)),
        "delete" => format!("{} {}{}", verb("deleted", "would delete"), show(&change.path), deleted_contents(change)),
        _ => format!("{} {}", verb("restored", "would restore"), show(&change.path)),
    };
    if let Some(etag) = &change.etag {
        text.push_str(&format!(", etag {}", escape_text(etag)));
    }
    if let Some(id) = &change.trash_id {
        text.push_str(&format!("; back with restore {}", escape::json(&serde_json::json!({"ids": [id]}).to_string())));
    }
    if change.owner_changed {
        text.push_str("; its owner could not be kept");
    }
    text.push('\n');
    text
}

/// The lines that a text was probably meant to match, numbered like those of a read, so that a model can copy them.
fn push_nearest(context: &RenderContext<'_>, change: &McpChangedEntry, detail: usize, pager: &mut Pager) {
    let Some(nearest) = change.error.as_ref().and_then(|error| error.nearest.as_ref()) else { return };
    let path = context.show_path(&change.path);
    let mut left = detail;
    for (number, line) in (nearest.from_line..).zip(&nearest.lines) {
        let text = format!("{number}→{line}\n");
        let Some(rest) = left.checked_sub(text.len()) else { return };
        left = rest;
        pager.push_content(&text, line, || format!("{path}:{number}"));
    }
}

/// The two lines above the first hunk hold names. All others are content behind a mark of their own.
fn push_diff(context: &RenderContext<'_>, change: &McpChangedEntry, diff: &str, detail: usize, pager: &mut Pager) {
    let path = context.show_path(&change.path);
    let mut left = detail;
    for (at, line) in diff.split_inclusive('\n').enumerate() {
        let Some(rest) = left.checked_sub(line.len()) else {
            pager.push("… the diff is cut\n");
            return;
        };
        left = rest;
        if at < 2 {
            pager.push(&format!("{}\n", escape_text(line.trim_end_matches('\n'))));
        } else {
            pager.push_content(line, line, || format!("line {} of the diff of {path}", at + 1));
        }
    }
    if !diff.is_empty() && !diff.ends_with('\n') {
        pager.push("\n");
    }
    if change.diff_truncated {
        pager.push("… the diff is cut; ask for fewer files at a time\n");
    }
}

/// The number of entries in a folder that a dry run would delete.
fn deleted_contents(change: &McpChangedEntry) -> String {
    let Some(entries) = change.entries else { return String::new() };
    let more = if change.entries_more { "more than " } else { "" };
    let noun = if entries == 1 { "entry" } else { "entries" };
    format!(" with {more}{entries} {noun}")
}

/// The changed places with their line numbers: a model checks here instead of reading again.
fn push_echoes(context: &RenderContext<'_>, change: &McpChangedEntry, detail: usize, pager: &mut Pager) {
    let path = context.show_path(&change.path);
    let mut left = detail;
    let mut last = 0;
    for echo in &change.echoes {
        if last > 0 && echo.from_line > last + 1 {
            pager.push("⋮\n");
        }
        // The left-out lines are in the middle: half of the shown lines come before them.
        let head = if echo.elided.is_some() { echo.lines.len().div_ceil(2) } else { echo.lines.len() };
        let mut number = echo.from_line;
        for (at, line) in echo.lines.iter().enumerate() {
            if let Some(elided) = echo.elided.filter(|_| at == head) {
                pager.push(&format!("⋮ {}\n", counted(elided, "line")));
                number += elided;
            }
            let shown = format!("{number}→{line}\n");
            let Some(rest) = left.checked_sub(shown.len()) else {
                return push_read_call(context, change, number, pager);
            };
            left = rest;
            pager.push_content(&shown, line, || format!("{path}:{number}"));
            number += 1;
        }
        last = number.saturating_sub(1);
    }
    let made = change.echoes.iter().filter_map(|echo| echo.total_replacements).max();
    if change.echoes_truncated {
        let made = made.map(|made| format!(" ({} in all)", counted(made, "replacement"))).unwrap_or_default();
        pager.push(&format!("… more changed places than shown{made}\n"));
    }
}

/// The call that shows the changed lines from `first` on.
fn push_read_call(context: &RenderContext<'_>, change: &McpChangedEntry, first: u64, pager: &mut Pager) {
    let end = |echo: &McpEcho| echo.from_line + echo.lines.len() as u64 + echo.elided.unwrap_or(0);
    let last = change.echoes.iter().map(end).max().unwrap_or(first).saturating_sub(1).max(first);
    let mut arguments = JsonObject::default();
    arguments.set("path", &context.scope.shorten(&change.path));
    arguments.set("line_from", &first);
    arguments.set("line_to", &last);
    pager.push(&format!("… more changed lines; next: {}\n", render_call("read", &arguments)));
}
