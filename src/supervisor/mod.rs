//! Runs as `stockaded`, trusted and small. Accepts, learns who the peer is, hands the *connection itself* to a confined
//! worker and answers that worker's questions. Trusts: the validated policy. Does not trust: peers, workers, names on
//! disk. Never parses a client's JSON, never opens a file for content.

mod accept;
mod answer;
mod args;
mod attend;
mod audit;
mod blocking;
mod check;
mod identity;
mod lease;
mod line_writer;
mod listen;
mod notify;
mod peer;
mod policy_in_force;
mod pool;
mod quota;
mod recover;
mod reload;
mod requirements;
mod reservations;
mod rotation;
mod serve;
mod spawn;
mod start;
mod turns;
mod unsettled;

use std::{ffi::OsString, process::ExitCode};

use args::{RunMode, SupervisorArgs};

/// Why `stockaded` ends. The variant determines the exit status.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotEnforceable(String),
}

impl SupervisorError {
    fn status(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotEnforceable(_) => 4,
        }
    }
}

/// The only place where this binary prints to standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            // The text goes to a terminal, and a path from the command line may contain control characters.
            let text = stop.to_string();
            let shown = text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c });
            eprintln!("stockaded: {}", shown.collect::<String>());
            ExitCode::from(stop.status())
        }
    }
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), SupervisorError> {
    let args = SupervisorArgs::parse(arguments)
        .map_err(|error| SupervisorError::Usage(format!("{error}; see stockaded --help")))?;
    match args.mode {
        RunMode::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        RunMode::Version => {
            println!("stockaded {}\n{}", crate::VERSION, crate::BUILD);
            Ok(())
        }
        RunMode::Check => check::run(&args),
        RunMode::Daemon | RunMode::Inetd => start::run(&args),
    }
}
