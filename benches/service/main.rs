//! Measures the running service against yardsticks of the same run: an echo over the same kind of socket, the same
//! build with its confinement off, `/bin/true`, ripgrep and fd, and the file servers that agents use today. Ratios
//! only: the machine is never the same twice.
//!
//! Runs outside the jail, as the user who calls it, and needs nothing but std: `scripts/bench` compiles it with a bare
//! `rustc`, so that no crate of the service is built twice for it. `cargo clippy --all-targets` sees it as a bench.
#![allow(missing_debug_implementations, clippy::unwrap_used, reason = "a driver: what it cannot do ends it")]

mod client;
mod command;
mod corpus;
mod daemon;
mod echo;
mod install;
mod json;
mod machine;
mod process;
mod race;
mod sample;
mod server;
mod task;
mod tree;

mod html;
mod plot;
mod report;

mod against;
mod bridge;
mod capacity;
mod confinement;
mod crowd;
mod footprint;
mod growth;
mod neighbour;
mod peers;
mod pipeline;
mod search;
mod sequential;
mod start;
mod syscalls;
mod writes;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::Instant,
};

use corpus::Corpus;
use install::Peers;
use report::Report;
use server::Server;
use task::Kind;
use tree::Tree;

const USAGE: &str = "\
usage: service --bin DIR --weakened DIR --work DIR [--against DIR] [--only MEASURE]... [--rounds N] [--quick]

  --bin DIR        stockaded, stockade-worker and stockade of the release build
  --weakened DIR   the same of the build whose layers can be switched off
  --work DIR       where peers and corpora are kept, and the report goes (report.json, report.html)
  --against DIR    another release build to compare the first one with
  --only MEASURE   sequential, confinement, start, footprint, capacity, neighbour, pipeline, syscalls,
                   writes, bridge, peers, search, crowd, growth, against; default all
  --rounds N       interleaved rounds of each comparison; default 12
  --quick          a minute: 2 rounds, 8 agents instead of 64, only the small sizes
";

/// What all measures are given.
pub struct Bench {
    pub bin: PathBuf,
    pub weakened: PathBuf,
    pub work: PathBuf,
    pub against: Option<PathBuf>,
    pub rounds: usize,
    pub quick: bool,
    pub peers: Peers,
    /// Sources of crates. Or why there are none.
    pub corpus: Result<Corpus, String>,
    /// Sources of the Linux kernel. Or why there are none.
    pub kernel: Result<Corpus, String>,
}

impl Bench {
    /// Whether there is a build whose layers can be switched off; without one a row says so.
    pub fn has_weakened(&self, report: &mut Report) -> bool {
        let has = self.weakened.join("stockaded").exists();
        if !has {
            report.absent("confined / not confined", "no build whose layers can be switched off");
        }
        has
    }

    /// The same run with another build's programs, for what needs no peers.
    pub fn with_programs(&self, bin: &std::path::Path) -> Self {
        Self {
            bin: bin.into(),
            weakened: self.weakened.clone(),
            work: self.work.clone(),
            against: None,
            rounds: self.rounds,
            quick: self.quick,
            peers: Peers::default(),
            corpus: Err("not asked for".into()),
            kernel: Err("not asked for".into()),
        }
    }

    /// Whether this build speaks MCP.
    pub fn has_bridge(&self) -> bool {
        static HAS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *HAS.get_or_init(|| {
            let help = std::process::Command::new(self.bin.join("stockade")).args(["mcp", "--help"]).output();
            help.is_ok_and(|output| output.status.success())
        })
    }
}

/// What has to be there before the clock runs.
#[derive(PartialEq, Eq)]
enum Need {
    Peers,
    Crates,
    Kernel,
    Sizes,
}

struct Measure {
    name: &'static str,
    title: &'static str,
    run: fn(&Bench, &mut Report),
    needs: &'static [Need],
}

const fn measure(
    name: &'static str,
    title: &'static str,
    run: fn(&Bench, &mut Report),
    needs: &'static [Need],
) -> Measure {
    Measure { name, title, run, needs }
}

const MEASURES: [Measure; 15] = [
    measure("sequential", "A read against an echo that does nothing", sequential::run, &[]),
    measure("confinement", "What the jail costs", confinement::run, &[]),
    measure("start", "Until the first reply", start::run, &[]),
    measure("footprint", "Memory of idle processes", footprint::run, &[]),
    measure("capacity", "64 connections", capacity::run, &[]),
    measure("neighbour", "Beside somebody who means no good", neighbour::run, &[]),
    measure("pipeline", "Calls sent ahead", pipeline::run, &[]),
    measure("syscalls", "System calls", syscalls::run, &[]),
    measure("writes", "Changes, against a plain program with the same care", writes::run, &[]),
    measure("bridge", "What MCP adds to the socket", bridge::run, &[]),
    measure("peers", "What agents do, against the MCP file servers", peers::run, &[Need::Peers]),
    measure(
        "search",
        "Search, against ripgrep, fd and the MCP file servers",
        search::run,
        &[Need::Peers, Need::Crates, Need::Kernel],
    ),
    measure("crowd", "Many agents at once", crowd::run, &[Need::Peers]),
    measure("growth", "Large trees and large files", growth::run, &[Need::Peers, Need::Sizes]),
    measure("against", "Against another build", against::run, &[Need::Crates]),
];

fn main() {
    let (mut bench, only) = arguments();
    let wanted: Vec<&Measure> =
        MEASURES.iter().filter(|measure| only.is_empty() || only.iter().any(|name| name == measure.name)).collect();
    prepare(&mut bench, &wanted);

    let mut report = Report::default();
    machine::report(&mut report);
    report.begin("peers");
    bench.peers.report(&mut report);
    for (name, corpus) in [("sources of crates", &bench.corpus), ("sources of the kernel", &bench.kernel)] {
        if let Ok(corpus) = corpus {
            report.fact(name, format!("{} files, {:.0} MB", corpus.files, corpus.megabytes));
        }
    }
    let begin = Instant::now();
    for measure in wanted {
        let since = Instant::now();
        report.begin(measure.name);
        eprint!("{} … ", measure.name);
        // One that cannot be taken does not cost the others.
        if catch_unwind(AssertUnwindSafe(|| (measure.run)(&bench, &mut report))).is_err() {
            report.absent(measure.name, "did not come to its end; what it said is above the table");
        }
        eprintln!("{:.0} s", since.elapsed().as_secs_f64());
        // Whoever loses patience has what was measured until then.
        write(&bench, &report);
    }
    let seconds = begin.elapsed().as_secs_f64();
    report
        .fact("took", format!("{seconds:.0} s, {} rounds; load average {} at the end", bench.rounds, machine::load()));
    print!("{}", report.table());
    write(&bench, &report);
    eprintln!("{}", bench.work.join("report.html").display());
}

fn write(bench: &Bench, report: &Report) {
    let titles: Vec<(&str, &str)> = MEASURES.iter().map(|measure| (measure.name, measure.title)).collect();
    std::fs::write(bench.work.join("report.json"), report.json()).unwrap();
    std::fs::write(bench.work.join("report.html"), html::page(report, &titles)).unwrap();
}

/// The clock of the run does not count this.
fn prepare(bench: &mut Bench, wanted: &[&Measure]) {
    let needed = |need: &Need| wanted.iter().any(|measure| measure.needs.contains(need));
    if needed(&Need::Peers) {
        eprintln!("peers …");
        bench.peers = Peers::install(&bench.work);
        let tree = Tree::plant();
        for kind in Kind::ALL {
            if let Some(Err(why)) = Server::try_start(kind, bench, &tree.root(), tree.dir()) {
                bench.peers.give_up(kind, why);
            }
        }
    }
    if needed(&Need::Crates) {
        eprintln!("corpus …");
        bench.corpus = corpus::crates(&bench.work);
    }
    if needed(&Need::Kernel) {
        eprintln!("sources of the kernel …");
        bench.kernel = corpus::kernel(&bench.work);
    }
    if needed(&Need::Sizes) {
        eprintln!("trees and files …");
        growth::files(bench).iter().for_each(|count| drop(corpus::folders(&bench.work, *count)));
        growth::bytes(bench).iter().for_each(|size| drop(corpus::sized(&bench.work, *size)));
    }
}

fn arguments() -> (Bench, Vec<String>) {
    let mut args = env::args().skip(1);
    let none = PathBuf::new;
    let not_asked = || Err("not asked for".into());
    let (peers, against) = (Peers::default(), None);
    let mut bench = Bench {
        bin: none(),
        weakened: none(),
        work: none(),
        against,
        rounds: 0,
        quick: false,
        peers,
        corpus: not_asked(),
        kernel: not_asked(),
    };
    let mut only = Vec::new();
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| usage());
        match arg.as_str() {
            // The driver executes itself as the yardstick.
            "echo" => {
                echo::serve(&value(), value().parse().unwrap());
                std::process::exit(0);
            }
            "--bin" => bench.bin = folder(&value()),
            "--weakened" => bench.weakened = folder(&value()),
            "--work" => bench.work = folder(&value()),
            "--against" => bench.against = Some(folder(&value())),
            "--only" => only.push(value()),
            "--rounds" => bench.rounds = value().parse().unwrap_or_else(|_| usage()),
            "--quick" => bench.quick = true,
            // `cargo bench` appends it.
            "--bench" => {}
            _ => usage(),
        }
    }
    if bench.rounds == 0 {
        bench.rounds = if bench.quick { 2 } else { 12 };
    }
    let is_unknown = |name: &String| !MEASURES.iter().any(|measure| measure.name == name);
    if bench.bin == none() || bench.work == none() || only.iter().any(is_unknown) {
        usage();
    }
    (bench, only)
}

/// Absolute: some measures run elsewhere.
fn folder(name: &str) -> PathBuf {
    std::fs::canonicalize(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn usage() -> ! {
    eprint!("{USAGE}");
    std::process::exit(2)
}
