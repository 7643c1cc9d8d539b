//! `stockade ls`: a folder, page after page, so that a folder of a million entries needs the memory of one page.

use serde::Deserialize;
use serde_json::Value;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::{
    CallSession, CommandResult,
    args::LsArgs,
    columns::{Cell, lay_out},
    escape::{self, display_width},
    failure::unexpected_result,
    output::{Output, OutputStyle, Paint},
    paths::wire_path,
    units::{human_size, utc_minute},
};

const METHOD: &str = "coder::list-folder";

/// The service's default upper limit; it answers smaller pages where the policy says so.
const PAGE_ENTRIES: u32 = 1000;

#[derive(Debug, Deserialize)]
struct CliListPage {
    entries: Vec<CliListEntry>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct CliListEntry {
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

pub(super) fn run(args: &LsArgs, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
    match out.json {
        true => run_json(args, session, out),
        false => run_pages(args, session, out),
    }
}

fn run_pages(args: &LsArgs, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
    for number in args.page.unwrap_or(1).. {
        let reply = session.call(METHOD, &request(args, number))?;
        let page: CliListPage = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let text = match (args.long, out.terminal_columns) {
            (true, _) => render_long(&page.entries, args.human, out.style),
            (false, Some(columns)) => render_columns(&page.entries, columns, out.style),
            (false, None) => page.entries.iter().map(|entry| entry.painted_name(out.style) + "\n").collect(),
        };
        out.write_text(&text)?;
        if !page.has_more || page.entries.is_empty() || args.page.is_some() {
            break;
        }
    }
    Ok(0)
}

/// One page as received; all pages as one result whose entries are joined.
fn run_json(args: &LsArgs, session: &mut dyn CallSession, out: &mut Output<'_>) -> CommandResult {
    let first = session.call(METHOD, &request(args, args.page.unwrap_or(1)))?;
    let mut whole: Value = serde_json::from_str(first.get()).map_err(unexpected_result)?;
    if args.page.is_some() || whole["has_more"] != true {
        return out.write_json_line(first.get()).map(|()| 0);
    }
    for number in 2.. {
        let reply = session.call(METHOD, &request(args, number))?;
        let mut page: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        let Some(entries) = page["entries"].as_array_mut() else { break };
        let last = entries.is_empty() || page["has_more"] != true;
        join_pages(&mut whole, page);
        if last {
            break;
        }
    }
    whole["has_more"] = false.into();
    out.write_json_line(&whole.to_string()).map(|()| 0)
}

fn join_pages(whole: &mut Value, mut page: Value) {
    if let (Some(all), Some(more)) = (whole["entries"].as_array_mut(), page["entries"].as_array_mut()) {
        all.append(more);
        whole["page_size"] = whole["entries"].as_array().map_or(0, Vec::len).into();
    }
}

fn request(args: &LsArgs, page: u32) -> String {
    let mut request = wire_path(&args.path);
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

    /// The service tells neither size nor time of mount points and denied entries.
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
