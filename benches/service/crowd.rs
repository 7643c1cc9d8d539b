//! One to 64 agents at once. Ours share a service; every other server is started once for each agent, as hosts do.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    Bench,
    client::Client,
    daemon::Daemon,
    process,
    report::{Chart, Report, SideBySide, Target},
    sample::{Spread, Turns, quantile},
    server::{self, Server},
    task::{Kind, Task},
    tree::{self, Tree},
};

const STEPS: [usize; 4] = [1, 4, 16, 64];
/// A minute has no room for 64 servers that need half a second each.
const QUICK_STEPS: [usize; 2] = [1, 8];
const TURN: Duration = Duration::from_millis(700);

/// Agents of one kind.
struct Crowd {
    kind: Kind,
    /// Connections to the daemon, or a server for each agent.
    connections: Vec<Client>,
    servers: Vec<Server>,
    daemon: Option<Daemon>,
    read: Vec<u8>,
    seconds_to_ready: f64,
}

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    let steps: &[usize] = if bench.quick { &QUICK_STEPS } else { &STEPS };
    let most = *steps.last().expect("there are steps");
    let mut crowds: Vec<Crowd> =
        Kind::ALL.into_iter().filter_map(|kind| Crowd::gather(kind, most, bench, &tree.root(), tree.dir())).collect();
    let kinds: Vec<Kind> = crowds.iter().map(|crowd| crowd.kind).collect();
    let place = |wanted: Kind| kinds.iter().position(|kind| *kind == wanted);
    let mut chart = Chart::new("agents at once", "agents", "reads per second");
    let rounds = bench.rounds.div_ceil(3);
    let mut rates = None;
    for &agents in steps {
        // Seconds a read, so that ratios are of times as everywhere.
        let turns = Turns::take(rounds, crowds.len(), |who| {
            let crowd = &mut crowds[who];
            vec![1.0 / crowd.busy(agents).per_second]
        });
        for (who, kind) in kinds.iter().enumerate() {
            let spread = turns.of(who);
            let rate = Spread { p10: 1.0 / spread.p90, p50: 1.0 / spread.p50, p90: 1.0 / spread.p10 };
            chart.point(kind.name(), agents as f64, rate);
        }
        rates = Some(turns);
    }
    report.chart(chart);
    let turns = rates.expect("there are steps");
    for ours in [Kind::Socket, Kind::Bridge] {
        for theirs in Kind::PEERS {
            let (Some(a), Some(b)) = (place(ours), place(theirs)) else { continue };
            let row = format!("{most} agents: time of a read, {} / {}", ours.name(), theirs.name());
            let note = format!("{:.0} / {:.0} reads/s", 1.0 / turns.of(a).p50, 1.0 / turns.of(b).p50);
            report.row(row, "×", turns.ratio(a, b), Target::AtMost(1.0)).note(note);
        }
    }
    memory(&crowds, most, report);
}

impl Crowd {
    fn gather(kind: Kind, agents: usize, bench: &Bench, root: &Path, dir: &Path) -> Option<Self> {
        let read = server::request(kind, root, 7, &Task::Read(tree::SMALL_FILE))?;
        let begin = Instant::now();
        let daemon = kind.is_ours().then(|| Daemon::generous(&bench.bin, root, dir, &format!("{kind:?}"), ""));
        let mut crowd = Self { kind, connections: vec![], servers: vec![], daemon, read, seconds_to_ready: 0.0 };
        for _ in 0..agents {
            match (kind, &crowd.daemon) {
                (Kind::Socket, Some(daemon)) => crowd.connections.push(daemon.connect()),
                (Kind::Bridge, Some(daemon)) => crowd.servers.push(Server::bridge_to(daemon, bench, root, dir)?),
                _ => crowd.servers.push(Server::start(kind, bench, root, dir)?),
            }
        }
        let read = crowd.read.clone();
        for client in crowd.clients(agents) {
            client.call(&read);
            client.last();
        }
        crowd.seconds_to_ready = begin.elapsed().as_secs_f64();
        Some(crowd)
    }

    fn clients(&mut self, agents: usize) -> Vec<&mut Client> {
        let of_servers = self.servers.iter_mut().map(|server| &mut server.client);
        self.connections.iter_mut().chain(of_servers).take(agents).collect()
    }

    fn busy(&mut self, agents: usize) -> Busy {
        let read = self.read.clone();
        busy(self.clients(agents), &read, TURN)
    }

    fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::pid).chain(self.daemon.iter().map(Daemon::pid)).collect()
    }
}

fn memory(crowds: &[Crowd], agents: usize, report: &mut Report) {
    let measured: Vec<(f64, Option<f64>)> = crowds.iter().map(|crowd| process::memory_mib(&crowd.pids())).collect();
    let reference = crowds.iter().position(|crowd| crowd.kind == Kind::Reference).and_then(|who| measured[who].1);
    for (crowd, (rss, pss)) in crowds.iter().zip(&measured) {
        let name = format!("{agents} agents: PSS in all, {}", crowd.kind.name());
        let note = format!("RSS {rss:.0} MiB; {:.1} s until all are ready", crowd.seconds_to_ready);
        let Some(pss) = pss else {
            report.absent(&name, "PSS may not be read");
            continue;
        };
        report.row(name, "MiB", Spread::exact(*pss), Target::None).note(note);
        if let (true, Some(reference)) = (crowd.kind.is_ours(), reference) {
            let row = format!("{agents} agents: PSS, {} / {}", crowd.kind.name(), Kind::Reference.name());
            report
                .row(row, "×", Spread::exact(pss / reference), Target::AtMost(0.1))
                .note(format!("{pss:.0} / {reference:.0} MiB"));
        }
    }
    let dots = crowds.iter().zip(&measured);
    let dots = dots.map(|(crowd, (_, pss))| (crowd.kind.name(), Spread::exact(pss.unwrap_or(f64::NAN)))).collect();
    report.side_by_side(SideBySide { title: format!("memory of {agents} agents"), unit: "MiB PSS", dots });
}

pub struct Busy {
    pub per_second: f64,
    /// Of all calls, in µs.
    pub p50: f64,
    pub p99: f64,
    /// p99 / p50 of the client that fared worst.
    pub worst_tail: f64,
}

/// All clients ask again and again, each in a thread of its own.
pub fn busy(clients: Vec<&mut Client>, request: &[u8], time: Duration) -> Busy {
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let latencies: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| {
                scope.spawn(|| {
                    let mut taken = Vec::new();
                    while taken.is_empty() || !stop.load(Ordering::Relaxed) {
                        taken.append(&mut client.timed(request, 1));
                    }
                    taken
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let calls: usize = latencies.iter().map(Vec::len).sum();
    let tail = |mut taken: Vec<f64>| quantile(&mut taken, 0.99) / quantile(&mut taken, 0.5);
    let mut all = latencies.concat();
    let worst_tail = latencies.into_iter().map(tail).fold(0.0, f64::max);
    let (p50, p99) = (quantile(&mut all, 0.5), quantile(&mut all, 0.99));
    Busy { per_second: calls as f64 / seconds, p50, p99, worst_tail }
}
