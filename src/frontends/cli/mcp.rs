//! `stockade mcp`: the arguments of the MCP server, or the block of configuration that starts it.

use std::env;

use super::{
    super::{
        endpoint::Endpoint,
        mcp::{self, Options, Stopped, config},
    },
    Outcome,
    args::{McpArgs, McpHost},
    failure::Failure,
    output::Output,
};

pub(super) fn run(args: McpArgs, out: &mut Output<'_>) -> Outcome {
    mcp::check_tools(&args.tools).map_err(Failure::Usage)?;
    if let Some(host) = args.print_config {
        return print_config(host.into(), args, out);
    }
    let private = args.client.arguments();
    let endpoint = Endpoint::choose(args.client.socket.as_deref(), private, |name| env::var_os(name));
    let options = Options {
        endpoint,
        timeout: args.client.timeout,
        tools: args.tools,
        structured: args.structured,
        ignore_host_roots: args.ignore_host_roots,
    };
    mcp::run(options).map(|()| 0).map_err(Failure::from)
}

fn print_config(host: config::Host, args: McpArgs, out: &mut Output<'_>) -> Outcome {
    let program = env::current_exe()
        .map_err(|error| Failure::Usage(format!("cannot tell where this program is installed: {error}")))?;
    let server = config::Server {
        socket: args.client.socket,
        protect: args.client.place.protect_arguments(),
        roots: args.client.place.root,
        policy: args.client.place.policy,
        audit: args.client.audit,
        tools: args.tools,
        structured: args.structured,
        ignore_host_roots: args.ignore_host_roots,
        timeout_ms: args.client.timeout.map(|timeout| timeout.as_millis()),
    };
    let block = host.block(&program, &server).map_err(Failure::Usage)?;
    out.text(&block)?;
    out.remark(&format!("goes into {}", host.place()))?;
    Ok(0)
}

impl From<McpHost> for config::Host {
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

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Unreachable(unreachable) => Self::Unreachable(unreachable),
            Stopped::Call(error) => Self::Call(error),
            Stopped::Reported(code) => Self::Reported(code),
            Stopped::Io(error) => Self::Write(format!("cannot serve on standard input and output: {error}")),
        }
    }
}
