//! What the jail itself costs: the same build and the same resolver, with Landlock and seccomp on and off.

use crate::{
    Bench, client,
    daemon::Daemon,
    process::{self, Place},
    report::{Report, Target},
    sample::interleave,
    tree::{self, Tree},
};

pub fn run(bench: &Bench, report: &mut Report) {
    if !bench.has_weakened(report) {
        return;
    }
    let tree = Tree::plant();
    let confined = Daemon::start(&bench.weakened, &tree, "confined", Some(""));
    let open = Daemon::start(&bench.weakened, &tree, "open", Some("landlock,seccomp"));
    let (mut ours, our_worker) = confined.connect_to_known_worker();
    let (mut theirs, their_worker) = open.connect_to_known_worker();
    let list = format!("{{\"path\":\"{}\",\"page_size\":{}}}", tree::LISTED, tree::LISTED_ENTRIES);
    let cases = [
        ("read, 1 KiB", client::read_line(7, tree::SMALL_FILE), 400),
        ("list, 1,000 entries", client::line(7, "coder::list-folder", &list), 40),
    ];
    // On one CPU: where the scheduler puts three processes is worth more than what is measured here.
    let processes = [std::process::id(), confined.pid(), our_worker, open.pid(), their_worker];
    process::place(&processes, Place::Cpu(0));
    for (name, request, calls) in cases {
        for client in [&mut ours, &mut theirs] {
            client.timed(&request, calls);
            client.last();
        }
        let compared = interleave(bench.rounds * 2, || ours.timed(&request, calls), || theirs.timed(&request, calls));
        report
            .row(format!("confined / not confined: {name}"), "×", compared.ratio, Target::AtMost(1.10))
            .note(format!("{:.1} µs / {:.1} µs", compared.ours.p50, compared.yardstick.p50));
    }
    process::place(&processes, Place::Anywhere);
}
