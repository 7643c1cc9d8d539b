use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::json;

use super::*;
use crate::{jail::testing::TestJail, path::PRIVATE_FOLDER, wire::types::CreateFile};

/// Runs recovery. Returns the names that it could not put in order.
fn recover(test: &TestJail) -> Vec<UnsettledName> {
    recover_with(test, true)
}

fn recover_with(test: &TestJail, waits: bool) -> Vec<UnsettledName> {
    let mut left = Vec::new();
    test.jail.recover(&test.call(), waits, |unsettled| left = unsettled);
    left
}

fn work(test: &TestJail) -> PathBuf {
    test.state().join(PRIVATE_WORK)
}

/// Makes a folder as a killed worker leaves it; `header` may be wrong.
fn leave(test: &TestJail, header: impl FnOnce(&std::fs::Metadata) -> (u64, u64)) -> PathBuf {
    let state = test.path(format!("{PRIVATE_FOLDER}-00112233445566ff"));
    let dir = leave_in(&state, header);
    let ino = truly(&fs::metadata(&state).unwrap()).1;
    let identity = json!({"version": 1, "uid": rustix::process::geteuid().as_raw(), "ino": ino});
    fs::write(state.join("identity"), identity.to_string()).unwrap();
    dir
}

fn leave_in(own: &std::path::Path, header: impl FnOnce(&std::fs::Metadata) -> (u64, u64)) -> PathBuf {
    use std::os::unix::fs::DirBuilderExt;
    let dir = own.join(PRIVATE_WORK).join("dead");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).unwrap();
    let (dev, ino) = header(&fs::metadata(&dir).unwrap());
    fs::write(dir.join("journal"), json!({"header": {"dev": dev, "ino": ino}}).to_string() + "\n").unwrap();
    dir
}

fn truly(metadata: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

fn base64(bytes: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

#[test]
fn what_a_dead_worker_left_is_removed_and_nothing_else() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    fs::create_dir_all(dir.join("7/deep/er")).unwrap();
    fs::write(dir.join("7/deep/er/file"), "old").unwrap();
    fs::write(dir.join("8"), "old").unwrap();
    test.write("user/.stockade-tmp-0123", "ours");
    test.write("user/.stockade-tmp-4567", "a user's, which looks alike");
    let note = json!({"temporary": {"folder": base64("user"), "name": base64(".stockade-tmp-0123")}}).to_string();
    fs::write(dir.join("note-1"), note + "\n").unwrap();
    recover(&test);
    assert!(!work(&test).exists());
    assert!(!test.path("user/.stockade-tmp-0123").exists());
    assert!(test.path("user/.stockade-tmp-4567").exists());
}

#[test]
fn a_note_cannot_remove_what_is_not_of_our_making() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    test.write("precious", "theirs");
    test.write("sub/precious", "theirs");
    for (number, (folder, name)) in
        [("", "precious"), ("", "sub/precious"), ("sub", "../precious"), ("..", ".stockade-tmp-1")]
            .into_iter()
            .enumerate()
    {
        let note = json!({"temporary": {"folder": base64(folder), "name": base64(name)}}).to_string();
        fs::write(dir.join(format!("note-{number}")), note + "\n").unwrap();
    }
    recover(&test);
    assert!(test.path("precious").exists() && test.path("sub/precious").exists());
}

#[test]
fn a_folder_that_its_journal_does_not_know_is_left_alone() {
    let test = TestJail::writable();
    let dir = leave(&test, |metadata| (truly(metadata).0, truly(metadata).1 + 1));
    let step = json!({"makedir": {"path": base64("made"), "mode": 0o755}});
    fs::create_dir(test.path("made")).unwrap();
    fs::write(dir.join("note-1"), json!({"batch": {"steps": [step]}}).to_string() + "\n").unwrap();
    recover(&test);
    assert!(dir.exists() && test.path("made").exists(), "planted state is not acted upon");
}

#[test]
fn a_folder_of_a_living_worker_is_left_alone() {
    let test = TestJail::writable();
    test.write("f", "old");
    let request = json!({"files": [{"path": "f", "content": "new", "overwrite": true}]});
    test.run::<CreateFile>(request).unwrap();
    assert_eq!(fs::read_dir(work(&test)).unwrap().count(), 1);
    recover(&test);
    assert_eq!(fs::read_dir(work(&test)).unwrap().count(), 1);
}

/// State that is not ours: another mode, an identity that lies, none at all.
#[test]
fn recovery_acts_on_no_state_that_is_not_ours() {
    let spoil: [fn(&std::path::Path); 4] = [
        |state| fs::set_permissions(state, fs::Permissions::from_mode(0o750)).unwrap(),
        |state| fs::remove_file(state.join("identity")).unwrap(),
        |state| {
            let wrong = fs::read_to_string(state.join("identity")).unwrap().replace("\"ino\":", "\"ino\":1");
            fs::write(state.join("identity"), wrong).unwrap();
        },
        // A copy: the same names and contents in another folder.
        |state| {
            let moved = state.with_file_name("moved");
            fs::rename(state, &moved).unwrap();
            let copied = std::process::Command::new("cp").arg("-a").args([moved.as_path(), state]).status();
            assert!(copied.unwrap().success());
        },
    ];
    for spoil in spoil {
        let test = TestJail::writable();
        let dir = leave(&test, truly);
        fs::write(dir.join("1"), "a user's").unwrap();
        spoil(&test.state());
        recover(&test);
        assert_eq!(fs::read_to_string(dir.join("1")).unwrap(), "a user's");
    }
}

#[test]
fn state_of_an_earlier_version_is_put_in_order() {
    for mode in [0o700, 0o755] {
        let test = TestJail::writable();
        let top = test.path(PRIVATE_FOLDER);
        let own = top.join(rustix::process::geteuid().as_raw().to_string());
        let dir = leave_in(&own, truly);
        test.write("replaced", "new");
        fs::write(dir.join("2"), "old").unwrap();
        let step = json!({"rename": {"from": {"own": base64("work/dead/2")}, "to": {"path": base64("replaced")},
            "moved": thing(test.path("replaced")), "displaced": thing(dir.join("2"))}});
        write_batch(&dir, json!([step]));
        fs::set_permissions(&top, fs::Permissions::from_mode(mode)).unwrap();
        recover(&test);
        let replaced = fs::read_to_string(test.path("replaced")).unwrap();
        let is_ours = mode == 0o700;
        assert_eq!(replaced, if is_ours { "old" } else { "new" });
        assert_eq!(own.join(PRIVATE_WORK).exists(), !is_ours);
    }
}

/// A root has two state folders if two workers made one at the same moment, and one more from an earlier version.
#[test]
fn every_state_of_ours_is_put_in_order() {
    let test = TestJail::writable();
    let first = leave(&test, truly);
    let second = test.path(format!("{PRIVATE_FOLDER}-0000000000000000"));
    fs::rename(test.state(), &second).unwrap();
    let dirs = [second.join(PRIVATE_WORK), leave(&test, truly)];
    assert!(!first.starts_with(&second) && dirs.iter().all(|dir| dir.exists()));
    recover(&test);
    assert!(dirs.iter().all(|dir| !dir.exists()));
}

/// The identity of a file as a step records it.
fn thing(path: PathBuf) -> serde_json::Value {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::symlink_metadata(path).unwrap();
    let content = (!metadata.is_dir())
        .then(|| json!({"size": metadata.size(), "mtime": metadata.mtime(), "mtime_ns": metadata.mtime_nsec()}));
    json!({"id": {"dev": metadata.dev(), "ino": metadata.ino()}, "content": content})
}

fn write_batch(dir: &std::path::Path, steps: serde_json::Value) {
    fs::write(dir.join("note-1"), json!({"batch": {"steps": steps}}).to_string() + "\n").unwrap();
}

#[test]
fn a_newer_file_of_a_user_is_not_taken_for_ours() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    test.write("replaced", "new");
    fs::write(dir.join("1"), "old").unwrap();
    let step = json!({"rename": {"from": {"own": base64("work/dead/1")}, "to": {"path": base64("replaced")},
        "moved": thing(test.path("replaced")), "displaced": thing(dir.join("1"))}});
    write_batch(&dir, json!([step]));
    // The same inode with other content: an editor wrote it, or the number was given to a new file.
    test.write("replaced", "what a user wrote after the crash");
    recover(&test);
    assert_eq!(fs::read_to_string(test.path("replaced")).unwrap(), "what a user wrote after the crash");
    assert!(!work(&test).exists());
}

#[test]
fn what_was_taken_away_is_kept_until_it_can_go_back() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    fs::write(dir.join("1"), "a user's").unwrap();
    let step = json!({"rename": {"from": {"path": base64("gone/file")}, "to": {"own": base64("work/dead/1")},
        "moved": thing(dir.join("1")), "displaced": null}});
    write_batch(&dir, json!([step]));
    recover(&test);
    assert_eq!(fs::read_to_string(dir.join("1")).unwrap(), "a user's", "its folder is gone, so it stays");
    fs::create_dir(test.path("gone")).unwrap();
    recover(&test);
    assert_eq!(fs::read_to_string(test.path("gone/file")).unwrap(), "a user's");
    assert!(!work(&test).exists());
}

#[test]
fn what_was_replaced_is_kept_while_its_name_is_out_of_reach() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    test.write("folder/replaced", "new");
    fs::write(dir.join("1"), "a user's").unwrap();
    let step = json!({"rename": {"from": {"own": base64("work/dead/1")}, "to": {"path": base64("folder/replaced")},
        "moved": thing(test.path("folder/replaced")), "displaced": thing(dir.join("1"))}});
    write_batch(&dir, json!([step]));
    fs::rename(test.path("folder"), test.path("away")).unwrap();
    recover(&test);
    assert_eq!(fs::read_to_string(dir.join("1")).unwrap(), "a user's", "its folder was renamed, so it stays");
    fs::rename(test.path("away"), test.path("folder")).unwrap();
    recover(&test);
    assert_eq!(fs::read_to_string(test.path("folder/replaced")).unwrap(), "a user's");
    assert!(!work(&test).exists());
}

#[test]
fn where_a_user_has_put_something_new_the_newest_stays() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    fs::write(dir.join("1"), "deleted by an unfinished batch").unwrap();
    let step = json!({"rename": {"from": {"path": base64("file")}, "to": {"own": base64("work/dead/1")},
        "moved": thing(dir.join("1")), "displaced": null}});
    write_batch(&dir, json!([step]));
    test.write("file", "newer");
    recover(&test);
    assert_eq!(fs::read_to_string(test.path("file")).unwrap(), "newer");
    assert!(!work(&test).exists());
}

#[test]
fn steps_cannot_name_what_lies_outside_our_own_folder() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    test.write("precious", "theirs");
    fs::write(dir.join("1"), "planted").unwrap();
    for own in ["../../precious", "work/../../../precious", "work/dead/../../../../precious", "..", ""] {
        let step = json!({"rename": {"from": {"own": base64(own)}, "to": {"own": base64("work/dead/1")},
            "moved": thing(dir.join("1")), "displaced": thing(test.path("precious"))}});
        write_batch(&dir, json!([step]));
        recover(&test);
        assert_eq!(fs::read_to_string(test.path("precious")).unwrap(), "theirs", "{own}");
    }
}

#[test]
fn what_a_worker_could_not_put_in_order_outlives_its_orderly_end() {
    let test = TestJail::writable();
    test.write("f", "old");
    let request = json!({"files": [{"path": "f", "content": "new", "overwrite": true}]});
    test.run::<CreateFile>(request).unwrap();
    let dir = fs::read_dir(work(&test)).unwrap().next().unwrap().unwrap().path();
    fs::write(dir.join("1"), "a user's").unwrap();
    let id = dir.file_name().unwrap().to_str().unwrap();
    let step = json!({"rename": {"from": {"path": base64("g")}, "to": {"own": base64(&format!("work/{id}/1"))},
        "moved": thing(dir.join("1")), "displaced": null}});
    write_batch(&dir, json!([step]));
    test.jail.close();
    assert!(dir.join("journal").exists(), "recovery trusts no folder without it");
    recover(&test);
    assert_eq!(fs::read_to_string(test.path("g")).unwrap(), "a user's");
    assert!(!work(&test).exists());
}

#[test]
fn a_batch_that_was_not_finished_is_undone_and_a_finished_one_is_not() {
    for finished in [false, true] {
        let test = TestJail::writable();
        let dir = leave(&test, truly);
        // The state after all three steps: `new/` made, `new/file` placed, `replaced` exchanged.
        fs::create_dir(test.path("new")).unwrap();
        test.write("new/file", "new");
        test.write("replaced", "new");
        fs::write(dir.join("2"), "old").unwrap();
        let steps = json!([
            {"makedir": {"path": base64("new"), "mode": 0o755}},
            {"rename": {"from": {"own": base64("work/dead/1")}, "to": {"path": base64("new/file")},
                "moved": thing(test.path("new/file")), "displaced": null}},
            {"rename": {"from": {"own": base64("work/dead/2")}, "to": {"path": base64("replaced")},
                "moved": thing(test.path("replaced")), "displaced": thing(dir.join("2"))}},
        ]);
        let mut note = json!({"batch": {"steps": steps}}).to_string() + "\n";
        if finished {
            note += "\"committed\"\n";
        }
        fs::write(dir.join("note-3"), note).unwrap();
        recover(&test);
        let replaced = fs::read_to_string(test.path("replaced")).unwrap();
        assert_eq!(
            (test.path("new/file").exists(), replaced.as_str()),
            if finished { (true, "new") } else { (false, "old") }
        );
        assert_eq!(test.path("new").exists(), finished);
        assert!(!work(&test).exists());
    }
}

/// Locks the journal of a workspace, as the worker that owns it does.
fn lock_journal(dir: &std::path::Path) -> fs::File {
    let journal = fs::File::open(dir.join("journal")).unwrap();
    assert!(change::try_lock(journal.as_fd()).unwrap());
    journal
}

#[test]
fn a_journal_is_waited_for_while_its_worker_dies_and_left_alone_while_it_lives() {
    let step = json!({"makedir": {"path": base64("made"), "mode": 0o755}});
    let batch = json!({"batch": {"steps": [step]}}).to_string() + "\n";
    // The description of an unfinished change is a note or, if the disk was full, a record in the journal.
    for in_note in [true, false] {
        let test = TestJail::writable();
        let dir = leave(&test, truly);
        fs::create_dir(test.path("made")).unwrap();
        let file = dir.join(if in_note { "note-1" } else { "journal" });
        let earlier = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, earlier + &batch).unwrap();
        let journal = lock_journal(&dir);
        let start = Instant::now();
        recover(&test);
        assert!(start.elapsed() >= DYING_WORKER_WAIT, "recovery waits for a worker that may be dying");
        assert!(dir.exists() && test.path("made").exists(), "another process holds the lock");
        let dies = std::thread::spawn(move || {
            std::thread::sleep(RETRY_INTERVAL);
            drop(journal);
        });
        recover(&test);
        dies.join().unwrap();
        assert!(!work(&test).exists() && !test.path("made").exists());
    }
}

/// The note keeps recovery waiting. Names are reported as settled only when the record is undone.
#[test]
fn a_record_that_a_dying_worker_writes_is_read_before_names_are_reported() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    fs::write(dir.join("note-1"), "").unwrap();
    let journal = lock_journal(&dir);
    let made = test.path("made");
    fs::create_dir(&made).unwrap();
    let dies = std::thread::spawn(move || {
        std::thread::sleep(4 * RETRY_INTERVAL);
        let step = json!({"makedir": {"path": base64("made"), "mode": 0o755}});
        let earlier = fs::read_to_string(dir.join("journal")).unwrap();
        let whole = earlier + &json!({"batch": {"steps": [step]}}).to_string() + "\n";
        fs::write(dir.join("journal"), whole).unwrap();
        drop(journal);
    });
    test.jail.recover(&test.call(), true, |_| assert!(!made.exists(), "a half-done change counts as settled"));
    dies.join().unwrap();
}

#[test]
fn a_locked_workspace_without_an_unfinished_change_is_not_waited_for() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    fs::write(dir.join("0123456789abcdef"), "a staged file needs no undo").unwrap();
    let journal = lock_journal(&dir);
    let start = Instant::now();
    assert_eq!(recover(&test), []);
    // One run takes about a millisecond.
    assert!(start.elapsed() < DYING_WORKER_WAIT / 2, "{:?}", start.elapsed());
    assert!(dir.exists(), "another process holds the lock");
    drop(journal);
    recover(&test);
    assert!(!work(&test).exists());
}

#[test]
fn waiting_for_a_worker_ends_when_its_change_is_complete() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    let note = dir.join("note-1");
    fs::write(&note, "").unwrap();
    let _journal = lock_journal(&dir);
    let completes = std::thread::spawn(move || {
        std::thread::sleep(RETRY_INTERVAL);
        fs::remove_file(note).unwrap();
    });
    let start = Instant::now();
    recover(&test);
    completes.join().unwrap();
    assert!(start.elapsed() < DYING_WORKER_WAIT / 2, "{:?}", start.elapsed());
}

#[test]
fn a_recovery_that_tidies_up_does_not_hide_names_from_the_next_one() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    // If recovery locked the journal first, it would hold the lock as long as it lists the folder.
    (0..5_000).for_each(|number| fs::write(dir.join(number.to_string()), "").unwrap());
    // A file has taken the place of the folder, so the step cannot be undone.
    test.write("file", "");
    write_batch(&dir, json!([{"makedir": {"path": base64("file/made"), "mode": 0o755}}]));
    let is_unsettled = |left: Vec<UnsettledName>| left.iter().any(|name| name.path == b"file/made");
    std::thread::scope(|scope| {
        let recoveries: Vec<_> =
            (0..2).map(|_| scope.spawn(|| (0..20).all(|_| is_unsettled(recover_with(&test, false))))).collect();
        for recovery in recoveries {
            assert!(recovery.join().unwrap(), "the folder was taken for that of a living worker");
        }
    });
}

#[test]
fn a_batch_is_undone_after_its_file_system_got_another_device_number() {
    let test = TestJail::writable();
    let dir = leave(&test, |metadata| (truly(metadata).0 + 1, truly(metadata).1));
    test.write("replaced", "new");
    fs::write(dir.join("1"), "old").unwrap();
    let earlier = |path: PathBuf| {
        let mut thing = thing(path);
        thing["id"]["dev"] = json!(thing["id"]["dev"].as_u64().unwrap() + 1);
        thing
    };
    let step = json!({"rename": {"from": {"own": base64("work/dead/1")}, "to": {"path": base64("replaced")},
        "moved": earlier(test.path("replaced")), "displaced": earlier(dir.join("1"))}});
    write_batch(&dir, json!([step]));
    assert_eq!(recover(&test), []);
    assert_eq!(fs::read_to_string(test.path("replaced")).unwrap(), "old");
    assert!(!work(&test).exists());
}

#[test]
fn a_journal_or_note_that_cannot_be_opened_closes_no_root() {
    use std::os::unix::net::UnixListener;
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    let _note = UnixListener::bind(dir.join("note-2")).unwrap();
    let other = dir.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();
    let _journal = UnixListener::bind(other.join("journal")).unwrap();
    assert_eq!(recover(&test), []);
}

/// Recovery reads no file above the limit, so a worker must not begin a batch whose note would be larger.
#[test]
fn a_note_that_recovery_would_not_read_is_never_written() {
    let test = TestJail::writable();
    let call = test.call();
    let workspace = test.jail.workspaces.open(&test.jail, &call, 0).unwrap();
    let path = vec![b'a'; 1 << 20];
    let step = JournalStep::MakeDir { path: path[..].into(), mode: 0o755 };
    let too_large = JournalRecord::Batch { steps: vec![step.clone(); 60] };
    assert_eq!(workspace.write_note(&too_large).err(), Some(Errno::FBIG));
    assert!(workspace.write_note(&JournalRecord::Batch { steps: vec![step; 2] }).is_ok());
}

/// The flush of a complete note can fail: then the steps are undone, and a kill in the middle of that must find a note to undo.
#[test]
fn a_retracted_note_describes_a_batch_that_is_not_complete() {
    let test = TestJail::writable();
    let call = test.call();
    let workspace = test.jail.workspaces.open(&test.jail, &call, 0).unwrap();
    let batch = JournalRecord::Batch { steps: vec![JournalStep::MakeDir { path: b"made"[..].into(), mode: 0o755 }] };
    let mut note = workspace.write_note(&batch).unwrap();
    note.commit().unwrap();
    let written = || {
        let folder = fs::read_dir(work(&test)).unwrap().next().unwrap().unwrap().path();
        let is_note = |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes().starts_with(b"note-");
        let path = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(is_note).unwrap();
        JournalRecord::read_all(&fs::read(path).unwrap())
    };
    assert_eq!(written(), [batch.clone(), JournalRecord::Committed]);
    let _note = note.retract().unwrap();
    assert_eq!(written(), [batch]);
}
