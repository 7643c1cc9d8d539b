//! `stockaded --check` reports what this kernel enforces. A confined worker tries to escape, and the report lists each
//! attempt.

use std::io::Write as _;

use serde_json::json;

use super::{
    SupervisorError,
    args::SupervisorArgs,
    start::{self, ClientSource},
};
use crate::{
    VERSION,
    broker::setup::Setup,
    confine::escape,
    policy::RootArg,
    sys::{host, process},
};

pub fn run(args: &SupervisorArgs) -> Result<(), SupervisorError> {
    let mut roots = args.roots.clone();
    if args.policy.is_none() && roots.is_empty() {
        // The check needs some folder as a root. The folder of the executable exists on every machine.
        let own =
            std::env::current_exe().map_err(|error| SupervisorError::Failed(format!("own executable: {error}")))?;
        let path = own.parent().unwrap_or(&own).to_path_buf();
        roots.push(RootArg { path, mode: crate::path::Mode::Ro });
    }
    let args = SupervisorArgs { roots, socket: None, audit: None, ..args.clone() };
    let log = start::start_log(args.mode)?;
    let prepared = start::prepare(&args, log, |_, _, _| Ok(Vec::new()))?;
    let null = host::open_null().map_err(|errno| SupervisorError::Failed(format!("/dev/null: {errno}")))?;
    start::confine_self(&prepared, &ClientSource::SingleConnection(null))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| SupervisorError::Failed(error.to_string()))?;
    let pools = &prepared.policy_in_force.pools;
    let first = pools.first().ok_or_else(|| SupervisorError::Usage("the policy has no profile".into()))?;
    // Lists each attempt once if it ended the same way in several profiles.
    let (mut attempts, mut holds) = (Vec::new(), true);
    for pool in pools {
        let worker = runtime.block_on(pool.blueprint.start_worker()).map_err(SupervisorError::NotEnforceable)?;
        worker.process.kill();
        for probe in escape::expected_attempts(&pool.blueprint.setup) {
            let outcome = worker.escape_results.iter().find(|(id, _)| *id == probe.id).map(|(_, outcome)| *outcome);
            let held = outcome.is_some_and(|outcome| probe.has_held(outcome));
            let expected: Vec<_> = probe.expected.iter().map(|outcome| escape::describe_result(*outcome)).collect();
            let attempt = json!({
                "name": probe.name,
                "attempt": probe.description,
                "layer": probe.layer.name(),
                "expected": expected.join(" or "),
                "got": outcome.map_or_else(|| "not attempted".into(), escape::describe_result),
                "held": held,
            });
            holds &= held;
            if !attempts.contains(&attempt) {
                attempts.push(attempt);
            }
        }
    }
    let Setup { enforced, roots, .. } = &first.blueprint.setup;
    let report = json!({
        "version": VERSION,
        "kernel": process::kernel_release(),
        "min_landlock_abi": prepared.reloader.policy.min_landlock_abi,
        "level": enforced.level,
        "landlock_abi": enforced.landlock_abi,
        "resolver": enforced.resolver,
        // The roots of the first profile. `stockade check` derives from them which layer blocks which attempt.
        "roots": roots,
        // One worker of each profile has made the attempts.
        "profiles": pools.len(),
        "attempts": attempts,
        "holds": holds,
    });
    // Not `println!`, which panics if the reader has closed the pipe.
    writeln!(std::io::stdout(), "{report}")
        .map_err(|error| SupervisorError::Failed(format!("standard output: {error}")))?;
    if holds { Ok(()) } else { Err(SupervisorError::NotEnforceable("the jail does not hold".into())) }
}
