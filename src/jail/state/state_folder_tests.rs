use std::{
    fs::{self as std_fs, Permissions},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Barrier,
};

use serde_json::json;

use super::*;
use crate::{jail::testing::TestJail, wire::types::CreateFile};

fn top(test: &TestJail) -> RootTop {
    RootTop::of(&test.jail, &test.call(), 0).unwrap()
}

fn inode(fd: &OwnedFd) -> u64 {
    fs::stat(fd).unwrap().ino
}

fn own(test: &TestJail) -> u64 {
    inode(&top(test).open_state(&test.call(), &KnownStateFolders::default()).unwrap().unwrap())
}

fn inode_at(path: &Path) -> u64 {
    std_fs::symlink_metadata(path).unwrap().ino()
}

fn make_folder(path: &Path, mode: u32) {
    std_fs::DirBuilder::new().recursive(true).mode(0o700).create(path).unwrap();
    std_fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A state folder as the service makes it, except for the content of `identity`.
fn plant(test: &TestJail, name: &str, identity: impl FnOnce(u32, u64) -> String) -> PathBuf {
    let path = test.path(name);
    make_folder(&path, 0o700);
    let uid = rustix::process::geteuid().as_raw();
    std_fs::write(path.join("identity"), identity(uid, inode_at(&path))).unwrap();
    path
}

fn truth(uid: u32, ino: u64) -> String {
    json!({"version": 1, "uid": uid, "ino": ino}).to_string()
}

/// Every name in a folder, at any depth, with inode, mode and time of change.
fn picture(path: &Path) -> Vec<(PathBuf, u64, u32, i64, i64)> {
    let metadata = std_fs::symlink_metadata(path).unwrap();
    let mut found = vec![(path.to_owned(), metadata.ino(), metadata.mode(), metadata.ctime(), metadata.ctime_nsec())];
    if metadata.is_dir() {
        for entry in std_fs::read_dir(path).unwrap() {
            found.extend(picture(&entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_folder_that_was_made_is_found_by_every_later_worker() {
    let test = TestJail::writable();
    let made = own(&test);
    let state = test.state();
    assert_eq!(inode_at(&state), made);
    let identity: serde_json::Value = serde_json::from_slice(&std_fs::read(state.join("identity")).unwrap()).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(identity, json!({"version": 1, "uid": uid, "ino": made}));
    assert_eq!(own(&test), made);
    // Under any name: the root may have been restored from a disk image, or the folder renamed.
    std_fs::rename(&state, test.path(".stockade-ffffffffffffffff")).unwrap();
    assert_eq!(own(&test), made);
}

#[test]
fn nothing_that_was_brought_along_is_used_or_touched() {
    type Bring = fn(&TestJail, &Path);
    let bring: [(&str, Bring); 12] = [
        (".stockade", |_, path| std_fs::write(path, "a file").unwrap()),
        (".stockade", |test, path| symlink(test.path("elsewhere"), path).unwrap()),
        (".stockade", |_, path| make_folder(path, 0o755)),
        (".stockade-0123456789abcdef", |_, path| std_fs::write(path, "a file").unwrap()),
        (".stockade-0123456789abcdef", |test, path| {
            let elsewhere = plant(test, "elsewhere/state", truth);
            symlink(elsewhere, path).unwrap();
        }),
        (".stockade-0123456789abcdef", |_, path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        (".stockade-0123456789abcdef", |_, path| make_folder(path, 0o700)),
        (".stockade-0123456789abcdef", |test, _| {
            plant(test, ".stockade-0123456789abcdef", |uid, ino| truth(uid, ino + 1));
        }),
        (".stockade-0123456789abcdef", |test, _| {
            plant(test, ".stockade-0123456789abcdef", |uid, ino| truth(uid + 1, ino));
        }),
        (".stockade-0123456789abcdef", |test, path| {
            plant(test, ".stockade-0123456789abcdef", truth);
            std_fs::set_permissions(path, Permissions::from_mode(0o750)).unwrap();
        }),
        (".stockade-0123456789abcdef", |_, path| {
            make_folder(path, 0o700);
            let (name, mode) = (path.join("identity"), rustix::fs::Mode::from_raw_mode(0o600));
            rustix::fs::mknodat(rustix::fs::CWD, name, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        (".stockade-0123456789abcdef", |test, path| {
            let true_one = plant(test, "elsewhere", truth);
            make_folder(path, 0o700);
            symlink(true_one.join("identity"), path.join("identity")).unwrap();
        }),
    ];
    for (index, (name, bring)) in bring.into_iter().enumerate() {
        let test = TestJail::writable();
        make_folder(&test.path("elsewhere"), 0o700);
        bring(&test, &test.path(name));
        let before = [picture(&test.path(name)), picture(&test.path("elsewhere"))];
        let (first, second) = (own(&test), own(&test));
        assert_eq!(first, second, "{index}");
        assert_ne!(first, inode_at(&test.path(name)), "{index}");
        assert_eq!([picture(&test.path(name)), picture(&test.path("elsewhere"))], before, "{index}");
        // The planted folder, and ours.
        let names = std_fs::read_dir(test.root()).unwrap().map(|entry| entry.unwrap().file_name());
        let states = names.filter(|name| is_private_name(name.as_encoded_bytes()));
        assert_eq!(states.count(), 2, "{index}");
    }
}

#[test]
fn a_copy_of_a_tree_gets_a_state_of_its_own() {
    let test = TestJail::writable();
    own(&test);
    let state = test.state();
    let copy = TestJail::writable();
    let status = std::process::Command::new("cp").arg("-a").arg(&state).arg(copy.root()).status();
    assert!(status.unwrap().success());
    let copied = copy.path(state.file_name().unwrap());
    let before = picture(&copied);
    assert_ne!(own(&copy), inode_at(&copied));
    assert_eq!(picture(&copied), before);
}

#[test]
fn of_several_that_are_ours_the_first_by_name_is_used_and_all_are_read() {
    let test = TestJail::writable();
    let names = [".stockade-bbbbbbbbbbbbbbbb", ".stockade-aaaaaaaaaaaaaaaa", ".stockade-cccccccccccccccc"];
    let [second, first, third] = names.map(|name| inode_at(&plant(&test, name, truth)));
    let earlier = test.path(format!(".stockade/{}", rustix::process::geteuid().as_raw()));
    make_folder(&earlier, 0o700);
    assert_eq!(own(&test), first);
    let all = || -> Vec<u64> { top(&test).open_all(&test.call()).unwrap().iter().map(inode).collect() };
    assert_eq!(all(), [first, second, third, inode_at(&earlier)]);
    // A state folder in which no worker can make its own folder is read but not used.
    std_fs::write(test.path(names[1]).join("trash"), "").unwrap();
    assert_eq!(own(&test), second);
    make_folder(&test.path(names[0]).join("work"), 0o777);
    assert_eq!(own(&test), third);
    assert_eq!(all().len(), 4);
    std_fs::set_permissions(test.path(".stockade"), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(all(), [first, second, third], "an earlier version would not have used it");
}

#[test]
fn a_worker_keeps_to_the_one_it_knows_while_that_one_is_ours() {
    let test = TestJail::writable();
    let known = KnownStateFolders::default();
    let own = || inode(&top(&test).open_state(&test.call(), &known).unwrap().unwrap());
    let made = own();
    plant(&test, ".stockade-0000000000000000", truth);
    assert_eq!(own(), made, "although there is an earlier name by now");
    assert_eq!(top(&test).open_known(&known).len(), 1);
    std_fs::remove_dir_all(test.path(".stockade-0000000000000000")).unwrap();
    std_fs::remove_dir_all(test.state()).unwrap();
    let again = own();
    assert_eq!(inode_at(&test.state()), again, "somebody has removed it, so another one was made");
}

#[test]
fn workers_that_begin_together_share_one_folder() {
    for _ in 0..20 {
        let test = TestJail::writable();
        let together = Barrier::new(4);
        let made: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        together.wait();
                        own(&test)
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let state = inode_at(&test.state());
        assert_eq!(made, [state; 4]);
    }
}

#[test]
fn without_the_lock_there_may_be_two_and_nobody_waits_for_ever() {
    let test = TestJail::writable();
    let holder = std_fs::File::open(test.root()).unwrap();
    assert!(change::try_lock(holder.as_fd()).unwrap());
    let began = Instant::now();
    let made = own(&test);
    assert!((LOCK_WAIT..LOCK_WAIT * 5).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(inode_at(&test.state()), made);
}

#[test]
fn where_nothing_may_be_made_there_is_none() {
    let test = TestJail::writable();
    test.set_mode(".", 0o555);
    test.obey_permissions();
    assert!(top(&test).open_state(&test.call(), &KnownStateFolders::default()).unwrap().is_none());
    test.set_mode(".", 0o755);
}

#[test]
fn state_that_is_removed_in_mid_connection_is_made_anew() {
    let test = TestJail::writable();
    let create = || {
        let files = json!([{"path": "f", "content": "new", "overwrite": true}]);
        test.run::<CreateFile>(json!({"atomic": true, "files": files})).unwrap()
    };
    create();
    std_fs::remove_dir_all(test.state()).unwrap();
    let reply = serde_json::to_value(create()).unwrap();
    assert_eq!(reply["results"][0]["success"], true, "{reply}");
    assert!(test.state().join(PRIVATE_WORK).exists());
}
