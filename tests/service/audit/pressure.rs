//! A disk that is full, a reader that does not read: the service never waits for them, and the loss is told.

use std::{
    fs,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::{
    Options, Value, policy,
    support::{Client, TestJail, json, process},
};

/// Names in one batch: as many records.
const BATCH: usize = 1000;
/// More records than wait in memory, at a few hundred bytes each.
const BATCHES: usize = 9;
/// A call that waited for the disk or the reader would wait for ever; this is patience with a loaded machine.
const CALL_BOUND: Duration = Duration::from_secs(20);

/// Reads until records must have been lost; how many accesses that were.
fn flood(client: &mut Client) -> u64 {
    for _ in 0..BATCHES {
        let start = Instant::now();
        let reply = client.call("coder::read-file", json!({"paths": vec!["file"; BATCH]})).unwrap();
        assert_eq!(reply["results"].as_array().unwrap().len(), BATCH);
        assert!(start.elapsed() < CALL_BOUND, "{:?}", start.elapsed());
    }
    (BATCH * BATCHES) as u64
}

/// Accesses that were told, and records that were lost.
fn count(records: &[Value]) -> (u64, u64) {
    let granted = records.iter().filter(|record| record["decision"] == "granted").count() as u64;
    let lost = records.iter().filter_map(|record| record["lost_before"].as_u64()).sum();
    (granted, lost)
}

/// Whole records, each on its line. A line that was written in part is the beginning of the one after it.
fn whole(text: &str) -> (Vec<Value>, usize) {
    let lines: Vec<&str> = text.lines().collect();
    let mut torn = 0;
    let mut records = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match serde_json::from_str::<Value>(line) {
            Ok(record) => records.push(record),
            Err(error) => {
                let again = lines.get(index + 1).is_some_and(|next| next.starts_with(line));
                assert!(again, "neither a record nor the beginning of the next: {error}: {line}");
                torn += 1;
            }
        }
    }
    records.retain(|record| record.get("event").is_some());
    (records, torn)
}

struct Disk {
    jail: TestJail,
    log: PathBuf,
}

impl Disk {
    /// The daemon's `log` folder is a tmpfs of its own mount namespace, looked into by way of its process.
    fn small() -> Self {
        let script =
            "set -e; d=${3%/run/stockade.sock}; mount -t tmpfs -o size=4m,mode=0755 tmpfs \"$d/log\"; exec \"$@\"";
        let through = ["unshare", "--mount", "sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        let jail = super::start(Options { through, ..policy("decisions", "") });
        let inside = Path::new("/proc").join(jail.daemon.pid().to_string()).join("root");
        let log = inside.join(jail.dir.path().strip_prefix("/").unwrap()).join("log");
        Self { jail, log }
    }

    fn fill(&self) {
        let mut filler = fs::File::create(self.log.join("filler")).unwrap();
        while filler.write(&[0; 4096]).is_ok() {}
    }

    fn text(&self) -> String {
        let text = fs::read_to_string(self.log.join("audit.jsonl")).unwrap();
        text[..text.rfind('\n').map_or(0, |newline| newline + 1)].to_owned()
    }
}

#[test]
fn a_full_disk_stops_nobody_and_its_loss_is_counted() {
    if !process::runs_as_root("a_full_disk_stops_nobody_and_its_loss_is_counted") {
        return;
    }
    let disk = Disk::small();
    disk.jail.write("file", "x");
    let mut client = disk.jail.connect();
    client.call("coder::read-file", json!({"path": "file"})).unwrap();
    disk.fill();
    let mut made = 1 + flood(&mut client);
    disk.jail.read("file").expect("others are served, too");
    made += 1;
    assert!((whole(&disk.text()).0.len() as u64) < made, "the disk was not full");
    fs::remove_file(disk.log.join("filler")).unwrap();
    let mut told = (0, 0);
    process::eventually("every access was told or counted", || {
        // The loss is told with the next record that finds room.
        client.call("coder::read-file", json!({"path": "file"})).unwrap();
        made += 1;
        std::thread::sleep(Duration::from_millis(50));
        let (records, torn) = whole(&disk.text());
        assert!(torn <= 1, "{torn} lines were written in part");
        told = count(&records);
        let others = records.len() as u64 - told.0;
        // Beginnings and ends of the other connections may be among the lost.
        told.1 > 0 && (made..=made + 8).contains(&(told.0 + told.1)) && others > 0
    });
    assert!(told.0 > 1000, "what waited was written: {told:?}");
    disk.jail.assert_intact();
}

/// The reading end of a new FIFO, which is not read.
fn fifo(path: &Path) -> fs::File {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    fs::File::options().read(true).custom_flags(flags).open(path).unwrap()
}

fn drain(reader: &mut fs::File, text: &mut Vec<u8>) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(len) = reader.read(&mut buffer) {
        if len == 0 {
            return;
        }
        text.extend_from_slice(&buffer[..len]);
    }
}

/// Serves while nobody reads; then everything is told or counted.
fn stays_alive_unread(mut jail: TestJail, mut reader: fs::File) {
    jail.write("file", "x");
    let mut client = jail.connect();
    let mut made = flood(&mut client);
    jail.read("file").expect("others are served, too");
    made += 1;
    let mut text = Vec::new();
    let mut told = (0, 0);
    process::eventually("every access was told or counted", || {
        client.call("coder::read-file", json!({"path": "file"})).unwrap();
        made += 1;
        std::thread::sleep(Duration::from_millis(50));
        drain(&mut reader, &mut text);
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let (records, torn) = whole(std::str::from_utf8(&text[..end]).unwrap());
        assert_eq!(torn, 0, "a pipe takes lines whole");
        told = count(&records);
        told.1 > 0 && (made..=made + 8).contains(&(told.0 + told.1))
    });
    assert!(told.0 > 1000, "what waited was written: {told:?}");
    // Unread again: the end waits a little for its last lines, not for ever.
    flood(&mut client);
    drop(client);
    let start = Instant::now();
    assert_eq!(jail.daemon.terminate(), Some(0));
    assert!(start.elapsed() < CALL_BOUND, "{:?}", start.elapsed());
    drop(OwnedFd::from(reader));
}

#[test]
fn a_fifo_that_nobody_reads_stops_nobody() {
    let mut reader = None;
    let text = "[[root]]\npath = \"ROOT\"\n[audit]\npath = \"ROOT/../audit.fifo\"\n";
    let options = Options { policy: Some(text.into()), ..Options::default() };
    let jail = TestJail::with_tree(options, |root| reader = Some(fifo(&root.join("../audit.fifo"))));
    stays_alive_unread(jail, reader.unwrap());
}

#[test]
fn a_standard_error_that_nobody_reads_stops_nobody() {
    let dir = TestJail::directory();
    let path = dir.path().join("stderr");
    let reader = fifo(&path);
    let script = format!("exec \"$@\" 2>{}", path.display());
    let through = ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    stays_alive_unread(TestJail::with(Options { through, ..Options::default() }), reader);
}

#[test]
fn a_reader_that_went_away_stops_nobody() {
    let mut reader = None;
    let text = "[[root]]\npath = \"ROOT\"\n[audit]\npath = \"ROOT/../audit.fifo\"\n";
    let options = Options { policy: Some(text.into()), ..Options::default() };
    let mut jail = TestJail::with_tree(options, |root| reader = Some(fifo(&root.join("../audit.fifo"))));
    drop(reader.take());
    jail.write("file", "x");
    flood(&mut jail.connect());
    // Another one comes: it is told what waited, and that more was lost.
    let path = jail.dir.path().join("audit.fifo");
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let mut reader = fs::File::options().read(true).custom_flags(flags).open(path).unwrap();
    let mut text = Vec::new();
    process::eventually("the loss is told", || {
        jail.read("file").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drain(&mut reader, &mut text);
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        count(&whole(std::str::from_utf8(&text[..end]).unwrap()).0).1 > 0
    });
    assert_eq!(jail.daemon.terminate(), Some(0));
}
