//! `stockade mcp --print-config`: the block that an agent host wants, with the absolute paths of this installation. Pure but for
//! the question where this program lies.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// Hosts, each with a way of its own to say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigHost {
    Claude,
    Codex,
    Cursor,
    Vscode,
    Zed,
}

/// What the server is to be started with.
#[derive(Debug, Default)]
pub struct ServerOptions {
    pub socket: Option<PathBuf>,
    pub roots: Vec<OsString>,
    pub policy: Option<OsString>,
    /// Command-line options that belong to `roots`.
    pub protect: Vec<String>,
    /// A file, or `off`.
    pub audit: Option<OsString>,
    pub tools: Vec<String>,
    pub structured: bool,
    /// If it is not the usual one.
    pub max_reply: Option<usize>,
    pub ignore_host_roots: bool,
    pub timeout_ms: Option<u128>,
}

impl ConfigHost {
    /// Where the block belongs.
    pub fn config_file(self) -> &'static str {
        match self {
            Self::Claude => ".mcp.json of a project, or claude_desktop_config.json",
            Self::Codex => "~/.codex/config.toml",
            Self::Cursor => ".cursor/mcp.json of a project, or ~/.cursor/mcp.json",
            Self::Vscode => ".vscode/mcp.json of a project",
            Self::Zed => "settings.json of Zed",
        }
    }

    /// `program` is absolute.
    pub fn render_block(self, program: &Path, server: &ServerOptions) -> Result<String, String> {
        let command = text(program.as_os_str())?;
        let arguments = server.arguments()?;
        let stdio = json!({"type": "stdio", "command": command, "args": arguments});
        let plain = json!({"command": command, "args": arguments});
        Ok(match self {
            Self::Claude => indented(&json!({"mcpServers": {"stockade": stdio}})),
            Self::Cursor => indented(&json!({"mcpServers": {"stockade": plain}})),
            Self::Vscode => indented(&json!({"servers": {"stockade": stdio}})),
            Self::Zed => {
                indented(&json!({"context_servers": {"stockade": {"command": command, "args": arguments, "env": {}}}}))
            }
            Self::Codex => {
                let arguments: Vec<String> = arguments.iter().map(|argument| toml_text(argument)).collect();
                format!(
                    "[mcp_servers.stockade]\ncommand = {}\nargs = [{}]\n",
                    toml_text(&command),
                    arguments.join(", ")
                )
            }
        })
    }
}

impl ServerOptions {
    fn arguments(&self) -> Result<Vec<String>, String> {
        let mut arguments = vec!["mcp".to_owned()];
        let mut push = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        if let Some(socket) = &self.socket {
            push("--socket", absolute(socket.as_os_str())?);
        }
        if let Some(policy) = &self.policy {
            push("--policy", absolute(policy)?);
        }
        if let Some(audit) = &self.audit {
            push("--audit", if audit == "off" { "off".into() } else { absolute(audit)? });
        }
        for root in &self.roots {
            push("--root", absolute_root(root)?);
        }
        arguments.extend(self.protect.iter().cloned());
        let mut push = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        if !self.tools.is_empty() {
            push("--tools", self.tools.join(","));
        }
        if let Some(timeout) = self.timeout_ms {
            push("--timeout", format!("{timeout}ms"));
        }
        if self.structured {
            arguments.push("--structured".into());
        }
        if let Some(bytes) = self.max_reply {
            arguments.extend(["--max-reply".into(), bytes.to_string()]);
        }
        if self.ignore_host_roots {
            arguments.push("--ignore-host-roots".into());
        }
        Ok(arguments)
    }
}

/// A host starts the server wherever it likes: relative names would mean something else there.
fn absolute(path: &OsStr) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    // `.` at the end, which `absolute` leaves.
    text(path.components().collect::<PathBuf>().as_os_str())
}

fn absolute_root(root: &OsStr) -> Result<String, String> {
    let text = text(root)?;
    let (path, mode) = [":ro", ":rw"]
        .into_iter()
        .find_map(|mode| Some((text.strip_suffix(mode)?, mode)))
        .unwrap_or((text.as_str(), ""));
    Ok(absolute(OsStr::new(path))? + mode)
}

fn text(path: &OsStr) -> Result<String, String> {
    path.to_str()
        .map(ToOwned::to_owned)
        .ok_or_else(|| format!("{}: a configuration cannot hold a name that is not UTF-8", path.display()))
}

fn indented(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A JSON string is a TOML basic string, but for one character.
fn toml_text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerOptions {
        ServerOptions {
            roots: vec!["/srv/a b:ro".into()],
            tools: vec!["read".into(), "search".into()],
            protect: vec!["--protect".into(), "ci".into()],
            ..ServerOptions::default()
        }
    }

    const ARGS: [&str; 7] = ["mcp", "--root", "/srv/a b:ro", "--protect", "ci", "--tools", "read,search"];

    #[test]
    fn each_host_gets_its_own_words() {
        let program = Path::new("/opt/st/bin/stockade");
        for (host, key) in [
            (ConfigHost::Claude, "mcpServers"),
            (ConfigHost::Cursor, "mcpServers"),
            (ConfigHost::Vscode, "servers"),
            (ConfigHost::Zed, "context_servers"),
        ] {
            let block: Value = serde_json::from_str(&host.render_block(program, &server()).unwrap()).unwrap();
            let entry = &block[key]["stockade"];
            assert_eq!(entry["command"], "/opt/st/bin/stockade");
            assert_eq!(entry["args"], json!(ARGS));
        }
        let block: toml::Table = toml::from_str(&ConfigHost::Codex.render_block(program, &server()).unwrap()).unwrap();
        let entry = &block["mcp_servers"]["stockade"];
        assert_eq!(entry["args"].as_array().unwrap().len(), ARGS.len());
        assert_eq!(entry["command"].as_str(), Some("/opt/st/bin/stockade"));
    }

    #[test]
    fn relative_names_become_absolute_and_keep_their_suffix() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute_root(OsStr::new(".:ro")).unwrap(), format!("{}:ro", here.display()));
        assert_eq!(absolute(OsStr::new("x/./y")).unwrap(), format!("{}/x/y", here.display()));
    }

    #[test]
    fn strange_names_survive_toml() {
        let odd = "/srv/\"quoted\"\\ \u{7f}ä";
        let server = ServerOptions { roots: vec![odd.into()], ..ServerOptions::default() };
        let block: toml::Table =
            toml::from_str(&ConfigHost::Codex.render_block(Path::new("/s"), &server).unwrap()).unwrap();
        assert_eq!(block["mcp_servers"]["stockade"]["args"][2].as_str(), Some(odd));
    }
}
