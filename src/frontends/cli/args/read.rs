//! The arguments of the commands that read files and folders, but for `search` and `find`.

use std::ffi::OsString;

use clap::ArgAction;

use super::{ClientOptions, DisplayOptions};
use crate::frontends::cli::units::{ByteRange, LineRange, parse_byte_range, parse_line_range};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stockade read src/main.rs
  stockade read -n --lines 10:40 src/main.rs     lines 10 to 40, numbered
  stockade read --bytes 0:512 image.png | xxd    the first 512 bytes, exact
  stockade read --tail 20 log/a.log log/b.log")]
pub(in super::super) struct ReadArgs {
    /// Files, relative to the primary root or absolute inside any root
    #[arg(required = true, value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Only lines A to B, counted from 1; A:, :B and a single N work too
    #[arg(long, value_name = "A:B", value_parser = parse_line_range, group = "window", help_heading = "Selection")]
    pub(in super::super) lines: Option<LineRange>,
    /// Only the last N lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), group = "window", help_heading = "Selection")]
    pub(in super::super) tail: Option<u64>,
    /// Only bytes from A up to but not including B, counted from 0
    #[arg(long, value_name = "A:B", value_parser = parse_byte_range, group = "window", help_heading = "Selection")]
    pub(in super::super) bytes: Option<ByteRange>,
    /// At most the first N bytes of each file
    #[arg(long, value_name = "N", conflicts_with_all = ["window", "number", "stat"], help_heading = "Selection")]
    pub(in super::super) max_bytes: Option<u64>,
    /// Size, lines, mode and time instead of content
    #[arg(long, conflicts_with_all = ["window", "number", "base64"], help_heading = "Selection")]
    pub(in super::super) stat: bool,
    /// Put its number before each line
    #[arg(short, long, conflicts_with_all = ["bytes", "base64"], help_heading = "Output")]
    pub(in super::super) number: bool,
    /// Print the bytes as base64
    #[arg(long, help_heading = "Output")]
    pub(in super::super) base64: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(
    // -h is the size option people know from ls.
    disable_help_flag = true,
    after_help = "\
Marks: / folder, @ link. Denied names and mount points are listed, never opened.

Examples:
  stockade ls
  stockade ls -lah src docs
  stockade ls --json . | jq '.entries[].name'"
)]
pub(in super::super) struct LsArgs {
    /// Folders and files; default the folder that relative paths begin at
    #[arg(value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Also names that begin with a dot, which are listed without it as well
    #[arg(short, long)]
    pub(in super::super) all: bool,
    /// One entry per line with kind, size, time (UTC) and marks
    #[arg(short, long)]
    pub(in super::super) long: bool,
    /// Sizes as 1.5K, 20M (with -l)
    #[arg(short, long)]
    pub(in super::super) human: bool,
    /// One name per line, also on a terminal
    #[arg(short = '1')]
    pub(in super::super) one_per_line: bool,
    /// Folders themselves, not what is in them
    #[arg(short, long)]
    pub(in super::super) directory: bool,
    /// Newest first
    #[arg(short = 't', overrides_with = "by_size", help_heading = "Order")]
    pub(in super::super) by_time: bool,
    /// Largest first
    #[arg(short = 'S', overrides_with = "by_time", help_heading = "Order")]
    pub(in super::super) by_size: bool,
    /// The other way round
    #[arg(short, long, help_heading = "Order")]
    pub(in super::super) reverse: bool,
    /// Only page N, counted from 1, instead of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in super::super) page: Option<u32>,
    /// Entries of a page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in super::super) page_size: Option<u32>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

impl LsArgs {
    /// True if all entries have to arrive before the first can be shown.
    pub(in super::super) fn is_sorted(&self) -> bool {
        self.by_time || self.by_size || self.reverse
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Marks: / folder, @ link (never followed). What was left out is noted in brackets, with the way to see it.

Examples:
  stockade tree
  stockade tree -L 2 src
  stockade tree --all --limit 500 node_modules/left-pad")]
pub(in super::super) struct TreeArgs {
    /// The folder
    #[arg(default_value = ".", hide_default_value = true, value_name = "PATH")]
    pub(in super::super) path: OsString,
    /// Levels below the folder [default: the policy's, usually 4]
    #[arg(short = 'L', long = "depth", value_name = "LEVELS")]
    pub(in super::super) depth: Option<u32>,
    /// Also what is left out by default, such as .git and node_modules
    #[arg(short, long)]
    pub(in super::super) all: bool,
    /// Also what ignore files name
    #[arg(long)]
    pub(in super::super) no_ignore: bool,
    /// Entries shown of each folder [default: the policy's, usually 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in super::super) limit: Option<u32>,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A link is described itself, with where it points; it is never followed.

Examples:
  stockade stat src README.md
  stockade stat --etag --lines src/main.rs
  stockade stat --json a b | jq '.results[].size'")]
pub(in super::super) struct StatArgs {
    /// Names, relative to the primary root or absolute inside any root
    #[arg(required = true, value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Also the version of each file, which reads it whole
    #[arg(long)]
    pub(in super::super) etag: bool,
    /// Also the lines of each file and whether it is UTF-8, which reads it whole
    #[arg(long)]
    pub(in super::super) lines: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}
