//! What holds for every command, whatever it does: help with examples, `--json`, colour on a terminal alone, errors of
//! one line and a hint, exit codes. New commands are found in the help and have to keep it, too.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use support::{TestJail, Value, bin_dir, json};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn program() -> String {
    bin_dir(false).join("stockade").to_str().unwrap().to_owned()
}

fn run(arguments: &[&str]) -> Ran {
    let output = Command::new(program()).args(arguments).stdin(Stdio::null()).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// The same with a terminal for its output; both streams as one text.
fn run_on_a_terminal(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let output = Command::new("script")
        .args(["-qec", &format!("{} {}", program(), quoted.join(" ")), "/dev/null"])
        .stdin(Stdio::null())
        .env_clear()
        .envs([("TERM", "xterm"), ("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/sh")])
        .envs(variables.iter().copied())
        .output()
        .expect("script(1) of util-linux gives a terminal");
    String::from_utf8(output.stdout).unwrap()
}

/// Names in the lists of commands of a help text, with those below them: indented lines, up to the options.
fn commands(above: &[&str]) -> Vec<Vec<String>> {
    let help = run(&[above, &["--help"]].concat()).out;
    let is_list = help.contains("Usage: stockade <COMMAND>") || help.contains("\nCommands:\n");
    if !is_list {
        return vec![above.iter().map(|word| word.to_string()).collect()];
    }
    let list = help.split("\nOptions:\n").next().unwrap();
    let lines = list.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = lines.map(|line| line.split_whitespace().next().unwrap());
    names.flat_map(|name| commands(&[above, &[name]].concat())).collect()
}

/// All but those that serve: `serve` is another program by then, and the terms of `mcp` are its host's.
fn all() -> Vec<Vec<String>> {
    let all: Vec<_> =
        commands(&[]).into_iter().filter(|command| !["serve", "mcp"].contains(&command[0].as_str())).collect();
    assert!(all.len() >= 20, "{all:?}");
    all
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

fn jail() -> TestJail {
    let jail = TestJail::new();
    jail.write("notes.md", "# notes\n");
    jail.write("src/main.rs", "fn main() {}\n");
    let policy = format!("[[root]]\npath = \"{}\"\n", jail.root.display());
    fs::write(jail.dir.path().join("p.toml"), policy).unwrap();
    fs::set_permissions(jail.dir.path().join("p.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let record = json!({"time_ms": 1, "event": "outcome", "reported_outcome": "changed", "reported_path": "/a",
        "reported_function": "coder::mkdir", "connection": 1, "uid": 1, "gid": 1, "pid": 1});
    fs::write(jail.dir.path().join("audit.jsonl"), format!("{record}\n")).unwrap();
    jail
}

/// Arguments that succeed, for every command there is.
fn good(jail: &TestJail, command: &[String]) -> Vec<String> {
    let policy = jail.dir.path().join("p.toml").to_str().unwrap().to_owned();
    let audit = jail.dir.path().join("audit.jsonl").to_str().unwrap().to_owned();
    let (socket, root) = (jail.socket.to_str().unwrap(), jail.root.to_str().unwrap());
    let rest: Vec<&str> = match words(command)[..] {
        ["read"] | ["stat"] => vec!["notes.md", "--socket", socket],
        ["ls"] | ["tree"] | ["info"] | ["restore"] => vec!["--socket", socket],
        ["create"] => vec!["notes.md", "--force", "--content", "# notes\n", "--socket", socket],
        ["edit"] => vec!["notes.md", "--append", "more", "--dry-run", "--socket", socket],
        ["rm"] => vec!["gone.md", "--trash", "--socket", socket],
        ["mv"] => vec!["notes.md", "notes.md", "--socket", socket],
        ["cp"] => vec!["notes.md", "copy.md", "--force", "--socket", socket],
        ["mkdir"] => vec!["made", "--socket", socket],
        ["brief"] | ["man"] | ["policy", "default"] => vec![],
        ["completions"] => vec!["bash"],
        ["search"] => vec!["notes", "--socket", socket],
        ["find"] => vec!["*.md", "--socket", socket],
        ["call"] => vec!["coder::info", "--socket", socket],
        ["schema"] => vec!["coder::info"],
        ["check"] => vec!["--root", root],
        ["policy", "check"] => vec![&policy],
        ["policy", "explain"] => vec![&policy, "notes.md"],
        ["audit", _] => vec![&audit],
        _ => panic!("say here how {command:?} succeeds"),
    };
    command.iter().cloned().chain(rest.iter().map(|word| word.to_string())).collect()
}

#[test]
fn every_command_has_help_with_examples_that_fit_a_screen() {
    for command in all() {
        let ran = run(&[&words(&command)[..], &["--help"]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command:?}");
        assert!(ran.out.contains("Usage: stockade ") && ran.out.contains("Examples:\n  stockade "), "{}", ran.out);
        assert!(ran.out.contains("--json") && ran.out.contains("--color"), "{}", ran.out);
        assert!(ran.out.lines().count() < 70 && ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
    }
    for help in [&["--help"][..], &["help"], &["policy", "--help"], &["help", "edit"]] {
        let ran = run(help);
        assert!(ran.code == 0 && ran.out.contains("Examples:\n  stockade "), "{}", ran.out);
    }
    assert_eq!(run(&["help"]).out, run(&["--help"]).out);
    assert_eq!(run(&["help", "edit"]).out, run(&["edit", "--help"]).out);
    // One line for scripts, the build and the kernel for people.
    let short = format!("stockade {}\n", stockade::internals::VERSION);
    assert_eq!(run(&["-V"]).out, short);
    let long = run(&["--version"]).out;
    let build = long.strip_prefix(&short).unwrap_or_else(|| panic!("{long}"));
    assert!(build.contains("target ") && build.contains(", Landlock ABI ") && build.lines().count() == 1, "{long}");
}

/// What a script finds at the top of a command's JSON.
fn keys(command: &[String]) -> &'static [&'static str] {
    match words(command)[..] {
        ["read"] => &["path", "content", "size", "is_utf8", "etag"],
        ["stat"] | ["create"] | ["edit"] | ["rm"] | ["mv"] | ["cp"] | ["mkdir"] => &["results"],
        ["ls"] => &["path", "entries", "total", "has_more"],
        ["tree"] => &["path", "root"],
        ["search"] => &["content_matches", "truncated", "skipped"],
        ["find"] => &["files", "file_count", "truncated", "scope_path"],
        ["restore"] => &["entries"],
        ["info"] | ["call"] => &["roots", "confinement", "functions", "server"],
        ["schema"] => &["function_id", "description", "class", "request_schema", "response_schema"],
        ["check"] => &["holds", "attempts", "layers", "version"],
        ["policy", "check"] => &["valid", "roots", "warnings"],
        ["policy", "explain"] => &["path", "root"],
        ["policy", "default"] => &["policy"],
        ["brief"] => &["brief"],
        ["completions"] => &["script"],
        ["man"] => &["name", "text"],
        ["audit", "tail"] => &["time_ms", "event", "uid"],
        ["audit", "report"] => &["changed", "refused", "read", "connections"],
        _ => panic!("say here what the JSON of {command:?} holds"),
    }
}

#[test]
fn every_command_answers_in_json_on_one_line() {
    let jail = jail();
    for command in all() {
        let good = good(&jail, &command);
        let ran = run(&[&words(&good)[..], &["--json"]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command:?}");
        assert_eq!(ran.out.lines().count(), 1, "{command:?}: {}", ran.out);
        serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // Scripts rely on what stands in it.
        let reply: Value = serde_json::from_str(&ran.out).unwrap();
        for key in keys(&command) {
            assert!(!reply[key].is_null(), "{key} of {command:?}: {reply}");
        }
        // At a terminal it is the same line.
        let shown = run_on_a_terminal(&[&words(&good)[..], &["--json"]].concat(), &[]);
        assert_eq!(shown.lines().count(), 1, "{command:?}: {shown}");
    }
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let jail = jail();
    let mut painted = 0;
    for command in all() {
        let good = good(&jail, &command);
        let good = words(&good);
        let ran = run(&good);
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.err);
        assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'), "{command:?}: {}", ran.out);
        for (more, variables) in [(&["--color", "never"][..], &[][..]), (&[], &[("NO_COLOR", "1")]), (&["--json"], &[])]
        {
            let shown = run_on_a_terminal(&[&good[..], more].concat(), variables);
            assert!(!shown.contains('\x1b'), "{command:?} {more:?} {variables:?}: {shown}");
        }
        let always = run(&[&good[..], &["--color", "always"]].concat()).out;
        let shown = run_on_a_terminal(&good, &[]);
        // What came over the wire goes into a pipe as it came.
        let is_raw = ["call", "schema"].contains(&command[0].as_str());
        assert_eq!(always.contains('\x1b'), shown.contains('\x1b') && !is_raw, "{command:?}: {shown}");
        painted += usize::from(shown.contains('\x1b'));
    }
    assert!(painted >= 6, "only {painted} commands use colour at a terminal");
}

/// One line for a person, and what to try next.
#[track_caller]
fn assert_two_lines(ran: &Ran, code: i32) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    assert!(lines[0].starts_with("stockade: ") && lines[1].starts_with("hint: "), "{}", ran.err);
}

#[test]
fn wrong_arguments_are_one_line_and_a_hint_and_exit_with_two() {
    for command in all() {
        let wrong = [&words(&command)[..], &["--no-such-option"]].concat();
        assert_two_lines(&run(&wrong), 2);
        let ran = run(&[&wrong[..], &["--json"]].concat());
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1));
        assert!(error["message"].as_str().unwrap().contains("--no-such-option"), "{error}");
    }
    for (arguments, message, hint) in [
        (&["read"][..], "required arguments were not provided: <PATH>", "--help"),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'", "--help"),
        (&["policy", "chek"], "unrecognized subcommand 'chek'", "'check'"),
        (&["read", "--jsn", "x"], "unexpected argument '--jsn'", "'--json'"),
        (&["read", "--lines", "9:1", "x"], "line 1 comes before line 9", "--help"),
        (&["read", "--color", "purple", "x"], "[possible values: auto, always, never]", "--help"),
        (&["ls", "--socket", "/s", "--root", "."], "cannot be used with", "--help"),
        (&["info", "--timeout", "5x"], "`x` is not a unit", "--help"),
    ] {
        let ran = run(arguments);
        assert_two_lines(&ran, 2);
        assert!(ran.err.contains(message) && ran.err.lines().nth(1).unwrap().contains(hint), "{}", ran.err);
    }
    assert_two_lines(&run(&["mv", "only-one"]), 2);
    let nothing = run(&[]);
    assert!(nothing.code == 2 && nothing.err.contains("Usage: stockade <COMMAND>"), "{}", nothing.err);
}

#[test]
fn a_refusal_exits_with_one_and_has_its_code() {
    let jail = jail();
    let socket = jail.socket.to_str().unwrap();
    for (command, rest) in [
        (&["read"][..], &[][..]),
        (&["ls"], &[]),
        (&["tree"], &[]),
        (&["stat"], &[]),
        (&["edit"], &["--append", "x"]),
        (&["mv"], &["y"]),
        (&["cp"], &["y"]),
    ] {
        for (path, code) in [("no-such-name", "C211"), ("../x", "C215")] {
            let ran = run(&[command, &[path], rest, &["--socket", socket]].concat());
            assert_two_lines(&ran, 1);
            assert!(ran.err.starts_with(&format!("stockade: {code} {path}: ")), "{}", ran.err);
        }
    }
    for (arguments, code) in [
        (&["create", "notes.md", "--content", "x"][..], "C217"),
        (&["create", "../x", "--content", "x"], "C215"),
        (&["rm", "src"], "C216"),
        (&["rm", "../x"], "C215"),
        (&["mkdir", "notes.md"], "C217"),
        (&["mkdir", "../x"], "C215"),
        (&["cp", "src", "copy"], "C210"),
        (&["mv", "notes.md", "src/main.rs"], "C217"),
        (&["edit", "notes.md", "--replace", "no such text", "x"], "C210"),
        (&["edit", "notes.md", "--append", "x", "--if-match", "00"], "C219"),
        (&["edit", "notes.md", "--append", "x", "--base-dir", "/"], "C215"),
        (&["edit", "../notes.md", "--append", "x", "--base-dir", "src"], "C218"),
    ] {
        let ran = run(&[arguments, &["--socket", socket]].concat());
        assert_two_lines(&ran, 1);
        assert!(ran.err.starts_with(&format!("stockade: {code} ")), "{arguments:?}: {}", ran.err);
    }
    assert_eq!(fs::read_to_string(jail.root.join("notes.md")).unwrap(), "# notes\n");
}

#[test]
fn no_connection_exits_with_three_and_json_says_so_in_json() {
    let dir = TestJail::directory();
    let gone = dir.path().join("gone.sock");
    let gone = gone.to_str().unwrap();
    for arguments in [
        &["read", "x"][..],
        &["ls"],
        &["tree"],
        &["stat", "x"],
        &["info"],
        &["create", "x", "--content", ""],
        &["edit", "x", "--remove", "1"],
        &["rm", "x"],
        &["mv", "x", "y"],
        &["cp", "x", "y"],
        &["mkdir", "x"],
        &["restore"],
    ] {
        assert_two_lines(&run(&[arguments, &["--socket", gone]].concat()), 3);
        let ran = run(&[arguments, &["--json", "--socket", gone]].concat());
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, error["message"].as_str().unwrap().contains(gone)), (3, true), "{error}");
    }
    let ran = run(&["call", "coder::info", "--socket", gone]);
    assert_eq!(ran.code, 3);
    assert!(serde_json::from_str::<Value>(&ran.err).is_ok(), "{}", ran.err);
}

/// No kernel has it: the service refuses to start, and says what is missing.
#[test]
fn a_jail_that_cannot_be_enforced_exits_with_four() {
    let jail = jail();
    let policy = jail.dir.path().join("future.toml");
    let text = format!("min_landlock_abi = 16\n[[root]]\npath = \"{}\"\n", jail.root.display());
    fs::write(&policy, text).unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
    let policy = policy.to_str().unwrap();
    for arguments in [&["info"][..], &["check"], &["read", "notes.md"], &["call", "coder::info"]] {
        let ran = run(&[arguments, &["--policy", policy]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("the policy wants at least 16") && ran.err.lines().count() == 1, "{}", ran.err);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let jail = jail();
    jail.write("long", "line\n".repeat(200_000));
    let socket = format!("--socket {}", jail.socket.display());
    for command in [
        format!("read long --lines 1:100000 {socket}"),
        format!("search line long {socket}"),
        format!("find -l {socket}"),
        "man edit".into(),
        "schema".into(),
        "brief".into(),
        "completions bash".into(),
    ] {
        let script = format!("{} {command} | head -n 1; exit ${{PIPESTATUS[0]}}", program());
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), false), "{command}");
        assert_eq!(json!(String::from_utf8(output.stderr).unwrap()), "", "{command}");
    }
}

#[test]
fn a_change_is_made_to_its_end_although_nobody_listens() {
    let jail = jail();
    // More text than is kept before it is written, so that it is noticed in the middle; and one failure at the end.
    let script = format!(
        "names=$(seq -f {}-%g 400); {} mkdir $names ../x --socket {} 2>/dev/null | true; exit ${{PIPESTATUS[0]}}",
        "x".repeat(200),
        program(),
        jail.socket.display()
    );
    let status = Command::new("bash").args(["-c", &script]).status().unwrap();
    let made =
        fs::read_dir(&jail.root).unwrap().filter(|entry| entry.as_ref().unwrap().file_name().len() > 200).count();
    assert_eq!((made, status.code()), (400, Some(1)));
}

#[test]
fn nothing_found_exits_with_one_without_a_word() {
    let jail = jail();
    let socket = jail.socket.to_str().unwrap();
    for command in [&["search", "no such text"][..], &["search", "-q", "no such text"], &["find", "*.none"]] {
        let ran = run(&[command, &["--socket", socket]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{command:?}: {}", ran.err);
    }
    let ran = run(&["search", "-q", "notes", "--socket", socket]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}

/// Told alike wherever they are told.
#[test]
fn exit_codes_are_documented_where_people_look() {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(package.join("README.md")).unwrap_or_default();
    let (help, page, brief) = (run(&["help"]).out, run(&["man"]).out, run(&["brief"]).out);
    let codes = [
        (0, "done"),
        (1, "refused with a code, nothing found (search, find)"),
        (2, "wrong usage"),
        (3, "no connection"),
        (4, "the jail cannot be enforced"),
    ];
    for (code, means) in codes {
        assert!(help.contains(&format!("\n  {code}  {means}")), "{help}");
        assert!(page.contains(&format!("\\fB{code}\\fR\n{means}")), "{page}");
        assert!(brief.contains(&format!("{code} {means}")), "{brief}");
        // The tests may run where the sources are not.
        assert!(readme.is_empty() || readme.contains(&format!("| {code} | {means}")), "{readme}");
    }
}
