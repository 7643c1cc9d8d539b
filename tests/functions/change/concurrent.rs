//! Many clients at once: one winner, no lost update, nobody waits for ever.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::*;

const CLIENTS: usize = 16;
const ROUNDS: usize = 12;

/// Each reads, adds one, and writes with the version it read. The file counts the successes.
#[test]
fn sixteen_clients_with_if_match_lose_no_update() {
    let jail = jail();
    jail.write("counter", "0");
    let won = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = jail.connect();
                let mut successes = 0;
                while successes < ROUNDS {
                    let read = client.call("coder::read-file", json!({"path": "counter", "etag": true})).unwrap();
                    let next = read["content"].as_str().unwrap().parse::<u64>().unwrap() + 1;
                    let file = json!({"path": "counter", "content": next.to_string(), "overwrite": true, "if_match": read["etag"]});
                    let result = one(client.call(CREATE, json!({"files": [file]})));
                    match result["error"]["code"].as_str() {
                        None => {
                            won.fetch_add(1, Ordering::Relaxed);
                            successes += 1;
                        }
                        Some(code) => assert_eq!(code, "C219", "{result}"),
                    }
                }
            });
        }
    });
    assert_eq!(read(&jail, "counter"), won.load(Ordering::Relaxed).to_string());
    assert_eq!(won.load(Ordering::Relaxed), (CLIENTS * ROUNDS) as u64);
    jail.assert_intact();
}

#[test]
fn of_many_creates_of_one_name_exactly_one_wins() {
    let jail = jail();
    for round in 0..10 {
        let winners = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (jail, winners) = (&jail, &winners);
                scope.spawn(move || {
                    let file = json!({"path": format!("new{round}/f"), "content": format!("{client}")});
                    let result = one(jail.call(CREATE, json!({"files": [file]})));
                    match result["error"]["code"].as_str() {
                        None => drop(winners.fetch_add(1, Ordering::Relaxed)),
                        Some(code) => assert_eq!(code, "C217", "{result}"),
                    }
                });
            }
        });
        assert_eq!(winners.load(Ordering::Relaxed), 1);
    }
}

/// Batches that want the same names in opposite order: they take their leases in one order, so none waits for ever.
#[test]
fn batches_in_opposite_order_do_not_block_each_other() {
    let jail = jail();
    ["a", "b", "c", "d"].iter().for_each(|name| drop(jail.write(name, "x")));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..6 {
            let jail = &jail;
            scope.spawn(move || {
                let mut client_connection = jail.connect();
                let mut names = ["a", "b", "c", "d"];
                names.rotate_left(client % 4);
                if client % 2 == 0 {
                    names.reverse();
                }
                for round in 0..15 {
                    let files: Vec<_> = names
                        .iter()
                        .map(|name| json!({"path": name, "content": format!("{client} {round}"), "overwrite": true}))
                        .collect();
                    let params = json!({"files": files, "atomic": round % 2 == 0});
                    results(client_connection.call(CREATE, params)).iter().for_each(assert_success);
                }
            });
        }
        for client in 0..2 {
            let jail = &jail;
            scope.spawn(move || {
                let mut connection = jail.connect();
                for _ in 0..15 {
                    let (from, to) = if client == 0 { ("p", "q") } else { ("q", "p") };
                    let params = json!({"files": [{"from": from, "to": to, "overwrite": true}]});
                    let result = one(connection.call(MOVE, params));
                    assert!([None, Some("C211")].contains(&result["error"]["code"].as_str()), "{result}");
                }
            });
        }
    });
    // Far below one deadline: nobody waited for it.
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    let contents: Vec<_> = ["a", "b", "c", "d"].map(|name| read(&jail, name)).to_vec();
    assert!(contents.iter().all(|content| content.len() >= 3), "{contents:?}");
}

/// Atomic batches of several clients: a reader that looks at a quiet moment finds one batch whole.
#[test]
fn atomic_batches_of_many_clients_never_mix() {
    let jail = jail();
    ["left", "right"].iter().for_each(|name| drop(jail.write(name, "start")));
    std::thread::scope(|scope| {
        for client in 0..6 {
            let jail = &jail;
            scope.spawn(move || {
                let mut connection = jail.connect();
                for round in 0..10 {
                    let file =
                        |name: &str| json!({"path": name, "content": format!("{client}-{round}"), "overwrite": true});
                    let params = json!({"atomic": true, "files": [file("left"), file("right")]});
                    results(connection.call(CREATE, params)).iter().for_each(assert_success);
                }
            });
        }
    });
    assert_eq!(read(&jail, "left"), read(&jail, "right"));
}

/// A second writer waits within its deadline, then hears that the name is busy.
#[test]
fn a_name_that_stays_taken_is_busy_after_the_deadline() {
    let jail = TestJail::with(Options {
        fault: Some("stop:1".into()),
        policy: Some(crate::support::COLD.into()),
        in_memory: true,
        ..Options::default()
    });
    let mut first = jail.connect();
    first.send(CREATE, json!({"files": [{"path": "f", "content": "x"}]}));
    crate::support::process::eventually("a worker stands still with the lease", || {
        jail.daemon.workers().iter().any(|worker| {
            let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    });
    let mut second = jail.connect();
    let start = Instant::now();
    second.send_line(
        &json!({"jsonrpc": "2.0", "id": 9, "timeout_ms": 700, "method": CREATE,
            "params": {"files": [{"path": "f", "content": "y"}]}})
        .to_string(),
    );
    let result = one(second.reply_to(9));
    let text = assert_refused(&result, "C222");
    assert!(text.contains("another client is changing it"), "{text}");
    assert!(start.elapsed() >= Duration::from_millis(650), "{:?}", start.elapsed());
}

/// An atomic batch that is planned, or that reads and stages large files, delays nobody: it takes its leases for the commit.
/// It then finds that a file has changed since it was read, and plans again, so that neither change is lost.
#[test]
fn an_atomic_batch_holds_no_name_while_it_is_planned() {
    let jail = TestJail::with(Options {
        fault: Some("stop:1".into()),
        policy: Some(crate::support::COLD.into()),
        in_memory: true,
        ..Options::default()
    });
    jail.write("f", "one two");
    let replace = |old: &str, new: &str| json!({"path": "f", "ops": [{"op": "str_replace", "old": old, "new": new}]});
    let (mut batch, planner) = jail.connect_and_find_worker();
    jail.write("g", "three");
    let other = json!({"path": "g", "ops": [{"op": "str_replace", "old": "three", "new": "3"}]});
    let id = batch.send(UPDATE, json!({"atomic": true, "files": [replace("one", "1"), other]}));
    assert!(crate::support::process::stands_still(planner, &mut batch), "before its first change");

    let (mut second, worker) = jail.connect_and_find_worker();
    let own = second.send(UPDATE, json!({"files": [replace("two", "2")]}));
    assert!(crate::support::process::stands_still(worker, &mut second), "it did not wait for the batch");
    crate::support::process::signal(worker, crate::support::process::Signal::CONT);
    assert_success(&one(second.reply_to(own)));
    assert_eq!(read(&jail, "f"), "one 2");

    crate::support::process::signal(planner, crate::support::process::Signal::CONT);
    results(batch.reply_to(id)).iter().for_each(assert_success);
    assert_eq!((read(&jail, "f").as_str(), read(&jail, "g").as_str()), ("1 2", "3"));
    jail.assert_intact();
}

/// The version that was asked for is still there: somebody is only about to change it.
#[test]
fn a_busy_name_whose_version_still_matches_is_busy_and_not_stale() {
    let jail = TestJail::with(Options {
        fault: Some("stop:1".into()),
        policy: Some(crate::support::COLD.into()),
        in_memory: true,
        ..Options::default()
    });
    jail.write("f", "old");
    let etag = jail.call("coder::read-file", json!({"path": "f", "etag": true})).unwrap()["etag"].clone();
    let update =
        |content: &str| json!({"files": [{"path": "f", "content": content, "overwrite": true, "if_match": etag}]});
    let (mut first, worker) = jail.connect_and_find_worker();
    let id = first.send(CREATE, update("first"));
    assert!(crate::support::process::stands_still(worker, &mut first));
    let mut second = jail.connect();
    let call = json!({"jsonrpc": "2.0", "id": 9, "timeout_ms": 500, "method": CREATE, "params": update("second")});
    second.send_line(&call.to_string());
    assert_refused(&one(second.reply_to(9)), "C222");
    crate::support::process::signal(worker, crate::support::process::Signal::CONT);
    assert_success(&one(first.reply_to(id)));
    assert_eq!(read(&jail, "f"), "first");
}

/// Whoever wants to replace whatever is there is never told to want that.
#[test]
fn of_many_overwrites_in_a_folder_that_is_yet_to_be_made_none_is_told_to_overwrite() {
    let jail = jail();
    for round in 0..10 {
        std::thread::scope(|scope| {
            for client in 0..8 {
                let jail = &jail;
                scope.spawn(move || {
                    let path = format!("new{round}/n/e/w");
                    let file = json!({"path": path, "content": format!("{client}"), "overwrite": true});
                    let result = one(jail.call(CREATE, json!({"files": [file]})));
                    assert!([None, Some("C222")].contains(&result["error"]["code"].as_str()), "{result}");
                });
            }
        });
        assert_eq!(read(&jail, &format!("new{round}/n/e/w")).len(), 1);
    }
}
