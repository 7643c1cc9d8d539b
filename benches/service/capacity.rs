//! Many clients at once: nobody starves, and the machine is used.

use std::time::Duration;

use crate::{
    Bench, client,
    crowd::{self, Busy},
    daemon::Daemon,
    process,
    report::{Report, Target},
    sample::{Spread, quantile},
    tree::{self, Tree},
};

/// What one uid may have by default.
const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_millis(1500);

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let cores = process::cores() as f64;
    let (mut gains, mut alone, mut together) = (vec![], vec![], vec![]);
    let (mut tails, mut worst, mut medians) = (vec![], vec![], vec![]);
    for _ in 0..bench.rounds.div_ceil(3) {
        let one = busy(&daemon, 1);
        let all = busy(&daemon, CONNECTIONS);
        gains.push(all.per_second / (one.per_second * cores));
        tails.push(all.p99 / all.p50);
        worst.push(all.worst_tail);
        medians.push(all.p50);
        alone.push(one.per_second);
        together.push(all.per_second);
    }
    report
        .row("64 connections: calls/s / (one × cores)", "×", Spread::of(&mut gains), Target::AtLeast(1.0))
        .note(format!("{:.0}/s, one alone {:.0}/s", quantile(&mut together, 0.5), quantile(&mut alone, 0.5)));
    report
        .row("64 connections: p99 / p50", "×", Spread::of(&mut tails), Target::AtMost(10.0))
        .note(format!("p50 {:.0} µs", quantile(&mut medians, 0.5)));
    report.row("64 connections: worst p99 / p50 of a client", "×", Spread::of(&mut worst), Target::None);
}

fn busy(daemon: &Daemon, connections: usize) -> Busy {
    let mut clients: Vec<_> = (0..connections).map(|_| daemon.connect()).collect();
    let request = client::read_line(7, tree::SMALL_FILE);
    for client in &mut clients {
        client.call(&request);
        client.last();
    }
    daemon.settle();
    let busy = crowd::busy(clients.iter_mut().collect(), &request, ROUND);
    drop(clients);
    // The workers of this round end before the next one asks for places.
    daemon.settle();
    busy
}
