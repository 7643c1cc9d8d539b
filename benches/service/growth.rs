//! How the cost of a call grows with what it looks at: files in a tree, bytes in a file. (Agents: `crowd`.)

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Bench, client,
    command::executed,
    corpus,
    json::quote,
    process,
    report::{Chart, Report, Target},
    sample::{Spread, Turns},
    search::THREADS,
    server::Server,
    task::{Kind, Task},
    tree::Tree,
};

pub const FILES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
pub const BYTES: [usize; 5] = [1 << 10, 32 << 10, 1 << 20, 32 << 20, 1 << 30];
const QUICK: usize = 2;
const LINES: usize = 40;
/// A peer that needs longer is not asked for ten times as much.
const PATIENCE_US: f64 = 3e6;
/// For one size of one race: on a slow or busy machine the largest sizes have fewer rounds, or none.
const STEP_US: f64 = 60e6;
/// What a call may cost in memory, however large the thing is.
const PEAK_MIB: f64 = 64.0;

pub fn files(bench: &Bench) -> &'static [usize] {
    if bench.quick { &FILES[..QUICK] } else { &FILES }
}

pub fn bytes(bench: &Bench) -> &'static [usize] {
    if bench.quick { &BYTES[..QUICK + 1] } else { &BYTES }
}

pub fn run(bench: &Bench, report: &mut Report) {
    let sockets = Tree::plant();
    in_files(bench, sockets.dir(), report);
    in_bytes(bench, sockets.dir(), report);
}

/// One thing that answers, and until when it keeps up.
enum Contestant {
    Server(Box<Server>, Vec<u8>),
    Program(Command),
}

impl Contestant {
    /// Microseconds, or why there is no answer.
    fn run(&mut self) -> Result<f64, String> {
        match self {
            Self::Server(server, line) => server.client.attempt(line).map(|(took, _)| took),
            Self::Program(command) => Ok(executed(command).0),
        }
    }
}

fn in_files(bench: &Bench, dir: &Path, report: &mut Report) {
    let mut names = Race::new("names in a tree", "files", "ms");
    let mut text = Race::new("text in a tree", "files", "ms");
    for &count in files(bench) {
        let root = corpus::folders(&bench.work, count);
        let glob = Task::Names { path: "", glob: "needle-*" };
        let mut contestants = vec![("socket", server(bench, Kind::Socket, &root, dir, &glob))];
        if let (Some(rg), Some(fd)) = (&bench.peers.ripgrep, &bench.peers.fd) {
            let mut files = Command::new(rg);
            files.args(["-uu", "-j", THREADS, "--files", "-g", "needle-*"]).arg(&root);
            let mut find = Command::new(fd);
            find.args(["-u", "-s", "-j", THREADS, "-t", "f", "-g", "needle-*"]).arg(&root);
            contestants.push(("rg --files", Some(Contestant::Program(files))));
            contestants.push(("fd", Some(Contestant::Program(find))));
        }
        contestants.extend(Kind::PEERS.map(|kind| (kind.name(), server(bench, kind, &root, dir, &glob))));
        let rounds = rounds_for(bench, count, 100_000);
        names.step(count, rounds, contestants, report);

        let needle = Task::Text { path: "", text: "no such text 7f3a" };
        let mut contestants = vec![("socket", server(bench, Kind::Socket, &root, dir, &needle))];
        if let Some(rg) = &bench.peers.ripgrep {
            let mut grep = Command::new(rg);
            grep.args(["-uu", "-j", THREADS, "-F", "no such text 7f3a"]).arg(&root);
            contestants.push(("ripgrep", Some(Contestant::Program(grep))));
        }
        contestants.push((Kind::RustMcp.name(), server(bench, Kind::RustMcp, &root, dir, &needle)));
        text.step(count, rounds, contestants, report);
    }
    names.end(Target::AtMost(1.0), &["rg --files", "fd"], report);
    text.end(Target::AtMost(1.0), &["ripgrep"], report);
}

fn in_bytes(bench: &Bench, dir: &Path, report: &mut Report) {
    let mut races = [
        Race::new("first 40 lines of a file", "bytes", "ms"),
        Race::new("last 40 lines of a file", "bytes", "ms"),
        Race::new("text in one file", "bytes", "ms"),
    ];
    for &size in bytes(bench) {
        let root = corpus::sized(&bench.work, size);
        let file = format!("{size}.txt");
        let rounds = rounds_for(bench, size, 1 << 28);
        let windows = [Task::Head { path: &file, lines: LINES }, Task::Tail { path: &file, lines: LINES }];
        for (race, task) in races.iter_mut().zip(&windows) {
            let kinds = [Kind::Socket, Kind::Reference, Kind::RustMcp];
            let contestants = kinds.map(|kind| (kind.name(), server(bench, kind, &root, dir, task)));
            race.step(size, rounds, contestants.into(), report);
        }
        let Some(rg) = &bench.peers.ripgrep else { continue };
        let path = root.join(&file);
        let params = format!(
            "{{\"paths\":[{}],\"query\":\"the needle\",\"search_paths\":false}}",
            quote(&path.to_string_lossy())
        );
        let ours = Server::start(Kind::Socket, bench, &root, dir)
            .map(|server| Contestant::Server(Box::new(server), client::line(7, "coder::search", &params)));
        let mut grep = Command::new(rg);
        grep.args(["--no-mmap", "-F", "the needle"]).arg(&path);
        races[2].step(
            size,
            rounds,
            vec![("socket", ours), ("rg --no-mmap", Some(Contestant::Program(grep)))],
            report,
        );
    }
    let [head, tail, text] = races;
    for race in [head, tail] {
        race.end(Target::AtMost(1.0), &Kind::PEERS.map(Kind::name), report);
    }
    text.end(Target::AtMost(1.1), &["rg --no-mmap"], report);
}

/// Fewer of those that take seconds.
fn rounds_for(bench: &Bench, size: usize, large: usize) -> usize {
    if size >= large { bench.rounds.div_ceil(4) } else { bench.rounds.div_ceil(2) }
}

fn server(bench: &Bench, kind: Kind, root: &Path, dir: &Path, task: &Task<'_>) -> Option<Contestant> {
    let root: PathBuf = std::fs::canonicalize(root).unwrap();
    let server = Server::start(kind, bench, &root, dir)?;
    let line = server.request(7, task)?;
    Some(Contestant::Server(Box::new(server), line))
}

/// The same work at growing sizes.
struct Race {
    chart: Chart,
    /// Of the last size that was run.
    last: Vec<(&'static str, usize, Turns, usize)>,
    given_up: Vec<&'static str>,
    peak_mib: f64,
    /// What one round of the size before took, and that size.
    before: Option<(f64, usize)>,
}

impl Race {
    fn new(title: &'static str, x: &'static str, unit: &'static str) -> Self {
        Self {
            chart: Chart::new(title, x, unit),
            last: vec![],
            given_up: vec![],
            peak_mib: 0.0,
            before: None,
        }
    }

    fn step(
        &mut self,
        size: usize,
        rounds: usize,
        contestants: Vec<(&'static str, Option<Contestant>)>,
        report: &mut Report,
    ) {
        let expected = self.before.map_or(0.0, |(took, at)| took * size as f64 / at as f64);
        // One more to warm up.
        let rounds = rounds.min((STEP_US / expected) as usize).max(1);
        if expected > STEP_US {
            let why = format!("a round would take {:.0} s", expected / 1e6);
            return report.absent(&format!("{}, {} {}", self.chart.title, grouped(size), self.chart.x), why);
        }
        let mut ready: Vec<(&'static str, Contestant)> = Vec::new();
        for (name, contestant) in contestants {
            let Some(mut contestant) = contestant else { continue };
            if self.given_up.contains(&name) {
                continue;
            }
            // Warm, and able to do it.
            match contestant.run() {
                Ok(took) => {
                    if took > PATIENCE_US && name != "socket" && !matches!(contestant, Contestant::Program(_))
                    {
                        self.given_up.push(name);
                        let why = format!("{:.1} s for {size}; not asked for more", took / 1e6);
                        report.absent(&format!("{}: {name}", self.chart.title), why);
                    }
                    ready.push((name, contestant));
                }
                Err(why) => {
                    assert!(name != "socket", "{}: {why}", self.chart.title);
                    self.given_up.push(name);
                    report.absent(
                        &format!("{}: {name}", self.chart.title),
                        format!("fails at {size} {}: {why}", self.chart.x),
                    );
                }
            }
        }
        let turns =
            Turns::take(rounds, ready.len(), |who| vec![ready[who].1.run().expect("it could before")]);
        let going_on = (0..ready.len()).filter(|who| !self.given_up.contains(&ready[*who].0));
        self.before = Some((going_on.map(|who| turns.of(who).p50).sum(), size));
        for (who, (name, _)) in ready.iter().enumerate() {
            self.chart.point(name, size as f64, turns.of(who).scaled(1e-3));
        }
        if let Some((_, Contestant::Server(server, _))) = ready.first() {
            self.peak_mib = process::peak_mib(server.pid());
        }
        let names: Vec<&'static str> = ready.iter().map(|(name, _)| *name).collect();
        self.note_ratios(size, &names, &turns);
    }

    fn note_ratios(&mut self, size: usize, names: &[&'static str], turns: &Turns) {
        for (who, name) in names.iter().enumerate().skip(1) {
            self.last.retain(|(known, ..)| known != name);
            self.last.push((name, size, turns.clone(), who));
        }
    }

    /// Rows for the largest size that both did, and the chart.
    fn end(self, target: Target, compared: &[&str], report: &mut Report) {
        for (name, size, turns, who) in &self.last {
            let target = if compared.contains(name) { target } else { Target::AtMost(1.0) };
            report
                .row(
                    format!("{}, {} {}: socket / {name}", self.chart.title, grouped(*size), self.chart.x),
                    "×",
                    turns.ratio(0, *who),
                    target,
                )
                .note(format!("{:.2} / {:.2} ms", turns.of(0).p50 / 1e3, turns.of(*who).p50 / 1e3));
        }
        let row = format!("{}: most memory of a process of ours", self.chart.title);
        report.row(row, "MiB", Spread::exact(self.peak_mib), Target::AtMost(PEAK_MIB));
        report.chart(self.chart);
    }
}

fn grouped(number: usize) -> String {
    match number {
        n if n >= 1 << 20 && n.is_power_of_two() => format!("{} Mi", n >> 20),
        n if n >= 1 << 10 && n.is_power_of_two() => format!("{} Ki", n >> 10),
        n => n.to_string(),
    }
}
