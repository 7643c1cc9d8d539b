//! What a client gains by not waiting: calls sent ahead, and many files in one call.

use std::time::Instant;

use crate::{
    Bench,
    client::{self, Client},
    daemon::Daemon,
    report::{Report, Target},
    sample::{Spread, interleave, quantile},
    tree::{self, BATCH_PATHS, Tree},
};

const DEPTHS: [usize; 3] = [1, 8, 64];
const CALLS: usize = 1280;
const BATCHES: usize = 30;

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let mut client = daemon.connect();
    let mut rates = DEPTHS.map(|_| Vec::new());
    for _ in 0..bench.rounds {
        for (depth, rates) in DEPTHS.into_iter().zip(&mut rates) {
            rates.push(pipelined(&mut client, depth));
        }
    }
    let single = quantile(&mut rates[0], 0.5);
    for (depth, mut rates) in DEPTHS.into_iter().zip(rates) {
        let gain = quantile(&mut rates, 0.5) / single;
        report
            .row(format!("pipelined 1 KiB reads, depth {depth}"), "/s", Spread::of(&mut rates), Target::None)
            .note(format!("{gain:.1}× depth 1"));
    }
    let one: Vec<String> = (0..BATCH_PATHS).map(|file| format!("\"one/file-{file}.rs\"")).collect();
    let many: Vec<String> = (0..BATCH_PATHS).map(|dir| format!("\"many/dir-{dir}/file.rs\"")).collect();
    let single_read = client::read_line(7, tree::SMALL_FILE);
    let mut singles = daemon.connect();
    for (name, paths) in [("one parent", one), ("100 parents", many)] {
        let batch = client::line(7, "coder::read-file", &format!("{{\"paths\":[{}]}}", paths.join(",")));
        client.call(&batch);
        client.last();
        let compared = interleave(
            bench.rounds,
            || client.timed(&batch, BATCHES),
            || singles.timed(&single_read, BATCHES * 10).into_iter().map(|us| us * BATCH_PATHS as f64).collect(),
        );
        report
            .row(format!("batch of 100 reads / 100 single ones, {name}"), "×", compared.ratio, Target::None)
            .note(format!("{:.0} µs a batch", compared.ours.p50));
    }
}

/// Calls per second with `depth` calls always sent together.
fn pipelined(client: &mut Client, depth: usize) -> f64 {
    let lines: Vec<u8> = (0..depth).flat_map(|id| client::read_line(id, tree::SMALL_FILE)).collect();
    client.send(&lines);
    client.receive(depth);
    client.last();
    let start = Instant::now();
    for _ in 0..CALLS / depth {
        client.send(&lines);
        client.receive(depth);
    }
    CALLS as f64 / start.elapsed().as_secs_f64()
}
