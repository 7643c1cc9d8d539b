//! What ripgrep finds. The oracle: nothing here knows how ours works.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::support::Value;

/// By path below the root and line number: the line without its terminator.
pub type Lines = BTreeMap<(Vec<u8>, u64), Vec<u8>>;

/// What it answers to a question.
pub enum Answer {
    Found(Lines),
    Refused,
    /// Version 13 panics at some patterns that end with `$` where lines end with CR LF.
    Crashed,
}

pub fn search(root: &Path, arguments: &[String]) -> Answer {
    let output = run("rg", root, arguments);
    match output.status.code() {
        Some(0 | 1) => {}
        Some(2) => return Answer::Refused,
        _ => return Answer::Crashed,
    }
    let mut lines = Lines::new();
    for message in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(message).unwrap();
        if message["type"] == "match" {
            add(&message["data"], &mut lines);
        }
    }
    Answer::Found(lines)
}

fn add(found: &Value, lines: &mut Lines) {
    let path = bytes(&found["path"]);
    let path = path.strip_prefix(b"./").unwrap_or(&path);
    let text = bytes(&found["lines"]);
    let mut number = found["line_number"].as_u64().unwrap();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        lines.insert((path.to_vec(), number), without_terminator(line).to_vec());
        number += 1;
    }
    if text.is_empty() {
        lines.insert((path.to_vec(), number), Vec::new());
    }
}

pub fn without_terminator(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    match (&value["text"], &value["bytes"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, Value::String(bytes)) => STANDARD.decode(bytes).unwrap(),
        _ => panic!("neither text nor bytes: {value}"),
    }
}

pub fn run(program: &str, root: &Path, arguments: &[String]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).env_remove("RIPGREP_CONFIG_PATH").stdin(std::process::Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; scripts/test installs it"))
}
