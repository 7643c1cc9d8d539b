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

/// All threads of these processes on CPU 0, or everywhere again.
pub fn place(pids: &[u32], one_cpu: bool) {
    let list = if one_cpu { "0".into() } else { format!("0-{}", cores_online() - 1) };
    for pid in pids {
        let done = Command::new("taskset").args(["-acp", &list, &pid.to_string()]).output();
        assert!(done.is_ok_and(|output| output.status.success()), "taskset is needed and allowed");
    }
}

/// Counted once, before anything is pinned.
fn cores_online() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(cores)
}
