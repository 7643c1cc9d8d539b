//! `stockade serve`: replaces this process with the supervisor, so that a service manager sees one process and can pass its
//! socket on.

use std::{os::unix::process::CommandExt, process::Command};

use super::{
    super::endpoint::{Unreachable, find_supervisor},
    CommandResult,
    args::ServeArgs,
};

pub(super) fn run(args: &ServeArgs) -> CommandResult {
    let program = find_supervisor()?;
    let error = Command::new(&program).args(&args.args).exec();
    Err(Unreachable {
        message: format!("cannot execute {}: {error}", program.display()),
        hint: "check the installation of stockaded",
    }
    .into())
}
