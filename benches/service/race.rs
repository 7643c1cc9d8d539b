//! Several contestants do the same work at growing sizes, as long as they keep up. The first of them is ours.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    command::executed,
    process,
    report::{Chart, Report, Target},
    sample::{Spread, Turns},
    server::Server,
};

/// Of one contestant in one round, or one call if that takes longer.
const TURN: Duration = Duration::from_millis(30);
/// A peer that needs longer is asked once, and not for ten times as much.
const PATIENCE_US: f64 = 3e6;
/// For the rounds of one size: on a slow or busy machine the largest sizes have fewer of them, or none.
const STEP_US: f64 = 60e6;
/// What a call may cost in memory, however large the thing is.
const PEAK_MIB: f64 = 64.0;

pub enum Contestant {
    Server(Box<Server>, Vec<u8>),
    Program(Command),
}

impl Contestant {
    /// Microseconds, several where they are few.
    fn turn(&mut self) -> Vec<f64> {
        let begin = Instant::now();
        let mut taken = Vec::new();
        while taken.is_empty() || begin.elapsed() < TURN {
            taken.push(self.run().expect("it could before"));
        }
        taken
    }

    /// Microseconds, or why there is no answer.
    fn run(&mut self) -> Result<f64, String> {
        match self {
            Self::Server(server, line) => server.client.attempt(line).map(|(took, _)| took),
            Self::Program(command) => Ok(executed(command).0),
        }
    }
}

/// How ours compares with another at the largest size that both did.
struct Pairing {
    with: &'static str,
    size: usize,
    ratio: Spread,
    note: String,
}

pub struct Race {
    chart: Chart,
    results: Vec<Pairing>,
    given_up: Vec<&'static str>,
    peak_mib: f64,
    /// What one round of the size before took, and that size.
    before: Option<(f64, usize)>,
}

impl Race {
    pub fn new(title: &'static str, x: &'static str, unit: &'static str) -> Self {
        let chart = Chart::new(title, x, unit);
        Self { chart, results: vec![], given_up: vec![], peak_mib: 0.0, before: None }
    }

    pub fn step(
        &mut self,
        size: usize,
        rounds: usize,
        contestants: Vec<(&'static str, Option<Contestant>)>,
        report: &mut Report,
    ) {
        let expected = self.before.map_or(0.0, |(took, at)| took * size as f64 / at as f64);
        if expected > STEP_US {
            let why = format!("left out: a round would take {:.0} s", expected / 1e6);
            return report.absent(&format!("{}, {} {}", self.chart.title, grouped(size), self.chart.x), why);
        }
        let rounds = rounds.min((STEP_US / expected) as usize).max(1);
        let (mut ready, mut slow) = (Vec::new(), Vec::new());
        for (name, contestant) in contestants {
            let Some(mut contestant) = contestant.filter(|_| !self.given_up.contains(&name)) else {
                continue;
            };
            // Warm, and able to do it.
            match contestant.run() {
                Ok(took) if took > PATIENCE_US && is_peer(name, &contestant) => slow.push((name, took)),
                Ok(_) => ready.push((name, contestant)),
                Err(why) => {
                    assert!(!ready.is_empty(), "{}: {why}", self.chart.title);
                    self.given_up.push(name);
                    let why = format!("fails at {} {}: {why}", grouped(size), self.chart.x);
                    report.absent(&format!("{}: {name}", self.chart.title), why);
                }
            }
        }
        let turns = Turns::take(rounds, ready.len(), |who| ready[who].1.turn());
        self.before = Some(((0..ready.len()).map(|who| turns.of(who).p50).sum(), size));
        let ours = turns.of(0);
        for (who, (name, _)) in ready.iter().enumerate() {
            let theirs = turns.of(who);
            self.chart.point(name, size as f64, theirs.scaled(1e-3));
            self.note(name, size, turns.ratio(0, who), format!("{:.2} / {:.2} ms", ours.p50 / 1e3, theirs.p50 / 1e3));
        }
        for (name, took) in slow {
            self.given_up.push(name);
            self.chart.point(name, size as f64, Spread::exact(took / 1e3));
            let note = format!("{:.2} / {:.0} ms, asked once and for no more", ours.p50 / 1e3, took / 1e3);
            self.note(name, size, Spread::exact(ours.p50 / took), note);
        }
        if let Some((_, Contestant::Server(server, _))) = ready.first() {
            self.peak_mib = process::peak_mib(server.pid());
        }
    }

    fn note(&mut self, with: &'static str, size: usize, ratio: Spread, note: String) {
        self.results.retain(|known| known.with != with);
        self.results.push(Pairing { with, size, ratio, note });
    }

    /// Rows for the largest size that both did, and the chart.
    pub fn end(self, target: Target, report: &mut Report) {
        for Pairing { with, size, ratio, note } in self.results.into_iter().filter(|pairing| pairing.with != "socket") {
            let row = format!("{}, {} {}: socket / {with}", self.chart.title, grouped(size), self.chart.x);
            report.row(row, "×", ratio, target).note(note);
        }
        let row = format!("{}: most memory of a process of ours", self.chart.title);
        report.row(row, "MiB", Spread::exact(self.peak_mib), Target::AtMost(PEAK_MIB));
        report.chart(self.chart);
    }
}

fn is_peer(name: &str, contestant: &Contestant) -> bool {
    name != "socket" && matches!(contestant, Contestant::Server(..))
}

fn grouped(number: usize) -> String {
    match number {
        n if n >= 1 << 20 && n.is_power_of_two() => format!("{} Mi", n >> 20),
        n if n >= 1 << 10 && n.is_power_of_two() => format!("{} Ki", n >> 10),
        n => n.to_string(),
    }
}
