//! How long until the first reply: of a command that starts its own supervisor, and of a connection to a running one.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Bench,
    client::{self, Client},
    daemon::Daemon,
    report::{Report, Target},
    sample::{Spread, interleave},
    tree::Tree,
};

const STARTS_PER_ROUND: usize = 10;
/// A connection rate that the pool keeps up with.
const CALM: Duration = Duration::from_millis(40);
const CONNECTIONS: usize = 100;

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    cold(bench, &tree, report);
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let mut calm = connections(&daemon.socket, CALM);
    report.row("connect to first reply, pool warm", "µs", Spread::of(&mut calm), Target::AtMost(1000.0));
    let mut rush = connections(&daemon.socket, Duration::ZERO);
    report.row("connect to first reply, pool empty", "µs", Spread::of(&mut rush), Target::None);
}

fn cold(bench: &Bench, tree: &Tree, report: &mut Report) {
    let mut ours = Command::new(bench.bin.join("stockade"));
    ours.args(["call", "coder::info", "--root", "."]).current_dir(tree.root());
    ours.env("XDG_STATE_HOME", bench.work.join("state"));
    let mut theirs = Command::new("/bin/true");
    let compared = interleave(
        bench.rounds,
        || (0..STARTS_PER_ROUND).map(|_| executed(&mut ours)).collect(),
        || (0..STARTS_PER_ROUND).map(|_| executed(&mut theirs)).collect(),
    );
    report
        .row("stockade call coder::info --root . / /bin/true", "×", compared.ratio, Target::AtMost(15.0))
        .note(format!("{:.0} µs / {:.0} µs", compared.ours.p50, compared.yardstick.p50));
}

fn executed(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    let took = client::micros(start);
    assert!(status.success(), "{command:?} failed");
    took
}

fn connections(socket: &Path, pause: Duration) -> Vec<f64> {
    let info = client::line(1, "coder::info", "{}");
    (0..CONNECTIONS)
        .map(|_| {
            std::thread::sleep(pause);
            let start = Instant::now();
            let mut client = Client::connect(socket);
            client.call(&info);
            let took = client::micros(start);
            client.last();
            took
        })
        .collect()
}
