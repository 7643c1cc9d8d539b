//! The shipped units, read: how exposed they leave the service, and whether their filter leaves it what it needs.

use std::{collections::BTreeSet, fs, process::Command};

use super::{machine::Machine, support::process};

const SERVICE: &str = include_str!("../../../systemd/stockade.service");
const USER_SERVICE: &str = include_str!("../../../systemd/user/stockade.service");
const WORKER_CALLS: &str = include_str!("../../../policy/seccomp/worker.toml");

/// On systemd's scale from 0 to 10.
const MOST_EXPOSED: f64 = 1.0;

/// What the program prints. `None` where it is not installed and need not be.
fn systemd_analyze(arguments: &[&str]) -> Option<String> {
    match Command::new("systemd-analyze").args(arguments).env("NO_COLOR", "1").output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            let required = std::env::var_os("STOCKADE_TEST_REQUIRE_ROOT").is_some();
            assert!(!required, "systemd-analyze: {error}; install the package systemd");
            process::skip("systemd-analyze is not installed");
            None
        }
    }
}

/// The overall exposure of a unit.
fn exposure(unit: &str) -> Option<f64> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stockade.service");
    fs::write(&file, unit).unwrap();
    let report = systemd_analyze(&["security", "--offline=yes", "--no-pager", file.to_str().unwrap()])?;
    let line = report.lines().find(|line| line.contains("Overall exposure level")).expect(&report);
    let level = line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    Some(level.parse().unwrap())
}

#[test]
fn the_unit_leaves_the_service_little_exposed() {
    let Some(level) = exposure(SERVICE) else { return };
    println!("{level} of 10");
    assert!(level <= MOST_EXPOSED, "{level}");
    let bare = exposure("[Service]\nExecStart=/bin/true\n").unwrap();
    assert!(bare > 9.0, "the scale has changed: {bare}");
}

/// The calls that a unit's SystemCallFilter lets through.
fn allowed(unit: &str) -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (names, removes) = line.strip_prefix('~').map_or((line, false), |rest| (rest, true));
        for call in names.split(' ').map(calls_of).collect::<Option<Vec<_>>>()?.concat() {
            if removes {
                allowed.remove(&call)
            } else {
                allowed.insert(call)
            };
        }
    }
    Some(allowed)
}

/// A call by its name, or all of a group, which may hold groups.
fn calls_of(name: &str) -> Option<Vec<String>> {
    if !name.starts_with('@') {
        return Some(vec![name.into()]);
    }
    let list = systemd_analyze(&["syscall-filter", name])?;
    let members = list.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    members.map(calls_of).collect::<Option<Vec<_>>>().map(|calls| calls.concat())
}

#[test]
fn what_a_worker_needs_passes_the_filter_of_the_unit() {
    let worker = WORKER_CALLS.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    // The last one before the worker has its own filter.
    let needed: BTreeSet<String> = worker.map(Into::into).chain(["setpriority".to_owned()]).collect();
    assert!(needed.len() > 30, "{needed:?}");
    for unit in [SERVICE, USER_SERVICE] {
        let Some(allowed) = allowed(unit) else { return };
        let missing: Vec<_> = needed.difference(&allowed).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for never in
            ["ptrace", "mount", "setresuid", "setresgid", "chown", "keyctl", "bpf", "io_uring_setup", "init_module"]
        {
            assert!(!allowed.contains(never), "{never}");
        }
    }
}

/// What the comments say of lines that are missing, or must not be.
#[test]
fn a_unit_that_takes_a_layer_away_is_told_which() {
    let Some(machine) = Machine::boot("a_unit_that_takes_a_layer_away_is_told_which") else { return };
    for (settings, text) in [
        ("RestrictSUIDSGID=yes", "openat2 is missing"),
        ("SystemCallFilter=\nSystemCallFilter=@system-service seccomp", "Landlock is missing"),
        (
            "SystemCallFilter=\nSystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule \
             landlock_restrict_self",
            "seccomp is missing",
        ),
    ] {
        machine.drop_in(settings);
        assert!(!machine.succeeds(&["systemctl", "start", "stockade.service"]), "{settings}");
        assert!(machine.journal().contains(text), "{settings}: {}", machine.journal());
        assert_eq!(machine.show("ExecMainStatus"), "4");
    }
    machine.drop_in("");
    machine.systemctl("start", "stockade.service");
}

/// The units of a user, under this user's own systemd.
#[test]
fn a_user_has_a_service_of_its_own() {
    let Some(machine) = Machine::boot("a_user_has_a_service_of_its_own") else { return };
    // As user@.service has it, without the log-in around it.
    machine.write(
        "/etc/systemd/system/ada.service",
        "[Service]\nType=notify\nUser=ada\nDelegate=yes\nRuntimeDirectory=user/1000\nRuntimeDirectoryMode=0700\n\
         Environment=XDG_RUNTIME_DIR=/run/user/1000\nExecStart=/lib/systemd/systemd --user\n",
    );
    machine.write("/home/ada/.config/stockade/policy.toml", "[[root]]\npath = \"/home/ada/project\"\n");
    machine.write("/home/ada/project/note.txt", "a note\n");
    machine.systemctl("start", "ada.service");
    let as_ada = |command: &[&str]| {
        let ada = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
        let environment = ["env", "HOME=/home/ada", "XDG_RUNTIME_DIR=/run/user/1000"];
        machine.run(&[&ada[..], &environment, command].concat())
    };
    as_ada(&["systemctl", "--user", "start", "stockade.socket"]);
    assert_eq!(as_ada(&["stockade", "read", "note.txt"]), "a note\n");
    let pid = as_ada(&["systemctl", "--user", "show", "--value", "--property=MainPID", "stockade.service"]);
    let status = as_ada(&["systemctl", "--user", "show", "--value", "--property=StatusText", "stockade.service"]);
    assert_eq!(status, "serving, confinement: Kernel\n");
    // Its ExecStartPost= runs while it already serves, and a reload would be refused until then.
    let state = ["systemctl", "--user", "show", "--value", "--property=ActiveState", "stockade.service"];
    process::eventually("the start is over", || as_ada(&state) == "active\n");
    as_ada(&["systemctl", "--user", "reload", "stockade.service"]);
    process::eventually("it is reloaded", || machine.journal().contains("the policy was reloaded"));
    as_ada(&["systemctl", "--user", "restart", "stockade.service"]);
    assert_eq!(as_ada(&["stockade", "read", "note.txt"]), "a note\n");
    let next = as_ada(&["systemctl", "--user", "show", "--value", "--property=MainPID", "stockade.service"]);
    assert_ne!(pid, next);
    // Root is not this user.
    let root = ["stockade", "info", "--socket", "/run/user/1000/stockade.sock"];
    assert!(!machine.succeeds(&root));
}
