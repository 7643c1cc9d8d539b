//! Runs in the worker: the data of a change of names, before anything has changed. `Planning` makes plans, `engine` executes them.
//! Trusts the claims that a plan is made from. Never changes a user's name: it only holds new content under names of our own.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::folders::Folders;
use crate::{
    broker::{Intent, Lease},
    jail::{
        Bin, Call, Claim, Jail, Located,
        state::journal::{self, At, Thing},
        state::trash::Trash,
        state::workspace::{Spot, Workspace},
    },
    path::JailPath,
    sys::fs::{self, Stat},
};

/// The mode of folders that a call makes on the way to a name. Other programs make folders with this mode, too.
pub(in crate::jail) const FOLDER_MODE: u32 = 0o755;

/// Steps that are executed one after the other; if one of them fails, those before it are undone. Empty in a dry run.
#[derive(Debug, Default)]
pub struct Plan {
    pub(in crate::jail) steps: Vec<Step>,
    /// Folders of the names, so that the steps need not ask the supervisor again.
    pub(in crate::jail) folders: Folders,
    /// Keep other clients away from the names while the steps are executed.
    leases: Vec<Arc<Lease>>,
    /// The plan of an atomic batch: recovery removes even the missing folders that it made.
    pub(in crate::jail) is_atomic: bool,
    /// The folder that the last step takes away, to be destroyed under the rules of its old path.
    pub(in crate::jail) tree: Option<Tree>,
    /// The entry of the trash that is restored. In the end it is removed, with what the item has replaced.
    pub(in crate::jail) restored: Option<(Trash, String)>,
    /// Executed after this plan, in its own root or file system: both are done or none.
    next: Option<Box<Plan>>,
}

/// One change of names.
#[derive(Debug)]
pub(in crate::jail) struct Step {
    /// The entry of the batch that it serves.
    pub(in crate::jail) entry: usize,
    /// The name that errors are about, and how it was asked for.
    pub(in crate::jail) name: Located,
    pub(in crate::jail) intent: Intent,
    /// The caller allows to replace the name, which was free. If it is taken by now, that is a conflict (C222) and no refusal
    /// (C217).
    pub(in crate::jail) may_replace: bool,
    pub(in crate::jail) change: Change,
}

#[derive(Debug)]
pub(in crate::jail) enum Change {
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
        how: InPlace,
        path: Vec<u8>,
        expect: Option<Stat>,
    },
}

/// Moves `moved` from `from` to `to`. If something lies at `to`, it goes to `from`.
#[derive(Debug)]
pub(in crate::jail) struct Rename {
    pub(in crate::jail) from: End,
    pub(in crate::jail) to: End,
    pub(in crate::jail) moved: Moved,
    pub(in crate::jail) displaced: Option<Thing>,
    /// What must lie at `from` and at `to` before the rename, unchanged in inode, size and times. None is not compared.
    pub(in crate::jail) expect: [Option<Stat>; 2],
    /// The displaced folder, or else the moved one, must still be empty after the rename.
    pub(in crate::jail) must_be_empty: bool,
    /// What lies at `to` is destroyed, because there is no folder of our own to keep it in, or no exchange.
    pub(in crate::jail) overwrites: bool,
    /// What to do instead where the file system cannot do this rename, and the stat that the entry must have then.
    pub(in crate::jail) otherwise: Option<(InPlace, Option<Stat>)>,
}

impl Rename {
    pub(in crate::jail) fn new(from: End, to: End, moved: Moved) -> Self {
        let (displaced, expect, otherwise) = (None, [None, None], None);
        Self { from, to, moved, displaced, expect, must_be_empty: false, overwrites: false, otherwise }
    }
}

impl From<Rename> for Change {
    fn from(rename: Rename) -> Self {
        Self::Rename(Box::new(rename))
    }
}

/// A change that cannot be undone, because the file system cannot do better or there is no folder of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jail) enum InPlace {
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
pub(in crate::jail) enum End {
    /// A user's name, as a path below the root.
    User(Vec<u8>),
    /// A name of our own. What it holds in the end is destroyed.
    Spot(Spot),
    /// A prepared entry of the trash.
    Bin(Bin),
    /// An item in the trash that goes back.
    Trashed(Spot),
}

/// What a rename moves.
#[derive(Debug)]
pub(in crate::jail) enum Moved {
    Known(Thing),
    /// A new file. Its size and times are read when they are needed, because they change until then.
    New(OwnedFd, Stat),
}

#[derive(Debug)]
pub(in crate::jail) struct Tree {
    pub(in crate::jail) name: Located,
    pub(in crate::jail) real: JailPath,
}

impl Moved {
    pub(in crate::jail) fn thing(&self) -> Thing {
        match self {
            Self::Known(thing) => *thing,
            Self::New(file, stat) => Thing::from(&fs::stat(file.as_fd()).unwrap_or(*stat)),
        }
    }
}

impl End {
    pub(in crate::jail) fn of(claim: &Claim) -> Self {
        Self::User(claim.path().rel().to_vec())
    }

    pub(in crate::jail) fn user(&self) -> Option<&[u8]> {
        if let Self::User(path) = self { Some(path) } else { None }
    }

    /// The name of our own, if it is one.
    pub(in crate::jail) fn spot(&self) -> Option<&Spot> {
        match self {
            Self::User(_) => None,
            Self::Spot(spot) | Self::Trashed(spot) => Some(spot),
            Self::Bin(bin) => Some(&bin.spot),
        }
    }

    fn written(&self) -> Option<At> {
        match self {
            Self::User(path) => Some(At::Path(path[..].into())),
            own => own.spot()?.at.clone(),
        }
    }

    /// After all steps: a bin keeps its item. Other names of our own hold old content, which is destroyed.
    fn finish(self) {
        match self {
            Self::Spot(spot) => spot.remove(),
            Self::Bin(bin) => bin.keep(),
            Self::User(_) | Self::Trashed(_) => {}
        }
    }

    /// No step was executed, or all were undone: names of our own hold new content that is not needed. A bin keeps its item if
    /// another process prevented the undo.
    fn discard(self) {
        match self {
            Self::Spot(spot) => spot.remove(),
            Self::Bin(bin) if !matches!(bin.spot.stat(), Ok(None)) => bin.keep(),
            Self::Bin(_) | Self::User(_) | Self::Trashed(_) => {}
        }
    }

    /// Keeps what recovery needs.
    fn leave(self) {
        match self {
            Self::Bin(bin) => bin.keep(),
            Self::User(_) | Self::Spot(_) | Self::Trashed(_) => {}
        }
    }
}

impl Step {
    /// The step as the journal holds it. None for a step that the journal cannot describe.
    pub(in crate::jail) fn written(&self) -> Option<journal::Step> {
        match &self.change {
            Change::MakeDir { path, mode, .. } => {
                Some(journal::Step::MakeDir { path: path[..].into(), mode: *mode })
            }
            Change::Rename(rename) => Some(journal::Step::Rename {
                from: rename.from.written()?,
                to: rename.to.written()?,
                moved: rename.moved.thing(),
                displaced: rename.displaced,
            }),
            Change::Link { .. } | Change::InPlace { .. } => None,
        }
    }

    /// The users' names that it changes, as paths below the root.
    pub(in crate::jail) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        let paths = match &self.change {
            Change::MakeDir { path, .. } | Change::Link { to: path, .. } | Change::InPlace { path, .. } => {
                [Some(&path[..]), None]
            }
            Change::Rename(rename) => [rename.to.user(), rename.from.user()],
        };
        paths.into_iter().flatten()
    }
}

impl Plan {
    /// Keeps the folder and the lease of a name until the plan is executed.
    pub(in crate::jail) fn hold(&mut self, claim: &Claim) {
        self.folders.add_claimed(claim);
        self.leases.extend(claim.parent.lease.clone());
    }

    pub(in crate::jail) fn push(&mut self, claim: &Claim, change: Change) {
        self.hold(claim);
        let step =
            Step { entry: 0, name: claim.name().clone(), intent: claim.intent, may_replace: false, change };
        self.steps.push(step);
    }

    pub(in crate::jail) fn push_parents(&mut self, claim: &Claim) {
        for path in &claim.parents {
            self.push(claim, Change::MakeDir { path: path.clone(), mode: FOLDER_MODE, is_parent: true });
        }
    }

    /// Sets `Step::may_replace` for all steps.
    pub fn may_replace(&mut self) {
        self.steps.iter_mut().for_each(|step| step.may_replace = true);
    }

    /// Adds a second plan, which may be in another root or file system. Both are done or none.
    pub fn then(&mut self, next: Self) {
        self.next = Some(Box::new(next));
    }

    pub(in crate::jail) fn take_next(&mut self) -> Option<Self> {
        self.next.take().map(|next| *next)
    }

    /// Adds the steps of one entry of an atomic batch.
    pub fn append(&mut self, entry: usize, mut other: Self) {
        self.is_atomic = true;
        self.steps.extend(other.steps.drain(..).map(|step| Step { entry, ..step }));
        if let Some(next) = other.take_next() {
            self.append(entry, next);
        }
    }

    /// Whether everything of ours that the steps name lies in the same state folder as the workspace, so that its journal can
    /// describe the steps.
    pub(in crate::jail) fn is_in(&self, workspace: &Workspace) -> bool {
        let bins = self.steps.iter().filter_map(|step| match &step.change {
            Change::Rename(rename) => Some(&rename.to),
            _ => None,
        });
        let mut owns = bins.filter_map(|end| if let End::Bin(bin) = end { Some(bin.own()) } else { None });
        owns.all(|own| workspace.is_in(own))
            && self.restored.as_ref().is_none_or(|(trash, _)| workspace.is_in(trash.own()))
    }

    /// Uses these folders instead of those of the claims that the plan was made from.
    pub fn set_folders(&mut self, folders: Folders) {
        self.folders = folders;
    }

    /// Whether recovery has to undo the steps together if the worker is killed between them. A single change with the folders made
    /// for it needs no journal: folders that stay do no harm.
    pub(in crate::jail) fn needs_journal(&self) -> bool {
        let is_change = |step: &&Step| !matches!(step.change, Change::MakeDir { .. });
        self.steps.len() > 1 && (self.is_atomic || self.steps.iter().filter(is_change).count() > 1)
    }

    /// After all steps: destroys what they displaced.
    pub(in crate::jail) fn finish(mut self, jail: &Jail) {
        self.drain_ends(End::finish);
        if let Some((trash, id)) = self.restored.take() {
            trash.remove(jail, &Call::tidying(), id.as_bytes());
        }
    }

    /// Removes the notes of temporary names beside users' files, which may hold old content now: recovery would remove the names
    /// with their content.
    pub(in crate::jail) fn keep_temporary_names(&mut self) {
        for step in &mut self.steps {
            if let Change::Rename(rename) = &mut step.change
                && let End::Spot(spot) = &mut rename.from
            {
                spot.note = None;
            }
        }
    }

    /// A step could not be undone: what our own folders hold stays for recovery.
    pub(in crate::jail) fn leave(mut self) {
        self.drain_ends(End::leave);
    }

    fn drain_ends(&mut self, mut each: impl FnMut(End)) {
        for step in self.steps.drain(..) {
            if let Change::Rename(rename) = step.change {
                let Rename { from, to, .. } = *rename;
                each(from);
                each(to);
            }
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.drain_ends(End::discard);
    }
}
