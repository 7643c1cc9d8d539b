//! The arguments as typed. What they mean is decided by each command.

mod audit;
mod change;
mod edit;
mod help;
mod mcp;
mod policy;
mod read;
mod search;
mod tools;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum, ValueHint};

use self::tools::FunctionName;
pub(super) use self::{
    audit::{AuditArgs, AuditCommand, AuditFilter, AuditOutcome, AuditSource, ReportArgs, TailArgs},
    change::{BatchOptions, CpArgs, CreateArgs, FromToArgs, MkdirArgs, MvArgs, RestoreArgs, RmArgs, VersionOptions},
    edit::{EditArgs, EditOp},
    help::{command, command_accepts, parse},
    mcp::{McpArgs, McpCommand, McpInstallArgs, McpServerArgs},
    policy::{PolicyArgs, PolicyCheckArgs, PolicyCommand, PolicyExplainArgs},
    read::{LsArgs, ReadArgs, StatArgs, TreeArgs},
    search::{CliFindType, FindArgs, SearchArgs, SortOrder},
    tools::{BriefArgs, CompletionsArgs, ManArgs, Shell},
};
use super::super::endpoint::supervisor_arguments;
use super::units::{LineRange, parse_duration, parse_line_range};

#[derive(Debug, Parser)]
#[command(
    name = "stockade",
    version,
    about = "Read, search and change files through a jail that the kernel holds",
    max_term_width = 100
)]
pub(super) struct CliArgs {
    #[command(subcommand)]
    pub(super) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Print files, or windows of them, byte for byte
    #[command(alias = "cat")]
    Read(ReadArgs),
    /// List folders
    Ls(LsArgs),
    /// Draw a folder with its subfolders
    Tree(TreeArgs),
    /// Describe files, folders and links without reading them
    Stat(StatArgs),
    /// Search files for a pattern
    #[command(alias = "grep")]
    Search(SearchArgs),
    /// Find files and folders by name
    Find(FindArgs),
    /// Make a file, whole or not at all
    #[command(alias = "write")]
    Create(CreateArgs),
    /// Change lines or text of files; every other byte stays
    Edit(EditArgs),
    /// Remove files, links and folders, for good or into the trash
    Rm(RmArgs),
    /// Move or rename files and folders
    Mv(MvArgs),
    /// Copy files and folders
    Cp(CpArgs),
    /// Make folders
    Mkdir(MkdirArgs),
    /// List the trash, or bring back what is in it
    Restore(RestoreArgs),
    /// Show the roots, how they are confined, and every limit
    Info(InfoArgs),
    /// Send one raw call and print its JSON
    Call(CallArgs),
    /// Print every function with its request and response schema
    Schema(SchemaArgs),
    /// Print one document about all of this, for a prompt
    Brief(BriefArgs),
    /// Print what a shell needs to complete these commands
    Completions(CompletionsArgs),
    /// Print the manual page of a command, or write all of them
    Man(ManArgs),
    /// Show what this kernel enforces, then try to escape
    Check(CheckArgs),
    /// Check a policy file, or explain what it decides about a path
    Policy(PolicyArgs),
    /// Show the audit: what was read, changed and refused
    Audit(AuditArgs),
    /// Serve an agent host: MCP over standard input and output
    Mcp(McpArgs),
    /// Run the service in the foreground (becomes stockaded)
    Serve(ServeArgs),
}

impl CliCommand {
    pub(super) fn display(&self) -> DisplayOptions {
        match self {
            Self::Read(args) => args.display,
            Self::Ls(args) => args.display,
            Self::Tree(args) => args.display,
            Self::Stat(args) => args.display,
            Self::Search(args) => args.display,
            Self::Find(args) => args.display,
            Self::Create(args) => args.display,
            Self::Edit(args) => args.display,
            Self::Rm(args) => args.display,
            Self::Mv(args) => args.display,
            Self::Cp(args) => args.display,
            Self::Mkdir(args) => args.display,
            Self::Restore(args) => args.display,
            Self::Info(args) => args.display,
            Self::Check(args) => args.display,
            // Raw by nature: its errors are JSON, too.
            Self::Call(args) => DisplayOptions { json: true, ..args.display },
            Self::Schema(args) => args.display,
            Self::Policy(args) => match &args.command {
                PolicyCommand::Check(args) => args.display,
                PolicyCommand::Default(args) => args.display,
                PolicyCommand::Explain(args) => args.display,
            },
            Self::Audit(args) => match &args.command {
                AuditCommand::Tail(args) => args.display,
                AuditCommand::Report(args) => args.display,
            },
            Self::Brief(args) => args.display,
            Self::Completions(args) => args.display,
            Self::Man(args) => args.display,
            Self::Mcp(args) => match &args.command {
                Some(McpCommand::Install(args)) => args.server.display,
                None => args.server.display,
            },
            Self::Serve(_) => DisplayOptions::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct DisplayOptions {
    /// Print the result as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Colour: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(super) color: Color,
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Service")]
pub(super) struct SupervisorOptions {
    /// Serve DIR (append :ro or :rw) for this one command; repeatable
    #[arg(long, value_name = "DIR[:ro|:rw]", value_hint = ValueHint::DirPath)]
    pub(super) root: Vec<OsString>,
    /// Serve what the policy FILE allows, for this one command
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) policy: Option<OsString>,
    /// Also protect names that match GLOB (with --root); repeatable
    #[arg(long, value_name = "GLOB", requires = "root", conflicts_with = "policy")]
    protect: Vec<String>,
    /// Do not protect names that match GLOB (with --root); repeatable
    #[arg(long, value_name = "GLOB", requires = "root", conflicts_with = "policy")]
    unprotect: Vec<String>,
    /// No default list of protected names (with --root)
    #[arg(long, requires = "root", conflicts_with = "policy")]
    no_protect: bool,
    /// Also deny names that match GLOB (with --root); repeatable
    #[arg(long, value_name = "GLOB", requires = "root", conflicts_with = "policy")]
    deny: Vec<String>,
    /// Whether links that stay in their root are followed (with --root)
    #[arg(long, value_name = "refuse|beneath", value_parser = ["refuse", "beneath"], hide_possible_values = true, requires = "root", conflicts_with = "policy")]
    symlinks: Option<String>,
}

impl SupervisorOptions {
    /// The options as arguments of a private supervisor; empty if no option needs one.
    pub(super) fn to_arguments(&self) -> Vec<OsString> {
        supervisor_arguments(&self.root, self.policy.as_deref(), self.to_rule_arguments())
    }

    /// Only the options that change the rules of the roots, as command-line arguments.
    pub(super) fn to_rule_arguments(&self) -> Vec<String> {
        let pair = |option: &str, glob: &String| [option.to_owned(), glob.clone()];
        let protect = self.protect.iter().flat_map(|glob| pair("--protect", glob));
        let unprotect = self.unprotect.iter().flat_map(|glob| pair("--unprotect", glob));
        let none = self.no_protect.then(|| "--no-protect".to_owned());
        let deny = self.deny.iter().flat_map(|glob| pair("--deny", glob));
        let symlinks = self.symlinks.iter().flat_map(|rule| pair("--symlinks", rule));
        protect.chain(unprotect).chain(none).chain(deny).chain(symlinks).collect()
    }
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Service")]
pub(super) struct ClientOptions {
    /// Connect to this socket [default: $STOCKADE_SOCKET, $XDG_RUNTIME_DIR/stockade.sock, /run/stockade/stockade.sock]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["root", "policy", "protect", "unprotect", "no_protect", "deny", "symlinks"])]
    pub(super) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(super) supervisor: SupervisorOptions,
    /// With --root: append the audit to FILE, or write none (off) [default: ~/.local/state/stockade/audit.jsonl]
    #[arg(long, value_name = "FILE|off", value_hint = ValueHint::FilePath, requires = "root", conflicts_with = "policy")]
    pub(super) audit: Option<OsString>,
    /// Give each call this long: 500ms, 30s, 2m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) timeout: Option<Duration>,
}

impl ClientOptions {
    /// The options as arguments of a private supervisor; empty if no option needs one.
    pub(super) fn to_supervisor_arguments(&self) -> Vec<OsString> {
        let audit = self.audit.iter().flat_map(|audit| ["--audit".into(), audit.clone()]);
        self.supervisor.to_arguments().into_iter().chain(audit).collect()
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stockade info
  stockade info --root .
  stockade info --json | jq .confinement")]
pub(super) struct InfoArgs {
    #[command(flatten)]
    pub(super) display: DisplayOptions,
    #[command(flatten)]
    pub(super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The result goes to standard output, an error object to standard error with exit code 1. At a terminal the result is \
indented; --json leaves it as it came.

Examples:
  stockade call coder::info
  stockade call coder::read-file '{\"path\": \"README.md\", \"line_to\": 20}'
  stockade call coder::read-file @request.json
  generate-request | stockade call coder::read-file -")]
pub(super) struct CallArgs {
    /// The function, as `stockade schema` names it
    #[arg(value_parser = FunctionName, hide_possible_values = true)]
    pub(super) function: String,
    /// The request object: JSON text, @FILE, or - for standard input
    #[arg(default_value = "{}", hide_default_value = true, value_name = "JSON|@FILE|-")]
    pub(super) request: OsString,
    #[command(flatten)]
    pub(super) display: DisplayOptions,
    #[command(flatten)]
    pub(super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
At a terminal the schemas are indented; --json prints them on one line.

Examples:
  stockade schema
  stockade schema coder::read-file | jq .request_schema")]
pub(super) struct SchemaArgs {
    /// Only this function
    #[arg(value_parser = FunctionName, hide_possible_values = true)]
    pub(super) function: Option<String>,
    #[command(flatten)]
    pub(super) display: DisplayOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line is a real attempt made from inside a confined worker. Exit code 0 only if every one was stopped.

Examples:
  stockade check
  stockade check --policy /etc/stockade/policy.toml")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) supervisor: SupervisorOptions,
    #[command(flatten)]
    pub(super) display: DisplayOptions,
}

#[derive(Debug, clap::Args)]
// Everything, --help included, is for stockaded.
#[command(disable_help_flag = true)]
pub(super) struct ServeArgs {
    /// Arguments of stockaded, such as --root DIR or --policy FILE
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(super) args: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<CliCommand, ErrorKind> {
        CliArgs::try_parse_from(line.split(' ')).map(|args| args.command).map_err(|error| error.kind())
    }

    #[test]
    fn definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn socket_with_root_or_policy_is_a_usage_error() {
        for other in ["--root .", "--policy p.toml"] {
            let line = format!("stockade info --socket /s {other}");
            assert_eq!(parse(&line).unwrap_err(), ErrorKind::ArgumentConflict, "{line}");
        }
    }

    #[test]
    fn roots_repeat_and_keep_their_suffix() {
        let Ok(CliCommand::Info(args)) = parse("stockade info --root a:ro --root b:rw") else { panic!() };
        assert_eq!(args.client.supervisor.root, ["a:ro", "b:rw"]);
    }

    #[test]
    fn protection_goes_to_a_supervisor_of_our_own_and_to_no_other() {
        let line = "stockade info --root a --protect x/** --unprotect y --no-protect --protect z";
        let Ok(CliCommand::Info(args)) = parse(line) else { panic!() };
        let expected = "--root a --protect x/** --protect z --unprotect y --no-protect";
        assert_eq!(args.client.supervisor.to_arguments(), expected.split(' ').collect::<Vec<_>>());
        for option in ["--protect x", "--unprotect x", "--no-protect"] {
            for place in ["--socket /s", "--policy p", "--root a --policy p", ""] {
                let line = format!("stockade info {place} {option}");
                assert!(parse(line.trim()).is_err(), "{line}");
            }
        }
    }

    #[test]
    fn windows_of_a_read_exclude_each_other() {
        for line in [
            "stockade read f --lines 1:2 --tail 3",
            "stockade read f --bytes 1:2 --tail 3",
            "stockade read f --stat --lines 1:2",
            "stockade read f --number --base64",
            "stockade read f --max-bytes 4 --tail 1",
        ] {
            assert_eq!(parse(line).unwrap_err(), ErrorKind::ArgumentConflict, "{line}");
        }
        assert_eq!(parse("stockade read").unwrap_err(), ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn serve_passes_every_argument_on() {
        let Ok(CliCommand::Serve(args)) = parse("stockade serve --root . --help -- x") else { panic!() };
        assert_eq!(args.args, ["--root", ".", "--help", "--", "x"]);
    }

    #[test]
    fn tree_takes_its_depth_as_people_know_it() {
        let Ok(CliCommand::Tree(args)) = parse("stockade tree -L 2 --all --limit 9 src") else { panic!() };
        assert_eq!((args.depth, args.limit, args.all, args.path), (Some(2), Some(9), true, "src".into()));
        assert_eq!(parse("stockade tree --limit 0").unwrap_err(), ErrorKind::ValueValidation);
        assert_eq!(parse("stockade stat").unwrap_err(), ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn short_h_of_ls_means_human_sizes() {
        let Ok(CliCommand::Ls(args)) = parse("stockade ls -lh src") else { panic!() };
        assert!(args.human && args.long);
        assert_eq!(parse("stockade ls --help").unwrap_err(), ErrorKind::DisplayHelp);
    }
}
