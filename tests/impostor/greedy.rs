//! Workers that want more names than any call needs: what they hold while they wait, or for good, is the supervisor's.

use std::{
    fs,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

use stockade::internals::broker::{
    Intent,
    codec::{ChannelAnswer, ChannelQuestion, ToSupervisor, ToWorker},
};

use crate::{
    Channel, asked, installation,
    support::{
        Options, TestJail,
        process::{self, eventually},
    },
    write_one_name,
};

/// Does what the first byte from its client says.
pub fn obey(channel: &mut Channel, connection: OwnedFd) {
    let mut client = UnixStream::from(connection);
    let mut order = [0];
    let _ = client.read(&mut order);
    match &order {
        b"w" => write_one_name(channel, client.into()),
        b"m" => (0..1000).for_each(|id| channel.send(&patient(id, &[b"d0/x".to_vec()]))),
        b"f" => {
            let folders: Vec<_> = (0..32).map(|n| format!("d{n}/x").into_bytes()).collect();
            channel.send(&patient(1, &folders));
        }
        b"h" => hoard(channel, client),
        b"x" => hoard_and_die(channel, client),
        b"r" | b"a" => reserve(channel, client, order == *b"a"),
        _ => {}
    }
    if matches!(&order, b"m" | b"f") {
        // Killed, or the claim fails.
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Wants to write these names, and has all the time in the world.
fn patient(id: u32, paths: &[Vec<u8>]) -> ToSupervisor {
    let wanted = |path: &Vec<u8>| ChannelQuestion { deadline_ms: u32::MAX, ..asked(0, path, Intent::Write) };
    ToSupervisor::Resolve { id, questions: paths.iter().map(wanted).collect() }
}

/// Leases until there are no more, and keeps them for as long as the client stays.
fn hoard(channel: &mut Channel, mut client: UnixStream) {
    let mut granted = 0u32;
    for id in 0.. {
        let names: Vec<_> = (0..32).map(|n| format!("d1/{:0>200}", id * 32 + n).into_bytes()).collect();
        channel.send(&patient(id, &names));
        let (ToWorker::Answers { answers, .. }, _fds) = channel.receive() else { panic!("no answer") };
        let refused = |answer: &ChannelAnswer| matches!(answer, ChannelAnswer::Refused(_));
        granted += answers.iter().filter(|answer| !refused(answer)).count() as u32;
        if answers.iter().any(refused) {
            break;
        }
    }
    writeln!(client, "{}", serde_json::json!({"granted": granted})).unwrap();
    let _ = client.read(&mut [0]);
}

/// Reserves memory as for the longest line, and keeps it for as long as the client stays. `again`: also after a refusal.
fn reserve(channel: &mut Channel, mut client: UnixStream, again: bool) {
    let mut granted = 0u32;
    while granted < LONGEST_STEPS {
        channel.send(&ToSupervisor::Reserve);
        let (ToWorker::Reserved { granted: is_granted }, _) = channel.receive() else { panic!("no answer") };
        if !is_granted {
            break;
        }
        granted += 1;
    }
    writeln!(client, "{}", serde_json::json!({"granted": granted})).unwrap();
    if again {
        channel.send(&ToSupervisor::Reserve);
    }
    let _ = client.read(&mut [0]);
}

/// Steps of the longest line; the user may have half as many again.
const LONGEST_STEPS: u32 = 8;

fn obedient() -> (TestJail, tempfile::TempDir) {
    let installed = TestJail::directory();
    let options = Options {
        policy: Some(
            "[[root]]\npath = \"ROOT\"\n[workers]\npool = 0\n[limits]\nmax_frame_bytes = 8388608\n\
             max_frame_bytes_per_uid = 12582912\n"
                .into(),
        ),
        bin: Some(installation(installed.path(), "obedient")),
        ..Options::default()
    };
    let jail = TestJail::with_tree(options, |root| {
        (0..32).for_each(|n| fs::create_dir(root.join(format!("d{n}"))).unwrap());
    });
    (jail, installed)
}

/// Whatever waits holds descriptors of the supervisor, which are everybody's.
pub fn a_worker_that_waits_for_more_than_any_call_needs_is_killed() {
    let (jail, _installed) = obedient();
    let mut writer = jail.connect();
    writer.send_bytes(b"w");
    assert_eq!(writer.line().unwrap()["answer"], "lease granted");
    for (order, reason) in [(b"m", "waits for too many names"), (b"f", "too many folders")] {
        let mut greedy = jail.connect();
        greedy.send_bytes(order);
        let line = greedy.line().expect("one last line");
        assert_eq!(line["error"]["data"]["code"], "C216", "{line}");
        eventually("the log says why", || jail.log().contains(reason));
    }
    eventually("only the writer is left", || jail.daemon.workers().len() == 1);
}

pub fn a_worker_that_hoards_names_is_bounded_and_others_write_on() {
    const MOST_GROWTH_BYTES: u64 = 32 << 20;
    let (jail, _installed) = obedient();
    let before = process::resident_bytes(jail.daemon.pid());
    let mut hoarder = jail.connect();
    hoarder.send_bytes(b"h");
    let granted = hoarder.line().unwrap()["granted"].as_u64().unwrap();
    println!("{granted} names were granted");
    assert!((2000..100_000).contains(&granted), "{granted}");
    let growth = process::resident_bytes(jail.daemon.pid()).saturating_sub(before);
    assert!(growth < MOST_GROWTH_BYTES, "{growth}");
    let mut writer = jail.connect();
    writer.send_bytes(b"w");
    assert_eq!(writer.line().unwrap()["answer"], "lease granted", "other names are free");
    drop(hoarder);
    eventually("its names are free again", || {
        let mut next = jail.connect();
        next.send_bytes(b"h");
        next.line().unwrap()["granted"].as_u64().unwrap() == granted
    });
}

fn hoard_and_die(channel: &mut Channel, mut client: UnixStream) {
    let pid = std::process::id();
    for id in 0.. {
        let names: Vec<_> = (0..32).map(|n| format!("d1/{pid}-{:0>200}", id * 32 + n).into_bytes()).collect();
        let wanted = |path: &Vec<u8>| ChannelQuestion { deadline_ms: 200, ..asked(0, path, Intent::Write) };
        channel.send(&ToSupervisor::Resolve { id, questions: names.iter().map(wanted).collect() });
        let (ToWorker::Answers { answers, .. }, _fds) = channel.receive() else { panic!("no answer") };
        if answers.iter().any(|answer| matches!(answer, ChannelAnswer::Refused(_))) {
            break;
        }
    }
    writeln!(client, "{{}}").unwrap();
    std::process::exit(1);
}

/// While recovery fails, what lost workers hold is kept.
pub fn lost_workers_that_hoarded_do_not_exhaust_the_supervisor() {
    let (jail, _installed) = obedient();
    fs::create_dir_all(jail.root.join(".stockade-0123456789abcdef/work")).unwrap();
    let before = process::resident_bytes(jail.daemon.pid());
    for _ in 0..30 {
        let mut hoarder = jail.connect();
        hoarder.send_bytes(b"x");
        let _ = hoarder.line();
    }
    let growth = process::resident_bytes(jail.daemon.pid()).saturating_sub(before);
    assert!(growth < 128 << 20, "{growth}");
}

pub fn a_worker_that_hoards_memory_is_bounded_and_its_end_gives_it_back() {
    let (jail, _installed) = obedient();
    let reserving = |order: &[u8]| {
        let mut client = jail.connect();
        client.send_bytes(order);
        let granted = client.line().unwrap()["granted"].as_u64().unwrap();
        (client, granted)
    };
    let (first, granted) = reserving(b"r");
    assert_eq!(granted, 8);
    let (mut second, granted) = reserving(b"a");
    assert_eq!(granted, 4, "what is left of the user's");
    let line = second.line().expect("one last line");
    assert_eq!(line["error"]["data"]["code"], "C216", "{line}");
    eventually("the log says why", || jail.log().contains("reserves memory after a refusal"));
    drop(first);
    eventually("both have given back", || reserving(b"r").1 == 8);
}
