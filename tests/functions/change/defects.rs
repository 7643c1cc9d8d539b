//! Defects of the public worker (Part B, section 11.1) that concern changes: each is a test that this service passes.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

use super::*;

#[test]
fn defect_01_a_folder_of_secrets_cannot_be_renamed_and_then_read() {
    let jail = jail();
    jail.write("secrets/key", "hidden");
    jail.write("project/secrets/key", "hidden");
    for from in ["secrets", "project", "project/secrets"] {
        changes_nothing(&jail, || {
            assert_refused(&relocate(&jail, MOVE, json!({"from": from, "to": "shown"})), "C211");
            assert_refused(&relocate(&jail, COPY, json!({"from": from, "to": "shown", "recursive": true})), "C211");
        });
    }
}

#[test]
fn defect_03_case_variants_of_hidden_names_are_hidden() {
    let jail = jail();
    for name in [".ENV", "a/Server.PEM", "SECRETS/x"] {
        changes_nothing(&jail, || assert_refused(&create(&jail, json!({"path": name, "content": "x"})), "C211"));
    }
}

#[test]
fn defect_08_a_fifo_blocks_nothing() {
    let policy = "[[root]]\npath = \"ROOT/one\"\n[[root]]\npath = \"ROOT/two\"\n";
    let options = Options { policy: Some(policy.into()), in_memory: true, ..Options::default() };
    let jail = TestJail::with_tree(options, |root| {
        fs::create_dir_all(root.join("one")).unwrap();
        fs::create_dir_all(root.join("two")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, root.join("one/fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    });
    let other = jail.root.join("two/fifo").to_str().unwrap().to_owned();
    let start = Instant::now();
    assert_refused(&create(&jail, json!({"path": "fifo", "content": "x", "overwrite": true})), "C210");
    assert_refused(&relocate(&jail, MOVE, json!({"from": "fifo", "to": other})), "C210");
    assert_refused(&relocate(&jail, COPY, json!({"from": "fifo", "to": other})), "C210");
    assert!(start.elapsed() < Duration::from_secs(10));
    jail.assert_intact();
}

#[test]
fn defect_14_overwriting_keeps_mode_owner_and_attributes() {
    let jail = jail();
    let path = jail.write("f", "old");
    set_mode(&path, 0o755);
    assert_success(&create(&jail, json!({"path": "f", "content": "new", "overwrite": true})));
    assert_eq!(mode(&jail, "f"), 0o755);
}

#[test]
fn defect_16_a_rejected_mode_leaves_no_file() {
    let jail = jail();
    for wrong in ["9z9", "", "01000"] {
        assert_refused(&create(&jail, json!({"path": "f", "content": "x", "mode": wrong})), "C210");
        assert!(!jail.root.join("f").exists());
    }
    for (name, zero) in [("zero", "0"), ("zeros", "000")] {
        assert_success(&create(&jail, json!({"path": name, "content": "x", "mode": zero})));
        assert_eq!(mode(&jail, name), 0);
    }
}

#[test]
fn defect_17_deleting_a_link_deletes_the_link_also_a_dangling_one() {
    let jail = jail();
    jail.write("target", "x");
    symlink("target", jail.root.join("link")).unwrap();
    symlink("nowhere", jail.root.join("dangling")).unwrap();
    for name in ["link", "dangling"] {
        assert_eq!(delete(&jail, name)["removed"], json!(true));
    }
    assert_eq!(everything(&jail.root).keys().collect::<Vec<_>>(), ["target"]);
}

/// No name of ours is ever seen in a user's folder, so none can be guessed.
#[test]
fn defect_18_no_temporary_name_is_seen_while_files_are_replaced() {
    let jail = jail();
    jail.write("d/f", "x");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let entries = fs::read_dir(jail.root.join("d")).unwrap();
                seen.extend(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
            }
            seen
        });
        let mut client = jail.connect();
        for round in 0..200 {
            let file = json!({"path": "d/f", "content": format!("{round}"), "overwrite": true});
            assert_success(&one(client.call(CREATE, json!({"files": [file]}))));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(watcher.join().unwrap().into_iter().collect::<Vec<_>>(), ["f"]);
    });
}

#[test]
fn defect_19_names_that_are_not_utf8_can_be_addressed() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use std::os::unix::ffi::OsStrExt;
    let jail = jail();
    let (a, b) = (b"a\xff", b"b\xfe");
    let name = |bytes: &[u8]| jail.root.join(std::ffi::OsStr::from_bytes(bytes));
    fs::write(name(a), "x").unwrap();
    let entry = json!({"from_bytes": STANDARD.encode(a), "to_bytes": STANDARD.encode(b)});
    let result = relocate(&jail, MOVE, entry);
    assert_success(&result);
    assert_eq!(result["to_bytes"], json!(STANDARD.encode(name(b).as_os_str().as_bytes())));
    let result = one(jail.call(DELETE, json!({"paths": [{"path_bytes": STANDARD.encode(b)}]})));
    assert_eq!(result["removed"], json!(true));
    assert_eq!(fs::read_dir(&jail.root).unwrap().filter(|e| !is_state(e.as_ref().unwrap().file_name())).count(), 0);
}
