//! The arguments of the commands that change files, but for `edit`.

use std::{ffi::OsString, path::PathBuf};

use super::{ClientOptions, DisplayOptions};

/// What holds for a whole change, however many names it has.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Safety")]
pub(in super::super) struct BatchOptions {
    /// Change nothing, show what would happen
    #[arg(short = 'n', long)]
    pub(in super::super) dry_run: bool,
    /// All names or none: what fails undoes the others
    #[arg(long)]
    pub(in super::super) atomic: bool,
    /// Relative paths begin at DIR, and nothing outside it is touched
    #[arg(long, value_name = "DIR")]
    pub(in super::super) base_dir: Option<String>,
}

/// The version a single file must still have.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Safety")]
pub(in super::super) struct VersionOptions {
    /// Only if the file still has this version, as `stat --etag` shows it
    #[arg(long, value_name = "ETAG")]
    pub(in super::super) if_match: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file appears whole or not at all. Content is standard input unless --content or --from gives it; any bytes will do. \
Missing folders are made.

Examples:
  stockade create notes.md --content '# notes'
  generate | stockade create build/report.txt --force
  stockade create bin/run --from run.sh --mode 0755")]
pub(in super::super) struct CreateArgs {
    /// The new file; several get the same content
    #[arg(required = true, value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// This text, as one or more whole lines
    #[arg(
        short,
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "from",
        help_heading = "Content"
    )]
    pub(in super::super) content: Option<String>,
    /// The bytes of a file of yours, or - for standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Content")]
    pub(in super::super) from: Option<PathBuf>,
    /// Replace a file that exists; it keeps its mode and owner
    #[arg(short, long)]
    pub(in super::super) force: bool,
    /// Permissions in octal [default: 0644, or those of the file that is replaced]
    #[arg(long, value_name = "MODE")]
    pub(in super::super) mode: Option<String>,
    /// Do not make missing folders
    #[arg(long)]
    pub(in super::super) no_parents: bool,
    #[command(flatten)]
    pub(in super::super) version: VersionOptions,
    #[command(flatten)]
    pub(in super::super) batch: BatchOptions,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A link is removed itself, never what it points to. A name that is not there is no failure.

Examples:
  stockade rm notes.md
  stockade rm -r build dist
  stockade rm -n -r build
  stockade rm --trash -r old && stockade restore")]
pub(in super::super) struct RmArgs {
    /// Files, links and folders
    #[arg(required = true, value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Folders with all they hold
    #[arg(short, long)]
    pub(in super::super) recursive: bool,
    /// Keep it for `stockade restore`
    #[arg(long, conflicts_with = "no_trash")]
    pub(in super::super) trash: bool,
    /// For good, even where the policy's default is the trash
    #[arg(long)]
    pub(in super::super) no_trash: bool,
    #[command(flatten)]
    pub(in super::super) version: VersionOptions,
    #[command(flatten)]
    pub(in super::super) batch: BatchOptions,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

/// From where to where, for `mv` and `cp`.
#[derive(Debug, clap::Args)]
pub(in super::super) struct FromToArgs {
    /// What to take, and last where to: a new name, or a folder to put it into
    #[arg(required = true, num_args = 2.., value_names = ["FROM", "TO"])]
    pub(in super::super) paths: Vec<OsString>,
    /// Replace a file that exists
    #[arg(short, long)]
    pub(in super::super) force: bool,
    /// TO is the new name itself, also where a folder is
    #[arg(short = 'T', long)]
    pub(in super::super) no_target_directory: bool,
    /// Do not make missing folders
    #[arg(long)]
    pub(in super::super) no_parents: bool,
    #[command(flatten)]
    pub(in super::super) version: VersionOptions,
    #[command(flatten)]
    pub(in super::super) batch: BatchOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A link is moved itself. Folders stay in their root, files may move to another one. Missing folders are made.

Examples:
  stockade mv notes.md docs/notes.md
  stockade mv a.rs b.rs src/
  stockade mv --force draft.md README.md")]
pub(in super::super) struct MvArgs {
    #[command(flatten)]
    pub(in super::super) names: FromToArgs,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A folder appears whole or not at all. The copy has the mode of the original. Missing folders are made.

Examples:
  stockade cp policy.toml policy.toml.old
  stockade cp -r template project
  stockade cp --force a.txt b.txt backup/")]
pub(in super::super) struct CpArgs {
    #[command(flatten)]
    pub(in super::super) names: FromToArgs,
    /// Folders with all they hold
    #[arg(short, long)]
    pub(in super::super) recursive: bool,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A folder that exists is no failure. Missing folders above are made.

Examples:
  stockade mkdir src/parser
  stockade mkdir --mode 0700 private")]
pub(in super::super) struct MkdirArgs {
    /// The folders
    #[arg(required = true, value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    /// Permissions in octal [default: 0755]
    #[arg(long, value_name = "MODE")]
    pub(in super::super) mode: Option<String>,
    /// Do not make missing folders above
    #[arg(long)]
    pub(in super::super) no_parents: bool,
    #[command(flatten)]
    pub(in super::super) batch: BatchOptions,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an ID it lists what `rm --trash` put away, the newest first: id, time (UTC), kind, size, path. A thing goes back to \
where it was.

Examples:
  stockade restore
  stockade restore --below src
  stockade restore 019a8b2c4d5")]
pub(in super::super) struct RestoreArgs {
    /// What to bring back, by the id that the list shows; its beginning is enough
    #[arg(value_name = "ID")]
    pub(in super::super) ids: Vec<String>,
    /// List only what was removed at or below PATH
    #[arg(long, value_name = "PATH", conflicts_with = "ids")]
    pub(in super::super) below: Option<OsString>,
    /// Replace what is there by now
    #[arg(short, long, requires = "ids")]
    pub(in super::super) force: bool,
    /// Change nothing, show what would happen
    #[arg(short = 'n', long, requires = "ids")]
    pub(in super::super) dry_run: bool,
    /// PATH begins at DIR and stays inside; only what was inside comes back
    #[arg(long, value_name = "DIR")]
    pub(in super::super) base_dir: Option<String>,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}
