//! `stockade audit`: shows the audit of a service in a readable form. Runs as the user who calls it. Does not trust the files:
//! escapes names, and counts and skips lines that are no records.

mod event;
mod filter;
mod report;
mod tail;

use std::{
    env,
    io::{self, BufRead},
    path::{Path, PathBuf},
};

use serde_json::Value;

use self::{event::CliAuditEvent, filter::AuditEventFilter};
use super::{
    CommandResult,
    args::{AuditArgs, AuditCommand, AuditSource, ClientOptions},
    failure::CliFailure,
    output::Output,
};
use crate::{
    policy::{AuditPath, Policy, Starter},
    sys::file,
};

/// No record is longer; the rest of a longer line is skipped.
const MAX_LINE_BYTES: usize = 64 << 10;

pub(super) fn run(args: &AuditArgs, out: &mut Output<'_>) -> CommandResult {
    match &args.command {
        AuditCommand::Tail(args) => tail::run(args, &chosen_audit_file(&args.source)?, out),
        AuditCommand::Report(args) => report::run(args, &chosen_audit_file(&args.source)?, out),
    }
}

/// The file that the supervisor of a command with `--root` writes to.
pub(super) fn private_audit_file(options: &ClientOptions) -> Option<PathBuf> {
    match &options.audit {
        _ if options.supervisor.root.is_empty() => None,
        Some(audit) => Some(audit.into()),
        None => AuditPath::for_user(|name| env::var_os(name)),
    }
}

fn chosen_audit_file(source: &AuditSource) -> Result<PathBuf, CliFailure> {
    if let Some(file) = &source.file {
        return Ok(file.clone());
    }
    let Some(policy) = &source.policy else {
        let none = "neither XDG_STATE_HOME nor HOME is set; name the file of the audit";
        return AuditPath::for_user(|name| env::var_os(name)).ok_or_else(|| CliFailure::Usage(none.into()));
    };
    let hint = "`stockade policy check FILE` shows every value and where it came from";
    let read = Policy::load(policy, &Starter::current()).map_err(|error| CliFailure::Policy(error, hint))?;
    match read.audit.path {
        AuditPath::File(file) => Ok(file),
        AuditPath::Stderr => Err(CliFailure::Usage(format!(
            "{}: its audit goes to standard error; save the log of the service and name that file",
            policy.display()
        ))),
    }
}

/// Counts from the files, besides the acts.
#[derive(Debug, Default)]
struct AuditGaps {
    /// Lines that are no JSON.
    damaged_lines: u64,
    /// Records that the service could not write, by its own count.
    lost_records: u64,
}

/// Calls `each` with every act that the filter selects, in order, and its line.
fn for_each_event(
    files: &[PathBuf],
    filter: &AuditEventFilter,
    read: &mut AuditGaps,
    each: &mut impl FnMut(CliAuditEvent, &str) -> Result<(), CliFailure>,
) -> Result<(), CliFailure> {
    for path in files {
        let failed = |error: io::Error| CliFailure::File(format!("{}: {error}", path.display()));
        let mut lines = file::open_lines(path).map_err(failed)?;
        let mut line = Vec::new();
        while read_line(&mut lines, &mut line).map_err(failed)? {
            handle_line(&line, filter, read, each)?;
        }
    }
    Ok(())
}

/// One line of a file.
fn handle_line(
    line: &[u8],
    filter: &AuditEventFilter,
    read: &mut AuditGaps,
    each: &mut impl FnMut(CliAuditEvent, &str) -> Result<(), CliFailure>,
) -> Result<(), CliFailure> {
    let Ok(text) = std::str::from_utf8(line) else {
        read.damaged_lines += 1;
        return Ok(());
    };
    match serde_json::from_str::<Value>(text) {
        Ok(record) if record.is_object() => {
            read.lost_records = read.lost_records.saturating_add(record["lost_before"].as_u64().unwrap_or(0));
            match CliAuditEvent::from_record(&record) {
                Some(act) if filter.selects(&act) => each(act, text),
                _ => Ok(()),
            }
        }
        // The end of a line that was written in part.
        _ if text.trim().is_empty() => Ok(()),
        _ => {
            read.damaged_lines += 1;
            Ok(())
        }
    }
}

/// The audit with its old files, the oldest first.
fn audit_files(file: &Path) -> Result<Vec<PathBuf>, CliFailure> {
    let old = AuditPath::names(file).skip(1);
    let mut files: Vec<PathBuf> = old.take_while(|path| path.is_file()).collect();
    files.reverse();
    // Not `is_file`, because the process substitution of a shell is a pipe.
    if file.exists() {
        files.push(file.into());
    }
    if files.is_empty() {
        return Err(CliFailure::File(format!("{}: there is no audit yet", file.display())));
    }
    Ok(files)
}

/// Reads the next line without its newline; false at the end of the file. Cuts a line that is longer than any record, so that it
/// is no valid JSON and counts as damaged.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
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
fn report_gaps(read: &AuditGaps, out: &mut Output<'_>) -> Result<(), CliFailure> {
    if read.damaged_lines > 0 {
        out.write_remark(&format!(
            "{} damaged {} skipped",
            read.damaged_lines,
            if read.damaged_lines == 1 { "line was" } else { "lines were" }
        ))?;
    }
    if read.lost_records > 0 {
        out.write_remark(&format!(
            "{} records could not be written by the service and are missing",
            read.lost_records
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
