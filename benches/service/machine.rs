//! Where the run took place. Numbers without it say nothing.

use std::fs;

use crate::{process, report::Report};

pub fn report(report: &mut Report) {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, model)| model);
    report.fact("machine", format!("{} × {model}, Linux {}", process::cores_online(), kernel()));
    report.fact("load average before", load());
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into()
}

/// Of one, five and fifteen minutes.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
