//! Two builds of the service in one run: what a change is worth, on a machine that is never the same twice. Every row
//! is the time of the first build divided by that of the other one (`--against`), measured in turns.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Bench, client,
    client::Client,
    command::executed,
    daemon::Daemon,
    json::quote,
    process::{self, Place},
    report::{Report, Target},
    sample::{Spread, Turns},
    server::{self, Server},
    task::{Kind, Task},
    tree::{self, Tree},
};

/// No row may be more than this much worse than that of the other build.
const TARGET: Target = Target::AtMost(1.05);
const STARTS_PER_ROUND: usize = 8;
const NAMES: [&str; 2] = ["new", "old"];

/// One build with everything it is measured on. Each has a tree of its own, so that neither waits for the other's leases.
struct Side {
    tree: Tree,
    corpus: Option<PathBuf>,
    daemon: Daemon,
    socket: Client,
    /// The worker that serves `socket`.
    worker: u32,
    bridge: Option<Server>,
    /// `stockade call`, which starts a supervisor of its own.
    start: Command,
}

/// Who is asked. A bridge starts no daemon here but uses that of its side.
#[derive(Clone, Copy, PartialEq)]
enum Via {
    Socket,
    Bridge,
}

struct Row {
    name: &'static str,
    via: Via,
    /// How often the request is sent in each round.
    calls: usize,
    /// The request number `n` of a side; none if the side has no corpus.
    line: fn(&Side, n: usize) -> Option<Vec<u8>>,
}

const fn row(name: &'static str, via: Via, calls: usize, line: fn(&Side, n: usize) -> Option<Vec<u8>>) -> Row {
    Row { name, via, calls, line }
}

/// Rows that change something come in this order: what `create` made is moved, then deleted.
const ROWS: [Row; 19] = [
    row("1 KiB read", Via::Socket, 300, |side, _| side.task(Via::Socket, &Task::Read(tree::SMALL_FILE))),
    row("100 KiB read", Via::Socket, 60, |side, _| side.task(Via::Socket, &Task::Read(tree::LARGE_FILE))),
    row("list of 1,000", Via::Socket, 20, |side, _| side.task(Via::Socket, &Task::List(tree::LISTED))),
    row("tree of 10,000", Via::Socket, 2, |side, _| side.task(Via::Socket, &Task::Tree(tree::DEEP))),
    row("stat of 100", Via::Socket, 40, |_, _| {
        let paths: Vec<String> = (0..tree::BATCH_PATHS).map(|n| format!("\"many/dir-{n}/file.rs\"")).collect();
        ask("coder::stat", format!("{{\"paths\":[{}]}}", paths.join(",")))
    }),
    row("search, literal", Via::Socket, 1, |side, _| side.search("getrandom", false)),
    row("search, regex", Via::Socket, 1, |side, _| side.search(r"[a-z]+_(?:lock|unlock)_\w+\(&\w+\)", true)),
    row("search, inner literal", Via::Socket, 1, |side, _| side.search(r"\w{6}_xfer\d", true)),
    row("search, no match", Via::Socket, 1, |side, _| side.search("no such text 7f3a", false)),
    row("find *.h", Via::Socket, 1, |side, _| {
        let corpus = quote(&side.corpus.as_ref()?.to_string_lossy());
        let options = "\"limit\":10000,\"kind\":\"file\",\"gitignore\":false,\"timeout\":60";
        ask("coder::find", format!("{{\"base_dir\":{corpus},\"paths\":[\"*.h\"],{options}}}"))
    }),
    row("update, fsync", Via::Socket, 30, |side, n| {
        let [old, new] = [n % 2, (n + 1) % 2].map(|which| tree::EDITED_LINES[which]);
        side.task(Via::Socket, &Task::Edit { path: tree::EDITED, old, new })
    }),
    row("create, fsync", Via::Socket, 30, |_, n| {
        ask("coder::create-file", format!("{{\"files\":[{{\"path\":\"one/made-{n}\",\"content\":\"made\\n\"}}]}}"))
    }),
    row("atomic create of two, fsync", Via::Socket, 20, |_, n| {
        let file = |which: char| format!("{{\"path\":\"one/{which}-{n}\",\"content\":\"made\\n\"}}");
        ask("coder::create-file", format!("{{\"files\":[{},{}],\"atomic\":true}}", file('a'), file('b')))
    }),
    row("move, fsync", Via::Socket, 30, |_, n| {
        let entry = format!("{{\"from\":\"one/made-{n}\",\"to\":\"one/moved-{n}\"}}");
        ask("coder::move", format!("{{\"files\":[{entry}]}}"))
    }),
    row("delete, fsync", Via::Socket, 30, |_, n| {
        ask("coder::delete-file", format!("{{\"paths\":[\"one/moved-{n}\"]}}"))
    }),
    row("MCP: 1 KiB read", Via::Bridge, 200, |side, _| side.task(Via::Bridge, &Task::Read(tree::SMALL_FILE))),
    row("MCP: 100 KiB read", Via::Bridge, 40, |side, _| side.task(Via::Bridge, &Task::Read(tree::LARGE_FILE))),
    row("MCP: list of 1,000", Via::Bridge, 20, |side, _| side.task(Via::Bridge, &Task::List(tree::LISTED))),
    row("MCP: 1 MiB write, fsync", Via::Bridge, 3, |side, _| {
        side.task(Via::Bridge, &Task::Write { path: "one/large", content: &tree::text(1 << 20) })
    }),
];

fn ask(function: &str, params: String) -> Option<Vec<u8>> {
    Some(client::line(7, function, &params))
}

pub fn run(bench: &Bench, report: &mut Report) {
    let Some(other) = &bench.against else { return };
    let corpus = bench.corpus.as_ref().map(|corpus| corpus.root.as_path()).ok();
    let mut sides = [Side::start(bench, &bench.bin, corpus), Side::start(bench, other, corpus)];
    memory(report, &sides);
    for row in &ROWS {
        measure(bench, report, &mut sides, row, "");
    }
    for side in &sides {
        process::place(&side.processes(), Place::Cpu(0));
    }
    process::place(&[std::process::id()], Place::Cpu(0));
    measure(bench, report, &mut sides, &ROWS[0], ", one CPU");
    process::place(&[std::process::id()], Place::Anywhere);
    let starts = Turns::take(bench.rounds * 2, 2, |who| {
        (0..STARTS_PER_ROUND).map(|_| executed(&mut sides[who].start).0).collect()
    });
    compared(report, "stockade call --root, from exec to exit", &starts);
}

fn measure(bench: &Bench, report: &mut Report, sides: &mut [Side; 2], row: &Row, placement: &str) {
    let name = format!("{}{placement}", row.name);
    if sides.iter().any(|side| (row.line)(side, 0).is_none()) {
        return report.absent(&name, "needs the corpus");
    }
    if row.via == Via::Bridge && sides.iter().any(|side| side.bridge.is_none()) {
        return report.absent(&name, "one of the builds does not speak MCP");
    }
    let (mut asked, mut cpu) = ([0; 2], [0.0; 2]);
    let mut round = |who: usize| {
        let lines: Vec<Vec<u8>> =
            (asked[who]..asked[who] + row.calls).map(|n| (row.line)(&sides[who], n).unwrap()).collect();
        asked[who] += row.calls;
        let before = sides[who].cpu_us();
        let times = sides[who].timed(row.via, &lines);
        cpu[who] += sides[who].cpu_us() - before;
        times
    };
    // Both are warm, and both have been asked as often, when the first round begins.
    round(0);
    round(1);
    let turns = Turns::take(bench.rounds * 2, 2, round);
    let [new, old] = [0, 1].map(|who| cpu[who] / asked[who] as f64);
    let note = format!("; CPU {} / {} µs, {:.2}×", whole(new), whole(old), new / old);
    compared(report, &name, &turns).push_str(&note);
}

/// The row, and its note, to which more can be added.
fn compared<'a>(report: &'a mut Report, name: &str, turns: &Turns) -> &'a mut String {
    let note = format!("{} / {} µs", whole(turns.of(0).p50), whole(turns.of(1).p50));
    &mut report.row(format!("{name}: new / old"), "×", turns.ratio(0, 1), TARGET).note(note).note
}

fn whole(micros: f64) -> String {
    format!("{micros:.0}")
}

/// Before anything was asked but a few calls of `coder::info`: later it depends on what was asked for.
fn memory(report: &mut Report, sides: &[Side; 2]) {
    let used = |pid: fn(&Side) -> u32| sides.each_ref().map(|side| process::pss_kib(pid(side)));
    for (name, [new, old]) in
        [("supervisor", used(|side| side.daemon.pid())), ("idle worker", used(|side| side.worker))]
    {
        let name = format!("memory of the {name} (PSS): new / old");
        match (new, old) {
            (Some(new), Some(old)) => {
                let note = format!("{} / {} KiB", whole(new), whole(old));
                report.row(name, "×", Spread::exact(new / old), TARGET).note(note);
            }
            _ => report.absent(&name, "the PSS of these processes may not be read"),
        }
    }
}

impl Side {
    fn start(bench: &Bench, bin: &Path, corpus: Option<&Path>) -> Self {
        let name = NAMES[usize::from(bin != bench.bin)];
        let tree = Tree::plant();
        tree.plant_tasks();
        let second = |path: &Path| format!("[[root]]\npath = {path:?}\nmode = \"ro\"\n");
        let policy = format!(
            "[[root]]\npath = {:?}\n{}[limits]\n{}",
            tree.root(),
            corpus.map(second).unwrap_or_default(),
            crate::daemon::GENEROUS
        );
        let daemon = Daemon::with_policy(bin, &tree, name, &policy);
        let (socket, worker) = daemon.connect_to_known_worker();
        let bridge = Server::bridge_to(&daemon, &bench.with_programs(bin), &tree.root(), tree.dir());
        let mut start = Command::new(bin.join("stockade"));
        start.args(["call", "coder::info", "--root", "."]).current_dir(tree.root());
        start.env("XDG_STATE_HOME", bench.work.join("state"));
        Self { tree, corpus: corpus.map(Into::into), daemon, socket, worker, bridge, start }
    }

    fn task(&self, via: Via, task: &Task<'_>) -> Option<Vec<u8>> {
        let kind = if via == Via::Socket { Kind::Socket } else { Kind::Bridge };
        server::request(kind, &self.tree.root(), 7, task)
    }

    fn search(&self, query: &str, is_regex: bool) -> Option<Vec<u8>> {
        let path = quote(&self.corpus.as_ref()?.to_string_lossy());
        let options = "\"search_paths\":false,\"use_default_excludes\":false";
        let query = quote(query);
        ask("coder::search", format!("{{\"path\":{path},\"query\":{query},\"regex\":{is_regex},{options}}}"))
    }

    /// Microseconds of each call. A last reply that is an error ends the measure.
    fn timed(&mut self, via: Via, lines: &[Vec<u8>]) -> Vec<f64> {
        let client = match &mut self.bridge {
            Some(bridge) if via == Via::Bridge => &mut bridge.client,
            _ => &mut self.socket,
        };
        let times = lines.iter().flat_map(|line| client.timed(line, 1)).collect();
        client.last();
        times
    }

    /// The daemon with its workers, and the bridge.
    fn processes(&self) -> Vec<u32> {
        let mut all = process::family(self.daemon.pid());
        all.extend(self.bridge.as_ref().map(Server::pid));
        all
    }

    fn cpu_us(&self) -> f64 {
        process::family_cpu_us(self.daemon.pid()) + self.bridge.as_ref().map_or(0.0, Server::cpu_us)
    }
}
