//! Real disks at their end: full, out of inodes, over a quota, read-only from one moment to the next.

use std::{fs, path::PathBuf, process::Command};

use super::{
    scenario::{ALL, outline, snapshot},
    support::{
        COLD, Options, TestJail, Value, in_own_mounts, json,
        process::{self, Signal, runs_as_root},
        state::is_state,
    },
};

/// A root that is a file system of its own, in a mount namespace of the daemon's own; and where to see it from here.
pub fn on_small_disk(test: &str, options: &str, fault: Option<&str>) -> Option<(TestJail, PathBuf)> {
    if !runs_as_root(test) {
        return None;
    }
    let script = format!("mount -t tmpfs -o {options},mode=755 tmpfs \"$d/root\"");
    let jail = TestJail::with(Options {
        through: in_own_mounts(&script),
        policy: Some(COLD.into()),
        fault: fault.map(Into::into),
        ..Options::default()
    });
    let root = PathBuf::from(format!("/proc/{}/root{}", jail.daemon.pid(), jail.root.display()));
    Some((jail, root))
}

/// Makes the disk `ro` or `rw`. The kernel refuses `ro` while a file is open for writing.
pub fn remount(jail: &TestJail, how: &str) -> bool {
    Command::new("nsenter")
        .arg(format!("--mount=/proc/{}/ns/mnt", jail.daemon.pid()))
        .args(["mount", "-o", &format!("remount,{how}")])
        .arg(&jail.root)
        .output()
        .unwrap()
        .status
        .success()
}

fn result(jail: &TestJail, function: &str, params: Value) -> Value {
    jail.call(function, params).expect("answered")["results"][0].take()
}

fn create(name: &str, bytes: usize, overwrite: bool) -> Value {
    json!({"files": [{"path": name, "content": "n".repeat(bytes), "overwrite": overwrite}]})
}

#[test]
fn a_full_disk_is_an_error_and_what_was_there_is_whole() {
    let Some((jail, root)) = on_small_disk("a_full_disk_is_an_error_and_what_was_there_is_whole", "size=1m", None)
    else {
        return;
    };
    let old = "o".repeat(100_000);
    fs::write(root.join("old"), &old).unwrap();
    fs::create_dir(root.join("tree")).unwrap();
    fs::write(root.join("tree/a"), "a".repeat(300_000)).unwrap();
    fs::write(root.join("tree/b"), "b".repeat(300_000)).unwrap();
    let append = json!({"op": "append", "content": "n".repeat(2_000_000)});
    let too_much = [
        ("coder::create-file", create("new", 2_000_000, false)),
        ("coder::create-file", create("n/e/w", 2_000_000, false)),
        ("coder::create-file", create("old", 2_000_000, true)),
        ("coder::update-file", json!({"files": [{"path": "old", "ops": [append]}]})),
        ("coder::copy", json!({"files": [{"from": "tree", "to": "copy", "recursive": true}]})),
        ("coder::create-file", {
            let file = |name: &str, bytes| json!({"path": name, "content": "n".repeat(bytes), "overwrite": true});
            json!({"atomic": true, "files": [file("old", 10), file("small", 10), file("large", 2_000_000)]})
        }),
    ];
    let before = snapshot(&root);
    // More than once: nothing may be left behind that fills the disk for good.
    for _ in 0..3 {
        for (function, params) in &too_much {
            let result = result(&jail, function, params.clone());
            assert_eq!(result["error"]["code"], "C216", "{function}: {result}");
            assert!(snapshot(&root) == before, "{function}: {:#?}", outline(&snapshot(&root)));
        }
    }
    let fits = result(&jail, "coder::create-file", create("fits", 250_000, false));
    assert_eq!(fits["success"], true, "{fits}");
    jail.assert_intact();
}

#[test]
fn a_disk_without_inodes_is_an_error_and_can_be_emptied() {
    let test = "a_disk_without_inodes_is_an_error_and_can_be_emptied";
    let Some((jail, root)) = on_small_disk(test, "size=8m,nr_inodes=24", None) else { return };
    let mut made = 0;
    let refused = loop {
        let result = result(&jail, "coder::create-file", create(&format!("f{made}"), 10, false));
        if result["success"] != true {
            break result;
        }
        made += 1;
        assert!(made < 24, "no end");
    };
    assert_eq!(refused["error"]["code"], "C216", "{refused}");
    let before = snapshot(&root);
    let others = [
        ("coder::create-file", create("f0", 20, true)),
        ("coder::mkdir", json!({"paths": ["made"]})),
        ("coder::copy", json!({"files": [{"from": "f0", "to": "copy"}]})),
        ("coder::create-file", json!({"atomic": true, "files": [{"path": "f0", "content": "x", "overwrite": true}]})),
    ];
    for (function, params) in others {
        let result = result(&jail, function, params);
        assert_eq!(result["error"]["code"], "C216", "{function}: {result}");
        assert_eq!(snapshot(&root), before, "{function}");
    }
    // One connection: that its first attempt found no room says nothing about the next.
    let mut client = jail.connect();
    for number in 0..made {
        let name = format!("f{number}");
        let reply = client.call("coder::delete-file", json!({"paths": [name]})).unwrap();
        assert_eq!(reply["results"][0]["removed"], true, "{reply}");
    }
    let atomic = json!({"atomic": true, "files": [{"path": "a", "content": "x"}, {"path": "b", "content": "x"}]});
    let reply = client.call("coder::create-file", atomic).unwrap();
    assert_eq!(reply["results"][1]["success"], true, "{reply}");
    jail.assert_intact();
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_the_end_of_the_worker() {
    let jail = TestJail::with(Options {
        through: ["prlimit", "--fsize=65536:65536"].map(Into::into).into(),
        in_memory: true,
        ..Options::default()
    });
    jail.write("old", "old");
    let mut client = jail.connect();
    for (name, overwrite) in [("new", false), ("old", true)] {
        let reply = client.call("coder::create-file", create(name, 100_000, overwrite)).expect("answered");
        let code = &reply["results"][0]["error"]["code"];
        assert!(code == "C216" || code == "C213", "{reply}");
    }
    let reply = client.call("coder::create-file", create("fits", 60_000, false)).expect("still served");
    assert_eq!(reply["results"][0]["success"], true, "{reply}");
    assert_eq!(fs::read(jail.root.join("old")).unwrap(), b"old");
    assert!(!jail.root.join("new").exists());
    jail.assert_intact();
}

/// The worker is stopped at each step in turn and the file system becomes read-only, where the kernel lets it: not while a
/// file is open for writing.
#[test]
fn a_disk_that_becomes_read_only_in_the_middle_leaves_files_whole() {
    let test = "a_disk_that_becomes_read_only_in_the_middle_leaves_files_whole";
    let Some((jail, root)) = on_small_disk(test, "size=8m", Some("stop:0")) else { return };
    let mount = |how: &str| remount(&jail, how);
    let (mut refused, mut done) = (0, 0);
    for scenario in ALL.iter().filter(|scenario| ["replace", "delete a file", "atomic create"].contains(&scenario.name))
    {
        for at in 0.. {
            for entry in fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()) {
                if !is_state(entry.file_name().unwrap()) {
                    let _ = fs::remove_file(&entry).or_else(|_| fs::remove_dir_all(&entry));
                }
            }
            (scenario.plant)(&root);
            let (mut client, worker) = jail.connect_and_find_worker();
            let id = client.send(scenario.function, (scenario.params)());
            let (mut step, mut is_read_only) = (0, false);
            while process::stands_still(worker, &mut client) {
                is_read_only |= step == at && mount("ro");
                step += 1;
                process::signal(worker, Signal::CONT);
            }
            // Without a reply the worker could not undo its change and has ended: recovery does it once the disk can be
            // written.
            let reply = client.reply_to(id);
            let is_success = |result: &Value| result["success"] == true;
            let is_done = reply.as_ref().is_ok_and(|reply| reply["results"].as_array().unwrap().iter().all(is_success));
            if is_read_only {
                assert!(mount("rw"));
                *(if is_done { &mut done } else { &mut refused }) += 1;
            }
            let [before, after] = &scenario.allowed()[..2] else { unreachable!() };
            let expected = if is_done { after } else { before };
            if reply.is_err() {
                process::eventually("recovery has undone it", || snapshot(&root) == *expected);
            }
            let found = snapshot(&root);
            assert_eq!(found, *expected, "{} at {at}: {reply:?} {:#?}", scenario.name, outline(&found));
            drop(client);
            process::resume_to_the_end(worker);
            if step <= at {
                break;
            }
        }
    }
    println!("{refused} refused, {done} done");
    assert!(refused >= 5, "it was read-only at {refused} steps that mattered");
    jail.assert_intact();
}
