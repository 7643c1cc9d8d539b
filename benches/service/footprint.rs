//! Memory of processes that have nothing to do.

use crate::{
    Bench, client,
    daemon::Daemon,
    process,
    report::{Report, Target},
    sample::Spread,
    tree::{self, Tree},
};

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let mib = |pid| Spread::exact(process::rss_kib(pid) / 1024.0);
    let pooled = process::children(daemon.pid()).into_iter().next().expect("the pool is warm");
    report.row("RSS of a worker in the pool", "MiB", mib(pooled), Target::AtMost(6.0));
    let (mut client, worker) = daemon.connect_to_known_worker();
    client.timed(&client::read_line(7, tree::SMALL_FILE), 100);
    client.last();
    daemon.settle();
    report.row("RSS of an idle worker after 100 reads", "MiB", mib(worker), Target::AtMost(6.0));
    report.row("RSS of the idle supervisor", "MiB", mib(daemon.pid()), Target::AtMost(8.0));
}
