//! Batches that change something: each entry succeeds or fails alone, or with `atomic` all of them together; with `dry_run`
//! nothing is changed. The supervisor is asked about several names in one message, and leases are taken in one order for all
//! clients. An atomic batch takes them after all entries are planned and staged. An entry sees what the entries before it
//! have done, or would have done.

mod each;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    names::{named, named_as, shown, shown_path},
    outcomes, versions,
};
use crate::{
    broker::{Answer, Intent, Lease, Refusal},
    jail::{Call, Claim, Commit, DryRun, Entry, Foreseen, Jail, Located, RolledBack, Transaction},
    path::{JailPath, RawPath},
    wire::{Code, Error, Result, decode::decode},
};

/// How often an atomic batch is planned. Each new plan means that another process has changed one of its names.
const MAX_PLANS: usize = 32;
/// How often it is planned without leases. After that it keeps other clients of the service from its names while it is planned:
/// clients that commit faster could otherwise make every plan stale.
const MAX_PLANS_WITHOUT_LEASES: usize = 3;

/// The list that a request holds, and where in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// `files` or `paths`.
    pub(super) field: &'static str,
    pub(super) index: usize,
}

impl Place {
    pub(super) fn text(self) -> String {
        format!("{}[{}]", self.field, self.index)
    }
}

/// An entry of a batch, as far as it can be understood without the disk.
pub(super) struct Wish<P> {
    /// Its names as sent, for a failed result.
    sent: Vec<RawPath>,
    plan: Result<Plan<P>>,
}

/// What an entry wants, and the names it wants it of.
pub(super) struct Plan<P> {
    pub(super) what: P,
    pub(super) names: Vec<(Located, Intent)>,
    /// The etag that the first name must have.
    pub(super) if_match: Option<String>,
    /// As the entry itself says.
    pub(super) dry_run: Option<bool>,
}

/// What the request says about all of its entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) atomic: Option<bool>,
    pub(super) dry_run: Option<bool>,
}

/// An entry whose turn has come.
pub(super) struct Turn<P> {
    pub(super) what: P,
    pub(super) place: Place,
    names: Vec<(Located, Intent)>,
    answers: Vec<Option<Answer>>,
    if_match: Option<String>,
}

/// What became of an entry.
pub(super) struct Done<T> {
    /// Its names: canonical; as sent when the entry failed.
    pub(super) names: Vec<(String, Option<String>)>,
    pub(super) dry_run: bool,
    pub(super) outcome: Result<T>,
}

/// Request-level checks: C210 for an empty batch, C213 for one that is too long.
pub(super) fn check_len(call: &Call, field: &str, len: usize) -> Result<()> {
    let most = call.limits.max_batch_entries as usize;
    if len == 0 {
        return Err(Error::bad_input(format!("{field}: empty; give at least one entry")));
    }
    if len > most {
        let text = format!("{field}: {len} entries, at most {most} in one call; split the batch");
        return Err(Error::new(Code::C213, text));
    }
    Ok(())
}

/// What the kernel did not let a new file keep of the old one.
pub(super) fn warn_of_lost(call: &mut Call, place: Place, attributes: &[String]) {
    for name in attributes {
        call.warnings.push(format!("{}: the attribute {name} could not be kept", place.text()));
    }
}

/// The entries of a list, each decoded alone. `names` finds the names in one that may be malformed otherwise; `plan` says
/// what an entry wants.
pub(super) fn wishes<E, P>(
    call: &mut Call,
    field: &'static str,
    values: Vec<Value>,
    of_path: Option<fn(String) -> E>,
    names: &[(&str, &str)],
    mut plan: impl FnMut(&mut Call, E) -> Result<Plan<P>>,
) -> Vec<Wish<P>>
where
    E: DeserializeOwned + JsonSchema + 'static,
{
    let mut wishes = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let sent = names.iter().filter_map(|(text, bytes)| sent(&value, text, bytes)).collect();
        let at = Place { field, index }.text();
        let entry = match (value, of_path) {
            (Value::String(path), Some(of_path)) => Ok(of_path(path)),
            (value, Some(_)) if !value.is_object() => Err(Error::bad_input(format!(
                "{at}: expected a string or an object, for example \"src/main.rs\" or {{\"path\": \"src/main.rs\"}}"
            ))),
            (value, _) => decode(value, &at, &mut call.warnings),
        };
        wishes.push(Wish { sent, plan: entry.and_then(|entry| plan(call, entry)) });
    }
    wishes
}

fn sent(value: &Value, text: &str, bytes: &str) -> Option<RawPath> {
    let field = |name| value.get(name).and_then(Value::as_str);
    match value {
        Value::String(path) => Some(RawPath::text(path.as_str())),
        _ => named(field(text), field(bytes)).ok().flatten().or_else(|| field(text).map(RawPath::text)),
    }
}

/// A name that an entry must have.
pub(super) fn required(name: &str, text: Option<&str>, bytes: Option<&str>) -> Result<RawPath> {
    named_as(name, text, bytes)?.ok_or_else(|| {
        Error::bad_input(format!("{name}: missing; expected a path, for example \"src/main.rs\""))
    })
}

/// Whether an entry is dry. `false` in a dry call is a contradiction (C210).
pub(super) fn is_dry(call: Option<bool>, entry: Option<bool>, place: Place) -> Result<bool> {
    match (call, entry) {
        (Some(true), Some(false)) => Err(Error::bad_input(format!(
            "{}.dry_run: false, but the call says dry_run: true; leave out one of the two",
            place.text()
        ))),
        (call, entry) => Ok(call == Some(true) || entry == Some(true)),
    }
}

/// An entry, and whether it is dry.
struct Ready<P> {
    index: usize,
    plan: Result<Plan<P>>,
    dry_run: bool,
}

impl<P> Ready<P> {
    fn new(field: &'static str, index: usize, plan: Result<Plan<P>>, how: How) -> Self {
        let own = plan.as_ref().ok().and_then(|plan| plan.dry_run);
        match is_dry(how.dry_run, own, Place { field, index }) {
            Ok(dry_run) => Self { index, plan, dry_run },
            Err(error) => Self { index, plan: Err(error), dry_run: true },
        }
    }
}

/// Runs all entries. `each` does what one wants, through the `Commit` it is given. Fails as a whole, before anything happens,
/// only for an atomic batch of which some entries are dry.
pub(super) fn run<P, T: outcomes::Done>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    how: How,
    wishes: Vec<Wish<P>>,
    mut each: impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<Done<T>>> {
    let (sent, plans): (Vec<_>, Vec<_>) = wishes.into_iter().map(|wish| (wish.sent, wish.plan)).unzip();
    let unprotected = |plan: Plan<P>| {
        plan.names.iter().try_for_each(|(name, intent)| jail.check_unprotected(call, name, *intent))?;
        Ok(plan)
    };
    let plans: Vec<_> = plans.into_iter().map(|plan| plan.and_then(unprotected)).collect();
    let ready: Vec<Ready<P>> =
        plans.into_iter().enumerate().map(|(index, plan)| Ready::new(field, index, plan, how)).collect();
    let located: Vec<Vec<JailPath>> = ready
        .iter()
        .map(|ready| {
            let names = ready.plan.iter().flat_map(|plan| &plan.names);
            names.map(|(name, _)| name.path.clone()).collect()
        })
        .collect();
    let dry: Vec<bool> = ready.iter().map(|ready| ready.dry_run).collect();
    let matched: Vec<Option<String>> =
        ready.iter().map(|ready| ready.plan.as_ref().ok().and_then(|plan| plan.if_match.clone())).collect();
    let outcomes = if how.atomic == Some(true) {
        check_all_dry_or_none(field, &ready)?;
        run_atomic(jail, call, field, ready, &mut each)
    } else {
        run_in_order(jail, call, field, ready, &mut each)
    };
    for (index, (outcome, matched)) in outcomes.iter().zip(matched).enumerate() {
        outcomes::note(jail, call, index, &located[index], dry[index], matched, outcome);
    }
    let results = sent.into_iter().zip(located).zip(dry).zip(outcomes);
    let done = results.map(|(((sent, located), dry_run), outcome)| {
        let names = match &outcome {
            Ok(_) => located.iter().map(|path| shown_path(jail, path)).collect(),
            Err(_) => sent.iter().map(|sent| shown(sent.as_bytes())).collect(),
        };
        Done { names, dry_run, outcome }
    });
    Ok(done.collect())
}

/// C210 for an atomic batch with dry and real entries: it would be neither all nor none.
fn check_all_dry_or_none<P>(field: &str, ready: &[Ready<P>]) -> Result<()> {
    let mut understood = ready.iter().filter(|ready| ready.plan.is_ok());
    let Some(first) = understood.next() else { return Ok(()) };
    match understood.find(|other| other.dry_run != first.dry_run) {
        None => Ok(()),
        Some(other) => Err(Error::bad_input(format!(
            "{field}[{}].dry_run: differs from {field}[{}].dry_run; an atomic batch is dry as a whole or not at all: give \
             dry_run once, beside {field}",
            other.index, first.index
        ))),
    }
}

/// Entries that succeed or fail alone. Those that are not dry are run together as far as they do not depend on each other.
fn run_in_order<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<Ready<P>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Vec<Result<T>> {
    let mut outcomes = Vec::with_capacity(ready.len());
    let mut foreseen = DryRun::new(false);
    let mut rest = ready.into_iter().peekable();
    while let Some(Ready { index, plan, dry_run }) = rest.next() {
        if dry_run {
            let commit = &mut Commit::Dry(&mut foreseen);
            outcomes.push(plan.and_then(|plan| {
                let mut turn = Turn::new(Place { field, index }, plan, Vec::new());
                run_alone(jail, call, &mut turn, commit, each)
            }));
            continue;
        }
        let mut real = vec![(index, plan)];
        while let Some(Ready { index, plan, .. }) = rest.next_if(|next| !next.dry_run) {
            real.push((index, plan));
        }
        for (name, _) in real.iter().filter_map(|(_, plan)| plan.as_ref().ok()).flat_map(|plan| &plan.names) {
            foreseen.forget(&name.path);
        }
        each::run_each(jail, call, field, real, each, &mut outcomes);
    }
    outcomes
}

/// Runs one entry of an atomic batch or a dry run. Takes no lease, because nothing changes here.
fn run_alone<P, T>(
    jail: &Jail,
    call: &mut Call,
    turn: &mut Turn<P>,
    commit: &mut Commit<'_>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<T> {
    call.take_leases(false);
    turn.ask(jail, call, commit.foreseen());
    let outcome = turn.check_time(call).and_then(|()| each(call, turn, commit));
    let outcome = turn.settle(jail, call, outcome);
    // Closes the descriptors.
    turn.answers.clear();
    call.take_leases(true);
    outcome
}

impl<T> Done<T> {
    /// The n-th name; nothing for an entry that did not name it.
    pub(super) fn name(&mut self, index: usize) -> (String, Option<String>) {
        self.names.get_mut(index).map(std::mem::take).unwrap_or_default()
    }
}

impl<P> Turn<P> {
    fn new(place: Place, plan: Plan<P>, answers: Vec<Answer>) -> Self {
        let Plan { what, names, if_match, .. } = plan;
        Self { what, place, names, answers: answers.into_iter().map(Some).collect(), if_match }
    }

    /// Asks the supervisor about the names. `foreseen` is what earlier entries of the batch will have changed.
    fn ask(&mut self, jail: &Jail, call: &mut Call, foreseen: Option<&Foreseen>) {
        let answers = jail.ask_to_change(call, &self.names).into_iter().zip(&self.names);
        let foresee = |(answer, (name, intent)): (Answer, &(Located, Intent))| match foreseen {
            Some(foreseen) => jail.foresee_answer(name, *intent, answer, foreseen),
            None => answer,
        };
        self.answers = answers.map(foresee).map(Some).collect();
    }

    /// Claims the n-th name as it will be after the entries before this one. Call once per name.
    pub(super) fn claim(
        &mut self,
        jail: &Jail,
        call: &mut Call,
        commit: &Commit<'_>,
        index: usize,
    ) -> Result<Claim> {
        let (name, intent) = self.names[index].clone();
        let answer = self.take_answer(jail, call, index);
        // Denied names never come this far.
        let may_be_missing = matches!(answer, Err(Refusal::NotFound));
        let claim = match commit.foreseen() {
            None => jail.claim_answered(call, &name, intent, answer),
            Some(foreseen) => jail.claim_foreseen(call, &name, intent, answer, foreseen),
        };
        claim.map_err(|error| self.stale_if_missing(index, may_be_missing, error))
    }

    /// Opens the n-th name to read it, for one that does not change. None for a folder that an earlier entry will make.
    pub(super) fn open(
        &mut self,
        jail: &Jail,
        call: &mut Call,
        commit: &Commit<'_>,
        index: usize,
    ) -> Result<Option<Entry>> {
        let (name, intent) = self.names[index].clone();
        let answer = self.take_answer(jail, call, index);
        let may_be_missing = matches!(answer, Ok(_) | Err(Refusal::NotFound));
        let opened = match commit.foreseen() {
            None => jail.open_answered(call, &name, intent, answer).map(Some),
            Some(foreseen) => jail.open_foreseen(call, &name, intent, answer, foreseen),
        };
        opened.map_err(|error| self.stale_if_missing(index, may_be_missing, error))
    }

    fn take_answer(&mut self, jail: &Jail, call: &mut Call, index: usize) -> Answer {
        let (name, intent) = &self.names[index];
        let asked =
            self.answers[index].take().or_else(|| jail.ask(call, std::slice::from_ref(name), *intent).pop());
        asked.unwrap_or(Err(Refusal::Busy))
    }

    /// C219 instead of C211 for the file that `if_match` is about.
    fn stale_if_missing(&self, index: usize, may_be_missing: bool, error: Error) -> Error {
        let is_stale = may_be_missing && index == 0 && self.if_match.is_some() && error.code == Code::C211;
        if is_stale { versions::stale(&self.names[0].0.sent, None) } else { error }
    }

    /// The folder of the n-th name does not exist; not to be told from one that may not be searched.
    pub(super) fn is_missing(&self, index: usize) -> bool {
        matches!(self.answers[index], Some(Err(Refusal::NotFound)))
    }

    pub(super) fn name(&self, index: usize) -> &Located {
        &self.names[index].0
    }

    pub(super) fn if_match(&self) -> Option<&str> {
        self.if_match.as_deref()
    }

    /// C220 for an entry that is not begun because the deadline has passed; unless the time passed in waiting for a name,
    /// whose own error says so.
    fn check_time(&self, call: &Call) -> Result<()> {
        let waited =
            |answer: &Option<Answer>| matches!(answer, Some(Err(Refusal::Busy | Refusal::Unsettled)));
        let waited = self.answers.iter().any(waited);
        if waited { Ok(()) } else { call.checkpoint() }
    }

    /// With `if_match`, a name that changed under our hands is simply stale.
    fn settle<T>(&self, jail: &Jail, call: &mut Call, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error) if error.code == Code::C222 => match &self.if_match {
                Some(wanted) => {
                    Err(versions::stale_now(jail, call, &self.names[0].0, wanted).unwrap_or(error))
                }
                None => Err(error),
            },
            other => other,
        }
    }
}

fn run_atomic<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<Ready<P>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Vec<Result<T>> {
    let count = ready.len();
    let rolled_back = match try_atomic(jail, call, field, ready, each) {
        Ok(done) => return done.into_iter().map(Ok).collect(),
        Err(rolled_back) => rolled_back,
    };
    let others = rolled_back.error_for_others(field);
    let RolledBack { entry, error, .. } = rolled_back;
    (0..count).map(|index| Err(if index == entry { error.clone() } else { others.clone() })).collect()
}

/// Plans all entries without a lease, then leases all names and commits, so that a batch delays others only while it commits.
/// If another client has changed a name in between, plans again; after a few conflicts with the leases held from the start.
fn try_atomic<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<Ready<P>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<T>, RolledBack> {
    let is_dry = ready.iter().all(|ready| ready.dry_run);
    let mut turns = Vec::with_capacity(ready.len());
    for Ready { index, plan, .. } in ready {
        let plan = plan.map_err(|error| RolledBack::of(index, error))?;
        turns.push(Turn::new(Place { field, index }, plan, Vec::new()));
    }
    if is_dry {
        return plan_all(jail, call, &mut turns, &mut Commit::Dry(&mut DryRun::new(true)), each);
    }
    let names: Vec<(Located, Intent)> = turns.iter().flat_map(|turn| turn.names.clone()).collect();
    let warnings = call.warnings.clone();
    let mut plans = 0;
    loop {
        plans += 1;
        call.warnings = warnings.clone();
        let leases = if plans > MAX_PLANS_WITHOUT_LEASES { jail.lease_all(call, &names) } else { Vec::new() };
        match plan_and_commit(jail, call, &mut turns, &names, leases, each) {
            Err(RolledBack { is_conflict: true, .. }) if plans < MAX_PLANS && call.checkpoint().is_ok() => {}
            Err(RolledBack { entry, error, .. }) => {
                let settled = turns[entry].settle::<()>(jail, call, Err(error.clone()));
                return Err(RolledBack::of(entry, settled.err().unwrap_or(error)));
            }
            done => return done,
        }
    }
}

fn plan_and_commit<P, T>(
    jail: &Jail,
    call: &mut Call,
    turns: &mut [Turn<P>],
    names: &[(Located, Intent)],
    mut leases: Vec<Arc<Lease>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<T>, RolledBack> {
    let mut transaction = Transaction::default();
    let done = plan_all(jail, call, turns, &mut Commit::Together(&mut transaction, 0), each)?;
    if leases.is_empty() {
        leases = jail.lease_all(call, names);
    }
    let committed = transaction.commit(jail, call);
    Lease::give_back_together(leases);
    committed.map(|()| done)
}

/// Plans the entries in order; each sees what the entries before it will have done.
fn plan_all<P, T>(
    jail: &Jail,
    call: &mut Call,
    turns: &mut [Turn<P>],
    commit: &mut Commit<'_>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<T>, RolledBack> {
    let plan = |(index, turn): (usize, &mut Turn<P>)| {
        if let Commit::Together(_, entry) = commit {
            *entry = index;
        }
        run_alone(jail, call, turn, commit, each).map_err(|error| RolledBack {
            entry: index,
            is_conflict: error.code == Code::C222,
            error,
            is_left: false,
        })
    };
    turns.iter_mut().enumerate().map(plan).collect()
}
