//! `stockade policy`: what a policy says, before a service runs under it. Reads the policy and looks at this machine;
//! changes nothing and asks no service.
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
    Outcome,
    args::{PolicyArgs, PolicyCommand},
    failure::{Failure, unexpected},
    output::Output,
};
use crate::{
    policy::{self, Policy, PolicyError, PreparedRoot, Profile, RunAs, Starter},
    sys::user::Accounts,
};

pub(super) fn run(args: &PolicyArgs, out: &mut Output<'_>) -> Outcome {
    match &args.command {
        PolicyCommand::Check(args) => effective::run(args, out),
        PolicyCommand::Explain(args) => explain::run(args, out),
    }
}

/// A policy that was understood, and that a service which this user starts would obey.
fn load(file: &Path, starter: &Starter) -> Result<Policy, Failure> {
    if let Err(error) = file.metadata() {
        return Err(Failure::Usage(format!("{}: {error}", file.display())));
    }
    let hint = "policy/default.toml has every key with its default and its reason";
    Policy::load(file, starter).map_err(|error| Failure::Policy(error, hint))
}

/// The text is good, but no service would start with it here.
fn not_here(error: PolicyError) -> Failure {
    Failure::Policy(error, "`stockade policy check --offline` looks at the text alone")
}

/// The same with everything it names on this machine: what a service would start with.
struct Here {
    policy: Policy,
    file: PathBuf,
    roots: Vec<PreparedRoot>,
    /// One for each root: the folder itself, opened.
    folders: Vec<OwnedFd>,
    /// Optional roots that are not there.
    warnings: Vec<String>,
    /// Their names, where those lie inside other roots.
    absent: Vec<PathBuf>,
    accounts: Accounts,
    identity: Identity,
    profiles: Vec<Profile>,
}

/// Whose rights the service has, if root starts it.
#[derive(Debug, Clone, Serialize)]
struct Identity {
    uid: u32,
    gid: u32,
    because: String,
}

impl Here {
    fn find(policy: Policy, file: &Path) -> Result<Self, PolicyError> {
        let wrong = |message: String| PolicyError { place: policy.source.clone(), message };
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
        let identity = Identity { uid: becomes.uid, gid: becomes.gid, because };
        policy.socket_gid(&accounts).map_err(wrong)?;
        if let policy::AuditPath::File(path) = &policy.audit.path
            && !path.parent().is_some_and(Path::is_dir)
        {
            return Err(wrong(format!("audit.path {}: its folder is not there", path.display())));
        }
        let profiles = policy.profiles(&prepared.roots, identity.uid, &accounts)?;
        Ok(Self {
            file: file.into(),
            roots: prepared.roots,
            folders: prepared.found.into_iter().map(|found| found.folder).collect(),
            warnings: prepared.warnings,
            absent: prepared.absent,
            identity,
            profiles,
            accounts,
            policy,
        })
    }
}

/// Text for people, one line of JSON for programs.
fn show<T: Serialize>(
    result: &T,
    out: &mut Output<'_>,
    render: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    if out.json {
        return out.json_line(&serde_json::to_string(result).map_err(unexpected)?);
    }
    let text = render(result);
    out.text(&text)
}
