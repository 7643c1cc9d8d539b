//! Runs the examples of a document against a service of their own.
//!
//! | fence | is |
//! |---|---|
//! | `console` | `$ ` commands for a shell, each followed by what it prints |
//! | `python` | a program; it must end well |
//! | `jsonrpc` | `→ ` lines that are sent, each followed by the `← ` line that answers |
//! | `mcp` | `→ ` tools with their arguments, each followed by the `← ` lines that a model reads |
//! | `call` | the same without the envelope: a function and its request, and the result |
//!
//! `…` stands for anything within a line, and alone on its line for any lines.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::symlink, net::UnixStream},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use regex::Regex;

use crate::support::{NO_STATE, Options, TestJail, Value, bin_dir, json};

/// What the documents call the root.
const ROOT: &str = "/srv/project";
/// 2026-01-02 03:04:05 UTC, in seconds since 1970.
const MODIFIED: u64 = 1_767_323_045;

#[derive(Debug)]
pub struct Block {
    pub kind: String,
    pub text: String,
}

/// The tree that all examples are about.
pub fn project() -> TestJail {
    TestJail::with_tree(Options::default(), |root| {
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("README.md"), "# project\n\nA small one.\n").unwrap();
        fs::write(root.join("src/main.rs"), "fn main() {\n    println!(\"hello\");\n}\n").unwrap();
        fs::write(root.join(".env"), "TOKEN=hunter2\n").unwrap();
        symlink("/etc/passwd", root.join("passwd")).unwrap();
        for name in ["README.md", "src/main.rs", ".env", "src"] {
            let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED);
            fs::File::open(root.join(name)).unwrap().set_modified(modified).unwrap();
        }
        // No function of the standard library touches a link itself.
        let touched =
            Command::new("touch").args(["-h", "-d", &format!("@{MODIFIED}")]).arg(root.join("passwd")).status();
        assert!(touched.unwrap().success());
    })
}

pub fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(kind), None) => open = Some(Block { kind: kind.into(), text: String::new() }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// False for a block that is only to be read.
pub fn run(jail: &TestJail, document: &str, block: &Block) -> bool {
    match block.kind.as_str() {
        "console" => run_console(jail, document, &block.text),
        "python" => run_python(jail, document, &block.text),
        "jsonrpc" => run_dialogue(jail, document, &block.text),
        "call" => run_calls(jail, document, &block.text),
        "mcp" => run_tools(jail, document, &block.text),
        _ => return false,
    }
    true
}

fn run_console(jail: &TestJail, document: &str, text: &str) {
    for (command, expected) in steps(text, "$ ") {
        let printed = shell(jail, &["sh", "-c", &format!("{{ {command}\n}} 2>&1")]);
        check(document, command, &expected, &printed.1);
    }
}

fn run_python(jail: &TestJail, document: &str, program: &str) {
    let (ended_well, printed) = shell(jail, &["python3", "-c", program]);
    assert!(ended_well, "{document}: {printed}\n{program}");
}

fn run_dialogue(jail: &TestJail, document: &str, text: &str) {
    let mut stream = UnixStream::connect(&jail.socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    for (sent, answer) in steps(text, "→ ") {
        stream.write_all(format!("{sent}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        lines.read_line(&mut reply).unwrap_or_else(|error| panic!("{document}: {sent}: {error}"));
        // As text, because the documents show text; the members stand in the order of the types.
        let reply = format!("← {}", reply.replace(jail.root.to_str().unwrap(), ROOT));
        check(document, sent, &answer, &reply);
    }
}

fn run_calls(jail: &TestJail, document: &str, text: &str) {
    for (call, expected) in steps(text, "→ ") {
        let (function, request) = call.split_once(' ').expect("a function and its request");
        let arguments = ["stockade", "call", function, request];
        let (_, result) = shell(jail, &arguments);
        check(document, call, &expected, &format!("← {result}"));
    }
}

/// A host and its tools.
fn run_tools(jail: &TestJail, document: &str, text: &str) {
    let mut server = Command::new(bin_dir(false).join("stockade"))
        .args(["mcp", "--root", jail.root.to_str().unwrap()])
        .envs([NO_STATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut ask = |method: &str, params: Value| -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        stdin.write_all(format!("{request}\n").as_bytes()).unwrap();
        serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["result"].take()
    };
    let host = json!({"name": "docs", "version": "1"});
    ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": host}));
    for (call, expected) in steps(text, "→ ") {
        let (tool, arguments) = call.split_once(' ').expect("a tool and its arguments");
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let result = ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let said = result["content"][0]["text"].as_str().unwrap().replace(jail.root.to_str().unwrap(), ROOT);
        let said: String = said.lines().map(|line| format!("← {line}\n")).collect();
        check(document, call, &expected, &said);
    }
    drop(stdin);
    server.wait().unwrap();
}

/// What is behind the mark on its lines, each with the lines that follow it.
pub fn steps<'a>(text: &'a str, mark: &str) -> Vec<(&'a str, String)> {
    let mut steps: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(mark), steps.last_mut()) {
            (Some(begins), _) => steps.push((begins, String::new())),
            (None, Some((_, follows))) => *follows += &format!("{line}\n"),
            (None, None) => panic!("{line}: nothing was asked yet"),
        }
    }
    steps
}

/// Whether it ended well, and everything it printed. The root's own name is replaced by the documents' one.
fn shell(jail: &TestJail, command: &[&str]) -> (bool, String) {
    let path = format!("{}:{}", bin_dir(false).display(), std::env::var("PATH").unwrap());
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(&jail.root)
        .env("PATH", path)
        .env("STOCKADE_SOCKET", &jail.socket)
        .env("LC_ALL", "C.UTF-8")
        .envs([NO_STATE])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", command[0]));
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), printed.replace(jail.root.to_str().unwrap(), ROOT))
}

#[track_caller]
pub fn check(document: &str, what: &str, expected: &str, printed: &str) {
    assert!(matches(expected, printed), "{document}: {what}\nsays:\n{expected}\nprints:\n{printed}");
}

fn matches(expected: &str, printed: &str) -> bool {
    let line = |line: &str| match line {
        "…" => "(?:.*\n)*?".to_owned(),
        _ => line.split('…').map(regex::escape).collect::<Vec<_>>().join(".*") + "\n",
    };
    let pattern: String = expected.lines().map(line).collect();
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(printed)
}

#[test]
fn an_example_that_prints_something_else_is_found() {
    assert!(matches("a\n…\nb … d\n", "a\nx\ny\nb c d\n"));
    assert!(matches("a\n", "a\n"));
    assert!(!matches("a\n", "a\nb\n"));
    assert!(!matches("a.\n", "ab\n"));
    assert!(!matches("a\n…\nb\n", "a\nx\n"));
}
