//! Runs in the worker: undoes the steps of a plan that failed and, in recovery, those in the notes of killed workers.
//! Trusts a note no further than its names: the supervisor resolves them again, under its rules. Never touches a user's file unless
//! its inode, size and times are those that the step recorded, and never destroys an entry whose old folder is gone.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::{
    engine::{Engine, rename_to_free},
    folders::Name,
    plan::{Change, End, Plan, Step},
};
use crate::{
    jail::{
        refusal,
        state::journal::{self, At, Record, Thing},
        state::private,
    },
    sys::{
        Errno,
        change::{self, Taken},
        fs::{self, OFlags},
    },
    wire::{Code, Error, Result},
};

/// A step that could not be undone.
#[derive(Debug)]
pub(in crate::jail) struct UndoError {
    pub(in crate::jail) error: Error,
    /// The kernel refused to change a name. False if a name could not be resolved: recovery would fail in the same way.
    pub(in crate::jail) is_disk: bool,
}

impl From<Error> for UndoError {
    fn from(error: Error) -> Self {
        Self { error, is_disk: false }
    }
}

impl From<Errno> for UndoError {
    fn from(errno: Errno) -> Self {
        let is_disk = !private::is_of_others(errno);
        Self { error: if is_disk { refusal::io("", errno) } else { Error::not_found("") }, is_disk }
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
enum Side<'s> {
    /// A user's name, as a path below the root.
    User(&'s [u8]),
    /// A name of our own, as a path below the folder of our own state.
    Written(&'s [u8]),
    /// An end of a rename whose folder is open.
    Open(&'s End),
}

impl<'s> From<&'s At> for Side<'s> {
    fn from(at: &'s At) -> Self {
        match at {
            At::Path(path) => Self::User(&path.0),
            At::Own(path) => Self::Written(&path.0),
        }
    }
}

impl<'s> From<&'s End> for Side<'s> {
    fn from(end: &'s End) -> Self {
        end.user().map_or(Self::Open(end), Self::User)
    }
}

impl Side<'_> {
    fn is_own(self) -> bool {
        !matches!(self, Self::User(_))
    }
}

impl Engine<'_> {
    /// Undoes the steps of a note, the last first. Skips steps that were not done, and names that another process has changed
    /// since. Tries all steps and returns the most important error: first one of the disk, then others, and C211, which means that
    /// an entry has no folder to go back to, only if there is no other.
    pub(in crate::jail) fn undo_written(&self, steps: &[journal::Step]) -> Result<(), UndoError> {
        let undo = |step: &journal::Step| match step {
            journal::Step::MakeDir { path, .. } => self.undo_make_dir(&path.0),
            journal::Step::Rename { from, to, moved, displaced } => {
                self.undo_rename(from.into(), to.into(), moved, displaced.as_ref())
            }
        };
        let mut errors: Vec<UndoError> = steps.iter().rev().filter_map(|step| undo(step).err()).collect();
        // The sort is stable: of equal errors the first stays first.
        errors.sort_by_key(|failed| (!failed.is_disk, failed.is_out_of_reach()));
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Undoes a step that was executed.
    pub(super) fn undo_step(&mut self, step: &Step) -> Result<(), UndoError> {
        let undone = match &step.change {
            Change::MakeDir { path, .. } => self.undo_make_dir(path),
            Change::Link { file, to } => self.undo_link(file, to),
            Change::Rename(rename) => {
                let displaced = rename.displaced.as_ref();
                self.undo_rename((&rename.from).into(), (&rename.to).into(), &rename.moved.thing(), displaced)
            }
            Change::InPlace { .. } => Ok(()),
        };
        step.paths().for_each(|path| self.folders.forget(self.root.root(), path));
        undone
    }

    /// Records the steps in `done`, of which some could not be undone, for recovery. False if that failed as well; nothing is
    /// destroyed in that case either.
    pub(super) fn leave_to_recovery(&self, plan: &Plan, done: &[usize]) -> bool {
        let workspace = self.jail.workspaces.open(self.jail, self.call, self.root.root());
        let Some(workspace) = workspace.filter(|workspace| plan.is_in(workspace)) else { return false };
        let written = |index: &usize| match &plan.steps[*index].change {
            // Recorded as a rename from our own folder: recovery undoes it by a rename back, and then clears that folder.
            Change::Link { file, to } => Some(journal::Step::Rename {
                from: workspace.spot().at?,
                to: At::Path(to[..].into()),
                moved: Thing::from(&fs::stat(file).ok()?),
                displaced: None,
            }),
            _ => plan.steps[*index].written(),
        };
        let steps: Option<Vec<journal::Step>> = done.iter().map(written).collect();
        steps.is_some_and(|steps| workspace.leave_to_recovery(&Record::Batch { steps }))
    }

    /// Opens the folder of one side. None if it cannot be found.
    fn find(&self, side: Side<'_>) -> Result<Option<Name>> {
        let found = match side {
            Side::User(path) => self.name(path, ""),
            Side::Open(end) => end.spot().map(Name::from).ok_or_else(|| Error::not_found("")),
            Side::Written(path) => self.own_name(path).map_err(|errno| match errno {
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
    fn own_name(&self, path: &[u8]) -> Result<Name, Errno> {
        let (own, how) = (self.own.ok_or(Errno::INVAL)?, self.jail.how(&self.root));
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let leaf = names.pop().unwrap_or_default().to_vec();
        let mut dir = None::<OwnedFd>;
        for folder in names {
            let above = dir.as_ref().map_or(own, AsFd::as_fd);
            dir = Some(fs::open_beneath(above, folder, fs::FOLDER | OFlags::NOFOLLOW, how)?);
        }
        Ok(Name { dir: Arc::new(dir.ok_or(Errno::INVAL)?), leaf, how, _lease: None })
    }

    fn undo_make_dir(&self, path: &[u8]) -> Result<(), UndoError> {
        let Some(name) = self.find(Side::User(path))? else { return Ok(()) };
        match change::remove_dir(name.dir.as_fd(), &name.leaf) {
            // The folder is in use by now, or was never made.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn undo_link(&self, file: &OwnedFd, to: &[u8]) -> Result<(), UndoError> {
        let Some(name) = self.find(Side::User(to))? else { return Ok(()) };
        let ours = fs::stat(file)?;
        match name.stat()?.filter(|there| there.is_same_file(&ours)) {
            Some(_) => Ok(change::remove_file(name.dir.as_fd(), &name.leaf)?),
            None => Ok(()),
        }
    }

    fn undo_rename(
        &self,
        from_side: Side<'_>,
        to_side: Side<'_>,
        moved: &Thing,
        displaced: Option<&Thing>,
    ) -> Result<(), UndoError> {
        let Some(to) = self.find(to_side)? else {
            // The folder of `to` was never made, is gone with what we put there, was renamed, or is denied by now. What was
            // displaced is kept: it belongs to the user.
            let is_kept = displaced.is_some() && self.keeps_displaced(from_side, moved);
            return if is_kept { Err(Error::not_found("").into()) } else { Ok(()) };
        };
        // In a user's folder an entry is ours only if it is the one that we put there. In our own folder every entry is ours.
        match to.stat()? {
            Some(there) if to_side.is_own() || moved.is(&there) => {}
            // Another process has removed our file: what our file displaced goes back.
            None if displaced.is_some() && self.keeps_displaced(from_side, moved) => {
                let from = self.find(from_side)?.ok_or_else(|| Error::not_found(""))?;
                return unless_taken(rename_to_free(from.at(), to.at(), to.how));
            }
            _ => return Ok(()),
        }
        let Some(from) = self.find(from_side)? else {
            // The folder of what was taken away is gone. The entry is kept: it belongs to the user.
            return if to_side.is_own() { Err(Error::not_found("").into()) } else { Ok(()) };
        };
        let undone = match (from.stat()?, displaced) {
            (None, None) => rename_to_free(to.at(), from.at(), from.how),
            (Some(here), Some(displaced)) if from_side.is_own() || displaced.is(&here) => {
                change::rename(to.at(), from.at(), Taken::Exchange)
            }
            // Another process has put something else there since, which stays. It cannot be a file of the same batch, because no
            // file has one name twice in a batch.
            _ => return Ok(()),
        };
        unless_taken(undone)
    }

    /// Whether a displaced entry lies in our own folder: something is there that we did not put there.
    fn keeps_displaced(&self, side: Side<'_>, moved: &Thing) -> bool {
        let found = if side.is_own() { self.find(side).ok().flatten() } else { None };
        found.is_some_and(|name| matches!(name.stat(), Ok(Some(found)) if !moved.is(&found)))
    }
}

/// Ignores EEXIST: another process has taken the name, and its newer entry stays.
fn unless_taken(undone: Result<(), Errno>) -> Result<(), UndoError> {
    match undone {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
