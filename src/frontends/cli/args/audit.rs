//! The arguments of `audit`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum, ValueHint};

use super::{
    super::units::{TimeBound, parse_time_bound},
    DisplayOptions,
};

#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  stockade audit tail
  stockade audit report --since 1d --path src"
)]
pub(in super::super) struct AuditArgs {
    #[command(subcommand)]
    pub(in super::super) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(in super::super) enum AuditCommand {
    /// Show the last reads, changes and refusals, and with --follow those to come
    Tail(TailArgs),
    /// Sum up what was read, changed and refused, name by name
    Report(ReportArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are UTC. `#7` is the number of the connection.

Examples:
  stockade audit tail -n 50
  stockade audit tail --follow --outcome refused
  stockade audit tail --json --since 1h | jq .reported_path")]
pub(in super::super) struct TailArgs {
    #[command(flatten)]
    pub(in super::super) source: AuditSource,
    /// Show the last N records
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(in super::super) lines: usize,
    /// Keep running and show new records as they are written, also after a rotation
    #[arg(short, long)]
    pub(in super::super) follow: bool,
    #[command(flatten)]
    pub(in super::super) filter: AuditFilter,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Changes and most refusals are as the worker reported them. Reads are the files and folders that the supervisor granted a worker to read.

Examples:
  stockade audit report
  stockade audit report --since 2d --outcome changed
  stockade audit report --policy /etc/stockade/policy.toml --uid 1000")]
pub(in super::super) struct ReportArgs {
    #[command(flatten)]
    pub(in super::super) source: AuditSource,
    #[command(flatten)]
    pub(in super::super) filter: AuditFilter,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

#[derive(Debug, Default, clap::Args)]
pub(in super::super) struct AuditSource {
    /// Read this audit and its rotated files FILE.1, FILE.2 … [default: the audit of commands with --root]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "policy")]
    pub(in super::super) file: Option<PathBuf>,
    /// Read the audit that this policy names
    #[arg(long, value_name = "POLICY", value_hint = ValueHint::FilePath)]
    pub(in super::super) policy: Option<PathBuf>,
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Selection")]
pub(in super::super) struct AuditFilter {
    /// Only names at or below this path, or that match this glob
    #[arg(long, value_name = "PATH|GLOB", value_hint = ValueHint::AnyPath)]
    pub(in super::super) path: Option<String>,
    /// Only from this time on: an age such as 90s, 15m, 1h, 2d, or a date such as 2026-11-18 or 2026-11-18T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time_bound)]
    pub(in super::super) since: Option<TimeBound>,
    /// Only up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_time_bound)]
    pub(in super::super) until: Option<TimeBound>,
    /// Only records with this outcome; repeatable
    #[arg(long, value_enum, value_name = "OUTCOME")]
    pub(in super::super) outcome: Vec<AuditOutcome>,
    /// Only records of the user with this uid
    #[arg(long, value_name = "N")]
    pub(in super::super) uid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(in super::super) enum AuditOutcome {
    Changed,
    Unchanged,
    DryRun,
    Refused,
    Read,
}
