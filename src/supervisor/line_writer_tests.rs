use std::{fs, io::Read, os::unix::net::UnixStream, path::Path};

use super::*;

fn open(path: &Path) -> LineSink {
    let folder = host::open_directory(path.parent().unwrap()).unwrap();
    let (fd, torn) = host::open_log(folder, path.file_name().unwrap()).unwrap();
    LineSink { ends_mid_line: torn, ..fd.into() }
}

fn full() -> LineSink {
    OwnedFd::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap()).into()
}

fn with_writer(sink: LineSink) -> LineWriter {
    let lines = LineWriter::new(sink);
    lines.start_writer().unwrap();
    lines
}

#[test]
fn lines_arrive_in_order_with_and_without_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let lines = LineWriter::new(open(&path));
    assert!(lines.push(b"1\n"));
    assert_eq!(fs::read(&path).unwrap(), b"1\n", "single-threaded: written at once");
    lines.start_writer().unwrap();
    for number in 2..=2000 {
        assert!(lines.push(format!("{number}\n").as_bytes()));
    }
    assert!(lines.finish());
    let expected: String = (1..=2000).map(|number| format!("{number}\n")).collect();
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_file_that_ends_in_half_a_line_gets_its_end_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for (before, after) in
        [("", "new\n"), ("whole\n", "whole\nnew\n"), ("{\"half", "{\"half\nnew\n"), ("\n", "\nnew\n")]
    {
        fs::write(&path, before).unwrap();
        assert!(LineWriter::new(open(&path)).push(b"new\n"));
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

#[test]
fn a_reader_that_never_reads_costs_lines_and_never_time() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let lines = with_writer(OwnedFd::from(ours).into());
    let line = [b"x".repeat(999), b"\n".to_vec()].concat();
    let start = Instant::now();
    let lost = (0..20_000).filter(|_| !lines.push(&line)).count();
    assert!(lost > 10_000, "the queue is bounded: {lost} lost");
    assert!(lost < 19_000, "and holds something: {lost} lost");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // It reads after all: whole lines, and there is room again.
    let mut theirs = theirs;
    let mut bytes = vec![0; 100 * line.len()];
    theirs.read_exact(&mut bytes).unwrap();
    assert!(bytes.chunks(line.len()).all(|chunk| chunk == line));
    drop(std::thread::spawn(move || std::io::copy(&mut theirs, &mut std::io::sink())));
    let until = Instant::now() + Duration::from_secs(20);
    while !lines.push(&line) {
        assert!(Instant::now() < until, "never takes another line");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_full_disk_refuses_goes_to_its_replacement() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let lines = with_writer(full());
    assert!(lines.push(b"kept\n"));
    assert!(!lines.finish(), "nothing can be written");
    assert!(lines.push(b"too\n"));
    lines.replace_sink(open(&path));
    let until = Instant::now() + Duration::from_secs(20);
    while fs::read_to_string(&path).unwrap() != "kept\ntoo\n" {
        assert!(Instant::now() < until, "{:?}", fs::read_to_string(&path));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_line_of_any_length_that_a_pipe_takes_whole_is_taken_and_no_longer_one() {
    let dir = tempfile::tempdir().unwrap();
    let lines = with_writer(open(&dir.path().join("log")));
    assert!(lines.push(&[b'x'; MAX_LINE_BYTES - 1].iter().chain(b"\n").copied().collect::<Vec<_>>()));
    assert!(!lines.push(&[b'x'; MAX_LINE_BYTES].iter().chain(b"\n").copied().collect::<Vec<_>>()));
    assert!(lines.finish());
}
