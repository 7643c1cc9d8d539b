//! A disk that refuses: any call that changes something may fail. The caller hears of it, what was there before is there
//! still, and no name of ours is seen.

use super::{
    points::has_state_of_ours,
    scenario::{ALL, Scenario, Snapshot, find, outline, snapshot},
    support::{COLD, Options, TestJail, Value, json, process, state},
};

fn options(fault: &str) -> Options {
    Options { fault: Some(fault.into()), policy: Some(COLD.into()), in_memory: true, ..Options::default() }
}

/// Of the entries that failed.
fn codes(reply: &Value) -> Vec<&str> {
    let failed = reply["results"].as_array().unwrap().iter().filter(|result| result["success"] != true);
    failed.map(|result| result["error"]["code"].as_str().unwrap()).collect()
}

/// How many calls change something before the reply comes.
fn count(scenario: &Scenario) -> u32 {
    let jail = TestJail::with_tree(options("stop:0"), |root| (scenario.plant)(root));
    let (mut client, worker) = jail.connect_and_find_worker();
    client.send(scenario.function, (scenario.params)());
    let mut steps = 0;
    while process::stands_still(worker, &mut client) {
        steps += 1;
        process::signal(worker, process::Signal::CONT);
    }
    steps
}

/// A folder that is deleted but not as one of a batch goes entry by entry: what is left of it is whole.
fn is_part_of(found: &Snapshot, before: &Snapshot) -> bool {
    found.iter().all(|(name, facts)| before.get(name) == Some(facts))
}

fn fail_everywhere(scenario: &Scenario, errno: &str) {
    let allowed = scenario.allowed();
    let (steps, mut refused) = (count(scenario), 0);
    for point in 1..=steps {
        let mut jail = TestJail::with_tree(options(&format!("{errno}:{point}")), |root| (scenario.plant)(root));
        let (mut client, worker) = jail.connect_and_find_worker();
        let reply = client.call(scenario.function, (scenario.params)()).expect("answered");
        let codes = codes(&reply);
        let found = snapshot(&jail.root);
        let what = || format!("{} with {errno} at {point}: {reply} {:#?}", scenario.name, outline(&found));
        if codes.is_empty() {
            assert_eq!(found, allowed[1], "acknowledged: {}", what());
        } else {
            refused += 1;
            assert!(codes.iter().all(|code| *code == "C216"), "{}", what());
            let is_partly_deleted = scenario.name == "delete a folder" && is_part_of(&found, &allowed[0]);
            assert!(found == allowed[0] || is_partly_deleted, "{}", what());
        }
        // The connection goes on, and what the fault left is gone after the next start at the latest.
        client.call("coder::info", json!({})).expect("still served");
        drop(client);
        process::eventually("the worker ends", || !process::is_alive(worker));
        jail.restart(&Options { policy: Some(COLD.into()), ..Options::default() });
        jail.call("coder::info", json!({})).expect("served");
        assert!(!has_state_of_ours(&jail), "{}", what());
        assert_eq!(snapshot(&jail.root), found, "{}", what());
        jail.assert_intact();
    }
    println!("{} with {errno}: {refused} of {steps} calls refused it", scenario.name);
    assert!(refused >= 2, "{}: only {refused} of {steps} calls mattered", scenario.name);
}

macro_rules! fails {
    ($($test:ident: $name:literal;)*) => {$(
        #[test]
        fn $test() {
            let scenario = find($name);
            fail_everywhere(scenario, "EIO");
        }
    )*};
}

fails! {
    an_input_output_error_anywhere_in_a_create: "create";
    an_input_output_error_anywhere_in_a_create_in_new_folders: "create in new folders";
    an_input_output_error_anywhere_in_a_replace: "replace";
    an_input_output_error_anywhere_in_a_delete: "delete a file";
    an_input_output_error_anywhere_in_a_delete_of_a_folder: "delete a folder";
    an_input_output_error_anywhere_in_a_delete_into_the_trash: "delete into the trash";
    an_input_output_error_anywhere_in_a_plain_move: "move";
    an_input_output_error_anywhere_in_a_move: "move onto another";
    an_input_output_error_anywhere_in_a_copy: "copy a folder";
    an_input_output_error_anywhere_in_an_atomic_create: "atomic create";
    an_input_output_error_anywhere_in_an_atomic_move: "atomic move";
    an_input_output_error_anywhere_in_an_atomic_chain_of_moves: "atomic chain of moves";
    an_input_output_error_anywhere_in_an_atomic_delete: "atomic delete";
}

#[test]
fn other_words_of_a_disk_are_coded_the_same_way() {
    let scenario = find("replace");
    for errno in ["ENOSPC", "EDQUOT", "EROFS"] {
        fail_everywhere(scenario, errno);
    }
}

/// File systems that lack what the usual way needs: files without names, renames that never overwrite, second names,
/// exchanges. NFS, FUSE, 9p and FAT lack one or another.
#[test]
fn where_the_file_system_can_less_single_changes_are_done_all_the_same() {
    let lacks = [
        "EOPNOTSUPP:0:create_unnamed",
        "EOPNOTSUPP:0:create_unnamed+EINVAL:0:rename_to_free",
        "EOPNOTSUPP:0:create_unnamed+EINVAL:0:rename_to_free+EPERM:0:link",
        "EOPNOTSUPP:0:create_unnamed+EINVAL:0:rename_to_free+EINVAL:0:exchange",
        "EINVAL:0:exchange",
    ];
    // Our own folder lies on another file system, or in another quota project: the first place that is tried for what
    // replaces a file, and for nothing else.
    let elsewhere = ("EXDEV:1:link_unnamed", std::slice::from_ref(find("replace")));
    for (fault, scenarios) in lacks.map(|lack| (lack, ALL)).into_iter().chain([elsewhere]) {
        for scenario in scenarios {
            let jail = TestJail::with_tree(options(fault), |root| (scenario.plant)(root));
            let reply = jail.call(scenario.function, (scenario.params)()).expect("answered");
            let found = snapshot(&jail.root);
            let is_atomic = (scenario.params)()["atomic"] == true;
            let what = || format!("{} with {fault}: {reply} {:#?}", scenario.name, outline(&found));
            if codes(&reply).is_empty() {
                assert_eq!(found, scenario.allowed()[1], "{}", what());
            } else {
                assert!(is_atomic && codes(&reply).iter().all(|code| *code == "C216"), "{}", what());
                assert_eq!(found, scenario.allowed()[0], "{}", what());
            }
            process::eventually("nothing of ours is left", || !has_state_of_ours(&jail));
            jail.assert_intact();
        }
    }
}

/// The first three syncs make the state folder, where a change needs one.
///
/// The folder cannot be synced, and then the change cannot be undone either: the old file cannot be brought back, the new name or
/// folder cannot be removed, what was moved or taken away cannot return. The worker ends, and recovery does it before a client can
/// read the names. On a full disk, where not even a note can be made, the worker's journal has room for the record.
#[test]
fn what_a_worker_cannot_put_back_is_put_back_by_recovery_before_the_client_is_told() {
    for (name, fault) in [
        ("create", "EIO:2:sync+EIO:1:remove_file"),
        ("create in new folders", "EIO:2:sync+EIO:1:remove_dir"),
        ("move", "EIO:1:sync+EIO:2:rename_to_free"),
        ("make a folder", "EIO:1:sync+EIO:1:remove_dir"),
        ("delete into the trash", "EIO:7:sync+EIO:2:rename_to_free"),
        ("replace", "EIO:5:sync+EIO:2:exchange"),
        ("replace", "EIO:5:sync+EIO:2:exchange+ENOSPC:3:create"),
        ("atomic create", "EIO:2:exchange+EIO:3:exchange"),
        ("atomic delete", "EIO:2:rename_to_free+EIO:3:rename_to_free"),
        ("atomic move", "EIO:2:exchange+EIO:2:rename_to_free"),
        ("delete a file", "EIO:4:sync+EIO:2:rename_to_free"),
    ] {
        let scenario = find(name);
        let jail = TestJail::with_tree(options(fault), |root| (scenario.plant)(root));
        let mut client = jail.connect();
        client.send(scenario.function, (scenario.params)());
        let reply = client.line().expect("one line");
        let found = snapshot(&jail.root);
        assert_eq!(found, scenario.allowed()[0], "{name}: {reply} {:#?}", outline(&found));
        if reply["id"].is_null() {
            assert_eq!(reply["error"]["data"]["code"], "C216", "{name}: {reply}");
            let text = reply["error"]["message"].as_str().unwrap();
            assert!(text.contains("its worker could not undo it; the service undoes it"), "{name}: {text}");
        } else {
            assert!(codes(&reply["result"]).iter().all(|code| *code == "C216"), "{name}: {reply}");
            assert!(!codes(&reply["result"]).is_empty(), "{name}: {reply}");
        }
        drop(client);
        eventually_nothing_is_left(&jail);
    }
}

/// What a restore replaces comes back, and what was restored is in the trash again.
#[test]
fn a_restore_that_cannot_be_undone_loses_neither_file() {
    let mut jail = TestJail::with_tree(options(""), |root| std::fs::write(root.join("f"), "first").unwrap());
    let deleted = jail.call("coder::delete-file", json!({"paths": ["f"], "trash": true})).unwrap();
    let id = deleted["results"][0]["trash_id"].as_str().unwrap().to_owned();
    std::fs::write(jail.root.join("f"), "second").unwrap();
    jail.restart(&options("EIO:1:sync+EIO:2:exchange"));
    let mut client = jail.connect();
    client.send("coder::restore", json!({"ids": [id], "overwrite": true}));
    let reply = client.line().expect("one line");
    assert_eq!(reply["error"]["data"]["code"], "C216", "{reply}");
    assert_eq!(std::fs::read(jail.root.join("f")).unwrap(), b"second", "{reply}");
    drop(client);
    jail.restart(&options(""));
    jail.call("coder::restore", json!({"ids": [id], "overwrite": true})).expect("still in the trash");
    assert_eq!(std::fs::read(jail.root.join("f")).unwrap(), b"first");
}

/// The disk takes neither a note nor a record in the journal: the old content stays in the state folder, and the client is told.
#[test]
fn what_can_neither_go_back_nor_be_written_down_is_kept() {
    let scenario = find("replace");
    let fault = "EIO:5:sync+EIO:2:exchange+ENOSPC:3:create+ENOSPC:5:write";
    let mut jail = TestJail::with_tree(options(fault), |root| (scenario.plant)(root));
    let reply = jail.call(scenario.function, (scenario.params)()).expect("answered");
    let text = reply["results"][0]["error"]["message"].as_str().unwrap();
    assert!(text.contains("not everything could be put back"), "{text}");
    jail.restart(&options(""));
    jail.call("coder::info", json!({})).expect("served");
    let old = state::folders(&jail.root).iter().any(|state| holds(state, super::scenario::content('o').as_bytes()));
    assert!(old, "the old content is gone");
}

/// Whether a file somewhere below this folder has this content.
fn holds(folder: &std::path::Path, content: &[u8]) -> bool {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut is_there = entries.map(|path| match path.is_dir() {
        true => holds(&path, content),
        false => std::fs::read(path).unwrap() == content,
    });
    is_there.any(|is_there| is_there)
}

fn eventually_nothing_is_left(jail: &TestJail) {
    process::eventually("nothing of ours is left", || !has_state_of_ours(jail));
    jail.assert_intact();
}
