//! Commands that change files, end to end: what is on the disk afterwards, and what a person is told.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::PermissionsExt,
    },
    process::{Command, Stdio},
};

use support::{TestJail, Value, bin_dir};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn command(jail: &TestJail, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new(bin_dir(false).join("stockade"));
    command.args(arguments).arg("--socket").arg(&jail.socket).stdin(Stdio::null()).env_clear();
    command
}

fn run_bytes(jail: &TestJail, arguments: &[&OsStr], input: &[u8]) -> Ran {
    let mut child =
        command(jail, arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who refuses its arguments does not wait for its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn run(jail: &TestJail, arguments: &[&str]) -> Ran {
    run_bytes(jail, &arguments.iter().map(OsStr::new).collect::<Vec<_>>(), b"")
}

#[track_caller]
fn ok(jail: &TestJail, arguments: &[&str]) -> String {
    let ran = run(jail, arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}: {}", ran.out);
    ran.out
}

fn content(jail: &TestJail, name: impl AsRef<std::path::Path>) -> Vec<u8> {
    fs::read(jail.root.join(name)).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_quickstart_by_hand() {
    let jail = TestJail::new();
    let created = ok(&jail, &["create", "notes.md", "--content", "# notes\n- one\n- two\n"]);
    assert_eq!(created, "wrote notes.md, 20 bytes\n");
    let edit = ["edit", "notes.md", "--insert", "2", "draft", "--lines", "3:3", "- ONE"];
    let diff = ok(&jail, &[&edit[..], &["--dry-run"]].concat());
    assert_eq!(
        diff.lines().filter(|line| line.starts_with("+draft") || line.starts_with("-- two")).count(),
        2,
        "{diff}"
    );
    assert_eq!(content(&jail, "notes.md"), b"# notes\n- one\n- two\n", "a dry run writes nothing");
    assert_eq!(ok(&jail, &edit), "edited notes.md, 4 lines\n");
    assert_eq!(content(&jail, "notes.md"), b"# notes\ndraft\n- one\n- ONE\n");
}

#[test]
fn bytes_arrive_as_they_are_from_input_file_and_argument() {
    let jail = TestJail::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let ran = run_bytes(&jail, &["create", "bin/blob"].map(OsStr::new), &bytes);
    assert_eq!((ran.code, ran.out.as_str()), (0, "wrote bin/blob, 70000 bytes\n"), "{}", ran.err);
    assert_eq!(content(&jail, "bin/blob"), bytes);
    let own = jail.dir.path().join("own");
    fs::write(&own, &bytes[..300]).unwrap();
    ok(&jail, &["create", "bin/blob", "--force", "--from", own.to_str().unwrap(), "--mode", "0600"]);
    assert_eq!(content(&jail, "bin/blob"), &bytes[..300]);
    assert_eq!(fs::metadata(jail.root.join("bin/blob")).unwrap().permissions().mode() & 0o777, 0o600);
    ok(&jail, &["create", "a", "b", "--content", "- no newline"]);
    assert_eq!((content(&jail, "a"), content(&jail, "b")), (b"- no newline".to_vec(), b"- no newline".to_vec()));
    let ran = run_bytes(&jail, &["edit", "a", "--append", "-"].map(OsStr::new), "gr\u{fc}n\r\n".as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(content(&jail, "a"), "- no newline\ngr\u{fc}n\n".as_bytes(), "as the file's lines end");
    let ran = run_bytes(&jail, &["edit", "a", "--append", "-"].map(OsStr::new), b"\xff");
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn every_operation_does_what_its_name_says() {
    let jail = TestJail::new();
    jail.write("f", "1\r\n2\r\n3\r\n4\r\n5\r\n");
    let line = [
        "edit",
        "f",
        "--remove",
        "5",
        "--lines",
        "2:3",
        "two\nthree",
        "-i",
        "1",
        "zero",
        "-a",
        "end\n",
        "-p",
        "top",
        "-r",
        "two",
        "2wo",
        "-e",
        "(?m)^t(h)",
        "$1$$",
        "--expect",
        "1",
    ];
    assert_eq!(ok(&jail, &line), "edited f, 2 replacements, 7 lines\n");
    assert_eq!(content(&jail, "f"), b"top\r\nzero\r\n1\r\n2wo\r\nh$ree\r\n4\r\nend\r\n");
    let missing = run(&jail, &["edit", "f", "-e", "nowhere", "x"]);
    assert!(missing.code == 1 && missing.err.starts_with("stockade: C210 f: ops[0]: \"nowhere\" matched 0 times"));
    let ran = run(&jail, &["edit", "f", "-r", "e", "x"]);
    assert!(ran.code == 1 && ran.err.contains("matched 4 times") && ran.err.contains("--expect"), "{}", ran.err);
}

#[test]
fn names_that_are_not_utf8_work_everywhere() {
    let jail = TestJail::new();
    let name = |text: &[u8]| OsString::from_vec(text.to_vec());
    let [one, two, folder, inside] = [&b"caf\xe9"[..], b"caf\xe8", b"d\xff", b"d\xff/caf\xe8"].map(name);
    let words = |line: &[&OsStr], input: &[u8]| {
        let ran = run_bytes(&jail, line, input);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line:?}");
        ran.out
    };
    let word = OsStr::new;
    assert_eq!(words(&[word("create"), &one], b"a\n"), "wrote caf\\xe9, 2 bytes\n");
    assert_eq!(
        words(&[word("edit"), &one, word("-r"), word("a"), word("b")], b""),
        "edited caf\\xe9, 1 replacement, 1 line\n"
    );
    assert_eq!(words(&[word("cp"), &one, &two], b""), "copied caf\\xe9 to caf\\xe8, 2 bytes\n");
    assert_eq!(words(&[word("mkdir"), &folder], b""), "made d\\xff\n");
    assert_eq!(words(&[word("mv"), &two, &folder], b""), "moved caf\\xe8 to d\\xff/caf\\xe8\n");
    assert_eq!(content(&jail, &inside), b"b\n");
    let removed = words(&[word("rm"), word("--trash"), &inside], b"");
    let id = removed.trim_end().rsplit(' ').next().unwrap();
    assert!(words(&[word("restore"), word("--below"), &folder], b"").ends_with("d\\xff/caf\\xe8\n"));
    assert_eq!(words(&[word("restore"), word(id)], b""), "restored d\\xff/caf\\xe8\n");
    assert_eq!(content(&jail, &inside), b"b\n");
    assert_eq!(inside.as_bytes(), b"d\xff/caf\xe8");
}

#[test]
fn one_failure_hides_no_success_unless_all_or_none_was_asked_for() {
    let jail = TestJail::new();
    jail.write("a", "x\n");
    jail.write("b", "x\n");
    let edit = ["edit", "a", "missing", "b", "-r", "x", "y"];
    let ran = run(&jail, &[&edit[..], &["--atomic"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("stockade: C2")).count(), 3, "{}", ran.err);
    assert_eq!((content(&jail, "a"), content(&jail, "b")), (b"x\n".to_vec(), b"x\n".to_vec()));
    let ran = run(&jail, &edit);
    assert_eq!((ran.code, ran.out.as_str()), (1, "edited a, 1 replacement, 1 line\nedited b, 1 replacement, 1 line\n"));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("stockade: C211 missing: ") && lines[1].starts_with("hint: "),
        "{}",
        ran.err
    );
    let ran = run(&jail, &["rm", "--json", "a", "../x", "b"]);
    let reply = json(&ran.out);
    assert_eq!((ran.code, ran.err.as_str(), reply["results"][1]["error"]["code"].as_str()), (1, "", Some("C215")));
    assert!(!jail.root.join("a").exists() && !jail.root.join("b").exists());
}

#[test]
fn a_version_that_is_gone_stops_the_change() {
    let jail = TestJail::new();
    jail.write("a", "one\n");
    let stat = json(&ok(&jail, &["stat", "--etag", "--json", "a"]));
    let etag = stat["results"][0]["etag"].as_str().unwrap();
    ok(&jail, &["edit", "a", "--append", "two", "--if-match", etag]);
    for line in [
        &["edit", "a", "--append", "three"][..],
        &["create", "a", "--force", "--content", "x"],
        &["mv", "a", "b"],
        &["cp", "a", "b"],
        &["rm", "a"],
    ] {
        let ran = run(&jail, &[line, &["--if-match", etag]].concat());
        assert!(ran.code == 1 && ran.err.starts_with("stockade: C219 a: "), "{line:?}: {}", ran.err);
    }
    assert_eq!(content(&jail, "a"), b"one\ntwo");
    assert!(!jail.root.join("b").exists());
}

#[test]
fn folders_come_back_from_the_trash() {
    let jail = TestJail::new();
    jail.write("old/a", "x\n");
    assert_eq!(run(&jail, &["restore"]).err, "stockade: the trash is empty\n");
    let removed = ok(&jail, &["rm", "-r", "--trash", "old", "never"]);
    let lines: Vec<&str> = removed.lines().collect();
    assert_eq!(lines[1], "never was not there");
    let id = lines[0].strip_prefix("removed old, restore it with ").unwrap();
    assert!(!jail.root.join("old").exists());
    let listed = ok(&jail, &["restore"]);
    let short = listed.split(' ').next().unwrap();
    assert!(id.starts_with(short) && short.len() < id.len(), "{listed}");
    assert!(listed.ends_with("  d     2  old/\n"), "{listed}");
    jail.write("old", "in the way\n");
    let ran = run(&jail, &["restore", id]);
    assert!(ran.code == 1 && ran.err.contains("C217") && ran.err.contains("--force"), "{}", ran.err);
    fs::remove_file(jail.root.join("old")).unwrap();
    fs::create_dir(jail.root.join("elsewhere")).unwrap();
    assert!(run(&jail, &["restore", id, "--base-dir", "elsewhere"]).err.contains("C218"));
    assert_eq!(ok(&jail, &["restore", short]), "restored old\n");
    assert_eq!(content(&jail, "old/a"), b"x\n");
}

#[test]
fn what_is_shown_on_a_terminal_cannot_act_on_it() {
    let jail = TestJail::new();
    let evil = "a\u{1b}]0;x\u{7}";
    jail.write(evil, "plain\n");
    let line = ["edit", evil, "-r", "plain", "\u{1b}[2Jgone\u{9b}1m", "--diff", "--color", "always"];
    let out = ok(&jail, &line);
    let without_colour = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m"]
        .iter()
        .fold(out.clone(), |text, code| text.replace(code, ""));
    assert!(!without_colour.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
    assert!(out.contains("\x1b[32m+\\u001b[2Jgone\\u009b1m\x1b[0m"), "{out:?}");
    for line in [&["rm", evil][..], &["mkdir", evil], &["mv", evil, "b\u{7}"]] {
        let out = ok(&jail, line);
        assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
    }
    jail.assert_intact();
}

#[test]
fn every_command_can_be_tried_dry() {
    let jail = TestJail::new();
    jail.write("a", "x\n");
    jail.write("d/b", "y\n");
    let id = json(&ok(&jail, &["rm", "--trash", "d/b", "--json"]))["results"][0]["trash_id"].clone();
    jail.write("d/c", "z\n");
    for (arguments, said) in [
        (vec!["create", "n/x", "--content", "1"], "would write n/x, 1 byte\n".to_owned()),
        (vec!["rm", "-r", "d"], "would remove d with 1 entry\n".into()),
        (vec!["mv", "a", "n/a"], "would move a to n/a\n".into()),
        (vec!["cp", "a", "b"], "would copy a to b, 2 bytes\n".into()),
        (vec!["mkdir", "m/n"], "would make m/n\n".into()),
        (vec!["restore", id.as_str().unwrap()], "would restore d/b\n".into()),
    ] {
        for flag in ["--dry-run", "-n"] {
            assert_eq!(ok(&jail, &[&arguments[..], &[flag]].concat()), said, "{arguments:?}");
        }
    }
    let diff = ok(&jail, &["create", "a", "--content", "2", "--force", "-n"]);
    assert!(diff.starts_with("would write a, 1 byte\n") && diff.contains("-x\n+2\n"), "{diff}");
    let ran = run(&jail, &["rm", "a", "--dryrun"]);
    assert!(ran.code == 2 && ran.err.contains("--dry-run"), "{}", ran.err);
    assert_eq!((content(&jail, "a"), content(&jail, "d/c")), (b"x\n".to_vec(), b"z\n".to_vec()));
    assert!(!jail.root.join("n").exists() && !jail.root.join("m").exists() && !jail.root.join("d/b").exists());
}

/// `stockade` with a service of its own.
fn alone(root: &std::path::Path, arguments: &[&str]) -> Ran {
    let output = Command::new(bin_dir(false).join("stockade"))
        .args(arguments)
        .arg("--root")
        .arg(root)
        .stdin(Stdio::null())
        .env_clear()
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn protection_can_be_lifted_and_added_beside_root_alone() {
    let dir = TestJail::directory();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    let make = |name: &str, more: &[&str]| alone(&root, &[&["create", name, "--content", "x"], more].concat());
    let refused = make(".git/hooks/a", &[]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    for words in ["C221 .git/hooks/a: protected by **/.git", "except_globs", "--unprotect"] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    let as_json = make(".git/hooks/a", &["--json"]);
    assert!(as_json.code == 1 && as_json.out.contains("\"reason\":\"protected\""), "{} {}", as_json.out, as_json.err);
    assert_eq!(make(".git/hooks/a", &["--unprotect", "**/.git/hooks"]).code, 0);
    assert_eq!(make(".git/config", &["--unprotect", "**/.git/hooks"]).code, 1);
    assert_eq!(make(".git/config", &["--no-protect"]).code, 0);
    assert_eq!(make("ci/x", &["--protect", "CI"]).code, 1);
    assert_eq!(make(".husky/x", &["--no-protect", "--protect", "ci"]).code, 0);
    assert_eq!(make("ci/x", &["--no-protect", "--protect", "ci"]).code, 1);
    assert!(root.join(".git/hooks/a").exists() && root.join(".git/config").exists() && !root.join("ci").exists());
    let wrong = make("x", &["--protect", "[a"]);
    assert!(wrong.code == 2 && wrong.err.contains("[a"), "{}", wrong.err);
    let info = alone(&root, &["info", "--unprotect", "**/.git/hooks"]).out;
    assert!(info.contains("Protected (readable, not writable)\n") && info.contains("**/.mcp.json"), "{info}");
    assert!(info.contains("Protected, except\n  **/.git/hooks\n"), "{info}");
    let jail = TestJail::new();
    for option in [&["--protect", "x"][..], &["--unprotect", "x"], &["--no-protect"]] {
        let ran = run(&jail, &[&["info"], option].concat());
        assert_eq!(ran.code, 2, "{option:?} {}", ran.err);
        let policy = jail.dir.path().join("policy.toml");
        fs::write(&policy, format!("[[root]]\npath = {root:?}\n")).unwrap();
        let policy = policy.to_str().unwrap();
        for program in ["stockade", "stockaded"] {
            let mut command = Command::new(bin_dir(false).join(program));
            let first = if program == "stockade" { &["info"][..] } else { &["--check"][..] };
            let output = command.args(first).args(["--policy", policy]).args(option).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{program} {option:?}");
        }
    }
}

#[test]
fn a_check_asks_for_changes_of_protected_names() {
    let dir = TestJail::directory();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let attempt = |arguments: &[&str]| {
        let ran = alone(&root, &[&["check", "--json"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let report = json(&ran.out);
        let attempts = report["attempts"].as_array().unwrap().clone();
        (attempts.into_iter().find(|one| one["name"] == "change_protected_names"), report)
    };
    let (found, report) = attempt(&[]);
    let found = found.unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&found["held"], &found["got"]), (&Value::from(true), &"C221 protected".into()), "{found}");
    let (found, report) = attempt(&["--no-protect"]);
    assert!(found.is_none() && report["protected_names"] == "not attempted: the policy protects no names", "{report}");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "a dry run leaves nothing");
}
