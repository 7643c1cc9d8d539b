//! Programs that are run to their end for each measurement.

use std::{
    io::Read,
    process::{Command, Stdio},
    time::Instant,
};

use crate::client::micros;

/// Microseconds from exec to exit, and what it wrote. Through a pipe that is read: some programs stop at the first
/// match when nobody would see the others.
pub fn executed(command: &mut Command) -> (f64, Vec<u8>) {
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut written = Vec::new();
    child.stdout.take().expect("a pipe").read_to_end(&mut written).unwrap();
    child.wait().unwrap();
    (micros(begin), written)
}

pub fn lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}
