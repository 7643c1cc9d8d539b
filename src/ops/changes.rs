//! Batches that change something: each entry succeeds or fails alone, or with `atomic` all of them together; with `dry_run`
//! nothing is changed. The supervisor is asked about several names in one message, and leases are taken in one order for all
//! clients. An atomic batch takes them after all entries are planned and staged. An entry sees what the entries before it
//! have done, or would have done.

mod atomic;
mod each;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    names::{decode_path, decode_path_field, encode_name, encode_path},
    outcomes, versions,
};
use crate::{
    broker::{Answer, Intent, Refusal},
    jail::{Call, ChangePlan, Claim, ForeseenChanges, Jail, JailEntry, Located, PlanMode, Planning, QuestionBatch},
    path::{JailPath, RawPath},
    wire::{Code, Error, Result, decode::decode},
};

/// The position of an entry in its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryPosition {
    /// `files` or `paths`.
    pub(super) field: &'static str,
    pub(super) index: usize,
}

impl EntryPosition {
    pub(super) fn text(self) -> String {
        format!("{}[{}]", self.field, self.index)
    }
}

/// A decoded entry of a batch. The disk was not asked yet.
pub(super) struct DecodedEntry<P> {
    /// Its names as sent, for a failed result.
    sent: Vec<RawPath>,
    intended: Result<RequestedChange<P>>,
}

/// The change that an entry asks for, and its names.
pub(super) struct RequestedChange<P> {
    pub(super) parameters: P,
    pub(super) names: Vec<(Located, Intent)>,
    /// The etag that the first name must have.
    pub(super) if_match: Option<String>,
    /// The entry's own `dry_run`.
    pub(super) dry_run: Option<bool>,
}

/// Fields of the request that apply to all entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeOptions {
    pub(super) atomic: Option<bool>,
    pub(super) dry_run: Option<bool>,
}

/// An entry that is being planned, with the supervisor's answers about its names.
pub(super) struct EntryRun<P> {
    pub(super) parameters: P,
    pub(super) position: EntryPosition,
    names: Vec<(Located, Intent)>,
    answers: Vec<Option<Answer>>,
    if_match: Option<String>,
    /// A rename was impossible, because source and destination are on different file systems.
    pub(super) is_cross_filesystem: bool,
}

/// A function that changes something: how one entry of its batches becomes a plan. `run` decides when the plan is executed.
pub(super) trait Operation {
    /// An entry, checked as far as possible without the disk.
    type Parameters;
    type Output: outcomes::AuditedChange;

    /// Called before the entries are planned, for the first time or again after a conflict.
    fn restart(&mut self) {}

    /// Checks one entry and plans its change. Changes nothing.
    fn plan(
        &mut self,
        call: &mut Call,
        entry_run: &mut EntryRun<Self::Parameters>,
        planning: &mut Planning,
    ) -> Result<PlannedChange<Self::Output>>;
}

/// The plan of an entry, and the reply once it was executed.
pub(super) struct PlannedChange<T> {
    pub(super) plan: ChangePlan,
    pub(super) output: T,
    /// Names of attributes that a new file cannot keep of the old one.
    pub(super) lost_attributes: Vec<String>,
}

impl<T> PlannedChange<T> {
    /// For an entry that needs no change.
    pub(super) fn unchanged(output: T) -> Self {
        Self { plan: ChangePlan::default(), output, lost_attributes: Vec::new() }
    }
}

/// The result of an entry.
pub(super) struct ChangeResult<T> {
    /// Its names: canonical; as sent when the entry failed.
    pub(super) names: Vec<(String, Option<String>)>,
    pub(super) dry_run: bool,
    pub(super) outcome: Result<T>,
}

/// Request-level checks: C210 for an empty batch, C213 for one that is too long.
pub(super) fn check_entry_count(call: &Call, field: &str, len: usize) -> Result<()> {
    let most = call.limits.max_batch_entries as usize;
    if len == 0 {
        return Err(Error::bad_input(format!("{field}: empty; give at least one entry")));
    }
    if len > most {
        let text = format!("{field}: {len} entries, at most {most} in one call; split the batch");
        return Err(Error::new(Code::TooLarge, text));
    }
    Ok(())
}

/// Decodes the entries of a list, each alone. `names` finds the names in an entry that may be malformed otherwise; `prepare` turns a
/// decoded entry into an `RequestedChange`.
pub(super) fn decode_entries<E, P>(
    call: &mut Call,
    field: &'static str,
    values: Vec<Value>,
    of_path: Option<fn(String) -> E>,
    names: &[(&str, &str)],
    mut prepare: impl FnMut(&mut Call, E) -> Result<RequestedChange<P>>,
) -> Vec<DecodedEntry<P>>
where
    E: DeserializeOwned + JsonSchema + 'static,
{
    let mut entries = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let sent = names.iter().filter_map(|(text, bytes)| path_as_sent(&value, text, bytes)).collect();
        let at = EntryPosition { field, index }.text();
        let entry = match (value, of_path) {
            (Value::String(path), Some(of_path)) => Ok(of_path(path)),
            (value, Some(_)) if !value.is_object() => Err(Error::bad_input(format!(
                "{at}: expected a string or an object, for example \"src/main.rs\" or {{\"path\": \"src/main.rs\"}}"
            ))),
            (value, _) => decode(value, &at, &mut call.warnings),
        };
        entries.push(DecodedEntry { sent, intended: entry.and_then(|entry| prepare(call, entry)) });
    }
    entries
}

fn path_as_sent(value: &Value, text: &str, bytes: &str) -> Option<RawPath> {
    let field = |name| value.get(name).and_then(Value::as_str);
    match value {
        Value::String(path) => Some(RawPath::text(path.as_str())),
        _ => decode_path(field(text), field(bytes)).ok().flatten().or_else(|| field(text).map(RawPath::text)),
    }
}

/// A name that an entry must have.
pub(super) fn required_path(name: &str, text: Option<&str>, bytes: Option<&str>) -> Result<RawPath> {
    decode_path_field(name, text, bytes)?
        .ok_or_else(|| Error::bad_input(format!("{name}: missing; expected a path, for example \"src/main.rs\"")))
}

/// True if an entry is a dry run. `false` in an entry of a dry call is a contradiction (C210).
pub(super) fn resolve_dry_run(call: Option<bool>, entry: Option<bool>, position: EntryPosition) -> Result<bool> {
    match (call, entry) {
        (Some(true), Some(false)) => Err(Error::bad_input(format!(
            "{}.dry_run: false, but the call says dry_run: true; leave out one of the two",
            position.text()
        ))),
        (call, entry) => Ok(call == Some(true) || entry == Some(true)),
    }
}

/// An entry, and whether it is dry.
struct ReadyEntry<P> {
    index: usize,
    intended: Result<RequestedChange<P>>,
    dry_run: bool,
}

impl<P> ReadyEntry<P> {
    fn new(field: &'static str, index: usize, intended: Result<RequestedChange<P>>, options: ChangeOptions) -> Self {
        let own = intended.as_ref().ok().and_then(|intended| intended.dry_run);
        match resolve_dry_run(options.dry_run, own, EntryPosition { field, index }) {
            Ok(dry_run) => Self { index, intended, dry_run },
            Err(error) => Self { index, intended: Err(error), dry_run: true },
        }
    }
}

/// Runs all entries. Fails as a whole, before anything happens, only for an atomic batch of which some entries are dry.
pub(super) fn run<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    options: ChangeOptions,
    entries: Vec<DecodedEntry<O::Parameters>>,
    mut operation: O,
) -> Result<Vec<ChangeResult<O::Output>>> {
    let (sent, intended): (Vec<_>, Vec<_>) = entries.into_iter().map(|entry| (entry.sent, entry.intended)).unzip();
    let unprotected = |intended: RequestedChange<O::Parameters>| {
        let mut names = intended.names.iter();
        names.try_for_each(|(name, intent)| jail.check_unprotected(call, name, *intent))?;
        Ok(intended)
    };
    let intended: Vec<_> = intended.into_iter().map(|intended| intended.and_then(unprotected)).collect();
    let ready = intended.into_iter().enumerate();
    let ready: Vec<ReadyEntry<O::Parameters>> =
        ready.map(|(index, intended)| ReadyEntry::new(field, index, intended, options)).collect();
    let located: Vec<Vec<JailPath>> = ready
        .iter()
        .map(|ready| {
            let names = ready.intended.iter().flat_map(|intended| &intended.names);
            names.map(|(name, _)| name.path.clone()).collect()
        })
        .collect();
    let dry: Vec<bool> = ready.iter().map(|ready| ready.dry_run).collect();
    let if_match = |ready: &ReadyEntry<O::Parameters>| ready.intended.as_ref().ok()?.if_match.clone();
    let matched: Vec<Option<String>> = ready.iter().map(if_match).collect();
    let outcomes = if options.atomic == Some(true) {
        check_all_dry_or_none(field, &ready)?;
        atomic::run_atomic(jail, call, field, ready, &mut operation)
    } else {
        operation.restart();
        run_in_order(jail, call, field, ready, &mut operation)
    };
    for (index, (outcome, matched)) in outcomes.iter().zip(matched).enumerate() {
        let is_stat_version = matched.as_deref().is_some_and(versions::is_stat_version);
        // The audit names versions of the content only.
        let matched = matched.filter(|_| !is_stat_version);
        if is_stat_version && outcome.is_ok() {
            let position = EntryPosition { field, index }.text();
            call.warnings.push(format!("{position}.if_match: {}", versions::STAT_WARNING));
        }
        outcomes::record_outcome(jail, call, index, &located[index], dry[index], matched, outcome);
    }
    let results = sent.into_iter().zip(located).zip(dry).zip(outcomes);
    let done = results.map(|(((sent, located), dry_run), outcome)| {
        let names = match &outcome {
            Ok(_) => located.iter().map(|path| encode_path(jail, path)).collect(),
            Err(_) => sent.iter().map(|sent| encode_name(sent.as_bytes())).collect(),
        };
        ChangeResult { names, dry_run, outcome }
    });
    Ok(done.collect())
}

/// C210 for an atomic batch with dry and real entries: it would be neither all nor none.
fn check_all_dry_or_none<P>(field: &str, ready: &[ReadyEntry<P>]) -> Result<()> {
    let mut understood = ready.iter().filter(|ready| ready.intended.is_ok());
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
fn run_in_order<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    ready: Vec<ReadyEntry<O::Parameters>>,
    operation: &mut O,
) -> Vec<Result<O::Output>> {
    let mut outcomes = Vec::with_capacity(ready.len());
    let mut planning = Planning::new(PlanMode::DryRun { atomic: false });
    let mut rest = ready.into_iter().peekable();
    while let Some(ReadyEntry { index, intended, dry_run }) = rest.next() {
        if dry_run {
            outcomes.push(intended.and_then(|intended| {
                let mut entry_run = EntryRun::new(EntryPosition { field, index }, intended, Vec::new());
                plan_entry(jail, call, &mut entry_run, &mut planning, operation).map(|planned| planned.output)
            }));
            continue;
        }
        let mut real = vec![(index, intended)];
        while let Some(ReadyEntry { index, intended, .. }) = rest.next_if(|next| !next.dry_run) {
            real.push((index, intended));
        }
        let intended = real.iter().filter_map(|(_, intended)| intended.as_ref().ok());
        for (name, _) in intended.flat_map(|intended| &intended.names) {
            planning.forget(&name.path);
        }
        each::run_each(jail, call, field, real, operation, &mut outcomes);
    }
    outcomes
}

/// Plans one entry of an atomic batch or a dry run. Takes no lease, because nothing changes here.
fn plan_entry<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    entry_run: &mut EntryRun<O::Parameters>,
    planning: &mut Planning,
    operation: &mut O,
) -> Result<PlannedChange<O::Output>> {
    call.set_takes_leases(false);
    if entry_run.answers.is_empty() {
        ask_ahead(jail, call, std::slice::from_mut(entry_run));
    }
    if let Some(foreseen) = planning.foreseen() {
        entry_run.apply_foreseen(jail, foreseen);
    }
    let planned = entry_run.check_deadline(call).and_then(|()| operation.plan(call, entry_run, planning));
    let planned = entry_run.conflict_to_stale(jail, call, planned);
    if let Ok(planned) = &planned {
        warn_of_lost_attributes(call, entry_run.position, &planned.lost_attributes);
    }
    // Closes the descriptors.
    entry_run.answers.clear();
    call.set_takes_leases(true);
    planned
}

/// Asks the supervisor about the names of the first turns: as many as one message holds, at least those of one.
fn ask_ahead<P>(jail: &Jail, call: &mut Call, entry_runs: &mut [EntryRun<P>]) {
    let (mut together, mut names) = (QuestionBatch::default(), Vec::new());
    let fits = |entry_run: &&EntryRun<P>| {
        entry_run.names.iter().all(|(name, intent)| together.admit(jail, &name.question(*intent)))
    };
    let count = entry_runs.iter().take_while(fits).count().clamp(1, entry_runs.len());
    entry_runs[..count].iter().for_each(|entry_run| names.extend(entry_run.names.iter().cloned()));
    let mut answers = jail.ask_to_change(call, &names).into_iter();
    for entry_run in &mut entry_runs[..count] {
        entry_run.answers = entry_run.names.iter().map(|_| answers.next()).collect();
    }
}

fn warn_of_lost_attributes(call: &mut Call, position: EntryPosition, attributes: &[String]) {
    for name in attributes {
        call.warnings.push(format!("{}: the attribute {name} could not be kept", position.text()));
    }
}

impl<T> ChangeResult<T> {
    /// The n-th name; nothing for an entry that did not name it.
    pub(super) fn name(&mut self, index: usize) -> (String, Option<String>) {
        self.names.get_mut(index).map(std::mem::take).unwrap_or_default()
    }
}

impl<P> EntryRun<P> {
    fn new(position: EntryPosition, intended: RequestedChange<P>, answers: Vec<Answer>) -> Self {
        let RequestedChange { parameters, names, if_match, .. } = intended;
        let answers = answers.into_iter().map(Some).collect();
        Self { parameters, position, names, answers, if_match, is_cross_filesystem: false }
    }

    /// Corrects the answers for what earlier entries of the batch will have changed.
    fn apply_foreseen(&mut self, jail: &Jail, foreseen: &ForeseenChanges) {
        for (answer, (name, intent)) in self.answers.iter_mut().zip(&self.names) {
            *answer = answer.take().map(|answer| jail.adjust_answer(name, *intent, answer, foreseen));
        }
    }

    /// Claims the n-th name as it will be after the entries before this one. Call once per name.
    pub(super) fn claim(&mut self, jail: &Jail, call: &mut Call, planning: &Planning, index: usize) -> Result<Claim> {
        let (name, intent) = self.names[index].clone();
        let answer = self.take_answer(jail, call, index);
        // Denied names never come this far.
        let may_be_missing = matches!(answer, Err(Refusal::NotFound));
        let claim = match planning.foreseen() {
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
        planning: &Planning,
        index: usize,
    ) -> Result<Option<JailEntry>> {
        let (name, intent) = self.names[index].clone();
        let answer = self.take_answer(jail, call, index);
        let may_be_missing = matches!(answer, Ok(_) | Err(Refusal::NotFound));
        let opened = match planning.foreseen() {
            None => jail.open_answered(call, &name, intent, answer).map(Some),
            Some(foreseen) => jail.open_foreseen(call, &name, intent, answer, foreseen),
        };
        opened.map_err(|error| self.stale_if_missing(index, may_be_missing, error))
    }

    fn take_answer(&mut self, jail: &Jail, call: &mut Call, index: usize) -> Answer {
        let (name, intent) = &self.names[index];
        let asked = self.answers[index].take().or_else(|| jail.ask(call, std::slice::from_ref(name), *intent).pop());
        asked.unwrap_or(Err(Refusal::Busy))
    }

    /// C219 instead of C211 for the file that `if_match` is about.
    fn stale_if_missing(&self, index: usize, may_be_missing: bool, error: Error) -> Error {
        let is_stale = may_be_missing && index == 0 && self.if_match.is_some() && error.code == Code::NotFound;
        if is_stale { versions::stale_error(&self.names[0].0.sent, None) } else { error }
    }

    /// True if the folder of the n-th name does not exist or may not be searched; the two cannot be distinguished.
    pub(super) fn is_parent_missing(&self, index: usize) -> bool {
        matches!(self.answers[index], Some(Err(Refusal::NotFound)))
    }

    pub(super) fn name(&self, index: usize) -> &Located {
        &self.names[index].0
    }

    pub(super) fn if_match(&self) -> Option<&str> {
        self.if_match.as_deref()
    }

    /// C220 for an entry that was not begun before the deadline, unless the time passed while it waited for a name: then the error
    /// of that name is reported.
    fn check_deadline(&self, call: &Call) -> Result<()> {
        let waited = |answer: &Option<Answer>| matches!(answer, Some(Err(Refusal::Busy | Refusal::Unsettled)));
        let waited = self.answers.iter().any(waited);
        if waited { Ok(()) } else { call.checkpoint() }
    }

    /// With `if_match`, a conflict (C222) becomes C219 if the file has another version now.
    fn conflict_to_stale<T>(&self, jail: &Jail, call: &mut Call, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error) if error.code == Code::Busy => match &self.if_match {
                Some(wanted) => {
                    Err(versions::stale_error_if_changed(jail, call, &self.names[0].0, wanted).unwrap_or(error))
                }
                None => Err(error),
            },
            other => other,
        }
    }
}
