//! Measures the running service against yardsticks of the same run: an echo over the same kind of socket, the same
//! build with its confinement off, `/bin/true`. Ratios only: the machine is never the same twice.
//!
//! Runs outside the jail, as the user who calls it, and needs nothing but std: `scripts/bench` compiles it with a bare
//! `rustc`, so that no crate of the service is built twice for it. `cargo clippy --all-targets` sees it as a bench.
#![allow(missing_debug_implementations, clippy::unwrap_used, reason = "a driver: what it cannot do ends it")]

mod client;
mod daemon;
mod echo;
mod process;
mod report;
mod sample;
mod tree;

mod against;
mod capacity;
mod confinement;
mod footprint;
mod neighbour;
mod pipeline;
mod sequential;
mod start;
mod syscalls;
mod writes;

use std::{env, path::PathBuf};

use report::Report;

const USAGE: &str = "\
usage: service --bin DIR --weakened DIR [--against DIR] [--only MEASURE]... [--rounds N] [--report FILE]

  --bin DIR        stockaded, stockade-worker and stockade of the release build
  --weakened DIR   the same of the build whose layers can be switched off
  --against DIR    another release build to compare the first one with
  --only MEASURE   sequential, confinement, start, footprint, capacity, neighbour, pipeline,
                   syscalls, writes, against; default all
  --rounds N       interleaved rounds of each comparison; default 12
  --report FILE    where the JSON goes
";

/// What all measures are given.
pub struct Bench {
    pub bin: PathBuf,
    pub weakened: PathBuf,
    pub against: Option<PathBuf>,
    pub rounds: usize,
}

type Measure = (&'static str, fn(&Bench, &mut Report));
const MEASURES: [Measure; 10] = [
    ("sequential", sequential::run),
    ("confinement", confinement::run),
    ("start", start::run),
    ("footprint", footprint::run),
    ("capacity", capacity::run),
    ("neighbour", neighbour::run),
    ("pipeline", pipeline::run),
    ("syscalls", syscalls::run),
    ("writes", writes::run),
    ("against", against::run),
];

fn main() {
    let mut args = env::args().skip(1);
    let mut bench = Bench { bin: PathBuf::new(), weakened: PathBuf::new(), against: None, rounds: 12 };
    let (mut only, mut file) = (Vec::new(), None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| usage());
        match arg.as_str() {
            // The driver executes itself as the yardstick.
            "echo" => return echo::serve(&value(), value().parse().unwrap()),
            "--bin" => bench.bin = folder(&value()),
            "--weakened" => bench.weakened = folder(&value()),
            "--against" => bench.against = Some(folder(&value())),
            "--only" => only.push(value()),
            "--rounds" => bench.rounds = value().parse().unwrap_or_else(|_| usage()),
            "--report" => file = Some(PathBuf::from(value())),
            // `cargo bench` appends it.
            "--bench" => {}
            _ => usage(),
        }
    }
    if bench.bin.as_os_str().is_empty() || only.iter().any(|name| !MEASURES.iter().any(|m| m.0 == name)) {
        usage();
    }
    let mut report = Report::default();
    for (name, run) in MEASURES {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            eprintln!("{name} …");
            run(&bench, &mut report);
        }
    }
    print!("{}", report.table());
    if let Some(file) = file {
        std::fs::write(file, report.json()).expect("the report's folder exists");
    }
}

/// Absolute: some measures run elsewhere.
fn folder(name: &str) -> PathBuf {
    std::fs::canonicalize(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn usage() -> ! {
    eprint!("{USAGE}");
    std::process::exit(2)
}
