//! `stockade find`: one path per line, page after page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CallSession, CommandResult,
    args::{CliFindSort, CliFindType, FindArgs},
    escape,
    failure::{CliFailure, unexpected_result},
    output::{Output, OutputStyle, Paint},
    paths::{PrimaryRoot, wire_paths},
    progress,
    units::{human_size, utc_minute},
};

const METHOD: &str = "coder::find";
/// The service's own limit for one reply.
const PAGE_ENTRIES: u64 = 10_000;
/// The longest that one reply may take; the service's own limit.
const PAGE_SECONDS: f64 = 60.0;

#[derive(Debug, Deserialize)]
struct CliFindPage {
    files: Vec<CliFindEntry>,
    next_cursor: Option<String>,
    #[serde(default)]
    timed_out: bool,
    #[serde(default)]
    missing_paths: Vec<String>,
    skipped: Option<CliFindSkipped>,
}

#[derive(Debug, Deserialize)]
struct CliFindEntry {
    path: String,
    path_bytes: Option<String>,
    kind: Option<String>,
    size: Option<u64>,
    mtime: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct CliFindSkipped {
    #[serde(default)]
    unreadable: u64,
    #[serde(default)]
    ignored: u64,
}

pub(super) fn run(args: &FindArgs, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
    let mut request = request(args, SystemTime::now());
    let mut left = args.limit.unwrap_or(u64::MAX);
    if out.json {
        return run_json(&mut request, left, session, out);
    }
    let home = PrimaryRoot::query(session)?;
    let (mut unreadable, mut ignored, mut is_empty) = (0, 0, true);
    loop {
        request["limit"] = left.min(PAGE_ENTRIES).into();
        let reply = progress::show_during("looking", || session.call(METHOD, &request.to_string()))?;
        let page: CliFindPage = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let text: String = page.files.iter().map(|entry| entry.render_line(args.long, &home, out.style)).collect();
        out.write_text(&text)?;
        if request["cursor"].is_null() && !page.missing_paths.is_empty() {
            out.write_remark(&format!("not found or not accessible: {}", page.missing_paths.join(", ")))?;
        }
        is_empty &= page.files.is_empty();
        if let Some(skipped) = page.skipped {
            unreadable += skipped.unreadable;
            ignored += skipped.ignored;
        }
        left -= (page.files.len() as u64).min(left);
        match page.next_cursor {
            Some(cursor) if left > 0 => set_cursor(&mut request, cursor)?,
            None if page.timed_out => return Err(timed_out_failure()),
            _ => break,
        }
    }
    if unreadable > 0 {
        out.write_remark(&format!("{unreadable} folders could not be read"))?;
    }
    if is_empty && let Some(text) = ignored_remark(ignored) {
        out.write_remark(&text)?;
    }
    Ok(0)
}

/// What ignore files hid of a search that found nothing, or of a tree. A folder that was not entered counts as one entry.
pub(super) fn ignored_remark(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("ignore files hid 1 entry: --no-ignore shows it".into()),
        _ => Some(format!("ignore files hid {count} entries: --no-ignore shows them")),
    }
}

/// Pages joined to one reply.
fn run_json(request: &mut Value, mut left: u64, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
    let mut whole: Option<Value> = None;
    loop {
        request["limit"] = left.min(PAGE_ENTRIES).into();
        let reply = session.call(METHOD, &request.to_string())?;
        let mut page: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        left -= (page["files"].as_array().map_or(0, Vec::len) as u64).min(left);
        let cursor = page["next_cursor"].as_str().map(str::to_owned);
        whole = Some(match whole {
            None => page,
            Some(mut all) => {
                if let (Some(files), Some(more)) = (all["files"].as_array_mut(), page["files"].as_array_mut()) {
                    more.splice(..0, std::mem::take(files));
                }
                page["file_count"] = page["files"].as_array().map_or(0, Vec::len).into();
                page
            }
        });
        match cursor {
            Some(cursor) if left > 0 => set_cursor(request, cursor)?,
            _ => break,
        }
    }
    out.write_json_line(&whole.unwrap_or_default().to_string()).map(|()| 0)
}

/// A page that ended where it began would go on for ever.
fn set_cursor(request: &mut Value, cursor: String) -> Result<(), CliFailure> {
    if request["cursor"] == cursor.as_str() {
        return Err(timed_out_failure());
    }
    request["cursor"] = cursor.into();
    Ok(())
}

fn timed_out_failure() -> CliFailure {
    CliFailure::File("not everything could be looked at in time; name a folder, or sort by path".into())
}

fn request(args: &FindArgs, now: SystemTime) -> Value {
    let mut request = json!({
        "paths": wire_paths(&args.paths),
        "sort": match args.sort {
            CliFindSort::Path => "path",
            CliFindSort::Mtime => "mtime",
        },
        "gitignore": !args.no_ignore,
        "timeout": PAGE_SECONDS,
    });
    if let Some(kind) = args.kind {
        request["kind"] = if kind == CliFindType::File { "file" } else { "dir" }.into();
    }
    if args.no_hidden {
        request["hidden"] = false.into();
    }
    if args.all {
        request["use_default_excludes"] = false.into();
    }
    let ago = |age: Duration| {
        let then = now.checked_sub(age).unwrap_or(UNIX_EPOCH);
        then.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    };
    let numbers = [
        ("min_size", args.min_size),
        ("max_size", args.max_size),
        ("modified_after", args.changed_within.map(ago)),
        ("modified_before", args.changed_before.map(ago)),
    ];
    for (field, number) in numbers {
        if let Some(number) = number {
            request[field] = number.into();
        }
    }
    request
}

impl CliFindEntry {
    fn render_line(&self, is_long: bool, home: &PrimaryRoot, style: OutputStyle) -> String {
        let path = home.shorten(&self.path, self.path_bytes.as_deref());
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => path.split_at(slash + 1),
            None => (&b""[..], path.as_slice()),
        };
        let (folder, name) = (escape::name(folder), escape::name(name));
        let name = match self.kind.as_deref() {
            Some("dir") => style.paint(Paint::Folder, &name) + "/",
            Some("symlink") => style.paint(Paint::Link, &name) + "@",
            _ => name,
        };
        let folder = if folder.is_empty() { folder } else { style.paint(Paint::Folder, &folder) };
        let facts = if is_long { self.render_details() } else { String::new() };
        format!("{facts}{folder}{name}\n")
    }

    fn render_details(&self) -> String {
        let kind = match self.kind.as_deref() {
            Some("file") => '-',
            Some("dir") => 'd',
            Some("symlink") => 'l',
            _ => '?',
        };
        let size = self.size.map_or_else(|| "-".into(), human_size);
        let time = self.mtime.map_or_else(|| "-".into(), utc_minute);
        format!("{kind} {size:>4}  {time:16}  ")
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
