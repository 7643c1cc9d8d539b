use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::json;

use super::*;
use crate::{jail::testing::TestJail, path::PRIVATE_FOLDER, wire::types::CreateFile};

fn work(test: &TestJail) -> PathBuf {
    test.path(PRIVATE_FOLDER).join(rustix::process::geteuid().as_raw().to_string()).join(PRIVATE_WORK)
}

/// A folder as a worker that was killed leaves it; `header` may lie.
fn leave(test: &TestJail, header: impl FnOnce(&std::fs::Metadata) -> (u64, u64)) -> PathBuf {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let dir = work(test).join("dead");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).unwrap();
    let (dev, ino) = header(&fs::metadata(&dir).unwrap());
    fs::write(dir.join("journal"), json!({"header": {"dev": dev, "ino": ino}}).to_string() + "\n").unwrap();
    let _ = fs::metadata(&dir).unwrap().ino();
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
    let note =
        json!({"temporary": {"folder": base64("user"), "name": base64(".stockade-tmp-0123")}}).to_string();
    fs::write(dir.join("note-1"), note + "\n").unwrap();
    test.jail.recover(&test.call());
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
    test.jail.recover(&test.call());
    assert!(test.path("precious").exists() && test.path("sub/precious").exists());
}

#[test]
fn a_folder_that_its_journal_does_not_know_is_left_alone() {
    let test = TestJail::writable();
    let dir = leave(&test, |metadata| (truly(metadata).0, truly(metadata).1 + 1));
    let step = json!({"makedir": {"path": base64("made"), "mode": 0o755}});
    fs::create_dir(test.path("made")).unwrap();
    fs::write(dir.join("note-1"), json!({"batch": {"steps": [step]}}).to_string() + "\n").unwrap();
    test.jail.recover(&test.call());
    assert!(dir.exists() && test.path("made").exists(), "planted state is not acted upon");
}

#[test]
fn a_folder_of_a_living_worker_is_left_alone() {
    let test = TestJail::writable();
    test.write("f", "old");
    let request = json!({"files": [{"path": "f", "content": "new", "overwrite": true}]});
    test.run::<CreateFile>(request).unwrap();
    assert_eq!(fs::read_dir(work(&test)).unwrap().count(), 1);
    test.jail.recover(&test.call());
    assert_eq!(fs::read_dir(work(&test)).unwrap().count(), 1);
}

#[test]
fn somebody_elses_folder_is_not_ours_to_put_in_order() {
    let test = TestJail::writable();
    leave(&test, truly);
    fs::set_permissions(test.path(PRIVATE_FOLDER), fs::Permissions::from_mode(0o755)).unwrap();
    test.jail.recover(&test.call());
    assert!(work(&test).join("dead").exists());
}

#[test]
fn a_batch_that_was_not_finished_is_undone_and_a_finished_one_is_not() {
    use std::os::unix::fs::MetadataExt;
    for finished in [false, true] {
        let test = TestJail::writable();
        let dir = leave(&test, truly);
        let id = |path: PathBuf| {
            let metadata = fs::symlink_metadata(path).unwrap();
            json!({"dev": metadata.dev(), "ino": metadata.ino()})
        };
        // As it looks when all three steps were done: `new/` made, `new/file` placed, `replaced` exchanged.
        fs::create_dir(test.path("new")).unwrap();
        test.write("new/file", "new");
        test.write("replaced", "new");
        fs::write(dir.join("2"), "old").unwrap();
        let steps = json!([
            {"makedir": {"path": base64("new"), "mode": 0o755}},
            {"rename": {"from": {"own": base64("work/dead/1")}, "to": {"path": base64("new/file")},
                "moved": id(test.path("new/file")), "displaced": null}},
            {"rename": {"from": {"own": base64("work/dead/2")}, "to": {"path": base64("replaced")},
                "moved": id(test.path("replaced")), "displaced": id(dir.join("2"))}},
        ]);
        let mut note = json!({"batch": {"steps": steps}}).to_string() + "\n";
        if finished {
            note += "\"committed\"\n";
        }
        fs::write(dir.join("note-3"), note).unwrap();
        test.jail.recover(&test.call());
        let replaced = fs::read_to_string(test.path("replaced")).unwrap();
        assert_eq!(
            (test.path("new/file").exists(), replaced.as_str()),
            if finished { (true, "new") } else { (false, "old") }
        );
        assert_eq!(test.path("new").exists(), finished);
        assert!(!work(&test).exists());
    }
}

#[test]
fn a_journal_is_waited_for_while_its_worker_dies_and_left_alone_while_it_lives() {
    let test = TestJail::writable();
    let dir = leave(&test, truly);
    let journal = fs::File::open(dir.join("journal")).unwrap();
    assert!(change::try_lock(journal.as_fd()).unwrap());
    test.jail.recover(&test.call());
    assert!(dir.exists(), "somebody holds it");
    let dies = std::thread::spawn(move || {
        std::thread::sleep(LOOK_AGAIN);
        drop(journal);
    });
    test.jail.recover(&test.call());
    dies.join().unwrap();
    assert!(!work(&test).exists());
}
