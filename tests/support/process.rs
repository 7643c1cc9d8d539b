//! Reads the state of a process from the kernel, and stops, continues or kills processes.

use std::{
    fs,
    io::Write,
    time::{Duration, Instant},
};

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use super::Client;

/// How long a process may take to end or to appear on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// True while any thread of the process runs: the first thread may be a zombie while others still hold descriptors and locks.
pub fn is_alive(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        fs::read_to_string(thread.path().join("stat"))
            .is_ok_and(|stat| !matches!(stat.rsplit(") ").next().unwrap().as_bytes()[0], b'Z' | b'X'))
    })
}

/// Needs root for the processes of the service, because they are not dumpable.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap_or_else(|error| panic!("descriptors of {pid}: {error}")).count()
}

/// Like `open_files`, but waits until the number stays the same, so that descriptors of work that has just ended are closed.
pub fn settled_open_files(pid: u32) -> usize {
    let mut last = open_files(pid);
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(100) {
        std::thread::sleep(Duration::from_millis(5));
        let now = open_files(pid);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

pub fn resident_bytes(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Ticks since the machine started, when this process did.
pub fn started(pid: u32) -> u64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0 };
    stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap()
}

/// User and system time of all threads. The kernel counts in hundredths of a second.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// The number of context switches of all threads of the process.
pub fn switches(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let count = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("status")).unwrap();
        let lines = text.lines().filter(|line| line.contains("ctxt_switches"));
        lines.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    tasks.map(|task| count(task.unwrap())).sum()
}

/// A line of `/proc/PID/status`, without its name: `status(pid, "Uid")` → `["0", "0", "0", "0"]`.
pub fn status(pid: u32, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.split_whitespace().map(Into::into).collect()
}

pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Polls until `done`; how long it took.
#[track_caller]
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}

/// Until it stands still (true) or has answered (false).
pub fn stands_still(worker: u32, client: &mut Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let mut answered = false;
    let mut stopped = false;
    eventually("the worker stops or answers", || {
        let state = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stopped = state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
        let peeked = rustix::net::recv(
            &client.stream,
            &mut [0u8; 1],
            rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT,
        );
        answered = matches!(peeked, Ok((_, len)) if len > 0);
        stopped || answered
    });
    client.stream.set_nonblocking(false).unwrap();
    client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stopped
}

/// Lets a worker that stops at every step come to its end.
pub fn resume_to_the_end(worker: u32) {
    eventually("the worker ends", || {
        // It may be gone by now.
        let _ = kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::CONT);
        !is_alive(worker)
    });
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reports what is not tested here, and why. `scripts/test` counts these lines, and fails because of them where `CI=true`.
pub fn skip(what: &str) {
    say(&format!("skipped: {what}"));
}

/// Shown by `scripts/test`, and no skip: the claim is tested in another way as well.
pub fn note(what: &str) {
    say(&format!("note: {what}"));
}

/// Writes to standard error directly, because the harness hides `eprintln!` if a test passes. Begins a new line, because the
/// harness writes dots.
fn say(line: &str) {
    std::io::stderr().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

/// True if the test can run; otherwise prints that it is skipped. Fails if root is promised (`STOCKADE_TEST_REQUIRE_ROOT`).
#[must_use]
pub fn runs_as_root(test: &str) -> bool {
    if !is_root() {
        assert!(std::env::var_os("STOCKADE_TEST_REQUIRE_ROOT").is_none(), "{test} has to run as root");
        skip(&format!("{test} needs root"));
    }
    is_root()
}

/// The nice value of this process, which the programs that a test starts inherit.
pub fn own_nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap()
}

/// The nice value and the used CPU ticks of each thread.
pub fn threads(pid: u32) -> Vec<(i32, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let numbers = |stat: String| {
        let fields: Vec<i64> =
            stat.rsplit(") ").next().unwrap().split(' ').map(|n| n.trim().parse().unwrap_or(0)).collect();
        (fields[16] as i32, (fields[11] + fields[12]) as u64)
    };
    stats.map(numbers).collect()
}
