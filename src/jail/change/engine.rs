//! Runs in the worker: executes the steps of a plan, checks what arrived and what came away, syncs, and undoes everything if one
//! step fails. The only code that changes users' names; see "Changes" in docs/ARCHITECTURE.md.
//! Trusts the plan. Does not trust what lies on disk: another process may change any name between two calls.
//! Never destroys what it cannot put back: it writes that down for recovery, keeps it, and tells the client.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::{
    batch_failure::BatchFailure,
    folders::{NameInFolder, ResolvedFolders, split},
    plan::{ChangePlan, InPlaceChange, PlanStep, Rename, RenameEnd, StepChange},
    remove::{destroy_content, is_empty_folder},
    undo::UndoError,
};
use crate::{
    broker::Intent,
    jail::{
        Call, Jail, Located, refusal,
        state::journal::{FileIdentity, JournalRecord},
        state::workspace::{Note, exit_for_recovery},
    },
    path::JailPath,
    sys::{
        Errno,
        change::{self, IfNameTaken},
        fs::{self, FileKind, FileStat, OFlags, OpenRules},
    },
    wire::{Code, Error, Result},
};

/// Attempts to take an entry away, each with another name of our own, if other processes plant our names.
const TRIES: usize = 8;

/// Executes and undoes steps in one root.
pub(in crate::jail) struct ChangeEngine<'a> {
    pub(in crate::jail) jail: &'a Jail,
    pub(in crate::jail) call: &'a Call,
    pub(in crate::jail) root: JailPath,
    /// The state folder. Only recovery needs it, because a journal holds paths below it instead of descriptors.
    pub(in crate::jail) state_folder: Option<BorrowedFd<'a>>,
    pub(in crate::jail) folders: ResolvedFolders,
}

/// What a step has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepEffect {
    /// The step changed names, and can be undone.
    Undoable,
    /// The step changed names, and cannot be undone.
    Final,
    /// The step changed nothing, because another process had done the same before.
    Unchanged,
}

/// A plan whose steps were executed. `finish` destroys what they have displaced, `undo` puts it back.
pub(in crate::jail) struct ExecutedPlan<'a> {
    engine: ChangeEngine<'a>,
    plan: ChangePlan,
    effects: Vec<StepEffect>,
    /// The note of a plan that needs one: see `Plan::needs_journal`.
    note: Option<Note>,
}

/// Why a step failed: the error for the client, and the kernel's reason if it was the kernel that refused.
pub(super) struct StepFailure {
    pub(super) error: Error,
    errno: Option<Errno>,
}

impl From<Error> for StepFailure {
    fn from(error: Error) -> Self {
        Self { error, errno: None }
    }
}

impl ChangePlan {
    /// Executes all steps, or none.
    pub fn run(self, jail: &Jail, call: &Call) -> Result<(), BatchFailure> {
        // The process does not exit before this guard is dropped.
        let _running = jail.workspaces.begin_change();
        if self.steps.is_empty() { Ok(()) } else { self.run_steps(jail, call) }
    }

    fn run_steps(mut self, jail: &Jail, call: &Call) -> Result<(), BatchFailure> {
        let next = self.take_next();
        let first = self.execute(jail, call)?;
        if let Some(next) = next
            && let Err(failed) = next.run_steps(jail, call)
        {
            let undone = first.undo(failed.entry, failed.error.into());
            return Err(BatchFailure {
                is_undo_incomplete: undone.is_undo_incomplete || failed.is_undo_incomplete,
                ..undone
            });
        }
        first.finish();
        Ok(())
    }

    fn execute<'a>(self, jail: &'a Jail, call: &'a Call) -> Result<ExecutedPlan<'a>, BatchFailure> {
        let first = &self.steps[0];
        let (entry, root) = (first.entry, first.name.path.root());
        let before = |error| BatchFailure::permanent(entry, error);
        call.checkpoint().map_err(before)?;
        let root = jail.roots.check(root, b"").map_err(|wrong| before(Error::io(&first.name.sent, wrong)))?;
        let mut plan = self;
        let folders = std::mem::take(&mut plan.folders);
        let engine = ChangeEngine { jail, call, root, state_folder: None, folders };
        let note = if plan.needs_journal() { Some(engine.write_note(&plan).map_err(before)?) } else { None };
        ExecutedPlan { engine, plan, effects: Vec::new(), note }.execute()
    }
}

impl<'a> ExecutedPlan<'a> {
    fn execute(mut self) -> Result<Self, BatchFailure> {
        for index in 0..self.plan.steps.len() {
            let mut tries = 1..TRIES;
            while let Err(failed) = self.engine.execute(&self.plan.steps[index], &mut self.effects) {
                if !(failed.errno == Some(Errno::EXIST) && self.renew_temporary_name(index) && tries.next().is_some()) {
                    let entry = self.plan.steps[index].entry;
                    return Err(self.undo(entry, failed));
                }
            }
        }
        match self.sync_and_commit().and_then(|()| self.destroy_tree()) {
            Ok(()) => Ok(self),
            Err((entry, error)) => Err(self.undo(entry, error.into())),
        }
    }

    /// Chooses another name of our own for what a step takes away. The old name can only be taken if another process planted it.
    /// Returns false for a plan with a note, which already holds the old name.
    fn renew_temporary_name(&mut self, index: usize) -> bool {
        let StepChange::Rename(rename) = &mut self.plan.steps[index].change else { return false };
        let (RenameEnd::Temporary(spot), None) = (&mut rename.to, &self.note) else { return false };
        let ChangeEngine { jail, call, .. } = self.engine;
        let workspace = jail.workspaces.open(jail, call, spot.root.root());
        workspace.map(|workspace| *spot = workspace.new_temporary_name()).is_some()
    }

    /// After the last step: syncs the folders and completes the note. An error names the entry whose folder could not be synced.
    fn sync_and_commit(&mut self) -> Result<(), (usize, Error)> {
        let is_durable = self.engine.jail.settings.durable;
        if is_durable {
            self.sync_folders()?;
        }
        let Some(note) = &mut self.note else { return Ok(()) };
        let last = self.plan.steps.last().map_or(0, |step| step.entry);
        let failed = |errno| (last, refusal::io("the service's own state", errno));
        note.commit().map_err(failed)?;
        if is_durable { note.sync().map_err(failed) } else { Ok(()) }
    }

    /// Syncs each folder once, however many of its names have changed.
    fn sync_folders(&self) -> Result<(), (usize, Error)> {
        let mut synced = std::collections::BTreeSet::new();
        let done = self.plan.steps.iter().zip(&self.effects).filter(|(_, did)| **did != StepEffect::Unchanged);
        for (step, path) in done.flat_map(|(step, _)| step.paths().map(move |path| (step, path))) {
            if !synced.insert(split(path).0) {
                continue;
            }
            let name = match self.engine.open_name(path, &step.name.sent) {
                // A later step has moved or removed the folder, and its rename is synced with the folder above it.
                Err(error) if matches!(error.code, Code::NotFound | Code::Io) => continue,
                name => name.map_err(|error| (step.entry, error))?,
            };
            change::sync_folder(name.dir.as_fd(), name.open_rules)
                .map_err(|errno| (step.entry, self.engine.change_error(step, &name, errno)))?;
        }
        Ok(())
    }

    /// Destroys the folder that was taken away, under the rules of its old path: a denied entry may have appeared in it.
    fn destroy_tree(&self) -> Result<(), (usize, Error)> {
        let (Some(tree), Some(StepEffect::Undoable)) = (&self.plan.removed_tree, self.effects.last()) else {
            return Ok(());
        };
        let Some(PlanStep { entry, change: StepChange::Rename(rename), .. }) = self.plan.steps.last() else {
            return Ok(());
        };
        let Some(spot) = rename.to.temporary_name() else { return Ok(()) };
        let ChangeEngine { jail, call, .. } = self.engine;
        destroy_content(jail, call, (&tree.name, &tree.real_path), spot.dir_and_name(), spot.open_rules)
            .map_err(|error| (*entry, error))
    }

    /// Makes the change final: destroys what was displaced.
    fn finish(self) {
        let Self { plan, note, engine, .. } = self;
        // The note goes first: without it recovery undoes nothing any more.
        drop(note);
        plan.finish(engine.jail);
    }

    /// Undoes all steps, the last first. What cannot be put back is kept and written down for recovery. If the disk is at fault,
    /// the process then ends, and the client gets its error after recovery: see `exit_for_recovery`.
    fn undo(self, entry: usize, failed: StepFailure) -> BatchFailure {
        let Self { mut engine, mut plan, effects: did, note } = self;
        let StepFailure { error, errno } = failed;
        let is_done = |index: &usize| did.get(*index) == Some(&StepEffect::Undoable);
        let done: Vec<usize> = (0..plan.steps.len()).filter(is_done).collect();
        let note = note.and_then(Note::retract);
        let undone = done.iter().rev().map(|index| engine.undo_step(&plan.steps[*index]));
        let left: Vec<UndoError> = undone.filter_map(Result::err).collect();
        if left.is_empty() {
            let is_conflict = matches!(error.code, Code::NotFound | Code::Exists | Code::Busy);
            let is_other_file_system = errno == Some(Errno::XDEV);
            return BatchFailure { entry, error, is_conflict, is_undo_incomplete: false, is_other_file_system };
        }
        plan.keep_temporary_names();
        let is_written = match note {
            Some(note) => {
                note.keep();
                true
            }
            None => engine.leave_to_recovery(&plan, &done),
        };
        plan.keep_for_recovery();
        if is_written && left.iter().any(|failed| failed.is_disk_error) {
            exit_for_recovery();
        }
        BatchFailure { is_undo_incomplete: true, ..BatchFailure::permanent(entry, refusal::with_left_over_note(error)) }
    }
}

impl ChangeEngine<'_> {
    /// Writes all steps to a note, before the first.
    fn write_note(&self, plan: &ChangePlan) -> Result<Note> {
        let failed = |errno| refusal::io("the service's own state", errno);
        let workspace = self.jail.workspaces.open(self.jail, self.call, self.root.root());
        let workspace = workspace.ok_or_else(|| failed(Errno::ACCESS))?;
        let steps = plan.steps.iter().map(PlanStep::journal_step).collect::<Option<_>>();
        let steps = steps.ok_or_else(|| failed(Errno::INVAL))?;
        let note = workspace.write_note(&JournalRecord::Batch { steps }).map_err(failed)?;
        if self.jail.settings.durable {
            workspace.sync(&note).map_err(failed)?;
        }
        Ok(note)
    }

    /// Finds the folder of a user's name: among those that the call holds, or by asking the supervisor again, under all rules.
    pub(super) fn open_name(&self, path: &[u8], sent: &str) -> Result<NameInFolder> {
        let (folder, leaf) = split(path);
        if let Some(dir) = self.folders.find(self.root.root(), folder) {
            let (dir, how) = (Arc::clone(dir), self.jail.open_rules(&self.root.join(path)));
            return Ok(NameInFolder { dir, leaf: leaf.to_vec(), open_rules: how, _lease: None });
        }
        // A client cannot name such a path. It can only come from a planted note or from a worker whose checks are broken.
        let path = self.jail.roots.check(self.root.root(), path).map_err(|_| Error::not_found(sent))?;
        let name = Located::new(self.jail, path, sent)?;
        let answer = self.jail.ask_afresh(self.call, &name, Intent::Write);
        let claim = self.jail.claim_answered(self.call, &name, Intent::Write, answer)?;
        // Steps hold real paths, so a link on the way is new, and its target was never checked.
        if *claim.path() != name.path {
            return Err(refusal::changed(sent));
        }
        Ok(claim.into())
    }

    fn open_end(&self, end: &RenameEnd, sent: &str) -> Result<NameInFolder> {
        match end.temporary_name() {
            Some(spot) => Ok(spot.into()),
            None => self.open_name(end.path_in_root().unwrap_or_default(), sent),
        }
    }

    fn execute(&mut self, step: &PlanStep, did: &mut Vec<StepEffect>) -> Result<(), StepFailure> {
        self.call.checkpoint()?;
        match &step.change {
            StepChange::MakeDir { path, mode, is_parent } => self.make_dir(step, path, *mode, *is_parent, did),
            StepChange::Link { file, to } => self.link(step, file, to, did),
            StepChange::Rename(rename) => self.rename(step, rename, did),
            StepChange::InPlace { how, path, expect } => {
                did.push(StepEffect::Final);
                let name = self.open_name(path, &step.name.sent)?;
                self.change_in_place(step, *how, &name, None, expect.as_ref())
            }
        }
    }

    fn make_dir(
        &mut self,
        step: &PlanStep,
        path: &[u8],
        mode: u32,
        is_parent: bool,
        did: &mut Vec<StepEffect>,
    ) -> Result<(), StepFailure> {
        let name = self.open_name(path, &step.name.sent)?;
        match change::make_dir(name.dir.as_fd(), &name.leaf, mode) {
            Ok(()) => did.push(StepEffect::Undoable),
            // Another process has made it. If it is a folder, the step has nothing to do; the open below finds out.
            Err(Errno::EXIST) if is_parent => did.push(StepEffect::Unchanged),
            Err(errno) => return Err(self.step_failure(step, &name, errno)),
        }
        if !is_parent {
            return Ok(());
        }
        let flags = fs::FOLDER_FLAGS | OFlags::NOFOLLOW;
        let opened = fs::open_beneath(name.dir.as_fd(), &name.leaf, flags, name.open_rules);
        // Another process has put something else than a folder there since the plan was made.
        let raced = |errno| if matches!(errno, Errno::NOTDIR | Errno::LOOP) { Errno::STALE } else { errno };
        let opened = opened.map_err(|errno| self.step_failure(step, &name, raced(errno)))?;
        self.folders.add(self.root.root(), path, &Arc::new(opened));
        Ok(())
    }

    fn link(&self, step: &PlanStep, file: &OwnedFd, to: &[u8], did: &mut Vec<StepEffect>) -> Result<(), StepFailure> {
        let name = self.open_name(to, &step.name.sent)?;
        change::link_unnamed(file.as_fd(), name.dir.as_fd(), &name.leaf)
            .map_err(|errno| self.step_failure(step, &name, errno))?;
        did.push(StepEffect::Undoable);
        Ok(())
    }

    fn rename(&mut self, step: &PlanStep, rename: &Rename, did: &mut Vec<StepEffect>) -> Result<(), StepFailure> {
        let Rename { from, to, displaced, expected_stats: expect, overwrites, fallback: otherwise, .. } = rename;
        let sent = &step.name.sent;
        let ends = [self.open_end(from, sent)?, self.open_end(to, sent)?];
        self.check_before(sent, &ends, expect)?;
        let [source, target] = &ends;
        let renamed = match displaced {
            Some(_) => change::rename(source.dir_and_leaf(), target.dir_and_leaf(), IfNameTaken::Exchange),
            None if *overwrites => change::rename(source.dir_and_leaf(), target.dir_and_leaf(), IfNameTaken::Replace),
            None => rename_to_free(source.dir_and_leaf(), target.dir_and_leaf(), target.open_rules),
        };
        match (renamed, otherwise) {
            (Ok(()), _) => {}
            (Err(errno), Some((how, expect))) if how.can_replace_rename(errno) => {
                did.push(StepEffect::Final);
                let is_overwritten = *how == InPlaceChange::Overwrite;
                let (name, source) = if is_overwritten { (target, Some(source)) } else { (source, None) };
                return self.change_in_place(step, *how, name, source, expect.as_ref());
            }
            (Err(Errno::NOENT), _) if displaced.is_some() || to.path_in_root().is_none() => {
                return Err(refusal::changed(sent).into());
            }
            (Err(errno), _) => {
                let name = if to.path_in_root().is_some() { target } else { source };
                return Err(self.step_failure(step, name, errno));
            }
        }
        did.push(StepEffect::Undoable);
        let root = self.root.root();
        [from, to].into_iter().filter_map(RenameEnd::path_in_root).for_each(|path| self.folders.forget(root, path));
        self.check_after(sent, rename, &ends)
    }

    /// C222 unless both names are as planned, as far as stat shows: inode, size and times; of a folder the inode alone.
    fn check_before(&self, sent: &str, ends: &[NameInFolder; 2], expect: &[Option<FileStat>; 2]) -> Result<()> {
        for (name, expect) in ends.iter().zip(expect) {
            let Some(expect) = expect else { continue };
            let now = name.stat().map_err(|errno| refusal::io(sent, errno))?;
            let is_as_planned = now.is_some_and(|now| match expect.kind {
                FileKind::Dir => now.is_same_file(expect),
                _ => now.is_unchanged(expect),
            });
            if !is_as_planned {
                return Err(refusal::changed(sent));
            }
        }
        Ok(())
    }

    /// C222 if another process changed a name between `check_before` and the rename. What comes from our own folder is not
    /// compared: no other process writes there.
    fn check_after(&self, sent: &str, rename: &Rename, [from, to]: &[NameInFolder; 2]) -> Result<(), StepFailure> {
        let is_right = |name: &NameInFolder, expected: Option<FileIdentity>| match (name.stat(), expected) {
            (Ok(Some(found)), Some(expected)) => expected.matches(&found),
            (Ok(None), None) => true,
            _ => false,
        };
        let has_arrived = rename.from.path_in_root().is_none() || is_right(to, Some(rename.moved.identity()));
        let came_away = rename.displaced.is_none() || is_right(from, rename.displaced);
        if !has_arrived || !came_away {
            return Err(refusal::changed(sent).into());
        }
        let away = if rename.displaced.is_some() { from } else { to };
        if rename.must_be_empty && !is_empty_folder(self.call, away, &self.root) {
            return Err(refusal::not_empty(sent).into());
        }
        Ok(())
    }

    /// Makes a change that cannot be undone. `from` is what replaces the entry at `open_name`, if `how` is `Overwrite`.
    fn change_in_place(
        &self,
        step: &PlanStep,
        how: InPlaceChange,
        name: &NameInFolder,
        from: Option<&NameInFolder>,
        expect: Option<&FileStat>,
    ) -> Result<(), StepFailure> {
        let (dir, leaf) = name.dir_and_leaf();
        let changed = match (how, from) {
            (InPlaceChange::Overwrite, Some(from)) => {
                change::rename(from.dir_and_leaf(), name.dir_and_leaf(), IfNameTaken::Replace)
            }
            (InPlaceChange::Overwrite, None) => Err(Errno::INVAL),
            (InPlaceChange::RemoveFile, _) => {
                self.check_before(&step.name.sent, &[name.clone(), name.clone()], &[expect.copied(), None])?;
                change::remove_file(dir, leaf)
            }
            (InPlaceChange::RemoveFolder, _) => match change::remove_dir(dir, leaf) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Err(refusal::not_empty(&step.name.sent).into()),
                removed => removed,
            },
            (InPlaceChange::RemoveTree, _) => {
                let real = self.root.join(step.paths().next().unwrap_or_default());
                destroy_content(self.jail, self.call, (&step.name, &real), name.dir_and_leaf(), name.open_rules)?;
                change::remove_dir(dir, leaf)
            }
        };
        changed.map_err(|errno| self.step_failure(step, name, errno))
    }

    fn step_failure(&self, step: &PlanStep, name: &NameInFolder, errno: Errno) -> StepFailure {
        let error = match errno {
            Errno::EXIST | Errno::NOTEMPTY if step.may_replace => Error::busy(&step.name.sent),
            Errno::NOTEMPTY => refusal::exists(&step.name.sent),
            errno => self.change_error(step, name, errno),
        };
        StepFailure { error, errno: Some(errno) }
    }

    fn change_error(&self, step: &PlanStep, name: &NameInFolder, errno: Errno) -> Error {
        self.jail.change_error(self.call, (&step.name, step.intent), &name.dir, errno)
    }
}

impl InPlaceChange {
    /// Whether this change is to be made instead of a rename that failed with `errno`: the rename is impossible between two file
    /// systems, on a file system without such renames, or for a folder whose mode does not allow it another parent.
    fn can_replace_rename(self, errno: Errno) -> bool {
        match self {
            Self::Overwrite => matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP),
            _ => matches!(errno, Errno::XDEV | Errno::INVAL | Errno::ACCESS),
        }
    }
}

/// Renames to a free name; EEXIST if it is taken. A file system may have no RENAME_NOREPLACE: then `link` gives the file a second
/// name, which never overwrites either. If that fails as well, a check that the name is free has to do, which only the lease
/// protects against a race with other clients.
pub(super) fn rename_to_free(
    from: (BorrowedFd<'_>, &[u8]),
    to: (BorrowedFd<'_>, &[u8]),
    how: OpenRules,
) -> Result<(), Errno> {
    match change::rename(from, to, IfNameTaken::Refuse) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        other => return other,
    }
    match change::link(from, to) {
        Ok(()) => {
            // If the old name cannot be removed, the new one is removed again, so that the file has one name as before.
            return change::remove_file(from.0, from.1).inspect_err(|_| {
                let _ = change::remove_file(to.0, to.1);
            });
        }
        Err(Errno::EXIST) => return Err(Errno::EXIST),
        Err(_) => {}
    }
    match fs::open_handle(to.0, to.1, how) {
        Err(Errno::NOENT) => change::rename(from, to, IfNameTaken::Replace),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
