//! Two builds of the service in one run: what a change is worth, on a machine that is never the same twice.

use crate::{
    Bench, client,
    daemon::Daemon,
    process::{self, Place},
    report::{Report, Target},
    sample::{Spread, interleave},
    tree::{self, Tree},
};

const CALLS_PER_ROUND: usize = 300;

pub fn run(bench: &Bench, report: &mut Report) {
    let Some(other) = &bench.against else { return };
    let tree = Tree::plant();
    let new = Daemon::start(&bench.bin, &tree, "new", None);
    let old = Daemon::start(other, &tree, "old", None);
    let (mut ours, our_worker) = new.connect_to_known_worker();
    let (mut theirs, their_worker) = old.connect_to_known_worker();
    let request = client::read_line(7, tree::SMALL_FILE);
    let processes = [std::process::id(), new.pid(), our_worker, old.pid(), their_worker];
    for (place, name) in [(Place::Anywhere, "free placement"), (Place::Cpu(0), "one CPU")] {
        process::place(&processes, place);
        let watched: Vec<u32> = processes[1..].to_vec();
        let before: Vec<f64> = watched.iter().map(|pid| process::cpu_us(*pid)).collect();
        let compared = interleave(
            bench.rounds * 2,
            || ours.timed(&request, CALLS_PER_ROUND),
            || theirs.timed(&request, CALLS_PER_ROUND),
        );
        report
            .row(format!("1 KiB read / the other build, {name}"), "×", compared.ratio, Target::None)
            .note(format!("{:.1} µs / {:.1} µs", compared.ours.p50, compared.yardstick.p50));
        let calls = (bench.rounds * 2 * CALLS_PER_ROUND) as f64;
        let used: Vec<f64> = watched
            .iter()
            .zip(before)
            .map(|(pid, before)| (process::cpu_us(*pid) - before) / calls)
            .collect();
        for (who, ours, theirs) in [("supervisor", used[0], used[2]), ("worker", used[1], used[3])] {
            report
                .row(format!("  CPU per read, {who}"), "×", Spread::exact(ours / theirs), Target::None)
                .note(format!("{ours:.1} µs / {theirs:.1} µs"));
        }
    }
    process::place(&processes, Place::Anywhere);
}
