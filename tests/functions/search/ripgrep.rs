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
    match messages(root, arguments) {
        Err(answer) => answer,
        Ok(found) => {
            let mut lines = Lines::new();
            found.iter().for_each(|found| add(found, &mut lines));
            Answer::Found(lines)
        }
    }
}

/// What it says about each line that it prints.
fn messages(root: &Path, arguments: &[String]) -> Result<Vec<Value>, Answer> {
    let output = run("rg", root, arguments);
    match output.status.code() {
        Some(0 | 1) => {}
        Some(2) => return Err(Answer::Refused),
        _ => return Err(Answer::Crashed),
    }
    let messages = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let messages = messages.map(|message| serde_json::from_slice::<Value>(message).unwrap());
    Ok(messages.filter(|message| message["type"] == "match").map(|mut message| message["data"].take()).collect())
}

/// One match that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    pub path: Vec<u8>,
    pub line: u64,
    /// Byte of the line where it begins, from 1.
    pub column: u64,
    pub text: String,
}

/// Every match, in order; None if it gives no answer.
pub fn matches(root: &Path, arguments: &[String]) -> Option<Vec<Match>> {
    let mut all = Vec::new();
    for found in messages(root, arguments).ok()? {
        let path = bytes(&found["path"]);
        let path = path.strip_prefix(b"./").unwrap_or(&path);
        for part in found["submatches"].as_array().unwrap() {
            let text = bytes(&part["match"]);
            if !text.is_empty() {
                all.push(Match {
                    path: path.to_vec(),
                    line: found["line_number"].as_u64().unwrap(),
                    column: part["start"].as_u64().unwrap() + 1,
                    text: String::from_utf8_lossy(&text).into_owned(),
                });
            }
        }
    }
    all.sort();
    Some(all)
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
