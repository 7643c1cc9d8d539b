//! A running `stockaded` on a tree; ended with the value.

use std::{
    collections::HashSet,
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    client::{self, Client},
    process,
    tree::Tree,
};

const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The pool has refilled by then, also on a busy machine.
const SETTLE: Duration = Duration::from_millis(300);

/// Limits that let replies be as large as those of servers without a budget.
pub const GENEROUS: &str = "tree_response_budget_bytes = 16777216\nsearch_response_budget_bytes = 16777216\n\
                        max_connections_per_uid = 80\n\
                        call_timeout_ms = 600000\n";

pub struct Daemon {
    child: Child,
    pub socket: PathBuf,
}

impl Daemon {
    /// `weakened`: the layers to switch off in a build that has the switch.
    pub fn start(bin: &Path, tree: &Tree, name: &str, weakened: Option<&str>) -> Self {
        let mut command = Command::new(bin.join("stockaded"));
        command.arg("--root").arg(tree.root());
        if let Some(layers) = weakened {
            command.env("STOCKADE_WEAKENED", layers);
        }
        Self::run(command, tree.dir(), name)
    }

    /// On any root, without some layers.
    pub fn weakened(bin: &Path, root: &Path, dir: &Path, name: &str, layers: &str) -> Self {
        let mut command = Command::new(bin.join("stockaded"));
        command.arg("--root").arg(root).env("STOCKADE_WEAKENED", layers);
        Self::run(command, dir, name)
    }

    /// On any root, with a generous policy.
    pub fn generous(bin: &Path, root: &Path, dir: &Path, name: &str, settings: &str) -> Self {
        let mut command = Command::new(bin.join("stockaded"));
        command.arg("--policy").arg(generous_policy(root, dir, name, settings));
        Self::run(command, dir, name)
    }

    pub fn with_policy(bin: &Path, tree: &Tree, name: &str, policy: &str) -> Self {
        let file = tree.dir().join(format!("{name}.toml"));
        std::fs::write(&file, policy).unwrap();
        let mut command = Command::new(bin.join("stockaded"));
        command.arg("--policy").arg(file);
        Self::run(command, tree.dir(), name)
    }

    fn run(mut command: Command, dir: &Path, name: &str) -> Self {
        let socket = dir.join(format!("{name}.sock"));
        command.arg("--socket").arg(&socket);
        let log = dir.join(format!("{name}.log"));
        let stderr = std::fs::File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let daemon = Self { child, socket };
        let start = Instant::now();
        while UnixStream::connect(&daemon.socket).is_err() {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(start.elapsed() < START_TIMEOUT, "{name} did not start: {}", said());
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon.settle();
        daemon
    }

    pub fn settle(&self) {
        std::thread::sleep(SETTLE);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// A connection whose worker is known: the child that used CPU for its calls.
    pub fn connect_to_known_worker(&self) -> (Client, u32) {
        let mut client = self.connect();
        let info = client::line(1, "coder::info", "{}");
        client.call(&info);
        client.last();
        self.settle();
        let workers: HashSet<u32> = process::children(self.pid());
        let before: Vec<(u32, f64)> = workers.iter().map(|pid| (*pid, process::cpu_us(*pid))).collect();
        client.timed(&info, 50);
        let busiest =
            before.into_iter().map(|(pid, cpu)| (pid, process::cpu_us(pid) - cpu)).max_by(|a, b| a.1.total_cmp(&b.1));
        (client, busiest.expect("somebody answered").0)
    }
}

/// A policy with replies as large as those of servers that know no budget, and places for more than 64 agents.
/// `settings` are further lines of it.
pub fn generous_policy(root: &Path, dir: &Path, name: &str, settings: &str) -> PathBuf {
    let file = dir.join(format!("{name}.toml"));
    let path = fs::canonicalize(root).unwrap();
    fs::write(&file, format!("{settings}[[root]]\npath = {path:?}\n[limits]\n{GENEROUS}")).unwrap();
    file
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
