//! The command line end to end: against a running service, and with a private one that leaves nothing behind. Exit
//! codes and the shape of errors are a contract for scripts.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use support::{
    TestJail, Value, bin_dir, json,
    process::{Signal, eventually, is_alive, signal},
};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(bin_dir(false).join("stockade"));
    command.args(arguments).stdin(Stdio::null()).env_clear();
    command
}

fn run(arguments: &[&str]) -> Ran {
    command(arguments).output().unwrap().into()
}

/// The jail of every claim here: a file, a folder, a link out.
fn jail() -> TestJail {
    let jail = TestJail::new();
    jail.write("notes.md", "# notes\n- one\n- two\n");
    jail.write("src/main.rs", "fn main() {}\n");
    std::os::unix::fs::symlink("../outside", jail.root.join("link")).unwrap();
    jail
}

/// The same commands, by socket and by root.
fn both_ways(jail: &TestJail) -> [[String; 2]; 2] {
    [["--socket".into(), jail.socket.to_str().unwrap().into()], ["--root".into(), jail.root.to_str().unwrap().into()]]
}

fn at<'a>(place: &'a [String; 2], arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().chain(place.iter().map(String::as_str)).collect()
}

#[test]
fn content_comes_out_byte_for_byte() {
    let jail = jail();
    for place in both_ways(&jail) {
        let ran = run(&at(&place, &["read", "notes.md"]));
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "# notes\n- one\n- two\n", ""));
        let ran = run(&at(&place, &["read", "--lines", "2:3", "notes.md"]));
        assert_eq!((ran.code, ran.out.as_str()), (0, "- one\n- two\n"));
    }
}

#[test]
fn a_listing_has_one_name_per_line_when_nobody_watches() {
    let jail = jail();
    for place in both_ways(&jail) {
        let ran = run(&at(&place, &["ls"]));
        assert_eq!((ran.code, ran.out.as_str()), (0, "link\nnotes.md\nsrc\n"), "{}", ran.err);
        let ran = run(&at(&place, &["ls", "--json"]));
        let listing: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((listing["total"].as_u64(), ran.out.lines().count()), (Some(3), 1));
    }
}

#[test]
fn info_and_call_agree() {
    let jail = jail();
    for place in both_ways(&jail) {
        let shown = run(&at(&place, &["info"]));
        assert_eq!(shown.code, 0);
        assert!(shown.out.contains(jail.root.to_str().unwrap()), "{}", shown.out);
        let json = |arguments: &[&str]| -> Value {
            let ran = run(&at(&place, arguments));
            assert_eq!(ran.code, 0, "{}", ran.err);
            serde_json::from_str(&ran.out).unwrap()
        };
        assert_eq!(json(&["info", "--json"]), json(&["call", "coder::info"]));
        assert_eq!(json(&["call", "coder::read-file", r#"{"path":"src/main.rs"}"#])["content"], "fn main() {}\n");
    }
}

#[test]
fn a_request_may_come_from_a_file_or_from_standard_input() {
    let jail = jail();
    let place = &both_ways(&jail)[0];
    let file = jail.dir.path().join("request.json");
    fs::write(&file, "{\n  \"path\": \"src/main.rs\"\n}\n").unwrap();
    let from_file = run(&at(place, &["call", "coder::read-file", &format!("@{}", file.display())]));
    assert_eq!(from_file.code, 0, "{}", from_file.err);
    let mut child = command(&at(place, &["call", "coder::read-file", "-"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(Ran::from(child.wait_with_output().unwrap()).out, from_file.out);
}

#[test]
fn a_refusal_is_one_line_with_its_code_and_a_hint() {
    let jail = jail();
    for place in both_ways(&jail) {
        for (path, code, hint) in [
            ("missing", "C211", "stockade ls"),
            ("../outside/secret.txt", "C215", "stockade info"),
            ("link/secret.txt", "C215", "stockade info"),
        ] {
            let ran = run(&at(&place, &["read", path]));
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
            let lines: Vec<&str> = ran.err.lines().collect();
            assert_eq!(lines.len(), 2, "{}", ran.err);
            assert!(lines[0].starts_with(&format!("stockade: {code} {path}: ")), "{}", ran.err);
            assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{}", ran.err);
            support::canary::assert_no_secret(&ran.err);
        }
        // Raw calls have raw errors.
        let ran = run(&at(&place, &["call", "coder::read-file", r#"{"path":"missing"}"#]));
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, ran.out.as_str(), &error["code"]), (1, "", &json!("C211")));
    }
}

#[test]
fn wrong_usage_is_two() {
    let jail = jail();
    let [socket, root] = both_ways(&jail);
    for arguments in [
        &["read"][..],
        &["frobnicate"],
        &["call", "coder::no-such-function"],
        &["call", "coder::read-file", "{"],
        &["read", "--lines", "9:1", "notes.md"],
        &["schema", "coder::no-such-function"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(!ran.err.is_empty() && ran.out.is_empty());
    }
    let both: Vec<&str> = at(&socket, &["info"]).into_iter().chain(root.iter().map(String::as_str)).collect();
    assert_eq!(run(&both).code, 2);
    // The supervisor's own words for a root that is not there, and its exit code.
    let ran = run(&["info", "--root", "/nonexistent/root"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("/nonexistent/root") && ran.err.contains("does not exist"), "{}", ran.err);
}

#[test]
fn no_connection_is_three() {
    let jail = jail();
    let gone = jail.dir.path().join("gone.sock");
    let ran = run(&["info", "--socket", gone.to_str().unwrap()]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("gone.sock") && ran.err.contains("hint: "), "{}", ran.err);
    // A service that dies under the command.
    fs::File::create(jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
    let request = r#"{"path":"giant","stat":true,"count_lines":true}"#;
    let child = command(&at(&both_ways(&jail)[0], &["call", "coder::read-file", request]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(jail.daemon.pid(), Signal::KILL);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("unknown"), "the outcome is: {}", ran.err);
}

#[test]
fn the_socket_is_found_in_the_environment() {
    let jail = jail();
    let ran = Ran::from(command(&["read", "notes.md"]).env("STOCKADE_SOCKET", &jail.socket).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let folder = jail.socket.parent().unwrap();
    let ran = Ran::from(command(&["read", "notes.md"]).env("XDG_RUNTIME_DIR", folder).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_timeout_is_passed_on() {
    let jail = jail();
    fs::File::create(jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
    for place in both_ways(&jail) {
        let request = r#"{"path":"giant","stat":true,"count_lines":true}"#;
        let ran = run(&at(&place, &["call", "--timeout", "200ms", "coder::read-file", request]));
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("C220"), "{}", ran.err);
    }
}

/// Every process whose command line names our directory.
fn processes_about(dir: &Path) -> Vec<u32> {
    let needle = dir.to_str().unwrap().as_bytes().to_vec();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_str().unwrap_or("").parse::<u32>() else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if pid != std::process::id() && line.windows(needle.len()).any(|window| window == needle) {
            found.push(pid);
        }
    }
    found
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_private_service_leaves_nothing_behind() {
    let dir = TestJail::directory();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.txt"), "a\n").unwrap();
    let root_text = root.to_str().unwrap();
    let ran = run(&["read", "a.txt", "--root", root_text]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\n"), "{}", ran.err);
    assert_eq!(processes_about(dir.path()), Vec::<u32>::new());
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing was added to the root");

    // Not even when the command is killed in the middle of a call.
    fs::File::create(root.join("giant")).unwrap().set_len(1 << 43).unwrap();
    let request = r#"{"path":"giant","stat":true,"count_lines":true}"#;
    let mut child = command(&["call", "coder::read-file", request, "--root", root_text])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut all = Vec::new();
    eventually("supervisor and worker run", || {
        let supervisors = children(child.id());
        all = supervisors.iter().flat_map(|pid| children(*pid)).chain(supervisors.iter().copied()).collect();
        all.len() >= 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in all {
        eventually("it is gone", || !is_alive(pid));
    }
}

#[test]
fn check_tries_to_escape_and_says_what_stopped_it() {
    let ran = run(&["check"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for text in ["kernel confinement", "Layers", "reading outside the roots", "openat2, landlock", "Attempts"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert!(!ran.out.contains('?') && ran.out.contains("The jail holds"), "{}", ran.out);
    let report = run(&["check", "--json"]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    let attempts = report["attempts"].as_array().unwrap();
    assert!(report["holds"] == true && attempts.len() > 20, "{report}");
    assert!(attempts.iter().all(|attempt| attempt["held"] == true), "{report}");
    assert!(ran.out.contains(&format!("{0} of {0} attempts", attempts.len())), "{}", ran.out);
}

/// Each profile has a jail of its own, and only one of these has a root that must not be written.
#[test]
fn check_tries_every_profile() {
    let dir = TestJail::directory();
    let (open, shut) = (dir.path().join("open"), dir.path().join("shut"));
    fs::create_dir(&open).unwrap();
    fs::create_dir(&shut).unwrap();
    let check = |peers: &str| {
        let policy = dir.path().join("policy.toml");
        let roots = format!("[[root]]\npath = {open:?}\nmode = \"rw\"\n[[root]]\npath = {shut:?}\nmode = \"ro\"\n");
        fs::write(&policy, roots + peers).unwrap();
        let ran = run(&["check", "--policy", policy.to_str().unwrap(), "--json"]);
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
        assert_eq!((ran.code, &report["holds"]), (0, &json!(true)), "{report}");
        (report["profiles"].clone(), report["attempts"].as_array().unwrap().len())
    };
    let writer = format!("[[peer]]\nuid = 1\nroots = [{open:?}]\n");
    let reader = format!("[[peer]]\nuid = 2\nroots = [{shut:?}]\n");
    let (one, attempts) = check(&writer);
    let (two, more) = check(&(writer + &reader));
    assert!(one.as_u64() < two.as_u64(), "{one} and {two}");
    assert!(attempts < more, "truncating what is read only is tried by one of them: {attempts} and {more}");
}

#[test]
fn the_schema_needs_no_service() {
    let all: Value = serde_json::from_str(&run(&["schema"]).out).unwrap();
    let names: Vec<&str> = all.as_array().unwrap().iter().map(|one| one["function_id"].as_str().unwrap()).collect();
    let jail = jail();
    let info = jail.call("coder::info", json!({})).unwrap();
    assert_eq!(json!(names), info["functions"], "what is documented is what is offered");
    let ran = run(&["schema", "coder::read-file"]);
    let one: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &one["request_schema"]["type"]), (0, &json!("object")), "{one}");
}

#[test]
fn serve_becomes_the_supervisor() {
    let dir = TestJail::directory();
    fs::create_dir(dir.path().join("root")).unwrap();
    let socket = dir.path().join("run/s");
    let mut child = command(&["serve", "--root"])
        .arg(dir.path().join("root"))
        .arg("--socket")
        .arg(&socket)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it serves", || run(&["info", "--socket", socket.to_str().unwrap()]).code == 0);
    let name = fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    assert_eq!(name.trim(), "stockaded", "the same process, another program");
    signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    command(arguments).current_dir(folder).output().unwrap().into()
}

#[test]
fn paths_begin_at_the_folder_of_the_shell_if_a_root_holds_it() {
    let jail = jail();
    let src = jail.root.join("src");
    jail.write("src/deep/x.rs", "fn deep() {}\n");
    jail.write("docs/x.rs", "fn main() {}\n");
    for place in both_ways(&jail) {
        let at = |arguments: &[&'static str]| run_in(&src, &at(&place, arguments));
        assert_eq!(at(&["read", "main.rs"]).out, "fn main() {}\n");
        assert_eq!(at(&["cat", "../notes.md"]).out, "# notes\n- one\n- two\n");
        assert_eq!(at(&["ls"]).out, "deep\nmain.rs\n");
        assert_eq!(at(&["find"]).out, "deep/\ndeep/x.rs\nmain.rs\n");
        assert_eq!(at(&["find", "*.rs", "../docs"]).out, "../docs/x.rs\ndeep/x.rs\nmain.rs\n");
        assert_eq!(at(&["grep", "fn"]).out, "deep/x.rs:1:fn deep() {}\nmain.rs:1:fn main() {}\n");
        assert_eq!(
            at(&["search", "main", "main.rs", "../docs"]).out,
            "../docs/x.rs:1:fn main() {}\nmain.rs:1:fn main() {}\n"
        );
        let ran = at(&["read", "missing"]);
        assert!(ran.code == 1 && ran.err.starts_with("stockade: C211 missing: "), "{}", ran.err);
        let ran = at(&["write", "new.txt", "--content", "x", "--force"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "wrote new.txt, 1 byte\n"), "{}", ran.err);
        assert_eq!(fs::read_to_string(src.join("new.txt")).unwrap(), "x");
        assert_eq!(at(&["mv", "new.txt", "../moved.txt", "--force"]).code, 0);
        assert_eq!(at(&["cp", "-r", "deep", "copy"]).code, 0);
        assert_eq!(at(&["rm", "-r", "../moved.txt", "copy"]).code, 0);
        assert!(!jail.root.join("moved.txt").exists() && !src.join("copy").exists());
        assert_eq!(at(&["edit", "main.rs", "--append", "// end", "--base-dir", ".", "--dry-run"]).code, 0);
    }
    // From anywhere else they begin at the primary root.
    assert_eq!(run_in(jail.dir.path(), &at(&both_ways(&jail)[0], &["read", "src/main.rs"])).out, "fn main() {}\n");
}

#[test]
fn links_denied_names_and_the_trash_are_options_beside_a_root() {
    let jail = jail();
    let root = jail.root.to_str().unwrap();
    std::os::unix::fs::symlink("src", jail.root.join("way")).unwrap();
    assert_eq!(run(&["read", "way/main.rs", "--root", root]).code, 1);
    let ran = run(&["read", "way/main.rs", "--root", root, "--symlinks", "beneath"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "fn main() {}\n"), "{}", ran.err);
    let ran = run(&["read", "notes.md", "--root", root, "--deny", "**/notes.md"]);
    assert!(ran.code == 1 && ran.err.starts_with("stockade: C211 notes.md: "), "{}", ran.err);
    for option in [&["--deny", "x"][..], &["--symlinks", "beneath"]] {
        assert_eq!(run(&[&["ls"], option].concat()).code, 2, "{option:?}");
    }
    let mut child =
        command(&["mcp", "--root", root, "--trash"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let delete =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delete","arguments":{"path":"notes.md"}}}"#;
    let host = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    child.stdin.take().unwrap().write_all(format!("{host}\n{delete}\n").as_bytes()).unwrap();
    let replies = Ran::from(child.wait_with_output().unwrap());
    assert!(!jail.root.join("notes.md").exists(), "{}", replies.out);
    let ran = run(&["restore", "--root", root]);
    assert!(ran.out.ends_with("notes.md\n"), "{}{}", ran.out, ran.err);
}
