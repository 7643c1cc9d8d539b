//! `stockade mcp`: the arguments of the MCP server, or the block of configuration that starts it.

use std::env;

use super::{
    super::{
        endpoint::Endpoint,
        mcp::{self, BridgeError, BridgeOptions, config},
    },
    CommandResult,
    args::{McpArgs, McpHost},
    failure::CliFailure,
    output::Output,
};

pub(super) fn run(mut args: McpArgs, out: &mut Output<'_>) -> CommandResult {
    mcp::check_tools(&args.tools).map_err(CliFailure::Usage)?;
    args.client.supervisor.trash = args.trash;
    if let Some(host) = args.print_config {
        return print_config(host.into(), args, out);
    }
    let private = args.client.to_supervisor_arguments();
    let endpoint = Endpoint::choose(args.client.socket.as_deref(), private, |name| env::var_os(name));
    let options = BridgeOptions {
        endpoint,
        timeout: args.client.timeout,
        tools: args.tools,
        structured: args.structured,
        ignore_host_roots: args.ignore_host_roots,
    };
    mcp::run(options).map(|()| 0).map_err(CliFailure::from)
}

fn print_config(host: config::ConfigHost, args: McpArgs, out: &mut Output<'_>) -> CommandResult {
    let program = env::current_exe()
        .map_err(|error| CliFailure::Usage(format!("cannot tell where this program is installed: {error}")))?;
    let server = config::ServerOptions {
        socket: args.client.socket,
        protect: args.client.supervisor.to_rule_arguments(),
        roots: args.client.supervisor.root,
        policy: args.client.supervisor.policy,
        audit: args.client.audit,
        tools: args.tools,
        structured: args.structured,
        ignore_host_roots: args.ignore_host_roots,
        timeout_ms: args.client.timeout.map(|timeout| timeout.as_millis()),
    };
    let block = host.render_block(&program, &server).map_err(CliFailure::Usage)?;
    out.write_text(&block)?;
    out.write_remark(&format!("goes into {}", host.config_file()))?;
    Ok(0)
}

impl From<McpHost> for config::ConfigHost {
    fn from(host: McpHost) -> Self {
        match host {
            McpHost::Claude => Self::Claude,
            McpHost::Codex => Self::Codex,
            McpHost::Cursor => Self::Cursor,
            McpHost::Vscode => Self::Vscode,
            McpHost::Zed => Self::Zed,
        }
    }
}

impl From<BridgeError> for CliFailure {
    fn from(stopped: BridgeError) -> Self {
        match stopped {
            BridgeError::Unreachable(unreachable) => Self::Unreachable(unreachable),
            BridgeError::Call(error) => Self::Call(error),
            BridgeError::AlreadyReported(code) => Self::AlreadyReported(code),
            BridgeError::Io(error) => Self::OutputFailed(format!("cannot serve on standard input and output: {error}")),
        }
    }
}
