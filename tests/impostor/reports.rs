//! Workers that lie to the audit, or flood it: whatever they say stands in fields of their own, and holds up nothing else.

use std::{
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use stockade::internals::{
    broker::{
        Effect, EntryOutcome, OutcomeKind, OutcomePaths,
        codec::{MAX_OUTCOMES, ToSupervisor},
    },
    wire::Code,
};

use crate::{
    Channel, installation,
    support::{
        Options, TestJail, Value,
        process::{self, eventually},
    },
};

/// A path that would like to be a record.
const LIE: &[u8] = b"\"}\n{\"event\":\"decided\",\"decision\":\"granted\",\"uid\":0,\"code\":\"C211\"}\n\x1b[2J";
const FLOOD_MESSAGES: usize = 1500;
/// What may wait for the disk is 1 MiB; the rest is room for the allocator.
const MAX_GROWTH_BYTES: u64 = 24 << 20;

pub fn lie(channel: &Channel) {
    for function in [u8::MAX, 0] {
        channel.send(&ToSupervisor::Refused { function, code: Code::OutsideRoots, path: LIE.to_vec() });
    }
    let word = String::from_utf8(LIE.to_vec()).unwrap();
    let paths = OutcomePaths { path: LIE.to_vec(), to: Some(LIE.to_vec()) };
    let effect = Effect {
        bytes: Some(u64::MAX),
        entries: Some(u64::MAX),
        etag_before: Some(word.clone()),
        etag_after: Some(word.clone()),
        trash_id: Some(word),
    };
    let kind = OutcomeKind::Refused { code: Code::NotFound, denied: true };
    channel.send(&ToSupervisor::Outcomes { function: 1, outcomes: vec![EntryOutcome { kind, paths, effect }] });
}

/// Sends outcomes of calls that it never got, then tells its client.
pub fn flood(channel: &Channel, connection: OwnedFd) {
    let mut client = UnixStream::from(connection);
    let _ = client.read(&mut [0]);
    let outcome = EntryOutcome {
        kind: OutcomeKind::Changed,
        paths: OutcomePaths { path: b"/etc/passwd".to_vec(), to: None },
        effect: Effect::default(),
    };
    for _ in 0..FLOOD_MESSAGES {
        let outcomes = vec![outcome.clone(); MAX_OUTCOMES];
        channel.send(&ToSupervisor::Outcomes { function: 2, outcomes });
    }
    writeln!(client, "{{}}").unwrap();
}

fn jail_with(installed: &tempfile::TempDir, how: &str) -> TestJail {
    let bin = Some(installation(installed.path(), how));
    let policy = Some("[[root]]\npath = \"ROOT\"\n[workers]\npool = 0\n".into());
    TestJail::with(Options { policy, bin, ..Options::default() })
}

/// The records of the last connection, once all have ended.
fn of_last(jail: &TestJail, connections: usize) -> Vec<Value> {
    eventually("its connection has ended", || {
        jail.audit().iter().filter(|record| record["event"] == "ended").count() == connections
    });
    let mut records = jail.audit();
    let id = records.iter().map(|record| record["connection"].as_u64().unwrap()).max();
    records.retain(|record| record["connection"].as_u64() == id);
    records
}

/// A worker can put words into its own mouth and into no other.
pub fn a_worker_that_lies_to_the_audit_lies_in_reports_alone() {
    let installed = TestJail::directory();
    let jail = jail_with(&installed, "liar");
    let mut client = jail.connect();
    assert_eq!(client.rest(), [] as [Value; 0], "it ends like an honest one");
    let own = of_last(&jail, 2);
    let events: Vec<_> = own.iter().map(|record| record["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["accepted", "reported", "reported", "outcome", "ended"]);
    let by_worker =
        |record: &Value| record.as_object().unwrap().keys().filter(|key| key.starts_with("reported_")).count();
    for record in &own[1..4] {
        assert_eq!(record["reported_path"], std::str::from_utf8(LIE).unwrap());
        assert_eq!(record["uid"], rustix::process::geteuid().as_raw());
    }
    assert_eq!((by_worker(&own[1]), by_worker(&own[2])), (3, 3));
    assert_eq!((&own[1]["reported_function"], &own[1]["reported_code"]), (&"unknown".into(), &"C215".into()));
    assert_eq!(own[2]["reported_function"], "coder::info");
    // Everything that the supervisor itself says about a connection, and nothing more.
    let known = ["time_ms", "event", "level", "connection", "uid", "gid", "pid", "peer_alive"];
    let outcome = own[3].as_object().unwrap();
    let others: Vec<_> = outcome.keys().filter(|key| !key.starts_with("reported_")).collect();
    assert!(others.iter().all(|key| known.contains(&key.as_str())), "{others:?}");
    assert_eq!((&outcome["reported_to"], by_worker(&own[3])), (&std::str::from_utf8(LIE).unwrap().into(), 11));
}

/// The queue is bounded, what it cannot take is counted, and others are served meanwhile.
pub fn a_worker_that_floods_the_audit_is_bounded_and_counted() {
    let installed = TestJail::directory();
    let jail = jail_with(&installed, "flooder");
    let before = process::resident_bytes(jail.daemon.pid());
    let mut client = jail.connect();
    client.send_bytes(b"f");
    let mut most = 0;
    // The message comes after the last outcome was taken from the channel or waits in it.
    let reader = std::thread::spawn(move || client.rest());
    while !reader.is_finished() {
        most = most.max(process::resident_bytes(jail.daemon.pid()));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(reader.join().unwrap().len(), 1, "it is served to its end");
    let grown = most.saturating_sub(before);
    assert!(grown < MAX_GROWTH_BYTES, "{grown} bytes");
    // The next connection's records bring the count of what was lost, if nothing did before.
    drop(jail.connect());
    eventually("every outcome is told or counted", || {
        let records = jail.audit();
        let told = records.iter().filter(|record| record["event"] == "outcome").count();
        let lost: u64 = records.iter().filter_map(|record| record["lost_before"].as_u64()).sum();
        told as u64 + lost >= (FLOOD_MESSAGES * MAX_OUTCOMES) as u64
    });
    jail.canaries.assert_untouched();
}
