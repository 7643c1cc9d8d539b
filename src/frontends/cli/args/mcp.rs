//! The arguments of `mcp`.

use clap::ValueEnum;

use super::{
    super::super::mcp::{DEFAULT_REPLY_BYTES, MAX_REPLY_BYTES, MIN_REPLY_BYTES},
    ClientOptions, DisplayOptions,
};

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
    /// Reply with structuredContent and outputSchema beside the text
    #[arg(long)]
    pub(in super::super) structured: bool,
    /// Longest text of one reply; the rest is named by the call that shows it
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_REPLY_BYTES, hide_default_value = true, value_parser = parse_reply_bytes)]
    pub(in super::super) max_reply: usize,
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

fn parse_reply_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "expected a number of bytes, for example 65536".to_owned())?;
    match bytes {
        MIN_REPLY_BYTES..=MAX_REPLY_BYTES => Ok(bytes),
        _ => Err(format!("expected {MIN_REPLY_BYTES} to {MAX_REPLY_BYTES} bytes")),
    }
}
