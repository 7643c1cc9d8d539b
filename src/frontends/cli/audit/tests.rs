use std::fs;

use serde_json::json;

use super::{
    super::{
        args::{self, CliCommand},
        output::OutputStyle,
    },
    *,
};

/// Records as a service writes them: a session of uid 1000, one read of uid 7, lines that are none.
fn records() -> String {
    let about = |time_ms: u64, uid: u32, more: Value| {
        let mut record =
            json!({"time_ms": time_ms, "level": "kernel", "connection": 3, "uid": uid, "gid": uid, "pid": 42});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record.to_string()
    };
    let decided = |decision: &str, intent: &str, path: &str, function: &str| {
        json!({"event": "decided", "decision": decision, "intent": intent, "root": "/srv/p", "path": path,
            "reported_function": format!("coder::{function}")})
    };
    let outcome = |word: &str, function: &str, more: Value| {
        let mut outcome =
            json!({"event": "outcome", "reported_outcome": word, "reported_function": format!("coder::{function}")});
        outcome.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        outcome
    };
    let changed = json!({"reported_path": "/srv/p/a", "reported_bytes": 2048, "reported_etag_after": "00"});
    let moved = json!({"reported_path": "/srv/p/a", "reported_to": "/srv/p/sub/\u{1b}[2J"});
    let removed = json!({"reported_path": "/srv/p/sub", "reported_entries": 4});
    let refused = json!({"reported_path": "../x\n", "reported_code": "C215"});
    let raw =
        json!({"reported_path": "?", "reported_path_bytes": "/w==", "reported_code": "C211", "reported_denied": true});
    let start = 1_763_200_000_000;
    [
        about(start, 1000, json!({"event": "accepted"})),
        about(start + 1000, 1000, decided("granted", "read", "", "list-folder")),
        about(start + 2000, 1000, decided("granted", "create", "a", "create-file")),
        about(start + 2001, 1000, outcome("changed", "create-file", changed.clone())),
        about(start + 3000, 1000, outcome("changed", "update-file", changed)),
        about(start + 4000, 1000, outcome("dry-run", "move", moved.clone())),
        about(start + 5000, 1000, outcome("changed", "move", moved)),
        "{\"time_ms\":17".to_owned(),
        String::new(),
        "{\"timestamp\":\"a line of the log\"}".to_owned(),
        about(start + 6000, 1000, outcome("unchanged", "mkdir", json!({"reported_path": "/srv/p/sub"}))),
        about(start + 7000, 1000, outcome("refused", "create-file", refused)),
        about(start + 7500, 1000, outcome("refused", "update-file", raw)),
        about(start + 8000, 7, decided("granted", "read", "sub/b", "read-file")),
        about(start + 8500, 7, decided("granted", "look", "sub/c", "stat")),
        about(start + 8600, 7, decided("missing", "read", "sub/d", "read-file")),
        about(start + 9000, 7, json!({"event": "refused", "code": "C222", "reason": "too many", "lost_before": 9})),
        about(start + 9500, 1000, outcome("changed", "delete-file", removed)),
        about(start + 9600, 1000, json!({"event": "ended", "reason": "closed"})),
    ]
    .join("\n")
}

struct AuditOutput {
    out: String,
    err: String,
}

/// Runs a command on these records, half of which are in a rotated file.
fn show(command: &str) -> AuditOutput {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    let records = records();
    let lines: Vec<&str> = records.lines().collect();
    fs::write(dir.path().join("audit.jsonl.1"), lines[..9].join("\n") + "\n").unwrap();
    fs::write(&file, lines[9..].join("\n") + "\n").unwrap();
    show_file(command, &file)
}

fn show_file(command: &str, file: &Path) -> AuditOutput {
    let words = command.split(' ').map(str::to_owned).chain([file.to_str().unwrap().to_owned()]);
    let parsed = args::parse(["stockade".to_owned(), "audit".into()].into_iter().chain(words)).unwrap();
    let json = parsed.command.display().json;
    let CliCommand::Audit(args) = parsed.command else { panic!() };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = Output {
        stdout: &mut out,
        stderr: &mut err,
        style: OutputStyle::PLAIN,
        error_style: OutputStyle::PLAIN,
        terminal_columns: None,
        json,
        hidden_prefix: None,
    };
    let outcome = run(&args, &mut output);
    assert!(matches!(outcome, Ok(0)), "{outcome:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(file.to_str().unwrap(), "FILE");
    AuditOutput { out: text(out), err: text(err) }
}

#[test]
fn tail_shows_one_line_for_each_act() {
    let expected = "\
2025-11-15 09:46:41  read       uid 1000 pid 42 #3    list-folder  /srv/p
2025-11-15 09:46:42  changed    uid 1000 pid 42 #3    create-file  /srv/p/a  2.0KB
2025-11-15 09:46:43  changed    uid 1000 pid 42 #3    update-file  /srv/p/a  2.0KB
2025-11-15 09:46:44  dry run    uid 1000 pid 42 #3    move         /srv/p/a -> /srv/p/sub/\\u001b[2J
2025-11-15 09:46:45  changed    uid 1000 pid 42 #3    move         /srv/p/a -> /srv/p/sub/\\u001b[2J
2025-11-15 09:46:46  unchanged  uid 1000 pid 42 #3    mkdir        /srv/p/sub
2025-11-15 09:46:47  refused    uid 1000 pid 42 #3    create-file  ../x\\n  C215
2025-11-15 09:46:47  refused    uid 1000 pid 42 #3    update-file  \\xff  C211
2025-11-15 09:46:48  read       uid 7 pid 42 #3       read-file    /srv/p/sub/b
2025-11-15 09:46:49  refused    uid 7 pid 42 #3       connect      -  C222
2025-11-15 09:46:49  changed    uid 1000 pid 42 #3    delete-file  /srv/p/sub  4 below
";
    let shown = show("tail");
    assert_eq!(shown.out, expected);
    assert_eq!(
        shown.err,
        "stockade: 1 damaged line was skipped\nstockade: 9 records could not be written by the service and are missing\n"
    );
    assert_eq!(show("tail -n 2").out, expected.split_inclusive('\n').skip(9).collect::<String>());
}

#[test]
fn report_sums_up_by_name() {
    let expected = "\
FILE
2025-11-15 09:46:41 to 2025-11-15 09:46:49 UTC

Changed
  2025-11-15 09:46:43  2x  create-file, update-file  uid 1000  /srv/p/a  4.0KB
  2025-11-15 09:46:45      move                      uid 1000  /srv/p/a -> /srv/p/sub/\\u001b[2J
  2025-11-15 09:46:49      delete-file               uid 1000  /srv/p/sub  4 below

Dry run
  2025-11-15 09:46:44  move  uid 1000  /srv/p/a -> /srv/p/sub/\\u001b[2J

Unchanged
  2025-11-15 09:46:46  mkdir  uid 1000  /srv/p/sub

Refused
  2025-11-15 09:46:49  connect      uid 7     -  C222
  2025-11-15 09:46:47  create-file  uid 1000  ../x\\n  C215
  2025-11-15 09:46:47  update-file  uid 1000  \\xff  C211

Read
  2025-11-15 09:46:41  list-folder  uid 1000  /srv/p
  2025-11-15 09:46:48  read-file    uid 7     /srv/p/sub/b

4 changed, 1 dry run, 1 unchanged, 3 refused, 2 read; by 2 connections of uid 7, uid 1000
";
    assert_eq!(show("report").out, expected);
}

#[test]
fn each_filter_selects() {
    let count = |filter: &str| show(&format!("tail {filter}")).out.lines().count();
    assert_eq!(count("--uid 7"), 2);
    assert_eq!(count("--outcome changed"), 4);
    assert_eq!(count("--outcome refused --outcome read"), 5);
    assert_eq!(count("--outcome dry-run"), 1);
    // A move is found by either end.
    assert_eq!(count("--path /srv/p/sub"), 5);
    assert_eq!(count("--path /srv/p/su"), 0);
    assert_eq!(count("--path /srv/p/a/"), 4);
    assert_eq!(count("--path ../x*"), 1);
    assert_eq!(count("--path /srv/*/a"), 4);
    assert_eq!(count("--path b"), 0);
    assert_eq!(count("--path **/b"), 1);
    assert_eq!(count("--path {a,b}"), 5);
    assert_eq!(count("--since 2025-11-15T09:46:48Z"), 3);
    assert_eq!(count("--until 2025-11-15T09:46:42Z"), 1);
    assert_eq!(count("--since 1h"), 0);
    assert_eq!(count("--until 1h --since 2025-11-15"), 11);
}

#[test]
fn json_is_the_records_or_the_sums() {
    let lines = show("tail --json --outcome changed").out;
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record["reported_outcome"] == "changed"));
    let report: Value = serde_json::from_str(&show("report --json").out).unwrap();
    assert_eq!((&report["damaged_lines"], &report["lost_records"]), (&1.into(), &9.into()));
    assert_eq!((report["changed"].as_array().unwrap().len(), &report["changed"][0]["count"]), (3, &2.into()));
    assert_eq!(report["refused"][0]["codes"], json!(["C222"]));
}

/// Records that no service writes: a forged file, or one of another program.
#[test]
fn a_forged_record_sends_nothing_to_the_terminal_and_overflows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    let record = json!({"time_ms": i64::MIN, "event": "outcome", "reported_outcome": "changed", "uid": u64::MAX,
        "pid": i64::MIN, "connection": 1, "reported_function": "coder::\u{1b}]0;x\u{7}", "reported_path": "\u{202e}\u{9b}2J",
        "reported_code": "\u{1b}[2J\n", "reported_bytes": u64::MAX, "lost_before": u64::MAX});
    fs::write(&file, format!("{record}\n{record}\n")).unwrap();
    for command in ["tail", "report", "tail --json", "report --json"] {
        let shown = show_file(command, &file);
        let text = [shown.out, shown.err].concat();
        assert!(text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{command}: {text:?}");
    }
}

#[test]
fn what_the_supervisor_refused_is_shown_for_every_reason() {
    for decision in ["denied", "escape", "mount", "read-only", "protected"] {
        let record = json!({"time_ms": 1, "event": "decided", "decision": decision, "code": "C221", "intent": "write",
            "root": "/srv/p", "path": ".git", "reported_function": "coder::read-file", "uid": 7, "pid": 1, "connection": 1});
        let act = CliAuditEvent::from_record(&record).map(|act| (act.outcome, act.path));
        assert_eq!(act, Some((args::AuditOutcome::Refused, b"/srv/p/.git".to_vec())), "{decision}");
    }
}

#[test]
fn nothing_and_no_file_are_told_apart() {
    assert_eq!(show("report --since 1h").out, "FILE\nnothing was read, changed or refused\n");
    let dir = tempfile::tempdir().unwrap();
    let missing = audit_files(&dir.path().join("audit.jsonl"));
    assert!(matches!(missing, Err(CliFailure::File(text)) if text.contains("there is no audit yet")));
}

#[test]
fn a_line_without_end_costs_no_memory() {
    let text = [b"x".repeat(MAX_LINE_BYTES * 3), b"\nnext".to_vec()].concat();
    let (mut lines, mut line) = (text.as_slice(), Vec::new());
    assert!(read_line(&mut lines, &mut line).unwrap());
    assert_eq!(line.len(), MAX_LINE_BYTES);
    assert!(read_line(&mut lines, &mut line).unwrap());
    assert_eq!(line, b"next");
    assert!(!read_line(&mut lines, &mut line).unwrap());
}
