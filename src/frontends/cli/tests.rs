//! Commands against a scripted service on the other end of a socket pair: the real client, the real frames.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use super::{output::OutputStyle, *};

/// The output of a command and its exit code.
#[derive(Debug)]
pub(super) struct CommandRun {
    pub(super) code: u8,
    pub(super) out: Vec<u8>,
    pub(super) err: String,
    /// Method and params of each call, as the service saw them.
    pub(super) calls: Vec<(String, Value)>,
}

impl CommandRun {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

/// Answers each call with `reply(method, params)`: `Ok` a result, `Err` a coded error.
fn serve(
    stream: UnixStream,
    mut reply: impl FnMut(&str, &Value) -> Result<Value, Value> + Send + 'static,
) -> JoinHandle<Vec<(String, Value)>> {
    thread::spawn(move || {
        let mut writer = stream.try_clone().unwrap();
        let mut calls = Vec::new();
        for line in BufReader::new(stream).lines() {
            let call: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let method = call["method"].as_str().unwrap().to_owned();
            let answer = match reply(&method, &call["params"]) {
                Ok(result) => json!({"jsonrpc": "2.0", "id": call["id"], "result": result}),
                Err(data) => json!({"jsonrpc": "2.0", "id": call["id"],
                    "error": {"code": -32000, "message": "as in data", "data": data}}),
            };
            writeln!(writer, "{answer}").unwrap();
            calls.push((method, call["params"].clone()));
        }
        calls
    })
}

/// Runs a command line against such a service; `terminal` is the width of one, or none for a pipe.
pub(super) fn run_against(
    line: &[&str],
    terminal: Option<usize>,
    reply: impl FnMut(&str, &Value) -> Result<Value, Value> + Send + 'static,
) -> CommandRun {
    run_in(None, line, terminal, reply)
}

/// Like `run`, from a folder of the shell. The service has one root, `/r`.
pub(super) fn run_in(
    folder: Option<&str>,
    line: &[&str],
    terminal: Option<usize>,
    reply: impl FnMut(&str, &Value) -> Result<Value, Value> + Send + 'static,
) -> CommandRun {
    let command = args::parse(std::iter::once(&"stockade").chain(line)).unwrap().command;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = serve(theirs, reply);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let json = command.display().json;
    let style = OutputStyle { color: false, unicode: true, columns: terminal };
    let mut output = Output {
        stdout: &mut out,
        stderr: &mut err,
        style,
        error_style: style,
        terminal_columns: terminal,
        json,
        hidden_prefix: None,
    };
    let mut client = Client::new(ours, None);
    let base = PathBase::new("/r", &["/r"], folder.map(Path::new));
    output.hidden_prefix = base.hidden_prefix().map(str::to_owned);
    let mut files = BasedSession { calls: &mut client, base };
    let outcome = match &command {
        CliCommand::Read(args) => read::ReadCommand::new(args).run(&mut files, &mut output),
        CliCommand::Ls(args) => ls::run(args, &mut files, &mut output),
        CliCommand::Tree(args) => tree::run(args, &mut files, &mut output),
        CliCommand::Stat(args) => stat::run(args, &mut files, &mut output),
        CliCommand::Search(args) => search::run(args, &mut files, &mut output),
        CliCommand::Find(args) => find::run(args, &mut files, &mut output),
        CliCommand::Create(args) => create::CreateCommand::new(args).and_then(|plan| plan.run(&mut files, &mut output)),
        CliCommand::Edit(args) => edit::EditCommand::new(args).and_then(|plan| plan.run(&mut files, &mut output)),
        CliCommand::Rm(args) => {
            rm::plan_removal(args).and_then(|change| rm::run(args, change, &mut files, &mut output))
        }
        CliCommand::Mv(args) => {
            move_copy::MoveCopyCommand::new(&args.names).and_then(|plan| plan.run_move(&mut files, &mut output))
        }
        CliCommand::Cp(args) => move_copy::MoveCopyCommand::new(&args.names)
            .and_then(|plan| plan.run_copy(args.recursive, &mut files, &mut output)),
        CliCommand::Mkdir(args) => mkdir::run(args, &mut files, &mut output),
        CliCommand::Restore(args) => restore::run(args, &mut files, &mut output),
        CliCommand::Info(_) => info::run(None, &mut files, &mut output),
        CliCommand::Call(args) => call::CallCommand::prepare(args).and_then(|call| call.run(&mut files, &mut output)),
        other => panic!("{other:?} does not talk to a service"),
    };
    let code = outcome.unwrap_or_else(|failure| output.report_failure(&failure));
    drop(client);
    let calls = server.join().unwrap();
    CommandRun { code, out, err: String::from_utf8(err).unwrap(), calls }
}

#[test]
fn call_passes_the_result_through_unchanged_in_a_pipe() {
    let ran = run_against(&["call", "coder::info"], None, |_, _| Ok(json!({"version": "1"})));
    assert_eq!((ran.code, ran.text()), (0, "{\"version\":\"1\"}\n"));
    assert_eq!(ran.calls, [("coder::info".into(), json!({}))]);
}

#[test]
fn call_indents_on_a_terminal() {
    let ran = run_against(&["call", "coder::info"], Some(80), |_, _| Ok(json!({"version": "1"})));
    assert_eq!(ran.text(), "{\n  \"version\": \"1\"\n}\n");
}

#[test]
fn call_prints_the_error_object_and_exits_with_one() {
    let ran = run_against(&["call", "coder::read-file", "{\n\"path\":\r\n\"x\"}"], None, |_, _| {
        Err(json!({"code": "C211", "message": "x: not found"}))
    });
    assert_eq!((ran.code, ran.text()), (1, ""));
    assert_eq!(ran.err, "{\"code\":\"C211\",\"message\":\"x: not found\"}\n");
    assert_eq!(ran.calls[0].1, json!({"path": "x"}));
}

#[test]
fn unknown_function_is_refused_before_anything_is_sent() {
    let ran = run_against(&["call", "coder::inof"], None, |_, _| Ok(json!({})));
    assert_eq!(ran.code, 2);
    assert!(ran.calls.is_empty());
    assert!(ran.err.contains("did you mean coder::info?"), "{}", ran.err);
}

#[test]
fn info_prints_a_summary_or_the_reply_itself() {
    let reply = json!({"primary_root": "/r", "roots": [{"path": "/r", "mode": "ro"}], "version": "1"});
    let (human, machine) = (reply.clone(), reply.clone());
    let ran = run_against(&["info"], None, move |_, _| Ok(human.clone()));
    assert!(ran.text().contains("  ro  /r  (primary)\n"), "{}", ran.text());
    let ran = run_against(&["info", "--json"], None, move |_, _| Ok(machine.clone()));
    assert_eq!(ran.text(), format!("{reply}\n"));
}

#[test]
fn a_supervisor_that_failed_to_start_passes_its_code_on() {
    use std::os::unix::process::ExitStatusExt;
    let exited = |code: i32| start_failure(ExitStatus::from_raw(code << 8));
    assert!(matches!(exited(4), CliFailure::AlreadyReported(4)));
    assert!(matches!(exited(2), CliFailure::AlreadyReported(2)));
    // A clean exit or a signal explains nothing: the outcome is unknown.
    assert_eq!(exited(0).exit_code(), 3);
    assert_eq!(start_failure(ExitStatus::from_raw(9)).exit_code(), 3);
}
