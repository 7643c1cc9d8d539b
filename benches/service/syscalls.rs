//! System calls per read. Counted, not timed: the one number here that noise cannot touch.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    Bench, client,
    daemon::Daemon,
    report::{Report, Target},
    sample::Spread,
    tree::{self, Tree},
};

const CALLS: usize = 2000;
const ATTACH: Duration = Duration::from_millis(400);

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let daemon = Daemon::start(&bench.bin, &tree, "stockade", None);
    let (mut client, worker) = daemon.connect_to_known_worker();
    let request = client::read_line(7, tree::SMALL_FILE);
    client.timed(&request, 100);
    for (who, pid) in [("supervisor", daemon.pid()), ("worker", worker)] {
        let out = tree.dir().join(format!("{who}.strace"));
        let strace = Command::new("strace")
            .args(["-c", "-f", "-U", "calls,name", "-o"])
            .arg(&out)
            .args(["-p", &pid.to_string()])
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut strace) = strace else {
            eprintln!("no strace: system calls are not counted");
            return;
        };
        std::thread::sleep(ATTACH);
        client.timed(&request, CALLS);
        let _ = Command::new("kill").args(["-INT", &strace.id().to_string()]).status();
        let _ = strace.wait();
        let mut counted = counts(&std::fs::read_to_string(&out).unwrap_or_default());
        counted.retain(|(calls, name)| name != "total" && *calls * 20 > CALLS);
        let total: usize = counted.iter().map(|(calls, _)| calls).sum();
        let per_call = |calls: usize| calls as f64 / CALLS as f64;
        let names: Vec<String> = counted
            .iter()
            .map(|(calls, name)| match per_call(*calls) {
                one if (0.9..1.1).contains(&one) => name.clone(),
                many => format!("{name}×{many:.1}"),
            })
            .collect();
        report
            .row(format!("system calls per read, {who}"), "", Spread::exact(per_call(total)), Target::None)
            .note(names.join(" "));
    }
}

/// Lines of `strace -c -U calls,name`.
fn counts(text: &str) -> Vec<(usize, String)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
        })
        .collect()
}
