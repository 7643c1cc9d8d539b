//! The arguments of `edit`. Its operations are options whose order counts, which a derived struct would forget.

use std::ffi::OsString;

use clap::{
    Arg, ArgAction, ArgGroup, ArgMatches, Command, FromArgMatches,
    error::{Error, ErrorKind},
    value_parser,
};

use super::{ClientOptions, DisplayOptions, LineRange, change::BatchOptions, change::VersionOptions, parse_line_range};

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stockade edit [OPTIONS] <PATH>... <OPERATION>...",
    after_help = "\
Lines are those of the file as it is; all operations go in together, and every other byte stays. TEXT may be @FILE for a file \
of yours, - for standard input, or begin with @@ for a plain @. OLD and NEW are always literal; a replacement's $1 is the first group \
of the regex and $$ a dollar; (?i) ignores case, (?s) lets . match newlines.

Examples:
  stockade edit src/main.rs --replace 'let n = 1;' 'let n = 2;'
  stockade edit --dry-run notes.md --insert 2 'draft' --lines 3:3 '- ONE'
  stockade edit src/*.rs --regex '\\bfoo\\b' bar --expect 2 --atomic
  fortune | stockade edit notes.md --append -"
)]
pub(in super::super) struct EditArgs {
    /// The files; each gets all operations
    #[arg(required = true, value_name = "PATH")]
    pub(in super::super) paths: Vec<OsString>,
    #[command(flatten)]
    pub(in super::super) ops: EditOps,
    /// Show what changed
    #[arg(short, long)]
    pub(in super::super) diff: bool,
    /// White space around lines does not count where the text of --replace is not found otherwise
    #[arg(long)]
    pub(in super::super) ignore_whitespace: bool,
    /// Write text as it is, even if every line begins with a line number and an arrow
    #[arg(long)]
    pub(in super::super) verbatim: bool,
    /// Edit the bytes of a binary file
    #[arg(long)]
    pub(in super::super) binary: bool,
    #[command(flatten)]
    pub(in super::super) version: VersionOptions,
    #[command(flatten)]
    pub(in super::super) batch: BatchOptions,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
    #[command(flatten)]
    pub(in super::super) client: ClientOptions,
}

/// The operations in the order of the command line.
#[derive(Debug, Default)]
pub(in super::super) struct EditOps(pub(in super::super) Vec<EditOp>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum EditOp {
    Replace { old: String, new: String, expect: Option<u64> },
    Regex { pattern: String, replacement: String, expect: Option<u64> },
    Insert { at_line: u64, text: String },
    Lines { from: u64, to: u64, text: String },
    Remove { from: u64, to: u64 },
    Append(String),
    Prepend(String),
}

/// `(option, short, what its values are called, help)`.
const OPERATION_OPTIONS: [(&str, Option<char>, &[&str], &str); 7] = [
    ("replace", Some('r'), &["OLD", "NEW"], "Literal text that occurs exactly once"),
    ("regex", Some('e'), &["PATTERN", "REPLACEMENT"], "Every match of a Rust regex"),
    ("insert", Some('i'), &["LINE", "TEXT"], "Whole lines before LINE"),
    ("lines", Some('l'), &["A:B", "TEXT"], "Whole lines instead of lines A to B"),
    ("remove", None, &["A:B"], "Lines A to B"),
    ("append", Some('a'), &["TEXT"], "At the end"),
    ("prepend", Some('p'), &["TEXT"], "At the beginning"),
];
const EXPECT: &str = "expect";
/// Other options that may follow an operation whose text is missing. Taken as the text, their names would be written into the
/// file.
const OTHER_OPTIONS: [&str; 22] = [
    EXPECT,
    "ignore-whitespace",
    "verbatim",
    "binary",
    "dry-run",
    "diff",
    "if-match",
    "atomic",
    "base-dir",
    "json",
    "color",
    "socket",
    "root",
    "policy",
    "protect",
    "unprotect",
    "no-protect",
    "deny",
    "symlinks",
    "audit",
    "timeout",
    "help",
];
const HEADING: &str = "Operations";

impl clap::Args for EditOps {
    fn augment_args(command: Command) -> Command {
        let options = OPERATION_OPTIONS.map(|(name, short, values, help)| {
            let option = Arg::new(name)
                .long(name)
                .help(help)
                .help_heading(HEADING)
                .action(ArgAction::Append)
                .num_args(values.len())
                .value_names(values.iter().copied())
                // Text may begin with a dash, and in a list it often does.
                .allow_hyphen_values(true);
            short.into_iter().fold(option, Arg::short)
        });
        let expect = Arg::new(EXPECT)
            .long(EXPECT)
            .value_name("N")
            .help("The replacement before it must match exactly N times, else nothing is written")
            .help_heading(HEADING)
            .action(ArgAction::Append)
            .value_parser(value_parser!(u64));
        let names = OPERATION_OPTIONS.iter().map(|(name, ..)| *name);
        let group = ArgGroup::new("operations").args(names).required(true).multiple(true);
        command.args(options).arg(expect).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EditOps {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut placed: Vec<(usize, EditOp)> = Vec::new();
        for (name, _, values, _) in OPERATION_OPTIONS {
            let texts: Vec<&String> = matches.get_many(name).into_iter().flatten().collect();
            let places: Vec<usize> = matches.indices_of(name).into_iter().flatten().collect();
            for (words, places) in texts.chunks(values.len()).zip(places.chunks(values.len())) {
                placed.push((places[0], parse_op(name, words)?));
            }
        }
        placed.sort_by_key(|(place, _)| *place);
        let counts = matches.get_many(EXPECT).into_iter().flatten();
        for (place, count) in matches.indices_of(EXPECT).into_iter().flatten().zip(counts) {
            set_expected_count(&mut placed, place, *count)?;
        }
        Ok(Self(placed.into_iter().map(|(_, op)| op).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn parse_op(name: &str, words: &[&String]) -> Result<EditOp, Error> {
    if let Some(option) = words.iter().find(|word| is_option(word)) {
        let text = format!(
            "{option} stands where a text of --{name} is expected; to write it, use `stockade call coder::update-file`"
        );
        return Err(usage_error(text));
    }
    let word = |at: usize| words.get(at).map_or_else(String::new, |word| (*word).clone());
    Ok(match name {
        "replace" => EditOp::Replace { old: word(0), new: word(1), expect: None },
        "regex" => EditOp::Regex { pattern: word(0), replacement: word(1), expect: None },
        "insert" => EditOp::Insert { at_line: parse_line(&word(0))?, text: word(1) },
        "lines" => {
            let (from, to) = parse_closed_range(name, &word(0))?;
            EditOp::Lines { from, to, text: word(1) }
        }
        "remove" => {
            let (from, to) = parse_closed_range(name, &word(0))?;
            EditOp::Remove { from, to }
        }
        "append" => EditOp::Append(word(0)),
        _ => EditOp::Prepend(word(0)),
    })
}

fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--");
    name.is_some_and(|name| {
        OPERATION_OPTIONS.iter().map(|(name, ..)| name).chain(&OTHER_OPTIONS).any(|option| *option == name)
    })
}

fn parse_line(text: &str) -> Result<u64, Error> {
    match text.parse() {
        Ok(0) => Err(usage_error("--insert: lines are counted from 1".into())),
        Ok(line) => Ok(line),
        Err(_) => Err(usage_error(format!("--insert: `{text}` is not a line number"))),
    }
}

fn parse_closed_range(name: &str, text: &str) -> Result<(u64, u64), Error> {
    let range = parse_line_range(text).map_err(|error| usage_error(format!("--{name} '{text}': {error}")))?;
    match range {
        LineRange { from, to: Some(to) } => Ok((from, to)),
        LineRange { .. } => Err(usage_error(format!("--{name} '{text}': say where it ends"))),
    }
}

/// Gives the count to the last replacement before it.
fn set_expected_count(placed: &mut [(usize, EditOp)], place: usize, count: u64) -> Result<(), Error> {
    let before = placed.iter_mut().rev().find(|(other, _)| *other < place).map(|(_, op)| op);
    match before {
        Some(EditOp::Replace { expect, .. } | EditOp::Regex { expect, .. }) if expect.is_none() => {
            *expect = Some(count);
            Ok(())
        }
        _ => Err(usage_error("--expect belongs behind a --replace or --regex, once".into())),
    }
}

fn usage_error(text: String) -> Error {
    Error::raw(ErrorKind::ValueValidation, text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::frontends::cli::args::{CliArgs, CliCommand};

    fn ops(line: &[&str]) -> Result<Vec<EditOp>, String> {
        let line = ["stockade", "edit", "f"].iter().chain(line);
        match CliArgs::try_parse_from(line).map(|args| args.command) {
            Ok(CliCommand::Edit(args)) => Ok(args.ops.0),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn operations_keep_the_order_they_were_typed_in() {
        let typed = ops(&[
            "--append",
            "end",
            "--replace",
            "- a",
            "--b",
            "--expect",
            "2",
            "--lines",
            "3:4",
            "",
            "--prepend",
            "top",
            "--regex",
            "x",
            "-",
            "-i",
            "7",
            "-- new",
            "--remove",
            "9",
            "-e",
            "y",
            "z",
            "--expect",
            "0",
        ]);
        let expected = vec![
            EditOp::Append("end".into()),
            EditOp::Replace { old: "- a".into(), new: "--b".into(), expect: Some(2) },
            EditOp::Lines { from: 3, to: 4, text: "".into() },
            EditOp::Prepend("top".into()),
            EditOp::Regex { pattern: "x".into(), replacement: "-".into(), expect: None },
            EditOp::Insert { at_line: 7, text: "-- new".into() },
            EditOp::Remove { from: 9, to: 9 },
            EditOp::Regex { pattern: "y".into(), replacement: "z".into(), expect: Some(0) },
        ];
        assert_eq!(typed, Ok(expected));
    }

    #[test]
    fn every_option_of_the_command_is_known_as_one() {
        let mut whole = crate::frontends::cli::args::command();
        whole.build();
        let edit = whole.find_subcommand("edit").unwrap();
        for option in edit.get_arguments().filter_map(Arg::get_long) {
            assert!(is_option(&format!("--{option}")), "{option}");
        }
        assert!(!is_option("--") && !is_option("--b") && !is_option("dry-run"));
    }

    #[test]
    fn what_cannot_be_meant_is_a_usage_error() {
        for (line, why) in [
            (&[][..], "required"),
            (&["--insert", "0", "x"], "counted from 1"),
            (&["--insert", "x", "y"], "not a line number"),
            (&["--remove", "3:"], "say where it ends"),
            (&["--lines", "4:3", "x"], "comes before"),
            (&["--append", "x", "--expect", "1"], "--expect belongs"),
            (&["--expect", "1", "--replace", "a", "b"], "--expect belongs"),
            (&["--replace", "a", "b", "--expect", "1", "--expect", "2"], "--expect belongs"),
            (&["--replace", "a"], "2 values required"),
            (&["--append", "--dry-run"], "--dry-run stands where"),
            (&["--replace", "a", "--expect", "2"], "--expect stands where"),
        ] {
            let error = ops(line).unwrap_err();
            assert!(error.contains(why), "{line:?}: {error}");
        }
    }
}
