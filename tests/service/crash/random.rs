//! Kills at moments that nobody chose: single replaces and atomic batches, one after the other, until the kill comes.

use std::{
    collections::BTreeSet,
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

use super::{
    points::has_state_of_ours,
    support::{COLD, Client, Options, TestJail, json, process, state::is_state},
};

/// Kills in an ordinary run; `scripts/soak` asks for a thousand.
const KILLS: u64 = 60;
/// No kill comes later than this after its round began: a good many calls fit in.
const LONGEST: Duration = Duration::from_millis(40);

fn rounds() -> u64 {
    std::env::var("STOCKADE_SOAK_KILLS").map_or(KILLS, |rounds| rounds.parse().unwrap())
}

/// The only source of chance that needs no crate.
pub fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

/// A version that shows whether it is whole: its number in every line.
fn content(version: u64) -> String {
    format!("{version}\n").repeat(5_000)
}

/// The version that a file holds; a torn or mixed one has none.
#[track_caller]
fn version(jail: &TestJail, name: &str) -> u64 {
    let text = fs::read_to_string(jail.root.join(name)).unwrap();
    let version = text.lines().next().unwrap_or_default().parse().unwrap_or(0);
    assert!(text == content(version), "{name} is torn: {} bytes of version {version}", text.len());
    version
}

/// Writes version after version, alternately one file alone and two together, until the connection ends.
/// The last version that was acknowledged for each.
fn write_until_killed(client: &mut Client, mut next: u64) -> (u64, Option<u64>, Option<u64>) {
    let (mut single, mut pair) = (None, None);
    loop {
        next += 1;
        let file = |name: &str| json!({"path": name, "content": content(next), "overwrite": true});
        let params = if next.is_multiple_of(2) {
            json!({"files": [file("single")]})
        } else {
            json!({"atomic": true, "files": [file("left"), file("right")]})
        };
        let Ok(reply) = client.call("coder::create-file", params) else { return (next, single, pair) };
        assert!(reply["results"].as_array().unwrap().iter().all(|result| result["success"] == true), "{reply}");
        *(if next.is_multiple_of(2) { &mut single } else { &mut pair }) = Some(next);
    }
}

fn check(jail: &TestJail, sent: u64, single: Option<u64>, pair: Option<u64>) {
    let found = version(jail, "single");
    assert!(single.is_none_or(|acknowledged| found >= acknowledged) && found <= sent, "{found} of {sent}, {single:?}");
    let (left, right) = (version(jail, "left"), version(jail, "right"));
    assert_eq!(left, right, "a batch is whole");
    assert!(pair.is_none_or(|acknowledged| left >= acknowledged) && left <= sent, "{left} of {sent}, {pair:?}");
    let names: BTreeSet<_> =
        fs::read_dir(&jail.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        names.iter().all(|name| ["single", "left", "right"].contains(&name.as_str()) || is_state(name)),
        "{names:?}"
    );
}

fn kill_at_random(whom: fn(&mut TestJail, u32), afterwards: fn(&mut TestJail)) {
    let options = Options { policy: Some(COLD.into()), in_memory: true, ..Options::default() };
    let mut jail = TestJail::with_tree(options, |root| {
        for name in ["single", "left", "right"] {
            fs::write(root.join(name), content(0)).unwrap();
        }
    });
    let (mut sent, mut acknowledged) = (0, 0);
    for _ in 0..rounds() {
        let (mut client, worker) = jail.connect_and_find_worker();
        let writer = std::thread::spawn(move || write_until_killed(&mut client, sent));
        let start = Instant::now();
        let moment = Duration::from_micros(random(LONGEST.as_micros() as u64));
        while start.elapsed() < moment {
            std::hint::spin_loop();
        }
        whom(&mut jail, worker);
        let (last, single, pair) = writer.join().unwrap();
        process::eventually("the worker is gone", || !process::is_alive(worker));
        afterwards(&mut jail);
        check(&jail, last, single, pair);
        acknowledged += u64::from(single.is_some()) + u64::from(pair.is_some());
        sent = last;
    }
    assert!(acknowledged > rounds() / 4, "hardly anything was written between the kills: {acknowledged}");
    jail.assert_intact();
}

#[test]
fn a_worker_killed_at_random_leaves_every_file_whole() {
    kill_at_random(
        |_, worker| process::signal(worker, process::Signal::KILL),
        |jail| {
            process::eventually("what it left is put in order", || !has_state_of_ours(jail));
        },
    );
}

#[test]
fn a_supervisor_killed_at_random_leaves_every_file_whole() {
    kill_at_random(
        |jail, _| {
            jail.daemon.child.kill().unwrap();
            jail.daemon.child.wait().unwrap();
        },
        |jail| {
            jail.restart(&Options { policy: Some(COLD.into()), ..Options::default() });
            assert!(!has_state_of_ours(jail), "put in order before the first client");
        },
    );
}
