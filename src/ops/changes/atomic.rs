//! Runs the entries of an atomic batch: plans all of them, then executes all steps as one plan, or none. A dry batch is only planned.
//! Runs in the worker. Holds leases only while names change, unless other clients keep making its plans stale.

use super::{Operation, Place, Ready, Turn, ask_ahead, plan_one};
use crate::{
    broker::{Intent, Lease},
    jail::{Call, Jail, Located, Plan, PlanMode, Planning, RolledBack},
    wire::{Code, Result},
};

/// How often an atomic batch is planned. Each new plan means that another process has changed one of its names.
const MAX_PLANS: usize = 32;
/// How often it is planned without leases. After that it keeps other clients of the service from its names while it is planned:
/// clients that commit faster could otherwise make every plan stale.
const MAX_PLANS_WITHOUT_LEASES: usize = 3;

pub(super) fn run_atomic<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<Ready<O::Wanted>>,
    operation: &mut O,
) -> Vec<Result<O::Reply>> {
    let count = ready.len();
    let rolled_back = match try_atomic(jail, call, field, ready, operation) {
        Ok(done) => return done.into_iter().map(Ok).collect(),
        Err(rolled_back) => rolled_back,
    };
    let others = rolled_back.error_for_others(field);
    let RolledBack { entry, error, .. } = rolled_back;
    (0..count).map(|index| Err(if index == entry { error.clone() } else { others.clone() })).collect()
}

/// Plans all entries without a lease, then leases all names and commits, so that a batch delays others only while it commits.
/// If another client has changed a name in between, plans again; after a few conflicts with the leases held from the start.
fn try_atomic<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<Ready<O::Wanted>>,
    operation: &mut O,
) -> Result<Vec<O::Reply>, RolledBack> {
    let is_dry = ready.iter().all(|ready| ready.dry_run);
    let mut turns = Vec::with_capacity(ready.len());
    for Ready { index, intended, .. } in ready {
        let intended = intended.map_err(|error| RolledBack::of(index, error))?;
        turns.push(Turn::new(Place { field, index }, intended, Vec::new()));
    }
    if is_dry {
        let mode = PlanMode::Dry { atomic: true };
        return plan_all(jail, call, &mut turns, mode, operation).map(|(_, replies)| replies);
    }
    let names: Vec<(Located, Intent)> = turns.iter().flat_map(|turn| turn.names.clone()).collect();
    let warnings = call.warnings.clone();
    let mut plans = 0;
    loop {
        plans += 1;
        call.warnings = warnings.clone();
        let leases_first = plans > MAX_PLANS_WITHOUT_LEASES;
        match plan_and_commit(jail, call, &mut turns, &names, leases_first, operation) {
            Err(RolledBack { is_conflict: true, .. }) if plans < MAX_PLANS && call.checkpoint().is_ok() => {}
            Err(rolled_back) => {
                let RolledBack { entry, error, .. } = &rolled_back;
                let settled = turns[*entry].settle::<()>(jail, call, Err(error.clone()));
                let error = settled.err().unwrap_or_else(|| error.clone());
                return Err(RolledBack { error, ..rolled_back });
            }
            done => return done,
        }
    }
}

fn plan_and_commit<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    turns: &mut [Turn<O::Wanted>],
    names: &[(Located, Intent)],
    leases_first: bool,
    operation: &mut O,
) -> Result<Vec<O::Reply>, RolledBack> {
    let leased = leases_first.then(|| jail.lease_all(call, names));
    let (mut plan, replies) = plan_all(jail, call, turns, PlanMode::Atomic, operation)?;
    let (leases, folders) = leased.unwrap_or_else(|| jail.lease_all(call, names));
    plan.set_folders(folders);
    let committed = plan.run(jail, call);
    Lease::give_back_together(leases);
    committed.map(|()| replies)
}

/// Plans the entries in order; each sees what the entries before it will have done.
fn plan_all<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    turns: &mut [Turn<O::Wanted>],
    mode: PlanMode,
    operation: &mut O,
) -> Result<(Plan, Vec<O::Reply>), RolledBack> {
    operation.restart();
    let (mut planning, mut whole) = (Planning::new(mode), Plan::default());
    let mut replies = Vec::with_capacity(turns.len());
    for index in 0..turns.len() {
        if turns[index].answers.is_empty() {
            call.take_leases(false);
            ask_ahead(jail, call, &mut turns[index..]);
        }
        let planned = plan_one(jail, call, &mut turns[index], &mut planning, operation).map_err(|error| {
            let is_conflict = error.code == Code::Busy;
            RolledBack { is_conflict, ..RolledBack::of(index, error) }
        })?;
        whole.append(index, planned.plan);
        replies.push(planned.reply);
    }
    Ok((whole, replies))
}
