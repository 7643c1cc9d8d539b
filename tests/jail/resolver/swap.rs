//! Swap races in one process: an attacker exchanges a folder and a link to the outside as fast as it can, while the
//! resolvers walk. Whatever the moment, nothing that comes back lies outside.

use std::{
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::symlink,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use stockade::internals::{
    broker::Refusal,
    path::Symlinks,
    sys::{
        Errno,
        fs::{Mounts, OFlags, OpenRules, open_beneath},
        host,
    },
};

use super::{
    open,
    opinion::{OURS, Opinion, ours},
    rounds, rules,
};

const ROUNDS: u32 = 5_000;
/// The link was seen, or the change itself.
const REFUSALS: [Refusal; 2] = [Refusal::Escape, Refusal::Busy];
/// Both outcomes have to show themselves by then, or the attacker never met the walk.
const PATIENCE: Duration = Duration::from_secs(60);

struct Race {
    _dir: tempfile::TempDir,
    root: PathBuf,
    fd: OwnedFd,
}

impl Race {
    /// `place/d/x/file` inside; `place/out` links to a folder outside that looks the same.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["root/place/d/x", "outside/x"] {
            fs::create_dir_all(base.join(folder)).unwrap();
            fs::write(base.join(folder).join("file"), folder).unwrap();
        }
        let root = base.join("root");
        symlink("../../outside", root.join("place/out")).unwrap();
        symlink("place/d", root.join("way")).unwrap();
        Self { fd: open(&root), root, _dir: dir }
    }

    /// Runs `look` while `one` and `other` change places. Its answers: the inside, or one of `REFUSALS`; both occur.
    fn run(&self, one: &str, other: &str, look: impl Fn() -> Opinion) {
        let (one, other) = (self.root.join(one), self.root.join(other));
        let inside = look().expect("before the race it is there");
        let stop = AtomicBool::new(false);
        let (mut found, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    exchange(&one, &other);
                }
            });
            let start = Instant::now();
            let (rounds, mut done) = (rounds(ROUNDS), 0);
            while done < rounds || ((found == 0 || refused == 0) && start.elapsed() < PATIENCE) {
                match look() {
                    Ok(seen) if seen == inside => found += 1,
                    Err(refusal) if REFUSALS.contains(&refusal) => refused += 1,
                    other => {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{other:?} after {done} rounds");
                    }
                }
                done += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(found > 0 && refused > 0, "no race: {found} found, {refused} refused");
    }
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn a_folder_swapped_with_a_link_never_leads_out() {
    for way in OURS {
        let race = Race::new();
        let rules = rules(&race.root, Symlinks::Refuse, false);
        race.run("place/d", "place/out", || ours(way, &race.fd, b"place/d/x/file", &rules));
    }
}

#[test]
fn a_file_swapped_with_a_link_is_never_the_link_s() {
    for (_, walk) in OURS {
        let race = Race::new();
        let folder = open(&race.root.join("place/d/x"));
        symlink("../../../../outside/x/file", race.root.join("place/d/x/link")).unwrap();
        let how = OpenRules { method: walk, mounts: Mounts::Refuse };
        race.run("place/d/x/file", "place/d/x/link", || {
            // As the worker opens for content: not the link itself, and not what it points to.
            match open_beneath(folder.as_fd(), b"file", OFlags::RDONLY | OFlags::NOFOLLOW, how) {
                Ok(fd) => Ok(host::identity(fd).unwrap()),
                Err(Errno::LOOP) => Err(Refusal::Escape),
                Err(errno) => Err(Refusal::Io(errno.raw_os_error())),
            }
        });
    }
}

#[test]
fn a_folder_swapped_with_a_link_never_leads_out_where_links_are_followed() {
    for way in OURS {
        let race = Race::new();
        let rules = rules(&race.root, Symlinks::Beneath, false);
        race.run("place/d", "place/out", || ours(way, &race.fd, b"way/x/file", &rules));
    }
}
