//! Starts while somebody swaps every name that a start touches. Root starts the service; the user whom it becomes owns the
//! folders and is the attacker. Nothing of root's outside may change hands, mode or content, and the service never
//! serves as uid 0.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::names::Place;
use crate::support::{
    Daemon, daemon_command,
    peer::{NOBODY, acting_as},
    process::{runs_as_root, status},
};

/// `STOCKADE_SOAK_STARTS` asks for more.
const STARTS: usize = 100;
/// A start that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn starts() -> usize {
    std::env::var("STOCKADE_SOAK_STARTS").map_or(STARTS, |starts| starts.parse().unwrap())
}

/// Names that are swapped with one beside them, which leads to something of root's.
const SWAPPED: &[&str] =
    &["home/project", "home/project/in", "home/run", "home/log", "home/log/audit.jsonl", "home/policy.toml"];

fn trap(name: &str) -> String {
    format!("{name}.trap")
}

/// What the attacker swaps in one round: one name of `SWAPPED`, the socket's own name, or all. A start that is refused at
/// its first name would never meet the others.
const FOCUSES: usize = SWAPPED.len() + 2;

/// A trap in the place of a name for a moment.
fn swap_once(dir: &Path, turn: usize, focus: usize) {
    let pause = |most: usize| std::thread::sleep(Duration::from_micros((turn * 37 % most) as u64));
    let (all, socket) = (SWAPPED.len() + 1, SWAPPED.len());
    if focus != socket {
        let name = SWAPPED[if focus == all { turn % SWAPPED.len() } else { focus }];
        let swap = || {
            // The name may be part of another swap at this moment.
            let _ = renameat_with(CWD, dir.join(name), CWD, dir.join(trap(name)), RenameFlags::EXCHANGE);
        };
        swap();
        pause(400);
        swap();
    }
    if focus >= socket {
        // A link, a socket of another, a link to a folder, and nothing.
        let (socket, secret) = (dir.join("home/run/s"), dir.join("outside/secret.txt"));
        let _ = fs::remove_file(&socket);
        match turn % 4 {
            0 => drop(symlink(&secret, &socket)),
            1 => drop(UnixListener::bind(&socket)),
            2 => drop(symlink(dir.join("outside/deep"), &socket)),
            _ => {}
        }
    }
    pause(300);
}

fn fill(place: &Place) -> [PathBuf; 2] {
    for name in ["home/project", "home/project/in", "home/log"] {
        place.folder(name, NOBODY, 0o755);
    }
    place.folder("home/run", NOBODY, 0o700);
    fs::write(place.path("home/log/audit.jsonl"), "").unwrap();
    place.give("home/log/audit.jsonl", NOBODY, 0o600);
    let text = "[[root]]\npath = \"DIR/home/project\"\n\
                [[root]]\npath = \"DIR/home/project/in\"\nallow_nested = true\noptional = true\n\
                [audit]\npath = \"DIR/home/log/audit.jsonl\"\n";
    let policies = [place.policy("policy.toml", text), place.policy("home/policy.toml", text)];
    for name in SWAPPED {
        let target = match *name {
            "home/run" => "outside/private",
            "home/log/audit.jsonl" => "outside/secret.txt",
            "home/policy.toml" => "policy.toml",
            _ => "outside",
        };
        symlink(place.path(target), place.path(&trap(name))).unwrap();
        std::os::unix::fs::lchown(place.path(&trap(name)), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    policies
}

/// Until it serves or has ended. True if it serves.
fn outcome(child: &mut Child, log: &Path) -> bool {
    let start = Instant::now();
    loop {
        if fs::read_to_string(log).is_ok_and(|said| said.contains("\"listening\"")) {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(start.elapsed() < PATIENCE, "a start hangs: {}", fs::read_to_string(log).unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many of the starts served.
fn start_often(place: &Place, policies: &[PathBuf], starts: usize, focus: &AtomicUsize) -> usize {
    let mut served = 0;
    for round in 0..starts {
        focus.store(round % FOCUSES, Ordering::Relaxed);
        // The attacker's own policy now and then: it is never obeyed.
        let policy = &policies[usize::from(round % 10 == 9) % policies.len()];
        let log = place.path("daemon.log");
        let mut command = daemon_command(None, &[], None);
        command.arg("--policy").arg(policy);
        command.arg("--socket").arg(place.path("home/run/s")).stderr(fs::File::create(&log).unwrap());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut daemon = Daemon { child };
        if outcome(&mut daemon.child, &log) {
            served += 1;
            let ids = status(daemon.pid(), "Uid");
            assert!(ids.iter().all(|id| *id == NOBODY.to_string()), "round {round}: it runs as {ids:?}");
            assert_ne!(*policy, place.path("home/policy.toml"), "the attacker's policy is obeyed");
        }
        drop(daemon);
        let said = fs::read_to_string(&log).unwrap();
        assert!(!said.contains("stays uid 0"), "round {round}: {said}");
        assert!(place.canaries.are_untouched(), "round {round}: something of root's was changed: {said}");
    }
    served
}

#[test]
fn no_start_gives_anything_away_while_its_identity_swaps_every_name() {
    if !runs_as_root("no_start_gives_anything_away_while_its_identity_swaps_every_name") {
        return;
    }
    let mut place = Place::new();
    place.folder("outside/private", 0, 0o700);
    fs::set_permissions(place.canaries.secret(), fs::Permissions::from_mode(0o600)).unwrap();
    place.canaries.replant();
    let policies = fill(&place);
    let focus = AtomicUsize::new(0);
    assert_eq!(start_often(&place, &policies[..1], 2, &focus), 2, "without an attacker it serves");
    let over = AtomicBool::new(false);
    let dir = place.dir.path().to_owned();
    let attack = || {
        acting_as(NOBODY, NOBODY, || {
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                swap_once(&dir, turn, focus.load(Ordering::Relaxed));
                turn += 1;
            }
            turn
        })
    };
    let (served, turns) = std::thread::scope(|scope| {
        let attacker = scope.spawn(attack);
        let rounds = std::panic::AssertUnwindSafe(|| start_often(&place, &policies, starts(), &focus));
        let served = std::panic::catch_unwind(rounds);
        over.store(true, Ordering::Relaxed);
        let turns = attacker.join().unwrap();
        (served.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), turns)
    });
    println!("note: {served} of {} starts served, {turns} swaps", starts());
    assert!(turns > starts() && served > 0 && served < starts(), "neither side had a chance");
}
