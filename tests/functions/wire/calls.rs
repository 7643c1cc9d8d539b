//! Calls of one connection side by side: cancelled, late, many, and a long one that never delays a short one.

use std::{
    collections::HashMap,
    fs::File,
    time::{Duration, Instant},
};

use crate::support::{COLD, Client, Options, TestJail, Value, json, process};

/// Reading all of this takes hours; its size costs nothing.
fn plant_giant(jail: &TestJail) {
    File::create(jail.root.join("giant")).unwrap().set_len(1 << 43).unwrap();
}

fn read_giant() -> Value {
    json!({"path": "giant", "stat": true, "count_lines": true})
}

fn cancel(client: &mut Client, id: Value) {
    client.send_line(&json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}}).to_string());
}

#[test]
fn a_running_call_is_cancelled_promptly() {
    let jail = TestJail::new();
    plant_giant(&jail);
    let mut client = jail.connect();
    let id = client.send("coder::read-file", read_giant());
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    cancel(&mut client, json!(id));
    let error = client.reply_to(id).unwrap_err();
    assert_eq!(error.code(), "C220");
    assert!(error.message().contains("cancelled"), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    client.call("coder::info", json!({})).expect("the connection goes on");
}

/// Also while as many calls are open as may be: that is when somebody wants to be rid of them.
#[test]
fn a_cancellation_is_heard_when_all_places_are_taken() {
    let policy = format!("{COLD}[limits]\nmax_calls_in_flight = 4\n");
    let jail = TestJail::with(Options { policy: Some(policy), ..Options::default() });
    plant_giant(&jail);
    let mut client = jail.connect();
    let ids: Vec<u64> = (0..4).map(|_| client.send("coder::read-file", read_giant())).collect();
    std::thread::sleep(Duration::from_millis(100));
    cancel(&mut client, json!(ids[3]));
    assert_eq!(client.line().unwrap()["id"], ids[3], "the one that was cancelled, and no other");
    let more = client.send("coder::read-file", read_giant());
    for id in ids[..3].iter().rev() {
        cancel(&mut client, json!(id));
    }
    let others: Vec<u64> = (0..3).map(|_| client.send("coder::read-file", read_giant())).collect();
    let mut ended: Vec<u64> = (0..3).map(|_| client.line().unwrap()["id"].as_u64().unwrap()).collect();
    ended.sort_unstable();
    assert_eq!(ended, ids[..3]);
    cancel(&mut client, json!(more));
    let line = client.line().unwrap();
    assert_eq!(line["id"], more, "{line}");
    for id in others {
        cancel(&mut client, json!(id));
        assert_eq!(client.line().unwrap()["id"], id);
    }
    client.call("coder::info", json!({})).expect("the connection goes on");
}

/// Both lines are read before any thread has looked at the call.
#[test]
fn a_cancellation_right_behind_its_call_is_heard() {
    let jail = TestJail::new();
    plant_giant(&jail);
    let mut client = jail.connect();
    let call =
        |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "coder::read-file", "params": read_giant()}).to_string();
    let gone = |id: u64| json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}}).to_string();
    // More than there are threads for.
    let running: Vec<String> = (1..=4).map(call).collect();
    client.send_line(&running.join("\n"));
    client.send_line(&[call(5), gone(5)].join("\n"));
    let line = client.line().unwrap();
    assert_eq!((&line["id"], &line["error"]["data"]["code"]), (&json!(5), &json!("C220")), "{line}");
    assert!(line["error"]["message"].as_str().unwrap().contains("cancelled"), "{line}");
}

#[test]
fn a_cancellation_of_nothing_is_ignored() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    for id in [json!(77), json!("x")] {
        cancel(&mut client, id);
    }
    let id = client.send("coder::info", json!({}));
    let first = client.line().unwrap();
    assert_eq!((&first["id"], first["result"].is_object()), (&json!(id), true), "{first}");
    // A sender that gave its cancellation an id waits for an answer to that.
    client.send_line(r#"{"jsonrpc":"2.0","id":"c","method":"$/cancelRequest","params":{"id":77}}"#);
    assert_eq!(client.line().unwrap(), json!({"jsonrpc": "2.0", "id": "c", "result": {}}));
    client.send_line(r#"{"jsonrpc":"2.0","id":"c","method":"$/cancelRequest","params":{"id":null}}"#);
    assert_eq!(client.line().unwrap()["error"]["data"]["code"], "C210");
}

#[test]
fn a_call_ends_at_its_deadline() {
    let jail = TestJail::new();
    plant_giant(&jail);
    let mut client = jail.connect();
    let start = Instant::now();
    client.send_line(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "coder::read-file", "params": read_giant(), "timeout_ms": 200})
            .to_string(),
    );
    let reply = client.line().unwrap();
    assert_eq!(reply["error"]["data"]["code"], "C220", "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("deadline"), "{reply}");
    assert!((Duration::from_millis(200)..Duration::from_secs(3)).contains(&start.elapsed()));
}

#[test]
fn an_id_in_flight_cannot_be_used_twice() {
    let jail = TestJail::new();
    plant_giant(&jail);
    let mut client = jail.connect();
    let line = |params: Value| json!({"jsonrpc": "2.0", "id": "same", "method": "coder::read-file", "params": params});
    client.send_line(&line(read_giant()).to_string());
    client.send_line(&line(json!({"path": "x"})).to_string());
    let refused = client.line().unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("same"), &json!(-32600)), "{refused}");
    cancel(&mut client, json!("same"));
    assert_eq!(client.line().unwrap()["error"]["data"]["code"], "C220", "the first one was not disturbed");
    client.send_line(&line(json!({"path": "x"})).to_string());
    assert_eq!(client.line().unwrap()["error"]["data"]["code"], "C211", "the id is free again");
}

/// A client with many long calls waits for them, and nobody else: the scheduler prefers every other thread. One by itself is
/// as good as any call.
#[test]
fn many_long_calls_run_on_threads_that_give_way() {
    let jail = TestJail::with(Options { policy: Some(COLD.into()), ..Options::default() });
    plant_giant(&jail);
    let (mut client, worker) = jail.connect_and_find_worker();
    let usual = process::own_nice();
    let busy = |worker: u32, calls: &mut dyn FnMut()| {
        let before = ticks(worker, |nice| nice == usual);
        let before_patient = ticks(worker, |nice| nice > usual);
        calls();
        (ticks(worker, |nice| nice == usual) - before, ticks(worker, |nice| nice > usual) - before_patient)
    };
    let (prompt, patient) = busy(worker, &mut || run_giants(&mut client, 1));
    assert!(prompt > 0 && patient == 0, "{prompt} and {patient} ticks of one call");
    let (prompt, patient) = busy(worker, &mut || run_giants(&mut client, 8));
    assert!(patient > 0 && prompt <= patient, "{prompt} and {patient} ticks of many");
    client.call("coder::info", json!({})).expect("the connection goes on");
}

fn ticks(worker: u32, of: impl Fn(i32) -> bool) -> u64 {
    process::threads(worker).iter().filter(|(nice, _)| of(*nice)).map(|(_, ticks)| ticks).sum()
}

/// All at once, for half a second.
fn run_giants(client: &mut Client, count: usize) {
    let lines = (0..count).map(|id| {
        let call = json!({"jsonrpc": "2.0", "id": format!("giant {id}"), "method": "coder::read-file",
            "params": read_giant(), "timeout_ms": 500});
        call.to_string() + "\n"
    });
    client.send_bytes(lines.collect::<String>().as_bytes());
    for _ in 0..count {
        assert_eq!(client.line().unwrap()["error"]["data"]["code"], "C220");
    }
}

/// Sends `count` calls of every kind without waiting; each is answered once, with what belongs to it.
fn pipeline(jail: &TestJail, count: u64) {
    let mut client = jail.connect();
    let mut expected: HashMap<u64, String> = HashMap::new();
    let mut lines = Vec::new();
    for id in 0..count {
        let (method, params, answer) = match id % 9 {
            0 => ("coder::info", json!({}), "result".to_owned()),
            1 => ("coder::read-file", json!({"path": format!("f{}.txt", id % 10)}), format!("content {}\n", id % 10)),
            2 => ("coder::list-folder", json!({"path": "."}), "result".to_owned()),
            3 => ("coder::read-file", json!({"path": "missing"}), "C211".to_owned()),
            4 => ("coder::read-file", json!({"path": "../x"}), "C215".to_owned()),
            5 => ("coder::tree", json!({}), "result".to_owned()),
            6 => ("coder::search", json!({"query": "content"}), "result".to_owned()),
            7 => ("coder::stat", json!({"paths": ["f1.txt"], "etag": true}), "result".to_owned()),
            _ => ("coder::nothing", json!({}), "-32601".to_owned()),
        };
        expected.insert(id, answer);
        lines.extend(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().bytes());
        lines.push(b'\n');
    }
    let mut sender = client.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::io::Write::write_all(&mut sender, &lines).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        for reply in client.rest() {
            let answer = expected.remove(&reply["id"].as_u64().unwrap()).expect("answered once, and asked");
            let (result, error) = (&reply["result"], &reply["error"]);
            let got = match (&error["data"]["code"], &error["code"], &result["content"]) {
                (Value::String(code), _, _) => code.clone(),
                (_, Value::Number(code), _) => code.to_string(),
                (_, _, Value::String(content)) => content.clone(),
                _ => "result".to_owned(),
            };
            assert_eq!(got, answer, "{reply}");
        }
    });
    assert!(expected.is_empty(), "never answered: {expected:?}");
}

/// Short and long ones, whichever threads there are for them.
#[test]
fn any_number_of_threads_answers_every_call() {
    for threads in 2..=5 {
        let policy = format!("{COLD}threads = {threads}\n[limits]\nmax_calls_in_flight = 7\n");
        let jail = TestJail::with(Options { policy: Some(policy), ..Options::default() });
        (0..10).for_each(|n| drop(jail.write(&format!("f{n}.txt"), format!("content {n}\n"))));
        pipeline(&jail, 400);
    }
}

#[test]
fn sixty_four_calls_at_once_are_each_answered_once() {
    let jail = TestJail::new();
    (0..10).for_each(|n| drop(jail.write(&format!("f{n}.txt"), format!("content {n}\n"))));
    pipeline(&jail, 64);
}

#[test]
fn more_calls_than_may_be_open_wait_and_are_all_answered() {
    let jail = TestJail::new();
    (0..10).for_each(|n| drop(jail.write(&format!("f{n}.txt"), format!("content {n}\n"))));
    pipeline(&jail, 3000);
}

/// All buffered calls are asked about in one message, and that message has an end.
#[test]
fn many_long_paths_at_once_do_not_cost_the_worker() {
    let jail = TestJail::new();
    let mut client = jail.connect();
    let long = vec!["n".repeat(250); 16].join("/");
    let lines: String = (0..64)
        .map(|id| {
            json!({"jsonrpc": "2.0", "id": id, "method": "coder::read-file", "params": {"path": long}}).to_string()
                + "\n"
        })
        .collect();
    // A long line in front makes the worker's buffer so large that it sees many of them at once.
    let wide = format!("{{\"x\":1{}}}\n", " ".repeat(300_000));
    client.send_bytes(&[wide.as_bytes(), lines.as_bytes()].concat());
    assert_eq!(client.line().unwrap()["error"]["code"], -32600);
    for _ in 0..64 {
        let reply = client.line().expect("the worker lives");
        assert_eq!(reply["error"]["data"]["code"], "C211", "{reply}");
    }
}

/// Each entry of a batch holds two descriptors while it is being opened, and batches run side by side.
#[test]
fn batches_side_by_side_do_not_run_out_of_descriptors() {
    let jail = TestJail::new();
    let paths: Vec<String> = (0..1000).map(|n| format!("d{}/f{n}.txt", n % 200)).collect();
    paths.iter().for_each(|path| drop(jail.write(path, "x\n")));
    let mut client = jail.connect();
    // A loaded machine takes its time, and this is not about that.
    let call = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "coder::read-file", "timeout_ms": 300_000,
            "params": {"paths": paths, "stat": true}})
    };
    let mut open = 12;
    (0..open).for_each(|id| client.send_line(&call(id).to_string()));
    while open > 0 {
        let reply = client.line().expect("the worker lives");
        let results = reply["result"]["results"].as_array().unwrap_or_else(|| panic!("{reply}"));
        assert_eq!(results.len(), 1000);
        assert!(results.iter().all(|entry| entry["success"] == true), "{reply}");
        open -= 1;
    }
}

/// Lists are long calls; two threads stay free of long ones, however the calls arrive. The other two are taken, by calls that
/// do not end by themselves: whatever the machine does meanwhile, no list can come before the read.
#[test]
fn long_lists_never_delay_a_read() {
    let jail = TestJail::with_tree(Options { policy: Some(COLD.into()), ..Options::default() }, |root| {
        std::fs::create_dir(root.join("big")).unwrap();
        (0..1000).for_each(|n| drop(File::create(root.join(format!("big/{n:06}"))).unwrap()));
        std::fs::write(root.join("small.txt"), "small\n").unwrap();
    });
    plant_giant(&jail);
    for pause_ms in [0, 6] {
        let (mut client, worker) = jail.connect_and_find_worker();
        let mut send = |method: &str, params: Value| {
            let id = client.send(method, params);
            std::thread::sleep(Duration::from_millis(pause_ms));
            id
        };
        let endless = [(); 2].map(|()| send("coder::read-file", read_giant()));
        let lists = [(); 8].map(|()| send("coder::list-folder", json!({"path": "big"})));
        let read = send("coder::read-file", json!({"path": "small.txt"}));
        let first = client.line().expect("answered");
        assert_eq!(first["id"], json!(read), "with {pause_ms} ms between calls: {first}");
        endless.iter().for_each(|id| cancel(&mut client, json!(id)));
        let mut others: Vec<u64> = (0..endless.len() + lists.len())
            .map(|_| client.line().expect("all are answered")["id"].as_u64().unwrap())
            .collect();
        others.sort_unstable();
        assert_eq!(others, [&endless[..], &lists].concat());
        // Nothing is open any more: the worker's threads lie down, all of them.
        std::thread::sleep(Duration::from_millis(300));
        let waking = process::switches(worker);
        std::thread::sleep(Duration::from_millis(500));
        let woken = process::switches(worker) - waking;
        assert!(woken < 20, "an idle worker woke {woken} times in half a second");
    }
}
