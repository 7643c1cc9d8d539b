//! What `/proc` says about a process, and where it may run.

use std::{collections::HashSet, fs, process::Command};

/// Microseconds of CPU that all threads of a process have used. Exact to the last switch, not to the tick.
pub fn cpu_us(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let nanos: f64 = tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .sum();
    nanos / 1000.0
}

/// How often the threads of a process have left a CPU, by their own will or not.
pub fn switches(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .map(|status| {
            let counts = status.lines().filter(|line| line.contains("voluntary_ctxt_switches:"));
            counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum::<f64>()
        })
        .sum()
}

pub fn rss_kib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub fn children(pid: u32) -> HashSet<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Where the threads of some processes may run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Anywhere,
    Cpu(usize),
}

pub fn place(pids: &[u32], place: Place) {
    let list = match place {
        Place::Anywhere => format!("0-{}", cores_online() - 1),
        Place::Cpu(number) => number.to_string(),
    };
    for pid in pids {
        let done = Command::new("taskset").args(["-acp", &list, &pid.to_string()]).output();
        assert!(done.is_ok_and(|output| output.status.success()), "taskset is needed and allowed");
    }
}

/// Counted once, before anything is pinned.
pub fn cores_online() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(cores)
}

/// A process with all below it.
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        let threads = fs::read_dir(format!("/proc/{}/task", all[next])).into_iter().flatten().flatten();
        // Children belong to the thread that made them.
        let below = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let below: Vec<u32> = below.flat_map(|text| numbers(&text)).collect();
        all.extend(below);
        next += 1;
    }
    all
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Microseconds of CPU of a process and all below it that live.
pub fn family_cpu_us(pid: u32) -> f64 {
    family(pid).into_iter().filter(|pid| fs::exists(format!("/proc/{pid}")).unwrap_or(false)).map(cpu_us).sum()
}

/// Microseconds of CPU of all children that have ended, to the clock tick (10 ms).
pub fn ended_children_cpu_us() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("this process lives");
    let (_, after_name) = stat.rsplit_once(')').expect("a process has a name");
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // cutime and cstime, fields 16 and 17 of proc_pid_stat(5); the first one here is field 3.
    let ticks: f64 = fields[13..15].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks * 10_000.0
}

/// Memory that a process has for itself, and its share of what it has together with others. None without the right
/// to look.
pub fn pss_kib(pid: u32) -> Option<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// RSS and PSS in MiB of processes with all below them.
pub fn memory_mib(pids: &[u32]) -> (f64, Option<f64>) {
    let all: Vec<u32> = pids.iter().flat_map(|pid| family(*pid)).collect();
    let rss: f64 = all.iter().map(|pid| rss_kib(*pid)).sum();
    let pss: Option<f64> = all.iter().map(|pid| pss_kib(*pid)).sum();
    (rss / 1024.0, pss.map(|kib| kib / 1024.0))
}

/// The most memory that any process of a family has ever had.
pub fn peak_mib(pid: u32) -> f64 {
    let peak = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    family(pid).into_iter().filter_map(peak).fold(0.0, f64::max) / 1024.0
}
