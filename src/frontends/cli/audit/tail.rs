//! `stockade audit tail`: one line for each act, the newest last.

use std::{collections::VecDeque, io, path::Path, time::Duration};

use super::{
    super::{
        Outcome,
        args::{AuditOutcome, TailArgs},
        escape,
        failure::Failure,
        output::{Output, Paint, Style},
        units::{human_size, now_ms, utc_second},
    },
    Read,
    act::Act,
    files,
    filter::Filter,
    for_each, remark, take,
};
use crate::sys::file::Followed;

/// Time between two reads of a file that is followed.
const POLL: Duration = Duration::from_millis(200);

pub(super) fn run(args: &TailArgs, file: &Path, out: &mut Output<'_>) -> Outcome {
    let filter = Filter::new(&args.filter, now_ms())?;
    let failed = |error: io::Error| Failure::File(format!("{}: {error}", file.display()));
    let mut paths = files(file)?;
    let mut followed = match args.follow {
        true => Some(Followed::open(file).map_err(failed)?),
        false => None,
    };
    if followed.is_some() {
        paths.retain(|path| path != file);
    }
    let (mut read, mut last) = (Read::default(), VecDeque::new());
    let mut keep = |act, line: &str| {
        last.push_back((act, line.to_owned()));
        if last.len() > args.lines {
            last.pop_front();
        }
        Ok(())
    };
    for_each(&paths, &filter, &mut read, &mut keep)?;
    if let Some(followed) = &mut followed {
        for line in followed.read_more().map_err(failed)? {
            take(&line, &filter, &mut read, &mut keep)?;
        }
    }
    for (act, line) in last {
        show(&act, &line, out)?;
    }
    remark(&read, out)?;
    let Some(mut followed) = followed else { return Ok(0) };
    loop {
        out.flush()?;
        let lines = followed.read_more().map_err(failed)?;
        if lines.is_empty() {
            std::thread::sleep(POLL);
        }
        for line in lines {
            take(&line, &filter, &mut read, &mut |act, line: &str| show(&act, line, out))?;
        }
    }
}

fn show(act: &Act, line: &str, out: &mut Output<'_>) -> Result<(), Failure> {
    if out.json {
        return out.json_line(&escape::json(line));
    }
    let text = render(act, out.style);
    out.text(&text)
}

/// `2026-11-18 08:15:03  changed    uid 1000 pid 4242 #7  create-file  /srv/a  12B`
pub(super) fn render(act: &Act, style: Style) -> String {
    let time = style.paint(Paint::Dim, &utc_second(act.time_ms));
    let who = format!("uid {} pid {} #{}", act.uid, act.pid, act.connection);
    let mut line = format!(
        "{time}  {}  {}  {:11}  {}",
        word(act.outcome, 9, style),
        style.paint(Paint::Dim, &format!("{who:20}")),
        act.function,
        act.names()
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

pub(super) fn name_of(outcome: AuditOutcome) -> &'static str {
    match outcome {
        AuditOutcome::Changed => "changed",
        AuditOutcome::Unchanged => "unchanged",
        AuditOutcome::DryRun => "dry run",
        AuditOutcome::Refused => "refused",
        AuditOutcome::Read => "read",
    }
}

fn word(outcome: AuditOutcome, width: usize, style: Style) -> String {
    let padded = format!("{:width$}", name_of(outcome));
    match outcome {
        AuditOutcome::Changed => style.paint(Paint::Bold, &padded),
        AuditOutcome::Refused => style.paint(Paint::Bad, &padded),
        AuditOutcome::Unchanged | AuditOutcome::DryRun => style.paint(Paint::Dim, &padded),
        AuditOutcome::Read => padded,
    }
}
