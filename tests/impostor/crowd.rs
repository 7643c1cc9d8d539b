//! A uid that makes more connections than workers can be started for. The workers here take as long to start as the claim
//! wants, so that it is known which connections wait.

use std::{
    fs,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

use stockade::internals::broker::setup::Setup;

use crate::{
    installation,
    support::{
        Client, Options, TestJail, Value,
        peer::{NOBODY, connect_as},
        process::{self, Signal, eventually},
    },
};

/// Of workers that are started at the same time for one uid; `MAX_STARTS_PER_UID` in `src/supervisor/turns.rs`.
const STARTS: usize = 4;
/// `max_connections_per_uid` in the policy.
const PLACES: usize = 20;

/// Before it reports: waits while the root has a file `shut`, unless there is one with the worker's own number.
pub fn wait_at_the_gate(setup: &Setup) {
    let root = &setup.roots[0].path;
    let may_pass = || !root.join("shut").exists() || root.join(std::process::id().to_string()).exists();
    while !may_pass() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn serve(connection: OwnedFd) {
    let mut client = UnixStream::from(connection);
    let _ = writeln!(client, "{{\"served\": true}}");
    let _ = client.read_to_end(&mut Vec::new());
}

fn gated(pool: usize) -> (TestJail, tempfile::TempDir) {
    let installed = TestJail::directory();
    let policy = format!(
        "[[root]]\npath = \"ROOT\"\n[workers]\npool = {pool}\n[limits]\nmax_connections_per_uid = {PLACES}\n\
         [socket]\ngroup = \"nogroup\"\nmode = \"0666\"\n[[peer]]\ngid = 0\n"
    );
    let bin = Some(installation(installed.path(), "slow"));
    let jail = TestJail::with(Options { policy: Some(policy), bin, folder_mode: Some(0o711), ..Options::default() });
    (jail, installed)
}

/// Connections that hang up before they are accepted.
fn hang_up_early(jail: &TestJail, count: usize) {
    process::signal(jail.daemon.pid(), Signal::STOP);
    (0..count).for_each(|_| drop(connect_as(NOBODY, 0, &jail.socket).unwrap()));
    process::signal(jail.daemon.pid(), Signal::CONT);
}

/// Connections of one uid with the profile of all, all of them in the listening queue before the first is accepted.
fn crowd(jail: &TestJail, count: usize) -> Vec<Client> {
    process::signal(jail.daemon.pid(), Signal::STOP);
    let clients = (0..count).map(|_| Client::on(connect_as(NOBODY, 0, &jail.socket).unwrap())).collect();
    process::signal(jail.daemon.pid(), Signal::CONT);
    clients
}

fn is_served(client: &mut Client) -> bool {
    client.line().is_some_and(|line| line["served"] == true)
}

fn shut(jail: &TestJail) -> &Path {
    fs::write(jail.root.join("shut"), "").unwrap();
    &jail.root
}

fn accepted_of(jail: &TestJail, uid: u32) -> usize {
    let is_one = |record: &Value| record["event"] == "accepted" && record["uid"] == uid;
    jail.audit().iter().filter(|record| is_one(record)).count()
}

pub fn a_crowd_of_one_uid_takes_no_more_than_its_turns() {
    if !process::runs_as_root("a_crowd_of_one_uid_takes_no_more_than_its_turns") {
        return;
    }
    let (jail, _installed) = gated(0);
    eventually("nobody is served", || jail.daemon.workers().is_empty());
    let root = shut(&jail);
    hang_up_early(&jail, 2 * PLACES);
    let mut waiting = crowd(&jail, PLACES);
    eventually("its first workers start", || jail.daemon.workers().len() == STARTS);
    let first = jail.daemon.workers();
    // One connection too many is refused although no worker is free, and takes none.
    for mut refused in crowd(&jail, 30) {
        let line = refused.line().expect("an answer");
        assert_eq!(line["error"]["data"]["code"], "C222", "{line}");
    }
    assert_eq!(jail.daemon.workers(), first);
    // Those that hang up while they wait make room for others of their uid, and take no worker either.
    let patient = waiting.drain(..PLACES / 2).collect::<Vec<_>>();
    drop(waiting);
    eventually("there are places again", || {
        let mut next = crowd(&jail, 1).remove(0);
        next.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        std::io::Read::read(&mut next.stream, &mut [0; 1]).is_err()
    });
    assert_eq!(jail.daemon.workers(), first);
    // Another uid does not wait for them.
    let mut other = jail.connect();
    eventually("its worker starts", || jail.daemon.workers().len() == STARTS + 1);
    let own = jail.daemon.workers().into_iter().find(|pid| !first.contains(pid)).unwrap();
    fs::write(root.join(own.to_string()), "").unwrap();
    assert!(is_served(&mut other), "before all that came earlier");
    assert_eq!(accepted_of(&jail, NOBODY), 0);
    fs::remove_file(root.join("shut")).unwrap();
    for mut client in patient {
        assert!(is_served(&mut client), "whoever waits gets a turn");
    }
    eventually("all have ended", || jail.daemon.workers().len() == 1);
    let accepted = || accepted_of(&jail, NOBODY);
    eventually("the audit tells of each", || accepted() >= PLACES / 2);
    drop(other);
    eventually("and of its end", || jail.audit().last().is_some_and(|record| record["event"] == "ended"));
    assert_eq!(accepted(), PLACES / 2, "a worker for each that waited, and for no other");
    jail.canaries.assert_untouched();
}

pub fn a_crowd_of_one_uid_leaves_a_warm_worker_to_others() {
    if !process::runs_as_root("a_crowd_of_one_uid_leaves_a_warm_worker_to_others") {
        return;
    }
    let (jail, _installed) = gated(1);
    eventually("the pool is warm", || jail.daemon.workers().len() == 1);
    // The worker that waits was started by the last connection, and may still be on its way through the gate.
    std::thread::sleep(Duration::from_millis(300));
    let root = shut(&jail);
    let mut waiting = crowd(&jail, PLACES);
    eventually("its first workers start", || jail.daemon.workers().len() == STARTS + 1);
    let mut other = jail.connect();
    assert!(is_served(&mut other), "by the warm worker, while no other gets ready");
    assert_eq!(accepted_of(&jail, NOBODY), 0);
    fs::remove_file(root.join("shut")).unwrap();
    assert!(waiting.iter_mut().all(is_served));
}
