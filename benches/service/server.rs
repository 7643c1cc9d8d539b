//! A file server that answers calls: ours on its socket, or any that speaks MCP on its standard streams. Started on a
//! root, ended with the value.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    Bench, client,
    client::Client,
    daemon::{Daemon, generous_policy},
    process,
    task::{self, Kind, Task},
};

const INITIALIZE: &str = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\
                          \"clientInfo\":{\"name\":\"bench\",\"version\":\"0\"}}";
const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

pub struct Server {
    pub kind: Kind,
    pub client: Client,
    root: PathBuf,
    process: Running,
}

/// Ends what it holds.
enum Running {
    Daemon(Daemon),
    Child(Child),
}

impl Server {
    /// Ready for calls. None where the server is not installed; `dir` is for sockets and logs.
    pub fn start(kind: Kind, bench: &Bench, root: &Path, dir: &Path) -> Option<Self> {
        let started = Self::try_start(kind, bench, root, dir)?;
        Some(started.unwrap_or_else(|why| panic!("{}: {why}", kind.name())))
    }

    /// Why a server that is installed does not serve.
    pub fn try_start(kind: Kind, bench: &Bench, root: &Path, dir: &Path) -> Option<Result<Self, String>> {
        if matches!(kind, Kind::Socket | Kind::Unsynced) {
            let durability = if kind == Kind::Unsynced { "durability = \"none\"\n" } else { "" };
            let daemon = Daemon::generous(&bench.bin, root, dir, &format!("{kind:?}"), durability);
            let client = daemon.connect();
            return Some(Ok(Self { kind, client, root: root.into(), process: Running::Daemon(daemon) }));
        }
        let mut command = program(kind, bench)?;
        match kind {
            Kind::Bridge => command.arg("--policy").arg(generous_policy(root, dir, "bridge", "")),
            _ => command.arg(root),
        };
        Some(Self::spawn(kind, command, root, dir))
    }

    /// As a host starts it that was told nothing but the folder.
    pub fn plain(kind: Kind, bench: &Bench, root: &Path, dir: &Path) -> Option<Self> {
        let mut command = program(kind, bench)?;
        if kind == Kind::Bridge {
            command.arg("--root");
        }
        command.arg(root);
        Self::spawn(kind, command, root, dir).ok()
    }

    /// A bridge to a daemon that others use, too.
    pub fn bridge_to(daemon: &Daemon, bench: &Bench, root: &Path, dir: &Path) -> Option<Self> {
        let mut command = program(Kind::Bridge, bench)?;
        command.arg("--socket").arg(&daemon.socket);
        Some(Self::spawn(Kind::Bridge, command, root, dir).expect("the bridge finds its daemon"))
    }

    fn spawn(kind: Kind, mut command: Command, root: &Path, dir: &Path) -> Result<Self, String> {
        // Socket pairs, because that is what hosts written for Node give their servers.
        let (input, their_input) = UnixStream::pair().unwrap();
        let (output, their_output) = UnixStream::pair().unwrap();
        let log = File::create(dir.join(format!("{}.log", kind.name()))).unwrap();
        let child = command
            .stdin(Stdio::from(OwnedFd::from(their_input)))
            .stdout(Stdio::from(OwnedFd::from(their_output)))
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        // The command keeps its ends open; a server that dies should be noticed.
        drop(command);
        let client = Client::over(input, output);
        let mut server = Self { kind, client, root: root.into(), process: Running::Child(child) };
        server.client.attempt(&client::line(0, "initialize", INITIALIZE))?;
        server.client.send(INITIALIZED);
        Ok(server)
    }

    pub fn request(&self, id: usize, task: &Task<'_>) -> Option<Vec<u8>> {
        request(self.kind, &self.root, id, task)
    }

    pub fn pid(&self) -> u32 {
        match &self.process {
            Running::Daemon(daemon) => daemon.pid(),
            Running::Child(child) => child.id(),
        }
    }

    pub fn cpu_us(&self) -> f64 {
        process::family_cpu_us(self.pid())
    }
}

/// The line that asks for a task.
pub fn request(kind: Kind, root: &Path, id: usize, task: &Task<'_>) -> Option<Vec<u8>> {
    let (name, arguments) = task::ask(kind, root, task)?;
    Some(match kind {
        Kind::Socket | Kind::Unsynced => client::line(id, name, &arguments),
        _ => client::line(id, "tools/call", &format!("{{\"name\":\"{name}\",\"arguments\":{arguments}}}")),
    })
}

/// A server that speaks MCP, without its folder. None where there is none.
pub fn program(kind: Kind, bench: &Bench) -> Option<Command> {
    let peers = &bench.peers;
    let mut command = match kind {
        Kind::Socket | Kind::Unsynced => return None,
        Kind::Bridge => Command::new(bench.has_bridge().then(|| bench.bin.join("stockade"))?),
        Kind::Reference => Command::new(peers.reference.as_ref()?),
        Kind::RustMcp => Command::new(peers.rust_mcp.as_ref()?),
    };
    match kind {
        Kind::Bridge => _ = command.arg("mcp").env("XDG_STATE_HOME", bench.work.join("state")),
        Kind::RustMcp => _ = command.arg("--allow-write"),
        _ => {}
    }
    Some(command)
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Running::Child(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
