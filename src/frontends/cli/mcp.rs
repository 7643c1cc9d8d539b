//! `stockade mcp`: the arguments of the MCP server, and the configuration for hosts.

use std::{
    env,
    io::{self, IsTerminal},
};

use serde_json::json;

use super::{
    super::{
        endpoint::Endpoint,
        mcp::{
            self, BridgeError, BridgeOptions,
            config::{self, ConfigHost, StartCommand},
        },
    },
    CommandResult,
    args::{McpArgs, McpCommand, McpServerArgs},
    failure::CliFailure,
    mcp_install,
    output::Output,
};

/// For a user who starts the server in a terminal, which normally a host does.
const WHAT_IT_IS: &str = "this is the MCP server that an agent host starts and talks to over standard input and output; \
                          `stockade mcp install HOST` configures one, Ctrl-D ends this";

pub(super) fn run(args: McpArgs, out: &mut Output<'_>) -> CommandResult {
    let McpArgs { command, print_config, server } = args;
    match (command, print_config) {
        (Some(McpCommand::Install(args)), _) => {
            let start = start(&args.server)?;
            mcp_install::run(&args, &start, out)
        }
        (None, Some(host)) => print(host, &server, out),
        (None, None) => serve(server, out),
    }
}

fn serve(args: McpServerArgs, out: &mut Output<'_>) -> CommandResult {
    mcp::check_tools(&args.tools).map_err(CliFailure::Usage)?;
    if io::stdin().is_terminal() {
        out.write_remark(WHAT_IT_IS)?;
    }
    let mut private = args.client.to_supervisor_arguments();
    private.extend(args.trash_argument().map(Into::into));
    let endpoint = Endpoint::choose(args.client.socket.as_deref(), private, |name| env::var_os(name));
    let options = BridgeOptions {
        endpoint,
        timeout: args.client.timeout,
        tools: args.tools,
        structured: args.structured,
        max_reply: args.max_reply,
        ignore_host_roots: args.ignore_host_roots,
    };
    mcp::run(options).map(|()| 0).map_err(CliFailure::from)
}

fn print(host: ConfigHost, args: &McpServerArgs, out: &mut Output<'_>) -> CommandResult {
    let block = host.render_block(&start(args)?);
    let (destination, own_tools) = (host.destination(), host.own_tools(&args.tools));
    if out.json {
        let object = json!({"block": block, "destination": destination, "own_tools": own_tools});
        return out.write_json_line(&object.to_string()).map(|()| 0);
    }
    out.write_text(&block)?;
    out.write_remark(&format!("goes into {destination}"))?;
    out.write_advice(&own_tools)?;
    Ok(0)
}

/// The command that starts this program with these arguments from any folder.
fn start(args: &McpServerArgs) -> Result<StartCommand, CliFailure> {
    mcp::check_tools(&args.tools).map_err(CliFailure::Usage)?;
    let program = env::current_exe()
        .map_err(|error| CliFailure::Usage(format!("cannot tell where this program is installed: {error}")))?;
    let server = config::ServerOptions {
        socket: args.client.socket.clone(),
        rules: args.client.supervisor.to_rule_arguments().into_iter().chain(args.trash_argument()).collect(),
        roots: args.client.supervisor.root.clone(),
        policy: args.client.supervisor.policy.clone(),
        audit: args.client.audit.clone(),
        tools: args.tools.clone(),
        structured: args.structured,
        max_reply: (args.max_reply != mcp::DEFAULT_REPLY_BYTES).then_some(args.max_reply),
        ignore_host_roots: args.ignore_host_roots,
        timeout_ms: args.client.timeout.map(|timeout| timeout.as_millis()),
    };
    server.start(&program).map_err(CliFailure::Usage)
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
