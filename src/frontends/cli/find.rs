//! `stockade find`: one path per line, page after page.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::client::CallError,
    CommandResult, FileSession,
    args::{CliFindType, FindArgs, SortOrder},
    escape,
    failure::{CliFailure, EXIT_NOTHING_FOUND, unexpected_result},
    output::{Output, OutputStyle, Paint},
    paths::{GLOB_LETTERS, PathBase, display_path, escape_glob, reply_path},
    progress,
    units::{TimeBound, human_size, now_ms, utc_minute},
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

pub(super) fn run(args: &FindArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let base = session.path_base().clone();
    let mut request = request(args, &base, now_ms())?;
    let depth = DepthFilter::new(args, &base);
    let mut left = args.limit.unwrap_or(u64::MAX);
    if out.json {
        return run_json(&mut request, &depth, left, session, out);
    }
    let (mut unreadable, mut ignored, mut is_found) = (0, 0, false);
    loop {
        request["limit"] = depth.page_limit(left).into();
        let reply = progress::show_during("looking", || session.call(METHOD, &request.to_string()))?;
        let mut page: CliFindPage = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        page.files.retain(|entry| depth.keeps(&reply_path(&entry.path, entry.path_bytes.as_deref())));
        page.files.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        is_found |= !page.files.is_empty();
        let lines: Vec<u8> = page.files.iter().flat_map(|entry| entry.render(args, &base, out.style)).collect();
        out.write_bytes(&lines)?;
        if request["cursor"].is_null() && !page.missing_paths.is_empty() {
            out.write_remark(&format!("not found or not accessible: {}", page.missing_paths.join(", ")))?;
        }
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
    if !is_found && let Some(text) = ignored_remark(ignored) {
        out.write_remark(&text)?;
    }
    Ok(if is_found { 0 } else { EXIT_NOTHING_FOUND })
}

/// What ignore files hid of a search that found nothing, or of a tree. A folder that was not entered counts as one entry.
pub(super) fn ignored_remark(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("ignore files hid 1 entry: --no-ignore shows it".into()),
        _ => Some(format!("ignore files hid {count} entries: --no-ignore shows them")),
    }
}

/// Joins all pages into one reply.
fn run_json(
    request: &mut Value,
    depth: &DepthFilter,
    mut left: u64,
    session: &mut dyn FileSession,
    out: &mut Output<'_>,
) -> CommandResult {
    let mut all = Vec::new();
    loop {
        request["limit"] = depth.page_limit(left).into();
        let reply = session.call(METHOD, &request.to_string())?;
        let mut page: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let Value::Array(mut files) = page["files"].take() else { break };
        files.retain(|file| {
            depth.keeps(&reply_path(file["path"].as_str().unwrap_or_default(), file["path_bytes"].as_str()))
        });
        files.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= (files.len() as u64).min(left);
        all.append(&mut files);
        match page["next_cursor"].as_str().map(str::to_owned) {
            Some(cursor) if left > 0 => set_cursor(request, cursor)?,
            _ => {
                let code = if all.is_empty() { EXIT_NOTHING_FOUND } else { 0 };
                page["file_count"] = all.len().into();
                page["files"] = all.into();
                return out.write_json_line(&page.to_string()).map(|()| code);
            }
        }
    }
    Err(CallError::Protocol("a find without a list of files".into()).into())
}

/// The filter of `--max-depth`. The service has no such option, so the command requests all pages and filters them.
#[derive(Debug)]
struct DepthFilter {
    most: Option<u32>,
    /// In full: the folders that were named, and what stands before the first glob of the others.
    folders: Vec<Vec<u8>>,
}

impl DepthFilter {
    fn new(args: &FindArgs, base: &PathBase) -> Self {
        let folder = |path: &OsString| {
            let names = path.as_bytes().split(|byte| *byte == b'/');
            let plain = names.take_while(|name| !name.iter().any(|byte| GLOB_LETTERS.contains(byte)));
            base.full(&plain.collect::<Vec<_>>().join(&b'/'))
        };
        let here = args.paths.is_empty().then(|| base.full(b"."));
        Self { most: args.max_depth, folders: args.paths.iter().map(folder).chain(here).collect() }
    }

    fn keeps(&self, path: &[u8]) -> bool {
        let Some(most) = self.most else { return true };
        self.folders.iter().any(|folder| {
            let below = path.strip_prefix(folder.strip_suffix(b"/").unwrap_or(folder));
            below.is_some_and(|below| {
                let is_below = below.is_empty() || below.starts_with(b"/");
                is_below && below.iter().filter(|byte| **byte == b'/').count() <= most as usize
            })
        })
    }

    fn page_limit(&self, left: u64) -> u64 {
        if self.most.is_some() { PAGE_ENTRIES } else { left.min(PAGE_ENTRIES) }
    }
}

/// A page that ended where it began would repeat for ever.
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

/// The paths to search. With extensions, globs for them below each folder.
fn operands(args: &FindArgs) -> Result<Vec<OsString>, CliFailure> {
    if args.extensions.is_empty() {
        return Ok(args.paths.clone());
    }
    let here = [OsString::from(".")];
    let folders = if args.paths.is_empty() { &here[..] } else { &args.paths };
    if let Some(glob) = folders.iter().find(|path| path.as_bytes().iter().any(|byte| b"*?".contains(byte))) {
        let glob = display_path(glob);
        return Err(CliFailure::Usage(format!("{glob}: -e goes with folders; put the extension into the glob")));
    }
    let pair = |folder: &OsString, extension: &String| {
        let extension = escape_glob(extension.trim_start_matches('.').as_bytes());
        let folder = match folder.as_bytes() {
            b"." | b"./" => Vec::new(),
            folder => [&escape_glob(folder.strip_suffix(b"/").unwrap_or(folder)), &b"/**/"[..]].concat(),
        };
        OsString::from_vec([folder, b"*.".to_vec(), extension].concat())
    };
    Ok(folders.iter().flat_map(|folder| args.extensions.iter().map(move |extension| pair(folder, extension))).collect())
}

fn request(args: &FindArgs, base: &PathBase, now_ms: i64) -> Result<Value, CliFailure> {
    let mut request = json!({
        "sort": match args.sort {
            SortOrder::Path => "path",
            SortOrder::Mtime => "mtime",
        },
        "gitignore": !args.no_ignore,
        "timeout": PAGE_SECONDS,
    });
    base.scope(&operands(args)?).write_to(&mut request);
    if let Some(kind) = args.kind {
        request["kind"] = if kind == CliFindType::File { "file" } else { "dir" }.into();
    }
    if args.no_hidden {
        request["hidden"] = false.into();
    }
    if args.all {
        request["use_default_excludes"] = false.into();
    }
    let seconds = |bound: TimeBound| u64::try_from(bound.unix_ms(now_ms) / 1000).unwrap_or(0);
    let numbers = [
        ("min_size", args.min_size),
        ("max_size", args.max_size),
        ("modified_after", args.changed_within.map(seconds)),
        ("modified_before", args.changed_before.map(seconds)),
    ];
    for (field, number) in numbers {
        if let Some(number) = number {
            request[field] = number.into();
        }
    }
    Ok(request)
}

impl CliFindEntry {
    fn render(&self, args: &FindArgs, base: &PathBase, style: OutputStyle) -> Vec<u8> {
        let path = match args.absolute_path {
            true => reply_path(&self.path, self.path_bytes.as_deref()),
            false => base.shorten(&self.path, self.path_bytes.as_deref()),
        };
        if args.print0 {
            return [path, vec![0]].concat();
        }
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
        let facts = if args.long { self.render_details() } else { String::new() };
        format!("{facts}{folder}{name}\n").into_bytes()
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
