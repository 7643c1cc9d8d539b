//! One client, one call at a time: the latency an agent feels. Against an echo that does nothing.

use crate::{
    Bench,
    client::{self, Client},
    daemon::Daemon,
    echo::Echo,
    process,
    report::{Report, Target},
    sample::{Spread, interleave},
    tree::{self, Tree},
};

const CALLS_PER_ROUND: usize = 500;
const WARM_UP: usize = 200;

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let (mut ours, worker) = daemon.connect_to_known_worker();
    let request = client::read_line(7, tree::SMALL_FILE);
    let reply_bytes = ours.call(&request);
    ours.last();
    let echo = Echo::start(tree.dir(), reply_bytes);
    let mut theirs = Client::connect(&echo.socket);
    let me = std::process::id();
    let processes = [me, daemon.pid(), worker, echo.pid()];

    for (one_cpu, name, target, aim) in [(false, "free placement", 2.0, 1.5), (true, "one CPU", 4.0, 3.0)] {
        process::place(&processes, one_cpu);
        ours.timed(&request, WARM_UP);
        theirs.timed(&request, WARM_UP);
        let mut cpu = Cpu { pids: vec![me, daemon.pid(), worker], used: vec![Vec::new(); 3] };
        let mut echo_cpu = Cpu { pids: vec![me, echo.pid()], used: vec![Vec::new(); 2] };
        let compared = interleave(
            bench.rounds * 2,
            || cpu.during(|| ours.timed(&request, CALLS_PER_ROUND)),
            || echo_cpu.during(|| theirs.timed(&request, CALLS_PER_ROUND)),
        );
        report
            .row(format!("1 KiB read / echo, {name}"), "×", compared.ratio, Target::AtMost(target))
            .aim(aim)
            .note(format!("{:.1} µs / {:.1} µs", compared.ours.p50, compared.yardstick.p50));
        for (who, mut used) in ["client", "supervisor", "worker"].into_iter().zip(cpu.used) {
            report.row(format!("  CPU per read, {who}"), "µs", Spread::of(&mut used), Target::None);
        }
        for (who, mut used) in ["client", "echo"].into_iter().zip(echo_cpu.used) {
            report.row(format!("  CPU per echo, {who}"), "µs", Spread::of(&mut used), Target::None);
        }
    }
    process::place(&processes, false);
}

/// Microseconds of CPU per call, per process, per round.
struct Cpu {
    pids: Vec<u32>,
    used: Vec<Vec<f64>>,
}

impl Cpu {
    fn during(&mut self, work: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
        let before: Vec<f64> = self.pids.iter().map(|pid| process::cpu_us(*pid)).collect();
        let samples = work();
        for ((pid, before), used) in self.pids.iter().zip(before).zip(&mut self.used) {
            used.push((process::cpu_us(*pid) - before) / samples.len() as f64);
        }
        samples
    }
}
