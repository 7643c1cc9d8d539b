use std::{collections::HashSet, fs, path::PathBuf};

use super::*;
use crate::supervisor::line_writer::{LineSink, LineWriter};

/// Small, so that a test rotates often.
const MAX: u64 = 64 << 10;

struct AuditFolder {
    dir: tempfile::TempDir,
}

impl AuditFolder {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sink(&self) -> LineSink {
        let folder = host::open_directory(self.dir.path()).unwrap();
        let (fd, torn) = host::open_log(&folder, "log".as_ref()).unwrap();
        LineSink { ends_mid_line: torn, rotation: Some(Rotation::new(folder, "log".into(), MAX).unwrap()), ..fd.into() }
    }

    fn all(&self) -> Vec<String> {
        let names = (1..=MAX_OLD_FILES).rev().map(|number| format!("log.{number}")).chain(["log".to_owned()]);
        let texts = names.filter_map(|name| fs::read_to_string(self.path(&name)).ok());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

/// Each writer has its own descriptors and locks, like separate processes.
#[test]
fn writers_that_rotate_at_the_same_time_lose_nothing_that_is_kept() {
    const WRITERS: usize = 4;
    const LINES: usize = 400;
    let place = AuditFolder::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let place = &place;
            scope.spawn(move || {
                let lines = LineWriter::new(place.sink());
                lines.start_writer().unwrap();
                for number in 0..LINES {
                    let line = format!("{writer} {number} {}\n", "x".repeat(150));
                    while !lines.push(line.as_bytes()) {}
                    if number % 10 == 0 {
                        assert!(lines.finish());
                    }
                }
                assert!(lines.finish());
            });
        }
    });
    let lines = place.all();
    assert!(place.path("log.3").exists(), "it was rotated often");
    assert_eq!(lines.len(), WRITERS * LINES, "each line is in one file");
    assert!(lines.iter().all(|line| line.ends_with(&"x".repeat(150)) && line.len() < 170), "no line is torn");
    let known: HashSet<&String> = lines.iter().collect();
    assert_eq!(known.len(), lines.len(), "no line is there twice");
    for name in ["log.1", "log.2", "log.3"] {
        let size = fs::metadata(place.path(name)).unwrap().len();
        assert!((MAX..MAX + (64 << 10)).contains(&size), "{name}: {size}");
    }
}

#[test]
fn old_files_are_bounded() {
    let place = AuditFolder::new();
    let lines = LineWriter::new(place.sink());
    let line = [b"x".repeat(4000), b"\n".to_vec()].concat();
    for _ in 0..150 {
        assert!(lines.push(&line));
    }
    let mut names: Vec<_> = fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["log", "log.1", "log.2", "log.3", "log.4"]);
}

/// One that was idle while others rotated finds the new file, however often that was.
#[test]
fn an_idle_writer_writes_to_the_file_that_has_the_name_now() {
    let place = AuditFolder::new();
    let (idle, busy) = (LineWriter::new(place.sink()), LineWriter::new(place.sink()));
    assert!(idle.push(b"first\n"));
    let line = [b"x".repeat(4000), b"\n".to_vec()].concat();
    for _ in 0..200 {
        assert!(busy.push(&line));
    }
    assert!(idle.push(b"last\n"));
    assert!(!place.all().contains(&"first".to_owned()), "its first file is gone");
    assert!(fs::read_to_string(place.path("log")).unwrap().ends_with("last\n"));
    // The file is created again if a user removes it.
    fs::remove_file(place.path("log")).unwrap();
    assert!(idle.push(b"again\n"));
    assert_eq!(fs::read_to_string(place.path("log")).unwrap(), "again\n");
}

#[test]
fn a_lock_that_is_held_delays_and_then_refuses() {
    let place = AuditFolder::new();
    let mut sink = place.sink();
    let other = Rotation::new(host::open_directory(place.dir.path()).unwrap(), "log".into(), MAX).unwrap();
    let held = other.lock(FolderLock::Exclusive, Duration::ZERO).unwrap();
    let rotation = sink.rotation.take().unwrap();
    let start = Instant::now();
    let refused = rotation.lock_current_file(&mut sink.fd, &mut sink.ends_mid_line, Duration::from_millis(30));
    assert_eq!(refused.err(), Some(Errno::AGAIN));
    assert!(start.elapsed() >= Duration::from_millis(30));
    drop(held);
    assert!(rotation.lock_current_file(&mut sink.fd, &mut sink.ends_mid_line, Duration::ZERO).is_ok());
}
