//! What clients see after a kill in the middle of an atomic batch: all of it, nothing of it, or C222. The client whose
//! connection was lost reconnects at once; a second client has its connection already.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use super::{
    random::random,
    support::{COLD, Client, Failure, Options, TestJail, json, process},
};

/// Kills in an ordinary run, of all kinds together; `scripts/soak` asks for a thousand.
const KILLS: u64 = 60;
const KINDS: u64 = 3;
/// No kill comes later than this after its round began: a few batches fit in.
const LONGEST: Duration = Duration::from_millis(100);
/// Files of each batch, spread over the folders.
const FILES: usize = 40;
const FOLDERS: [&str; 4] = ["", "a/", "b/", "b/c/"];

fn rounds() -> u64 {
    std::env::var("STOCKADE_SOAK_KILLS").map_or(KILLS, |kills| kills.parse().unwrap()).div_ceil(KINDS)
}

fn names() -> impl Iterator<Item = String> {
    (0..FILES).map(|number| format!("{}f{number}", FOLDERS[number % FOLDERS.len()]))
}

/// A file that only this batch makes, in folders that only this batch makes.
fn made_by(version: u64) -> String {
    format!("made-{version}/deep/file")
}

fn content(version: u64) -> String {
    format!("{version}\n").repeat(50)
}

fn plant(root: &Path) {
    fs::create_dir_all(root.join("a")).unwrap();
    fs::create_dir_all(root.join("b/c")).unwrap();
    names().for_each(|name| fs::write(root.join(name), content(0)).unwrap());
}

/// Sends batch after batch until the connection ends; the last one that was acknowledged.
fn write_until_killed(client: &mut Client, sent: &AtomicU64) -> Option<u64> {
    let mut acknowledged = None;
    loop {
        let version = sent.fetch_add(1, Ordering::SeqCst) + 1;
        let file = |path| json!({"path": path, "content": content(version), "overwrite": true});
        let files: Vec<_> = names().chain([made_by(version)]).map(file).collect();
        let reply = client.call("coder::create-file", json!({"atomic": true, "files": files}));
        let Ok(reply) = reply else { return acknowledged };
        let results = reply["results"].as_array().unwrap();
        assert!(results.iter().all(|result| result["success"] == true), "{reply}");
        acknowledged = Some(version);
    }
}

/// The versions that a client found, and how many of its reads were answered with C222.
#[derive(Debug, Default)]
struct Sight {
    versions: BTreeSet<u64>,
    busy: u64,
}

/// Reads every name of the batch `sent` once. Panics if the client sees a part of it.
fn look(client: &mut Client, sent: u64) -> Sight {
    let mut sight = Sight::default();
    let mut is_made = None;
    for name in names() {
        match client.call("coder::read-file", json!({ "path": name })) {
            Ok(reply) => {
                let text = reply["content"].as_str().unwrap();
                let version = text.lines().next().unwrap().parse().unwrap();
                assert_eq!(text, content(version), "{name} is whole");
                sight.versions.insert(version);
            }
            Err(failure) => sight.refused(&failure, &name),
        }
    }
    match client.call("coder::read-file", json!({"path": made_by(sent)})) {
        Ok(_) => is_made = Some(true),
        Err(failure) if failure.code() == "C211" => is_made = Some(false),
        Err(failure) => sight.refused(&failure, &made_by(sent)),
    }
    let mut is_listed = None;
    match client.call("coder::list-folder", json!({"path": "."})) {
        Ok(reply) => is_listed = Some(reply.to_string().contains(&format!("\"made-{sent}\""))),
        Err(failure) => sight.refused(&failure, "."),
    }
    let is_new = sight.versions.contains(&sent);
    let agrees = |found: Option<bool>| sight.versions.is_empty() || found.is_none_or(|found| found == is_new);
    let is_whole = sight.versions.len() <= 1 && agrees(is_made) && agrees(is_listed);
    assert!(is_whole, "half of batch {sent}: {sight:?}, file made: {is_made:?}, folder listed: {is_listed:?}");
    sight
}

impl Sight {
    fn refused(&mut self, failure: &Failure, name: &str) {
        assert_eq!(failure.code(), "C222", "{name}: {failure:?}");
        self.busy += 1;
    }
}

/// Reads until no read is answered with C222 any more: the one version that is there then.
fn settled(client: &mut Client, sent: u64) -> u64 {
    let start = Instant::now();
    loop {
        let sight = look(client, sent);
        if sight.busy == 0 {
            return *sight.versions.first().unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never settled: {sight:?}");
    }
}

fn wait_until_dead(pid: u32) {
    let start = Instant::now();
    while process::is_alive(pid) {
        assert!(start.elapsed() < Duration::from_secs(20), "{pid} lives on");
    }
}

/// Kills somebody; gives back the second client's connection, or a new one where that was lost as well.
type Kill = fn(&mut TestJail, worker: u32, other: Client) -> Client;

fn kill_at_random(kill: Kill) {
    let options = Options { policy: Some(COLD.into()), in_memory: true, ..Options::default() };
    let mut jail = TestJail::with_tree(options, plant);
    let sent = Arc::new(AtomicU64::new(0));
    let (mut acknowledged, mut undone, mut busy) = (0, 0, 0);
    for _ in 0..rounds() {
        let mut other = jail.connect();
        other.call("coder::info", json!({})).expect("served");
        let (mut client, worker) = jail.connect_and_find_worker();
        let (socket, counter) = (jail.socket.clone(), sent.clone());
        let (killed, is_over) = mpsc::channel::<()>();
        let writer = std::thread::spawn(move || {
            let done = write_until_killed(&mut client, &counter);
            // A supervisor that was killed has to be started again first.
            let _ = is_over.recv();
            (done, look(&mut Client::connect(&socket), counter.load(Ordering::SeqCst)))
        });
        std::thread::sleep(Duration::from_micros(random(LONGEST.as_micros() as u64)));
        let mut other = kill(&mut jail, worker, other);
        drop(killed);
        let seen = look(&mut other, sent.load(Ordering::SeqCst));
        let (done, sight) = writer.join().unwrap();
        let last = sent.load(Ordering::SeqCst);
        let found = settled(&mut other, last);
        assert!(found <= last && done.is_none_or(|done| found >= done), "{found} of {last}, {done:?}");
        acknowledged += u64::from(done.is_some());
        undone += u64::from(found < last);
        busy += seen.busy + sight.busy;
        // A listing shows no more than a page.
        (0..=last).for_each(|version| drop(fs::remove_dir_all(jail.root.join(format!("made-{version}")))));
    }
    println!("{acknowledged} rounds with acknowledged batches, {undone} batches undone, {busy} reads were C222");
    assert!(acknowledged > rounds() / 4, "hardly anything was written between the kills: {acknowledged}");
    jail.assert_intact();
}

#[test]
fn after_its_worker_was_killed_a_client_sees_no_half_of_a_batch() {
    kill_at_random(|_, worker, other| {
        process::signal(worker, process::Signal::KILL);
        wait_until_dead(worker);
        other
    });
}

#[test]
fn after_all_workers_were_killed_a_client_sees_no_half_of_a_batch() {
    kill_at_random(|jail, worker, _| {
        jail.daemon.workers().into_iter().for_each(|pid| process::signal(pid, process::Signal::KILL));
        wait_until_dead(worker);
        jail.connect()
    });
}

#[test]
fn after_the_supervisor_was_killed_a_client_sees_no_half_of_a_batch() {
    kill_at_random(|jail, _, _| {
        jail.daemon.child.kill().unwrap();
        jail.daemon.child.wait().unwrap();
        jail.restart(&Options { policy: Some(COLD.into()), ..Options::default() });
        jail.connect()
    });
}
