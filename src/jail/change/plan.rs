//! Runs in the worker: the data of a change of names, before anything has changed. `Planning` makes plans, `engine` executes them.
//! Trusts the claims that a plan is made from. Never changes a user's name: it only holds new content under names of our own.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::folders::ResolvedFolders;
use crate::{
    broker::{Intent, Lease},
    jail::{
        Call, Claim, Jail, Located, TrashSlot,
        state::journal::{self, FileIdentity, NameLocation},
        state::trash::RootTrash,
        state::workspace::{TemporaryName, Workspace},
    },
    path::JailPath,
    sys::fs::{self, FileStat},
};

/// The mode of folders that a call makes on the way to a name. Other programs make folders with this mode, too.
pub(in crate::jail) const FOLDER_MODE: u32 = 0o755;

/// Steps that are executed one after the other; if one of them fails, those before it are undone. Empty in a dry run.
#[derive(Debug, Default)]
pub struct ChangePlan {
    pub(in crate::jail) steps: Vec<PlanStep>,
    /// Folders of the names, so that the steps need not ask the supervisor again.
    pub(in crate::jail) folders: ResolvedFolders,
    /// Keep other clients away from the names while the steps are executed.
    leases: Vec<Arc<Lease>>,
    /// The plan of an atomic batch: recovery removes even the missing folders that it made.
    pub(in crate::jail) is_atomic: bool,
    /// The folder that the last step takes away, to be destroyed under the rules of its old path.
    pub(in crate::jail) removed_tree: Option<RemovedTree>,
    /// The entry of the trash that is restored. In the end it is removed, with what the item has replaced.
    pub(in crate::jail) restored_item: Option<(RootTrash, String)>,
    /// Executed after this plan, in its own root or file system: both are done or none.
    next: Option<Box<ChangePlan>>,
}

/// One change of names.
#[derive(Debug)]
pub(in crate::jail) struct PlanStep {
    /// The entry of the batch that it serves.
    pub(in crate::jail) entry: usize,
    /// The name that errors are about, and how it was asked for.
    pub(in crate::jail) name: Located,
    pub(in crate::jail) intent: Intent,
    /// The caller allows to replace the name, which was free. If it is taken by now, that is a conflict (C222) and no refusal
    /// (C217).
    pub(in crate::jail) may_replace: bool,
    pub(in crate::jail) change: StepChange,
}

#[derive(Debug)]
pub(in crate::jail) enum StepChange {
    /// Makes a folder. If it is one above the name (`is_parent`), another process may make it first.
    MakeDir {
        path: Vec<u8>,
        mode: u32,
        is_parent: bool,
    },
    /// Gives a file without a name a free name.
    Link {
        file: OwnedFd,
        to: Vec<u8>,
    },
    Rename(Box<Rename>),
    /// Changes a name without a way back.
    InPlace {
        how: InPlaceChange,
        path: Vec<u8>,
        expect: Option<FileStat>,
    },
}

/// Moves `moved` from `from` to `to`. If something lies at `to`, it goes to `from`.
#[derive(Debug)]
pub(in crate::jail) struct Rename {
    pub(in crate::jail) from: RenameEnd,
    pub(in crate::jail) to: RenameEnd,
    pub(in crate::jail) moved: MovedEntry,
    pub(in crate::jail) displaced: Option<FileIdentity>,
    /// What must lie at `from` and at `to` before the rename, unchanged in inode, size and times. None is not compared.
    pub(in crate::jail) expected_stats: [Option<FileStat>; 2],
    /// A folder must still be empty after the rename: the displaced one, or the moved one if nothing is displaced.
    pub(in crate::jail) must_be_empty: bool,
    /// What lies at `to` is destroyed, because there is no folder of our own to keep it in, or no exchange.
    pub(in crate::jail) overwrites: bool,
    /// What to do instead where the file system cannot do this rename, and the stat that the entry must have then.
    pub(in crate::jail) fallback: Option<(InPlaceChange, Option<FileStat>)>,
}

impl Rename {
    pub(in crate::jail) fn new(from: RenameEnd, to: RenameEnd, moved: MovedEntry) -> Self {
        let (displaced, expect, otherwise) = (None, [None, None], None);
        Self {
            from,
            to,
            moved,
            displaced,
            expected_stats: expect,
            must_be_empty: false,
            overwrites: false,
            fallback: otherwise,
        }
    }
}

impl From<Rename> for StepChange {
    fn from(rename: Rename) -> Self {
        Self::Rename(Box::new(rename))
    }
}

/// A change that cannot be undone, because the file system cannot do better or there is no folder of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jail) enum InPlaceChange {
    /// A plain rename, which destroys what lies at the destination.
    Overwrite,
    RemoveFile,
    /// `rmdir`: the kernel refuses a folder that is not empty.
    RemoveFolder,
    /// Removes all entries from the inside out, then the folder.
    RemoveTree,
}

/// One side of a rename.
#[derive(Debug)]
pub(in crate::jail) enum RenameEnd {
    /// A user's name, as a path below the root.
    InRoot(Vec<u8>),
    /// A name of our own. What it holds in the end is destroyed.
    Temporary(TemporaryName),
    /// A prepared entry of the trash.
    TrashSlot(TrashSlot),
    /// An item in the trash that goes back.
    TrashedItem(TemporaryName),
}

/// What a rename moves.
#[derive(Debug)]
pub(in crate::jail) enum MovedEntry {
    Existing(FileIdentity),
    /// A new file. Its size and times are read when they are needed, because they change until then.
    NewFile(OwnedFd, FileStat),
}

#[derive(Debug)]
pub(in crate::jail) struct RemovedTree {
    pub(in crate::jail) name: Located,
    pub(in crate::jail) real_path: JailPath,
}

impl MovedEntry {
    pub(in crate::jail) fn identity(&self) -> FileIdentity {
        match self {
            Self::Existing(thing) => *thing,
            Self::NewFile(file, stat) => FileIdentity::from(&fs::stat(file.as_fd()).unwrap_or(*stat)),
        }
    }
}

impl RenameEnd {
    pub(in crate::jail) fn of_claim(claim: &Claim) -> Self {
        Self::InRoot(claim.path().rel().to_vec())
    }

    pub(in crate::jail) fn path_in_root(&self) -> Option<&[u8]> {
        if let Self::InRoot(path) = self { Some(path) } else { None }
    }

    /// The name of our own, if it is one.
    pub(in crate::jail) fn temporary_name(&self) -> Option<&TemporaryName> {
        match self {
            Self::InRoot(_) => None,
            Self::Temporary(spot) | Self::TrashedItem(spot) => Some(spot),
            Self::TrashSlot(bin) => Some(&bin.item_name),
        }
    }

    fn journal_location(&self) -> Option<NameLocation> {
        match self {
            Self::InRoot(path) => Some(NameLocation::Path(path[..].into())),
            own => own.temporary_name()?.journal_location.clone(),
        }
    }

    /// After all steps: a bin keeps its item. Other names of our own hold old content, which is destroyed.
    fn finish(self) {
        match self {
            Self::Temporary(spot) => spot.remove(),
            Self::TrashSlot(bin) => bin.keep(),
            Self::InRoot(_) | Self::TrashedItem(_) => {}
        }
    }

    /// No step was executed, or all were undone: names of our own hold new content that is not needed. A bin keeps its item if
    /// another process prevented the undo.
    fn remove_unused(self) {
        match self {
            Self::Temporary(spot) => spot.remove(),
            Self::TrashSlot(bin) if !matches!(bin.item_name.stat(), Ok(None)) => bin.keep(),
            Self::TrashSlot(_) | Self::InRoot(_) | Self::TrashedItem(_) => {}
        }
    }

    /// Keeps what recovery needs.
    fn keep_for_recovery(self) {
        match self {
            Self::TrashSlot(bin) => bin.keep(),
            Self::InRoot(_) | Self::Temporary(_) | Self::TrashedItem(_) => {}
        }
    }
}

impl PlanStep {
    /// The step as the journal holds it. None for a step that the journal cannot describe.
    pub(in crate::jail) fn journal_step(&self) -> Option<journal::JournalStep> {
        match &self.change {
            StepChange::MakeDir { path, mode, .. } => {
                Some(journal::JournalStep::MakeDir { path: path[..].into(), mode: *mode })
            }
            StepChange::Rename(rename) => Some(journal::JournalStep::Rename {
                from: rename.from.journal_location()?,
                to: rename.to.journal_location()?,
                moved: rename.moved.identity(),
                displaced: rename.displaced,
            }),
            StepChange::Link { .. } | StepChange::InPlace { .. } => None,
        }
    }

    /// The users' names that it changes, as paths below the root.
    pub(in crate::jail) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        let paths = match &self.change {
            StepChange::MakeDir { path, .. } | StepChange::Link { to: path, .. } | StepChange::InPlace { path, .. } => {
                [Some(&path[..]), None]
            }
            StepChange::Rename(rename) => [rename.to.path_in_root(), rename.from.path_in_root()],
        };
        paths.into_iter().flatten()
    }
}

impl ChangePlan {
    /// Keeps the folder and the lease of a name until the plan is executed.
    pub(in crate::jail) fn hold_lease(&mut self, claim: &Claim) {
        self.folders.add_claimed(claim);
        self.leases.extend(claim.parent.lease.clone());
    }

    pub(in crate::jail) fn push(&mut self, claim: &Claim, change: StepChange) {
        self.hold_lease(claim);
        let step = PlanStep { entry: 0, name: claim.name().clone(), intent: claim.intent, may_replace: false, change };
        self.steps.push(step);
    }

    pub(in crate::jail) fn push_parents(&mut self, claim: &Claim) {
        for path in &claim.folders_to_make {
            self.push(claim, StepChange::MakeDir { path: path.clone(), mode: FOLDER_MODE, is_parent: true });
        }
    }

    /// Sets `PlanStep::set_may_replace` for all steps.
    pub fn set_may_replace(&mut self) {
        self.steps.iter_mut().for_each(|step| step.may_replace = true);
    }

    /// Adds a second plan, which may be in another root or file system. Both are done or none.
    pub fn chain(&mut self, next: Self) {
        self.next = Some(Box::new(next));
    }

    pub(in crate::jail) fn take_next(&mut self) -> Option<Self> {
        self.next.take().map(|next| *next)
    }

    /// Adds the steps of one entry of an atomic batch.
    pub fn append(&mut self, entry: usize, mut other: Self) {
        self.is_atomic = true;
        self.steps.extend(other.steps.drain(..).map(|step| PlanStep { entry, ..step }));
        if let Some(next) = other.take_next() {
            self.append(entry, next);
        }
    }

    /// Whether everything of ours that the steps name lies in the same state folder as the workspace, so that its journal can
    /// describe the steps.
    pub(in crate::jail) fn is_in(&self, workspace: &Workspace) -> bool {
        let bins = self.steps.iter().filter_map(|step| match &step.change {
            StepChange::Rename(rename) => Some(&rename.to),
            _ => None,
        });
        let mut owns =
            bins.filter_map(|end| if let RenameEnd::TrashSlot(bin) = end { Some(bin.state_folder()) } else { None });
        owns.all(|own| workspace.is_in(own))
            && self.restored_item.as_ref().is_none_or(|(trash, _)| workspace.is_in(trash.state_folder()))
    }

    /// Uses these folders instead of those of the claims that the plan was made from.
    pub fn set_folders(&mut self, folders: ResolvedFolders) {
        self.folders = folders;
    }

    /// Whether recovery has to undo the steps together if the worker is killed between them. A single change with the folders made
    /// for it needs no journal: folders that stay do no harm.
    pub(in crate::jail) fn needs_journal(&self) -> bool {
        let is_change = |step: &&PlanStep| !matches!(step.change, StepChange::MakeDir { .. });
        self.steps.len() > 1 && (self.is_atomic || self.steps.iter().filter(is_change).count() > 1)
    }

    /// After all steps: destroys what they displaced.
    pub(in crate::jail) fn finish(mut self, jail: &Jail) {
        self.drain_ends(RenameEnd::finish);
        if let Some((trash, id)) = self.restored_item.take() {
            trash.remove(jail, &Call::for_cleanup(), id.as_bytes());
        }
    }

    /// Removes the notes of temporary names beside users' files, which may hold old content now: recovery would remove the names
    /// with their content.
    pub(in crate::jail) fn keep_temporary_names(&mut self) {
        for step in &mut self.steps {
            if let StepChange::Rename(rename) = &mut step.change
                && let RenameEnd::Temporary(spot) = &mut rename.from
            {
                spot.note = None;
            }
        }
    }

    /// A step could not be undone: what our own folders hold stays for recovery.
    pub(in crate::jail) fn keep_for_recovery(mut self) {
        self.drain_ends(RenameEnd::keep_for_recovery);
    }

    fn drain_ends(&mut self, mut each: impl FnMut(RenameEnd)) {
        for step in self.steps.drain(..) {
            if let StepChange::Rename(rename) = step.change {
                let Rename { from, to, .. } = *rename;
                each(from);
                each(to);
            }
        }
    }
}

impl Drop for ChangePlan {
    fn drop(&mut self) {
        self.drain_ends(RenameEnd::remove_unused);
    }
}
