//! Why a command stopped, its exit code, and the two lines that the user gets.

use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    client::{CallError, RemoteError},
    endpoint::Unreachable,
};
use super::service_texts::in_commands;
use crate::policy::PolicyError;

pub(super) const EXIT_REFUSED: u8 = 1;
/// The same exit code as that of `grep`.
pub(super) const EXIT_NOTHING_FOUND: u8 = 1;
pub(super) const EXIT_USAGE: u8 = 2;
pub(super) const EXIT_CONNECTION: u8 = 3;
pub(super) const EXIT_NO_JAIL: u8 = 4;

/// The exit codes as scripts, help, manual and brief show them.
pub(super) const EXIT_CODES: [(u8, &str); 5] = [
    (0, "done"),
    (EXIT_REFUSED, "refused with a code, nothing found (search, find), or not all was done"),
    (EXIT_USAGE, "wrong usage"),
    (EXIT_CONNECTION, "no connection, or a lost one"),
    (EXIT_NO_JAIL, "the jail cannot be enforced here"),
];

#[derive(Debug)]
pub(super) enum CliFailure {
    Usage(String),
    /// Arguments that cannot be parsed, and where they are documented.
    Arguments {
        message: String,
        hint: String,
    },
    /// A policy that no service would start with, and how to fix it.
    Policy(PolicyError, &'static str),
    Unreachable(Unreachable),
    Call(CallError),
    /// One file cannot be printed completely; other files can.
    File(String),
    /// Standard output cannot be written, for example because a disk is full.
    OutputFailed(String),
    /// The jail does not hold; the printed table shows where.
    NoJail(String),
    /// The error was printed already; only the exit code is left.
    AlreadyReported(u8),
    /// The reader of the output has closed it.
    PipeClosed,
}

impl CliFailure {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::PipeClosed => 0,
            Self::Call(CallError::Remote(_)) | Self::File(_) | Self::OutputFailed(_) | Self::Policy(..) => EXIT_REFUSED,
            Self::Usage(_) | Self::Arguments { .. } => EXIT_USAGE,
            Self::Unreachable(_) | Self::Call(_) => EXIT_CONNECTION,
            Self::NoJail(_) => EXIT_NO_JAIL,
            Self::AlreadyReported(code) => *code,
        }
    }

    /// The error text; `None` if nothing is left to print.
    pub(super) fn message(&self) -> Option<String> {
        match self {
            Self::PipeClosed | Self::AlreadyReported(_) => None,
            Self::Usage(text) | Self::File(text) | Self::OutputFailed(text) | Self::NoJail(text) => Some(text.clone()),
            Self::Arguments { message, .. } => Some(message.clone()),
            Self::Policy(error, _) => {
                let further = match error.further.len() {
                    0 => String::new(),
                    count => format!(" (and {count} more; `stockade policy check` shows them)"),
                };
                Some(format!("{}: {}{further}", error.position, error.message))
            }
            Self::Unreachable(unreachable) => Some(unreachable.message.clone()),
            Self::Call(error @ CallError::Remote(_)) => Some(in_commands(&error.to_string())),
            Self::Call(error) => Some(error.to_string()),
        }
    }

    /// The next step, as a command of this program. Texts of the service name functions, for agents.
    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Arguments { hint, .. } => Some(hint),
            Self::Unreachable(unreachable) => Some(unreachable.hint),
            Self::Call(CallError::Remote(error)) => remote_hint(error),
            Self::Policy(_, hint) => Some(hint),
            Self::Call(CallError::TimedOut) => Some("allow more time with --timeout"),
            _ => None,
        }
    }
}

fn remote_hint(error: &RemoteError) -> Option<&'static str> {
    // The service speaks of fields; where one of them is the answer, the option has another name.
    let speaks_of = |words: &str| error.message.contains(words);
    match error.code.as_str() {
        "C210" | "C216" if speaks_of("recursive") => Some("-r takes folders with all they hold"),
        "C210" if speaks_of("whitespace: \"ignore\" replaces") => Some("--ignore-whitespace replaces it there"),
        "C210" if speaks_of("verbatim: true") => Some("--verbatim writes it all the same"),
        "C210" if speaks_of("binary: true") => Some("--binary edits the bytes all the same"),
        "C210" if speaks_of("matched 0 times") => Some("`stockade search -F TEXT` shows where a text stands"),
        "C210" if speaks_of("expect_matches") => Some("--expect N behind a replacement says how often it matches"),
        "C211" => Some("`stockade ls` shows what is there"),
        "C213" => Some("ask for less: a part of a file, fewer names; `stockade info` shows the limits"),
        "C215" => Some("`stockade info` shows the allowed roots and their rules for links"),
        "C217" => Some("--force replaces what is there, in the commands that have it"),
        "C218" => Some("name something below --base-dir, or leave --base-dir out"),
        "C219" => Some("look at it again; `stockade stat --etag` shows the version that is there"),
        "C220" => Some("allow more time with --timeout"),
        "C221" if speaks_of("protected by") => {
            Some("`stockade info` shows what is protected; --unprotect GLOB together with --root lifts the protection")
        }
        "C221" => Some("`stockade info` shows which roots are writable"),
        "C222" => Some("try again"),
        _ => None,
    }
}

/// Joins the lines of clap's error into one, and keeps its tip. `--help` and `--version` are no failures and never get here.
impl From<clap::Error> for CliFailure {
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
        let message = paragraphs.next().unwrap_or_default();
        let tip = paragraphs.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned));
        Self::Arguments {
            message: message.strip_prefix("error: ").unwrap_or(&message).to_owned(),
            hint: tip.unwrap_or_else(|| "--help after a command shows its arguments".into()),
        }
    }
}

impl From<CallError> for CliFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Unreachable> for CliFailure {
    fn from(unreachable: Unreachable) -> Self {
        Self::Unreachable(unreachable)
    }
}

/// For errors of writing the output only; other I/O errors name their file first.
impl From<io::Error> for CliFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::OutputFailed(format!("cannot write the output: {error}")),
        }
    }
}

/// The error of one entry of a batch; `None` if it has no code.
pub(super) fn parse_coded_error(error: &RawValue) -> Option<RemoteError> {
    #[derive(Deserialize)]
    struct EntryErrorFields {
        code: String,
        message: String,
    }
    let EntryErrorFields { code, message } = serde_json::from_str(error.get()).ok()?;
    Some(RemoteError { code, message, json: error.get().into() })
}

/// The error of an entry as a failure, whatever its form.
pub(super) fn entry_failure(error: &RawValue) -> CliFailure {
    match parse_coded_error(error) {
        Some(error) => CallError::Remote(error).into(),
        None => CallError::Protocol("an error without a code".into()).into(),
    }
}

/// For a reply that is JSON but not of the type that its function returns.
pub(super) fn unexpected_result(error: serde_json::Error) -> CliFailure {
    CliFailure::Call(CallError::Protocol(error.to_string()))
}
