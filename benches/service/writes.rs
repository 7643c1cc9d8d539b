//! What a change costs: against a plain program that reads, changes, writes and renames the same file with the same care,
//! and against one that writes the same new files.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Instant,
};

use crate::{
    Bench,
    client::{self, Client, micros},
    daemon::Daemon,
    process,
    report::{Report, Target},
    sample::{Spread, interleave},
    tree::Tree,
};

const LINES: usize = 2000;
const UPDATES_PER_ROUND: usize = 200;
const SYNCED_UPDATES_PER_ROUND: usize = 30;
const CREATES: usize = 500;

/// What is on disk before a change is acknowledged, as the policy says it.
#[derive(Clone, Copy, PartialEq)]
enum Durability {
    None,
    Fsync,
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fsync => "fsync",
        }
    }
}

pub fn run(bench: &Bench, report: &mut Report) {
    for durability in [Durability::None, Durability::Fsync] {
        let tree = Tree::plant();
        let name = durability.name();
        let policy = format!("durability = \"{name}\"\n[[root]]\npath = \"{}\"\n", tree.root().display());
        let daemon = Daemon::with_policy(&bench.bin, &tree, name, &policy);
        updates(bench, report, &tree, &daemon, durability);
        creates(bench, report, &tree, &daemon, durability);
    }
}

fn updates(bench: &Bench, report: &mut Report, tree: &Tree, daemon: &Daemon, durability: Durability) {
    let text: String = (0..LINES).map(|number| format!("    let line_{number} = \"some words of text\";\n")).collect();
    let (ours, theirs) = (tree.root().join("ours.rs"), tree.root().join("theirs.rs"));
    fs::write(&ours, &text).unwrap();
    fs::write(&theirs, &text).unwrap();
    let (mut client, worker) = daemon.connect_to_known_worker();
    // Two in turns, so that each changes something.
    let requests = [0, 1].map(|which| {
        let op =
            format!("{{\"op\":\"update_lines\",\"from_line\":1000,\"to_line\":1000,\"content\":\"changed {which}\"}}");
        client::line(7, "coder::update-file", &format!("{{\"files\":[{{\"path\":\"ours.rs\",\"ops\":[{op}]}}]}}"))
    });
    let service = [daemon.pid(), worker];
    let me = std::process::id();
    let count = if durability == Durability::None { UPDATES_PER_ROUND } else { SYNCED_UPDATES_PER_ROUND };
    let (mut wall, mut wall_plain) = (Vec::new(), Vec::new());
    let update = |client: &mut Client, wall: &mut Vec<f64>| {
        let before: f64 = service.iter().map(|pid| process::cpu_us(*pid)).sum();
        let times: Vec<f64> = (0..count)
            .map(|at| {
                timed(|| {
                    client.call(&requests[at % 2]);
                })
            })
            .collect();
        client.last();
        wall.push(median(times));
        (service.iter().map(|pid| process::cpu_us(*pid)).sum::<f64>() - before) / count as f64
    };
    let plain = |wall: &mut Vec<f64>| {
        let before = process::cpu_us(me);
        let times: Vec<f64> =
            (0..count).map(|at| timed(|| change_line(&theirs, &format!("changed {}", at % 2), durability))).collect();
        wall.push(median(times));
        (process::cpu_us(me) - before) / count as f64
    };
    update(&mut client, &mut Vec::new());
    let cpu = interleave(bench.rounds, || vec![update(&mut client, &mut wall)], || vec![plain(&mut wall_plain)]);
    let mut ratios: Vec<f64> = wall.iter().zip(&wall_plain).map(|(ours, theirs)| ours / theirs).collect();
    let name = format!("update 1 of {LINES} lines / plain, {}", durability.name());
    let targets = match durability {
        Durability::None => (Target::AtMost(3.0), Target::None),
        Durability::Fsync => (Target::None, Target::AtMost(1.2)),
    };
    report
        .row(format!("{name}: CPU"), "×", cpu.ratio, targets.0)
        .note(format!("{:.1} µs / {:.1} µs", cpu.ours.p50, cpu.yardstick.p50));
    report.row(format!("{name}: wall"), "×", Spread::of(&mut ratios), targets.1).note(format!(
        "{:.1} µs / {:.1} µs",
        median(wall),
        median(wall_plain)
    ));
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    micros(start)
}

fn median(mut values: Vec<f64>) -> f64 {
    Spread::of(&mut values).p50
}

fn change_line(path: &Path, new: &str, durability: Durability) {
    let text = fs::read(path).unwrap();
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let mut changed = Vec::with_capacity(text.len() + new.len());
    lines.by_ref().take(999).for_each(|line| changed.extend_from_slice(line));
    changed.extend_from_slice(new.as_bytes());
    changed.push(b'\n');
    lines.skip(1).for_each(|line| changed.extend_from_slice(line));
    write(path, &path.with_extension("tmp"), &changed, durability);
}

/// Whole or not at all, as anybody would do it who cares.
fn write(path: &Path, temporary: &Path, bytes: &[u8], durability: Durability) {
    let mut file = File::create_new(temporary).unwrap();
    file.write_all(bytes).unwrap();
    if durability == Durability::Fsync {
        file.sync_all().unwrap();
    }
    fs::rename(temporary, path).unwrap();
    if durability == Durability::Fsync {
        File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
    }
}

fn creates(bench: &Bench, report: &mut Report, tree: &Tree, daemon: &Daemon, durability: Durability) {
    let (mut client, _) = daemon.connect_to_known_worker();
    let rounds = if durability == Durability::None { bench.rounds } else { bench.rounds.div_ceil(3) };
    let content = "fn main() {}\\n";
    let files: Vec<String> =
        (0..CREATES).map(|at| format!("{{\"path\":\"new/file-{at}.rs\",\"content\":\"{content}\"}}")).collect();
    let folder = tree.root().join("new");
    for (kind, atomic, target) in [("", "", Target::AtMost(1.5)), (", atomic", ",\"atomic\":true", Target::None)] {
        let request = client::line(7, "coder::create-file", &format!("{{\"files\":[{}]{atomic}}}", files.join(",")));
        let fresh = || {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
        };
        let compared = interleave(
            rounds,
            || {
                fresh();
                let time = timed(|| {
                    client.call(&request);
                });
                client.last();
                vec![time / 1000.0]
            },
            || {
                fresh();
                vec![timed(|| plain_creates(&folder, durability)) / 1000.0]
            },
        );
        report
            .row(format!("{CREATES} creates / plain, {}{kind}: wall", durability.name()), "×", compared.ratio, target)
            .note(format!("{:.1} ms / {:.1} ms", compared.ours.p50, compared.yardstick.p50));
    }
}

fn plain_creates(folder: &Path, durability: Durability) {
    for at in 0..CREATES {
        let path = folder.join(format!("file-{at}.rs"));
        write(&path, &path.with_extension("tmp"), b"fn main() {}\n", durability);
    }
}
