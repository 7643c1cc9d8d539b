//! The audit of commands with a supervisor of their own: one file of the user, shared and rotated.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{
    TestJail, Value,
    support::{
        audit::records,
        bin_dir, json,
        peer::NOBODY,
        process::{self, eventually},
    },
};

const LIMIT_BYTES: u64 = 10 << 20;

/// A root, a home, and commands that know no other.
struct Ground {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let dir = TestJail::directory();
        let root = dir.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::write(root.join("file"), "content\n").unwrap();
        Self { root, dir }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(bin_dir(false).join("stockade"));
        command.env_clear().env("HOME", self.home()).args(arguments).stdin(Stdio::null());
        command
    }

    /// With the root behind.
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).arg("--root").arg(&self.root).output().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("home")
    }

    fn file(&self) -> PathBuf {
        self.home().join(".local/state/stockade/audit.jsonl")
    }

    fn audit_of_info(&self, command: &mut Command) -> Value {
        let output = command.args(["call", "coder::info", "--root"]).arg(&self.root).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["audit"].clone()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn told(path: &Path) -> Vec<Value> {
    records(&fs::read_to_string(path).unwrap())
}

fn events(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["event"].as_str().unwrap()).collect()
}

#[test]
fn a_command_with_a_root_writes_to_the_file_of_its_user() {
    let ground = Ground::new();
    assert!(ground.run(&["read", "file"]).status.success());
    assert!(ground.run(&["create", "new", "--content", "x"]).status.success());
    let records = told(&ground.file());
    let expected = ["accepted", "decided", "ended", "accepted", "decided", "outcome", "ended"];
    assert_eq!(events(&records), expected, "the command does not end before its records are written");
    assert_eq!((&records[1]["path"], &records[1]["decision"]), (&json!("file"), &json!("granted")));
    assert_eq!(records[5]["reported_path"], ground.root.join("new").to_str().unwrap());
    let folder = ground.file().parent().unwrap().to_owned();
    assert_eq!((mode(&folder), mode(&ground.file())), (0o700, 0o600));
    let state = ground.dir.path().join("elsewhere");
    let mut elsewhere = ground.command(&["read", "file", "--root"]);
    assert!(elsewhere.arg(&ground.root).env("XDG_STATE_HOME", &state).output().unwrap().status.success());
    assert_eq!(told(&state.join("stockade/audit.jsonl")).len(), 3);
    assert_eq!(told(&ground.file()).len(), 7);
}

#[test]
fn a_named_file_gets_the_audit_and_off_gets_none() {
    let ground = Ground::new();
    let named = ground.dir.path().join("named.jsonl");
    assert!(ground.run(&["read", "file", "--audit", named.to_str().unwrap()]).status.success());
    assert_eq!(events(&told(&named)), ["accepted", "decided", "ended"]);
    assert!(ground.run(&["read", "file", "--audit", "off"]).status.success());
    assert!(!ground.file().exists());
    assert!(!ground.home().join(".local").exists(), "nothing is made for it either");
    // A file that was named and cannot be opened is an error, unlike the default one.
    let output = ground.run(&["read", "file", "--audit", "/dev/null/x"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/null/x"), "{output:?}");
    // Neither goes with a service that has its own.
    for more in [&["--socket", "/nowhere"][..], &["--policy", "/nowhere"]] {
        let output = ground.command(&[&["read", "file", "--audit", "off"], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn info_says_whether_there_is_an_audit() {
    let ground = Ground::new();
    assert_eq!(ground.audit_of_info(&mut ground.command(&[])), "on");
    assert_eq!(TestJail::new().call("coder::info", json!({})).unwrap()["audit"], "on");
    // No folder, none that can be made, one that others may write to, a link to a file.
    assert_eq!(ground.audit_of_info(ground.command(&[]).env_remove("HOME")), "off");
    assert_eq!(ground.audit_of_info(ground.command(&[]).env("XDG_STATE_HOME", "/dev/null")), "off");
    let open = ground.dir.path().join("open/stockade");
    fs::create_dir_all(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(ground.audit_of_info(ground.command(&[]).env("XDG_STATE_HOME", open.parent().unwrap())), "off");
    assert!(fs::read_dir(&open).unwrap().next().is_none());
    symlink("root/file", ground.dir.path().join("to-a-file")).unwrap();
    let link = ground.dir.path().join("to-a-file");
    assert_eq!(ground.audit_of_info(ground.command(&[]).env("XDG_STATE_HOME", link)), "off");
    // To a person it also says where.
    let shown = String::from_utf8(ground.run(&["info"]).stdout).unwrap();
    assert!(shown.contains(&format!("Audit\n  on  {}", ground.file().display())), "{shown}");
    let shown = String::from_utf8(ground.run(&["info", "--audit", "off"]).stdout).unwrap();
    assert!(shown.contains("Audit\n  off\n"), "{shown}");
}

#[test]
fn a_folder_that_is_read_only_leaves_the_command_running() {
    if process::is_root() {
        // Nobody refuses root a write.
        return;
    }
    let ground = Ground::new();
    fs::set_permissions(ground.home(), fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(ground.audit_of_info(&mut ground.command(&[])), "off");
    assert!(ground.run(&["read", "file"]).status.success());
}

/// Root makes and opens the file only where nobody else can change a name; elsewhere the identity does, or nobody.
#[test]
fn root_writes_by_no_name_that_another_user_can_change() {
    use std::os::unix::fs::{MetadataExt, chown};
    const THIRD: u32 = 12345;
    if !process::runs_as_root("root_writes_by_no_name_that_another_user_can_change") {
        return;
    }
    let ground = Ground::new();
    chown(&ground.root, Some(NOBODY), Some(NOBODY)).unwrap();
    for (owner, writer) in [(0, Some(0)), (NOBODY, Some(NOBODY)), (THIRD, None)] {
        let state = ground.dir.path().join(format!("state-{owner}"));
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&state, Some(owner), Some(owner)).unwrap();
        let mut command = ground.command(&["read", "file", "--root"]);
        let output = command.arg(&ground.root).env("XDG_STATE_HOME", &state).output().unwrap();
        // The service of another user does not serve root, and says so in its audit.
        assert!(String::from_utf8_lossy(&output.stderr).contains("C211"), "{output:?}");
        let file = state.join("stockade/audit.jsonl");
        let made = fs::metadata(&file).ok().map(|made| made.uid());
        assert_eq!(made, writer, "in a folder of {owner}");
        if writer.is_some() {
            assert_eq!(events(&told(&file)), ["refused"]);
            assert_eq!((mode(file.parent().unwrap()), mode(&file)), (0o700, 0o600));
        } else {
            assert!(fs::read_dir(&state).unwrap().next().is_none(), "nothing is made there");
        }
    }
    // A link of the third user in a folder of root's.
    let state = ground.dir.path().join("linked");
    fs::create_dir(&state).unwrap();
    symlink(ground.dir.path().join(format!("state-{THIRD}")), state.join("stockade")).unwrap();
    let mut command = ground.command(&["read", "file", "--root"]);
    command.arg(&ground.root).env("XDG_STATE_HOME", &state).output().unwrap();
    assert!(fs::read_dir(ground.dir.path().join(format!("state-{THIRD}"))).unwrap().next().is_none());
}

#[test]
fn inside_a_root_the_file_and_its_old_ones_are_denied_names() {
    let ground = Ground::new();
    let home = ground.home();
    let run = |arguments: &[&str]| {
        let output = ground.command(arguments).arg("--root").arg(&home).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["ls"]).0, Some(0));
    let folder = ".local/state/stockade";
    for number in 1..=4 {
        fs::write(home.join(format!("{folder}/audit.jsonl.{number}")), "{}\n").unwrap();
    }
    // Also the next of them, which the service never makes: `stockade audit` would take what a client writes there for records.
    fs::write(home.join(format!("{folder}/audit.jsonl.5")), "{}\n").unwrap();
    for name in ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.4", "audit.jsonl.5"] {
        let path = format!("{folder}/{name}");
        for arguments in [
            &["read", &path][..],
            &["read", &path, "--audit", "off"],
            &["rm", &path, "--audit", "off"],
            &["rm", &path],
            &["create", &path, "--content", "x", "--force"],
            &["mv", &path, "away"],
            &["cp", &path, "away"],
        ] {
            let (code, said) = run(arguments);
            assert!(code == Some(1) && said.contains("C211"), "{arguments:?}: {said}");
        }
    }
    let (code, said) = run(&["rm", "-r", ".local"]);
    assert!(code == Some(1) && said.contains("C211"), "{said}");
    assert!(home.join(folder).join("audit.jsonl.4").exists());
    // Served by itself, the folder shows nothing of it either.
    let output = ground.command(&["read", "audit.jsonl", "--root"]).arg(home.join(folder)).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("C211"), "{output:?}");
}

#[test]
fn old_files_of_a_named_audit_cannot_be_made_by_a_client() {
    let ground = Ground::new();
    let named = ground.root.join("named.jsonl");
    for old in ["named.jsonl.1", "named.jsonl.99"] {
        let output = ground.run(&["create", old, "--content", "{}", "--audit", named.to_str().unwrap()]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("C211"), "{output:?}");
        assert!(!ground.root.join(old).exists());
    }
}

/// Many commands at once, while the file passes its limit again and again: each record is in one of the files.
#[test]
fn commands_that_rotate_at_the_same_time_lose_no_record() {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 4;
    let ground = Ground::new();
    assert!(ground.run(&["read", "file"]).status.success());
    let folder = ground.file().parent().unwrap().to_owned();
    let fill = || {
        let file = fs::OpenOptions::new().append(true).open(ground.file()).unwrap();
        let missing = LIMIT_BYTES.saturating_sub(file.metadata().unwrap().len());
        // Lines that are no records, as another program might leave them.
        let line = format!("{{\"filler\":\"{}\"}}\n", "x".repeat(1000));
        let filler = line.repeat(missing as usize / line.len() + 1);
        std::io::Write::write_all(&mut &file, filler.as_bytes()).unwrap();
    };
    let mut commands = 1;
    for _ in 0..ROUNDS - 1 {
        fill();
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    for _ in 0..3 {
                        assert!(ground.run(&["read", "file"]).status.success());
                    }
                });
            }
        });
        commands += WRITERS * 3;
    }
    let all: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(all.len(), ROUNDS, "{all:?}");
    let records: Vec<Value> = all.iter().flat_map(|path| told(path)).collect();
    assert_eq!(records.len(), 3 * commands, "three for each command");
    assert!(all.iter().all(|path| mode(path) == 0o600));
}

#[test]
fn an_mcp_server_records_while_it_runs() {
    let ground = Ground::new();
    let mut command = ground.command(&["mcp", "--root"]);
    let mut server = command.arg(&ground.root).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let host = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": host});
    let create = json!({"name": "create", "arguments": {"path": "made", "content": "x"}});
    for request in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": create}),
    ] {
        std::io::Write::write_all(&mut stdin, format!("{request}\n").as_bytes()).unwrap();
    }
    eventually("the change is told", || {
        ground.file().exists() && told(&ground.file()).iter().any(|record| record["event"] == "outcome")
    });
    drop(stdin);
    assert!(server.wait().unwrap().success());
    assert_eq!(told(&ground.file()).last().unwrap()["event"], "ended");
}

#[test]
fn tail_follows_the_file_of_the_user_across_a_rotation() {
    let ground = Ground::new();
    assert!(ground.run(&["read", "file"]).status.success());
    let seen = ground.dir.path().join("seen");
    let mut tail = ground.command(&["audit", "tail", "--follow"]);
    let mut tail = tail.stdout(fs::File::create(&seen).unwrap()).spawn().unwrap();
    let lines = |count: usize| {
        eventually("it is shown", || fs::read_to_string(&seen).unwrap().lines().count() == count);
    };
    lines(1);
    fs::rename(ground.file(), ground.file().with_extension("jsonl.1")).unwrap();
    assert!(ground.run(&["create", "new", "--content", "x"]).status.success());
    lines(2);
    tail.kill().unwrap();
    tail.wait().unwrap();
    let text = fs::read_to_string(&seen).unwrap();
    assert!(text.lines().next().unwrap().ends_with(&format!("read-file    {}/file", ground.root.display())));
    assert!(text.lines().nth(1).unwrap().contains("  changed "), "{text}");
    let report = ground.command(&["audit", "report", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!((&report["connections"], report["changed"].as_array().unwrap().len()), (&json!(2), 1));
}

#[test]
fn report_finds_the_file_that_a_policy_names() {
    let ground = Ground::new();
    let (policy, audit) = (ground.dir.path().join("policy.toml"), ground.dir.path().join("named.jsonl"));
    let text = |path: &str| format!("[[root]]\npath = {:?}\n[audit]\npath = {path:?}\n", ground.root);
    fs::write(&policy, text(audit.to_str().unwrap())).unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
    let named = policy.to_str().unwrap();
    assert!(ground.command(&["read", "file", "--policy", named]).output().unwrap().status.success());
    let output = ground.command(&["audit", "report", "--policy", named]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.starts_with(audit.to_str().unwrap()) && shown.contains("1 read; by 1 connection of uid "), "{shown}");
    fs::write(&policy, text("stderr")).unwrap();
    let output = ground.command(&["audit", "report", "--policy", named]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard error"), "{output:?}");
    let output = ground.command(&["audit", "tail"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no audit yet"), "{output:?}");
}
