//! The arguments of `mcp`.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

use super::{ClientOptions, DisplayOptions};
use crate::frontends::mcp::{DEFAULT_REPLY_BYTES, MAX_REPLY_BYTES, MIN_REPLY_BYTES, config::ConfigHost};

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "\
An agent host starts this command and talks to it over standard input and output; it ends when the host closes them. A read-only \
service is offered without the tools that change files. Roots that the host names narrow those named here; if they have nothing in \
common, every call is refused, unless --ignore-host-roots is given.

Hosts: claude, claude-desktop, codex, cursor, vscode, copilot, zed, gemini, opencode, goose, windsurf, cline, continue, jetbrains, \
and json for others.

Examples:
  stockade mcp --root .                         no daemon, a service of its own
  stockade mcp --socket /run/stockade/stockade.sock
  stockade mcp --root src:ro --tools read,search,find
  stockade mcp --root . --print-config claude   the block for the host's file
  stockade mcp install claude --root .          write it there"
)]
pub(in super::super) struct McpArgs {
    #[command(subcommand)]
    pub(in super::super) command: Option<McpCommand>,
    /// Print how HOST is told about this server, and how its own file tools are switched off, and end
    #[arg(long, value_enum, value_name = "HOST", hide_possible_values = true)]
    pub(in super::super) print_config: Option<ConfigHost>,
    #[command(flatten)]
    pub(in super::super) server: McpServerArgs,
}

#[derive(Debug, Subcommand)]
pub(in super::super) enum McpCommand {
    /// Tell a host about this server, in the host's own file
    Install(McpInstallArgs),
}

/// How the server is started.
#[derive(Debug, clap::Args)]
pub(in super::super) struct McpServerArgs {
    /// Offer only these tools, separated by commas; files are resources only with read
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(in super::super) tools: Vec<String>,
    /// Reply with structuredContent and outputSchema beside the text
    #[arg(long)]
    pub(in super::super) structured: bool,
    /// Put what a client deletes into the trash, unless it asks to delete for good (with --root)
    #[arg(long, requires = "root", conflicts_with = "policy")]
    pub(in super::super) trash: bool,
    /// Longest text of one reply; the rest is named by the call that shows it
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_REPLY_BYTES, hide_default_value = true, value_parser = parse_reply_bytes)]
    pub(in super::super) max_reply: usize,
    /// Serve the operator's roots whole, whatever roots the host names
    #[arg(long)]
    pub(in super::super) ignore_host_roots: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

impl McpServerArgs {
    /// The option as an argument of a supervisor.
    pub(in super::super) fn trash_argument(&self) -> Option<String> {
        self.trash.then(|| "--trash".to_owned())
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Shows the difference and asks. The file as it was stays beside the new one, with the ending .before-stockade. Comments and \
everything else in it stay; a file that cannot be understood, or that a link leads to, is refused.

Examples:
  stockade mcp install claude --root .             for every project of this user
  stockade mcp install vscode --project --root .   .vscode/mcp.json of this project
  stockade mcp install codex --socket /run/stockade/stockade.sock --yes
  stockade mcp install json --file mcp.json --root .")]
pub(in super::super) struct McpInstallArgs {
    /// The host, as `stockade mcp --help` lists them
    #[arg(value_enum, value_name = "HOST", hide_possible_values = true)]
    pub(in super::super) host: ConfigHost,
    /// The host's file of the project in the current folder, instead of that of the user
    #[arg(long, conflicts_with = "file")]
    pub(in super::super) project: bool,
    /// This file instead of the host's
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(in super::super) file: Option<PathBuf>,
    /// Write without asking
    #[arg(short, long)]
    pub(in super::super) yes: bool,
    #[command(flatten)]
    pub(in super::super) server: McpServerArgs,
}

fn parse_reply_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "expected a number of bytes, for example 65536".to_owned())?;
    match bytes {
        MIN_REPLY_BYTES..=MAX_REPLY_BYTES => Ok(bytes),
        _ => Err(format!("expected {MIN_REPLY_BYTES} to {MAX_REPLY_BYTES} bytes")),
    }
}
