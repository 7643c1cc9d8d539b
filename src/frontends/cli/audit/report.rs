//! `stockade audit report`: lists what was changed, refused and read, one line for each name, and a summary.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::json;

use super::{
    super::{
        CommandResult,
        args::{AuditOutcome, ReportArgs},
        escape,
        output::{Output, OutputStyle, Paint},
        paths::display_path,
        units::{human_size, now_ms, utc_second},
    },
    AuditGaps, audit_files,
    event::CliAuditEvent,
    filter::AuditEventFilter,
    for_each_event, report_gaps,
    tail::outcome_name,
};

/// In the order of the sections.
const SECTION_ORDER: [AuditOutcome; 5] =
    [AuditOutcome::Changed, AuditOutcome::DryRun, AuditOutcome::Unchanged, AuditOutcome::Refused, AuditOutcome::Read];

/// Everything of one kind that happened to one name.
#[derive(Debug, Default)]
struct ReportLine {
    count: u64,
    functions: BTreeSet<String>,
    codes: BTreeSet<String>,
    uids: BTreeSet<u64>,
    bytes: u64,
    entries: u64,
    last_ms: i64,
}

#[derive(Debug, Default)]
struct AuditReport {
    lines: BTreeMap<(AuditOutcome, String), ReportLine>,
    /// By uid, pid and connection number, because each run of a service counts its connections from 1.
    connections: BTreeSet<(u64, i64, u64)>,
    time_ms: Option<(i64, i64)>,
}

pub(super) fn run(args: &ReportArgs, file: &Path, out: &mut Output<'_>) -> CommandResult {
    let filter = AuditEventFilter::new(&args.filter, now_ms())?;
    let (mut report, mut read) = (AuditReport::default(), AuditGaps::default());
    for_each_event(&audit_files(file)?, &filter, &mut read, &mut |act, _| {
        report.add(act);
        Ok(())
    })?;
    if out.json {
        return out.write_json_line(&escape::json(&report.to_json(file, &read).to_string())).map(|()| 0);
    }
    let text = report.render(file, out.style);
    out.write_text(&text)?;
    report_gaps(&read, out)?;
    Ok(0)
}

impl AuditReport {
    fn add(&mut self, act: CliAuditEvent) {
        self.connections.insert((act.uid, act.pid, act.connection));
        let (first, last) = self.time_ms.unwrap_or((act.time_ms, act.time_ms));
        self.time_ms = Some((first.min(act.time_ms), last.max(act.time_ms)));
        let line = self.lines.entry((act.outcome, act.display_names())).or_default();
        line.count += 1;
        line.functions.insert(act.function);
        line.codes.extend(act.code);
        line.uids.insert(act.uid);
        line.bytes = line.bytes.saturating_add(act.bytes.unwrap_or(0));
        line.entries = line.entries.saturating_add(act.entries.unwrap_or(0));
        line.last_ms = line.last_ms.max(act.time_ms);
    }

    fn lines_with(&self, outcome: AuditOutcome) -> impl Iterator<Item = (&str, &ReportLine)> {
        let lines = self.lines.iter().filter(move |((of, _), _)| *of == outcome);
        lines.map(|((_, name), line)| (name.as_str(), line))
    }

    fn count(&self, outcome: AuditOutcome) -> u64 {
        self.lines_with(outcome).map(|(_, line)| line.count).sum()
    }

    fn render(&self, file: &Path, style: OutputStyle) -> String {
        let mut text = format!("{}\n", style.paint(Paint::Bold, &display_path(file.as_os_str())));
        let Some((first, last)) = self.time_ms else {
            text.push_str("nothing was read, changed or refused\n");
            return text;
        };
        text.push_str(&style.paint(Paint::Dim, &format!("{} to {} UTC", utc_second(first), utc_second(last))));
        text.push('\n');
        for outcome in SECTION_ORDER {
            self.render_section(outcome, style, &mut text);
        }
        text.push_str(&format!("\n{}\n", self.render_totals()));
        text
    }

    fn render_section(&self, outcome: AuditOutcome, style: OutputStyle, text: &mut String) {
        let count = self.count(outcome);
        if count == 0 {
            return;
        }
        let name = outcome_name(outcome);
        let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        text.push_str(&format!("\n{}\n", style.paint(Paint::Bold, &title)));
        let times = |line: &ReportLine| if line.count == 1 { String::new() } else { format!("{}x", line.count) };
        let joined = |words: &BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join(", ");
        let users = |line: &ReportLine| {
            let uids: Vec<String> = line.uids.iter().map(u64::to_string).collect();
            format!("uid {}", uids.join(", "))
        };
        let widest = |text: &dyn Fn(&ReportLine) -> String| {
            self.lines_with(outcome).map(|(_, line)| text(line).len()).max().unwrap_or(0)
        };
        let columns = [widest(&times), widest(&|line| joined(&line.functions)), widest(&users)];
        for (name, line) in self.lines_with(outcome) {
            let mut details: Vec<String> = line.codes.iter().cloned().collect();
            details.extend((line.bytes > 0).then(|| format!("{}B", human_size(line.bytes))));
            details.extend((line.entries > 0).then(|| format!("{} below", line.entries)));
            let cells = [times(line), joined(&line.functions), users(line)];
            text.push_str(&format!("  {}", style.paint(Paint::Dim, &utc_second(line.last_ms))));
            for (cell, columns) in cells.iter().zip(columns).filter(|(_, columns)| *columns > 0) {
                text.push_str(&format!("  {cell:columns$}"));
            }
            text.push_str(&format!("  {name}"));
            if !details.is_empty() {
                text.push_str(&format!("  {}", style.paint(Paint::Dim, &details.join("  "))));
            }
            text.push('\n');
        }
    }

    /// `3 changed, 1 refused, 12 read; by 2 connections of uid 1000`
    fn render_totals(&self) -> String {
        let counts = SECTION_ORDER.into_iter().map(|outcome| (self.count(outcome), outcome_name(outcome)));
        let counts = counts.filter(|(count, _)| *count > 0).map(|(count, name)| match (count, name) {
            (2.., "dry run") => format!("{count} dry runs"),
            _ => format!("{count} {name}"),
        });
        let uids: BTreeSet<u64> = self.connections.iter().map(|(uid, ..)| *uid).collect();
        let uids: Vec<String> = uids.iter().map(|uid| format!("uid {uid}")).collect();
        let connections = match self.connections.len() {
            1 => "1 connection".to_owned(),
            several => format!("{several} connections"),
        };
        format!("{}; by {connections} of {}", counts.collect::<Vec<_>>().join(", "), uids.join(", "))
    }

    fn to_json(&self, file: &Path, read: &AuditGaps) -> serde_json::Value {
        let mut whole = json!({
            "file": file.to_string_lossy(),
            "from_ms": self.time_ms.map(|(first, _)| first),
            "to_ms": self.time_ms.map(|(_, last)| last),
            "connections": self.connections.len(),
            "damaged_lines": read.damaged_lines,
            "lost_records": read.lost_records,
        });
        for outcome in SECTION_ORDER {
            let lines = self.lines_with(outcome).map(|(name, line)| {
                json!({
                    "name": name,
                    "count": line.count,
                    "functions": line.functions,
                    "codes": line.codes,
                    "uids": line.uids,
                    "bytes": line.bytes,
                    "entries": line.entries,
                    "last_ms": line.last_ms,
                })
            });
            whole[outcome_name(outcome).replace(' ', "_")] = lines.collect();
        }
        whole
    }
}
