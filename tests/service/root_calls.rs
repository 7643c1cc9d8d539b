//! Every path that a start uses with root's rights, as strace sees it, against a list that gives the reason for each.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixListener, UnixStream},
    },
    process::Command,
};

use regex::Regex;
use serde::Deserialize;

use super::names::Place;
use crate::support::{
    Daemon, bin_dir,
    peer::NOBODY,
    process::{self, eventually, runs_as_root},
};

#[derive(Deserialize)]
struct Calls {
    call: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    pattern: String,
    reason: String,
}

/// A start that was traced until it served: the calls that it made with root's rights over files.
fn traced(place: &Place, policy: &str, socket: &str) -> Vec<String> {
    let (log, trace) = (place.path("daemon.log"), place.path("trace"));
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "4096", "-o"]).arg(&trace);
    command.args(["-e", "trace=%file,bind,connect,setfsuid,setresuid,capset"]);
    command.arg(bin_dir(false).join("stockaded")).arg("--policy").arg(place.policy("policy.toml", policy));
    command.env("NOTIFY_SOCKET", place.path("notify"));
    command.arg("--socket").arg(place.path(socket)).stderr(fs::File::create(&log).unwrap());
    let mut strace = Daemon { child: command.spawn().expect("strace is installed") };
    eventually("it serves", || {
        let said = fs::read_to_string(&log).unwrap();
        assert!(strace.child.try_wait().unwrap().is_none(), "it did not start: {said}");
        said.contains("\"listening\"")
    });
    // strace itself takes no signals while it traces; it ends with its child.
    strace.workers().into_iter().for_each(|pid| process::signal(pid, process::Signal::TERM));
    strace.child.wait().unwrap();
    privileged(&fs::read_to_string(trace).unwrap(), place)
}

/// The same of a supervisor of one command, whose audit lies in the state folder of root.
fn traced_command(place: &Place) -> Vec<String> {
    let trace = place.path("trace");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "4096", "-o"]).arg(&trace);
    command.args(["-e", "trace=%file,bind,connect,setfsuid,setresuid,capset"]);
    command.arg(bin_dir(false).join("stockaded")).args(["--inetd", "--root"]).arg(place.path("home/project"));
    command.env("XDG_STATE_HOME", place.path("state")).stdin(OwnedFd::from(theirs));
    let mut strace = command.spawn().expect("strace is installed");
    drop(command);
    // It refuses root, which is not the owner of what it serves, and ends.
    let _ = (&ours).read_to_end(&mut Vec::new());
    strace.wait().unwrap();
    assert!(place.path("state/stockade/audit.jsonl").exists());
    privileged(&fs::read_to_string(trace).unwrap(), place)
}

/// Of the first process, up to the moment when it gives up root's rights for good.
fn privileged(trace: &str, place: &Place) -> Vec<String> {
    let first = trace.split_whitespace().next().unwrap();
    let result = Regex::new(r"\)\s+= .*$").unwrap();
    let descriptor = Regex::new(r"\b\d+<([^>]*)>").unwrap();
    let working_directory = Regex::new("AT_FDCWD<[^>]*>").unwrap();
    let (mut file_uid, mut overrides) = ("0".to_owned(), false);
    let mut calls = Vec::new();
    for line in trace.lines() {
        let (pid, call) = line.split_once(char::is_whitespace).unwrap();
        let call = call.trim_start();
        if pid != first {
            continue;
        }
        if let Some(uid) = call.strip_prefix("setfsuid(").and_then(|rest| rest.split(')').next()) {
            if uid != "-1" {
                (file_uid, overrides) = (uid.to_owned(), false);
            }
            continue;
        }
        if call.starts_with("setresuid(") {
            if !call.starts_with("setresuid(0,") {
                return calls;
            }
            continue;
        }
        if call.starts_with("capset(") {
            if call.contains("permitted=0,") {
                return calls;
            }
            overrides = true;
            continue;
        }
        // A descriptor alone, without a name.
        if call.contains("AT_EMPTY_PATH") || (file_uid != "0" && !overrides) {
            continue;
        }
        let call = result.replace(call, ")");
        let call = descriptor.replace_all(&call, "<$1>");
        let call = working_directory.replace_all(&call, "AT_FDCWD").into_owned();
        let call = call.replace(place.dir.path().to_str().unwrap(), "DIR");
        calls.push(call.replace(bin_dir(false).canonicalize().unwrap().to_str().unwrap(), "BIN"));
    }
    panic!("the start never gave up root's rights:\n{trace}");
}

#[test]
fn every_path_that_a_start_uses_with_roots_rights_is_on_the_list() {
    if !runs_as_root("every_path_that_a_start_uses_with_roots_rights_is_on_the_list") {
        return;
    }
    let place = Place::new();
    for name in ["home/project", "home/project/in"] {
        place.folder(name, NOBODY, 0o755);
    }
    place.folder("home/run", NOBODY, 0o700);
    for name in ["log", "roots", "zero", "checkout"] {
        place.folder(name, 0, 0o700);
    }
    place.give("checkout", 0, 0o755);
    let _manager = UnixDatagram::bind(place.path("notify")).unwrap();
    std::os::unix::fs::symlink("home", place.path("link")).unwrap();
    let policy = "[[root]]\npath = \"DIR/link/project\"\n[[root]]\npath = \"DIR/home/project/in\"\nallow_nested = true\n\
                  [audit]\npath = \"DIR/log/audit.jsonl\"\n\
                  # A glob that needs a regex.\n[deny]\nnon_accessible_globs = [\"**/[ab]*[cd]\"]\n";
    let uid_0 = "[[root]]\npath = \"DIR/checkout\"\n";
    let mut calls = BTreeSet::new();
    for (policy, socket, is_stale) in [
        (policy, "home/run/s", false),
        (policy, "home/run/s", true),
        (policy, "made/s", false),
        (policy, "roots/s", false),
        (policy, "roots/s", true),
        (uid_0, "zero/s", true),
    ] {
        let _ = fs::remove_file(place.path(socket));
        if is_stale {
            drop(UnixListener::bind(place.path(socket)).unwrap());
            place.give(socket, if socket.starts_with("home") { NOBODY } else { 0 }, 0o600);
        }
        calls.extend(traced(&place, policy, socket));
    }
    // The folder of the file is made by the first; the second finds a file that has to be rotated.
    calls.extend(traced_command(&place));
    let file = fs::OpenOptions::new().write(true).open(place.path("state/stockade/audit.jsonl")).unwrap();
    file.set_len(10 << 20).unwrap();
    calls.extend(traced_command(&place));
    assert!(place.path("state/stockade/audit.jsonl.1").exists());
    let list: Calls = toml::from_str(include_str!("root_calls.toml")).expect("well formed");
    let known: Vec<Regex> = list.call.iter().map(|entry| Regex::new(&entry.pattern).unwrap()).collect();
    let unknown: Vec<&String> =
        calls.iter().filter(|call| !known.iter().any(|pattern| pattern.is_match(call))).collect();
    assert!(unknown.is_empty(), "not in tests/service/root_calls.toml: {unknown:#?}");
    for (entry, pattern) in list.call.iter().zip(&known) {
        assert!(!entry.reason.is_empty(), "{} has no reason", entry.pattern);
        assert!(calls.iter().any(|call| pattern.is_match(call)), "no start does this any more: {}", entry.pattern);
    }
}
