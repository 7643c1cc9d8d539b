//! What one client feels of another that means no good.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{
    Bench, client,
    daemon::Daemon,
    report::{Report, Target},
    sample::{Spread, quantile},
    tree::{self, Tree},
};

/// Half a second and more: long enough that the scheduler settles, and 40 calls are worse than the p99.
const CALLS_PER_ROUND: usize = 4000;
/// As many as one connection may have open.
const AT_ONCE: usize = 64;

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let read = client::read_line(7, tree::SMALL_FILE);
    let mut victim = daemon.connect();
    victim.timed(&read, CALLS_PER_ROUND);
    let lines = |make: &dyn Fn(usize) -> Vec<u8>| (0..AT_ONCE).flat_map(make).collect::<Vec<u8>>();
    let reads = lines(&|id| client::read_line(id, tree::SMALL_FILE));
    let slow = lines(&|id| client::line(id, "coder::tree", "{\"path\":\".\",\"per_folder_limit\":1000}"));
    let neighbours: [(&str, &[u8], bool); 3] =
        [("floods", &reads, true), ("holds 64 slow calls", &slow, true), ("stops reading", &slow, false)];
    for (what, lines, takes_replies) in neighbours {
        let (mut tails, mut idle, mut alone, mut busy) = (vec![], vec![], vec![], vec![]);
        for _ in 0..bench.rounds.div_ceil(3) {
            let mut quiet = victim.timed(&read, CALLS_PER_ROUND);
            let p50 = quantile(&mut quiet, 0.5);
            alone.push(quantile(&mut quiet, 0.99));
            let mut during = beside(&daemon, lines, takes_replies, || victim.timed(&read, CALLS_PER_ROUND));
            let p99 = quantile(&mut during, 0.99);
            tails.push(p99 / p50);
            idle.push(p50);
            busy.push(p99);
        }
        let p50 = |samples: &mut Vec<f64>| quantile(samples, 0.5);
        let note = format!("{:.0} µs / {:.0} µs, p99 alone {:.0} µs", p50(&mut busy), p50(&mut idle), p50(&mut alone));
        let name = format!("a neighbour {what}: p99 of a read / idle p50");
        report.row(name, "×", Spread::of(&mut tails), Target::AtMost(10.0)).note(note);
    }
}

/// Runs `work` while another connection sends `lines` again and again, or once without ever reading. It has begun, and
/// the worker that takes its place in the pool has started, before the first call is timed.
fn beside<T>(daemon: &Daemon, lines: &[u8], takes_replies: bool, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let mut other = daemon.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if takes_replies {
                    other.send(lines);
                    other.receive(AT_ONCE);
                } else if !other.send_some(lines) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        });
        daemon.settle();
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}
