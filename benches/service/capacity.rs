//! Many clients at once: nobody starves, and the machine is used.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    Bench, client,
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
    let (mut gains, mut tails, mut alone, mut together) = (vec![], vec![], vec![], vec![]);
    for _ in 0..bench.rounds.div_ceil(3) {
        let one = busy(&daemon, 1);
        let all = busy(&daemon, CONNECTIONS);
        gains.push(all.per_second / (one.per_second * cores));
        tails.push(all.worst_tail);
        alone.push(one.per_second);
        together.push(all.per_second);
    }
    report
        .row("64 connections: calls/s / (one × cores)", "×", Spread::of(&mut gains), Target::AtLeast(1.0))
        .note(format!("{:.0}/s, one alone {:.0}/s", quantile(&mut together, 0.5), quantile(&mut alone, 0.5)));
    report.row(
        "64 connections: worst p99 / p50 of a client",
        "×",
        Spread::of(&mut tails),
        Target::AtMost(10.0),
    );
}

struct Busy {
    per_second: f64,
    /// p99 / p50 of the client that fared worst.
    worst_tail: f64,
}

fn busy(daemon: &Daemon, connections: usize) -> Busy {
    let stop = AtomicBool::new(false);
    let mut clients: Vec<_> = (0..connections).map(|_| daemon.connect()).collect();
    let request = client::read_line(7, tree::SMALL_FILE);
    for client in &mut clients {
        client.call(&request);
        client.last();
    }
    daemon.settle();
    let start = Instant::now();
    let latencies: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(|| {
                    let mut taken = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        taken.append(&mut client.timed(&request, 1));
                    }
                    taken
                })
            })
            .collect();
        std::thread::sleep(ROUND);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let calls: usize = latencies.iter().map(Vec::len).sum();
    let worst_tail = latencies
        .into_iter()
        .map(|mut taken| quantile(&mut taken, 0.99) / quantile(&mut taken, 0.5))
        .fold(0.0, f64::max);
    drop(clients);
    // The workers of this round end before the next one asks for places.
    daemon.settle();
    Busy { per_second: calls as f64 / seconds, worst_tail }
}
