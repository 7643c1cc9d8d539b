//! A host written from the protocol's description alone: one line, one message.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use crate::support::{NO_STATE, Value, bin_dir, json};

/// No message of a test may take longer than this.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Host {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: u64,
    /// Replies that came while another one was waited for.
    early: BTreeMap<u64, Value>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub text: String,
    pub is_error: bool,
    pub structured: Option<Value>,
}

impl Said {
    pub fn of(result: &Value) -> Self {
        let blocks = result["content"].as_array().unwrap_or_else(|| panic!("no tool result: {result}"));
        let text = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
        let is_error = result["isError"].as_bool().unwrap_or(false);
        Self { text, is_error, structured: result.get("structuredContent").cloned() }
    }

    /// `C211` of an error.
    pub fn code(&self) -> &str {
        assert!(self.is_error, "no error: {}", self.text);
        self.text.split(' ').next().unwrap()
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert!(!self.is_error, "{}", self.text);
        self.text
    }
}

pub fn command(arguments: &[&str]) -> Command {
    command_in(&bin_dir(false), arguments)
}

pub fn command_in(bin: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(bin.join("stockade"));
    command.arg("mcp").args(arguments).env_remove("STOCKADE_WEAKENED").envs([NO_STATE]);
    command
}

/// A folder of its own to serve.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub root: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let dir = crate::support::TestJail::directory();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        Self { dir, root }
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A host with a service of its own, past the handshake.
    pub fn host(&self, more: &[&str]) -> Host {
        let root = self.root.to_str().unwrap();
        Host::start(command(&[&["--root", root], more].concat())).initialized()
    }
}

impl Host {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, lines, last_id: 0, early: BTreeMap::new() }
    }

    pub fn initialized(mut self) -> Self {
        self.initialize(json!({}));
        self
    }

    pub fn initialize(&mut self, capabilities: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
        let result = self.request("initialize", params).unwrap();
        self.notify("notifications/initialized", json!({}));
        result
    }

    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("still open");
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Without a line end.
    pub fn send_part(&mut self, part: &str) {
        self.stdin.as_mut().expect("still open").write_all(part.as_bytes()).unwrap();
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Without waiting; the id to wait for.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    pub fn send_tool(&mut self, name: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": name, "arguments": arguments}))
    }

    #[track_caller]
    pub fn line(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a line comes in time")
    }

    pub fn line_within(&mut self, time: Duration) -> Option<Value> {
        self.lines.recv_timeout(time).ok()
    }

    /// Keeps replies to others, skips what is none.
    #[track_caller]
    pub fn reply_to(&mut self, id: u64) -> Result<Value, Value> {
        let mut reply = self.reply_within(id, PATIENCE).expect("a reply comes in time");
        match reply.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(reply["result"].take()),
        }
    }

    /// Nothing if no line comes for so long.
    pub fn reply_within(&mut self, id: u64, time: Duration) -> Option<Value> {
        while !self.early.contains_key(&id) {
            let line = self.line_within(time)?;
            if let (Some(other), None) = (line["id"].as_u64(), line.get("method")) {
                self.early.insert(other, line);
            }
        }
        self.early.remove(&id)
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.reply_to(id)
    }

    #[track_caller]
    pub fn tool(&mut self, name: &str, arguments: Value) -> Said {
        let id = self.send_tool(name, arguments);
        Said::of(&self.reply_to(id).expect("failures of tools are no protocol errors"))
    }

    pub fn tools(&mut self) -> Vec<Value> {
        self.request("tools/list", json!({})).unwrap()["tools"].as_array().unwrap().clone()
    }

    pub fn tool_names(&mut self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Nothing more will be sent.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The bridge and all that it started, and what those started.
    pub fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.pid()];
        let mut at = 0;
        while at < all.len() {
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", all[at]));
            all.extend(children.unwrap_or_default().split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
            at += 1;
        }
        all
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
