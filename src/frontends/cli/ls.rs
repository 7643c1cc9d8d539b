//! `stockade ls`: folders, page after page, so that a folder of a million entries needs the memory of one page unless it is sorted.

use std::ffi::{OsStr, OsString};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    super::client::CallError,
    CommandResult, FileSession,
    args::LsArgs,
    columns::{Cell, lay_out},
    escape::{self, display_width},
    failure::{CliFailure, entry_failure, unexpected_result},
    output::{Output, OutputStyle, Paint},
    paths::PathBase,
    units::{human_size, utc_minute},
};

const METHOD: &str = "coder::list-folder";
const STAT: &str = "coder::stat";

/// The default upper limit of the service. It returns smaller pages if the policy says so.
const PAGE_ENTRIES: u32 = 1000;

#[derive(Debug, Deserialize)]
struct CliListPage {
    entries: Vec<CliListEntry>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct CliListEntry {
    #[serde(default)]
    name: String,
    /// Base64, when `name` had to be made UTF-8.
    name_bytes: Option<String>,
    kind: Option<String>,
    size: Option<u64>,
    mtime: Option<i64>,
    #[serde(default)]
    non_accessible: bool,
    #[serde(default)]
    mount_point: bool,
}

pub(super) fn run(args: &LsArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let here = [OsString::from(".")];
    let paths = if args.paths.is_empty() { &here[..] } else { &args.paths };
    match out.json {
        true => run_json(args, paths, session, out),
        false => list_operands(args, paths, session, out),
    }
}

/// Lists files first, then each folder under its name, like `ls`. A refused name does not hide the others.
fn list_operands(
    args: &LsArgs,
    paths: &[OsString],
    session: &mut dyn FileSession,
    out: &mut Output<'_>,
) -> CommandResult {
    let (mut files, mut folders, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let refused = match args.directory {
            true => None,
            false => match request_page(args, path, args.page.unwrap_or(1), session) {
                Ok(page) => {
                    folders.push((path, page));
                    continue;
                }
                Err(refused @ CliFailure::Call(CallError::Remote(_))) => Some(refused),
                Err(failure) => return Err(failure),
            },
        };
        match (stat_operand(path, session)?, refused) {
            (Ok(entry), refused) if refused.is_none() || !entry.is_kind("dir") => files.push(entry),
            (Ok(_), Some(refused)) | (Err(_), Some(refused)) => failed.push(out.report_entry(refused)),
            (Err(failure), None) => failed.push(out.report_entry(failure)),
            (Ok(entry), None) => files.push(entry),
        }
    }
    let has_headers = paths.len() > 1;
    let mut is_first = files.is_empty();
    print_entries(args, files, out)?;
    for (path, page) in folders {
        if has_headers {
            let gap = if std::mem::take(&mut is_first) { "" } else { "\n" };
            out.write_text(&format!("{gap}{}:\n", escape::name(path.as_encoded_bytes())))?;
        }
        list_pages(args, path, page, session, out)?;
    }
    Ok(out.report_hints(&failed))
}

/// Prints a folder, beginning with the page that was already read.
fn list_pages(
    args: &LsArgs,
    path: &OsStr,
    first: CliListPage,
    session: &mut dyn FileSession,
    out: &mut Output<'_>,
) -> Result<(), CliFailure> {
    let mut page = first;
    let mut all = Vec::new();
    for next in args.page.unwrap_or(1).saturating_add(1).. {
        let is_last = !page.has_more || page.entries.is_empty() || args.page.is_some();
        match args.is_sorted() {
            true => all.append(&mut page.entries),
            false => print_entries(args, std::mem::take(&mut page.entries), out)?,
        }
        if is_last {
            break;
        }
        page = request_page(args, path, next, session)?;
    }
    print_entries(args, all, out)
}

fn print_entries(args: &LsArgs, mut entries: Vec<CliListEntry>, out: &mut Output<'_>) -> Result<(), CliFailure> {
    match () {
        () if args.by_time => entries.sort_by_key(|entry| std::cmp::Reverse(entry.mtime)),
        () if args.by_size => entries.sort_by_key(|entry| std::cmp::Reverse(entry.size)),
        () => {}
    }
    if args.reverse {
        entries.reverse();
    }
    let text = match (args.long, out.terminal_columns.filter(|_| !args.one_per_line)) {
        (true, _) => render_long(&entries, args.human, out.style),
        (false, Some(columns)) => render_columns(&entries, columns, out.style),
        (false, None) => entries.iter().map(|entry| entry.painted_name(out.style) + "\n").collect(),
    };
    out.write_text(&text)
}

fn request_page(
    args: &LsArgs,
    path: &OsStr,
    number: u32,
    session: &mut dyn FileSession,
) -> Result<CliListPage, CliFailure> {
    let request = request(args, path, number, session.path_base());
    let reply = session.call(METHOD, &request)?;
    serde_json::from_str(reply.get()).map_err(unexpected_result)
}

/// Stats a name that is listed itself. The inner error is the refusal of the service.
fn stat_operand(path: &OsStr, session: &mut dyn FileSession) -> Result<Result<CliListEntry, CliFailure>, CliFailure> {
    let request = json!({ "paths": [session.path_base().wire_path(path)] });
    let reply = session.call(STAT, &request.to_string())?;
    let mut reply: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    let result = reply["results"][0].take();
    if let Some(error) = result.get("error") {
        let error: Box<RawValue> = serde_json::value::to_raw_value(error).map_err(unexpected_result)?;
        return Ok(Err(entry_failure(&error)));
    }
    let entry: CliListEntry = serde_json::from_value(result).map_err(unexpected_result)?;
    let name_bytes = Some(BASE64.encode(path.as_encoded_bytes()));
    Ok(Ok(CliListEntry { name: path.to_string_lossy().into_owned(), name_bytes, ..entry }))
}

/// For one folder: one page as received, or all pages as one result. For several: an array of these.
fn run_json(args: &LsArgs, paths: &[OsString], session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    if let [path] = paths {
        let reply = listing_json(args, path, session)?;
        return out.write_json_line(&reply).map(|()| 0);
    }
    let replies: Vec<String> =
        paths.iter().map(|path| listing_json(args, path, session)).collect::<Result<_, CliFailure>>()?;
    out.write_json_line(&format!("[{}]", replies.join(","))).map(|()| 0)
}

fn listing_json(args: &LsArgs, path: &OsStr, session: &mut dyn FileSession) -> Result<String, CliFailure> {
    let request = |number, session: &dyn FileSession| request(args, path, number, session.path_base());
    let first = request(args.page.unwrap_or(1), session);
    let first = session.call(METHOD, &first)?;
    let mut whole: Value = serde_json::from_str(first.get()).map_err(unexpected_result)?;
    if args.page.is_some() || whole["has_more"] != true {
        return Ok(first.get().to_owned());
    }
    for number in 2.. {
        let next = request(number, session);
        let reply = session.call(METHOD, &next)?;
        let mut page: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let Some(entries) = page["entries"].as_array_mut() else { break };
        let last = entries.is_empty() || page["has_more"] != true;
        join_pages(&mut whole, page);
        if last {
            break;
        }
    }
    whole["has_more"] = false.into();
    Ok(whole.to_string())
}

fn join_pages(whole: &mut Value, mut page: Value) {
    if let (Some(all), Some(more)) = (whole["entries"].as_array_mut(), page["entries"].as_array_mut()) {
        all.append(more);
        whole["page_size"] = whole["entries"].as_array().map_or(0, Vec::len).into();
    }
}

fn request(args: &LsArgs, path: &OsStr, page: u32, base: &PathBase) -> String {
    let mut request = base.wire_path(path);
    request["page"] = page.into();
    request["page_size"] = args.page_size.unwrap_or(PAGE_ENTRIES).into();
    request.to_string()
}

impl CliListEntry {
    fn shown_name(&self) -> String {
        let bytes = self.name_bytes.as_ref().and_then(|bytes| BASE64.decode(bytes).ok());
        escape::name(bytes.as_deref().unwrap_or(self.name.as_bytes()))
    }

    fn is_kind(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn painted_name(&self, style: OutputStyle) -> String {
        let paint = match () {
            () if self.non_accessible => Paint::Dim,
            () if self.is_kind("dir") => Paint::Folder,
            () if self.is_kind("symlink") => Paint::Link,
            () => return self.shown_name(),
        };
        style.paint(paint, &self.shown_name())
    }

    fn cell(&self, style: OutputStyle) -> Cell {
        let mark = match () {
            () if self.is_kind("dir") => "/",
            () if self.is_kind("symlink") => "@",
            () => "",
        };
        Cell { painted: self.painted_name(style) + mark, plain: self.shown_name() + mark }
    }

    fn kind_letter(&self) -> char {
        match self.kind.as_deref() {
            Some("file") => '-',
            Some("dir") => 'd',
            Some("symlink") => 'l',
            _ => '?',
        }
    }

    /// False for mount points and denied entries, for which the service returns neither.
    fn has_size_and_time(&self) -> bool {
        !self.mount_point && !self.non_accessible
    }

    fn marks(&self) -> &'static str {
        match (self.non_accessible, self.mount_point) {
            (true, _) => "  [denied]",
            (false, true) => "  [mount]",
            (false, false) => "",
        }
    }
}

fn render_columns(entries: &[CliListEntry], columns: usize, style: OutputStyle) -> String {
    let cells: Vec<Cell> = entries.iter().map(|entry| entry.cell(style)).collect();
    lay_out(&cells, columns)
}

fn render_long(entries: &[CliListEntry], human: bool, style: OutputStyle) -> String {
    let size = |entry: &CliListEntry| match entry.size.filter(|_| entry.has_size_and_time()) {
        Some(bytes) if human => human_size(bytes),
        Some(bytes) => bytes.to_string(),
        None => "-".into(),
    };
    let sizes: Vec<String> = entries.iter().map(size).collect();
    let size_width = sizes.iter().map(|size| display_width(size)).max().unwrap_or(0);
    let line = |(entry, size): (&CliListEntry, &String)| {
        let time = entry.mtime.filter(|_| entry.has_size_and_time()).map_or_else(|| "-".into(), utc_minute);
        let (kind, name) = (entry.kind_letter(), entry.cell(style).painted);
        let marks = style.paint(Paint::Dim, entry.marks());
        let marks = if entry.marks().is_empty() { "" } else { &marks };
        format!("{kind} {size:>size_width$}  {time:16}  {name}{marks}\n")
    };
    entries.iter().zip(&sizes).map(line).collect()
}

#[cfg(test)]
#[path = "ls_tests.rs"]
mod tests;
