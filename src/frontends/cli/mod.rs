//! Runs as the person who typed the command. An ordinary client: no privilege, no promise about the jail.
//! Trusts: its own arguments. Does not trust: names and texts from the server, which are escaped before a terminal
//! sees them.
//!
//! Exit codes are a contract for scripts: 0 done, 1 the service refused (a coded error), 2 usage, 3 no connection
//! or a lost one, 4 the jail cannot be enforced here.

mod args;
mod audit;
mod brief;
mod call;
mod change;
mod check;
mod check_names;
mod columns;
mod completions;
mod create;
mod diff;
mod edit;
mod failure;
mod find;
mod home;
mod info;
mod ls;
mod man;
mod mcp;
mod mkdir;
mod output;
mod policy;
mod pretty;
mod progress;
mod read;
mod restore;
mod rm;
mod schema;
mod search;
mod serve;
mod source;
mod stat;
mod transfer;
mod tree;
mod units;
mod window;

use std::{
    env,
    process::{ExitCode, ExitStatus},
};

use serde_json::value::RawValue;

use self::{
    args::{ClientOptions, Command, Display},
    failure::Failure,
    output::Output,
};
use super::{
    client::{CallError, Client},
    endpoint::Endpoint,
    escape,
};

/// What a command gives back: its exit code, or why it stopped.
type Outcome = Result<u8, Failure>;

/// The whole program, called by `bin/stockade.rs`.
pub fn main() -> ExitCode {
    let parsed = args::parse(env::args_os());
    let display = match &parsed {
        Ok(args) => args.command.display(),
        // What they mean is not known, but how the answer is wanted is.
        Err(_) => Display { json: env::args_os().any(|argument| argument == "--json"), ..Display::default() },
    };
    let mut stdout = std::io::BufWriter::with_capacity(output::BUFFER_BYTES, std::io::stdout());
    let mut stderr = std::io::stderr();
    let mut out = Output::for_process(&mut stdout, &mut stderr, display.color, display.json);
    let outcome = match parsed {
        Ok(args) => run(args.command, &mut out),
        Err(error) if is_help(&error) => error.exit(),
        Err(error) => Err(error.into()),
    };
    let outcome = flushed(outcome, &mut out);
    ExitCode::from(outcome.unwrap_or_else(|failure| out.report(&failure)))
}

/// Asked for, or shown because nothing was.
fn is_help(error: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

fn run(command: Command, out: &mut Output<'_>) -> Outcome {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args, out),
        Command::Schema(args) => schema::run(&args, out),
        Command::Policy(args) => policy::run(&args, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
        Command::Audit(args) => audit::run(&args, out),
        Command::Brief(args) => brief::run(&args, out),
        Command::Mcp(args) => mcp::run(args, out),
        Command::Call(args) => {
            // Arguments first: a misspelled name must not start a supervisor.
            let call = call::Call::prepare(&args)?;
            with_session(&args.client, out, |session, out| call.run(session, out))
        }
        Command::Info(args) => {
            let audit = audit::file_of(&args.client);
            with_session(&args.client, out, |session, out| info::run(audit.as_deref(), session, out))
        }
        Command::Read(args) => {
            with_session(&args.client, out, |session, out| read::Plan::new(&args).run(session, out))
        }
        Command::Ls(args) => with_session(&args.client, out, |session, out| ls::run(&args, session, out)),
        Command::Tree(args) => with_session(&args.client, out, |session, out| tree::run(&args, session, out)),
        Command::Stat(args) => with_session(&args.client, out, |session, out| stat::run(&args, session, out)),
        Command::Search(args) => {
            with_session(&args.client, out, |session, out| search::run(&args, session, out))
        }
        Command::Create(args) => {
            let plan = create::Plan::new(&args)?;
            with_session(&args.client, out, |session, out| plan.run(session, out))
        }
        Command::Edit(args) => {
            let plan = edit::Plan::new(&args)?;
            with_session(&args.client, out, |session, out| plan.run(session, out))
        }
        Command::Rm(args) => {
            let change = rm::plan(&args)?;
            with_session(&args.client, out, |session, out| rm::run(&args, change, session, out))
        }
        Command::Mv(args) => {
            let plan = transfer::Plan::new(&args.names)?;
            with_session(&args.client, out, |session, out| plan.run_move(session, out))
        }
        Command::Cp(args) => {
            let plan = transfer::Plan::new(&args.names)?;
            with_session(&args.client, out, |session, out| plan.run_copy(args.recursive, session, out))
        }
        Command::Mkdir(args) => {
            with_session(&args.client, out, |session, out| mkdir::run(&args, session, out))
        }
        Command::Restore(args) => {
            with_session(&args.client, out, |session, out| restore::run(&args, session, out))
        }
        Command::Find(args) => with_session(&args.client, out, |session, out| find::run(&args, session, out)),
    }
}

/// How commands reach the service; tests put a scripted one in its place.
trait Session {
    fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError>;
}

impl Session for Client {
    fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError> {
        Client::call(self, method, params)
    }
}

fn with_session(
    options: &ClientOptions,
    out: &mut Output<'_>,
    command: impl FnOnce(&mut dyn Session, &mut Output<'_>) -> Outcome,
) -> Outcome {
    let private = options.arguments();
    let endpoint = Endpoint::choose(options.socket.as_deref(), private, |name| env::var_os(name));
    let connection = endpoint.open()?;
    let mut client = Client::new(connection.stream, options.timeout);
    let outcome = command(&mut client, out);
    // The person sees the answer before we wait for our supervisor to go.
    let outcome = flushed(outcome, out);
    drop(client);
    let Some(supervisor) = connection.supervisor else { return outcome };
    match (outcome, supervisor.wait()) {
        (Err(Failure::Call(CallError::Closed)), Ok(status)) => Err(failed_start(status)),
        (outcome, _) => outcome,
    }
}

/// What a command came to, once everything is written. A reader that has seen enough changes nothing about it.
fn flushed(outcome: Outcome, out: &mut Output<'_>) -> Outcome {
    let code = outcome?;
    match out.flush() {
        Ok(()) | Err(Failure::PipeClosed) => Ok(code),
        Err(failure) => Err(failure),
    }
}

/// Our supervisor closed without a reply. If it ended by itself it has said why on standard error; its code says the rest.
fn failed_start(status: ExitStatus) -> Failure {
    match status.code().map(u8::try_from) {
        Some(Ok(code)) if code != 0 => Failure::Reported(code),
        _ => Failure::Call(CallError::Closed),
    }
}

#[cfg(test)]
mod tests;
