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
