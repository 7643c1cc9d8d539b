//! The arguments of `search` and `find`. Their short options mean what ripgrep and fd mean by them; one that could only mean
//! something else does not exist.

use std::ffi::OsString;

use clap::ValueEnum;

use super::{ClientOptions, DisplayOptions};
use crate::frontends::cli::units::{TimeBound, parse_age, parse_size};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
PATTERN is a Rust regex; what cannot be one, such as `foo(`, is taken literally. Ignore files are obeyed, hidden files are \
searched, links are never followed. A glob without a slash matches names at any depth, one with a slash paths from here on. \
Exit code 1 if nothing was found.

Examples:
  stockade search 'fn main'
  stockade search -iw todo src docs/notes.md
  stockade search -F 'a.b(' -g '*.rs' -g '!generated/**' -C 2
  stockade search -t rust -o 'unsafe \\w+' src
  stockade search -l0 unsafe | xargs -0 wc -l")]
pub(in super::super) struct SearchArgs {
    /// What to look for
    #[arg(required_unless_present = "patterns")]
    pub(in super::super) pattern: Option<OsString>,
    /// Folders, files or globs; default the folder that relative paths begin at
    #[arg(value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Look for this instead of the first argument; repeatable, for one of several
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true, help_heading = "Matching")]
    pub(in super::super) patterns: Vec<String>,
    /// Take PATTERN literally
    #[arg(short = 'F', long, help_heading = "Matching")]
    pub(in super::super) fixed_strings: bool,
    /// Upper and lower case are the same
    #[arg(short, long, help_heading = "Matching")]
    pub(in super::super) ignore_case: bool,
    /// The same, unless PATTERN has an upper-case letter
    #[arg(short = 'S', long, help_heading = "Matching")]
    pub(in super::super) smart_case: bool,
    /// Only whole words
    #[arg(short, long, alias = "word-regexp", help_heading = "Matching")]
    pub(in super::super) word: bool,
    /// Lines that do not match
    #[arg(short = 'v', long, alias = "invert-match", conflicts_with_all = ["multiline", "only_matching"], help_heading = "Matching")]
    pub(in super::super) invert: bool,
    /// Let matches span lines
    #[arg(short = 'U', long, help_heading = "Matching")]
    pub(in super::super) multiline: bool,
    /// Only files whose path matches; with ! in front, all others. Repeatable
    #[arg(short, long, value_name = "GLOB", help_heading = "Selection")]
    pub(in super::super) glob: Vec<String>,
    /// Only files of this type, such as rust or py; repeatable
    #[arg(short = 't', long = "type", value_name = "TYPE", help_heading = "Selection")]
    pub(in super::super) types: Vec<String>,
    /// No files of this type; repeatable
    #[arg(short = 'T', long = "type-not", value_name = "TYPE", help_heading = "Selection")]
    pub(in super::super) types_not: Vec<String>,
    /// Also what ignore files name
    #[arg(long, help_heading = "Selection")]
    pub(in super::super) no_ignore: bool,
    /// Also what is left out by default, such as .git and node_modules
    #[arg(long, help_heading = "Selection")]
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
    /// Only the matches themselves, each on a line
    #[arg(
        short = 'o',
        long,
        conflicts_with_all = ["context", "before_context", "after_context"],
        help_heading = "Output"
    )]
    pub(in super::super) only_matching: bool,
    /// Only the names of files that match
    #[arg(short = 'l', long, conflicts_with = "count", help_heading = "Output")]
    pub(in super::super) files_with_matches: bool,
    /// Only how many lines of each file match
    #[arg(short, long, help_heading = "Output")]
    pub(in super::super) count: bool,
    /// With -l: end each name with a NUL, and escape nothing in it
    #[arg(short = '0', long, requires = "files_with_matches", help_heading = "Output")]
    pub(in super::super) null: bool,
    /// Show the number of each line, the default
    #[arg(short = 'n', long, overrides_with = "no_line_number", hide = true)]
    line_number: bool,
    /// Show no line numbers; a later -n shows them
    #[arg(short = 'N', long, overrides_with = "line_number", help_heading = "Output")]
    pub(in super::super) no_line_number: bool,
    /// Show the name of each file, the default
    #[arg(short = 'H', long, overrides_with = "no_filename", hide = true)]
    with_filename: bool,
    /// Show no names of files; a later -H shows them
    #[arg(
        short = 'I',
        long,
        overrides_with = "with_filename",
        conflicts_with = "files_with_matches",
        help_heading = "Output"
    )]
    pub(in super::super) no_filename: bool,
    /// Print nothing; the exit code says whether anything was found
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub(in super::super) quiet: bool,
    /// Files by path, or newest first
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        value_name = "path|mtime",
        help_heading = "Output"
    )]
    pub(in super::super) sort: SortOrder,
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
    #[value(aliases = ["d", "directory"])]
    Dir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in super::super) enum SortOrder {
    #[default]
    Path,
    /// Newest first
    Mtime,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A glob without a folder matches at any depth (*.rs), one with a folder only there (src/*.rs); ** crosses folders. Quote \
globs, or the shell expands them. Ignore files are obeyed, links are shown and never followed. Exit code 1 if nothing was found.

Examples:
  stockade find '*.rs'
  stockade find src 'docs/**/*.md' --type file
  stockade find -e rs -e toml -d 2 --min-size 10k
  stockade find --sort mtime --changed-within 2d --limit 20
  stockade find -0 '*.log' | xargs -0 wc -c")]
pub(in super::super) struct FindArgs {
    /// Globs, folders or files; default the folder that relative paths begin at
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
    /// Only names with this extension, below the folders named; repeatable
    #[arg(short = 'e', long = "extension", value_name = "EXT", help_heading = "Selection")]
    pub(in super::super) extensions: Vec<String>,
    /// At most N levels below a folder named, or below the shell's folder
    #[arg(short = 'd', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Selection")]
    pub(in super::super) max_depth: Option<u32>,
    /// Also names that begin with a dot, the default
    #[arg(short = 'H', long, overrides_with = "no_hidden", hide = true)]
    hidden: bool,
    /// Leave out names that begin with a dot; a later -H shows them
    #[arg(long, overrides_with = "hidden", help_heading = "Selection")]
    pub(in super::super) no_hidden: bool,
    /// Also what ignore files name
    #[arg(short = 'I', long, help_heading = "Selection")]
    pub(in super::super) no_ignore: bool,
    /// Also what is left out by default, such as node_modules
    #[arg(long, help_heading = "Selection")]
    pub(in super::super) all: bool,
    /// Only files of at least this size: 512, 10k, 2M (K, M, G, T are powers of 1024)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Selection")]
    pub(in super::super) min_size: Option<u64>,
    /// Only files of at most this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Selection")]
    pub(in super::super) max_size: Option<u64>,
    /// Only what was changed within this time, such as 30s, 15m, 1h, 2d, 1w, or since a date such as 2026-11-18
    #[arg(long, value_name = "TIME", value_parser = parse_age, help_heading = "Selection")]
    pub(in super::super) changed_within: Option<TimeBound>,
    /// Only what was not
    #[arg(long, value_name = "TIME", value_parser = parse_age, help_heading = "Selection")]
    pub(in super::super) changed_before: Option<TimeBound>,
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
    pub(in super::super) sort: SortOrder,
    /// At most N entries
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub(in super::super) limit: Option<u64>,
    /// With kind, size and time (UTC)
    #[arg(short, long, help_heading = "Output")]
    pub(in super::super) long: bool,
    /// Absolute paths
    #[arg(short, long, help_heading = "Output")]
    pub(in super::super) absolute_path: bool,
    /// End each path with a NUL, and escape and mark nothing in it
    #[arg(short = '0', long, conflicts_with = "long", help_heading = "Output")]
    pub(in super::super) print0: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}
