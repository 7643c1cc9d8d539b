//! `stockade audit`: shows the audit of a service in a readable form. Runs as the user who calls it. Does not trust the files:
//! escapes names, and counts and skips lines that are no records.

mod act;
mod filter;
mod report;
mod tail;

use std::{
    env,
    io::{self, BufRead},
    path::{Path, PathBuf},
};

use serde_json::Value;

use self::{act::Act, filter::Filter};
use super::{
    Outcome,
    args::{AuditArgs, AuditCommand, AuditSource, ClientOptions},
    failure::Failure,
    output::Output,
};
use crate::{
    policy::{AuditPath, Policy, Starter},
    sys::file,
};

/// No record is longer; the rest of a longer line is skipped.
const MAX_LINE_BYTES: usize = 64 << 10;

pub(super) fn run(args: &AuditArgs, out: &mut Output<'_>) -> Outcome {
    match &args.command {
        AuditCommand::Tail(args) => tail::run(args, &file_named(&args.source)?, out),
        AuditCommand::Report(args) => report::run(args, &file_named(&args.source)?, out),
    }
}

/// The file that the supervisor of a command with `--root` writes to.
pub(super) fn file_of(options: &ClientOptions) -> Option<PathBuf> {
    match &options.audit {
        _ if options.place.root.is_empty() => None,
        Some(audit) => Some(audit.into()),
        None => AuditPath::of_user(|name| env::var_os(name)),
    }
}

fn file_named(source: &AuditSource) -> Result<PathBuf, Failure> {
    if let Some(file) = &source.file {
        return Ok(file.clone());
    }
    let Some(policy) = &source.policy else {
        let none = "neither XDG_STATE_HOME nor HOME is set; name the file of the audit";
        return AuditPath::of_user(|name| env::var_os(name)).ok_or_else(|| Failure::Usage(none.into()));
    };
    let hint = "`stockade policy check FILE` shows every value and where it came from";
    let read = Policy::load(policy, &Starter::current()).map_err(|error| Failure::Policy(error, hint))?;
    match read.audit.path {
        AuditPath::File(file) => Ok(file),
        AuditPath::Stderr => Err(Failure::Usage(format!(
            "{}: its audit goes to standard error; save the log of the service and name that file",
            policy.display()
        ))),
    }
}

/// Counts from the files, besides the acts.
#[derive(Debug, Default)]
struct Read {
    /// Lines that are no JSON.
    damaged: u64,
    /// Records that the service could not write, by its own count.
    lost: u64,
}

/// Calls `each` with every act that the filter selects, in order, and its line.
fn for_each(
    files: &[PathBuf],
    filter: &Filter,
    read: &mut Read,
    each: &mut impl FnMut(Act, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for path in files {
        let failed = |error: io::Error| Failure::File(format!("{}: {error}", path.display()));
        let mut lines = file::open_lines(path).map_err(failed)?;
        let mut line = Vec::new();
        while next_line(&mut lines, &mut line).map_err(failed)? {
            take(&line, filter, read, each)?;
        }
    }
    Ok(())
}

/// One line of a file.
fn take(
    line: &[u8],
    filter: &Filter,
    read: &mut Read,
    each: &mut impl FnMut(Act, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Ok(text) = std::str::from_utf8(line) else {
        read.damaged += 1;
        return Ok(());
    };
    match serde_json::from_str::<Value>(text) {
        Ok(record) if record.is_object() => {
            read.lost = read.lost.saturating_add(record["lost_before"].as_u64().unwrap_or(0));
            match Act::of(&record) {
                Some(act) if filter.selects(&act) => each(act, text),
                _ => Ok(()),
            }
        }
        // The end of a line that was written in part.
        _ if text.trim().is_empty() => Ok(()),
        _ => {
            read.damaged += 1;
            Ok(())
        }
    }
}

/// The audit with its old files, the oldest first.
fn files(file: &Path) -> Result<Vec<PathBuf>, Failure> {
    let old = AuditPath::names(file).skip(1);
    let mut files: Vec<PathBuf> = old.take_while(|path| path.is_file()).collect();
    files.reverse();
    // Not `is_file`: a shell's process substitution is a pipe.
    if file.exists() {
        files.push(file.into());
    }
    if files.is_empty() {
        return Err(Failure::File(format!("{}: there is no audit yet", file.display())));
    }
    Ok(files)
}

/// Reads the next line without its newline; false at the end of the file. Cuts a line that is longer than any record, so that it
/// is no valid JSON and counts as damaged.
fn next_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    loop {
        let available = lines.fill_buf()?;
        if available.is_empty() {
            return Ok(!line.is_empty());
        }
        let (piece, is_whole) = match memchr::memchr(b'\n', available) {
            Some(end) => (&available[..end], true),
            None => (available, false),
        };
        line.extend_from_slice(&piece[..piece.len().min(MAX_LINE_BYTES.saturating_sub(line.len()))]);
        let used = piece.len() + usize::from(is_whole);
        lines.consume(used);
        if is_whole {
            return Ok(true);
        }
    }
}

/// Prints how many lines were skipped and how many records are missing.
fn remark(read: &Read, out: &mut Output<'_>) -> Result<(), Failure> {
    if read.damaged > 0 {
        out.remark(&format!(
            "{} damaged {} skipped",
            read.damaged,
            if read.damaged == 1 { "line was" } else { "lines were" }
        ))?;
    }
    if read.lost > 0 {
        out.remark(&format!("{} records could not be written by the service and are missing", read.lost))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
