//! The arguments of what describes this program: `completions`, `man`, `brief`; and how functions are completed.

use std::{ffi::OsStr, path::PathBuf};

use clap::{
    Arg, Command, Error, ValueHint,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};

use super::DisplayOptions;
use crate::wire::function::FUNCTIONS;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Paths are completed as files of the shell's folder, where relative paths begin if the service serves that folder.

Examples:
  stockade completions bash > ~/.local/share/bash-completion/completions/stockade
  stockade completions zsh > ~/.zfunc/_stockade
  stockade completions fish > ~/.config/fish/completions/stockade.fish")]
pub(in super::super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "bash|zsh|fish", hide_possible_values = true)]
    pub(in super::super) shell: Shell,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stockade man | man -l -
  stockade man edit | man -l -
  stockade man stockaded | man -l -
  stockade man --to pages    all of them, for man1, man5 and man8")]
pub(in super::super) struct ManArgs {
    /// The page of this command, such as edit or policy-check, or stockaded, or stockade-policy.5 [default: of the whole program]
    #[arg(conflicts_with = "to")]
    pub(in super::super) command: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in super::super) to: Option<PathBuf>,
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
One document for pasting into a prompt: what it is, how to install and configure it, every function with its types.

Examples:
  stockade brief
  stockade brief | wc -c")]
pub(in super::super) struct BriefArgs {
    #[command(flatten)]
    pub(in super::super) display: DisplayOptions,
}

/// Any text; the functions there are, for those who complete it. What is not one is refused with the nearest name later.
#[derive(Debug, Clone, Copy)]
pub(super) struct FunctionName;

impl TypedValueParser for FunctionName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FUNCTIONS.iter().map(|function| PossibleValue::new(function.name))))
    }
}
