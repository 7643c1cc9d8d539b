//! The yardstick: a blocking, single-threaded process that answers every line with a fixed one, over the same kind of
//! socket. What a round trip costs when nothing is done for it.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

pub fn serve(socket: &str, reply_bytes: usize) {
    let listener = UnixListener::bind(socket).unwrap();
    let mut reply = vec![b'x'; reply_bytes];
    *reply.last_mut().unwrap() = b'\n';
    let mut buffer = vec![0; 64 << 10];
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        while let Ok(len) = stream.read(&mut buffer) {
            let lines = buffer[..len].iter().filter(|byte| **byte == b'\n').count();
            if len == 0 || (0..lines).any(|_| stream.write_all(&reply).is_err()) {
                break;
            }
        }
    }
}

pub struct Echo {
    child: Child,
    pub socket: PathBuf,
}

impl Echo {
    pub fn start(dir: &Path, reply_bytes: usize) -> Self {
        let socket = dir.join("echo.sock");
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("echo")
            .arg(&socket)
            .arg(reply_bytes.to_string())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "the echo did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { child, socket }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
