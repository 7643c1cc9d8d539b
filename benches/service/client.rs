//! A client that costs as little as one can: a prepared line out, a line in. It looks at a reply only to see that it
//! is none of an error; a benchmark of refusals would be fast and worthless.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// A service that needs longer for anything here has hung.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Client {
    stream: UnixStream,
    buffer: Vec<u8>,
    filled: usize,
}

/// A request line.
pub fn line(id: usize, method: &str, params: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n").into_bytes()
}

pub fn read_line(id: usize, path: &str) -> Vec<u8> {
    line(id, "coder::read-file", &format!("{{\"path\":\"{path}\"}}"))
}

impl Client {
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("the socket accepts");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, buffer: vec![0; 16 << 20], filled: 0 }
    }

    pub fn send(&mut self, lines: &[u8]) {
        self.stream.write_all(lines).expect("the service takes requests");
    }

    /// As much of `lines` as the service takes at once; false if it takes nothing.
    pub fn send_some(&mut self, lines: &[u8]) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let sent = self.stream.write(lines);
        self.stream.set_nonblocking(false).unwrap();
        sent.is_ok_and(|sent| sent == lines.len())
    }

    /// Reads until `count` lines are there; their bytes.
    pub fn receive(&mut self, count: usize) -> usize {
        let mut lines = 0;
        self.filled = 0;
        loop {
            let room = &mut self.buffer[self.filled..];
            assert!(!room.is_empty(), "a reply is longer than the buffer");
            let len = self.stream.read(room).expect("the service answers");
            assert!(len > 0, "the service closed the connection");
            lines += room[..len].iter().filter(|byte| **byte == b'\n').count();
            self.filled += len;
            if lines >= count {
                return self.filled;
            }
        }
    }

    /// The last reply, checked.
    pub fn last(&self) -> &str {
        let text = std::str::from_utf8(&self.buffer[..self.filled]).unwrap();
        assert!(text.contains("\"result\":") && !text.contains("\"error\":"), "not a result: {text}");
        text
    }

    pub fn call(&mut self, line: &[u8]) -> usize {
        self.send(line);
        self.receive(1)
    }

    /// Microseconds of each of `calls` calls, one after the other.
    pub fn timed(&mut self, line: &[u8], calls: usize) -> Vec<f64> {
        (0..calls)
            .map(|_| {
                let start = Instant::now();
                self.call(line);
                micros(start)
            })
            .collect()
    }
}

pub fn micros(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / 1000.0
}
