//! What the bridge adds to the socket of the same daemon, one call at a time: where the scheduler has settled, and on one
//! CPU, where it has nothing to decide. Explains the rows of `peers`, which have the targets.

use crate::{
    Bench,
    daemon::Daemon,
    process::{self, Place},
    report::{Report, Target},
    sample::Turns,
    sequential::CALLS_TO_SETTLE,
    server::{self, Server},
    task::{Kind, Task},
    tree::{self, Tree},
};

const CALLS_PER_ROUND: usize = 1000;

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let root = tree.root();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let mut socket = daemon.connect();
    let Some(mut bridge) = Server::bridge_to(&daemon, bench, &root, tree.dir()) else {
        return report.absent("bridge", "this build does not speak MCP");
    };
    let read = Task::Read(tree::SMALL_FILE);
    let lines = [Kind::Socket, Kind::Bridge].map(|kind| server::request(kind, &root, 7, &read).expect("both can read"));
    let placements = [
        ("free placement", Place::Anywhere, CALLS_TO_SETTLE, bench.rounds.div_ceil(3)),
        ("one CPU", Place::Cpu(0), CALLS_PER_ROUND, bench.rounds * 2),
    ];
    for (name, place, calls, rounds) in placements {
        daemon.settle();
        // With workers that wait for a client: the next one may be among them.
        let mut processes = vec![std::process::id(), bridge.pid()];
        processes.extend(process::family(daemon.pid()));
        process::place(&processes, place);
        let turns = Turns::take(rounds, 2, |who| match who {
            0 => socket.timed(&lines[0], calls),
            _ => bridge.client.timed(&lines[1], calls),
        });
        socket.last();
        bridge.client.last();
        let note = format!("{:.1} µs / {:.1} µs", turns.of(1).p50, turns.of(0).p50);
        let row = format!("1 KiB read: stockade mcp / socket, {name}");
        report.row(row, "×", turns.ratio(1, 0), Target::None).note(note);
        process::place(&processes, Place::Anywhere);
    }
}
