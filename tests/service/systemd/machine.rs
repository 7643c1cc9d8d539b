//! A machine of namespaces, in which a real systemd is PID 1. See `boot.sh`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use crate::support::{Client, bin_dir, process};

/// In `boot.sh`: the account of the unit.
pub const STOCKADE: u32 = 990;
pub const SOCKET: &str = "/run/stockade/stockade.sock";

/// policy/service.toml, with root as the client that is served.
pub const POLICY: &str = "\
[[root]]
path = \"/srv/project\"
[socket]
group = \"stockade\"
[[peer]]
uid = 0
[audit]
path = \"/var/log/stockade/audit.jsonl\"
";

pub struct Machine {
    /// Ends with its standard input.
    boot: Child,
    /// Its PID 1, as seen from here.
    init: u32,
    _dir: tempfile::TempDir,
}

impl Machine {
    /// With the units in place and nothing of them started. `None` where the test may be left out.
    pub fn boot(test: &str) -> Option<Self> {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
        let machine = Self::boot_from(test, &["units".as_ref(), &bin_dir(false), &units])?;
        machine.write("/etc/stockade/policy.toml", POLICY);
        machine.write("/srv/project/note.txt", "a note\n");
        Some(machine)
    }

    /// A Debian system without stockade: this one, or that of the folder in `STOCKADE_TEST_FRESH_ROOT`.
    pub fn boot_fresh(test: &str) -> Option<Self> {
        let base = std::env::var_os("STOCKADE_TEST_FRESH_ROOT").unwrap_or_else(|| "/".into());
        Self::boot_from(test, &["fresh".as_ref(), Path::new(&base)])
    }

    /// `kind` is what `boot.sh` takes after the folder to mount on.
    fn boot_from(test: &str, kind: &[&Path]) -> Option<Self> {
        if !process::runs_as_root(test) {
            return None;
        }
        if std::env::var_os("STOCKADE_TEST_NO_NAMESPACES").is_some() {
            process::skip(&format!("{test} needs namespaces"));
            return None;
        }
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let boot = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "unshare", "--mount"])
            .arg(package.join("tests/service/systemd/boot.sh"))
            .arg(dir.path().join("root"))
            .args(kind)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut machine = Self { boot, init: 0, _dir: dir };
        process::eventually("systemd is started", || machine.find_init());
        process::eventually("the machine is up", || {
            machine.succeeds(&["systemctl", "is-active", "--quiet", "machine.target"])
        });
        Some(machine)
    }

    /// The process that no longer has children which are on the way to become it.
    fn find_init(&mut self) -> bool {
        let log = fs::read_to_string(self._dir.path().join("log")).unwrap_or_default();
        assert!(self.boot.try_wait().unwrap().is_none(), "it did not boot: {log}");
        let mut pid = self.boot.id();
        loop {
            if fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "systemd\n") {
                self.init = pid;
                return true;
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            match children.split_whitespace().next() {
                Some(child) => pid = child.parse().unwrap(),
                None => return false,
            }
        }
    }

    /// A path of the machine, from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.init))
    }

    pub fn write(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// A setting of the unit that this test needs.
    pub fn drop_in(&self, settings: &str) {
        self.write("/etc/systemd/system/stockade.service.d/test.conf", &format!("[Service]\n{settings}\n"));
        self.run(&["systemctl", "daemon-reload"]);
    }

    pub fn output(&self, command: &[&str]) -> Output {
        let init = self.init.to_string();
        let mut inside = Command::new("nsenter");
        inside.args(["--all", "--target", &init, "--"]).args(command).env_clear();
        inside.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null()).output().unwrap()
    }

    pub fn succeeds(&self, command: &[&str]) -> bool {
        self.output(command).status.success()
    }

    /// What it prints; anything but success ends the test, with the journal.
    #[track_caller]
    pub fn run(&self, command: &[&str]) -> String {
        let output = self.output(command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}{error}\n{}", self.journal());
        said
    }

    pub fn journal(&self) -> String {
        let journal = self.output(&["journalctl", "--no-pager", "--output=cat"]);
        String::from_utf8_lossy(&journal.stdout).into_owned()
    }

    pub fn systemctl(&self, verb: &str, unit: &str) {
        self.run(&["systemctl", verb, unit]);
    }

    /// `ActiveState`, `MainPID` and the like.
    pub fn show(&self, property: &str) -> String {
        self.run(&["systemctl", "show", "--value", "--property", property, "stockade.service"]).trim().into()
    }

    pub fn main_pid(&self) -> String {
        self.show("MainPID")
    }

    /// To the daemon, in the machine's own numbers.
    pub fn signal(&self, name: &str) {
        self.run(&["kill", "-s", name, &self.main_pid()]);
    }

    /// As root, from outside the machine.
    pub fn connect(&self) -> Client {
        Client::connect(&self.path(SOCKET))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() && self.init != 0 {
            println!("{}", self.journal());
        }
        drop(self.boot.stdin.take());
        let _ = self.boot.wait();
    }
}
