//! `stockade tree`: a folder with its subfolders, drawn like the output of `tree`.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;

use super::{
    CommandResult, FileSession,
    args::TreeArgs,
    escape::{self, escape_text},
    failure::unexpected_result,
    find::ignored_remark,
    output::{Output, OutputStyle, Paint},
    paths::PathBase,
};

const METHOD: &str = "coder::tree";

#[derive(Debug, Deserialize)]
struct CliTreeResult {
    root: CliTreeNode,
    #[serde(default)]
    ignored: u64,
}

#[derive(Debug, Deserialize)]
struct CliTreeNode {
    name: String,
    /// Base64, when `name` had to be made UTF-8.
    name_bytes: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    non_accessible: bool,
    #[serde(default)]
    mount_point: bool,
    #[serde(default)]
    children: Vec<CliTreeNode>,
    truncated: Option<CliTreeTruncation>,
}

#[derive(Debug, Deserialize)]
struct CliTreeTruncation {
    reason: String,
    #[serde(default)]
    shown: u64,
    total: Option<u64>,
    #[serde(default)]
    hint: String,
}

pub(super) fn run(args: &TreeArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let request = request(args, session.path_base());
    let reply = session.call(METHOD, &request)?;
    if out.json {
        return out.write_json_line(reply.get()).map(|()| 0);
    }
    let reply: CliTreeResult = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    let drawing = TreeDrawing::draw(&reply.root, args.path.as_encoded_bytes(), out.style);
    out.write_text(&drawing)?;
    if let Some(text) = ignored_remark(reply.ignored) {
        out.write_remark(&text)?;
    }
    Ok(0)
}

fn request(args: &TreeArgs, base: &PathBase) -> String {
    let mut request = base.wire_path(&args.path);
    for (field, value) in [("max_depth", args.depth), ("per_folder_limit", args.limit)] {
        if let Some(value) = value {
            request[field] = value.into();
        }
    }
    request["gitignore"] = (!args.no_ignore).into();
    if args.all {
        request["use_default_excludes"] = false.into();
    }
    request.to_string()
}

/// The four pieces that lines are made of.
struct BranchGlyphs {
    child: &'static str,
    last: &'static str,
    beside: &'static str,
    below: &'static str,
}

const UNICODE: BranchGlyphs = BranchGlyphs { child: "├── ", last: "└── ", beside: "│   ", below: "    " };
const ASCII: BranchGlyphs = BranchGlyphs { child: "|-- ", last: "`-- ", beside: "|   ", below: "    " };

struct TreeDrawing {
    style: OutputStyle,
    glyphs: &'static BranchGlyphs,
    text: String,
    folders: u64,
    others: u64,
    is_cut: bool,
}

impl TreeDrawing {
    fn draw(root: &CliTreeNode, path: &[u8], style: OutputStyle) -> String {
        let lines = if style.unicode { &UNICODE } else { &ASCII };
        let mut drawing = Self { style, glyphs: lines, text: String::new(), folders: 0, others: 0, is_cut: false };
        let name = style.paint(Paint::Folder, &escape::name(path));
        drawing.text.push_str(&name);
        drawing.finish_line(root, path, 0);
        drawing.children(root, path, "", 1);
        drawing.summary();
        drawing.text
    }

    /// Recurses as deep as the reply, which the JSON parser bounds.
    fn children(&mut self, folder: &CliTreeNode, path: &[u8], indent: &str, depth: usize) {
        let more = folder.truncated.as_ref().filter(|cut| cut.shown > 0);
        let count = folder.children.len();
        for (at, node) in folder.children.iter().enumerate() {
            let is_last = at + 1 == count && more.is_none();
            let (branch, further) = match is_last {
                true => (self.glyphs.last, self.glyphs.below),
                false => (self.glyphs.child, self.glyphs.beside),
            };
            let bytes = node.raw_name();
            let path = join_path(path, &bytes);
            self.text.push_str(indent);
            self.text.push_str(branch);
            self.text.push_str(&node.painted_name(&bytes, self.style));
            self.finish_line(node, &path, depth);
            match node.is_kind("dir") {
                true => self.folders += 1,
                false => self.others += 1,
            }
            self.children(node, &path, &format!("{indent}{further}"), depth + 1);
        }
        if let Some(cut) = more {
            self.is_cut = true;
            let note = self.style.paint(Paint::Dim, &truncation_note(cut, path, self.style));
            self.text.push_str(&format!("{indent}{}{note}\n", self.glyphs.last));
        }
    }

    /// Adds remarks about a node after its name.
    fn finish_line(&mut self, node: &CliTreeNode, path: &[u8], depth: usize) {
        let mut notes = Vec::new();
        notes.extend(node.non_accessible.then(|| "denied".to_owned()));
        notes.extend(node.mount_point.then(|| "mount".to_owned()));
        if let Some(cut) = node.truncated.as_ref().filter(|cut| cut.shown == 0) {
            self.is_cut = true;
            notes.push(unopened_note(cut, path, depth));
        }
        if !notes.is_empty() {
            let notes = format!("  [{}]", notes.join(", "));
            self.text.push_str(&self.style.paint(Paint::Dim, &notes));
        }
        self.text.push('\n');
    }

    fn summary(&mut self) {
        let count = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let folders = count(self.folders, "directory", "directories");
        let others = count(self.others, "file", "files");
        let cut = if self.is_cut { ", more not shown" } else { "" };
        self.text.push_str(&format!("\n{folders}, {others}{cut}\n"));
    }
}

/// Why a folder was not opened, and the command that shows it. The text of the service names functions instead.
fn unopened_note(cut: &CliTreeTruncation, path: &[u8], depth: usize) -> String {
    let itself = || format!("stockade tree {}", escape::name(path));
    match cut.reason.as_str() {
        // At the greatest depth of a call, asking for more levels changes nothing.
        "max_depth" if cut.hint.starts_with("tree_max_depth") => format!("deeper: {}", itself()),
        "max_depth" => format!("deeper: -L {}", depth + 1),
        "default_exclude" => "left out by default: --all".into(),
        "budget" => format!("the reply is full: {}", itself()),
        _ => escape_text(&cut.hint),
    }
}

/// The line below the last child that is shown.
fn truncation_note(cut: &CliTreeTruncation, path: &[u8], style: OutputStyle) -> String {
    let dots = if style.unicode { "…" } else { "..." };
    let more = match cut.total {
        Some(total) => format!("{dots} {} more", total.saturating_sub(cut.shown)),
        None => format!("{dots} more"),
    };
    let whole = format!("stockade ls {}", escape::name(path));
    match (cut.reason.as_str(), cut.total) {
        ("per_folder_limit", Some(total)) => format!("{more}  [--limit {total}, or {whole}]"),
        ("per_folder_limit" | "budget", _) => format!("{more}  [{whole}]"),
        _ => format!("{more}  [{}]", escape_text(&cut.hint)),
    }
}

impl CliTreeNode {
    fn raw_name(&self) -> Vec<u8> {
        let bytes = self.name_bytes.as_ref().and_then(|bytes| BASE64.decode(bytes).ok());
        bytes.unwrap_or_else(|| self.name.clone().into_bytes())
    }

    fn is_kind(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn painted_name(&self, bytes: &[u8], style: OutputStyle) -> String {
        let name = escape::name(bytes);
        let (paint, mark) = match () {
            () if self.is_kind("dir") => (Some(Paint::Folder), "/"),
            () if self.is_kind("symlink") => (Some(Paint::Link), "@"),
            () => (None, ""),
        };
        let paint = if self.non_accessible { Some(Paint::Dim) } else { paint };
        paint.map_or_else(|| name.clone(), |paint| style.paint(paint, &name)) + mark
    }
}

/// The path that a user would type for a node.
fn join_path(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"." | b"./" | b"" => name.to_vec(),
        [.., b'/'] => [folder, name].concat(),
        _ => [folder, b"/", name].concat(),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
