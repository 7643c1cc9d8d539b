//! What a service manager hears, over a datagram socket that this test plays systemd with.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
    time::{Duration, Instant},
};

use crate::support::{
    Options, TestJail, bin_dir, daemon_command,
    process::{self, Signal, eventually},
    refused,
};

/// No news for so long is an error, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Listener {
    socket: UnixDatagram,
    /// What NOTIFY_SOCKET says.
    name: String,
    _dir: tempfile::TempDir,
}

impl Listener {
    fn with_path() -> Self {
        let dir = TestJail::directory();
        let path = dir.path().join("notify");
        Self { socket: UnixDatagram::bind(&path).unwrap(), name: path.to_str().unwrap().into(), _dir: dir }
    }

    fn abstract_name() -> Self {
        let dir = TestJail::directory();
        let name = dir.path().to_str().unwrap()[1..].to_owned();
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Self { socket, name: format!("@{name}"), _dir: dir }
    }

    fn environment(&self, more: &[&str]) -> Vec<String> {
        let notify = format!("NOTIFY_SOCKET={}", self.name);
        ["env", &notify].iter().chain(more).map(|word| word.to_string()).collect()
    }

    /// The next message; `None` if there is none for so long.
    fn hear(&self, patience: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 8192];
        let len = loop {
            match self.socket.recv(&mut buffer) {
                // With a time-out the kernel does not begin again by itself.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => break received.ok()?,
            }
        };
        Some(String::from_utf8(buffer[..len].to_vec()).unwrap())
    }

    /// The next message that is not a sign of life.
    fn news(&self) -> String {
        loop {
            let message = self.hear(PATIENCE).expect("news");
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

fn monotonic_usec() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

fn tells_its_manager(manager: &Listener) {
    let policy = "[[root]]\npath = \"ROOT\"\n".to_owned();
    let through = manager.environment(&[]);
    let mut jail = TestJail::with(Options { policy: Some(policy), through, ..Options::default() });
    assert_eq!(manager.news(), "READY=1\nSTATUS=serving, confinement: Kernel");

    let before = monotonic_usec();
    process::signal(jail.daemon.pid(), Signal::HUP);
    let reloading = manager.news();
    let usec = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&reloading);
    assert!((before..=monotonic_usec()).contains(&usec.parse().unwrap()), "{reloading}");
    assert_eq!(manager.news(), "READY=1\nSTATUS=serving under a reloaded policy");

    fs::write(jail.dir.path().join("policy.toml"), "nonsense\n").unwrap();
    process::signal(jail.daemon.pid(), Signal::HUP);
    assert!(manager.news().starts_with("RELOADING=1\n"));
    let told = manager.news();
    assert!(told.starts_with("READY=1\nSTATUS=the policy was not reloaded, the old one stays: "), "{told}");
    assert!(told.contains("policy.toml:1:"), "{told}");
    assert_eq!(told.lines().count(), 2, "a text is one assignment: {told}");

    let _client = jail.connect();
    assert_eq!(jail.daemon.terminate(), Some(0));
    let told = manager.news();
    assert!(told.starts_with("STOPPING=1\nSTATUS=finishing "), "{told}");
    assert_eq!(manager.hear(Duration::from_millis(50)), None, "nobody asked for signs of life");
}

#[test]
fn a_manager_hears_of_start_reload_and_stop() {
    tells_its_manager(&Listener::with_path());
}

/// Landlock keeps a confined process from abstract sockets of others: this one was connected before.
#[test]
fn a_manager_with_an_abstract_name_hears_the_same() {
    tells_its_manager(&Listener::abstract_name());
}

#[test]
fn a_service_that_is_stuck_falls_silent() {
    let manager = Listener::with_path();
    let through = manager.environment(&["WATCHDOG_USEC=400000"]);
    let jail = TestJail::with(Options { through, ..Options::default() });
    assert!(manager.news().starts_with("READY=1\n"));
    let start = Instant::now();
    for _ in 0..5 {
        assert_eq!(manager.hear(PATIENCE).as_deref(), Some("WATCHDOG=1"));
    }
    // The first may come at once; the others have 200 ms between them.
    assert!(start.elapsed() >= Duration::from_millis(600), "too often: {:?}", start.elapsed());
    process::signal(jail.daemon.pid(), Signal::STOP);
    let state = || process::status(jail.daemon.pid(), "State")[0].clone();
    eventually("it stands still", || state() == "T");
    while manager.hear(Duration::from_millis(1)).is_some() {}
    assert_eq!(manager.hear(Duration::from_millis(800)), None);
    process::signal(jail.daemon.pid(), Signal::CONT);
    assert_eq!(manager.hear(PATIENCE).as_deref(), Some("WATCHDOG=1"));
    jail.assert_intact();
}

#[test]
fn a_watchdog_for_another_process_is_not_fed() {
    let manager = Listener::with_path();
    let through = manager.environment(&["WATCHDOG_USEC=100000", "WATCHDOG_PID=1"]);
    let _jail = TestJail::with(Options { through, ..Options::default() });
    assert!(manager.news().starts_with("READY=1\n"));
    assert_eq!(manager.hear(Duration::from_millis(500)), None);
}

#[test]
fn a_manager_that_does_not_read_does_not_stop_the_service() {
    let manager = Listener::with_path();
    let through = manager.environment(&["WATCHDOG_USEC=2000"]);
    let mut jail = TestJail::with(Options { through, ..Options::default() });
    // Its queue is full long before that.
    std::thread::sleep(Duration::from_millis(500));
    process::signal(jail.daemon.pid(), Signal::HUP);
    for _ in 0..20 {
        jail.assert_intact();
    }
    assert_eq!(jail.daemon.terminate(), Some(0));
}

#[test]
fn nobody_is_told_that_a_jail_is_ready_which_does_not_hold() {
    let manager = Listener::with_path();
    let dir = TestJail::directory();
    fs::copy(bin_dir(false).join("stockaded"), dir.path().join("stockaded")).unwrap();
    fs::copy("/bin/true", dir.path().join("stockade-worker")).unwrap();
    fs::create_dir(dir.path().join("root")).unwrap();
    let mut command = daemon_command(None, &manager.environment(&[]), Some(dir.path()));
    command.arg("--root").arg(dir.path().join("root")).arg("--socket").arg(dir.path().join("run/s"));
    let (code, said) = refused(&mut command);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(manager.hear(Duration::from_millis(10)), None);
}

#[test]
fn a_manager_that_cannot_be_reached_refuses_the_start() {
    let dir = TestJail::directory();
    fs::create_dir(dir.path().join("root")).unwrap();
    let start = |variable: &str| {
        let through = ["env".to_owned(), variable.to_owned()];
        let mut command = daemon_command(None, &through, None);
        command.arg("--root").arg(dir.path().join("root"));
        refused(command.arg("--socket").arg(Path::new(dir.path()).join("run/stockade.sock")))
    };
    for variable in ["NOTIFY_SOCKET=relative", "NOTIFY_SOCKET=/nowhere/notify", "WATCHDOG_USEC=often"] {
        let (code, said) = start(variable);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(variable), "{said}");
    }
}
