//! A minimal FUSE file system for tests: every name is a folder with a file in it. One kind of request is not answered while
//! the file system is dead. Mounted in a separate mount namespace.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const INTERRUPT: u32 = 36;
const IOCTL: u32 = 39;
/// The only command that is answered.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const EINTR: i32 = 4;
const ENOSYS: i32 = 38;

const ROOT: u64 = 1;
const FOLDER: u64 = 2;
const FILE: u64 = 3;
/// A folder in `FOLDER`, where names are what is not answered.
const INNER: u64 = 4;

/// The kind of request that is not answered.
#[derive(Clone, Copy)]
pub enum Dead {
    /// The content of files.
    Reads = READ as isize,
    /// Lookups of names.
    Names = LOOKUP as isize,
    /// Attributes of a file or a folder.
    Looks = GETATTR as isize,
    /// Listings of folders.
    Listings = READDIR as isize,
}

pub struct Fuse {
    /// Keeps the namespace; ends with its standard input.
    holder: Child,
    server: File,
    dead: Dead,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_alive: bool,
    /// Questions that wait.
    unanswered: Vec<u64>,
    /// The flags that FS_IOC_GETFLAGS returns for every file and folder.
    flags: u32,
}

impl Fuse {
    /// `None` where the kernel has no FUSE.
    pub fn mount(at: &Path, dead: Dead) -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        let server = device.try_clone().unwrap();
        // The descriptor goes to mount(8) as its standard error: nothing else of the child's may be a device.
        let script = "mount -i -t fuse -o fd=2,rootmode=40000,user_id=0,group_id=0,allow_other stockade \"$0\" && echo up && read -r _";
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(device)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "the file system could not be mounted");
        let state = Arc::<Mutex<State>>::default();
        let (seen, device) = (state.clone(), server.try_clone().unwrap());
        std::thread::spawn(move || serve(device, dead, &seen));
        Some(Self { holder, server, dead, state })
    }

    pub fn die(&self) {
        self.state.lock().unwrap().is_alive = false;
    }

    /// Answers what waits, and from now on everything.
    pub fn revive(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.is_alive = true;
        for unique in state.unanswered.drain(..) {
            let body = if let Dead::Listings = self.dead { Vec::new() } else { found(INNER) };
            answer(&mut self.server, unique, Ok(body));
        }
    }

    /// Inode flags of everything here.
    pub fn set_flags(&self, flags: u32) {
        self.state.lock().unwrap().flags = flags;
    }

    /// Runs a command where it is mounted.
    pub fn through(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--mount=/proc/{}/ns/mnt", self.holder.id())]
    }

    pub fn unanswered(&self) -> usize {
        self.state.lock().unwrap().unanswered.len()
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Little-endian fields, as the kernel lays them out.
struct Reply(Vec<u8>);

impl Reply {
    fn u32(mut self, values: &[u32]) -> Self {
        values.iter().for_each(|value| self.0.extend(value.to_ne_bytes()));
        self
    }

    fn u64(mut self, values: &[u64]) -> Self {
        values.iter().for_each(|value| self.0.extend(value.to_ne_bytes()));
        self
    }

    /// struct fuse_attr
    fn attr(self, node: u64) -> Self {
        let (mode, size) = if node == FILE { (0o100_644, 1 << 20) } else { (0o040_755, 0) };
        let times = [0; 3];
        self.u64(&[node, size, 0]).u64(&times).u32(&[0; 3]).u32(&[mode, 1, 0, 0, 0, 4096, 0])
    }
}

/// struct fuse_entry_out. Not to be remembered by the kernel: the next walk asks again.
fn found(child: u64) -> Vec<u8> {
    Reply(Vec::new()).u64(&[child, 0, 0, 0]).u32(&[0, 0]).attr(child).0
}

fn serve(mut device: File, dead: Dead, state: &Mutex<State>) {
    let mut buffer = vec![0; 1 << 17];
    while let Ok(len) = device.read(&mut buffer) {
        let request = &buffer[..len];
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (operation, unique, node) = (word(4), long(8), long(16));
        let mut state = state.lock().unwrap();
        if !state.is_alive && operation == dead as u32 && !(operation == LOOKUP && node == ROOT) {
            state.unanswered.push(unique);
            continue;
        }
        let flags = state.flags;
        drop(state);
        if operation == INTERRUPT {
            // Whoever waits is being killed; without an answer not even that would be possible.
            answer(&mut device, long(40), Err(EINTR));
            continue;
        }
        let body = Reply(Vec::new());
        let body = match operation {
            // Version 7.31, and sizes that no test reaches.
            INIT => Some(body.u32(&[7, 31, 1 << 16, 0]).u32(&[0, 1 << 16, 1, 0, 0]).u32(&[0; 7])),
            LOOKUP => Some(Reply(found(match (node, dead) {
                (ROOT, _) => FOLDER,
                (FOLDER, Dead::Names) => INNER,
                _ => FILE,
            }))),
            GETATTR => Some(body.u64(&[3600]).u32(&[0, 0]).attr(node)),
            // Without an answer to OPENDIR the kernel would keep listings.
            OPEN | OPENDIR => Some(body.u64(&[1]).u32(&[0, 0])),
            // struct fuse_ioctl_out, and the flags.
            IOCTL if word(52) == FS_IOC_GETFLAGS => Some(body.u32(&[0, 0, 0, 0, flags])),
            // No entries.
            READDIR => Some(body),
            _ => None,
        };
        answer(&mut device, unique, body.map(|body| body.0).ok_or(ENOSYS));
    }
}

fn answer(device: &mut File, unique: u64, body: Result<Vec<u8>, i32>) {
    let (error, body) = body.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
    let head = Reply(Vec::new()).u32(&[16 + body.len() as u32, error as u32]).u64(&[unique]);
    // Refused for requests that want no answer (FORGET), and for those that have had theirs.
    let _ = device.write_all(&[head.0, body].concat());
}
