//! Batches that change something: each entry succeeds or fails alone, or with `atomic` all of them together; with `dry_run`
//! nothing is changed. The supervisor is asked about several names in one message, and leases are taken in one order for all
//! clients. An entry sees what the entries before it have done, or would have done.

mod each;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    names::{named, named_as, shown, shown_path},
    versions,
};
use crate::{
    broker::{Answer, Intent, Refusal},
    jail::{Call, Claim, Commit, DryRun, Entry, Jail, Located, RolledBack, Transaction},
    path::{JailPath, RawPath},
    wire::{Code, Error, Result, decode::decode},
};

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
pub(super) fn run<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    how: How,
    wishes: Vec<Wish<P>>,
    mut each: impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<Done<T>>> {
    let (sent, plans): (Vec<_>, Vec<_>) = wishes.into_iter().map(|wish| (wish.sent, wish.plan)).unzip();
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
    let outcomes = if how.atomic == Some(true) {
        check_all_dry_or_none(field, &ready)?;
        run_atomic(jail, call, field, ready, &mut each)
    } else {
        run_in_order(jail, call, field, ready, &mut each)
    };
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
            outcomes.push(plan.and_then(|plan| run_alone(jail, call, field, (index, plan), commit, each).1));
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

/// One entry whose names are asked about by themselves.
fn run_alone<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    (index, plan): (usize, Plan<P>),
    commit: &mut Commit<'_>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> (Turn<P>, Result<T>) {
    let mut answers = jail.ask_to_change(call, &plan.names);
    if let Some(foreseen) = commit.foreseen() {
        let asked = plan.names.iter().zip(answers);
        answers = asked
            .map(|((name, intent), answer)| jail.foresee_answer(name, *intent, answer, foreseen))
            .collect();
    }
    let mut turn = Turn::new(Place { field, index }, plan, answers);
    let outcome = turn.check_time(call).and_then(|()| each(call, &mut turn, commit));
    let outcome = turn.settle(jail, call, outcome);
    // Closes the descriptors.
    turn.answers.clear();
    (turn, outcome)
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

    /// A late entry is not even begun, and says so; unless the time went by in waiting for somebody's lease.
    fn check_time(&self, call: &Call) -> Result<()> {
        let waited = self.answers.iter().any(|answer| matches!(answer, Some(Err(Refusal::Busy))));
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
    let RolledBack { entry, error } = rolled_back;
    (0..count).map(|index| Err(if index == entry { error.clone() } else { others.clone() })).collect()
}

fn try_atomic<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<Ready<P>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<T>, RolledBack> {
    let is_dry = ready.iter().all(|ready| ready.dry_run);
    let mut understood = Vec::with_capacity(ready.len());
    for Ready { index, plan, .. } in ready {
        understood.push(plan.map_err(|error| RolledBack { entry: index, error })?);
    }
    let names: Vec<(Located, Intent)> = understood.iter().flat_map(|plan| plan.names.clone()).collect();
    // Held until the last step is done or undone.
    let _leases = jail.lease_all(call, &names);
    let (mut transaction, mut dry_run) = (Transaction::default(), DryRun::new(true));
    let (mut turns, mut done) = (Vec::with_capacity(understood.len()), Vec::with_capacity(understood.len()));
    for (index, plan) in understood.into_iter().enumerate() {
        let mut commit = match is_dry {
            true => Commit::Dry(&mut dry_run),
            false => Commit::Together(&mut transaction, index),
        };
        let (turn, outcome) = run_alone(jail, call, field, (index, plan), &mut commit, each);
        match outcome {
            Ok(result) => done.push(result),
            Err(error) => return Err(RolledBack { entry: index, error }),
        }
        turns.push(turn);
    }
    transaction.commit(jail, call).map_err(|RolledBack { entry, error }| {
        let error = match turns[entry].settle::<()>(jail, call, Err(error.clone())) {
            Err(settled) => settled,
            Ok(()) => error,
        };
        RolledBack { entry, error }
    })?;
    Ok(done)
}
