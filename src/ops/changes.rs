//! Batches that change something: each entry succeeds or fails alone, or with `atomic` all of them together. Names are
//! asked about together, their leases taken in one order for all clients.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    names::{named, named_as, shown, shown_path},
    versions,
};
use crate::{
    broker::{Answer, Intent, Lease, Refusal},
    jail::{Call, Claim, Commit, Entry, Jail, Located, RolledBack, Together, Transaction},
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

/// Runs all entries. `each` does what one wants, through the `Commit` it is given.
pub(super) fn run<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    atomic: Option<bool>,
    wishes: Vec<Wish<P>>,
    mut each: impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Vec<Done<T>> {
    let (sent, plans): (Vec<_>, Vec<_>) = wishes.into_iter().map(|wish| (wish.sent, wish.plan)).unzip();
    let located: Vec<Vec<JailPath>> = plans
        .iter()
        .map(|plan| {
            plan.iter().flat_map(|plan| plan.names.iter().map(|(name, _)| name.path.clone())).collect()
        })
        .collect();
    let outcomes = if atomic == Some(true) {
        run_atomic(jail, call, field, plans, &mut each)
    } else {
        run_each(jail, call, field, plans, &mut each)
    };
    let results = sent.into_iter().zip(located).zip(outcomes);
    results
        .map(|((sent, located), outcome)| {
            let names = match &outcome {
                Ok(_) => located.iter().map(|path| shown_path(jail, path)).collect(),
                Err(_) => sent.iter().map(|sent| shown(sent.as_bytes())).collect(),
            };
            Done { names, outcome }
        })
        .collect()
}

impl<T> Done<T> {
    /// The n-th name; nothing for an entry that did not name it.
    pub(super) fn name(&mut self, index: usize) -> (String, Option<String>) {
        self.names.get_mut(index).map(std::mem::take).unwrap_or_default()
    }
}

impl<P> Turn<P> {
    /// Claims the n-th name. Each once.
    pub(super) fn claim(&mut self, jail: &Jail, call: &mut Call, index: usize) -> Result<Claim> {
        let (name, intent) = &self.names[index];
        match self.answers[index].take() {
            Some(answer) => jail.claim_answered(call, name, *intent, answer),
            None => jail.claim(call, name, *intent),
        }
    }

    /// Opens the n-th name to read it, for one that does not change.
    pub(super) fn open(&mut self, jail: &Jail, call: &mut Call, index: usize) -> Result<Entry> {
        let (name, intent) = &self.names[index];
        match self.answers[index].take() {
            Some(answer) => jail.open_answered(call, name, *intent, answer),
            None => jail.open(call, name, *intent),
        }
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

/// Entries that are asked about together: as many as a message holds, and none that depends on another's outcome.
fn run_each<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    plans: Vec<Result<Plan<P>>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Vec<Result<T>> {
    let mut outcomes = Vec::with_capacity(plans.len());
    let mut plans = plans.into_iter().enumerate().peekable();
    while plans.peek().is_some() {
        let mut together = Together::default();
        let mut names: Vec<(Located, Intent)> = Vec::new();
        let mut chunk = Vec::new();
        while let Some((index, plan)) = plans.next_if(|(_, plan)| joins(jail, plan, &names, &mut together)) {
            names.extend(plan.iter().flat_map(|plan| plan.names.clone()));
            chunk.push((index, plan));
        }
        run_chunk(jail, call, field, chunk, &names, each, &mut outcomes);
    }
    outcomes
}

/// One that asks nothing joins any message; the first always does.
fn joins<P>(
    jail: &Jail,
    plan: &Result<Plan<P>>,
    names: &[(Located, Intent)],
    together: &mut Together,
) -> bool {
    let Ok(plan) = plan else { return true };
    let depends =
        |(name, _): &(Located, Intent)| names.iter().any(|(other, _)| are_related(&name.path, &other.path));
    if plan.names.iter().any(depends) {
        return false;
    }
    let admitted =
        plan.names.iter().filter(|(name, intent)| together.admit(jail, &name.question(*intent))).count();
    admitted == plan.names.len() || names.is_empty()
}

/// The same name, or one above the other.
fn are_related(a: &JailPath, b: &JailPath) -> bool {
    let is_above = |above: &[u8], path: &[u8]| match path.strip_prefix(above) {
        Some(rest) => rest.is_empty() || above.is_empty() || rest[0] == b'/',
        None => false,
    };
    a.root() == b.root() && (is_above(a.rel(), b.rel()) || is_above(b.rel(), a.rel()))
}

fn run_chunk<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    chunk: Vec<(usize, Result<Plan<P>>)>,
    names: &[(Located, Intent)],
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
    outcomes: &mut Vec<Result<T>>,
) {
    let mut answers = jail.ask_to_change(call, names).into_iter();
    let mut leases: Vec<Arc<Lease>> = Vec::with_capacity(names.len());
    for (index, plan) in chunk {
        let outcome = plan.and_then(|plan| {
            let count = plan.names.len();
            let answers: Vec<Option<Answer>> =
                (0..count).map(|_| Some(answers.next().unwrap_or(Err(Refusal::Busy)))).collect();
            leases.extend(answers.iter().flatten().flatten().filter_map(|parent| parent.lease.clone()));
            let Plan { what, names, if_match } = plan;
            let mut turn = Turn { what, place: Place { field, index }, names, answers, if_match };
            let outcome = turn.check_time(call).and_then(|()| each(call, &mut turn, &mut Commit::Now));
            turn.settle(jail, call, outcome)
        });
        outcomes.push(outcome);
    }
    Lease::give_back_together(leases);
}

fn run_atomic<P, T>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    plans: Vec<Result<Plan<P>>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Vec<Result<T>> {
    let count = plans.len();
    let rolled_back = match try_atomic(jail, call, field, plans, each) {
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
    plans: Vec<Result<Plan<P>>>,
    each: &mut impl FnMut(&mut Call, &mut Turn<P>, &mut Commit<'_>) -> Result<T>,
) -> Result<Vec<T>, RolledBack> {
    let mut understood = Vec::with_capacity(plans.len());
    for (entry, plan) in plans.into_iter().enumerate() {
        understood.push(plan.map_err(|error| RolledBack { entry, error })?);
    }
    let names: Vec<(Located, Intent)> = understood.iter().flat_map(|plan| plan.names.clone()).collect();
    // Held until the last step is done or undone.
    let _leases = jail.lease_all(call, &names);
    let mut transaction = Transaction::default();
    let (mut turns, mut done) = (Vec::with_capacity(understood.len()), Vec::with_capacity(understood.len()));
    for (index, Plan { what, names, if_match }) in understood.into_iter().enumerate() {
        let answers = jail.ask_to_change(call, &names).into_iter().map(Some).collect();
        let mut turn = Turn { what, place: Place { field, index }, names, answers, if_match };
        let outcome = turn
            .check_time(call)
            .and_then(|()| each(call, &mut turn, &mut Commit::Together(&mut transaction, index)));
        match turn.settle(jail, call, outcome) {
            Ok(result) => done.push(result),
            Err(error) => return Err(RolledBack { entry: index, error }),
        }
        // The descriptors go; the leases stay.
        turn.answers.clear();
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
