//! Runs in `stockade mcp --print-config` and `stockade mcp install`: the block of configuration by which an agent host starts this
//! server, with the absolute paths of this installation. Pure but for the current folder, which completes relative paths.
//! Trusts: the arguments of the user. Must never write anything; `cli::mcp_install` does that.

mod edit_json;
mod edit_toml;
mod edit_yaml;
mod hosts;
mod own_tools;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

pub use self::hosts::ConfigHost;
use self::hosts::Format;

/// The name of the server in every configuration.
const NAME: &str = "stockade";

/// The options that the server is to be started with.
#[derive(Debug, Default)]
pub struct ServerOptions {
    pub socket: Option<PathBuf>,
    pub roots: Vec<OsString>,
    pub policy: Option<OsString>,
    /// Command-line options that belong to `roots`.
    pub rules: Vec<String>,
    /// A file, or `off`.
    pub audit: Option<OsString>,
    pub tools: Vec<String>,
    pub structured: bool,
    /// Set if it is not the default.
    pub max_reply: Option<usize>,
    pub ignore_host_roots: bool,
    pub timeout_ms: Option<u128>,
}

/// The program and its arguments, as a host starts them.
#[derive(Debug)]
pub struct StartCommand {
    command: String,
    arguments: Vec<String>,
}

/// The reason why a file of a host is not edited.
#[derive(Debug, PartialEq, Eq)]
pub struct NotEdited(pub String);

impl ConfigHost {
    /// The block alone, as a complete new file.
    pub fn render_block(self, start: &StartCommand) -> String {
        match self.facts().format {
            Format::Json(key) => format!("{:#}\n", json!({key: {NAME: self.json_entry(start)}})),
            Format::Toml => edit_toml::block(start),
            Format::Goose => edit_yaml::goose(start),
            Format::Continue => edit_yaml::continue_file(start),
        }
    }

    /// Adds the block to `text`, the current file of the host, which is empty if there is none. Everything else stays,
    /// comments included.
    pub fn edited(self, text: &str, start: &StartCommand) -> Result<String, NotEdited> {
        match self.facts().format {
            _ if text.trim().is_empty() => Ok(self.render_block(start)),
            Format::Json(key) => edit_json::set(text, &[key, NAME], &self.json_entry(start)),
            Format::Toml => edit_toml::set(text, start),
            Format::Goose => edit_yaml::set_extension(text, start),
            // The file has no other purpose.
            Format::Continue => Ok(self.render_block(start)),
        }
    }

    /// Says how to switch off the file and shell tools that the host itself has, and how to let the reading tools of this server
    /// run without a question. Only then everything that the model does with files happens in the jail.
    pub fn own_tools(self, selected: &[String]) -> String {
        own_tools::text(self, selected)
    }

    fn json_entry(self, start: &StartCommand) -> Value {
        let StartCommand { command, arguments } = start;
        match self {
            Self::Claude | Self::Vscode => json!({"type": "stdio", "command": command, "args": arguments}),
            Self::Copilot => json!({"type": "local", "command": command, "args": arguments, "tools": ["*"]}),
            Self::Zed => json!({"command": command, "args": arguments, "env": {}}),
            Self::Opencode => {
                let whole: Vec<&String> = std::iter::once(command).chain(arguments).collect();
                json!({"type": "local", "command": whole, "enabled": true})
            }
            _ => json!({"command": command, "args": arguments}),
        }
    }
}

impl ServerOptions {
    /// `program` is absolute.
    pub fn start(&self, program: &Path) -> Result<StartCommand, String> {
        Ok(StartCommand { command: text(program.as_os_str())?, arguments: self.arguments()? })
    }

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
        arguments.extend(self.rules.iter().cloned());
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

/// A host can start the server in any folder, where relative paths would have another meaning.
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

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn server() -> ServerOptions {
        ServerOptions {
            roots: vec!["/srv/a b:ro".into()],
            tools: vec!["read".into(), "search".into()],
            rules: vec!["--protect".into(), "ci".into()],
            ..ServerOptions::default()
        }
    }

    const ARGS: [&str; 7] = ["mcp", "--root", "/srv/a b:ro", "--protect", "ci", "--tools", "read,search"];

    fn start() -> StartCommand {
        server().start(Path::new("/opt/st/bin/stockade")).unwrap()
    }

    #[test]
    fn each_host_with_json_gets_its_own_form() {
        for host in ConfigHost::value_variants() {
            let Format::Json(key) = host.facts().format else { continue };
            let block: Value = serde_json::from_str(&host.render_block(&start())).unwrap();
            let entry = &block[key]["stockade"];
            if *host == ConfigHost::Opencode {
                assert_eq!(entry["command"][0], "/opt/st/bin/stockade");
                assert_eq!(entry["command"].as_array().unwrap()[1..], ARGS.map(Value::from));
            } else {
                assert_eq!(entry["command"], "/opt/st/bin/stockade", "{host:?}");
                assert_eq!(entry["args"], json!(ARGS), "{host:?}");
            }
        }
    }

    #[test]
    fn an_empty_file_becomes_the_block_and_stays_it() {
        for host in ConfigHost::value_variants() {
            let made = host.edited(" \n", &start()).unwrap();
            assert_eq!(made, host.render_block(&start()));
            assert_eq!(host.edited(&made, &start()).unwrap(), made, "{host:?}");
        }
    }

    #[test]
    fn relative_names_become_absolute_and_keep_their_suffix() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute_root(OsStr::new(".:ro")).unwrap(), format!("{}:ro", here.display()));
        assert_eq!(absolute(OsStr::new("x/./y")).unwrap(), format!("{}/x/y", here.display()));
    }
}
