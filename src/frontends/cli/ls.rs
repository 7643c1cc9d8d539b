//! `stockade ls`: a folder, page after page, so that a folder of a million entries needs the memory of one page.

use serde::Deserialize;
use serde_json::Value;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::{
    Outcome, Session,
    args::LsArgs,
    columns::{Cell, layout},
    escape::{self, width},
    failure::unexpected,
    home::wire_path,
    output::{Output, Paint, Style},
    units::{human_size, utc_minute},
};

const METHOD: &str = "coder::list-folder";

/// The service's default upper limit; it answers smaller pages where the policy says so.
const PAGE_ENTRIES: u32 = 1000;

#[derive(Debug, Deserialize)]
struct Page {
    entries: Vec<Entry>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct Entry {
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

pub(super) fn run(args: &LsArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    match out.json {
        true => run_json(args, session, out),
        false => run_pages(args, session, out),
    }
}

fn run_pages(args: &LsArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    for number in args.page.unwrap_or(1).. {
        let reply = session.call(METHOD, &request(args, number))?;
        let page: Page = serde_json::from_str(reply.get()).map_err(unexpected)?;
        let text = match (args.long, out.terminal) {
            (true, _) => render_long(&page.entries, args.human, out.style),
            (false, Some(columns)) => render_columns(&page.entries, columns, out.style),
            (false, None) => page.entries.iter().map(|entry| entry.painted_name(out.style) + "\n").collect(),
        };
        out.text(&text)?;
        if !page.has_more || page.entries.is_empty() || args.page.is_some() {
            break;
        }
    }
    Ok(0)
}

/// One page as received; all pages as one result whose entries are joined.
fn run_json(args: &LsArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    let first = session.call(METHOD, &request(args, args.page.unwrap_or(1)))?;
    let mut whole: Value = serde_json::from_str(first.get()).map_err(unexpected)?;
    if args.page.is_some() || whole["has_more"] != true {
        return out.json_line(first.get()).map(|()| 0);
    }
    for number in 2.. {
        let reply = session.call(METHOD, &request(args, number))?;
        let mut page: Value = serde_json::from_str(reply.get()).map_err(unexpected)?;
        let Some(entries) = page["entries"].as_array_mut() else { break };
        let last = entries.is_empty() || page["has_more"] != true;
        join(&mut whole, page);
        if last {
            break;
        }
    }
    whole["has_more"] = false.into();
    out.json_line(&whole.to_string()).map(|()| 0)
}

fn join(whole: &mut Value, mut page: Value) {
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

impl Entry {
    fn shown_name(&self) -> String {
        let bytes = self.name_bytes.as_ref().and_then(|bytes| BASE64.decode(bytes).ok());
        escape::name(bytes.as_deref().unwrap_or(self.name.as_bytes()))
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn painted_name(&self, style: Style) -> String {
        let paint = match () {
            () if self.non_accessible => Paint::Dim,
            () if self.is("dir") => Paint::Folder,
            () if self.is("symlink") => Paint::Link,
            () => return self.shown_name(),
        };
        style.paint(paint, &self.shown_name())
    }

    fn cell(&self, style: Style) -> Cell {
        let mark = match () {
            () if self.is("dir") => "/",
            () if self.is("symlink") => "@",
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

fn render_columns(entries: &[Entry], columns: usize, style: Style) -> String {
    let cells: Vec<Cell> = entries.iter().map(|entry| entry.cell(style)).collect();
    layout(&cells, columns)
}

fn render_long(entries: &[Entry], human: bool, style: Style) -> String {
    let size = |entry: &Entry| match entry.size.filter(|_| entry.has_size_and_time()) {
        Some(bytes) if human => human_size(bytes),
        Some(bytes) => bytes.to_string(),
        None => "-".into(),
    };
    let sizes: Vec<String> = entries.iter().map(size).collect();
    let size_width = sizes.iter().map(|size| width(size)).max().unwrap_or(0);
    let line = |(entry, size): (&Entry, &String)| {
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
