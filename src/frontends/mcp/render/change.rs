//! `create`, `edit`, `move`, `copy`, `delete`, `restore`: what happened to each name, and what an edit left there.

use serde::Deserialize;

use super::{McpEntryError, RenderContext, RenderedReply, counted, end_line, hidden::HiddenCharacters};
use crate::frontends::escape::{escape_text, json};

#[derive(Debug, Deserialize)]
pub(super) struct McpChangeResult {
    #[serde(default)]
    results: Vec<McpChangedEntry>,
    /// Of the trash.
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

/// Whether nothing at all was done.
pub(super) fn is_failure(reply: &McpChangeResult) -> bool {
    !reply.results.is_empty() && reply.results.iter().all(|change| change.error.is_some())
}

pub(super) fn render(asked: &RenderContext<'_>, reply: &McpChangeResult) -> RenderedReply {
    let mut text = String::new();
    let mut hidden = HiddenCharacters::default();
    for change in &reply.results {
        match &change.error {
            Some(error) => {
                text.push_str(&error.render(asked));
                push_nearest(asked, change, error, &mut hidden, &mut text);
            }
            None => push_entry(asked, change, &mut hidden, &mut text),
        }
        end_line(&mut text);
    }
    text.extend(hidden.warning());
    if let Some(entries) = &reply.entries {
        for entry in entries {
            let path = asked.show_path(&entry.path);
            text.push_str(&format!(
                "{} {path} ({}, {})\n",
                escape_text(&entry.id),
                escape_text(&entry.kind),
                counted(entry.size, "byte")
            ));
        }
        text.push_str(match entries.is_empty() {
            true => "the trash is empty\n",
            false => "next: restore {\"ids\":[\"…\"]}\n",
        });
    }
    RenderedReply { is_error: is_failure(reply), ..RenderedReply::success(&text) }
}

fn push_entry(asked: &RenderContext<'_>, change: &McpChangedEntry, hidden: &mut HiddenCharacters, text: &mut String) {
    let show = |path: &str| asked.show_path(path).into_owned();
    let is_dry = change.dry_run;
    let verb = |done: &'static str, would: &'static str| if is_dry { would } else { done };
    let said = match asked.tool {
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
        "delete" => {
            format!("{} {}{}", verb("deleted", "would delete"), show(&change.path), deleted_contents(change))
        }
        _ => format!("{} {}", verb("restored", "would restore"), show(&change.path)),
    };
    text.push_str(&said);
    if let Some(etag) = &change.etag {
        text.push_str(&format!(", etag {}", escape_text(etag)));
    }
    if let Some(id) = &change.trash_id {
        text.push_str(&format!("; back with restore {}", json(&serde_json::json!({"ids": [id]}).to_string())));
    }
    if change.owner_changed {
        text.push_str("; its owner could not be kept");
    }
    text.push('\n');
    match &change.diff {
        Some(diff) => {
            push_diff(asked, change, diff, hidden, text);
            if change.diff_truncated {
                end_line(text);
                text.push_str("… the diff is cut\n");
            }
        }
        None => push_echoes(asked, change, hidden, text),
    }
}

/// The lines that a text was probably meant to match, numbered like those of a read, so that a model can copy them.
fn push_nearest(
    asked: &RenderContext<'_>,
    change: &McpChangedEntry,
    error: &McpEntryError,
    hidden: &mut HiddenCharacters,
    text: &mut String,
) {
    let Some(nearest) = &error.nearest else { return };
    let path = asked.show_path(&change.path);
    text.push('\n');
    for (number, line) in (nearest.from_line..).zip(&nearest.lines) {
        hidden.scan(line, |_| format!("{path}:{number}"));
        text.push_str(&format!("{number}→{line}\n"));
    }
}

/// The two lines above the first hunk hold names. All others are content behind a mark of their own.
fn push_diff(
    asked: &RenderContext<'_>,
    change: &McpChangedEntry,
    diff: &str,
    hidden: &mut HiddenCharacters,
    text: &mut String,
) {
    let path = asked.show_path(&change.path);
    for (at, line) in diff.split_inclusive('\n').enumerate() {
        if at < 2 {
            text.push_str(&escape_text(line.trim_end_matches('\n')));
            text.push('\n');
        } else {
            hidden.scan(line, |_| format!("line {} of the diff of {path}", at + 1));
            text.push_str(line);
        }
    }
}

/// How much a folder holds that a dry run would delete.
fn deleted_contents(change: &McpChangedEntry) -> String {
    let Some(entries) = change.entries else { return String::new() };
    let more = if change.entries_more { "more than " } else { "" };
    let noun = if entries == 1 { "entry" } else { "entries" };
    format!(" with {more}{entries} {noun}")
}

/// The changed places with their line numbers: a model checks here instead of reading again.
fn push_echoes(asked: &RenderContext<'_>, change: &McpChangedEntry, hidden: &mut HiddenCharacters, text: &mut String) {
    let path = asked.show_path(&change.path);
    let mut last = 0;
    for echo in &change.echoes {
        if last > 0 && echo.from_line > last + 1 {
            text.push_str("⋮\n");
        }
        // What was left out lies in the middle: half of the lines stand before it.
        let head = if echo.elided.is_some() { echo.lines.len().div_ceil(2) } else { echo.lines.len() };
        let mut number = echo.from_line;
        for (at, line) in echo.lines.iter().enumerate() {
            if let Some(elided) = echo.elided.filter(|_| at == head) {
                text.push_str(&format!("⋮ {}\n", counted(elided, "line")));
                number += elided;
            }
            hidden.scan(line, |_| format!("{path}:{number}"));
            text.push_str(&format!("{number}→{line}\n"));
            number += 1;
        }
        last = number.saturating_sub(1);
    }
    let made = change.echoes.iter().filter_map(|echo| echo.total_replacements).max();
    if change.echoes_truncated {
        let made = made.map(|made| format!(" ({} in all)", counted(made, "replacement"))).unwrap_or_default();
        text.push_str(&format!("… more changed places than shown{made}\n"));
    }
}
