//! How the cost of a call grows with what it looks at: files in a tree, bytes in a file. (Agents: `crowd`.)

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Bench, client, corpus,
    json::quote,
    race::{Contestant, Race},
    report::{Report, Target},
    search::THREADS,
    server::Server,
    task::{Kind, Task},
    tree::Tree,
};

pub const FILES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
pub const BYTES: [usize; 5] = [1 << 10, 32 << 10, 1 << 20, 32 << 20, 1 << 30];
const QUICK: usize = 2;
const LINES: usize = 40;
const NEEDLE: &str = "a needle in a haystack";

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

        let needle = Task::Text { path: "", text: NEEDLE };
        let mut contestants = vec![("socket", server(bench, Kind::Socket, &root, dir, &needle))];
        if let Some(rg) = &bench.peers.ripgrep {
            let mut grep = Command::new(rg);
            grep.args(["-uu", "-j", THREADS, "-F", NEEDLE]).arg(&root);
            contestants.push(("ripgrep", Some(Contestant::Program(grep))));
        }
        contestants.push((Kind::RustMcp.name(), server(bench, Kind::RustMcp, &root, dir, &needle)));
        text.step(count, rounds, contestants, report);
    }
    names.end(Target::AtMost(1.0), report);
    text.end(Target::AtMost(1.0), report);
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
        races[2].step(size, rounds, vec![("socket", ours), ("rg --no-mmap", Some(Contestant::Program(grep)))], report);
    }
    let [head, tail, text] = races;
    for race in [head, tail] {
        race.end(Target::AtMost(1.0), report);
    }
    text.end(Target::AtMost(1.1), report);
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
