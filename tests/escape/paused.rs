//! The same moment as in the races, but held still: supervisor and worker are stopped between resolve and open, the
//! attacker does its work, and then they go on. What a race meets by chance, these meet every time.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    attack::{INSIDE, READ, outcomes},
    layers,
    support::{
        Build, COLD, Client, Failure, Options, TestJail, Value, audit::Refused, canary::holds_secret, json,
    },
    swap::{Attacker, Swap},
};

/// Long enough for a process to come to rest, also on a loaded machine; a longer one is tried when it was not.
const SETTLE: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

const NAME: &str = "place/d/secret.txt";

fn signal(pid: u32, signal: Signal) {
    // One that served an earlier connection may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
}

/// Returns when every thread stands still (or has ended): until then one of them may still run.
fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    let is_still = |task: &fs::DirEntry| match fs::read_to_string(task.path().join("stat")) {
        Ok(stat) => stat.rsplit(')').next().unwrap().trim_start().starts_with(['T', 'Z', 'X']),
        Err(_) => true,
    };
    let start = Instant::now();
    while !fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|task| is_still(&task.unwrap())) {
        assert!(start.elapsed() < Duration::from_secs(10), "{pid} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asks while the supervisor sleeps, lets it answer while the worker sleeps, then lets the worker open.
fn with_swap_between(jail: &TestJail, attacker: &Attacker, settle: Duration) -> Result<Value, Failure> {
    let mut client = Client::connect(&jail.socket);
    client.call("coder::info", json!({})).unwrap();
    let supervisor = jail.daemon.pid();
    stop(supervisor);
    let id = client.send(READ, json!({"path": NAME}));
    std::thread::sleep(settle);
    // Without warm ones: a worker that is just starting or ending could not be stopped.
    let workers = jail.daemon.workers();
    workers.iter().for_each(|worker| stop(*worker));
    signal(supervisor, Signal::CONT);
    std::thread::sleep(settle);
    attacker.away();
    workers.iter().for_each(|worker| signal(*worker, Signal::CONT));
    let reply = client.reply_to(id);
    attacker.back();
    reply
}

fn hold(case: &str, swap: Swap, expected: &[&str]) {
    for build in Build::ALL {
        let weakened = build.weakened().map(Into::into);
        let options = Options { weakened, policy: Some(COLD.into()), ..Options::default() };
        let mut attacker = None;
        let jail = TestJail::with_tree(options, |root| attacker = Some(Attacker::plant(swap, root)));
        let attacker = attacker.unwrap();
        let (mut escapes, mut refused) = (Vec::new(), Refused::default());
        for settle in SETTLE {
            let reply = with_swap_between(&jail, &attacker, settle);
            if holds_secret(&reply) {
                escapes.push(format!("{reply:?}"));
            }
            if build == Build::Normal {
                outcomes(&reply).iter().for_each(|code| refused.expect(READ, code, NAME.as_bytes()));
                refused.assert_audited(&jail);
                let content =
                    reply.as_ref().ok().map(|result| result["content"].as_str().unwrap().to_owned());
                let answer = content.unwrap_or_else(|| outcomes(&reply)[0].clone());
                let met = expected.contains(&answer.as_str());
                // As if nothing had happened: the moment was missed, and a longer pause is tried.
                let missed = answer == INSIDE && settle != SETTLE[SETTLE.len() - 1];
                assert!(met || missed, "{case}: {reply:?}");
                if !met {
                    continue;
                }
            }
            if !layers::is_excepted(case, build) || !escapes.is_empty() {
                break;
            }
        }
        jail.assert_intact();
        layers::judge(case, build, &escapes);
    }
}

#[test]
fn a_folder_moved_out_between_resolve_and_open_is_lost() {
    // The worker is refused, asks once more, and by then there is no such name.
    hold("a_folder_moved_out_between_resolve_and_open_is_lost", Swap::OutAndBack, &["C211"]);
}

#[test]
fn a_folder_swapped_with_an_outside_one_between_resolve_and_open_is_lost() {
    // The worker is refused, asks once more, and finds what has taken the name: a folder of the root by now.
    let case = "a_folder_swapped_with_an_outside_one_between_resolve_and_open_is_lost";
    hold(case, Swap::FolderAndOutsideFolder, &[crate::swap::ALSO_INSIDE]);
}

#[test]
fn a_folder_swapped_with_a_link_between_resolve_and_open_stays_the_folder() {
    let case = "a_folder_swapped_with_a_link_between_resolve_and_open_stays_the_folder";
    hold(case, Swap::FolderAndLink, &[INSIDE]);
}

#[test]
fn a_file_swapped_with_a_link_between_resolve_and_open_is_refused() {
    let case = "a_file_swapped_with_a_link_between_resolve_and_open_is_refused";
    hold(case, Swap::FileAndLink, &["C215"]);
}
