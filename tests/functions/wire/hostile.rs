//! Ten thousand frames that mean no good. `STOCKADE_TEST_SEED` repeats a run, `STOCKADE_SOAK_FRAMES` makes it longer.

use std::{
    fs::File,
    io::{ErrorKind, IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::support::{Options, TestJail, canary::assert_no_secret, json, process};

const POLICY: &str = "[[root]]\npath = \"ROOT\"\n[limits]\nmax_frame_bytes = 65536\n[workers]\npool = 0\n";

/// Xorshift: a hostile mix that can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.roll(most)).map(|_| self.roll(256) as u8).collect()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// What becomes of the connection after a frame.
#[derive(PartialEq)]
enum After {
    GoesOn,
    IsOver,
}

struct Attacker<'a> {
    jail: &'a TestJail,
    dice: Dice,
    stream: UnixStream,
    replies: u64,
}

impl<'a> Attacker<'a> {
    fn new(jail: &'a TestJail, seed: u64) -> Self {
        Self { jail, dice: Dice(seed), stream: connect(jail), replies: 0 }
    }

    fn send(&mut self, bytes: &[u8]) {
        // The service may close at any point of a hostile frame.
        let _ = self.stream.write_all(bytes);
    }

    fn line(&mut self, bytes: &[u8]) -> After {
        self.send(&[bytes, b"\n"].concat());
        After::GoesOn
    }

    fn attack(&mut self) {
        let after = match self.dice.roll(100) {
            0 => self.oversized(),
            1 => self.half_close(),
            2 => After::IsOver,
            3 => self.dropped_in_the_middle(),
            4..20 => self.truncated(),
            20..32 => self.deep(),
            32..44 => self.duplicate_keys(),
            44..56 => self.invalid_utf8(),
            56..60 => self.byte_by_byte(),
            60..75 => self.with_descriptors(),
            75..85 => {
                let noise = self.dice.bytes(300);
                self.line(&noise)
            }
            _ => self.almost_right(),
        };
        match after {
            After::GoesOn => self.drain(),
            After::IsOver => self.stream = connect(self.jail),
        }
    }

    fn call(&mut self) -> Vec<u8> {
        let method = self.dice.pick(&["coder::info", "coder::read-file", "coder::list-folder", "coder::", ""]);
        let path = self.dice.pick(&["small.txt", ".", "../outside/secret.txt", "/etc/passwd", "\0", "a/../../b", ""]);
        let id = self.dice.roll(5);
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"path": path}});
        call.to_string().into_bytes()
    }

    fn truncated(&mut self) -> After {
        let call = self.call();
        let cut = self.dice.roll(call.len() as u64) as usize;
        self.line(&call[..cut])
    }

    fn oversized(&mut self) -> After {
        let len = 65_537 + self.dice.roll(200_000) as usize;
        self.send(&vec![b'7'; len]);
        self.drain_to_the_end();
        After::IsOver
    }

    fn deep(&mut self) -> After {
        let depth = 60 + self.dice.roll(3000) as usize;
        let open = self.dice.pick(&["[", "{\"a\":"]);
        self.line(open.repeat(depth).as_bytes())
    }

    fn duplicate_keys(&mut self) -> After {
        self.line(br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"coder::info","method":"coder::read-file"}"#)
    }

    fn invalid_utf8(&mut self) -> After {
        let mut call = self.call();
        let at = self.dice.roll(call.len() as u64) as usize;
        call[at] = 0x80 + self.dice.roll(0x80) as u8;
        self.line(&call)
    }

    fn byte_by_byte(&mut self) -> After {
        for byte in [self.call(), b"\n".to_vec()].concat() {
            self.send(&[byte]);
        }
        After::GoesOn
    }

    fn half_close(&mut self) -> After {
        let call = self.call();
        self.send(&call[..call.len() / 2]);
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        self.drain_to_the_end();
        After::IsOver
    }

    fn dropped_in_the_middle(&mut self) -> After {
        let call = self.call();
        self.send(&[&call[..], b"\n", &call[..5]].concat());
        After::IsOver
    }

    /// The kernel hands over whatever is attached to a message, if the receiver lets it.
    fn with_descriptors(&mut self) -> After {
        let secret = File::open(self.jail.canaries.secret()).unwrap();
        let fds = vec![secret.as_fd(); 1 + self.dice.roll(30) as usize];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(31))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let line = [self.call(), b"\n".to_vec()].concat();
        let _ = sendmsg(&self.stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL);
        After::GoesOn
    }

    fn almost_right(&mut self) -> After {
        let line = self.dice.pick(&[
            r#"{"jsonrpc":"2.0","id":1,"method":"coder::read-file","params":{"path":7}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"coder::read-file","params":{"paths":[{},[],null,7]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"coder::list-folder","params":{"page":4294967295}}"#,
            r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"$/cancelRequest","params":{"id":{}}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"coder::info"}]"#,
            r#"{"jsonrpc":"2.0","id":1e400,"method":"coder::info"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"coder::info","timeout_ms":18446744073709551615}"#,
        ]);
        self.line(line.as_bytes())
    }

    /// Takes what is there. Now and then waits for something, so that the service is not always behind.
    fn drain(&mut self) {
        let mut buffer = [0; 65536];
        let wait = if self.dice.roll(50) == 0 { 20 } else { 0 };
        self.stream.set_nonblocking(wait == 0).unwrap();
        if wait > 0 {
            self.stream.set_read_timeout(Some(Duration::from_millis(wait))).unwrap();
        }
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.stream = connect(self.jail);
                    return;
                }
                Ok(len) => self.count(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.stream = connect(self.jail);
                    return;
                }
            }
            if wait > 0 {
                break;
            }
        }
        self.stream.set_nonblocking(false).unwrap();
    }

    fn drain_to_the_end(&mut self) {
        self.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the service does not close"),
            _ => self.count(&rest),
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        assert_no_secret(&String::from_utf8_lossy(bytes));
        self.replies += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

fn connect(jail: &TestJail) -> UnixStream {
    let stream = UnixStream::connect(&jail.socket).expect("the service accepts");
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn hostile_frames_neither_end_nor_leak_nor_disturb() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("STOCKADE_TEST_SEED").unwrap_or(now.as_nanos() as u64 | 1);
    let frames = number("STOCKADE_SOAK_FRAMES").unwrap_or(10_000);
    println!("STOCKADE_TEST_SEED={seed} STOCKADE_SOAK_FRAMES={frames}");
    let jail = TestJail::with(Options { policy: Some(POLICY.into()), ..Options::default() });
    jail.write("small.txt", "small\n");
    let (mut other, worker) = jail.connect_and_find_worker();
    let supervisor = jail.daemon.pid();
    let counts = || process::is_root().then(|| (process::open_files(supervisor), process::open_files(worker)));
    if process::is_root() {
        process::settled_open_files(supervisor);
    }
    let before = counts();
    let done = AtomicBool::new(false);
    let slowest = std::thread::scope(|scope| {
        let undisturbed = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                let reply = other.call("coder::read-file", json!({"path": "small.txt"})).expect("served");
                assert_eq!(reply["content"], "small\n");
                slowest = slowest.max(start.elapsed());
                std::thread::sleep(Duration::from_millis(5));
            }
            slowest
        });
        let mut attacker = Attacker::new(&jail, seed);
        for _ in 0..frames {
            attacker.attack();
        }
        done.store(true, Ordering::Relaxed);
        println!("{} replies", attacker.replies);
        assert!(attacker.replies > frames / 4, "hostile frames are answered, not swallowed");
        undisturbed.join().unwrap()
    });
    println!("the slowest call of the second client took {slowest:?}");
    assert!(slowest < Duration::from_secs(5));
    process::eventually("the workers of the attacker are gone", || jail.daemon.workers() == [worker]);
    match before {
        Some(_) => drop(process::eventually("no descriptor is leaked", || counts() == before)),
        None => eprintln!("descriptors are not counted: that needs root"),
    }
    jail.assert_intact();
}
