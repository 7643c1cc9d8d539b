//! `stockade tree`: a folder with its subfolders, drawn as people know it.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;

use super::{
    Outcome, Session,
    args::TreeArgs,
    escape::{self, one_line},
    failure::unexpected,
    home::wire_path,
    output::{Output, Paint, Style},
};

const METHOD: &str = "coder::tree";

#[derive(Debug, Deserialize)]
struct Reply {
    root: Node,
}

#[derive(Debug, Deserialize)]
struct Node {
    name: String,
    /// Base64, when `name` had to be made UTF-8.
    name_bytes: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    non_accessible: bool,
    #[serde(default)]
    mount_point: bool,
    #[serde(default)]
    children: Vec<Node>,
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

pub(super) fn run(args: &TreeArgs, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
    let reply = session.call(METHOD, &request(args))?;
    if out.json {
        return out.json_line(reply.get()).map(|()| 0);
    }
    let reply: Reply = serde_json::from_str(reply.get()).map_err(unexpected)?;
    let drawing = Drawing::of(&reply.root, args.path.as_encoded_bytes(), out.style);
    out.text(&drawing).map(|()| 0)
}

fn request(args: &TreeArgs) -> String {
    let mut request = wire_path(&args.path);
    for (field, value) in [("max_depth", args.depth), ("per_folder_limit", args.limit)] {
        if let Some(value) = value {
            request[field] = value.into();
        }
    }
    if args.all {
        request["use_default_excludes"] = false.into();
    }
    request.to_string()
}

/// The four pieces that lines are made of.
struct Lines {
    child: &'static str,
    last: &'static str,
    beside: &'static str,
    below: &'static str,
}

const UNICODE: Lines = Lines { child: "├── ", last: "└── ", beside: "│   ", below: "    " };
const ASCII: Lines = Lines { child: "|-- ", last: "`-- ", beside: "|   ", below: "    " };

struct Drawing {
    style: Style,
    lines: &'static Lines,
    text: String,
    folders: u64,
    others: u64,
    is_cut: bool,
}

impl Drawing {
    fn of(root: &Node, path: &[u8], style: Style) -> String {
        let lines = if style.unicode { &UNICODE } else { &ASCII };
        let mut drawing = Self { style, lines, text: String::new(), folders: 0, others: 0, is_cut: false };
        let name = style.paint(Paint::Folder, &escape::name(path));
        drawing.text.push_str(&name);
        drawing.finish_line(root, path, 0);
        drawing.children(root, path, "", 1);
        drawing.summary();
        drawing.text
    }

    /// As deep as the reply, which the JSON parser bounds.
    fn children(&mut self, folder: &Node, path: &[u8], indent: &str, depth: usize) {
        let more = folder.truncated.as_ref().filter(|cut| cut.shown > 0);
        let count = folder.children.len();
        for (at, node) in folder.children.iter().enumerate() {
            let is_last = at + 1 == count && more.is_none();
            let (branch, further) = match is_last {
                true => (self.lines.last, self.lines.below),
                false => (self.lines.child, self.lines.beside),
            };
            let bytes = node.bytes();
            let path = join(path, &bytes);
            self.text.push_str(indent);
            self.text.push_str(branch);
            self.text.push_str(&node.painted(&bytes, self.style));
            self.finish_line(node, &path, depth);
            match node.is("dir") {
                true => self.folders += 1,
                false => self.others += 1,
            }
            self.children(node, &path, &format!("{indent}{further}"), depth + 1);
        }
        if let Some(cut) = more {
            self.is_cut = true;
            let note = self.style.paint(Paint::Dim, &rest(cut, path, self.style));
            self.text.push_str(&format!("{indent}{}{note}\n", self.lines.last));
        }
    }

    /// What is odd about a node stands behind its name.
    fn finish_line(&mut self, node: &Node, path: &[u8], depth: usize) {
        let mut notes = Vec::new();
        notes.extend(node.non_accessible.then(|| "denied".to_owned()));
        notes.extend(node.mount_point.then(|| "mount".to_owned()));
        if let Some(cut) = node.truncated.as_ref().filter(|cut| cut.shown == 0) {
            self.is_cut = true;
            notes.push(unopened(cut, path, depth));
        }
        if !notes.is_empty() {
            let notes = format!("  [{}]", notes.join(", "));
            self.text.push_str(&self.style.paint(Paint::Dim, &notes));
        }
        self.text.push('\n');
    }

    fn summary(&mut self) {
        let count =
            |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let folders = count(self.folders, "directory", "directories");
        let others = count(self.others, "file", "files");
        let cut = if self.is_cut { ", more not shown" } else { "" };
        self.text.push_str(&format!("\n{folders}, {others}{cut}\n"));
    }
}

/// Why a folder was not opened and how to see it, in this program's own words; the service speaks of functions.
fn unopened(cut: &Truncated, path: &[u8], depth: usize) -> String {
    let itself = || format!("stockade tree {}", escape::name(path));
    match cut.reason.as_str() {
        // At the deepest level that a call goes, asking for more levels would change nothing.
        "max_depth" if cut.hint.starts_with("tree_max_depth") => format!("deeper: {}", itself()),
        "max_depth" => format!("deeper: -L {}", depth + 1),
        "default_exclude" => "left out by default: --all".into(),
        "budget" => format!("the reply is full: {}", itself()),
        _ => one_line(&cut.hint),
    }
}

/// The line below the last child that is shown.
fn rest(cut: &Truncated, path: &[u8], style: Style) -> String {
    let dots = if style.unicode { "…" } else { "..." };
    let more = match cut.total {
        Some(total) => format!("{dots} {} more", total.saturating_sub(cut.shown)),
        None => format!("{dots} more"),
    };
    let whole = format!("stockade ls {}", escape::name(path));
    match (cut.reason.as_str(), cut.total) {
        ("per_folder_limit", Some(total)) => format!("{more}  [--limit {total}, or {whole}]"),
        ("per_folder_limit" | "budget", _) => format!("{more}  [{whole}]"),
        _ => format!("{more}  [{}]", one_line(&cut.hint)),
    }
}

impl Node {
    fn bytes(&self) -> Vec<u8> {
        let bytes = self.name_bytes.as_ref().and_then(|bytes| BASE64.decode(bytes).ok());
        bytes.unwrap_or_else(|| self.name.clone().into_bytes())
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn painted(&self, bytes: &[u8], style: Style) -> String {
        let name = escape::name(bytes);
        let (paint, mark) = match () {
            () if self.is("dir") => (Some(Paint::Folder), "/"),
            () if self.is("symlink") => (Some(Paint::Link), "@"),
            () => (None, ""),
        };
        let paint = if self.non_accessible { Some(Paint::Dim) } else { paint };
        paint.map_or_else(|| name.clone(), |paint| style.paint(paint, &name)) + mark
    }
}

/// The path that a person would type for a node.
fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"." | b"./" | b"" => name.to_vec(),
        [.., b'/'] => [folder, name].concat(),
        _ => [folder, b"/", name].concat(),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
