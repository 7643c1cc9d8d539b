//! Runs in the worker: undoes the steps of a plan that failed and, in recovery, those in the notes of killed workers.
//! Trusts a note no further than its names: the supervisor resolves them again, under its rules. Never touches a user's file unless
//! its inode, size and times are those that the step recorded, and never destroys an entry whose old folder is gone.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::{
    engine::{ChangeEngine, rename_to_free},
    folders::NameInFolder,
    plan::{ChangePlan, PlanStep, RenameEnd, StepChange},
};
use crate::{
    jail::{
        refusal,
        state::journal::{self, FileIdentity, JournalRecord, NameLocation},
        state::state_folder,
    },
    sys::{
        Errno,
        change::{self, IfNameTaken},
        fs::{self, OFlags},
    },
    wire::{Code, Error, Result},
};

/// A step that could not be undone.
#[derive(Debug)]
pub(in crate::jail) struct UndoError {
    pub(in crate::jail) error: Error,
    /// The kernel refused to change a name. False if a name could not be resolved: recovery would fail in the same way.
    pub(in crate::jail) is_disk_error: bool,
}

impl From<Error> for UndoError {
    fn from(error: Error) -> Self {
        Self { error, is_disk_error: false }
    }
}

impl From<Errno> for UndoError {
    fn from(errno: Errno) -> Self {
        let is_disk = !state_folder::is_foreign_errno(errno);
        Self { error: if is_disk { refusal::io("", errno) } else { Error::not_found("") }, is_disk_error: is_disk }
    }
}

impl UndoError {
    /// The folder of a name is gone, has become a link, was moved out of the root, or is denied or protected by now.
    pub(in crate::jail) fn is_out_of_reach(&self) -> bool {
        matches!(self.error.code, Code::NotFound | Code::OutsideRoots | Code::ReadOnly)
    }
}

/// Where one side of a rename is.
#[derive(Clone, Copy)]
enum RenameSide<'s> {
    /// A user's name, as a path below the root.
    InRoot(&'s [u8]),
    /// A name of our own, as a path below the folder of our own state.
    Journaled(&'s [u8]),
    /// An end of a rename whose folder is open.
    Open(&'s RenameEnd),
}

impl<'s> From<&'s NameLocation> for RenameSide<'s> {
    fn from(at: &'s NameLocation) -> Self {
        match at {
            NameLocation::Path(path) => Self::InRoot(&path.0),
            NameLocation::Own(path) => Self::Journaled(&path.0),
        }
    }
}

impl<'s> From<&'s RenameEnd> for RenameSide<'s> {
    fn from(end: &'s RenameEnd) -> Self {
        end.path_in_root().map_or(Self::Open(end), Self::InRoot)
    }
}

impl RenameSide<'_> {
    fn is_of_service(self) -> bool {
        !matches!(self, Self::InRoot(_))
    }
}

impl ChangeEngine<'_> {
    /// Undoes the steps of a note, the last first. Skips steps that were not done, and names that another process has changed
    /// since. Tries all steps and returns the most important error: first one of the disk, then others, and C211, which means that
    /// an entry has no folder to go back to, only if there is no other.
    pub(in crate::jail) fn undo_noted_steps(&self, steps: &[journal::JournalStep]) -> Result<(), UndoError> {
        let undo = |step: &journal::JournalStep| match step {
            journal::JournalStep::MakeDir { path, .. } => self.undo_make_dir(&path.0),
            journal::JournalStep::Rename { from, to, moved, displaced } => {
                self.undo_rename(from.into(), to.into(), moved, displaced.as_ref())
            }
        };
        let mut errors: Vec<UndoError> = steps.iter().rev().filter_map(|step| undo(step).err()).collect();
        // The sort is stable: of equal errors the first stays first.
        errors.sort_by_key(|failed| (!failed.is_disk_error, failed.is_out_of_reach()));
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Undoes a step that was executed.
    pub(super) fn undo_step(&mut self, step: &PlanStep) -> Result<(), UndoError> {
        let undone = match &step.change {
            StepChange::MakeDir { path, .. } => self.undo_make_dir(path),
            StepChange::Link { file, to } => self.undo_link(file, to),
            StepChange::Rename(rename) => {
                let displaced = rename.displaced.as_ref();
                self.undo_rename((&rename.from).into(), (&rename.to).into(), &rename.moved.identity(), displaced)
            }
            StepChange::InPlace { .. } => Ok(()),
        };
        step.paths().for_each(|path| self.folders.forget(self.root.root(), path));
        undone
    }

    /// Records the steps in `done`, of which some could not be undone, for recovery. False if that failed as well; nothing is
    /// destroyed in that case either.
    pub(super) fn leave_to_recovery(&self, plan: &ChangePlan, done: &[usize]) -> bool {
        let workspace = self.jail.workspaces.open(self.jail, self.call, self.root.root());
        let Some(workspace) = workspace.filter(|workspace| plan.is_in(workspace)) else { return false };
        let written = |index: &usize| match &plan.steps[*index].change {
            // Recorded as a rename from our own folder: recovery undoes it by a rename back, and then clears that folder.
            StepChange::Link { file, to } => Some(journal::JournalStep::Rename {
                from: workspace.new_temporary_name().journal_location?,
                to: NameLocation::Path(to[..].into()),
                moved: FileIdentity::from(&fs::stat(file).ok()?),
                displaced: None,
            }),
            _ => plan.steps[*index].journal_step(),
        };
        let steps: Option<Vec<journal::JournalStep>> = done.iter().map(written).collect();
        steps.is_some_and(|steps| workspace.leave_to_recovery(&JournalRecord::Batch { steps }))
    }

    /// Opens the folder of one side. None if it cannot be found.
    fn open_side(&self, side: RenameSide<'_>) -> Result<Option<NameInFolder>> {
        let found = match side {
            RenameSide::InRoot(path) => self.open_name(path, ""),
            RenameSide::Open(end) => end.temporary_name().map(NameInFolder::from).ok_or_else(|| Error::not_found("")),
            RenameSide::Journaled(path) => self.open_state_path(path).map_err(|errno| match errno {
                Errno::NOENT => Error::not_found(""),
                errno => refusal::io("", errno),
            }),
        };
        match found {
            Err(error) if error.code == Code::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// Opens a path below the state folder, one name at a time and without following links.
    fn open_state_path(&self, path: &[u8]) -> Result<NameInFolder, Errno> {
        let (own, how) = (self.state_folder.ok_or(Errno::INVAL)?, self.jail.open_rules(&self.root));
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let leaf = names.pop().unwrap_or_default().to_vec();
        let mut dir = None::<OwnedFd>;
        for folder in names {
            let above = dir.as_ref().map_or(own, AsFd::as_fd);
            dir = Some(fs::open_beneath(above, folder, fs::FOLDER_FLAGS | OFlags::NOFOLLOW, how)?);
        }
        Ok(NameInFolder { dir: Arc::new(dir.ok_or(Errno::INVAL)?), leaf, open_rules: how, _lease: None })
    }

    fn undo_make_dir(&self, path: &[u8]) -> Result<(), UndoError> {
        let Some(name) = self.open_side(RenameSide::InRoot(path))? else { return Ok(()) };
        match change::remove_dir(name.dir.as_fd(), &name.leaf) {
            // The folder is in use by now, or was never made.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn undo_link(&self, file: &OwnedFd, to: &[u8]) -> Result<(), UndoError> {
        let Some(name) = self.open_side(RenameSide::InRoot(to))? else { return Ok(()) };
        let ours = fs::stat(file)?;
        match name.stat()?.filter(|there| there.is_same_file(&ours)) {
            Some(_) => Ok(change::remove_file(name.dir.as_fd(), &name.leaf)?),
            None => Ok(()),
        }
    }

    fn undo_rename(
        &self,
        from_side: RenameSide<'_>,
        to_side: RenameSide<'_>,
        moved: &FileIdentity,
        displaced: Option<&FileIdentity>,
    ) -> Result<(), UndoError> {
        let Some(to) = self.open_side(to_side)? else {
            // The folder of `to` was never made, is gone with what we put there, was renamed, or is denied by now. What was
            // displaced is kept: it belongs to the user.
            let is_kept = displaced.is_some() && self.keeps_displaced(from_side, moved);
            return if is_kept { Err(Error::not_found("").into()) } else { Ok(()) };
        };
        // In a user's folder an entry is ours only if it is the one that we put there. In our own folder every entry is ours.
        match to.stat()? {
            Some(there) if to_side.is_of_service() || moved.matches(&there) => {}
            // Another process has removed our file: what our file displaced goes back.
            None if displaced.is_some() && self.keeps_displaced(from_side, moved) => {
                let from = self.open_side(from_side)?.ok_or_else(|| Error::not_found(""))?;
                return unless_taken(rename_to_free(from.dir_and_leaf(), to.dir_and_leaf(), to.open_rules));
            }
            _ => return Ok(()),
        }
        let Some(from) = self.open_side(from_side)? else {
            // The folder of what was taken away is gone. The entry is kept: it belongs to the user.
            return if to_side.is_of_service() { Err(Error::not_found("").into()) } else { Ok(()) };
        };
        let undone = match (from.stat()?, displaced) {
            (None, None) => rename_to_free(to.dir_and_leaf(), from.dir_and_leaf(), from.open_rules),
            (Some(here), Some(displaced)) if from_side.is_of_service() || displaced.matches(&here) => {
                change::rename(to.dir_and_leaf(), from.dir_and_leaf(), IfNameTaken::Exchange)
            }
            // Another process has put something else there since, which stays. It cannot be a file of the same batch, because no
            // file has one name twice in a batch.
            _ => return Ok(()),
        };
        unless_taken(undone)
    }

    /// Whether a displaced entry lies in our own folder: something is there that we did not put there.
    fn keeps_displaced(&self, side: RenameSide<'_>, moved: &FileIdentity) -> bool {
        let found = if side.is_of_service() { self.open_side(side).ok().flatten() } else { None };
        found.is_some_and(|name| matches!(name.stat(), Ok(Some(found)) if !moved.matches(&found)))
    }
}

/// Ignores EEXIST: another process has taken the name, and its newer entry stays.
fn unless_taken(undone: Result<(), Errno>) -> Result<(), UndoError> {
    match undone {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
