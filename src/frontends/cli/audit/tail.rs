//! `stockade audit tail`: one line for each act, the newest last.

use std::{collections::VecDeque, io, path::Path, time::Duration};

use super::{
    super::{
        CommandResult,
        args::{AuditOutcome, TailArgs},
        escape,
        failure::CliFailure,
        output::{Output, OutputStyle, Paint},
        units::{human_size, now_ms, utc_second},
    },
    AuditGaps, audit_files,
    event::CliAuditEvent,
    filter::AuditEventFilter,
    for_each_event, handle_line, report_gaps,
};
use crate::sys::file::FollowedFile;

/// Time between two reads of a file that is followed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(args: &TailArgs, file: &Path, out: &mut Output<'_>) -> CommandResult {
    let filter = AuditEventFilter::new(&args.filter, now_ms())?;
    let failed = |error: io::Error| CliFailure::File(format!("{}: {error}", file.display()));
    let mut paths = audit_files(file)?;
    let mut followed = match args.follow {
        true => Some(FollowedFile::open(file).map_err(failed)?),
        false => None,
    };
    if followed.is_some() {
        paths.retain(|path| path != file);
    }
    let (mut read, mut last) = (AuditGaps::default(), VecDeque::new());
    let mut keep = |act, line: &str| {
        last.push_back((act, line.to_owned()));
        if last.len() > args.lines {
            last.pop_front();
        }
        Ok(())
    };
    for_each_event(&paths, &filter, &mut read, &mut keep)?;
    if let Some(followed) = &mut followed {
        for line in followed.read_more().map_err(failed)? {
            handle_line(&line, &filter, &mut read, &mut keep)?;
        }
    }
    for (act, line) in last {
        print_event(&act, &line, out)?;
    }
    report_gaps(&read, out)?;
    let Some(mut followed) = followed else { return Ok(0) };
    loop {
        out.flush()?;
        let lines = followed.read_more().map_err(failed)?;
        if lines.is_empty() {
            std::thread::sleep(POLL_INTERVAL);
        }
        for line in lines {
            handle_line(&line, &filter, &mut read, &mut |act, line: &str| print_event(&act, line, out))?;
        }
    }
}

fn print_event(act: &CliAuditEvent, line: &str, out: &mut Output<'_>) -> Result<(), CliFailure> {
    if out.json {
        return out.write_json_line(&escape::json(line));
    }
    let text = render_event(act, out.style);
    out.write_text(&text)
}

/// `2026-11-18 08:15:03  changed    uid 1000 pid 4242 #7  create-file  /srv/a  12B`
pub(super) fn render_event(act: &CliAuditEvent, style: OutputStyle) -> String {
    let time = style.paint(Paint::Dim, &utc_second(act.time_ms));
    let who = format!("uid {} pid {} #{}", act.uid, act.pid, act.connection);
    let mut line = format!(
        "{time}  {}  {}  {:11}  {}",
        outcome_cell(act.outcome, 9, style),
        style.paint(Paint::Dim, &format!("{who:20}")),
        act.function,
        act.display_names()
    );
    let details = [
        act.code.clone(),
        act.bytes.map(|bytes| format!("{}B", human_size(bytes))),
        act.entries.map(|entries| format!("{entries} below")),
    ];
    for detail in details.into_iter().flatten() {
        line.push_str(&format!("  {}", style.paint(Paint::Dim, &detail)));
    }
    line.push('\n');
    line
}

pub(super) fn outcome_name(outcome: AuditOutcome) -> &'static str {
    match outcome {
        AuditOutcome::Changed => "changed",
        AuditOutcome::Unchanged => "unchanged",
        AuditOutcome::DryRun => "dry run",
        AuditOutcome::Refused => "refused",
        AuditOutcome::Read => "read",
    }
}

fn outcome_cell(outcome: AuditOutcome, width: usize, style: OutputStyle) -> String {
    let padded = format!("{:width$}", outcome_name(outcome));
    match outcome {
        AuditOutcome::Changed => style.paint(Paint::Bold, &padded),
        AuditOutcome::Refused => style.paint(Paint::Bad, &padded),
        AuditOutcome::Unchanged | AuditOutcome::DryRun => style.paint(Paint::Dim, &padded),
        AuditOutcome::Read => padded,
    }
}
