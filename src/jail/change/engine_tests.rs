use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use super::*;
use crate::{
    broker::Intent,
    jail::{
        Claim, ContentSource, FileProperties, Located, PlanMode, Planning, Staged,
        testing::{TestJail, TestJailOptions},
    },
    path::{Mode, PRIVATE_FOLDER, RawPath, is_private_name},
    wire::Code,
};

fn located(test: &TestJail, name: &str) -> Located {
    test.jail.locate(&test.call(), &RawPath::text(name), None).unwrap()
}

fn claim(test: &TestJail, name: &str, intent: Intent) -> Result<Claim> {
    test.jail.claim(&mut test.call(), &located(test, name), intent)
}

/// Returns the inode number of the new file.
fn create(test: &TestJail, name: &str, content: &str, mode: u32) -> Result<u64> {
    let claim = claim(test, name, Intent::Create)?;
    let call = test.call();
    let staged = claim.stage(&test.jail, &call, FileProperties { mode, replaced: None }, content.as_bytes())?;
    let ino = staged.stat.ino;
    place(test, &claim, staged).map(|()| ino)
}

fn place(test: &TestJail, claim: &Claim, staged: Staged) -> Result<()> {
    let (call, mut planning) = (test.call(), Planning::new(PlanMode::Single));
    let plan = planning.place(&test.jail, &call, claim, staged, ContentSource::Edit)?;
    plan.run(&test.jail, &call).map_err(|failed| failed.error)
}

/// Reads the file, calls `meanwhile`, and replaces the file. Returns whether the owner was lost, and which attributes.
fn replace(test: &TestJail, name: &str, content: &str, meanwhile: impl FnOnce()) -> Result<(bool, Vec<String>)> {
    let claim = claim(test, name, Intent::Edit)?;
    let (call, mut planning) = (test.call(), Planning::new(PlanMode::Single));
    let old = claim.open_content(&test.jail)?;
    let like = FileProperties { mode: old.stat().mode, replaced: Some(&old) };
    let staged = claim.stage(&test.jail, &call, like, content.as_bytes())?;
    let lost = (staged.owner_changed(), staged.lost_attributes().to_vec());
    let plan = planning.replace(&test.jail, &call, &claim, staged, old.stat(), ContentSource::Edit)?;
    meanwhile();
    plan.run(&test.jail, &call).map(|()| lost).map_err(|failed| failed.error)
}

/// Every name below the root except our own state, and how many staged files our own state holds.
fn names(test: &TestJail) -> (Vec<String>, usize) {
    let (mut visible, mut private) = (Vec::new(), 0);
    let mut open = vec![test.root().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let relative = entry.path().strip_prefix(test.root()).unwrap().to_str().unwrap().to_owned();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            let is_ours = relative.starts_with(PRIVATE_FOLDER);
            let is_frame = entry.file_type().unwrap().is_dir()
                || ["journal", ".gitignore", "identity"].contains(&entry.file_name().to_str().unwrap());
            if is_ours {
                private += usize::from(!is_frame);
            } else {
                visible.push(relative);
            }
        }
    }
    visible.sort();
    (visible, private)
}

#[test]
fn a_created_file_has_its_content_and_exactly_its_mode() {
    for durable in [false, true] {
        let test = TestJail::with(TestJailOptions {
            mode: Mode::Rw,
            durable,
            resolver: crate::wire::types::info::Resolver::Openat2,
            ..TestJailOptions::default()
        });
        // Only modes that the umask of the test leaves alone; a worker has no umask.
        for mode in [0o644, 0o600, 0o755, 0o000, 0o400] {
            let name = format!("f{mode:o}");
            let ino = create(&test, &name, "content", mode).unwrap();
            let metadata = fs::metadata(test.path(&name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, mode);
            assert_eq!(ino, metadata.ino());
        }
        assert_eq!(fs::read(test.path("f644")).unwrap(), b"content");
        assert_eq!(names(&test).0.len(), 5, "and no other name");
        let all = fs::read_dir(test.root()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!all.into_iter().any(|name| is_private_name(name.as_encoded_bytes())), "a new file needs no state");
    }
}

#[test]
fn setuid_setgid_and_sticky_are_never_given() {
    let test = TestJail::writable();
    create(&test, "f", "", 0o7755).unwrap();
    assert_eq!(fs::metadata(test.path("f")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn missing_folders_are_made_and_taken_away_again_when_the_file_fails() {
    let test = TestJail::writable();
    create(&test, "a/b/c/f", "x", 0o644).unwrap();
    assert_eq!(names(&test).0, ["a", "a/b", "a/b/c", "a/b/c/f"]);
    let claim = claim(&test, "n/e/w", Intent::Create).unwrap();
    let call = test.call();
    let staged = claim.stage(&test.jail, &call, FileProperties { mode: 0o644, replaced: None }, b"mine").unwrap();
    // Another process takes the name in the folder that the plan makes.
    fs::create_dir_all(test.path("n/e")).unwrap();
    test.write("n/e/w", "theirs");
    let error = place(&test, &claim, staged).unwrap_err();
    assert_eq!(error.code, Code::Exists);
    assert_eq!(fs::read(test.path("n/e/w")).unwrap(), b"theirs");
}

#[test]
fn a_taken_name_is_never_overwritten_by_a_create() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("made");
    let dangling = |test: &TestJail| symlink(&target, test.path("f")).unwrap();
    type Take<'a> = &'a dyn Fn(&TestJail);
    let taken: [Take<'_>; 4] =
        [&|test| test.write("f", "theirs"), &|test| fs::create_dir(test.path("f")).unwrap(), &dangling, &|test| {
            test.fifo("f")
        }];
    for take in taken {
        let test = TestJail::writable();
        take(&test);
        let before = fs::symlink_metadata(test.path("f")).unwrap();
        assert_eq!(create(&test, "f", "mine", 0o644).unwrap_err().code, Code::Exists);
        assert_eq!(fs::symlink_metadata(test.path("f")).unwrap().ino(), before.ino());
        assert!(!target.exists(), "nothing is made behind a dangling link");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_attributes_and_is_another_inode() {
    let test = TestJail::writable();
    test.write("f", "old");
    test.set_mode("f", 0o4750);
    rustix::fs::setxattr(test.path("f"), "user.kept", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    let before = fs::metadata(test.path("f")).unwrap();
    let lost = replace(&test, "f", "new", || {}).unwrap();
    let after = fs::metadata(test.path("f")).unwrap();
    assert_eq!(fs::read(test.path("f")).unwrap(), b"new");
    assert_eq!(after.permissions().mode() & 0o7777, 0o750, "the mode without setuid");
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_ne!(after.ino(), before.ino());
    assert_eq!(lost, (false, Vec::new()));
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(test.path("f"), "user.kept", &mut value[..]).unwrap();
    assert_eq!(&value[..len], b"value");
    assert_eq!(names(&test), (vec!["f".into()], 0), "nothing of ours is left");
}

#[test]
fn a_hard_link_is_never_written_through() {
    let test = TestJail::writable();
    let outside = tempfile::tempdir_in(test.root().parent().unwrap()).unwrap();
    let other = outside.path().join("other");
    fs::write(&other, "outside").unwrap();
    fs::hard_link(&other, test.path("f")).unwrap();
    replace(&test, "f", "inside", || {}).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"outside");
    assert_eq!(fs::read(test.path("f")).unwrap(), b"inside");
    assert_eq!(fs::metadata(&other).unwrap().nlink(), 1);
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_replaced() {
    let test = TestJail::writable();
    let change: [(&str, &dyn Fn()); 5] = [
        ("rewritten", &|| fs::write(test.path("f"), "theirs").unwrap()),
        ("replaced", &|| {
            fs::write(test.path("t"), "theirs").unwrap();
            fs::rename(test.path("t"), test.path("f")).unwrap();
        }),
        ("given another mode", &|| test.set_mode("f", 0o600)),
        ("removed", &|| fs::remove_file(test.path("f")).unwrap()),
        ("a folder now", &|| {
            fs::remove_file(test.path("f")).unwrap();
            fs::create_dir(test.path("f")).unwrap();
        }),
    ];
    for (how, change) in change {
        test.write("f", "old");
        let error = replace(&test, "f", "mine", change).unwrap_err();
        assert_eq!(error.code, Code::Busy, "{how}: {error}");
        assert!(fs::read(test.path("f")).map_or(true, |content| content != b"mine"), "{how}");
        assert_eq!(names(&test).1, 0, "{how}: nothing of ours is left");
    }
}

#[test]
fn leases_end_with_the_claim() {
    let test = TestJail::writable();
    test.write("f", "old");
    let claim = claim(&test, "f", Intent::Write).unwrap();
    assert_eq!(test.broker.leased.lock().unwrap().len(), 1);
    drop(claim);
    assert!(test.broker.leased.lock().unwrap().is_empty());
    let _ = replace(&test, "f", "new", || fs::remove_file(test.path("f")).unwrap());
    assert!(test.broker.leased.lock().unwrap().is_empty());
}

#[test]
fn names_are_leased_in_one_order_and_answered_in_another() {
    let test = TestJail::writable();
    let names: Vec<_> = ["c", "a", "b"].map(|name| (located(&test, name), Intent::Create)).into_iter().collect();
    let answers = test.jail.ask_to_change(&mut test.call(), &names);
    let leaves: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().leaf).collect();
    assert_eq!(leaves, [b"c", b"a", b"b"]);
    let asked = test.broker.messages.lock().unwrap();
    let order: Vec<_> = asked[0].iter().map(|question| question.path.clone()).collect();
    assert_eq!(order, [b"a", b"b", b"c"]);
}

#[test]
fn a_read_only_root_refuses_before_anything_happens() {
    let test = TestJail::new();
    test.write("f", "old");
    for intent in [Intent::Write, Intent::Edit, Intent::Create] {
        assert_eq!(claim(&test, "f", intent).unwrap_err().code, Code::ReadOnly);
    }
    assert_eq!(names(&test), (vec!["f".into()], 0));
}

#[test]
fn the_state_folder_is_private_and_ignored_and_only_work_is_gone_in_the_end() {
    let test = TestJail::writable();
    test.write("f", "old");
    replace(&test, "f", "new", || {}).unwrap();
    let state = test.state();
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read(state.join(".gitignore")).unwrap(), b"*\n");
    assert_eq!(fs::read_dir(state.join("work")).unwrap().count(), 1);
    test.jail.close();
    assert!(!state.join("work").exists() && state.exists());
}

#[test]
fn a_folder_that_was_moved_away_is_busy_and_one_that_may_not_be_written_is_an_error() {
    let test = TestJail::writable();
    fs::create_dir(test.path("d")).unwrap();
    let claim = claim(&test, "d/f", Intent::Create).unwrap();
    let call = test.call();
    fs::remove_dir(test.path("d")).unwrap();
    let error = claim.stage(&test.jail, &call, FileProperties { mode: 0o644, replaced: None }, b"").unwrap_err();
    assert_eq!(error.code, Code::Busy);
    fs::create_dir(test.path("locked")).unwrap();
    test.set_mode("locked", 0o555);
    test.obey_permissions();
    let error = create(&test, "locked/f", "", 0o644).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::Io, "locked/f: permission denied"));
}
