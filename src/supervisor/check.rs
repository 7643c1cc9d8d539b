//! `stockaded --check`: what this kernel enforces, shown by a confined worker that really tries to escape.

use std::io::Write as _;

use serde::Serialize;

use super::{
    Stop,
    args::Args,
    start::{self, Source},
};
use crate::{
    VERSION,
    confine::probe::{self, Outcome, Probe},
    policy::RootArg,
    sys::{host, process},
    terms::{Enforced, Root},
};

#[derive(Serialize)]
struct Report {
    version: &'static str,
    kernel: String,
    min_landlock_abi: u32,
    #[serde(flatten)]
    enforced: Enforced,
    /// Of the first profile. `stockade check` derives from them which layer closes what.
    roots: Vec<Root>,
    /// A worker of each has tried.
    profiles: usize,
    /// Each once, however many profiles it went the same way in.
    attempts: Vec<Attempt>,
    holds: bool,
}

#[derive(PartialEq, Eq, Serialize)]
struct Attempt {
    name: &'static str,
    attempt: &'static str,
    layer: &'static str,
    expected: String,
    got: String,
    held: bool,
}

pub fn run(args: &Args) -> Result<(), Stop> {
    let mut roots = args.roots.clone();
    if args.policy.is_none() && roots.is_empty() {
        // Any folder will do to be jailed in; our own is there on every machine.
        let own =
            std::env::current_exe().map_err(|error| Stop::Failed(format!("own executable: {error}")))?;
        let path = own.parent().unwrap_or(&own).to_path_buf();
        roots.push(RootArg { path, mode: crate::path::Mode::Ro });
    }
    let args = Args { roots, socket: None, audit: None, ..args.clone() };
    let log = start::start_log(args.mode)?;
    let prepared = start::prepare(&args, log, |_, _, _| Ok(Vec::new()))?;
    let null = host::open_null().map_err(|errno| Stop::Failed(format!("/dev/null: {errno}")))?;
    start::confine_self(&prepared, &Source::One(null))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Failed(error.to_string()))?;
    let pools = &prepared.offer.pools;
    let first = pools.first().ok_or_else(|| Stop::Usage("the policy has no profile".into()))?;
    let mut attempts: Vec<Attempt> = Vec::new();
    for pool in pools {
        let worker = runtime.block_on(pool.blueprint.start()).map_err(Stop::NotEnforceable)?;
        worker.process.kill();
        for probe in probe::expected(&pool.blueprint.setup) {
            let attempt = attempt(probe, &worker.probes);
            if !attempts.contains(&attempt) {
                attempts.push(attempt);
            }
        }
    }
    let report = Report {
        version: VERSION,
        kernel: process::kernel_release(),
        min_landlock_abi: prepared.reloader.policy.min_landlock_abi,
        enforced: first.blueprint.setup.enforced,
        roots: first.blueprint.setup.roots.clone(),
        profiles: pools.len(),
        holds: attempts.iter().all(|attempt| attempt.held),
        attempts,
    };
    let text = serde_json::to_string(&report).map_err(|error| Stop::Failed(error.to_string()))?;
    // Not `println!`: a reader that has seen enough is no reason to panic.
    writeln!(std::io::stdout(), "{text}")
        .map_err(|error| Stop::Failed(format!("standard output: {error}")))?;
    if report.holds { Ok(()) } else { Err(Stop::NotEnforceable("the jail does not hold".into())) }
}

fn attempt(probe: &Probe, results: &[(u8, Outcome)]) -> Attempt {
    let outcome = results.iter().find(|(id, _)| *id == probe.id).map(|(_, outcome)| *outcome);
    Attempt {
        name: probe.name,
        attempt: probe.attempt,
        layer: probe.layer.name(),
        expected: probe
            .expected
            .iter()
            .map(|outcome| probe::describe(*outcome))
            .collect::<Vec<_>>()
            .join(" or "),
        got: outcome.map_or_else(|| "not attempted".into(), probe::describe),
        held: outcome.is_some_and(|outcome| probe.held(outcome)),
    }
}
