//! The arguments of `policy`.

use std::{ffi::OsString, path::PathBuf};

use clap::Subcommand;

use super::DisplayOptions;

#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  stockade policy default > policy.toml
  stockade policy check /etc/stockade/policy.toml
  stockade policy explain /etc/stockade/policy.toml src/main.rs"
)]
pub(in super::super) struct PolicyArgs {
    #[command(subcommand)]
    pub(in super::super) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(in super::super) enum PolicyCommand {
    /// Say whether a policy is good, and what it means with every default filled in
    Check(PolicyCheckArgs),
    /// Print the default policy: every key with its value and its reason
    Default(PolicyDefaultArgs),
    /// Say which root, glob, rule or identity decides about a path, and why
    Explain(PolicyExplainArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A policy without a key has the default of that key.

Examples:
  stockade policy default > policy.toml
  stockade policy default | less")]
pub(in super::super) struct PolicyDefaultArgs {
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every mistake is reported, not only the first. Exit codes: 0 good · 1 wrong, or this machine lacks what it names · 2 usage

Examples:
  stockade policy check /etc/stockade/policy.toml
  stockade policy check --offline policy/agent-host.toml
  stockade policy check --json p.toml | jq .warnings")]
pub(in super::super) struct PolicyCheckArgs {
    /// The policy
    #[arg(value_name = "FILE")]
    pub(in super::super) file: PathBuf,
    /// Only the text: do not look for its roots and users on this machine
    #[arg(long)]
    pub(in super::super) offline: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The path need not exist. Nothing is asked of a running service: its socket's own folder is not known here.

Exit codes: 0 explained · 1 the policy is wrong, or this machine lacks what it names · 2 usage

Examples:
  stockade policy explain p.toml src/main.rs
  stockade policy explain p.toml /srv/project/.env
  stockade policy explain --as reviewer p.toml docs/new.md")]
pub(in super::super) struct PolicyExplainArgs {
    /// The policy
    #[arg(value_name = "FILE")]
    pub(in super::super) file: PathBuf,
    /// A path as a client would send it: relative to the primary root, or absolute
    #[arg(value_name = "PATH")]
    pub(in super::super) path: OsString,
    /// Only for this user, by name or number, instead of for every [[peer]]
    #[arg(long = "as", value_name = "USER")]
    pub(in super::super) who: Option<String>,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}
