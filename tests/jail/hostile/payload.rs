//! Runs as the worker: the steps of `worker::start`, then whatever the client on its connection orders.

use std::{
    ffi::CString,
    fmt::Write as _,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{Arc, Barrier},
};

use stockade::internals::{
    VERSION,
    broker::{
        codec::{ToSupervisor, ToWorker},
        setup::Setup,
    },
    confine::{self, escape, seccomp},
    path::Mode,
    sys::{
        process, raw,
        socket::{self, WaitMode},
        wake::WakeDescriptor,
    },
};

use super::attempts::{self, Target, call};

const MAX_SETUP_BYTES: usize = 192 << 10;
/// Beyond every number that a kernel has given out.
const SYSCALL_NUMBERS: i64 = 1024;
/// uretprobe and uprobe: the kernel (since 6.14) lets both past every filter, because its own trampolines make them. They
/// have a test of their own.
pub const UNFILTERED: [i64; 2] = if cfg!(target_arch = "x86_64") { [335, 336] } else { [-2, -2] };
/// A process of the 32-bit kind, but with 64-bit registers.
const X32: i64 = 0x4000_0000;

pub fn main() -> ! {
    let stream = get_confined();
    serve(stream.as_fd());
    std::process::exit(0)
}

/// As `worker::start::run` does it, with its own functions.
fn get_confined() -> OwnedFd {
    process::close_from(3).unwrap();
    // Stays open for as long as the process lives, as in a worker.
    Box::leak(Box::new(WakeDescriptor::new().unwrap()));
    raw::limit_malloc_arenas();
    process::die_with_parent().unwrap();
    let stdin = std::io::stdin();
    let supervisor = socket::peer_cred(&stdin).unwrap().pid;
    let (setup, roots) = receive_setup(stdin.as_fd());
    confine::confine_worker_before_threads(&setup, &roots).unwrap();
    start_threads(setup.threads);
    let probes = prove(&setup, roots, supervisor);
    let ready = ToSupervisor::Ready { version: VERSION.into(), escape_results: probes };
    socket::send(stdin.as_fd(), &ready.encode(), &[], WaitMode::Block).unwrap();
    let mut buffer = [0; 64];
    let mut received = socket::receive(stdin.as_fd(), &mut buffer, WaitMode::Block).unwrap();
    match received.fds.pop() {
        Some(stream) => stream,
        // The daemon ended before it had a client for us.
        None => std::process::exit(0),
    }
}

fn receive_setup(channel: BorrowedFd<'_>) -> (Setup, Vec<OwnedFd>) {
    let mut buffer = vec![0; MAX_SETUP_BYTES];
    let received = socket::receive(channel, &mut buffer, WaitMode::Block).unwrap();
    let Ok(ToWorker::Setup { json }) = ToWorker::decode(&buffer[..received.len]) else { std::process::exit(1) };
    (serde_json::from_slice(&json).unwrap(), received.fds)
}

fn start_threads(count: usize) {
    let all_run = Arc::new(Barrier::new(count + 1));
    for _ in 0..count {
        let all_run = all_run.clone();
        std::thread::spawn(move || {
            all_run.wait();
            loop {
                std::thread::park();
            }
        });
    }
    all_run.wait();
}

fn prove(setup: &Setup, roots: Vec<OwnedFd>, supervisor: i32) -> Vec<(u8, escape::AttemptResult)> {
    let read_only = setup.roots.iter().position(|root| root.mode == Mode::Ro);
    let descriptors = escape::worker_descriptors(&roots);
    let before = escape::AttemptContext {
        read_only_root: read_only.map(|index| roots[index].as_fd()),
        supervisor,
        descriptors: &descriptors,
    };
    let mut probes = escape::run_attempts(setup, true, &before);
    drop(roots);
    confine::confine_worker_threads(setup).unwrap();
    let after = escape::AttemptContext { read_only_root: None, supervisor, descriptors: &[] };
    probes.extend(escape::run_attempts(setup, false, &after));
    probes
}

/// One order per line; the answer is lines, too, and ends with `end`.
fn serve(stream: BorrowedFd<'_>) {
    let mut order = Vec::new();
    let mut byte = [0];
    while socket_receive(stream, &mut byte) {
        if byte[0] != b'\n' {
            order.push(byte[0]);
            continue;
        }
        let words: Vec<_> =
            order.split(|byte| *byte == b' ').map(|word| String::from_utf8(word.to_vec()).unwrap()).collect();
        let answer = obey(stream, &words) + "end\n";
        let mut rest = answer.as_bytes();
        while !rest.is_empty() {
            let sent = socket::send_stream(stream, rest, WaitMode::Block).unwrap();
            rest = &rest[sent..];
        }
        order.clear();
    }
}

fn socket_receive(stream: BorrowedFd<'_>, buffer: &mut [u8]) -> bool {
    // SAFETY: the buffer is live and as long as said.
    unsafe { libc::recv(stream.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) > 0 }
}

fn obey(stream: BorrowedFd<'_>, words: &[String]) -> String {
    match words[0].as_str() {
        "facts" => facts(),
        "attempts" => attempts(stream, &words[1..]),
        "every-syscall" => every_syscall(words[1] == ":rw"),
        "attribute" => attribute(&CString::new(words[1].as_str()).unwrap()),
        "look" => look(&CString::new(words[1].as_str()).unwrap()),
        "syscall" => format!("outcome {}\n", call(words[1].parse().unwrap(), &[])),
        #[cfg(target_arch = "x86_64")]
        "int80" => format!("went through: {}\n", attempts::int80()),
        other => format!("unknown order {other}\n"),
    }
}

fn facts() -> String {
    // F_GETFD and getpid are allowed.
    let open: Vec<_> = (0..1024).filter(|fd| call(libc::SYS_fcntl, &[*fd, libc::F_GETFD as usize]) == 0).collect();
    let variables = std::env::vars_os().count();
    format!("pid {}\ndescriptors {open:?}\nenvironment {variables}\n", std::process::id())
}

/// Metadata of any name: an O_PATH open is not Landlock's to refuse.
fn look(path: &std::ffi::CStr) -> String {
    match attempts::openat2(libc::AT_FDCWD, path, libc::O_PATH) {
        Err(errno) => format!("seen {errno}\n"),
        Ok(fd) => {
            // SAFETY: just opened, and nobody else's.
            let fd = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
            format!("seen 0 {}\n", rustix::fs::fstat(&fd).unwrap().st_size)
        }
    }
}

/// An attribute of any file that can be opened for reading.
fn attribute(path: &std::ffi::CStr) -> String {
    let outcome = attempts::with(path, libc::O_RDONLY, |fd| {
        call(libc::SYS_fsetxattr, &[fd, c"user.x".as_ptr() as usize, c"xyz".as_ptr() as usize, 3, 0])
    });
    format!("set {outcome}\n")
}

fn attempts(stream: BorrowedFd<'_>, words: &[String]) -> String {
    let [profile, outside, inside, supervisor, sibling, client] = words else { return "bad order\n".into() };
    let text = |path: &str| CString::new(path).unwrap();
    let target = Target {
        secret: text(&format!("{outside}/secret.txt")),
        outside: text(outside),
        file: text(&format!("{inside}/secret.txt")),
        inside: text(inside),
        processes: [supervisor, sibling, client].map(|pid| pid.parse().unwrap()),
        connection: stream.as_raw_fd(),
    };
    let mut answer = String::new();
    for attempt in attempts::all(attempts::On::of(profile)) {
        writeln!(answer, "{} {}", attempt.name, (attempt.run)(&target)).unwrap();
    }
    answer
}

/// Names every call that is neither listed nor refused; a listed one with conditions is made with arguments that break
/// all of them.
fn every_syscall(writable: bool) -> String {
    let mut odd = String::new();
    let mut tried = 0;
    let mut expect_refusal = |number: i64, argument: usize| {
        tried += 1;
        let outcome = call(number, &[argument; 6]);
        if outcome != libc::EPERM {
            writeln!(odd, "{number:#x} {outcome}").unwrap();
        }
    };
    for number in (0..SYSCALL_NUMBERS).filter(|number| !UNFILTERED.contains(number)) {
        let listed = seccomp::ALLOWED.iter().filter(|allowed| writable || !allowed.writable);
        match listed.clone().find(|allowed| allowed.number == number) {
            None => expect_refusal(number, 0),
            Some(allowed) if !allowed.when.is_empty() => expect_refusal(number, usize::MAX),
            Some(_) => {}
        }
        if cfg!(target_arch = "x86_64") {
            expect_refusal(X32 | number, 0);
        }
    }
    for number in [-1, i64::from(i32::MAX), i64::from(i32::MIN)] {
        expect_refusal(number, 0);
    }
    format!("{odd}tried {tried}\n")
}
