//! Things on disk that are no ordinary file: each has a coded answer or correct data, at once, at little cost.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::support::{
    COLD, Client, Options, TestJail, Value, json,
    process::{self, is_root},
};

/// What one call may cost a worker. Debug builds run our own loops several times slower than what is shipped, and the
/// kernel counts in hundredths of a second: thrice the 50 ms.
const CPU_PER_CALL: Duration = Duration::from_millis(150);

/// A connection whose worker's time is watched.
struct Watched {
    client: Client,
    worker: u32,
}

impl Watched {
    fn on(jail: &TestJail) -> Self {
        let (client, worker) = jail.connect_and_find_worker();
        Self { client, worker }
    }

    /// The code, or `ok` and the result.
    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> (String, Value) {
        let before = process::cpu_time(self.worker);
        let start = Instant::now();
        let reply = self.client.call(method, params.clone());
        let cost = process::cpu_time(self.worker) - before;
        assert!(cost <= CPU_PER_CALL, "{method} {params}: {cost:?}");
        assert!(start.elapsed() < Duration::from_secs(5), "{method} {params}: {:?}", start.elapsed());
        match reply {
            Ok(result) => ("ok".into(), result),
            Err(error) => (error.code(), Value::String(error.message())),
        }
    }

    #[track_caller]
    fn code_of_read(&mut self, path: &str) -> String {
        self.call("coder::read-file", json!({"path": path})).0
    }
}

fn cold(fill: impl FnOnce(&Path)) -> TestJail {
    TestJail::with_tree(Options { policy: Some(COLD.into()), ..Options::default() }, fill)
}

#[test]
fn special_files_and_links_are_answered_at_once() {
    let mut listener = None;
    let jail = cold(|root| {
        let fifo = root.join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        listener = Some(UnixListener::bind(root.join("socket")).unwrap());
        if is_root() {
            let zero = rustix::fs::makedev(1, 5);
            rustix::fs::mknodat(CWD, root.join("zero"), FileType::CharacterDevice, Mode::RUSR, zero).unwrap();
            rustix::fs::mknodat(CWD, root.join("disk"), FileType::BlockDevice, Mode::RUSR, zero).unwrap();
        }
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("/etc/passwd", root.join("outside")).unwrap();
        fs::create_dir(root.join("folder")).unwrap();
    });
    let mut watched = Watched::on(&jail);
    let devices: &[&str] = if is_root() { &["zero", "disk"] } else { &[] };
    for name in ["fifo", "socket", "folder"].iter().chain(devices) {
        assert_eq!(watched.code_of_read(name), "C210", "{name}");
    }
    for name in ["dangling", "loop", "outside", "outside/x"] {
        assert_eq!(watched.code_of_read(name), "C215", "{name}");
    }
    for name in ["fifo", "dangling", "socket"] {
        let code = watched.call("coder::list-folder", json!({"path": name})).0;
        assert_eq!(code, if name == "dangling" { "C215" } else { "C210" }, "{name}");
    }
    let (code, listing) = watched.call("coder::list-folder", json!({"path": "."}));
    assert_eq!(code, "ok");
    for entry in listing["entries"].as_array().unwrap() {
        let kind = match entry["name"].as_str().unwrap() {
            "folder" => "dir",
            "dangling" | "loop" | "outside" => "symlink",
            _ => "other",
        };
        assert_eq!(entry["kind"], kind, "{entry}");
    }
}

/// As large as the file system allows, and hardly there.
#[test]
fn the_largest_sparse_file_costs_nothing() {
    let mut size = 0u64;
    let jail = cold(|root| {
        let file = File::create(root.join("sparse")).unwrap();
        // Binary search for the largest length that is accepted.
        for bit in (12..63).rev() {
            if file.set_len(size | 1 << bit).is_ok() {
                size |= 1 << bit;
            }
        }
        file.set_len(size).unwrap();
    });
    println!("{size} bytes");
    let mut watched = Watched::on(&jail);
    let (code, message) = watched.call("coder::read-file", json!({"path": "sparse"}));
    assert_eq!(code, "C213");
    assert!(message.as_str().unwrap().contains(&format!("{size} bytes")), "{message}");
    let (code, stat) = watched.call("coder::read-file", json!({"path": "sparse", "stat": true}));
    assert_eq!((code.as_str(), &stat["size"]), ("ok", &json!(size)));
    let (code, end) = watched.call("coder::read-file", json!({"path": "sparse", "byte_from": size - 3}));
    assert_eq!((code.as_str(), &end["content"]), ("ok", &json!("\0\0\0")));
}

#[test]
fn a_growing_file_is_read_as_far_as_it_was() {
    let jail = cold(|root| fs::write(root.join("log"), "line 1\n").unwrap());
    let mut watched = Watched::on(&jail);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = fs::OpenOptions::new().append(true).open(jail.root.join("log")).unwrap();
            // Bounded, so that a stuck test does not fill the disk.
            for n in 2..200_000 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                writeln!(log, "line {n}").unwrap();
            }
        });
        for _ in 0..50 {
            // Whole lines from the first on, or too large by now: never a torn mixture.
            let (code, reply) = watched.call("coder::read-file", json!({"path": "log"}));
            if code == "C213" {
                break;
            }
            assert_eq!(code, "ok", "{reply}");
            let content = reply["content"].as_str().unwrap();
            for (n, line) in (1..).zip(content.lines()) {
                assert!(format!("line {n}").starts_with(line), "{line:?} is line {n}");
            }
            let (code, tail) = watched.call("coder::read-file", json!({"path": "log", "tail": 3}));
            assert_eq!(code, "ok", "{tail}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Far deeper than a path can name: what can be named is served, what cannot is refused.
#[test]
fn a_chain_of_five_thousand_folders_is_no_trouble() {
    const DEPTH: usize = 5000;
    let jail = cold(|root| {
        let mut at = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
    });
    let mut watched = Watched::on(&jail);
    let deep = |depth: usize| vec!["d"; depth].join("/");
    let (code, listing) = watched.call("coder::list-folder", json!({"path": deep(2000)}));
    assert_eq!((code.as_str(), &listing["entries"][0]["kind"]), ("ok", &json!("dir")), "{listing}");
    assert_eq!(watched.code_of_read(&deep(2000)), "C210", "a folder");
    assert_eq!(watched.code_of_read(&(deep(2000) + "/x")), "C211");
    assert_eq!(watched.code_of_read(&deep(DEPTH)), "C210", "no path is that long");
    remove_chain(&jail.root);
}

/// The standard library removes by recursion over paths, and gives up here.
fn remove_chain(root: &Path) {
    // In stretches, so that the descriptors are few: move the rest up, then remove what is above it.
    let mut rest = root.join("d");
    let mut number = 0;
    while rest.exists() {
        let mut at = rustix::fs::open(&rest, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut depth = 0;
        while depth < 100 {
            match rustix::fs::openat(&at, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
                Ok(below) => at = below,
                Err(_) => break,
            }
            depth += 1;
        }
        number += 1;
        let moved = root.join(format!("rest-{number}"));
        let more = rustix::fs::renameat(&at, "d", CWD, &moved).is_ok();
        fs::remove_dir_all(&rest).unwrap();
        rest = moved;
        if !more {
            break;
        }
    }
}

/// `STOCKADE_SOAK_ENTRIES` makes it a million.
#[test]
fn a_large_folder_is_paged_whole_and_in_order() {
    let entries: usize = std::env::var("STOCKADE_SOAK_ENTRIES").map_or(100_000, |text| text.parse().unwrap());
    // Larger pages than the default, so that the folder is not read a hundred times.
    let policy = format!("{COLD}[limits]\nlist_max_page_size = 10000\n");
    let jail = TestJail::with_tree(Options { policy: Some(policy), ..Options::default() }, |root| {
        let folder = root.join("big");
        fs::create_dir(&folder).unwrap();
        let folder = rustix::fs::open(&folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        for n in 0..entries {
            // Neither made in order nor listed by the kernel in order.
            let name = format!("{:x}-{n}", n.wrapping_mul(0x9e37_79b9) as u32);
            rustix::fs::openat(&folder, name, flags, Mode::RUSR).unwrap();
        }
    });
    let (mut client, worker) = jail.connect_and_find_worker();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let (mut files, mut resident) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                files = files.max(if is_root() { process::open_files(worker) } else { 0 });
                resident = resident.max(process::resident_bytes(worker));
                std::thread::sleep(Duration::from_millis(1));
            }
            (files, resident)
        });
        let mut names: Vec<String> = Vec::with_capacity(entries);
        for page in 1.. {
            let reply = client
                .call("coder::list-folder", json!({"path": "big", "page": page, "page_size": 10_000}))
                .expect("a page");
            assert_eq!(reply["total"], entries);
            names.extend(
                reply["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().into()),
            );
            if reply["has_more"] == false {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        let (files, resident) = sampler.join().unwrap();
        println!("{entries} entries: {files} descriptors, {} KiB", resident >> 10);
        assert_eq!(names.len(), entries);
        assert!(names.is_sorted(), "not in byte order");
        names.dedup();
        assert_eq!(names.len(), entries, "an entry came twice");
        assert!(files <= 64 && resident < 64 << 20);
    });
}
