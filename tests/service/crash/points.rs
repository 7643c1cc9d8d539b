//! Every call that changes something, one by one: the process ends before it, and after it.

use super::{
    scenario::{Scenario, find, outline, snapshot},
    support::{COLD, Options, TestJail, json, process, state},
};

/// Far more points than any scenario has.
const MOST: u32 = 400;

fn options(fault: String) -> Options {
    Options { fault: Some(fault), policy: Some(COLD.into()), in_memory: true, ..Options::default() }
}

pub fn has_state_of_ours(jail: &TestJail) -> bool {
    state::has_work(&jail.root)
}

fn assert_allowed(scenario: &Scenario, jail: &TestJail, point: u32) {
    let found = snapshot(&jail.root);
    assert!(scenario.allowed().contains(&found), "{} killed at {point}: {:#?}", scenario.name, outline(&found));
    jail.assert_intact();
}

/// The worker ends itself at the point; the supervisor lives on and has it put in order.
fn kill_worker(scenario: &Scenario) -> u32 {
    for point in 1..MOST {
        let jail = TestJail::with_tree(options(format!("kill:{point}")), |root| (scenario.plant)(root));
        let reply = jail.call(scenario.function, (scenario.params)());
        match reply {
            Ok(reply) => {
                let failed = reply["results"].as_array().unwrap().iter().any(|result| result["success"] != true);
                assert!(!failed, "{}: {reply}", scenario.name);
                assert_eq!(snapshot(&jail.root), scenario.allowed()[1], "{} is done", scenario.name);
                process::eventually("nothing of ours is left", || !has_state_of_ours(&jail));
                return point - 1;
            }
            Err(failure) => assert_eq!(failure.code(), "C216", "{}: {failure:?}", scenario.name),
        }
        let what = format!("what is left of {} at {point} is put in order", scenario.name);
        process::eventually(&what, || !has_state_of_ours(&jail));
        assert_allowed(scenario, &jail, point);
    }
    panic!("{}: no end of points", scenario.name);
}

/// The worker stands still at the point, the supervisor is killed and takes it along; the next one puts it in order before
/// it serves anybody.
fn kill_supervisor(scenario: &Scenario) -> u32 {
    for point in 1..MOST {
        let mut jail = TestJail::with_tree(options(format!("stop:{point}")), |root| (scenario.plant)(root));
        let (mut client, worker) = jail.connect_and_find_worker();
        let id = client.send(scenario.function, (scenario.params)());
        if !process::stands_still(worker, &mut client) {
            client.reply_to(id).expect("done");
            return point - 1;
        }
        jail.daemon.child.kill().unwrap();
        jail.daemon.child.wait().unwrap();
        process::eventually("the worker dies with its supervisor", || !process::is_alive(worker));
        jail.restart(&Options { policy: Some(COLD.into()), ..Options::default() });
        // The socket is there before anybody is served.
        jail.call("coder::info", json!({})).expect("served");
        assert!(!has_state_of_ours(&jail), "{} killed at {point}: put in order before the first client", scenario.name);
        assert_allowed(scenario, &jail, point);
    }
    panic!("{}: no end of points", scenario.name);
}

/// `test name: scenario, least points`. The least shows that the hook is where the calls are.
macro_rules! at_every_point {
    ($($worker:ident, $supervisor:ident: $name:literal, $least:literal;)*) => {$(
        #[test]
        fn $worker() {
            let points = kill_worker(find($name));
            assert!(points >= $least, "only {points} points were met");
        }

        #[test]
        fn $supervisor() {
            let points = kill_supervisor(find($name));
            assert!(points >= $least, "only {points} points were met");
        }
    )*};
}

at_every_point! {
    create_worker, create_supervisor: "create", 10;
    create_in_folders_worker, create_in_folders_supervisor: "create in new folders", 10;
    replace_worker, replace_supervisor: "replace", 20;
    delete_worker, delete_supervisor: "delete a file", 8;
    delete_tree_worker, delete_tree_supervisor: "delete a folder", 16;
    trash_worker, trash_supervisor: "delete into the trash", 16;
    move_onto_worker, move_onto_supervisor: "move onto another", 16;
    copy_tree_worker, copy_tree_supervisor: "copy a folder", 20;
    atomic_create_worker, atomic_create_supervisor: "atomic create", 40;
    atomic_move_worker, atomic_move_supervisor: "atomic move", 24;
    atomic_chain_worker, atomic_chain_supervisor: "atomic chain of moves", 30;
    atomic_delete_worker, atomic_delete_supervisor: "atomic delete", 20;
}
