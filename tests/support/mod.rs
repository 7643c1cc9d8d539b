//! Support for all tests with the real programs: `TestJail` builds a tree, starts the real `stockaded` on it and calls it
//! over its socket. A tree of canaries beside the root must never be touched.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its own part of this")]

pub mod audit;
pub mod canary;
pub mod client;
pub mod fuse;
pub mod peer;
pub mod process;
pub mod random;
pub mod state;
pub mod terminal;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

pub use canary::Canaries;
pub use client::{Client, Failure};
pub use serde_json::{Value, json};

/// For commands that start a supervisor themselves: a state folder that cannot exist, so that a test writes no audit into the
/// home folder of the user who runs it.
pub const NO_STATE: (&str, &str) = ("XDG_STATE_HOME", "/dev/null");

/// A daemon that takes longer to start has failed.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The layers that a run leaves switched on. `Normal` and `Userspace` run the ordinary binaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Normal,
    /// `confinement = "userspace"`: the other resolver, and only the checks of the program itself.
    Userspace,
    /// Plain openat, links and `..` followed: Landlock must hold alone.
    ChecksOff,
    /// openat2 must hold alone.
    LandlockOff,
}

impl Build {
    pub const ALL: [Build; 4] = [Build::Normal, Build::Userspace, Build::ChecksOff, Build::LandlockOff];

    /// The builds that an attack has to fail in: all, or only the ordinary one for a quick run (scripts/check).
    pub fn attacked() -> impl Iterator<Item = Build> {
        let is_quick = std::env::var_os("STOCKADE_TEST_NORMAL_ONLY").is_some();
        Self::ALL.into_iter().filter(move |build| !is_quick || *build == Build::Normal)
    }

    pub fn options(self) -> Options {
        let weakened = match self {
            Build::Normal | Build::Userspace => None,
            Build::ChecksOff => Some("checks".into()),
            Build::LandlockOff => Some("landlock".into()),
        };
        Options { weakened, userspace: self == Build::Userspace, ..Options::default() }
    }

    /// All that we check is checked: answers are the contract's, and refusals are in the audit.
    pub fn is_whole(self) -> bool {
        matches!(self, Build::Normal | Build::Userspace)
    }
}

/// A policy without warm workers: the newest worker is the one that serves the newest connection.
pub const COLD: &str = "[[root]]\npath = \"ROOT\"\n[workers]\npool = 0\n";

/// What to start; `TestJail::new()` gives the defaults: one read-write root, the embedded policy.
#[derive(Debug, Default)]
pub struct Options {
    /// Goes behind `--root DIR`, for example `:ro`.
    pub suffix: &'static str,
    /// Policy text; `ROOT` is replaced by the root's path, `OUTSIDE` by the canaries'.
    pub policy: Option<String>,
    /// `confinement = "userspace"`, in the policy or in the default one.
    pub userspace: bool,
    /// `STOCKADE_WEAKENED` of a weakened build.
    pub weakened: Option<String>,
    /// `STOCKADE_FAULT` of one: see `src/sys/fault.rs`.
    pub fault: Option<String>,
    /// On a file system in memory, where there is one: for tests that sync a thousand times and lose no power.
    pub in_memory: bool,
    /// Run the daemon through this command (`setpriv …`).
    pub through: Vec<String>,
    /// Instead of `DIR/run/stockade.sock`.
    pub socket: Option<PathBuf>,
    /// Mode of the socket's folder; 0700 by default.
    pub folder_mode: Option<u32>,
    /// Folder of `stockaded` and its worker, instead of the ordinary build.
    pub bin: Option<PathBuf>,
}

pub struct TestJail {
    pub dir: tempfile::TempDir,
    pub root: PathBuf,
    pub canaries: Canaries,
    pub socket: PathBuf,
    pub daemon: Daemon,
}

impl TestJail {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn build(build: Build) -> Self {
        Self::with(build.options())
    }

    pub fn with(options: Options) -> Self {
        Self::with_tree(options, |_| {})
    }

    /// `fill` makes the root's content before the daemon starts.
    pub fn with_tree(options: Options, fill: impl FnOnce(&Path)) -> Self {
        let dir = Self::directory_in(if options.in_memory { memory() } else { std::env::temp_dir() });
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        let canaries = Canaries::plant(&dir.path().join("outside"));
        fill(&root);
        let run = dir.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(options.folder_mode.unwrap_or(0o700))).unwrap();
        let socket = options.socket.clone().unwrap_or_else(|| run.join("stockade.sock"));
        let daemon = Daemon::start(dir.path(), &root, &socket, &options);
        daemon.wait_for(&socket);
        Self { root, canaries, socket, daemon, dir }
    }

    /// Another daemon on the same root, once the first is gone. The socket of one that was killed is still there.
    pub fn restart(&mut self, options: &Options) {
        assert!(self.try_restart(options), "no start: {}", self.log());
    }

    /// Like `restart`; false if the daemon refuses to start.
    pub fn try_restart(&mut self, options: &Options) -> bool {
        let _ = self.daemon.child.kill();
        let _ = self.daemon.child.wait();
        let _ = fs::remove_file(&self.socket);
        self.daemon = Daemon::start(self.dir.path(), &self.root, &self.socket, options);
        while !self.socket.exists() {
            if self.daemon.child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.daemon.wait_for(&self.socket);
        true
    }

    /// A directory that a daemon of any identity can reach.
    pub fn directory() -> tempfile::TempDir {
        Self::directory_in(std::env::temp_dir())
    }

    fn directory_in(base: PathBuf) -> tempfile::TempDir {
        let dir = tempfile::Builder::new().prefix("stockade-test-").tempdir_in(base).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// For tests that need a policy of their own instead of the embedded one.
    pub fn with_policy(policy: &str) -> Self {
        Self::with(Options { policy: Some(policy.into()), ..Options::default() })
    }

    /// A connection and the worker that serves it. Only where the policy keeps no warm workers (`COLD`).
    pub fn connect_and_find_worker(&self) -> (Client, u32) {
        let mut client = self.connect();
        client.call("coder::info", json!({})).expect("served");
        let newest = self.daemon.workers().into_iter().max_by_key(|pid| process::started(*pid));
        (client, newest.expect("a worker serves it"))
    }

    /// One call on a new connection.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, Failure> {
        self.connect().call(method, params)
    }

    pub fn read(&self, path: &str) -> Result<Value, Failure> {
        self.call("coder::read-file", json!({ "path": path }))
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The log of the daemon so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("daemon.log")).unwrap()
    }

    /// The records of the audit so far. The last records may not be written yet.
    pub fn audit(&self) -> Vec<Value> {
        let log = self.log();
        audit::records(&log[..log.rfind('\n').map_or(0, |newline| newline + 1)])
    }

    /// The canaries are untouched and the service still answers.
    pub fn assert_intact(&self) {
        self.canaries.assert_untouched();
        self.call("coder::info", json!({})).expect("the service still answers");
    }
}

/// The cargo feature `posix`: a service that does without what only Linux has, and so without the jail.
pub const IS_POSIX: bool = cfg!(feature = "posix");

impl Options {
    /// The policy's text; `None` where `--root` does.
    fn policy_text(&self) -> Option<String> {
        if !IS_POSIX && !self.userspace {
            return self.policy.clone();
        }
        // Without a file the jail is demanded.
        let defaults = || {
            let mode = if self.suffix == ":ro" { "ro" } else { "rw" };
            format!("[[root]]\npath = \"ROOT\"\nmode = \"{mode}\"\n")
        };
        let text = self.policy.clone().unwrap_or_else(defaults);
        let is_said = text.contains("confinement =");
        Some(if is_said { text } else { format!("confinement = \"userspace\"\n{text}") })
    }
}

/// A folder in memory, if there is one.
pub fn memory() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if tempfile::tempdir_in(&shm).is_ok() { shm } else { std::env::temp_dir() }
}

/// A running `stockaded`; ended with the value.
pub struct Daemon {
    pub child: Child,
}

impl Daemon {
    fn start(dir: &Path, root: &Path, socket: &Path, options: &Options) -> Self {
        let weakened = options.weakened.as_deref().or(options.fault.as_ref().map(|_| ""));
        let mut command = daemon_command(weakened, &options.through, options.bin.as_deref());
        command.arg("--socket").arg(socket);
        if let Some(fault) = &options.fault {
            command.env("STOCKADE_FAULT", fault);
        }
        match options.policy_text() {
            Some(text) => {
                let policy = dir.join("policy.toml");
                let text = text
                    .replace("ROOT", root.to_str().unwrap())
                    .replace("OUTSIDE", dir.join("outside").to_str().unwrap());
                fs::write(&policy, text).unwrap();
                fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
                command.arg("--policy").arg(policy);
            }
            None => {
                let mut argument = root.as_os_str().to_owned();
                argument.push(options.suffix);
                command.arg("--root").arg(argument);
            }
        }
        let log = fs::File::create(dir.join("daemon.log")).unwrap();
        Self { child: spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log)) }
    }

    fn wait_for(&self, socket: &Path) {
        let start = Instant::now();
        let mut stream = loop {
            match std::os::unix::net::UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(_) => assert!(start.elapsed() < START_TIMEOUT, "no start: {}", log_beside(socket)),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // The socket is bound before the jail is proved. And this connection must be over, its place given back,
        // before the test makes its own.
        stream.set_read_timeout(Some(START_TIMEOUT)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(ended.is_ok(), "no start: {}", log_beside(socket));
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processes whose parent is the daemon.
    pub fn workers(&self) -> Vec<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.pid());
        let text = fs::read_to_string(children).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    pub fn terminate(&mut self) -> Option<i32> {
        process::signal(self.pid(), process::Signal::TERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_beside(socket: &Path) -> String {
    let log = socket.parent().and_then(Path::parent).map(|dir| dir.join("daemon.log"));
    log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default()
}

/// A command prefix that starts the daemon in a new mount namespace, after `script`. The host's mounts never change.
pub fn in_own_mounts(script: &str) -> Vec<String> {
    let mut command = vec!["unshare".to_owned(), "--mount".into()];
    if !rustix::process::geteuid().is_root() {
        command.push("--map-root-user".into());
    }
    // The arguments are: the program, `--socket`, the socket in `$d/run`.
    let script = format!("set -e; d=${{3%/run/stockade.sock}}; {script}; exec \"$@\"");
    command.extend(["sh".into(), "-c".into(), script, "sh".into()]);
    command
}

/// `stockaded` of the ordinary or of the weakened build, not started yet.
pub fn daemon_command(weakened: Option<&str>, through: &[String], bin: Option<&Path>) -> Command {
    let bin = bin.map_or_else(|| bin_dir(weakened.is_some()), Path::to_owned);
    let program = bin.join("stockaded");
    let mut command = match through.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.env_remove("STOCKADE_WEAKENED").env(NO_STATE.0, NO_STATE.1);
    if let Some(layers) = weakened {
        command.env("STOCKADE_WEAKENED", layers);
    }
    command
}

/// Starts a daemon that is expected to refuse. Returns its exit status and its output.
pub fn refused_start(arguments: &[&str], weakened: Option<&str>) -> (Option<i32>, String) {
    refused(daemon_command(weakened, &[], None).args(arguments))
}

/// Like `refused_start`, for any command.
pub fn refused(command: &mut Command) -> (Option<i32>, String) {
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut text = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let start = Instant::now();
    while lines.read_line(&mut text).unwrap() > 0 {
        if text.contains("\"listening\"") || start.elapsed() > START_TIMEOUT {
            child.kill().unwrap();
            panic!("the daemon started although it should have refused: {text}");
        }
    }
    let _ = lines.read_to_string(&mut text);
    (child.wait().unwrap().code(), text)
}

/// A program that a test has just copied may still be open for writing in a child that another test is about to start.
fn spawn(command: &mut Command) -> Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => return started.unwrap(),
        }
    }
}

/// Folder of the programs under test. `STOCKADE_TEST_BIN` and `STOCKADE_TEST_WEAKENED_BIN` name copies, for runs as another
/// user. Otherwise cargo's programs, and a weakened build that is made on first use.
pub fn bin_dir(weakened: bool) -> PathBuf {
    if !weakened {
        return match std::env::var_os("STOCKADE_TEST_BIN") {
            Some(dir) => dir.into(),
            None => Path::new(env!("CARGO_BIN_EXE_stockaded")).parent().unwrap().into(),
        };
    }
    if let Some(dir) = std::env::var_os("STOCKADE_TEST_WEAKENED_BIN") {
        return dir.into();
    }
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build_weakened).clone()
}

fn build_weakened() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/weakened");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--features", "weakened", "--bins", "--message-format", "json", "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the weakened build failed");
    let built = String::from_utf8(output.stdout).unwrap();
    let program = built
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| {
            let executable = message["executable"].as_str()?;
            executable.ends_with("/stockaded").then(|| PathBuf::from(executable))
        })
        .expect("cargo names the program");
    program.parent().unwrap().into()
}
