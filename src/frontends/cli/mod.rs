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
mod check_protected;
mod columns;
mod completions;
mod create;
mod diff;
mod edit;
mod failure;
mod find;
mod info;
mod ls;
mod man;
mod mcp;
mod mcp_install;
mod mkdir;
mod move_copy;
mod output;
mod paths;
mod policy;
mod pretty;
mod progress;
mod read;
mod restore;
mod rm;
mod schema;
mod search;
mod serve;
mod service_texts;
mod stat;
mod tree;
mod units;
mod user_input;
mod window;

use std::{
    env,
    process::{ExitCode, ExitStatus},
};

use serde_json::value::RawValue;

use self::{
    args::{CliCommand, ClientOptions, DisplayOptions},
    failure::CliFailure,
    output::Output,
    paths::PathBase,
};
use super::{
    client::{CallError, Client},
    endpoint::Endpoint,
    escape,
};

/// The result of a command: its exit code, or the reason why it failed.
type CommandResult = Result<u8, CliFailure>;

/// The whole program, called by `bin/stockade.rs`.
pub fn main() -> ExitCode {
    let parsed = args::parse(env::args_os());
    let display = match &parsed {
        Ok(args) => args.command.display(),
        // The arguments cannot be parsed, but `--json` still decides about the form of the error.
        Err(_) => {
            DisplayOptions { json: env::args_os().any(|argument| argument == "--json"), ..DisplayOptions::default() }
        }
    };
    let mut stdout = std::io::BufWriter::with_capacity(output::BUFFER_BYTES, std::io::stdout());
    let mut stderr = std::io::stderr();
    let mut out = Output::for_process(&mut stdout, &mut stderr, display.color, display.json);
    let outcome = match parsed {
        Ok(args) => run(args.command, &mut out),
        Err(error) if is_help(&error) => error.exit(),
        Err(error) => Err(error.into()),
    };
    let outcome = flush_output(outcome, &mut out);
    ExitCode::from(outcome.unwrap_or_else(|failure| out.report_failure(&failure)))
}

/// The help was asked for, or is shown because there were no arguments.
fn is_help(error: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

fn run(command: CliCommand, out: &mut Output<'_>) -> CommandResult {
    match command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Check(args) => check::run(&args, out),
        CliCommand::Schema(args) => schema::run(&args, out),
        CliCommand::Policy(args) => policy::run(&args, out),
        CliCommand::Completions(args) => completions::run(&args, out),
        CliCommand::Man(args) => man::run(&args, out),
        CliCommand::Audit(args) => audit::run(&args, out),
        CliCommand::Brief(args) => brief::run(&args, out),
        CliCommand::Mcp(args) => mcp::run(args, out),
        CliCommand::Call(args) => {
            // The arguments are checked first: a misspelt name must not start a supervisor.
            let call = call::CallCommand::prepare(&args)?;
            with_session(&args.client, out, |session, out| call.run(session, out))
        }
        CliCommand::Info(args) => {
            let audit = audit::private_audit_file(&args.client);
            with_session(&args.client, out, |session, out| info::run(audit.as_deref(), session, out))
        }
        CliCommand::Read(args) => {
            with_files(&args.client, out, |session, out| read::ReadCommand::new(&args).run(session, out))
        }
        CliCommand::Ls(args) => with_files(&args.client, out, |session, out| ls::run(&args, session, out)),
        CliCommand::Tree(args) => with_files(&args.client, out, |session, out| tree::run(&args, session, out)),
        CliCommand::Stat(args) => with_files(&args.client, out, |session, out| stat::run(&args, session, out)),
        CliCommand::Search(args) => with_files(&args.client, out, |session, out| search::run(&args, session, out)),
        CliCommand::Create(args) => {
            let plan = create::CreateCommand::new(&args)?;
            with_files(&args.client, out, |session, out| plan.run(session, out))
        }
        CliCommand::Edit(args) => {
            let plan = edit::EditCommand::new(&args)?;
            with_files(&args.client, out, |session, out| plan.run(session, out))
        }
        CliCommand::Rm(args) => {
            let change = rm::plan_removal(&args)?;
            with_files(&args.client, out, |session, out| rm::run(&args, change, session, out))
        }
        CliCommand::Mv(args) => {
            let plan = move_copy::MoveCopyCommand::new(&args.names)?;
            with_files(&args.client, out, |session, out| plan.run_move(session, out))
        }
        CliCommand::Cp(args) => {
            let plan = move_copy::MoveCopyCommand::new(&args.names)?;
            with_files(&args.client, out, |session, out| plan.run_copy(args.recursive, session, out))
        }
        CliCommand::Mkdir(args) => with_files(&args.client, out, |session, out| mkdir::run(&args, session, out)),
        CliCommand::Restore(args) => with_files(&args.client, out, |session, out| restore::run(&args, session, out)),
        CliCommand::Find(args) => with_files(&args.client, out, |session, out| find::run(&args, session, out)),
    }
}

/// The connection of commands to the service. Tests use a scripted one.
trait CallSession {
    fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError>;
}

impl CallSession for Client {
    fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError> {
        Client::call(self, method, params)
    }
}

/// A session of a command that names files.
trait FileSession: CallSession {
    /// The folder at which the relative paths of the command line begin.
    fn path_base(&self) -> &PathBase;
}

struct BasedSession<'a> {
    calls: &'a mut dyn CallSession,
    base: PathBase,
}

impl CallSession for BasedSession<'_> {
    fn call(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, CallError> {
        self.calls.call(method, params)
    }
}

impl FileSession for BasedSession<'_> {
    fn path_base(&self) -> &PathBase {
        &self.base
    }
}

/// Runs a command that names files, after finding out where its relative paths begin.
fn with_files(
    options: &ClientOptions,
    out: &mut Output<'_>,
    command: impl FnOnce(&mut dyn FileSession, &mut Output<'_>) -> CommandResult,
) -> CommandResult {
    with_session(options, out, |session, out| {
        // A deleted folder has no path. Relative paths then begin at the primary root.
        let base = PathBase::query(session, env::current_dir().ok().as_deref())?;
        out.hidden_prefix = base.hidden_prefix().map(str::to_owned);
        command(&mut BasedSession { calls: session, base }, out)
    })
}

fn with_session(
    options: &ClientOptions,
    out: &mut Output<'_>,
    command: impl FnOnce(&mut dyn CallSession, &mut Output<'_>) -> CommandResult,
) -> CommandResult {
    let private = options.to_supervisor_arguments();
    let endpoint = Endpoint::choose(options.socket.as_deref(), private, |name| env::var_os(name));
    let connection = endpoint.open()?;
    let mut client = Client::new(connection.stream, options.timeout);
    let outcome = command(&mut client, out);
    // Prints the answer before waiting for the end of the private supervisor.
    let outcome = flush_output(outcome, out);
    drop(client);
    let Some(supervisor) = connection.supervisor else { return outcome };
    match (outcome, supervisor.wait()) {
        (Err(CliFailure::Call(CallError::Closed)), Ok(status)) => Err(start_failure(status)),
        (outcome, _) => outcome,
    }
}

/// Flushes the output and returns the result of the command. A closed output does not change the result.
fn flush_output(outcome: CommandResult, out: &mut Output<'_>) -> CommandResult {
    let code = outcome?;
    match out.flush() {
        Ok(()) | Err(CliFailure::PipeClosed) => Ok(code),
        Err(failure) => Err(failure),
    }
}

/// For a private supervisor that closed without a reply. If it ended by itself, it has printed the reason, and its exit code
/// is passed on.
fn start_failure(status: ExitStatus) -> CliFailure {
    match status.code().map(u8::try_from) {
        Some(Ok(code)) if code != 0 => CliFailure::AlreadyReported(code),
        _ => CliFailure::Call(CallError::Closed),
    }
}

#[cfg(test)]
mod tests;
