//! Runs in the worker: what a change of names consists of, before anything has changed. `Planning` makes plans, `engine` executes
//! them. Trusts the claims that a plan is made from. Never changes a user's name: it only holds new content under names of our own.

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

/// What every other program gives a folder.
pub(in crate::jail) const FOLDER_MODE: u32 = 0o755;

/// Steps that are executed one after the other; if one of them fails, those before it are undone. Empty in a dry run.
#[derive(Debug, Default)]
pub struct Plan {
    pub(in crate::jail) steps: Vec<Step>,
    /// Folders of the names, so that the steps need not ask the supervisor again.
    pub(in crate::jail) folders: Folders,
    /// Keep other clients away from the names while the steps are executed.
    leases: Vec<Arc<Lease>>,
    /// Missing folders that were made are undone after a kill, too.
    pub(in crate::jail) is_atomic: bool,
    /// The folder that the last step takes away, to be destroyed under the rules of its old path.
    pub(in crate::jail) tree: Option<Tree>,
    /// The entry of the trash whose item goes back; removed in the end, with what the item has replaced.
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
    /// The name was free and may be replaced, so a name that is taken by now is a conflict (C222) and no refusal (C217).
    pub(in crate::jail) may_replace: bool,
    pub(in crate::jail) change: Change,
}

#[derive(Debug)]
pub(in crate::jail) enum Change {
    /// A missing folder above a name (`is_parent`) may be made by another process meanwhile.
    MakeDir {
        path: Vec<u8>,
        mode: u32,
        is_parent: bool,
    },
    /// A file without a name gets one, which is free.
    Link {
        file: OwnedFd,
        to: Vec<u8>,
    },
    Rename(Box<Rename>),
    /// Cannot be undone.
    InPlace {
        how: InPlace,
        path: Vec<u8>,
        expect: Option<Stat>,
    },
}

/// `moved` goes from `from` to `to`; what lies there, if anything, goes the other way.
#[derive(Debug)]
pub(in crate::jail) struct Rename {
    pub(in crate::jail) from: End,
    pub(in crate::jail) to: End,
    pub(in crate::jail) moved: Moved,
    pub(in crate::jail) displaced: Option<Thing>,
    /// What must lie at `from` and at `to` before, unchanged in everything.
    pub(in crate::jail) expect: [Option<Stat>; 2],
    /// The folder that comes away must be empty still: what is displaced, or else what is moved.
    pub(in crate::jail) must_be_empty: bool,
    /// What lies at `to` is destroyed, because there is no folder of our own to keep it in, or no exchange.
    pub(in crate::jail) overwrites: bool,
    /// What is done instead where the file system cannot do this rename, and what must lie there then, unchanged.
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

/// A change for which the file system, or the lack of a folder of our own, leaves no way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jail) enum InPlace {
    /// A plain rename, which destroys what lies at the destination.
    Overwrite,
    RemoveFile,
    /// The kernel refuses one that is not empty.
    RemoveFolder,
    /// Emptied from the inside out.
    RemoveTree,
}

/// One side of a rename.
#[derive(Debug)]
pub(in crate::jail) enum End {
    /// A user's name, as a path below the root.
    User(Vec<u8>),
    /// A name of our own. What lies there in the end is destroyed.
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
    /// A new file, whose size and time are read only if somebody asks for them.
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

    /// All steps are done: a bin keeps its item, and other names of ours hold old content, which is destroyed.
    fn finish(self) {
        match self {
            Self::Spot(spot) => spot.remove(),
            Self::Bin(bin) => bin.keep(),
            Self::User(_) | Self::Trashed(_) => {}
        }
    }

    /// No step has happened or all were undone: names of ours hold new content that found no place. An item that another process
    /// kept from going back stays in the trash.
    fn discard(self) {
        match self {
            Self::Spot(spot) => spot.remove(),
            Self::Bin(bin) if !matches!(bin.spot.stat(), Ok(None)) => bin.keep(),
            Self::Bin(_) | Self::User(_) | Self::Trashed(_) => {}
        }
    }

    /// Recovery will need what lies there.
    fn leave(self) {
        match self {
            Self::Bin(bin) => bin.keep(),
            Self::User(_) | Self::Spot(_) | Self::Trashed(_) => {}
        }
    }
}

impl Step {
    /// As the journal holds it. None for a step that has no place there.
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
    /// Keeps the folder and the lease of a name.
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

    /// A name that is taken by the time the plan is executed is a conflict: the caller would have replaced it.
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

    /// More than one change that belong together. Folders that are left of a single one are no harm.
    pub(in crate::jail) fn needs_journal(&self) -> bool {
        let is_change = |step: &&Step| !matches!(step.change, Change::MakeDir { .. });
        self.steps.len() > 1 && (self.is_atomic || self.steps.iter().filter(is_change).count() > 1)
    }

    /// All steps are done.
    pub(in crate::jail) fn finish(mut self, jail: &Jail) {
        self.drain_ends(End::finish);
        if let Some((trash, id)) = self.restored.take() {
            trash.remove(jail, &Call::tidying(), id.as_bytes());
        }
    }

    /// Names of our own beside users' files may hold old content: recovery must not remove them as it removes new content.
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
