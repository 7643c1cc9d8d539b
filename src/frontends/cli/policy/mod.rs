//! `stockade policy`: shows what a policy means before a service uses it. Reads the policy and checks this machine; changes
//! nothing and calls no service.
//!
//! Exit codes: 0 good, 1 the policy is wrong or this machine lacks what it names, 2 usage.

mod disk;
mod effective;
mod explain;
mod render;

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    CommandResult,
    args::{PolicyArgs, PolicyCommand},
    failure::{CliFailure, unexpected_result},
    output::Output,
};
use crate::{
    policy::{self, Policy, PolicyError, PolicyProfile, PreparedRoot, RunAs, Starter},
    sys::user::Accounts,
};

pub(super) fn run(args: &PolicyArgs, out: &mut Output<'_>) -> CommandResult {
    match &args.command {
        PolicyCommand::Check(args) => effective::run(args, out),
        PolicyCommand::Explain(args) => explain::run(args, out),
        PolicyCommand::Default(_) => print_default(out),
    }
}

fn print_default(out: &mut Output<'_>) -> CommandResult {
    match out.json {
        true => out.write_json_line(&serde_json::json!({ "policy": policy::DEFAULT_TEXT }).to_string())?,
        false => out.write_text(policy::DEFAULT_TEXT)?,
    }
    Ok(0)
}

/// Loads a policy that a service started by this user would accept.
fn load_policy(file: &Path, starter: &Starter) -> Result<Policy, CliFailure> {
    if let Err(error) = file.metadata() {
        return Err(CliFailure::Usage(format!("{}: {error}", file.display())));
    }
    let hint = "`stockade policy default` prints every key with its default and its reason";
    Policy::load(file, starter).map_err(|error| CliFailure::Policy(error, hint))
}

/// The text is valid, but no service would start with it on this machine.
fn start_refused(error: PolicyError) -> CliFailure {
    CliFailure::Policy(error, "`stockade policy check --offline` looks at the text alone")
}

/// A policy with everything that it names on this machine, as a service would start with it.
struct MachinePolicy {
    policy: Policy,
    file: PathBuf,
    roots: Vec<PreparedRoot>,
    /// One for each root: the folder itself, opened.
    root_folders: Vec<OwnedFd>,
    /// Warnings about optional roots that do not exist.
    warnings: Vec<String>,
    /// Names of missing optional roots that are inside other roots.
    absent_roots: Vec<PathBuf>,
    accounts: Accounts,
    identity: IdentityView,
    profiles: Vec<PolicyProfile>,
}

/// The identity of the service if root starts it.
#[derive(Debug, Clone, Serialize)]
struct IdentityView {
    uid: u32,
    gid: u32,
    because: String,
}

impl MachinePolicy {
    fn resolve(policy: Policy, file: &Path) -> Result<Self, PolicyError> {
        let wrong = |message: String| PolicyError::new(&policy.source, message);
        let mut prepared = policy.prepare_roots()?;
        let Starter { is_privileged, accounts, .. } = Starter::current();
        let becomes = policy.identity(&prepared, &accounts)?;
        match policy.check_choosers(&prepared, becomes, &accounts) {
            Err(refusal) if is_privileged => return Err(refusal),
            Err(refusal) => prepared.warnings.push(format!("a start by root would be refused: {refusal}")),
            Ok(()) => {}
        }
        let because = match &policy.run_as {
            RunAs::User(name) => format!("run_as = \"user:{name}\""),
            RunAs::RootOwner => "owner of the primary root".into(),
        };
        let identity = IdentityView { uid: becomes.uid, gid: becomes.gid, because };
        let mut mistakes = Vec::new();
        mistakes.extend(policy.socket_gid(&accounts).err().map(wrong));
        if let policy::AuditPath::File(path) = &policy.audit.path
            && !path.parent().is_some_and(Path::is_dir)
        {
            mistakes.push(wrong(format!("audit.path {}: its folder is not there", path.display())));
        }
        let profiles = match policy.profiles(&prepared.roots, identity.uid, &accounts) {
            Ok(profiles) => profiles,
            Err(mistake) => {
                mistakes.push(mistake);
                Vec::new()
            }
        };
        PolicyError::refuse_all(mistakes)?;
        Ok(Self {
            file: file.into(),
            roots: prepared.roots,
            root_folders: prepared.found.into_iter().map(|found| found.folder).collect(),
            warnings: prepared.warnings,
            absent_roots: prepared.absent_optional,
            identity,
            profiles,
            accounts,
            policy,
        })
    }
}

/// Prints text for users, or one line of JSON for programs.
fn print_result<T: Serialize>(
    result: &T,
    out: &mut Output<'_>,
    render: impl FnOnce(&T) -> String,
) -> Result<(), CliFailure> {
    if out.json {
        return out.write_json_line(&serde_json::to_string(result).map_err(unexpected_result)?);
    }
    let text = render(result);
    out.write_text(&text)
}
