//! The arguments of `mcp`.

use clap::ValueEnum;

use super::{ClientOptions, DisplayOptions};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
An agent host starts this command and talks to it over standard input and output; it ends when the host closes them. A read-only \
service is offered without the tools that change files. Roots that the host names narrow those named here; if they have nothing in \
common, every call is refused, unless --ignore-host-roots is given.

Examples:
  stockade mcp --root .                         no daemon, a service of its own
  stockade mcp --socket /run/stockade/stockade.sock
  stockade mcp --root src:ro --tools read,search,find
  stockade mcp --root . --print-config claude   the block for the host's file")]
pub(in super::super) struct McpArgs {
    /// Offer only these tools, separated by commas; files are resources only with read
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(in super::super) tools: Vec<String>,
    /// Reply with structuredContent and outputSchema instead of text
    #[arg(long)]
    pub(in super::super) structured: bool,
    /// What a client deletes goes to the trash unless it says otherwise (with --root)
    #[arg(long, requires = "root", conflicts_with = "policy")]
    pub(in super::super) trash: bool,
    /// Serve the operator's roots whole, whatever roots the host names
    #[arg(long)]
    pub(in super::super) ignore_host_roots: bool,
    /// Print how HOST is told about this server, and end: claude, codex, cursor, vscode, zed
    #[arg(long, value_enum, value_name = "HOST", hide_possible_values = true)]
    pub(in super::super) print_config: Option<McpHost>,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum McpHost {
    Claude,
    Codex,
    Cursor,
    Vscode,
    Zed,
}
