//! `stockade mcp install` and `--print-config`: what a host is told, and that its file is written whole, seen before, and never through
//! a link.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::host::{Host, Place, command};
use crate::support::{NO_STATE, Value, bin_dir, json};

/// Every host with a file of its own: its name, that file in the home folder or, for one that has only projects, in the project.
const FILES: [(&str, &str); 13] = [
    ("claude", ".claude.json"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("codex", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("copilot", ".copilot/mcp-config.json"),
    ("zed", ".config/zed/settings.json"),
    ("gemini", ".gemini/settings.json"),
    ("opencode", ".config/opencode/opencode.json"),
    ("goose", ".config/goose/config.yaml"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
    ("cline", ".cline/data/settings/cline_mcp_settings.json"),
    ("jetbrains", ".junie/mcp/mcp.json"),
];

/// `stockade mcp install` at a home of its own, which is also the current folder.
fn install(home: &Path, arguments: &[&str]) -> Output {
    Command::new(bin_dir(false).join("stockade"))
        .args(["mcp", "install"])
        .args(arguments)
        .args(["--root", "."])
        .current_dir(home)
        .env_clear()
        .envs([("HOME", home.as_os_str())])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn texts(ran: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&ran.stdout), text(&ran.stderr))
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_host_gets_a_new_file_where_it_looks_for_one() {
    for (host, file) in FILES {
        let home = home();
        let ran = install(home.path(), &[host, "--yes"]);
        let (out, err) = texts(&ran);
        assert!(ran.status.success(), "{host}: {err}");
        let path = home.path().join(file);
        let written = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{host}: {file}: {error}"));
        let printed = command(&["--root", ".", "--print-config", host]).current_dir(home.path()).output().unwrap();
        assert_eq!(written, texts(&printed).0, "{host}");
        assert!(written.contains(home.path().to_str().unwrap()), "the root is absolute: {written}");
        assert!(out.contains(&format!("wrote {}, a new file", path.display())), "{host}: {out}");
        assert!(err.contains("jailed") || host == "claude-desktop", "{host}: {err}");
        assert_eq!(files(path.parent().unwrap()).len(), 1, "{host}");
        let again = install(home.path(), &[host, "--yes"]);
        assert!(texts(&again).0.ends_with("has it already\n"), "{host}");
        assert_eq!(files(path.parent().unwrap()).len(), 1, "{host}: no backup of what did not change");
    }
}

#[test]
fn a_project_gets_its_own_file() {
    let home = home();
    for (host, file) in [
        ("claude", ".mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("continue", ".continue/mcpServers/stockade.yaml"),
    ] {
        let ran = install(home.path(), &[host, "--project", "--yes"]);
        assert!(ran.status.success(), "{host}: {ran:?}");
        assert!(home.path().join(file).is_file(), "{host}");
    }
    let none = install(home.path(), &["goose", "--project", "--yes"]);
    assert_eq!(none.status.code(), Some(2));
    let none = install(home.path(), &["json", "--yes"]);
    assert!(texts(&none).1.contains("name one with --file"), "{none:?}");
}

#[test]
fn what_is_in_the_file_stays_and_a_copy_of_it_is_kept() {
    let home = home();
    let file = home.path().join("settings.json");
    let before = "{\n  // mine\n  \"theme\": \"dark\",\n}\n";
    fs::write(&file, before).unwrap();
    let ran = install(home.path(), &["zed", "--file", "settings.json", "--yes"]);
    let (out, err) = texts(&ran);
    assert!(ran.status.success(), "{err}");
    let after = fs::read_to_string(&file).unwrap();
    assert!(
        after.ends_with("\n  // mine\n  \"theme\": \"dark\",\n}\n") && after.contains("\"context_servers\""),
        "{after}"
    );
    assert!(out.contains("\n+  \"context_servers\": {\n") && out.contains("\n   // mine\n"), "{out}");
    assert_eq!(fs::read_to_string(home.path().join("settings.json.before-stockade")).unwrap(), before);
}

#[test]
fn nothing_is_written_without_a_yes() {
    let home = home();
    let ran = install(home.path(), &["claude"]);
    let (out, err) = texts(&ran);
    assert_eq!(ran.status.code(), Some(2));
    assert!(out.contains("+  \"mcpServers\": {") && err.contains("--yes"), "{out}{err}");
    assert_eq!(files(home.path()), [""; 0]);
}

/// The same with a terminal, and an answer that is typed.
fn asked(home: &Path, answer: &str) -> (Option<i32>, String) {
    let program = bin_dir(false).join("stockade");
    let line = format!("{} mcp install claude --root . 2>&1", program.display());
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(home)
        .env_clear()
        .envs([("HOME", home.to_str().unwrap()), ("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/sh"), ("TERM", "dumb")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script(1) of util-linux gives a terminal");
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_person_at_a_terminal_is_asked() {
    let home = home();
    for answer in ["n\n", "\n", "perhaps\n"] {
        let (code, shown) = asked(home.path(), answer);
        assert!(
            code == Some(1) && shown.contains(".claude.json? [y/N]") && shown.contains("nothing was written"),
            "{shown}"
        );
        assert_eq!(files(home.path()), [""; 0]);
    }
    let (code, shown) = asked(home.path(), "y\n");
    assert!(code == Some(0) && shown.contains("a new file"), "{shown}");
    assert_eq!(files(home.path()), [".claude.json"]);
}

#[test]
fn links_lead_nowhere() {
    let home = home();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("mcp.json"), "{}\n").unwrap();
    symlink(outside.path(), home.path().join(".vscode")).unwrap();
    symlink(outside.path().join("mcp.json"), home.path().join(".mcp.json")).unwrap();
    for (arguments, name) in [
        (&["vscode", "--project", "--yes"][..], ".vscode"),
        (&["claude", "--project", "--yes"], ".mcp.json"),
        (&["json", "--file", ".mcp.json", "--yes"], ".mcp.json"),
    ] {
        let ran = install(home.path(), arguments);
        let (out, err) = texts(&ran);
        assert_eq!(ran.status.code(), Some(1), "{err}");
        assert!(err.contains(&format!("{name}: is a symbolic link; nothing was written")), "{err}");
        assert_eq!(out, "", "not even read");
    }
    assert_eq!(fs::read_to_string(outside.path().join("mcp.json")).unwrap(), "{}\n");
    assert_eq!(files(outside.path()), ["mcp.json"]);
}

#[test]
fn a_file_that_is_not_understood_stays_as_it_is() {
    let home = home();
    for (host, name, content, why) in [
        ("claude", "a.json", "{\"mcpServers\": ", "a.json: it is not JSON: "),
        ("claude", "b.json", "{\"mcpServers\": []}", "is not an object"),
        ("codex", "c.toml", "x = ", "it is not TOML"),
        ("goose", "d.yaml", "extensions: {a: 1}\n", "cannot be edited line by line"),
        ("claude", "e.json", "\u{0}", "it is not JSON"),
    ] {
        let path = home.path().join(name);
        fs::write(&path, content).unwrap();
        let ran = install(home.path(), &[host, "--file", name, "--yes"]);
        let err = texts(&ran).1;
        assert_eq!(ran.status.code(), Some(1), "{name}: {err}");
        let next = format!("nothing was written. `stockade mcp --print-config {host}` prints what to put in by hand");
        assert!(err.contains(why) && err.contains(&next), "{name}: {err}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    fs::write(home.path().join("f.json"), b"\xff").unwrap();
    let ran = install(home.path(), &["claude", "--file", "f.json", "--yes"]);
    assert!(texts(&ran).1.contains("is not UTF-8"), "{ran:?}");
    assert_eq!(files(home.path()).len(), 6, "neither backups nor temporary files");
}

#[test]
fn a_program_reads_one_line() {
    let home = home();
    let ran = install(home.path(), &["cursor", "--yes", "--json"]);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["changed"], true);
    assert_eq!(told["backup"], json!(null));
    assert!(told["diff"].as_str().unwrap().contains("+  \"mcpServers\": {"), "{told}");
    assert!(told["own_tools"].as_str().unwrap().contains("Shell(*)"), "{told}");
    let again: Value = serde_json::from_slice(&install(home.path(), &["cursor", "--yes", "--json"]).stdout).unwrap();
    assert_eq!((&again["changed"], &again["diff"]), (&json!(false), &json!("")));
    let printed = command(&["--root", "/", "--print-config", "cursor", "--json"]).output().unwrap();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert!(printed["block"].as_str().unwrap().contains("\"args\"") && printed["destination"].is_string(), "{printed}");
}

#[test]
fn an_installed_host_starts_this_very_server() {
    let place = Place::new();
    let home = home();
    let root = place.root.to_str().unwrap();
    let ran = Command::new(bin_dir(false).join("stockade"))
        .args(["mcp", "install", "claude", "--yes", "--root", root, "--tools", "info,read"])
        .env_clear()
        .envs([("HOME", home.path())])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let written: Value = serde_json::from_slice(&fs::read(home.path().join(".claude.json")).unwrap()).unwrap();
    let entry = &written["mcpServers"]["stockade"];
    let mut server = Command::new(entry["command"].as_str().unwrap());
    server.args(entry["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()));
    server.current_dir("/").envs([NO_STATE]);
    let mut host = Host::start(server).initialized();
    assert_eq!(host.tool_names(), ["info", "read"]);
    assert!(texts(&ran).1.contains("[\"mcp__stockade__info\", \"mcp__stockade__read\"]"), "{ran:?}");
}

#[test]
fn tools_and_hosts_that_do_not_exist_are_usage_errors() {
    let home = home();
    for arguments in [&["claude", "--tools", "raed"][..], &["cluade"], &[], &["claude", "--project", "--file", "x"]] {
        let ran = install(home.path(), arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(files(home.path()), [""; 0]);
}

#[test]
fn a_person_who_starts_the_server_by_hand_is_told_what_it_is() {
    let place = Place::new();
    let line =
        format!("{} mcp --root {} --audit off 2>&1", bin_dir(false).join("stockade").display(), place.root.display());
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Ctrl-D.
    child.stdin.take().unwrap().write_all(b"\x04").unwrap();
    let shown = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let told: Vec<&str> = shown.lines().filter(|line| line.contains("MCP server")).collect();
    assert!(told.len() == 1 && told[0].contains("stockade mcp install HOST"), "{shown}");
}
