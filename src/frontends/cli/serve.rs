//! `stockade serve`: becomes the supervisor. The same process, so a service manager sees one program and its socket
//! activation still fits.

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
