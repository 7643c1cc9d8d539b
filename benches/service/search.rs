//! Search by content and by name over the sources of some crates and of the Linux kernel, against ripgrep and fd on the
//! same files with the same number of threads; against the MCP peers where they have such a tool.

use std::{path::Path, process::Command};

use crate::{
    Bench,
    client::{self, Client},
    command::{executed, lines},
    daemon::Daemon,
    json::quote,
    process,
    report::{Report, SideBySide, Target},
    sample::{Spread, Turns, interleave},
    server::Server,
    task::{Kind, Task},
    tree::Tree,
};

/// Threads that a worker gives to one search, of the four it has.
pub const THREADS: &str = "2";
/// One crate of the corpus, small enough for servers that need a second for it.
const ONE_CRATE: &str = "aws-sdk-s3-1.157.0";

struct Case {
    name: &'static str,
    /// Below the corpus.
    path: &'static str,
    query: &'static str,
    ours: &'static str,
    ripgrep: &'static [&'static str],
}

const REGEX: &str = ",\"regex\":true";

const fn literal(name: &'static str, query: &'static str) -> Case {
    Case { name, path: "", query, ours: "", ripgrep: &["-F"] }
}

const fn regex(name: &'static str, query: &'static str) -> Case {
    Case { name, path: "", query, ours: REGEX, ripgrep: &[] }
}

const CRATES: [Case; 7] = [
    literal("literal", "getrandom"),
    regex("regex", r"[a-z]+_(?:lock|unlock)_\w+\(&\w+\)"),
    Case { name: "ignoring case", path: "", query: "zeroize", ours: ",\"ignore_case\":true", ripgrep: &["-F", "-i"] },
    Case {
        // ripgrep needs seconds of CPU for the whole corpus, whatever the pattern.
        name: "across lines, one crate",
        path: "openssl-src-400.0.2",
        query: r"goto err;\n\s+\}\n\s+\w+ = NULL;",
        ours: ",\"regex\":true,\"multiline\":true",
        ripgrep: &["-U", "--count-matches", "--no-filename"],
    },
    NO_MATCH,
    regex("literal inside", r"\w{6}_xfer\d"),
    regex("literals inside, many lines have them", r"\w+_(?:new|free)\(\w+, \w+\);"),
];

const KERNEL: [Case; 9] = [
    literal("literal", "spin_lock_irqsave_nested"),
    NO_MATCH,
    regex("regex", r"[A-Z]+_SUSPENDING\b"),
    regex("literal inside", r"\w{6}_xfer\d"),
    regex("literal inside, end of line", r"\w+_suspend_noirq,$"),
    regex("one of two literals inside", r"\w+_(?:timeout|stall)_handler\w*\("),
    regex("literal between words", r"\b\w+ = kzalloc_node\(\w+"),
    Case {
        name: "literal inside, ignoring case",
        path: "",
        query: r"\w{3}_quirk_mask",
        ours: ",\"regex\":true,\"ignore_case\":true",
        ripgrep: &["-i"],
    },
    regex("no literal", r"\b[A-Z]{3}\d{4}[a-z]\b"),
];

const NO_MATCH: Case = literal("no match", "no such text 7f3a");

pub fn run(bench: &Bench, report: &mut Report) {
    let corpus = match &bench.corpus {
        Ok(corpus) => corpus,
        Err(why) => return report.absent("search", format!("no corpus: {why}")),
    };
    let sockets = Tree::plant();
    let daemon = Daemon::generous(&bench.bin, &corpus.root, sockets.dir(), "search", "");
    content(bench, "search", &corpus.root, &CRATES, &daemon, report);
    first_page(bench, &corpus.root, &daemon, report);
    names(bench, &corpus.root, &daemon, report);
    drop(daemon);
    match &bench.kernel {
        Ok(kernel) => {
            let daemon = Daemon::generous(&bench.bin, &kernel.root, sockets.dir(), "kernel", "");
            content(bench, "search in Linux", &kernel.root, &KERNEL, &daemon, report);
        }
        Err(why) => report.absent("search in Linux", format!("no sources of the kernel: {why}")),
    }
    jail_price(bench, &corpus.root, sockets.dir(), report);
    peers(bench, &corpus.root, sockets.dir(), report);
}

fn request(root: &Path, case: &Case) -> Vec<u8> {
    let params = format!(
        "{{\"path\":{},\"query\":{},\"search_paths\":false,\"use_default_excludes\":false{}}}",
        quote(&root.join(case.path).to_string_lossy()),
        quote(case.query),
        case.ours
    );
    client::line(7, "coder::search", &params)
}

/// `title` begins the name of each row.
fn content(bench: &Bench, title: &str, root: &Path, cases: &[Case], daemon: &Daemon, report: &mut Report) {
    let Some(ripgrep) = &bench.peers.ripgrep else { return };
    let mut client = daemon.connect();
    for case in cases {
        let line = request(root, case);
        // All files, and no ignore file is obeyed.
        let mut rg = Command::new(ripgrep);
        rg.args(["-uu", "-j", THREADS]).args(case.ripgrep).args(["-e", case.query]).arg(root.join(case.path));
        let mut cli = Command::new(bench.bin.join("stockade"));
        cli.args(["search", "--all", "--no-ignore", "--color", "never"]).args(cli_flags(case));
        cli.arg("--root").arg(root.join(case.path)).arg(case.query);
        cli.env("XDG_STATE_HOME", bench.work.join("state"));
        client.call(&line);
        let found = client.last().matches("\"line\":").count();
        assert!(!client.last().contains("\"max_matches\""), "{}: not all fits into a reply", case.query);
        let theirs = expected(case, &executed(&mut rg).1);
        executed(&mut cli);
        let (mut cpu, mut their_cpu) = (vec![], vec![]);
        let turns = Turns::take(bench.rounds, 3, |who| {
            let before = (process::family_cpu_us(daemon.pid()), process::ended_children_cpu_us());
            match who {
                0 => {
                    let samples = client.timed(&line, 1);
                    cpu.push(process::family_cpu_us(daemon.pid()) - before.0);
                    samples
                }
                1 => {
                    let samples = vec![executed(&mut rg).0];
                    their_cpu.push(process::ended_children_cpu_us() - before.1);
                    samples
                }
                _ => vec![executed(&mut cli).0],
            }
        });
        let agree = if found == theirs { format!("{found} found") } else { format!("{found} found, ripgrep {theirs}") };
        let (cpu, their_cpu) = (Spread::of(&mut cpu).p50, Spread::of(&mut their_cpu).p50);
        report
            .row(format!("{title}, {}: socket / ripgrep", case.name), "×", turns.ratio(0, 1), Target::AtMost(1.0))
            .note(format!(
                "{:.0} / {:.0} ms; CPU {:.0} / {:.0} ms, {:.2}×; {agree}",
                turns.of(0).p50 / 1e3,
                turns.of(1).p50 / 1e3,
                cpu / 1e3,
                their_cpu / 1e3,
                cpu / their_cpu
            ));
        report
            .row(format!("{title}, {}: stockade search / ripgrep", case.name), "×", turns.ratio(2, 1), Target::None)
            .note(format!("{:.0} / {:.0} ms, both from exec to exit", turns.of(2).p50 / 1e3, turns.of(1).p50 / 1e3));
        let dots = ["socket", "ripgrep", "stockade search"].into_iter().enumerate();
        let dots = dots.map(|(who, name)| (name, turns.of(who).scaled(1e-3))).collect();
        report.side_by_side(SideBySide { title: format!("{title}, {}", case.name), unit: "ms", dots });
    }
}

fn cli_flags(case: &Case) -> Vec<&'static str> {
    case.ripgrep.iter().copied().filter(|flag| !flag.starts_with("--")).collect()
}

/// Matches that ripgrep found: lines, or the sum of its counts where a match has several.
fn expected(case: &Case, output: &[u8]) -> usize {
    if !case.ripgrep.contains(&"--count-matches") {
        return lines(output);
    }
    String::from_utf8_lossy(output).lines().filter_map(|line| line.parse::<usize>().ok()).sum()
}

/// A page that is full after the first hits, against a search that has to see everything.
fn first_page(bench: &Bench, root: &Path, daemon: &Daemon, report: &mut Report) {
    let mut client = daemon.connect();
    let everything = request(root, &NO_MATCH);
    let common = Case { ours: ",\"max_matches\":20", ..literal("", "return") };
    let page = request(root, &common);
    client.call(&page);
    assert!(client.last().contains("\"max_matches\""), "the page is full");
    let turns = Turns::take(bench.rounds, 2, |who| client.timed(if who == 0 { &page } else { &everything }, 1));
    report
        .row("search: page full after 20 hits / whole search", "×", turns.ratio(0, 1), Target::AtMost(0.1))
        .note(format!("{:.1} / {:.0} ms", turns.of(0).p50 / 1e3, turns.of(1).p50 / 1e3));
}

fn names(bench: &Bench, root: &Path, daemon: &Daemon, report: &mut Report) {
    let (Some(ripgrep), Some(fd)) = (&bench.peers.ripgrep, &bench.peers.fd) else { return };
    let mut client = daemon.connect();
    let line = crate::server::request(Kind::Socket, root, 7, &Task::Names { path: "", glob: "*.h" }).unwrap();
    let mut rg = Command::new(ripgrep);
    rg.args(["-uu", "-j", THREADS, "--files", "-g", "*.h"]).arg(root);
    let mut fd = Command::new(fd);
    fd.args(["-u", "-s", "-j", THREADS, "-t", "f", "-g", "*.h"]).arg(root);
    client.call(&line);
    let found = client.last().matches("\"kind\":\"file\"").count();
    let theirs = [lines(&executed(&mut rg).1), lines(&executed(&mut fd).1)];
    let turns = Turns::take(bench.rounds * 2, 3, |who| match who {
        0 => client.timed(&line, 2),
        1 => vec![executed(&mut rg).0, executed(&mut rg).0],
        _ => vec![executed(&mut fd).0, executed(&mut fd).0],
    });
    for (who, name) in [(1, "rg --files"), (2, "fd")] {
        report.row(format!("names *.h: socket / {name}"), "×", turns.ratio(0, who), Target::AtMost(1.0)).note(format!(
            "{:.0} / {:.0} ms; {found} / {} found",
            turns.of(0).p50 / 1e3,
            turns.of(who).p50 / 1e3,
            theirs[who - 1]
        ));
    }
    let dots = ["socket", "rg --files", "fd"].into_iter().enumerate();
    let dots = dots.map(|(who, name)| (name, turns.of(who).scaled(1e-3))).collect();
    report.side_by_side(SideBySide { title: "names *.h".into(), unit: "ms", dots });
}

/// The same build and resolver with Landlock and seccomp on and off.
fn jail_price(bench: &Bench, root: &Path, dir: &Path, report: &mut Report) {
    if !bench.has_weakened(report) {
        return;
    }
    // Twice as many rounds: what is looked for is small.
    let confined = Daemon::weakened(&bench.weakened, root, dir, "confined", "");
    let open = Daemon::weakened(&bench.weakened, root, dir, "open", "landlock,seccomp");
    let (mut ours, mut theirs): (Client, Client) = (confined.connect(), open.connect());
    let line = request(root, &CRATES[0]);
    for client in [&mut ours, &mut theirs] {
        client.call(&line);
        client.last();
    }
    let compared = interleave(bench.rounds * 2, || ours.timed(&line, 1), || theirs.timed(&line, 1));
    report.row("confined / not confined: search, literal", "×", compared.ratio, Target::AtMost(1.10)).note(format!(
        "{:.0} ms / {:.0} ms",
        compared.ours.p50 / 1e3,
        compared.yardstick.p50 / 1e3
    ));
}

/// The MCP peers: on the whole corpus once, because some fail there, and on one crate in turns.
fn peers(bench: &Bench, root: &Path, dir: &Path, report: &mut Report) {
    let whole = [
        ("names *.h", Task::Names { path: "", glob: "*.h" }),
        ("search, literal", Task::Text { path: "", text: CRATES[0].query }),
    ];
    let in_one = [
        ("names *.rs in one crate", Task::Names { path: ONE_CRATE, glob: "*.rs" }),
        ("search, literal in one crate", Task::Text { path: ONE_CRATE, text: "StorageClass" }),
    ];
    for (name, task) in &whole {
        let attempts = [Kind::Socket, Kind::Reference, Kind::RustMcp].map(|kind| {
            let mut server = Server::start(kind, bench, root, dir)?;
            let line = server.request(7, task)?;
            // The first one warms; only ours is asked twice, the others take seconds.
            if kind.is_ours() {
                server.client.call(&line);
            }
            Some((kind, server.client.attempt(&line)))
        });
        let ours = attempts[0].as_ref().and_then(|(_, answer)| answer.as_ref().ok()).expect("ours answers").0;
        for (kind, answer) in attempts.iter().skip(1).flatten() {
            let row = format!("{name}, whole corpus, once: socket / {}", kind.name());
            match answer {
                Ok((took, _)) => {
                    let note = format!("{:.0} / {:.0} ms", ours / 1e3, took / 1e3);
                    report.row(row, "×", Spread::exact(ours / took), Target::AtMost(1.0)).note(note);
                }
                Err(why) => report.absent(&row, format!("fails: {why}")),
            }
        }
    }
    for (name, task) in &in_one {
        one_crate(bench, root, dir, name, task, report);
    }
}

fn one_crate(bench: &Bench, root: &Path, dir: &Path, name: &str, task: &Task<'_>, report: &mut Report) {
    let mut servers: Vec<(Server, Vec<u8>)> = Vec::new();
    for kind in Kind::ALL {
        let Some(mut server) = Server::start(kind, bench, root, dir) else { continue };
        let Some(line) = server.request(7, task) else {
            report.absent(&format!("{name}: {}", kind.name()), "has no such tool");
            continue;
        };
        match server.client.attempt(&line) {
            Ok(_) => servers.push((server, line)),
            Err(why) => report.absent(&format!("{name}: {}", kind.name()), format!("fails: {why}")),
        }
    }
    let turns = Turns::take(bench.rounds.div_ceil(3), servers.len(), |who| {
        let (server, line) = &mut servers[who];
        server.client.timed(line, if server.kind.is_ours() { 3 } else { 1 })
    });
    for (who, (server, _)) in servers.iter().enumerate().filter(|(_, (server, _))| !server.kind.is_ours()) {
        report
            .row(format!("{name}: socket / {}", server.kind.name()), "×", turns.ratio(0, who), Target::AtMost(1.0))
            .note(format!("{:.1} / {:.0} ms", turns.of(0).p50 / 1e3, turns.of(who).p50 / 1e3));
    }
}
