//! Swap races through MCP: somebody exchanges a folder and a link to the outside while an agent reads, creates and
//! overwrites. Without the jail the very same storm escapes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    host::{Host, command, command_in},
    support::{Canaries, bin_dir, canary::SECRET, json, memory},
};

/// Calls of each kind in the ordinary run.
const ROUNDS: u64 = 640;
/// Calls on their way at a time.
const AT_ONCE: u64 = 16;
/// An escape that must come comes within this.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Read,
    Create,
    Overwrite,
}

/// Both ends, as fast as it can; ends where it began.
fn storm(place: &Path, stop: &AtomicBool) {
    let (folder, link) = (place.join("d"), place.join("link"));
    let exchange = || renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    while !stop.load(Ordering::Relaxed) {
        exchange();
        exchange();
    }
}

struct Calm<'a>(&'a AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rounds of calls during the storm; whether one of them escaped. Ends early when one has.
fn escapes(attempt: Attempt, weakened: Option<&str>, is_enough: impl Fn(u64) -> bool) -> bool {
    // A disk would make it wait for its syncs, and the storm blow past.
    let dir = tempfile::tempdir_in(memory()).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = dir.path().join("root");
    let outside = dir.path().join("outside");
    let canaries = Canaries::plant(&outside);
    fs::create_dir_all(root.join("place/d")).unwrap();
    fs::write(root.join("place/d/secret.txt"), "inside\n").unwrap();
    std::os::unix::fs::symlink(&outside, root.join("place/link")).unwrap();
    let arguments = ["--root", root.to_str().unwrap()];
    let mut host = match weakened {
        None => Host::start(command(&arguments)),
        Some(layers) => {
            let mut command = command_in(&bin_dir(true), &arguments);
            command.env("STOCKADE_WEAKENED", layers);
            Host::start(command)
        }
    }
    .initialized();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when something here fails, or the storm would go on for ever.
        let _calm = Calm(&stop);
        scope.spawn(|| storm(&root.join("place"), &stop));
        let (mut round, mut leaked) = (0, false);
        while !leaked && !is_enough(round) {
            let ids: Vec<u64> = (0..AT_ONCE).map(|at| ask(&mut host, attempt, round + at)).collect();
            for id in ids {
                let reply = host.reply_to(id).unwrap().to_string();
                leaked |= reply.contains(SECRET);
            }
            round += AT_ONCE;
            leaked |= attempt != Attempt::Read && !canaries.are_untouched();
        }
        println!("{attempt:?}, {weakened:?}: {round} calls, escaped: {leaked}");
        leaked
    })
}

fn ask(host: &mut Host, attempt: Attempt, round: u64) -> u64 {
    match attempt {
        Attempt::Read => host.send_tool("read", json!({"path": "place/d/secret.txt"})),
        Attempt::Create => {
            host.send_tool("create", json!({"path": format!("place/d/new-{round}"), "content": "x", "parents": false}))
        }
        Attempt::Overwrite => {
            let content = format!("round {round}\n");
            host.send_tool("create", json!({"path": "place/d/secret.txt", "content": content, "overwrite": true}))
        }
    }
}

#[track_caller]
fn hold(attempt: Attempt) {
    assert!(!escapes(attempt, None, |round| round >= ROUNDS), "{attempt:?} escaped");
    // Where they are not given they are built, which may take longer than an escape.
    bin_dir(true);
    let start = Instant::now();
    let leaked = escapes(attempt, Some("checks,landlock"), |_| start.elapsed() > PATIENCE);
    assert!(leaked, "{attempt:?}: the storm does not escape even without a jail");
}

#[test]
fn reads_never_escape_a_swap() {
    hold(Attempt::Read);
}

#[test]
fn creates_never_escape_a_swap() {
    hold(Attempt::Create);
}

#[test]
fn overwrites_never_escape_a_swap() {
    hold(Attempt::Overwrite);
}
