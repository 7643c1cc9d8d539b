//! One client, one call at a time: the latency an agent feels. Against an echo that does nothing.

use crate::{
    Bench,
    client::{self, Client},
    daemon::Daemon,
    echo::Echo,
    process::{self, Place},
    report::{Report, Target},
    sample::{Spread, interleave},
    tree::{self, Tree},
};

const CALLS_PER_ROUND: usize = 500;
/// Where the scheduler decides: enough calls to settle. In the first 100 ms a side still runs where the other one has
/// left the two CPUs (an echo of 5 µs after a busy service, of 60 µs by itself).
pub const CALLS_TO_SETTLE: usize = 20_000;
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

    // On two CPUs the echo, too, pays for waking another processor, which the scheduler may spare it and not us.
    let placements = [
        ("free placement", Place::Anywhere, Place::Anywhere, Target::AtMost(2.0), 1.5),
        ("client and service apart", Place::Cpu(0), Place::Cpu(1), Target::AtMost(2.0), 1.5),
        ("one CPU", Place::Cpu(0), Place::Cpu(0), Target::AtMost(4.0), 3.0),
    ];
    for (name, client, service, target, aim) in placements {
        if service == Place::Cpu(1) && process::cores_online() < 2 {
            continue;
        }
        let (calls, rounds) = match service {
            Place::Anywhere => (CALLS_TO_SETTLE, bench.rounds.div_ceil(3)),
            Place::Cpu(_) => (CALLS_PER_ROUND, bench.rounds * 2),
        };
        process::place(&processes[..1], client);
        process::place(&processes[1..], service);
        ours.timed(&request, WARM_UP);
        theirs.timed(&request, WARM_UP);
        let mut cpu = Cpu::of(&[me, daemon.pid(), worker]);
        let mut echo_cpu = Cpu::of(&[me, echo.pid()]);
        let compared = interleave(
            rounds,
            || cpu.during(|| ours.timed(&request, calls)),
            || echo_cpu.during(|| theirs.timed(&request, calls)),
        );
        report
            .row(format!("1 KiB read / echo, {name}"), "×", compared.ratio, target)
            .aim(aim)
            .note(format!("{:.1} µs / {:.1} µs", compared.ours.p50, compared.yardstick.p50));
        cpu.report(report, "read", &["client", "supervisor", "worker"]);
        echo_cpu.report(report, "echo", &["client", "echo"]);
    }
    process::place(&processes, Place::Anywhere);
}

/// What each process spends on a call.
struct Cpu {
    pids: Vec<u32>,
    /// Microseconds per call, one per round.
    used: Vec<Vec<f64>>,
    switches: Vec<f64>,
    calls: f64,
}

impl Cpu {
    fn of(pids: &[u32]) -> Self {
        Self { pids: pids.into(), used: vec![vec![]; pids.len()], switches: vec![0.0; pids.len()], calls: 0.0 }
    }

    fn during(&mut self, work: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
        let spent = |pid: &u32| (process::cpu_us(*pid), process::switches(*pid));
        let before: Vec<(f64, f64)> = self.pids.iter().map(spent).collect();
        let samples = work();
        let calls = samples.len() as f64;
        for (index, (pid, (cpu, switches))) in self.pids.iter().zip(before).enumerate() {
            let after = spent(pid);
            self.used[index].push((after.0 - cpu) / calls);
            self.switches[index] += after.1 - switches;
        }
        self.calls += calls;
        samples
    }

    fn report(self, report: &mut Report, what: &str, names: &[&str]) {
        for ((name, mut used), switches) in names.iter().zip(self.used).zip(self.switches) {
            report
                .row(format!("  CPU per {what}, {name}"), "µs", Spread::of(&mut used), Target::None)
                .note(format!("{:.2} switches", switches / self.calls));
        }
    }
}
