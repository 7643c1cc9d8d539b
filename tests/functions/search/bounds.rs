//! What is too much for any machine: an answer comes all the same, in time, and the worker stays small.

use std::{
    fs,
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags};

use crate::support::{COLD, Client, Failure, Options, TestJail, Value, json, process};

/// What a worker may hold, whatever it is asked.
const MOST_BYTES: u64 = 64 << 20;
const MOST_DESCRIPTORS: usize = 64;

fn size(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |number| number.parse().unwrap())
}

fn jail(fill: impl FnOnce(&Path)) -> TestJail {
    let policy = format!("{COLD}[limits]\ncall_timeout_ms = 600000\n");
    TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, fill)
}

/// The most memory that a process ever held.
#[track_caller]
fn assert_small(worker: u32) {
    let most: u64 = process::status(worker, "VmHWM")[0].parse().unwrap();
    assert!(most << 10 <= MOST_BYTES, "the worker held {most} KiB");
}

/// Calls while somebody counts the worker's descriptors.
fn call_watched(client: &mut Client, worker: u32, method: &str, params: Value) -> Result<Value, Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Nobody but root may look.
                most = most.max(if process::is_root() { process::open_files(worker) } else { 0 });
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let reply = client.call(method, params);
        is_over.store(true, Ordering::Relaxed);
        let most = watch.join().unwrap();
        assert!(most <= MOST_DESCRIPTORS, "{most} descriptors");
        reply
    })
}

/// 32 MiB, or as much as `STOCKADE_SOAK_LINE_BYTES` says.
#[test]
fn a_line_that_fills_a_file_is_searched_in_little_memory() {
    let bytes = size("STOCKADE_SOAK_LINE_BYTES", 32 << 20);
    let jail = jail(|root| {
        let mut file = std::io::BufWriter::new(fs::File::create(root.join("line")).unwrap());
        let block = [b'a'; 1 << 16];
        (0..bytes >> 16).for_each(|_| file.write_all(&block).unwrap());
        file.write_all(b" needle aab\nsecond needle\n").unwrap();
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let mut search = |more: Value| {
        let mut request = json!({"search_paths": false});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call_watched(&mut client, worker, "coder::search", request).unwrap()
    };
    for query in [json!({"query": "needle"}), json!({"query": "needle", "word": true})] {
        let reply = search(query);
        let found = reply["content_matches"].as_array().unwrap();
        assert_eq!(found.len(), 2, "{reply}");
        assert_eq!((&found[0]["line"], &found[0]["column"]), (&json!(1), &json!(bytes + 2)));
        assert!(found[0]["text"].as_str().unwrap().contains(" needle aab"));
        assert_eq!((&found[1]["line"], &found[1]["text"]), (&json!(2), &json!("second needle")));
    }
    assert!(search(json!({"query": "nowhere"}))["content_matches"].as_array().unwrap().is_empty());
    for query in [json!({"query": "ne+dle", "regex": true}), json!({"query": "NEEDLE", "ignore_case": true})] {
        assert_eq!(search(query)["skipped"]["long_line"], 1);
    }
    assert_eq!(search(json!({"query": "aab\\nsecond", "regex": true}))["skipped"]["too_large"], 1);
    assert_small(worker);
}

/// 4,000 files, or as many as `STOCKADE_SOAK_FILES` says.
#[test]
fn a_tree_of_many_files_is_searched_with_few_descriptors() {
    let files = size("STOCKADE_SOAK_FILES", 4_000);
    let jail = jail(|root| {
        for number in 0..files {
            let path = root.join(format!("{:02x}/{:02x}/{number}.txt", number % 251, number / 251 % 16));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("line of {number}\n")).unwrap();
        }
        // As deep as a path can be named, and many folders that all have more behind them.
        let deep = root.join("deep").join("d/".repeat(900));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("x.txt"), "line of the deep\n").unwrap();
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let request = json!({"query": "line of", "count_only": true, "max_matches": 1_000_000});
    let mut total = 0;
    let mut cursor = Value::Null;
    loop {
        let mut request = request.clone();
        request["cursor"] = cursor;
        let mut reply = call_watched(&mut client, worker, "coder::search", request).unwrap();
        total += reply["total"].as_u64().unwrap();
        cursor = reply["next_cursor"].take();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(total, files + 1);
    let reply =
        call_watched(&mut client, worker, "coder::find", json!({"paths": ["*.nothing"], "timeout": 60})).unwrap();
    assert_eq!((&reply["file_count"], &reply["timed_out"]), (&json!(0), &json!(false)), "{reply}");
    assert_small(worker);
}

/// 20,000 entries, or as many as `STOCKADE_SOAK_ENTRIES` says.
#[test]
fn a_folder_of_many_entries_is_paged_in_little_memory() {
    let entries = size("STOCKADE_SOAK_ENTRIES", 20_000);
    let jail = jail(|root| {
        let folder = root.join("wide");
        fs::create_dir(&folder).unwrap();
        for number in 0..entries {
            fs::File::create(folder.join(format!("a-name-of-some-length-{number:08}"))).unwrap();
        }
        fs::write(folder.join("zz"), "needle\n").unwrap();
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let reply =
        call_watched(&mut client, worker, "coder::search", json!({"query": "needle", "search_paths": false})).unwrap();
    assert_eq!(reply["content_matches"].as_array().unwrap().len(), 1);
    // The last page, and the pages around the middle.
    let last = format!("*{:08}", entries - 1);
    let middle = format!("*{:08}", entries / 2);
    for sort in ["path", "mtime"] {
        let request = json!({"paths": ["wide"], "sort": sort, "limit": 10_000, "timeout": 60});
        let mut reply = call_watched(&mut client, worker, "coder::find", request.clone()).unwrap();
        assert_eq!(reply["file_count"], 10_000);
        let mut next = request;
        next["cursor"] = reply["next_cursor"].take();
        let reply = call_watched(&mut client, worker, "coder::find", next).unwrap();
        assert_eq!(reply["file_count"], (entries - 10_000 + 1).min(10_000));
    }
    let reply =
        call_watched(&mut client, worker, "coder::find", json!({"paths": [last, middle], "timeout": 60})).unwrap();
    assert_eq!(reply["file_count"], 2);
    assert_small(worker);
}

#[test]
fn bombs_are_refused_or_answered_in_time() {
    let jail = jail(|root| {
        fs::write(root.join("a"), [b"a".repeat(200_000), b"\n".to_vec(), b"aaaa\n".repeat(20_000)].concat()).unwrap();
        fs::create_dir_all(root.join("a-b/".repeat(60))).unwrap();
        (0..200).for_each(|at| fs::write(root.join(format!("{}{at}", "a".repeat(200))), "").unwrap());
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let many = |part: &str, times: usize| part.repeat(times);
    let patterns = [
        "(a{1000}){1000}".to_owned(),
        "((((a{100}){100}){100}){100})".into(),
        "(a*)*b".into(),
        "(a|aa)+$".into(),
        "(x+x+)+y".into(),
        r"\pL{900}".into(),
        r"(\w{1,500}){1,2}b".into(),
        "[a-z]{5000}".into(),
        many("(", 4000) + &many(")", 4000),
        many("a?", 2600) + &many("a", 2600),
        many("a|", 4000) + "b",
        many("(?i)ſ", 1300),
        many(r"\w", 4000),
        many("[^b]", 2000),
        format!("(?:{})*c", many(".{0,9}", 200)),
        many("a", 100_000),
        r"(?s).*.*.*=.*".into(),
        r"(.*)*(.*)*(.*)*z".into(),
        many("{", 8000),
        many("[", 8000),
        many("\\", 7999),
        many("(?:", 2500),
    ];
    // A deadline that most of them cannot keep on their own.
    let time_limit = Duration::from_secs(2);
    let mut ask = |method: &str, params: Value| {
        let params_shown = params.to_string();
        let line = json!({"jsonrpc": "2.0", "id": 1_000_000, "method": method, "params": params, "timeout_ms": time_limit.as_millis() as u64});
        client.send_line(&line.to_string());
        match client.reply_to(1_000_000) {
            Ok(reply) => assert!(reply["truncated"].is_boolean(), "{reply}"),
            // C220 is an answer, too, unless it is what the supervisor says about a worker that it had to end.
            Err(failure) => {
                let is_coded = ["C210", "C220"].contains(&failure.code().as_str());
                let text: String = params_shown.chars().take(200).collect();
                assert!(is_coded && !failure.message().contains("worker was stopped"), "{method} {text}: {failure:?}");
            }
        }
    };
    for pattern in &patterns {
        for more in [
            json!({}),
            json!({"multiline": true}),
            json!({"ignore_case": true, "word": true}),
            json!({"repair": false}),
        ] {
            let mut request = more;
            (request["query"], request["regex"]) = (json!(pattern), json!(true));
            ask("coder::search", request);
        }
    }
    let globs = [
        many("*a", 100),
        many("**/", 2000),
        many("{a,b}", 20),
        many("{a,", 500),
        many("[a-z]", 1000),
        many("*", 8000),
        many("{", 300) + "a" + &many("}", 300),
        many("{a,b}/", 40),
        many("?", 4000),
        format!("{{{}}}", many("a*b*c*,", 3000)),
        many("[!", 900),
        many("\\", 901),
    ];
    for glob in &globs {
        ask(
            "coder::search",
            json!({"query": "a", "search_content": false, "include_globs": [glob], "exclude_globs": [glob]}),
        );
        ask("coder::find", json!({"paths": [glob]}));
        ask("coder::search", json!({"query": "a", "include_globs": vec![glob; 300]}));
        ask("coder::find", json!({"paths": vec![format!("a-b/{glob}"); 300]}));
    }
    // The same worker, still small, still there.
    assert!(process::is_alive(worker) && client.call("coder::info", json!({})).is_ok());
    assert_small(worker);
}

/// To write; never through a link that another writer has put there.
fn open_here(file: &Path, how: OFlags) -> std::io::Result<fs::File> {
    let how = how | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(file, how, Mode::RUSR | Mode::WUSR).map(fs::File::from)?)
}

/// Files and folders that come, go and change while they are searched: an answer, and only of lines that somebody wrote.
#[test]
fn a_tree_that_is_rewritten_gives_what_was_there() {
    let jail = jail(|root| (0..40).for_each(|at| fs::create_dir_all(root.join(format!("d{at}"))).unwrap()));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (root, is_over) = (&jail.root, &is_over);
            scope.spawn(move || {
                for round in 0usize.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let folder = root.join(format!("d{}", round % 40));
                    let file = folder.join(format!("{writer}-{}", round % 7));
                    // Errors are the other writer's doing.
                    let _ = match round % 11 {
                        0..=4 => open_here(&file, OFlags::CREATE | OFlags::TRUNC).and_then(|mut open| {
                            open.write_all(format!("line needle {round}\n").repeat(round % 300).as_bytes())
                        }),
                        5 => fs::remove_file(&file),
                        6 => fs::rename(&folder, root.join(format!("moved{}", round % 5))),
                        7 => fs::remove_dir_all(root.join(format!("moved{}", round % 5))),
                        8 => fs::remove_file(&file)
                            .and_then(|()| std::os::unix::fs::symlink("../../outside/secret.txt", &file)),
                        9 => open_here(&file, OFlags::empty()).and_then(|open| open.set_len(10)),
                        _ => fs::create_dir_all(&folder),
                    };
                }
            });
        }
        let mut client = jail.connect();
        let start = Instant::now();
        let mut found = 0;
        while start.elapsed() < Duration::from_secs(3) {
            let request = json!({"query": "needle|CANARY", "regex": true, "search_paths": false, "max_matches": 500});
            let reply = client.call("coder::search", request).unwrap();
            for hit in reply["content_matches"].as_array().unwrap() {
                let text = hit["text"].as_str().unwrap();
                assert!(text.starts_with("line needle "), "{hit}");
                found += 1;
            }
            client.call("coder::find", json!({"paths": ["*"], "limit": 1000})).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(found > 0, "nothing was ever there");
    });
    jail.assert_intact();
}

/// In 2 s of any clock, and in one of some tries within 50 ms of the worker's own time: a busy machine may keep a thread from
/// hearing of it, but not every time.
#[test]
fn a_cancelled_search_stops() {
    let jail = jail(|root| {
        let file = root.join("text");
        fs::write(&file, "some text that a slow pattern looks at again and again\n".repeat(20_000)).unwrap();
        // Gigabytes that take no room.
        (0..3000).for_each(|at| fs::hard_link(&file, root.join(at.to_string())).unwrap());
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let mut used = Vec::new();
    for _ in 0..8 {
        let request = json!({"query": r"(?:[a-z]{1,30} ){9}[a-z]{3}[0-9]", "regex": true, "search_paths": false});
        let id = client.send("coder::search", request);
        let before = process::cpu_time(worker);
        // It is at work.
        process::eventually("the search runs", || process::cpu_time(worker) > before + Duration::from_millis(30));
        let (start, at_cancel) = (Instant::now(), process::cpu_time(worker));
        client.send_line(&json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}}).to_string());
        let failure = client.reply_to(id).expect_err("cancelled");
        assert_eq!(failure.code(), "C220");
        assert!(start.elapsed() < Duration::from_secs(2), "after {:?}", start.elapsed());
        let settled = process::cpu_time(worker);
        std::thread::sleep(Duration::from_millis(100));
        assert!(process::cpu_time(worker) <= settled + Duration::from_millis(50), "somebody is still at it");
        used.push(settled - at_cancel);
    }
    assert!(used.iter().any(|used| *used <= Duration::from_millis(50)), "{used:?}");
}
