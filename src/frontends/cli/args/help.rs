//! The output of `stockade help`: the commands grouped by purpose, made from the definitions of the commands.

use std::{ffi::OsString, fmt::Write as _};

use clap::{Command, CommandFactory, FromArgMatches};

use super::{super::failure::EXIT_CODES, CliArgs};
use crate::{BUILD, VERSION, sys::raw::landlock_abi};

/// Which commands stand together. One that is not here stands with the last.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Look", &["read", "ls", "tree", "stat", "search", "find"]),
    ("Change", &["create", "edit", "rm", "mv", "cp", "mkdir", "restore"]),
    ("Run and check", &["serve", "check", "policy", "info", "audit"]),
    ("For programs and agents", &["mcp", "call", "schema", "brief", "completions", "man"]),
];

const MORE: &str = "\
Commands that ask for files talk to a running service, or with --root DIR to one of their own that ends with them. \
`stockade help COMMAND` shows the options and examples of a command.";

const EXAMPLES: &str = "\
Examples:
  stockade read --root . README.md          one file, no daemon, same jail
  stockade edit notes.md -r one two         change a text that occurs once
  stockade ls -l src                        a folder of the running service
  stockade policy explain p.toml src/.env   which rule decides, and why
  stockade check                            try to escape, and see what stops it";

/// The arguments of this program as they are parsed, shown, completed and documented.
pub(in super::super) fn command() -> Command {
    let command = CliArgs::command();
    let commands = render_groups(&command);
    let end = format!("{MORE}\n\nExit codes:\n{}\n{EXAMPLES}", exit_codes());
    let header = command.get_styles().get_header();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{{before-help}}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    // Leaked once: clap takes only texts that live as long as the program.
    let version: &'static str = version().leak();
    command.before_help(commands).after_help(end).help_template(template).long_version(version)
}

/// Describes the build, and what this kernel can enforce, for reports of faults.
fn version() -> String {
    let landlock = match landlock_abi() {
        Ok(abi) => format!("Landlock ABI {abi}"),
        Err(_) => "no Landlock".into(),
    };
    format!("{VERSION}\n{BUILD}, {landlock}")
}

pub(in super::super) fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<CliArgs, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    CliArgs::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// True if the command has all the long options among these words.
pub(in super::super) fn command_accepts(name: &str, words: &[String]) -> bool {
    let command = CliArgs::command();
    let Some(command) = command.find_subcommand(name) else { return false };
    let mut options = words.iter().filter_map(|word| word.strip_prefix("--")?.split(' ').next());
    options.all(|option| command.get_arguments().any(|argument| argument.get_long() == Some(option)))
}

fn exit_codes() -> String {
    EXIT_CODES.iter().map(|(code, means)| format!("  {code}  {means}\n")).collect()
}

fn render_groups(command: &Command) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut text = String::new();
    for (title, names) in groups(command) {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{header}{title}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:11}{literal:#}  {about}");
        }
    }
    text.trim_end().to_owned()
}

/// The groups with the commands that there are, and all of them.
pub(in super::super) fn groups(command: &Command) -> Vec<(&'static str, Vec<&str>)> {
    let listed = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (title, names) in GROUPS {
        groups.push((title, names.iter().copied().filter(|name| command.find_subcommand(name).is_some()).collect()));
    }
    let others = command.get_subcommands().map(Command::get_name).filter(|name| !listed(name) && *name != "help");
    if let Some((_, last)) = groups.last_mut() {
        last.extend(others);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_the_help_once() {
        let command = command();
        let shown: Vec<&str> = groups(&command).into_iter().flat_map(|(_, names)| names).collect();
        for name in command.get_subcommands().map(Command::get_name) {
            assert_eq!(shown.iter().filter(|other| **other == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn the_list_of_commands_fits_eighty_columns() {
        let help = command().render_help().to_string();
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(help.contains("Change:\n  create       Make a file"), "{help}");
    }
}
