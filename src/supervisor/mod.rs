//! Runs as `stockaded`, trusted and small. Accepts, learns who the peer is, hands the *connection itself* to a confined
//! worker and answers that worker's questions. Trusts: the validated policy. Does not trust: peers, workers, names on
//! disk. Never parses a client's JSON, never opens a file for content.

mod accept;
mod answer;
mod args;
mod aside;
mod attend;
mod audit;
mod check;
mod identity;
mod lease;
mod lines;
mod listen;
mod notify;
mod offer;
mod peer;
mod pool;
mod quota;
mod recover;
mod reload;
mod requirements;
mod reserve;
mod rotation;
mod serve;
mod spawn;
mod start;
mod turns;
mod unsettled;

use std::{ffi::OsString, process::ExitCode};

use args::{Args, Mode};

/// Why `stockaded` ends, and what its exit status says.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotEnforceable(String),
}

impl Stop {
    fn status(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotEnforceable(_) => 4,
        }
    }
}

/// The one printing place of this binary.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            // A path of the command line may hold control characters, and this goes to a terminal.
            let text = stop.to_string();
            let shown = text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c });
            eprintln!("stockaded: {}", shown.collect::<String>());
            ExitCode::from(stop.status())
        }
    }
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Stop> {
    let args =
        Args::parse(arguments).map_err(|error| Stop::Usage(format!("{error}; see stockaded --help")))?;
    match args.mode {
        Mode::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        Mode::Version => {
            println!("stockaded {}", crate::VERSION);
            Ok(())
        }
        Mode::Check => check::run(&args),
        Mode::Daemon | Mode::Inetd => start::run(&args),
    }
}
