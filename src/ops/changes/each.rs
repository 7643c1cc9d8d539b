//! Runs the entries of a batch one by one, each on its own. Asks the supervisor about as many entries as possible in one
//! message.

use std::{collections::VecDeque, sync::Arc};

use super::{EntryPosition, EntryRun, Operation, PlannedChange, RequestedChange, warn_of_lost_attributes};
use crate::{
    broker::{Answer, Intent, Lease, Refusal},
    jail::{Call, Jail, Located, PlanMode, Planning, QuestionBatch},
    path::{JailPath, Symlinks},
    wire::Result,
};

/// Entries that are asked about together: as many as a message holds, and none that depends on another's outcome.
pub(super) fn run_each<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    entries: Vec<(usize, Result<RequestedChange<O::Parameters>>)>,
    operation: &mut O,
    outcomes: &mut Vec<Result<O::Output>>,
) {
    let mut entries = entries.into_iter().peekable();
    while entries.peek().is_some() {
        let mut together = QuestionBatch::default();
        let mut names: Vec<(Located, Intent)> = Vec::new();
        let mut chunk = Vec::new();
        while let Some((index, intended)) =
            entries.next_if(|(_, intended)| joins_message(jail, intended, &names, &mut together))
        {
            names.extend(intended.iter().flat_map(|intended| intended.names.clone()));
            chunk.push((index, intended));
        }
        run_chunk(jail, call, field, chunk, &names, operation, outcomes);
    }
}

/// An entry that failed to decode joins any message; the first entry always joins.
fn joins_message<P>(
    jail: &Jail,
    intended: &Result<RequestedChange<P>>,
    names: &[(Located, Intent)],
    together: &mut QuestionBatch,
) -> bool {
    let Ok(intended) = intended else { return true };
    // In a root that follows links, unrelated paths can lead into the same folder.
    let follows = |(name, _): &(Located, Intent)| jail.roots().root(&name.path).symlinks == Symlinks::Beneath;
    if !names.is_empty() && intended.names.iter().any(follows) {
        return false;
    }
    let depends = |(name, _): &(Located, Intent)| names.iter().any(|(other, _)| are_related(&name.path, &other.path));
    if intended.names.iter().any(depends) {
        return false;
    }
    let mut questions = intended.names.iter().map(|(name, intent)| name.question(*intent));
    questions.all(|question| together.admit(jail, &question)) || names.is_empty()
}

/// True for the same name, or if one is above the other.
fn are_related(a: &JailPath, b: &JailPath) -> bool {
    a.is_at_or_below(b) || b.is_at_or_below(a)
}

fn run_chunk<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    field: &'static str,
    chunk: Vec<(usize, Result<RequestedChange<O::Parameters>>)>,
    names: &[(Located, Intent)],
    operation: &mut O,
    outcomes: &mut Vec<Result<O::Output>>,
) {
    let mut answers = jail.ask_to_change(call, names).into_iter();
    let mut leases: Vec<Arc<Lease>> = Vec::with_capacity(names.len());
    let asked = chunk.into_iter().map(|(index, intended)| {
        let count = names_of(&intended).len();
        let answers = (0..count).map(|_| answers.next().unwrap_or(Err(Refusal::Busy))).collect();
        AnsweredEntry { index, intended, answers }
    });
    let mut asked: VecDeque<AnsweredEntry<O::Parameters>> = asked.collect();
    let mut made = Vec::new();
    while let Some(next) = asked.front() {
        if next.is_outdated(&made) {
            ask_again(jail, call, &mut asked, &made);
        }
        let Some(AnsweredEntry { index, intended, answers }) = asked.pop_front() else { break };
        let missing: Vec<FolderKey> = answers.iter().zip(names_of(&intended)).flat_map(missing_folders).collect();
        let outcome = intended.and_then(|intended| {
            leases.extend(answers.iter().flatten().filter_map(|parent| parent.lease.clone()));
            let mut entry_run = EntryRun::new(EntryPosition { field, index }, intended, answers);
            let outcome =
                entry_run.check_deadline(call).and_then(|()| plan_and_run(jail, call, &mut entry_run, operation));
            entry_run.conflict_to_stale(jail, call, outcome)
        });
        if outcome.is_ok() {
            made.extend(missing);
        }
        outcomes.push(outcome);
    }
    Lease::release_together(leases);
}

/// Plans one entry and executes the plan at once. A rename that would cross file systems is planned again, as a copy.
fn plan_and_run<O: Operation>(
    jail: &Jail,
    call: &mut Call,
    entry_run: &mut EntryRun<O::Parameters>,
    operation: &mut O,
) -> Result<O::Output> {
    loop {
        let PlannedChange { plan, output, lost_attributes } =
            operation.plan(call, entry_run, &mut Planning::new(PlanMode::Single))?;
        match plan.run(jail, call) {
            Ok(()) => {
                warn_of_lost_attributes(call, entry_run.position, &lost_attributes);
                return Ok(output);
            }
            Err(failed) if failed.is_other_file_system && !entry_run.is_cross_filesystem => {
                entry_run.is_cross_filesystem = true
            }
            Err(failed) => return Err(failed.error),
        }
    }
}

/// An entry with the answers to its questions.
struct AnsweredEntry<P> {
    index: usize,
    intended: Result<RequestedChange<P>>,
    answers: Vec<Answer>,
}

/// A folder, by its root and its path below it.
type FolderKey = (u16, Vec<u8>);

fn names_of<P>(intended: &Result<RequestedChange<P>>) -> &[(Located, Intent)] {
    intended.as_ref().map_or(&[], |intended| &intended.names)
}

/// The folders that were missing above a name when it was asked about, the outermost first.
fn missing_folders((answer, (name, _)): (&Answer, &(Located, Intent))) -> Vec<FolderKey> {
    let Ok(parent) = answer else { return Vec::new() };
    let above: Vec<usize> = memchr::memchr_iter(b'/', &parent.path).collect();
    let missing = above.len().saturating_sub(parent.missing);
    above[missing..].iter().map(|slash| (name.path.root(), parent.path[..*slash].to_vec())).collect()
}

impl<P> AnsweredEntry<P> {
    /// An earlier entry has made a folder that was missing when the questions of this one were answered.
    fn is_outdated(&self, made: &[FolderKey]) -> bool {
        let mut missing = self.answers.iter().zip(names_of(&self.intended)).flat_map(missing_folders);
        !made.is_empty() && missing.any(|folder| made.contains(&folder))
    }
}

/// Asks once more, in one message, for all entries whose answers are outdated.
fn ask_again<P>(jail: &Jail, call: &mut Call, asked: &mut VecDeque<AnsweredEntry<P>>, made: &[FolderKey]) {
    let outdated: Vec<usize> = (0..asked.len()).filter(|at| asked[*at].is_outdated(made)).collect();
    let names: Vec<(Located, Intent)> =
        outdated.iter().flat_map(|at| names_of(&asked[*at].intended)).cloned().collect();
    // The leases are kept meanwhile: a call that asks twice for a name has one lease, and it stays with the first answer.
    let mut answers = jail.ask_to_change(call, &names).into_iter();
    for at in outdated {
        let fresh = asked[at].answers.iter().map(|_| answers.next().unwrap_or(Err(Refusal::Busy))).collect();
        asked[at].answers = fresh;
    }
}
