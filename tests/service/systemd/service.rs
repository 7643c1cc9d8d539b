//! The shipped units, as they are, under a real systemd.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::{
    machine::{Machine, POLICY, SOCKET, STOCKADE},
    support::{
        Client, Value, json,
        process::{eventually, own_nice, status, threads},
    },
};

fn started(test: &str) -> Option<Machine> {
    let machine = Machine::boot(test)?;
    machine.systemctl("start", "stockade.socket");
    Some(machine)
}

#[track_caller]
fn assert_served(client: &mut Client) {
    let read = client.call("coder::read-file", json!({"path": "note.txt"}));
    assert_eq!(read.expect("served")["content"], "a note\n");
}

/// The service serves while systemd still runs its ExecStartPost=, a process more in the control group.
fn wait_until_started(machine: &Machine) {
    eventually("the start is over", || machine.show("ActiveState") == "active");
}

/// A call that runs until its deadline.
fn send_endless(machine: &Machine, client: &mut Client, timeout_ms: u64) {
    fs::File::create(machine.path("/srv/project/giant")).unwrap().set_len(1 << 43).unwrap();
    let call = json!({"jsonrpc": "2.0", "id": "endless", "method": "coder::read-file", "timeout_ms": timeout_ms,
        "params": {"path": "giant", "stat": true, "count_lines": true}});
    client.send_line(&call.to_string());
    std::thread::sleep(Duration::from_millis(200));
}

#[track_caller]
fn assert_ended_by_its_own_deadline(reply: Option<Value>) {
    let reply = reply.expect("an answer");
    assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!("endless"), &json!("C220")), "{reply}");
}

#[test]
fn a_connection_starts_the_service() {
    let Some(machine) = started("a_connection_starts_the_service") else { return };
    assert_eq!(machine.show("ActiveState"), "inactive");
    assert_served(&mut machine.connect());
    wait_until_started(&machine);
    assert_eq!(machine.show("StatusText"), "serving, confinement: Kernel");
    eventually("it is in the audit", || {
        fs::read_to_string(machine.path("/var/log/stockade/audit.jsonl")).is_ok_and(|text| !text.is_empty())
    });
}

#[test]
fn the_service_and_its_workers_have_no_more_rights_than_the_unit_says() {
    let Some(machine) = started("the_service_and_its_workers_have_no_more_rights_than_the_unit_says") else {
        return;
    };
    // Kept: its worker would end with it, perhaps while we look.
    let mut client = machine.connect();
    assert_served(&mut client);
    wait_until_started(&machine);
    let group = machine.path("/sys/fs/cgroup/system.slice/stockade.service/cgroup.procs");
    let processes = fs::read_to_string(group).unwrap();
    assert!(processes.lines().count() > 1, "{processes}");
    for pid in processes.lines().map(|pid| pid.parse().unwrap()) {
        let uid = STOCKADE.to_string();
        assert!(status(pid, "Uid").iter().all(|id| *id == uid), "{:?}", status(pid, "Uid"));
        assert!(status(pid, "Gid").iter().all(|id| *id == uid), "{:?}", status(pid, "Gid"));
        for set in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(status(pid, set)[0].bytes().all(|digit| digit == b'0'), "{set}");
        }
        assert_eq!((status(pid, "NoNewPrivs"), status(pid, "Seccomp")), (vec!["1".into()], vec!["2".into()]));
        // The unit hides what the policy does not name.
        assert!(fs::read_dir(format!("/proc/{pid}/root/home")).unwrap().next().is_none(), "homes are hidden");
        let network = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
        assert_eq!(network.lines().count(), 3, "two lines of headings and the loopback: {network}");
    }
    let workers =
        processes.lines().map(|pid| pid.parse().unwrap()).filter(|pid| status(*pid, "Name")[0] != "stockaded");
    // 19 is the most that the kernel knows.
    let low = (own_nice() + 10).min(19);
    let stands_back = |pid| threads(pid).iter().filter(|(nice, _)| *nice == low).count();
    assert!(workers.map(stands_back).all(|count| count == 2), "threads for long calls give way");
}

/// The daemon stands still while the connection is made: it cannot have taken it.
#[test]
fn a_connection_that_waits_during_a_restart_is_served_by_the_next_instance() {
    let Some(machine) = started("a_connection_that_waits_during_a_restart_is_served_by_the_next_instance") else {
        return;
    };
    for _ in 0..3 {
        assert_served(&mut machine.connect());
        let first = machine.main_pid();
        machine.signal("STOP");
        let mut queued = machine.connect();
        let id = queued.send("coder::read-file", json!({"path": "note.txt"}));
        machine.systemctl("restart", "stockade.service");
        assert_eq!(queued.reply_to(id).expect("served")["content"], "a note\n");
        assert_ne!(machine.main_pid(), first);
    }
}

#[test]
fn a_service_that_is_stuck_is_killed_and_started_again() {
    let Some(machine) = started("a_service_that_is_stuck_is_killed_and_started_again") else { return };
    assert_served(&mut machine.connect());
    assert_eq!(machine.show("WatchdogUSec"), "30s", "the shipped unit is watched");
    machine.drop_in("WatchdogSec=2s");
    machine.systemctl("restart", "stockade.service");
    assert_served(&mut machine.connect());
    let first = machine.main_pid();
    // Longer than the watchdog's time: a service that lives is left alone.
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!((machine.main_pid(), machine.show("NRestarts")), (first.clone(), "0".into()));
    let mut cut_off = machine.connect();
    assert_served(&mut cut_off);
    machine.signal("STOP");
    let mut waiting = machine.connect();
    assert_served(&mut waiting);
    assert_ne!(machine.main_pid(), first);
    assert_eq!(machine.show("NRestarts"), "1");
    assert!(machine.journal().contains("Watchdog timeout"), "{}", machine.journal());
    assert_eq!(cut_off.line(), None, "who was served by the old one sees its end");
}

#[test]
fn a_reload_keeps_running_calls_and_applies_new_limits() {
    let Some(machine) = started("a_reload_keeps_running_calls_and_applies_new_limits") else { return };
    let mut client = machine.connect();
    assert_served(&mut client);
    wait_until_started(&machine);
    let first = machine.main_pid();
    let start = Instant::now();
    send_endless(&machine, &mut client, 5000);
    machine.write(
        "/etc/stockade/policy.toml",
        &format!("{POLICY}[limits]\ncall_timeout_ms = 900\ncall_timeout_max_ms = 1000\n"),
    );
    machine.systemctl("reload", "stockade.service");
    eventually("systemd hears of it", || machine.show("StatusText") == "serving under a reloaded policy");
    assert!(start.elapsed() < Duration::from_secs(5), "too slow to show anything");
    assert_ended_by_its_own_deadline(client.line());
    assert!(start.elapsed() >= Duration::from_secs(5), "cut short: {:?}", start.elapsed());
    let info = client.call("coder::info", json!({})).unwrap();
    assert_eq!(info["call_timeout_max_ms"], 1000);
    assert_eq!((machine.main_pid(), machine.show("ActiveState")), (first, "active".into()));

    machine.write("/etc/stockade/policy.toml", "nonsense");
    machine.systemctl("reload", "stockade.service");
    eventually("systemd hears of it", || machine.show("StatusText").contains("the old one stays"));
    eventually("it is running again", || machine.show("SubState") == "running");
    assert_served(&mut client);
    assert_served(&mut machine.connect());
}

#[test]
fn a_stop_waits_for_calls_that_run() {
    let Some(machine) = started("a_stop_waits_for_calls_that_run") else { return };
    let (mut busy, mut idle) = (machine.connect(), machine.connect());
    assert_served(&mut busy);
    assert_served(&mut idle);
    send_endless(&machine, &mut busy, 2000);
    machine.run(&["systemctl", "stop", "--no-block", "stockade.socket", "stockade.service"]);
    assert_eq!(idle.line(), None, "an idle connection ends at once");
    assert_ended_by_its_own_deadline(busy.line());
    assert_eq!(busy.line(), None);
    eventually("it is over", || machine.show("ActiveState") == "inactive");
    assert_eq!(machine.show("Result"), "success");
}

/// A client of the machine's own, with these ids.
fn info_as(machine: &Machine, uid: u32, gid: u32) -> Result<String, String> {
    let (uid, gid) = (format!("--reuid={uid}"), format!("--regid={gid}"));
    let client = ["setpriv", &uid, &gid, "--clear-groups", "stockade", "info", "--socket", SOCKET];
    let output = machine.output(&client);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn another_user_is_refused_by_the_socket_and_by_the_policy() {
    let Some(machine) = started("another_user_is_refused_by_the_socket_and_by_the_policy") else { return };
    assert!(info_as(&machine, 0, 0).is_ok());
    wait_until_started(&machine);
    let by_the_socket = info_as(&machine, 65534, 65534).expect_err("not of the group");
    assert!(by_the_socket.contains("ermission denied"), "{by_the_socket}");
    let by_the_policy = info_as(&machine, 65534, STOCKADE).expect_err("of the group, and no peer");
    assert!(by_the_policy.contains("C211") && by_the_policy.contains("not served"), "{by_the_policy}");
    machine.write("/etc/stockade/policy.toml", &format!("{POLICY}[[peer]]\nuser = \"nobody\"\nmode = \"ro\"\n"));
    machine.systemctl("reload", "stockade.service");
    eventually("the policy is reloaded", || info_as(&machine, 65534, STOCKADE).is_ok());
}

/// Its unit would let in more people than the policy names.
#[test]
fn a_socket_that_is_too_open_is_not_served() {
    let Some(machine) = Machine::boot("a_socket_that_is_too_open_is_not_served") else { return };
    machine.write("/etc/systemd/system/stockade.socket.d/test.conf", "[Socket]\nSocketMode=0666\n");
    machine.run(&["systemctl", "daemon-reload"]);
    assert!(!machine.succeeds(&["systemctl", "start", "stockade.service"]));
    assert!(machine.journal().contains("has mode 0666, and the policy's [socket] allows 0660"));
    assert_eq!((machine.show("Result"), machine.show("NRestarts")), ("exit-code".into(), "0".into()));
}
