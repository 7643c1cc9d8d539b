//! The arguments of `search` and `find`.

use std::{ffi::OsString, time::Duration};

use clap::ValueEnum;

use super::{ClientOptions, DisplayOptions, parse_duration};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
PATTERN is a Rust regex; what cannot be one, such as `foo(`, is taken literally. Ignore files are obeyed, hidden files are \
searched, links are never followed. In a glob * crosses slashes.

Examples:
  stockade search 'fn main'
  stockade search -iw todo src docs/notes.md
  stockade search -F 'a.b(' -g '*.rs' -g '!**/generated/**' -C 2
  stockade search -l unsafe | xargs wc -l")]
pub(in super::super) struct SearchArgs {
    /// What to look for
    pub(in super::super) pattern: String,
    /// Folders, files or globs; default everything
    #[arg(value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Take PATTERN literally
    #[arg(short = 'F', long, help_heading = "Matching")]
    pub(in super::super) fixed_strings: bool,
    /// Upper and lower case are the same
    #[arg(short, long, help_heading = "Matching")]
    pub(in super::super) ignore_case: bool,
    /// Only whole words
    #[arg(short, long, help_heading = "Matching")]
    pub(in super::super) word: bool,
    /// Let matches span lines
    #[arg(short = 'U', long, help_heading = "Matching")]
    pub(in super::super) multiline: bool,
    /// Only files whose path matches; with ! in front, all others. Repeatable
    #[arg(short, long, value_name = "GLOB", help_heading = "Selection")]
    pub(in super::super) glob: Vec<String>,
    /// Also what ignore files name
    #[arg(long, help_heading = "Selection")]
    pub(in super::super) no_ignore: bool,
    /// Also what is left out by default, such as .git and node_modules
    #[arg(short, long, help_heading = "Selection")]
    pub(in super::super) all: bool,
    /// At most N matching lines of each file
    #[arg(short, long, value_name = "N", help_heading = "Selection")]
    pub(in super::super) max_count: Option<u32>,
    /// Show N lines before and after each match, at most 10
    #[arg(short = 'C', long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=10), help_heading = "Output")]
    pub(in super::super) context: Option<u32>,
    /// Show N lines before each match
    #[arg(short = 'B', long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=10), help_heading = "Output")]
    pub(in super::super) before_context: Option<u32>,
    /// Show N lines after each match
    #[arg(short = 'A', long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=10), help_heading = "Output")]
    pub(in super::super) after_context: Option<u32>,
    /// Only the names of files that match
    #[arg(short = 'l', long, conflicts_with = "count", help_heading = "Output")]
    pub(in super::super) files_with_matches: bool,
    /// Only how many lines of each file match
    #[arg(short, long, help_heading = "Output")]
    pub(in super::super) count: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum CliFindType {
    /// Regular files
    #[value(alias = "f")]
    File,
    /// Folders
    #[value(alias = "d")]
    Dir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in super::super) enum CliFindSort {
    #[default]
    Path,
    /// Newest first
    Mtime,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A glob without a folder matches at any depth (*.rs), one with a folder only there (src/*.rs); ** crosses folders. Quote \
globs, or the shell expands them. Ignore files are obeyed, links are shown and never followed.

Examples:
  stockade find '*.rs'
  stockade find src 'docs/**/*.md' --type file
  stockade find --sort mtime --changed-within 60m --limit 20")]
pub(in super::super) struct FindArgs {
    /// Globs, folders or files; default everything
    #[arg(value_name = "GLOB|PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Only files (f) or folders (d)
    #[arg(
        short = 't',
        long = "type",
        value_enum,
        hide_possible_values = true,
        value_name = "file|dir",
        help_heading = "Selection"
    )]
    pub(in super::super) kind: Option<CliFindType>,
    /// Leave out names that begin with a dot
    #[arg(long, help_heading = "Selection")]
    pub(in super::super) no_hidden: bool,
    /// Also what ignore files name
    #[arg(long, help_heading = "Selection")]
    pub(in super::super) no_ignore: bool,
    /// Also what is left out by default, such as node_modules
    #[arg(short, long, help_heading = "Selection")]
    pub(in super::super) all: bool,
    /// Only files of at least N bytes
    #[arg(long, value_name = "N", help_heading = "Selection")]
    pub(in super::super) min_size: Option<u64>,
    /// Only files of at most N bytes
    #[arg(long, value_name = "N", help_heading = "Selection")]
    pub(in super::super) max_size: Option<u64>,
    /// Only what was changed within this time: 30s, 60m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Selection")]
    pub(in super::super) changed_within: Option<Duration>,
    /// Only what was not
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Selection")]
    pub(in super::super) changed_before: Option<Duration>,
    /// By path, or newest first
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        value_name = "path|mtime",
        help_heading = "Output"
    )]
    pub(in super::super) sort: CliFindSort,
    /// At most N entries
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub(in super::super) limit: Option<u64>,
    /// With kind, size and time (UTC)
    #[arg(short, long, help_heading = "Output")]
    pub(in super::super) long: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}
