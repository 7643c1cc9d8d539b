//! A client that costs as little as one can: a prepared line out, a line in. It looks at a reply only to see that it
//! is none of an error; a benchmark of refusals would be fast and worthless.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// What most replies fit in. More is made when a longer one comes: clearing it for every connection would take longer
/// than a connection does.
const BUFFER: usize = 64 << 10;
const LONGEST_REPLY: usize = 16 << 20;
/// A service that needs longer for anything here has hung.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Client {
    input: UnixStream,
    output: UnixStream,
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
        Self::over(stream.try_clone().unwrap(), stream)
    }

    /// What is written goes to `input` of the service, what is read comes from its `output`.
    pub fn over(input: UnixStream, output: UnixStream) -> Self {
        output.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { input, output, buffer: vec![0; BUFFER], filled: 0 }
    }

    pub fn send(&mut self, lines: &[u8]) {
        self.input.write_all(lines).expect("the service takes requests");
    }

    /// As much of `lines` as the service takes at once; false if it takes nothing.
    pub fn send_some(&mut self, lines: &[u8]) -> bool {
        self.input.set_nonblocking(true).unwrap();
        let sent = self.input.write(lines);
        self.input.set_nonblocking(false).unwrap();
        sent.is_ok_and(|sent| sent == lines.len())
    }

    /// Reads until `count` lines are there; their bytes.
    pub fn receive(&mut self, count: usize) -> usize {
        self.try_receive(count).unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_receive(&mut self, count: usize) -> Result<usize, String> {
        let mut lines = 0;
        self.filled = 0;
        loop {
            if self.filled == self.buffer.len() {
                if self.filled == LONGEST_REPLY {
                    return Err(format!("a reply of more than {} MiB", LONGEST_REPLY >> 20));
                }
                self.buffer.resize(self.filled * 2, 0);
            }
            let room = &mut self.buffer[self.filled..];
            let len = self.output.read(room).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => format!("no answer in {} s", PATIENCE.as_secs()),
                _ => error.to_string(),
            })?;
            if len == 0 {
                return Err("closed the connection".into());
            }
            lines += room[..len].iter().filter(|byte| **byte == b'\n').count();
            self.filled += len;
            if lines >= count {
                return Ok(self.filled);
            }
        }
    }

    /// The last reply, as it came.
    pub fn reply(&self) -> String {
        String::from_utf8_lossy(&self.buffer[..self.filled]).into_owned()
    }

    /// The last reply, checked.
    pub fn last(&self) -> String {
        self.checked().unwrap_or_else(|reply| panic!("not a result: {reply}"))
    }

    fn checked(&self) -> Result<String, String> {
        let text = self.reply();
        let is_error = text.contains("\"error\":") || text.contains("\"isError\":true");
        if text.contains("\"result\":") && !is_error { Ok(text) } else { Err(text) }
    }

    /// Microseconds and the reply of one call, or why there is none: others may fail without ending the run.
    pub fn attempt(&mut self, line: &[u8]) -> Result<(f64, String), String> {
        let start = Instant::now();
        self.input.write_all(line).map_err(|error| error.to_string())?;
        self.try_receive(1)?;
        let took = micros(start);
        self.checked().map(|reply| (took, reply)).map_err(|reply| reply.chars().take(160).collect())
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

    /// The same with `lines` in turn, for as long as `budget` lasts: a slow service makes fewer calls, at least as
    /// many as there are lines.
    pub fn timed_within(&mut self, lines: &[Vec<u8>], budget: Duration) -> Vec<f64> {
        let start = Instant::now();
        let mut taken = Vec::new();
        while taken.is_empty() || start.elapsed() < budget {
            taken.extend(lines.iter().flat_map(|line| self.timed(line, 1)));
        }
        taken
    }
}

pub fn micros(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / 1000.0
}
