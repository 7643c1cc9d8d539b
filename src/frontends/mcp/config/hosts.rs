//! The hosts that `stockade mcp --print-config` knows, and where each of them reads its servers from. Pure data, from the documentation
//! of the hosts.

use std::path::PathBuf;

use clap::ValueEnum;

/// A program that starts this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConfigHost {
    Claude,
    ClaudeDesktop,
    Codex,
    Cursor,
    Vscode,
    Copilot,
    Zed,
    Gemini,
    Opencode,
    Goose,
    Windsurf,
    Cline,
    Continue,
    Jetbrains,
    Json,
}

/// A file of the user: `name` in the folder that the variable names, otherwise in `folder` of the home folder.
#[derive(Debug, Clone, Copy)]
pub struct Location {
    variable: Option<&'static str>,
    folder: &'static str,
    name: &'static str,
}

impl Location {
    const fn home(name: &'static str) -> Self {
        Self { variable: None, folder: "", name }
    }

    const fn config(name: &'static str) -> Self {
        Self { variable: Some("XDG_CONFIG_HOME"), folder: ".config", name }
    }

    const fn below(variable: &'static str, folder: &'static str, name: &'static str) -> Self {
        Self { variable: Some(variable), folder, name }
    }

    /// The folder that is taken as it is, and the path below it. `None` if the environment names no absolute folder.
    pub fn find(self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<(PathBuf, PathBuf)> {
        let named = self.variable.and_then(&variable).filter(|folder| folder.is_absolute());
        match named {
            Some(folder) => Some((folder, self.name.into())),
            None => {
                let home = variable("HOME").filter(|home| home.is_absolute())?;
                Some((home, PathBuf::from(self.folder).join(self.name)))
            }
        }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.folder {
            "" => write!(f, "~/{}", self.name),
            folder => write!(f, "~/{folder}/{}", self.name),
        }
    }
}

/// The form in which a host keeps its servers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    /// An object under this key, one member for each server.
    Json(&'static str),
    /// The tables of Codex.
    Toml,
    /// The extensions of Goose.
    Goose,
    /// A file for each server.
    Continue,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// The name that its makers use.
    pub(super) title: &'static str,
    pub(super) user_file: Option<Location>,
    /// Below the folder of a project.
    pub(super) project_file: Option<&'static str>,
    pub(super) format: Format,
}

const CLAUDE_DESKTOP: Location = if cfg!(target_os = "macos") {
    Location::home("Library/Application Support/Claude/claude_desktop_config.json")
} else {
    Location::config("Claude/claude_desktop_config.json")
};
const VSCODE: Location = if cfg!(target_os = "macos") {
    Location::home("Library/Application Support/Code/User/mcp.json")
} else {
    Location::config("Code/User/mcp.json")
};

impl ConfigHost {
    pub(super) const fn facts(self) -> Facts {
        let (title, user_file, project_file, format) = match self {
            Self::Claude => (
                "Claude Code",
                Some(Location::below("CLAUDE_CONFIG_DIR", "", ".claude.json")),
                Some(".mcp.json"),
                Format::Json("mcpServers"),
            ),
            Self::ClaudeDesktop => ("Claude Desktop", Some(CLAUDE_DESKTOP), None, Format::Json("mcpServers")),
            Self::Codex => (
                "Codex",
                Some(Location::below("CODEX_HOME", ".codex", "config.toml")),
                Some(".codex/config.toml"),
                Format::Toml,
            ),
            Self::Cursor => (
                "Cursor",
                Some(Location::home(".cursor/mcp.json")),
                Some(".cursor/mcp.json"),
                Format::Json("mcpServers"),
            ),
            Self::Vscode => ("VS Code", Some(VSCODE), Some(".vscode/mcp.json"), Format::Json("servers")),
            Self::Copilot => (
                "Copilot CLI",
                Some(Location::below("COPILOT_HOME", ".copilot", "mcp-config.json")),
                None,
                Format::Json("mcpServers"),
            ),
            Self::Zed => (
                "Zed",
                Some(Location::config("zed/settings.json")),
                Some(".zed/settings.json"),
                Format::Json("context_servers"),
            ),
            Self::Gemini => (
                "Gemini CLI",
                Some(Location::home(".gemini/settings.json")),
                Some(".gemini/settings.json"),
                Format::Json("mcpServers"),
            ),
            Self::Opencode => (
                "opencode",
                Some(Location::config("opencode/opencode.json")),
                Some("opencode.json"),
                Format::Json("mcp"),
            ),
            Self::Goose => ("goose", Some(Location::config("goose/config.yaml")), None, Format::Goose),
            Self::Windsurf => (
                "Windsurf",
                Some(Location::home(".codeium/windsurf/mcp_config.json")),
                None,
                Format::Json("mcpServers"),
            ),
            Self::Cline => (
                "Cline",
                Some(Location::home(".cline/data/settings/cline_mcp_settings.json")),
                None,
                Format::Json("mcpServers"),
            ),
            Self::Continue => ("Continue", None, Some(".continue/mcpServers/stockade.yaml"), Format::Continue),
            Self::Jetbrains => (
                "Junie",
                Some(Location::home(".junie/mcp/mcp.json")),
                Some(".junie/mcp/mcp.json"),
                Format::Json("mcpServers"),
            ),
            Self::Json => ("the host", None, None, Format::Json("mcpServers")),
        };
        Facts { title, user_file, project_file, format }
    }

    /// The file of the user, for every project.
    pub fn user_file(self) -> Option<Location> {
        self.facts().user_file
    }

    /// The file of one project, below its folder.
    pub fn project_file(self) -> Option<&'static str> {
        self.facts().project_file
    }

    /// Describes the files that the block belongs in.
    pub fn destination(self) -> String {
        let files = match (self.project_file(), self.user_file()) {
            (Some(project), Some(user)) => format!("{project} of a project, or {user}"),
            (Some(project), None) => format!("{project} of a project"),
            (None, Some(user)) => user.to_string(),
            (None, None) => "the file where the host keeps its MCP servers".into(),
        };
        match self {
            Self::Jetbrains => format!(
                "{files} (Junie), or is pasted in Settings | Tools | AI Assistant | Model Context Protocol (MCP) (AI Assistant)"
            ),
            Self::Opencode => format!("{files} (version 2 reads the inner object below mcp.servers)"),
            _ => files,
        }
    }
}
