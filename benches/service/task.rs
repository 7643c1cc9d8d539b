//! What an agent asks of a file server, and how each server wants to be asked. One row of `ask` is all that a further
//! server needs.

use std::path::Path;

use crate::json::quote;

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `stockaded` on its socket.
    Socket,
    /// The same with `durability = "none"`: what the others promise about a power cut.
    Unsynced,
    /// `stockade mcp`.
    Bridge,
    /// `@modelcontextprotocol/server-filesystem`, which the others are compared with.
    Reference,
    /// `rust-mcp-filesystem`.
    RustMcp,
}

impl Kind {
    /// Whoever is asked for everything.
    pub const ALL: [Self; 4] = [Self::Socket, Self::Bridge, Self::Reference, Self::RustMcp];
    pub const PEERS: [Self; 2] = [Self::Reference, Self::RustMcp];

    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Unsynced => "socket, no fsync",
            Self::Bridge => "stockade mcp",
            Self::Reference => "official MCP server",
            Self::RustMcp => "rust-mcp-filesystem",
        }
    }

    pub fn is_ours(self) -> bool {
        matches!(self, Self::Socket | Self::Unsynced | Self::Bridge)
    }
}

/// Paths are relative to the root.
pub enum Task<'a> {
    Read(&'a str),
    Head {
        path: &'a str,
        lines: usize,
    },
    Tail {
        path: &'a str,
        lines: usize,
    },
    List(&'a str),
    /// With the sizes of what is listed, which ours always has.
    ListSizes(&'a str),
    Tree(&'a str),
    Edit {
        path: &'a str,
        old: &'a str,
        new: &'a str,
    },
    Write {
        path: &'a str,
        content: &'a str,
    },
    Names {
        path: &'a str,
        glob: &'a str,
    },
    Text {
        path: &'a str,
        text: &'a str,
    },
}

/// The function or tool and its arguments; none if the server has no such thing.
pub fn ask(kind: Kind, root: &Path, task: &Task<'_>) -> Option<(&'static str, String)> {
    // Peers take relative paths from where they were started or from a root, so they are given absolute ones; ours
    // are asked the same way.
    let at = |path: &str| quote(&root.join(path).to_string_lossy());
    match kind {
        Kind::Socket | Kind::Unsynced => Some(ours(task, &at)),
        Kind::Bridge => Some(bridge(task, &at)),
        Kind::Reference => reference(task, &at),
        Kind::RustMcp => rust_mcp(task, &at),
    }
}

fn ours(task: &Task<'_>, at: &dyn Fn(&str) -> String) -> (&'static str, String) {
    match task {
        // Said to both, because a bridge shows models less of a file at once than the service does by itself.
        Task::Read(path) => ("coder::read-file", format!("{{\"path\":{},\"max_output_bytes\":131072}}", at(path))),
        Task::Head { path, lines } => {
            ("coder::read-file", format!("{{\"path\":{},\"line_from\":1,\"line_to\":{lines}}}", at(path)))
        }
        Task::Tail { path, lines } => ("coder::read-file", format!("{{\"path\":{},\"tail\":{lines}}}", at(path))),
        Task::List(path) | Task::ListSizes(path) => {
            ("coder::list-folder", format!("{{\"path\":{},\"page_size\":1000}}", at(path)))
        }
        Task::Tree(path) => {
            ("coder::tree", format!("{{\"path\":{},\"max_depth\":10,\"per_folder_limit\":1000}}", at(path)))
        }
        Task::Edit { path, old, new } => (
            "coder::update-file",
            format!(
                "{{\"files\":[{{\"path\":{},\"ops\":[{{\"op\":\"str_replace\",\"old\":{},\"new\":{}}}]}}]}}",
                at(path),
                quote(old),
                quote(new)
            ),
        ),
        Task::Write { path, content } => (
            "coder::create-file",
            format!("{{\"files\":[{{\"path\":{},\"content\":{},\"overwrite\":true}}]}}", at(path), quote(content)),
        ),
        Task::Names { path, glob } => (
            "coder::find",
            format!(
                "{{\"paths\":[{}],\"sort\":\"path\",\"limit\":10000,\"kind\":\"file\",\"gitignore\":false,\
                 \"use_default_excludes\":false,\"timeout\":60}}",
                // A glob is one from the root; without a folder it matches at any depth.
                quote(&if path.is_empty() { (*glob).into() } else { format!("{path}/**/{glob}") })
            ),
        ),
        Task::Text { path, text } => (
            "coder::search",
            format!(
                "{{\"path\":{},\"query\":{},\"search_paths\":false,\"use_default_excludes\":false,\
                 \"max_matches\":10000}}",
                at(path),
                quote(text)
            ),
        ),
    }
}

/// The tool of the bridge. Its arguments are flat where a model sees them so, and the function's own otherwise.
fn bridge(task: &Task<'_>, at: &dyn Fn(&str) -> String) -> (&'static str, String) {
    let (function, arguments) = ours(task, at);
    let arguments = match task {
        Task::Edit { path, old, new } => {
            format!("{{\"path\":{},\"old\":{},\"new\":{}}}", at(path), quote(old), quote(new))
        }
        Task::Write { path, content } => {
            format!("{{\"path\":{},\"content\":{},\"overwrite\":true}}", at(path), quote(content))
        }
        _ => arguments,
    };
    (tool(function), arguments)
}

fn tool(function: &str) -> &'static str {
    match function {
        "coder::read-file" => "read",
        "coder::list-folder" => "list",
        "coder::tree" => "tree",
        "coder::update-file" => "edit",
        "coder::create-file" => "create",
        "coder::find" => "find",
        "coder::search" => "search",
        other => panic!("no tool for {other}"),
    }
}

fn reference(task: &Task<'_>, at: &dyn Fn(&str) -> String) -> Option<(&'static str, String)> {
    Some(match task {
        Task::Read(path) => ("read_text_file", format!("{{\"path\":{}}}", at(path))),
        Task::Head { path, lines } => ("read_text_file", format!("{{\"path\":{},\"head\":{lines}}}", at(path))),
        Task::Tail { path, lines } => ("read_text_file", format!("{{\"path\":{},\"tail\":{lines}}}", at(path))),
        Task::List(path) => ("list_directory", format!("{{\"path\":{}}}", at(path))),
        Task::ListSizes(path) => ("list_directory_with_sizes", format!("{{\"path\":{}}}", at(path))),
        Task::Tree(path) => ("directory_tree", format!("{{\"path\":{}}}", at(path))),
        Task::Edit { path, old, new } => ("edit_file", old_and_new(&at(path), old, new)),
        Task::Write { path, content } => {
            ("write_file", format!("{{\"path\":{},\"content\":{}}}", at(path), quote(content)))
        }
        Task::Names { path, glob } => {
            ("search_files", format!("{{\"path\":{},\"pattern\":{}}}", at(path), quote(&format!("**/{glob}"))))
        }
        Task::Text { .. } => return None,
    })
}

fn rust_mcp(task: &Task<'_>, at: &dyn Fn(&str) -> String) -> Option<(&'static str, String)> {
    Some(match task {
        Task::Read(path) => ("read_text_file", format!("{{\"path\":{}}}", at(path))),
        Task::Head { path, lines } => ("head_file", format!("{{\"path\":{},\"lines\":{lines}}}", at(path))),
        Task::Tail { path, lines } => ("tail_file", format!("{{\"path\":{},\"lines\":{lines}}}", at(path))),
        Task::List(path) => ("list_directory", format!("{{\"path\":{}}}", at(path))),
        Task::ListSizes(path) => ("list_directory_with_sizes", format!("{{\"path\":{}}}", at(path))),
        Task::Tree(path) => ("directory_tree", format!("{{\"path\":{}}}", at(path))),
        Task::Edit { path, old, new } => ("edit_file", old_and_new(&at(path), old, new)),
        Task::Write { path, content } => {
            ("write_file", format!("{{\"path\":{},\"content\":{}}}", at(path), quote(content)))
        }
        Task::Names { path, glob } => {
            ("search_files", format!("{{\"path\":{},\"pattern\":{}}}", at(path), quote(glob)))
        }
        Task::Text { path, text } => (
            "search_files_content",
            format!("{{\"path\":{},\"pattern\":\"**/*\",\"query\":{}}}", at(path), quote(text)),
        ),
    })
}

fn old_and_new(path: &str, old: &str, new: &str) -> String {
    format!("{{\"path\":{path},\"edits\":[{{\"oldText\":{},\"newText\":{}}}]}}", quote(old), quote(new))
}
