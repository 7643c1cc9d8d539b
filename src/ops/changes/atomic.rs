//! Runs the entries of an atomic batch: plans all of them, then executes all steps as one plan, or none. A dry batch is only planned.
//! Runs in the worker. Holds leases only while names change, unless other clients keep making its plans stale.

use super::{EntryPosition, EntryRun, Operation, ReadyEntry, ask_ahead, plan_entry};
use crate::{
    broker::{Intent, Lease},
    jail::{BatchFailure, Call, ChangePlan, Jail, Located, PlanMode, Planning},
    wire::{Code, Result},
};

/// How many times an atomic batch is planned. Each new plan means that another process has changed one of its names.
const MAX_PLANS: usize = 32;
/// Most plans that are made without leases. After that the batch holds the leases of its names while it is planned,
/// because clients that commit faster could otherwise make every plan stale.
const MAX_PLANS_WITHOUT_LEASES: usize = 3;

pub(super) fn run_atomic<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<ReadyEntry<O::Parameters>>,
    operation: &mut O,
) -> Vec<Result<O::Output>> {
    let count = ready.len();
    let rolled_back = match try_atomic(jail, call, field, ready, operation) {
        Ok(done) => return done.into_iter().map(Ok).collect(),
        Err(rolled_back) => rolled_back,
    };
    let others = rolled_back.error_for_others(field);
    let BatchFailure { entry, error, .. } = rolled_back;
    (0..count).map(|index| Err(if index == entry { error.clone() } else { others.clone() })).collect()
}

/// Plans all entries without a lease, then leases all names and commits, so that a batch delays others only while it commits.
/// If another client has changed a name in between, plans again; after a few conflicts with the leases held from the start.
fn try_atomic<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<ReadyEntry<O::Parameters>>,
    operation: &mut O,
) -> Result<Vec<O::Output>, BatchFailure> {
    let is_dry = ready.iter().all(|ready| ready.dry_run);
    let mut entry_runs = Vec::with_capacity(ready.len());
    for ReadyEntry { index, intended, .. } in ready {
        let intended = intended.map_err(|error| BatchFailure::permanent(index, error))?;
        entry_runs.push(EntryRun::new(EntryPosition { field, index }, intended, Vec::new()));
    }
    if is_dry {
        let mode = PlanMode::DryRun { atomic: true };
        return plan_all(jail, call, &mut entry_runs, mode, operation).map(|(_, replies)| replies);
    }
    let names: Vec<(Located, Intent)> = entry_runs.iter().flat_map(|entry_run| entry_run.names.clone()).collect();
    let warnings = call.warnings.clone();
    let mut plans = 0;
    loop {
        plans += 1;
        call.warnings = warnings.clone();
        let leases_first = plans > MAX_PLANS_WITHOUT_LEASES;
        match plan_and_commit(jail, call, &mut entry_runs, &names, leases_first, operation) {
            Err(BatchFailure { is_conflict: true, .. }) if plans < MAX_PLANS && call.checkpoint().is_ok() => {}
            Err(rolled_back) => {
                let BatchFailure { entry, error, .. } = &rolled_back;
                let settled = entry_runs[*entry].conflict_to_stale::<()>(jail, call, Err(error.clone()));
                let error = settled.err().unwrap_or_else(|| error.clone());
                return Err(BatchFailure { error, ..rolled_back });
            }
            done => return done,
        }
    }
}

fn plan_and_commit<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    entry_runs: &mut [EntryRun<O::Parameters>],
    names: &[(Located, Intent)],
    leases_first: bool,
    operation: &mut O,
) -> Result<Vec<O::Output>, BatchFailure> {
    let leased = leases_first.then(|| jail.lease_all(call, names));
    let (mut plan, outputs) = plan_all(jail, call, entry_runs, PlanMode::Atomic, operation)?;
    let (leases, folders) = leased.unwrap_or_else(|| jail.lease_all(call, names));
    plan.set_folders(folders);
    let committed = plan.run(jail, call);
    Lease::release_together(leases);
    committed.map(|()| outputs)
}

/// Plans the entries in order; each sees what the entries before it will have done.
fn plan_all<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    entry_runs: &mut [EntryRun<O::Parameters>],
    mode: PlanMode,
    operation: &mut O,
) -> Result<(ChangePlan, Vec<O::Output>), BatchFailure> {
    operation.restart();
    let (mut planning, mut whole) = (Planning::new(mode), ChangePlan::default());
    let mut outputs = Vec::with_capacity(entry_runs.len());
    for index in 0..entry_runs.len() {
        if entry_runs[index].answers.is_empty() {
            call.set_takes_leases(false);
            ask_ahead(jail, call, &mut entry_runs[index..]);
        }
        let planned = plan_entry(jail, call, &mut entry_runs[index], &mut planning, operation).map_err(|error| {
            let is_conflict = error.code == Code::Busy;
            BatchFailure { is_conflict, ..BatchFailure::permanent(index, error) }
        })?;
        whole.append(index, planned.plan);
        outputs.push(planned.output);
    }
    Ok((whole, outputs))
}
