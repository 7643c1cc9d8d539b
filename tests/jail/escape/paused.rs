//! The same moment as in the races, but held still: supervisor and worker are stopped between resolve and open, the
//! attacker does its work, and then they go on. What a race meets by chance, these meet every time.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    attack::{INSIDE, READ, outcomes},
    layers,
    support::{Build, COLD, Client, Failure, Options, TestJail, Value, audit::Refused, canary::holds_secret, json},
    swap::{Attacker, Swap},
};

/// For the worker to ask. On a loaded machine that can be too short: then a longer one is tried.
const SETTLE: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(400), Duration::from_millis(1600), Duration::from_millis(6400)];
/// For the supervisor to answer a question that is there.
const ANSWERED: Duration = Duration::from_secs(5);

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

/// Resolves of the name that the audit tells of.
fn granted(jail: &TestJail) -> usize {
    let of_name = |record: &&Value| record["decision"] == "granted" && record["path"] == NAME;
    jail.audit().iter().filter(of_name).count()
}

/// Asks while the supervisor sleeps, lets it answer while the worker sleeps, then lets the worker open. `None` if the moment
/// was missed: the worker had not asked when it was stopped.
fn with_swap_between(jail: &TestJail, attacker: &Attacker, settle: Duration) -> Option<Result<Value, Failure>> {
    let mut client = Client::connect(&jail.socket);
    client.call("coder::info", json!({})).unwrap();
    let (supervisor, before) = (jail.daemon.pid(), granted(jail));
    stop(supervisor);
    let id = client.send(READ, json!({"path": NAME}));
    std::thread::sleep(settle);
    // Without warm ones: a worker that is just starting or ending could not be stopped.
    let workers = jail.daemon.workers();
    workers.iter().for_each(|worker| stop(*worker));
    signal(supervisor, Signal::CONT);
    let start = Instant::now();
    while granted(jail) == before && start.elapsed() < ANSWERED {
        std::thread::sleep(Duration::from_millis(5));
    }
    let is_answered = granted(jail) > before;
    if is_answered {
        attacker.away();
    }
    workers.iter().for_each(|worker| signal(*worker, Signal::CONT));
    let reply = client.reply_to(id);
    if is_answered {
        attacker.back();
    }
    is_answered.then_some(reply)
}

fn hold(case: &str, swap: Swap, expected: &[&str]) {
    for build in Build::attacked() {
        let options = Options { policy: Some(COLD.into()), ..build.options() };
        let mut attacker = None;
        let jail = TestJail::with_tree(options, |root| attacker = Some(Attacker::plant(swap, root)));
        let attacker = attacker.unwrap();
        let met = SETTLE.iter().find_map(|settle| with_swap_between(&jail, &attacker, *settle));
        let reply = met.unwrap_or_else(|| panic!("{case}: the moment was never met in {build:?}"));
        let escapes: Vec<_> = holds_secret(&reply).then(|| format!("{reply:?}")).into_iter().collect();
        if build.is_whole() && !layers::is_excepted(case, build) {
            let mut refused = Refused::default();
            outcomes(&reply).iter().for_each(|code| refused.expect(READ, code, NAME.as_bytes()));
            refused.assert_audited(&jail);
            let content = reply.as_ref().ok().map(|result| result["content"].as_str().unwrap().to_owned());
            let answer = content.unwrap_or_else(|| outcomes(&reply)[0].clone());
            assert!(expected.contains(&answer.as_str()), "{case}: {reply:?}");
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
    hold(case, Swap::FolderAndOutsideFolder, &[super::swap::ALSO_INSIDE]);
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
