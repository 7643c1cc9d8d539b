//! Everyday tasks of agents, asked of all file servers in turns: ours on its socket and over MCP, and the peers. Users
//! compare MCP servers, so the rows of `stockade mcp` have targets for the time and for the CPU of a call.

use std::time::{Duration, Instant};

use crate::{
    Bench,
    client::micros,
    process,
    report::{Report, SideBySide, Target},
    sample::{Spread, Turns},
    server::{Server, program},
    task::{Kind, Task},
    tree::{self, Tree},
};

/// Of one server in one round of one task.
const TURN: Duration = Duration::from_millis(60);
const FLIGHT: usize = 64;
const STARTS: usize = 3;
/// Cases that change nothing come first.
const READING: usize = 5;

/// Name, target for the ratio to any peer, and what is asked in turn.
type Case<'a> = (&'static str, Target, Vec<Task<'a>>);

pub fn run(bench: &Bench, report: &mut Report) {
    let tree = Tree::plant();
    tree.plant_tasks();
    start(bench, &tree, report);
    let root = tree.root();
    let mut servers: Vec<Server> =
        Kind::ALL.into_iter().filter_map(|kind| Server::start(kind, bench, &root, tree.dir())).collect();
    let unsynced = Server::start(Kind::Unsynced, bench, &root, tree.dir());
    memory("idle", &servers, report);
    let megabyte = tree::text(1 << 20);
    let cases: Vec<Case<'_>> = vec![
        // Three times the calls of the best peer.
        ("1 KiB read", Target::AtMost(1.0 / 3.0), vec![Task::Read(tree::SMALL_FILE)]),
        ("100 KiB read", Target::AtMost(1.0), vec![Task::Read(tree::LARGE_FILE)]),
        ("list of 1,000", Target::AtMost(1.0), vec![Task::List(tree::LISTED)]),
        ("list of 1,000 with sizes", Target::AtMost(1.0), vec![Task::ListSizes(tree::LISTED)]),
        ("tree of 10,000 files", Target::AtMost(1.0), vec![Task::Tree(tree::DEEP)]),
        (
            "edit one line of 2,000",
            Target::AtMost(1.0),
            vec![
                Task::Edit { path: tree::EDITED, old: tree::EDITED_LINES[0], new: tree::EDITED_LINES[1] },
                Task::Edit { path: tree::EDITED, old: tree::EDITED_LINES[1], new: tree::EDITED_LINES[0] },
            ],
        ),
        ("1 MiB write", Target::AtMost(1.0), vec![Task::Write { path: "written.rs", content: &megabyte }]),
    ];
    let (reading, writing) = cases.split_at(READING);
    for (name, target, tasks) in reading {
        case(bench, name, *target, tasks, &mut servers, report);
    }
    // The same with and without what only ours does for a write.
    servers.extend(unsynced);
    for (name, target, tasks) in writing {
        case(bench, name, *target, tasks, &mut servers, report);
    }
    servers.retain(|server| server.kind != Kind::Unsynced);
    in_flight(bench, &mut servers, report);
    memory("after the run", &servers, report);
}

fn case(bench: &Bench, name: &str, target: Target, tasks: &[Task<'_>], servers: &mut [Server], report: &mut Report) {
    let lines: Vec<Vec<Vec<u8>>> =
        servers.iter().map(|server| tasks.iter().filter_map(|task| server.request(7, task)).collect()).collect();
    for (server, lines) in servers.iter_mut().zip(&lines) {
        for line in lines {
            server.client.call(line);
            let reply = server.client.last();
            check(server.kind, name, &reply);
        }
    }
    let mut cpu = vec![vec![]; servers.len()];
    let turns = Turns::take(bench.rounds, servers.len(), |who| {
        let server = &mut servers[who];
        let before = server.cpu_us();
        let samples = server.client.timed_within(&lines[who], TURN);
        cpu[who].push((server.cpu_us() - before) / samples.len() as f64);
        samples
    });
    let cpu = Turns::of_rounds(cpu);
    let kinds: Vec<Kind> = servers.iter().map(|server| server.kind).collect();
    against_peers(name, target, &kinds, &turns, Some(&cpu), report);
    let dots = |value: &dyn Fn(usize) -> Spread| {
        kinds.iter().enumerate().map(|(who, kind)| (kind.name(), value(who))).collect::<Vec<_>>()
    };
    report.side_by_side(SideBySide { title: name.to_owned(), unit: "µs a call", dots: dots(&|who| turns.of(who)) });
    report.side_by_side(SideBySide {
        title: format!("{name}: CPU"),
        unit: "µs a call",
        dots: dots(&|who| cpu.of(who)),
    });
}

/// A row for each of ours against each peer, and one for what the bridge adds to the socket.
fn against_peers(name: &str, target: Target, kinds: &[Kind], turns: &Turns, cpu: Option<&Turns>, report: &mut Report) {
    let place = |wanted: Kind| kinds.iter().position(|kind| *kind == wanted);
    for ours in [Kind::Socket, Kind::Unsynced, Kind::Bridge] {
        for theirs in Kind::PEERS {
            let (Some(a), Some(b)) = (place(ours), place(theirs)) else { continue };
            let note = note(turns, cpu, a, b);
            // The bridge has a hop more: it has to be below every peer, not at a third.
            let target = if ours == Kind::Bridge { Target::AtMost(1.0) } else { target };
            let row = format!("{name}: {} / {}", ours.name(), theirs.name());
            report.row(row, "×", turns.ratio(a, b), target).note(note);
            if let Some(cpu) = cpu.filter(|_| ours == Kind::Bridge) {
                let note = format!("{:.0} / {:.0} µs a call", cpu.of(a).p50, cpu.of(b).p50);
                let row = format!("{name}: CPU, {} / {}", ours.name(), theirs.name());
                report.row(row, "×", cpu.ratio(a, b), Target::AtMost(1.0)).note(note);
            }
        }
    }
    if let (Some(bridge), Some(socket)) = (place(Kind::Bridge), place(Kind::Socket)) {
        let row = format!("{name}: {} / {}", Kind::Bridge.name(), Kind::Socket.name());
        let note = note(turns, cpu, bridge, socket);
        report.row(row, "×", turns.ratio(bridge, socket), Target::None).note(note);
    }
}

fn note(turns: &Turns, cpu: Option<&Turns>, a: usize, b: usize) -> String {
    let cpu = cpu.map_or(String::new(), |cpu| {
        let (ours, theirs) = (cpu.of(a).p50, cpu.of(b).p50);
        format!("; CPU {ours:.0} / {theirs:.0} µs, {:.2}×", cpu.ratio(a, b).p50)
    });
    format!("{:.0} / {:.0} µs{cpu}", turns.of(a).p50, turns.of(b).p50)
}

/// A fast answer to another question would be worthless.
fn check(kind: Kind, name: &str, reply: &str) {
    let least = match name {
        "list of 1,000" | "list of 1,000 with sizes" => ("entry-", tree::LISTED_ENTRIES),
        "tree of 10,000 files" => ("leaf-", tree::DEEP_FILES),
        "1 KiB read" => ("let line_", 20),
        "100 KiB read" => ("let line_", 2000),
        _ => return,
    };
    let found = reply.matches(least.0).count();
    assert!(found >= least.1, "{}: {name} answered {found} of {}", kind.name(), least.1);
}

/// From exec to the reply of the first tool call.
fn start(bench: &Bench, tree: &Tree, report: &mut Report) {
    let root = tree.root();
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| program(*kind, bench).is_some()).collect();
    let first_reply = |kind: Kind| {
        let begin = Instant::now();
        let mut server = Server::plain(kind, bench, &root, tree.dir()).expect("it is installed");
        let read = server.request(1, &Task::Read(tree::SMALL_FILE)).expect("all can read");
        server.client.call(&read);
        let took = micros(begin);
        server.client.last();
        took
    };
    // The last contestant is no server.
    let turns = Turns::take(bench.rounds, kinds.len() + 1, |who| match kinds.get(who) {
        // Most of a second each.
        Some(Kind::Reference) => vec![first_reply(Kind::Reference)],
        Some(kind) => (0..STARTS).map(|_| first_reply(*kind)).collect(),
        None => (0..STARTS * 3).map(|_| executed_true()).collect(),
    });
    let place = |wanted: Kind| kinds.iter().position(|kind| *kind == wanted);
    if let Some(bridge) = place(Kind::Bridge) {
        report
            .row(
                "start to first tool reply: stockade mcp / /bin/true",
                "×",
                turns.ratio(bridge, kinds.len()),
                Target::AtMost(15.0),
            )
            .note(note(&turns, None, bridge, kinds.len()));
        for (peer, most) in [(Kind::RustMcp, 2.5), (Kind::Reference, 1.0)] {
            let Some(theirs) = place(peer) else { continue };
            let row = format!("start to first tool reply: stockade mcp / {}", peer.name());
            report
                .row(row, "×", turns.ratio(bridge, theirs), Target::AtMost(most))
                .note(note(&turns, None, bridge, theirs));
        }
    }
    let names = kinds.iter().map(|kind| kind.name()).chain(["/bin/true"]);
    let dots = names.enumerate().map(|(who, name)| (name, turns.of(who))).collect();
    report.side_by_side(SideBySide { title: "start to first tool reply".into(), unit: "µs", dots });
}

fn executed_true() -> f64 {
    let begin = Instant::now();
    assert!(std::process::Command::new("/bin/true").status().is_ok_and(|status| status.success()));
    micros(begin)
}

/// Calls per second when a client sends 64 calls before it reads a reply.
fn in_flight(bench: &Bench, servers: &mut [Server], report: &mut Report) {
    let lines: Vec<Vec<u8>> = servers
        .iter()
        .map(|server| {
            (1..=FLIGHT).filter_map(|id| server.request(id, &Task::Read(tree::SMALL_FILE))).flatten().collect()
        })
        .collect();
    let turns = Turns::take(bench.rounds, servers.len(), |who| {
        let client = &mut servers[who].client;
        let begin = Instant::now();
        let mut taken = Vec::new();
        while taken.is_empty() || begin.elapsed() < TURN * 2 {
            let start = Instant::now();
            client.send(&lines[who]);
            client.receive(FLIGHT);
            taken.push(micros(start) / FLIGHT as f64);
        }
        client.last();
        taken
    });
    let kinds: Vec<Kind> = servers.iter().map(|server| server.kind).collect();
    against_peers("64 reads in flight", Target::AtMost(1.0), &kinds, &turns, None, report);
    let dots = kinds.iter().enumerate().map(|(who, kind)| (kind.name(), turns.of(who))).collect();
    report.side_by_side(SideBySide { title: "64 reads in flight".into(), unit: "µs a call", dots });
}

fn memory(when: &str, servers: &[Server], report: &mut Report) {
    for server in servers {
        let (rss, pss) = process::memory_mib(&[server.pid()]);
        let note = pss.map_or("PSS may not be read".into(), |pss| format!("PSS {pss:.1} MiB"));
        let row = format!("RSS {when}: {}", server.kind.name());
        report.row(row, "MiB", Spread::exact(rss), Target::None).note(note);
    }
    let pss = |server: &Server| process::memory_mib(&[server.pid()]).1.unwrap_or(f64::NAN);
    let dots = servers.iter().map(|server| (server.kind.name(), Spread::exact(pss(server)))).collect();
    report.side_by_side(SideBySide { title: format!("memory {when}, one client"), unit: "MiB PSS", dots });
}
