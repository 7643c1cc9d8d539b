//! A client of the wire, written from its description alone: it shares no code with the service.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

/// No call of a test may take longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    pub stream: UnixStream,
    lines: BufReader<UnixStream>,
    next_id: u64,
}

/// The `error` member of a reply, or why there was none.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    Error(Value),
    Closed,
}

impl Failure {
    /// `C211`, or the number of a plain JSON-RPC error as text.
    pub fn code(&self) -> String {
        match self {
            Failure::Error(error) => match error["data"]["code"].as_str() {
                Some(code) => code.to_owned(),
                None => error["code"].to_string(),
            },
            Failure::Closed => "closed".into(),
        }
    }

    pub fn message(&self) -> String {
        match self {
            Failure::Error(error) => error["data"]["message"].as_str().or(error["message"].as_str()).unwrap().into(),
            Failure::Closed => String::new(),
        }
    }
}

impl Client {
    pub fn connect(socket: &Path) -> Self {
        Self::on(UnixStream::connect(socket).expect("the socket accepts"))
    }

    pub fn on(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { lines: BufReader::new(stream.try_clone().unwrap()), stream, next_id: 1 }
    }

    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        let id = self.send(method, params);
        self.reply_to(id)
    }

    /// Sends without waiting; the id to wait for.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    pub fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Ignores a closed connection: the service may have sent the reason before it closed, which the caller can read.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("it does not take it: {error}"),
            _ => {}
        }
    }

    /// Nothing more will be sent; replies may still come.
    pub fn half_close(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Every line up to the end of the stream.
    pub fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// The next line that is not empty; `None` at the end.
    pub fn line(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) if line.trim().is_empty() => {}
                Ok(_) => return Some(serde_json::from_str(&line).expect("every line is JSON")),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Skips replies to other calls.
    pub fn reply_to(&mut self, id: u64) -> Result<Value, Failure> {
        loop {
            let Some(mut reply) = self.line() else { return Err(Failure::Closed) };
            if reply["id"] == json!(id) || reply["id"].is_null() {
                return match reply.get_mut("error") {
                    Some(error) => Err(Failure::Error(error.take())),
                    None => Ok(reply["result"].take()),
                };
            }
        }
    }
}
