//! `stockade mcp`: an MCP server on standard input and output. Runs as the child of the agent host. It is a client of the
//! service like any other: it has no privilege, and the jail does not depend on it. Trusts: its arguments. Does not trust:
//! the host, whose lines are bounded and whose roots can only narrow the operator's. Never outlives the host: it ends with
//! standard input, and its private service ends with it.

mod arguments;
mod backend;
mod coerce;
pub mod config;
mod familiar;
mod handler;
mod host_roots;
mod input;
mod media;
mod message;
mod object;
mod outbox;
mod reading;
mod render;
mod request;
mod resources;
mod scope;
mod server;
mod session;
mod stdio;
mod tools;
mod uri;

use std::{io, sync::Arc, time::Duration};

use tokio::runtime::Builder;

use self::{
    backend::Backend,
    handler::Bridge,
    host_roots::HostRoots,
    input::{HostInput, InFlightRequests},
    outbox::HostOutbox,
    server::McpServer,
    tools::ToolSelection,
};
use super::{
    client::CallError,
    endpoint::{Endpoint, PrivateSupervisor, Unreachable},
};

/// After standard input ends: how long to wait for the next pending call to finish.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(5);
/// After the last call: how long to wait for a slow host to read the replies that are ready.
const LAST_REPLIES_TIMEOUT: Duration = Duration::from_secs(2);

/// The default size of one reply of a tool, in bytes of text: as much as a model can use at once.
pub const DEFAULT_REPLY_BYTES: usize = 64 << 10;
/// The longest path, its header and the call that continues have to fit.
pub const MIN_REPLY_BYTES: usize = 16 << 10;
/// Not more than the service holds for one reply.
pub const MAX_REPLY_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct BridgeOptions {
    pub endpoint: Endpoint,
    /// The timeout of each call.
    pub timeout: Option<Duration>,
    /// Only these tools; empty: all.
    pub tools: Vec<String>,
    pub structured: bool,
    /// Bytes of text in one reply of a tool, at least `MIN_REPLY_BYTES`.
    pub max_reply: usize,
    /// Serve the operator's roots, whatever roots the host names.
    pub ignore_host_roots: bool,
}

/// Why the bridge could not serve.
#[derive(Debug)]
pub enum BridgeError {
    Unreachable(Unreachable),
    /// The first call of the service failed.
    Call(CallError),
    /// The private service did not start and has printed the reason. Holds its exit code.
    AlreadyReported(u8),
    Io(io::Error),
}

impl From<Unreachable> for BridgeError {
    fn from(unreachable: Unreachable) -> Self {
        Self::Unreachable(unreachable)
    }
}

impl From<io::Error> for BridgeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An error text for names of tools that do not exist.
pub fn check_tools(wanted: &[String]) -> Result<(), String> {
    tools::check_tool_names(wanted)
}

/// Serves until the host closes standard input.
pub fn run(options: BridgeOptions) -> Result<(), BridgeError> {
    // One thread, so that a call passes between tasks without waking another thread.
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let mut supervisor = None;
    let served = runtime.block_on(serve(options, &mut supervisor));
    // Drops every task, and the connection with them, without waiting for a thread that blocks in a read.
    runtime.shutdown_background();
    let status = supervisor.map(PrivateSupervisor::wait);
    match (served, status) {
        (Err(BridgeError::Call(CallError::Closed)), Some(Ok(status))) if !status.success() => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Err(code.map_or(BridgeError::Call(CallError::Closed), BridgeError::AlreadyReported))
        }
        (served, _) => served,
    }
}

async fn serve(options: BridgeOptions, supervisor: &mut Option<PrivateSupervisor>) -> Result<(), BridgeError> {
    let outbox = Arc::new(HostOutbox::default());
    let desk = Arc::new(InFlightRequests::default());
    let backend = Arc::new(Backend::open(options.endpoint, options.timeout, outbox.backlog().clone())?);
    let (reader, writer) = stdio::open_stdio()?;
    let host_roots = Arc::new(HostRoots::new(options.ignore_host_roots, outbox.clone()));
    let bridge = Bridge {
        backend: backend.clone(),
        outbox: outbox.clone(),
        selection: Arc::new(ToolSelection { selected: options.tools }),
        structured: options.structured,
        max_reply: options.max_reply,
        host_roots: host_roots.clone(),
    };
    let server = McpServer::new(bridge, host_roots, outbox.clone(), desk.clone());
    let input = HostInput::new(reader, outbox.clone(), desk.clone());

    let mut serving = tokio::spawn(async move {
        tokio::select! {
            () = input.serve(server) => {}
            () = desk.wait_until_idle(LAST_CALLS_TIMEOUT) => {}
        }
    });
    // Both are separate tasks: the runtime polls all descriptors before each turn of the outermost future.
    let mut writing = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.write_to(writer).await }
    });
    let mut greeting = std::pin::pin!(backend.info());
    let mut is_greeted = false;
    let served = loop {
        tokio::select! {
            _ = &mut serving => {
                let _ = tokio::time::timeout(LAST_REPLIES_TIMEOUT, async {
                    tokio::select! {
                        _ = &mut writing => {}
                        () = outbox.backlog().wait_until_empty() => {}
                    }
                }).await;
                break Ok(());
            }
            // The host has closed its end, so there is no client left.
            _ = &mut writing => break Ok(()),
            info = &mut greeting, if !is_greeted => match info {
                Ok(_) => is_greeted = true,
                Err(error) => break Err(BridgeError::Call(error)),
            },
        }
    };
    *supervisor = backend.take_supervisor();
    served
}
