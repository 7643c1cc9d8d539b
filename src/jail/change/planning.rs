//! Runs in the worker: turns an entry of a call into a plan. The same functions serve a single change, an entry of an atomic batch
//! and a dry run; these differ in how content is staged and in what they refuse.
//! Trusts claims. Never changes a user's name: it makes only staged content, prepared entries of the trash and our own folder.

use std::sync::Arc;

use super::{
    check::{check_does_not_return, check_on_disk, other_root},
    foreseen::Node,
    plan::{Change, End, InPlace, Moved, Plan, Rename, Tree},
};
use crate::{
    jail::{
        Call, Claim, Foreseen, Jail, Source, Staged,
        state::journal::Thing,
        state::trash::Trash,
        state::workspace::{Spot, Workspace},
    },
    path::JailPath,
    sys::fs::{Kind, Stat},
    wire::{Error, Result},
};

/// When the plan of an entry is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// At once, before the next entry is planned.
    Single,
    /// Together with the plans of all other entries.
    Atomic,
    /// Never. `atomic`: the dry run stands for an atomic batch, which refuses more than single entries do.
    Dry { atomic: bool },
}

/// Plans the entries of one call. Each sees what those before it have changed or, if that is not on disk yet, will have changed.
#[derive(Debug)]
pub struct Planning {
    pub(super) mode: Mode,
    pub(super) foreseen: Foreseen,
    /// The root of an atomic batch, which has to stay in one root.
    root: Option<u16>,
    workspace: Option<Arc<Workspace>>,
    /// Ids in the trash that a dry run has restored.
    restored: Vec<String>,
}

impl Planning {
    pub fn new(mode: Mode) -> Self {
        Self { mode, foreseen: Foreseen::default(), root: None, workspace: None, restored: Vec::new() }
    }

    /// What earlier entries of the batch will have changed that is not on disk yet.
    pub fn foreseen(&self) -> Option<&Foreseen> {
        Some(&self.foreseen).filter(|foreseen| !foreseen.is_empty())
    }

    /// Drops what was foreseen for this name: an entry that is not dry changes it on disk.
    pub fn forget(&mut self, path: &JailPath) {
        self.foreseen.forget(path);
    }

    /// Whether plans are executed only after the last entry, or never.
    pub fn is_deferred(&self) -> bool {
        self.mode != Mode::Single
    }

    pub fn is_dry(&self) -> bool {
        matches!(self.mode, Mode::Dry { .. })
    }

    fn is_atomic(&self) -> bool {
        matches!(self.mode, Mode::Atomic | Mode::Dry { atomic: true })
    }

    /// C210 for a move to another root in an atomic batch.
    pub fn check_same_root(&self, from: &Claim, to: &Claim) -> Result<()> {
        if self.is_atomic() && from.path().root() != to.path().root() { Err(other_root(to)) } else { Ok(()) }
    }

    /// C210 for an entry of an atomic batch in another root than those before it.
    fn check_root(&mut self, claim: &Claim) -> Result<()> {
        let root = claim.path().root();
        let is_other = self.is_atomic() && *self.root.get_or_insert(root) != root;
        if is_other { Err(other_root(claim)) } else { Ok(()) }
    }

    /// Our own folder in the root of an atomic batch.
    fn workspace(&mut self, jail: &Jail, call: &Call, claim: &Claim) -> Result<Arc<Workspace>> {
        self.check_root(claim)?;
        if let Some(workspace) = &self.workspace {
            return Ok(Arc::clone(workspace));
        }
        let impossible = |what| Error::io(&claim.name().sent, what);
        let workspace = jail.workspaces.open(jail, call, claim.path().root()).ok_or_else(|| {
            impossible("the service cannot keep its own state in this root, which an atomic batch needs")
        })?;
        if !workspace.can_exchange() {
            return Err(impossible(
                "this file system cannot exchange names, which an atomic batch needs; send it without atomic",
            ));
        }
        self.workspace = Some(Arc::clone(&workspace));
        Ok(workspace)
    }

    /// Plans to give a staged file, folder or link the claimed name, which is free. Missing folders are made.
    pub fn place(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        staged: Staged,
        source: Source<'_>,
    ) -> Result<Plan> {
        let mut plan = Plan::default();
        match self.mode {
            Mode::Dry { .. } => self.foresee_write(claim, &staged, source)?,
            Mode::Single => {
                plan.push_parents(claim);
                plan.push(claim, staged.into_place(claim)?);
            }
            Mode::Atomic => {
                let (mode, rename) = self.stage_in_workspace(jail, call, claim, staged)?;
                plan.push_parents(claim);
                plan.push(claim, rename.into());
                self.foreseen.write(claim, mode, source, false);
            }
        }
        Ok(plan)
    }

    /// Plans to replace what was `read` at the name by a staged file, folder or link. C222 if something else lies there by then.
    pub fn replace(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        mut staged: Staged,
        read: &Stat,
        source: Source<'_>,
    ) -> Result<Plan> {
        let mut plan = Plan::default();
        let (displaced, must_be_empty) = (Some(Thing::from(read)), read.kind == Kind::Dir);
        match self.mode {
            Mode::Dry { .. } => self.foresee_write(claim, &staged, source)?,
            Mode::Single => {
                staged.name(claim, jail, call).map_err(|errno| claim.change_error(jail, call, errno))?;
                let (from, moved) = staged.take_named().ok_or_else(|| claim.changed())?;
                let otherwise = Some((InPlace::Overwrite, None));
                let expect = [None, Some(*read)];
                let rename = Rename::new(End::Spot(from), End::of(claim), moved);
                plan.push(claim, Rename { displaced, expect, must_be_empty, otherwise, ..rename }.into());
            }
            Mode::Atomic => {
                check_on_disk(claim)?;
                let (mode, rename) = self.stage_in_workspace(jail, call, claim, staged)?;
                let expect = [None, claim.stat_on_disk(read)];
                plan.push(claim, Rename { displaced, expect, must_be_empty, ..rename }.into());
                self.foreseen.write(claim, mode, source, false);
            }
        }
        Ok(plan)
    }

    /// Plans to make a folder.
    pub fn make_dir(&mut self, jail: &Jail, call: &Call, claim: &Claim, mode: u32) -> Result<Plan> {
        let (mut plan, mode) = (Plan::default(), mode & 0o777);
        match self.mode {
            Mode::Dry { .. } => self.check_dry(claim)?,
            Mode::Single => {}
            Mode::Atomic => drop(self.workspace(jail, call, claim)?),
        }
        if self.is_deferred() {
            self.foreseen.make_folder(claim, mode);
        }
        if !self.is_dry() {
            plan.push_parents(claim);
            let path = claim.path().rel().to_vec();
            plan.push(claim, Change::MakeDir { path, mode, is_parent: false });
        }
        Ok(plan)
    }

    /// Plans to delete anything but a folder; `expect` is its stat.
    pub fn remove(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<Plan> {
        if self.is_atomic() {
            claim.check_movable()?;
        }
        self.take(jail, call, claim, expect, InPlace::RemoveFile)
    }

    /// Plans to delete an empty folder.
    pub fn remove_folder(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<Plan> {
        if self.is_deferred() {
            claim.check_empty(call)?;
        }
        self.take(jail, call, claim, expect, InPlace::RemoveFolder)
    }

    /// Plans to delete a folder with all it holds; C211 if it holds something denied, C221 if something protected. Returns how many
    /// entries it holds.
    pub fn remove_tree(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        expect: &Stat,
    ) -> Result<(Plan, u64)> {
        let entries = claim.check_tree(jail, call, "deleted", None)?;
        let mut plan = self.take(jail, call, claim, expect, InPlace::RemoveTree)?;
        if self.mode == Mode::Single {
            plan.tree = Some(Tree { name: claim.name().clone(), real: claim.path().clone() });
        }
        Ok((plan, entries))
    }

    /// Plans to move an entry into our own folder, where it is destroyed in the end. A single delete of an empty folder needs no
    /// such move: the kernel itself refuses a folder that is not empty.
    fn take(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        expect: &Stat,
        otherwise: InPlace,
    ) -> Result<Plan> {
        let mut plan = Plan::default();
        let taken = |spot| Rename::new(End::of(claim), End::Spot(spot), Moved::Known(Thing::from(expect)));
        match self.mode {
            Mode::Dry { .. } => {
                self.check_dry(claim)?;
                self.foreseen.remove(claim);
            }
            Mode::Atomic => {
                let must_be_empty = otherwise == InPlace::RemoveFolder;
                let rename = taken(self.workspace(jail, call, claim)?.spot());
                plan.push(claim, Rename { expect: [Some(*expect), None], must_be_empty, ..rename }.into());
                self.foreseen.remove(claim);
            }
            Mode::Single => {
                let workspace = match otherwise {
                    InPlace::RemoveFolder => None,
                    _ => jail.workspaces.open(jail, call, claim.path().root()),
                };
                let path = claim.path().rel().to_vec();
                let expect = Some(*expect).filter(|_| otherwise == InPlace::RemoveFile);
                plan.push(
                    claim,
                    match workspace {
                        Some(workspace) => {
                            let otherwise = Some((otherwise, expect));
                            Rename { otherwise, ..taken(workspace.spot()) }.into()
                        }
                        None => Change::InPlace { how: otherwise, path, expect },
                    },
                );
            }
        }
        Ok(plan)
    }

    /// Plans to move a file or folder into the trash. Also returns its id there, or None in a dry run, and the number of entries of
    /// a folder.
    pub fn discard(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        expect: &Stat,
    ) -> Result<(Plan, Option<String>, Option<u64>)> {
        claim.check_movable()?;
        let mut plan = Plan::default();
        if self.is_dry() {
            let content = claim.check_bin(jail, call)?;
            self.check_dry(claim)?;
            self.foreseen.remove(claim);
            return Ok((plan, None, content.entries));
        }
        let bin = claim.bin(jail, call)?;
        if self.mode == Mode::Atomic {
            if !self.workspace(jail, call, claim)?.is_in(bin.own()) {
                return Err(Error::io(
                    &claim.name().sent,
                    "the service's state in this root was replaced since this connection began; connect again",
                ));
            }
            self.foreseen.remove(claim);
        }
        let (id, entries) = (bin.id().to_owned(), bin.entries());
        let rename = Rename::new(End::of(claim), End::Bin(bin), Moved::Known(Thing::from(expect)));
        plan.push(claim, Rename { expect: [Some(*expect), None], ..rename }.into());
        Ok((plan, Some(id), entries))
    }

    /// Plans to move an item of the trash back to its old name. What lies there is replaced.
    pub(in crate::jail) fn restore(
        &mut self,
        claim: &Claim,
        (trash, id): (Trash, &str),
        (spot, item): (Spot, &Stat),
    ) -> Plan {
        let mut plan = Plan::default();
        if self.is_dry() {
            self.foreseen.make(claim, Node { kind: item.kind, mode: item.mode, content: None });
            self.restored.push(id.to_owned());
            return plan;
        }
        plan.push_parents(claim);
        let displaced = claim.stat().map(Thing::from);
        let must_be_empty = claim.kind() == Some(Kind::Dir);
        let rename = Rename::new(End::Trashed(spot), End::of(claim), Moved::Known(Thing::from(item)));
        plan.push(claim, Rename { displaced, must_be_empty, ..rename }.into());
        plan.restored = Some((trash, id.to_owned()));
        plan
    }

    /// Whether this dry run has already restored the entry of the trash.
    pub(in crate::jail) fn has_restored(&self, id: &str) -> bool {
        self.restored.iter().any(|restored| restored == id)
    }

    /// Plans to rename `from`, whose stat is `expect`, to `to`. What lies there already is replaced.
    pub fn rename(
        &mut self,
        jail: &Jail,
        call: &Call,
        from: &Claim,
        to: &Claim,
        expect: &Stat,
    ) -> Result<Plan> {
        if expect.kind == Kind::Dir {
            self.check_added(jail, (&from.name().sent, from.path()), to, "moved")?;
        }
        if self.is_deferred() {
            self.check_root(from)?;
            self.check_root(to)?;
        }
        if self.is_atomic() {
            check_on_disk(from)?;
            check_on_disk(to)?;
            check_does_not_return(&self.foreseen, from, to)?;
        }
        if self.is_deferred() {
            self.foreseen.rename(from, to);
        }
        if self.is_dry() {
            return Ok(Plan::default());
        }
        let workspace = match (self.mode, to.stat()) {
            (Mode::Single, None) => None,
            // Without a folder of our own there is only the plain rename, which destroys what it replaces.
            (Mode::Single, Some(_)) => jail
                .workspaces
                .open(jail, call, from.path().root())
                .filter(|workspace| workspace.can_exchange()),
            _ => Some(self.workspace(jail, call, from)?),
        };
        Ok(Self::exchange(from, to, expect, workspace.as_deref()))
    }

    /// One rename if the destination is free. Otherwise two steps: exchange the two, then take the old one away.
    fn exchange(from: &Claim, to: &Claim, expect: &Stat, workspace: Option<&Workspace>) -> Plan {
        let mut plan = Plan::default();
        plan.hold(from);
        plan.push_parents(to);
        let replaced = to.stat().and_then(|there| to.stat_on_disk(there));
        let rename = Rename::new(End::of(from), End::of(to), Moved::Known(Thing::from(expect)));
        let rename = Rename { expect: [from.stat_on_disk(expect), replaced], ..rename };
        match (to.stat(), workspace) {
            (None, _) => plan.push(to, rename.into()),
            (Some(_), None) => plan.push(to, Rename { overwrites: true, ..rename }.into()),
            (Some(old), Some(workspace)) => {
                let displaced = Thing::from(old);
                plan.push(to, Rename { displaced: Some(displaced), ..rename }.into());
                let away = Rename::new(End::of(from), End::Spot(workspace.spot()), Moved::Known(displaced));
                plan.push(to, Rename { must_be_empty: old.kind == Kind::Dir, ..away }.into());
            }
        }
        plan
    }

    /// Refuses in a dry run what a real run would refuse.
    fn check_dry(&mut self, claim: &Claim) -> Result<()> {
        self.check_root(claim)?;
        if self.is_atomic() { check_on_disk(claim) } else { Ok(()) }
    }

    fn foresee_write(&mut self, claim: &Claim, staged: &Staged, source: Source<'_>) -> Result<()> {
        self.check_dry(claim)?;
        let keeps = !self.is_atomic();
        self.foreseen.write(claim, staged.stat_now().mode, source, keeps);
        Ok(())
    }

    /// Gives staged content a name in our own folder. Returns its mode and the rename that gives it the claimed name.
    fn stage_in_workspace(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        mut staged: Staged,
    ) -> Result<(u32, Rename)> {
        self.workspace(jail, call, claim)?;
        let stat = staged.stat_now();
        staged.name(claim, jail, call).map_err(|errno| claim.change_error(jail, call, errno))?;
        match staged.spot.take() {
            Some(spot) if spot.is_own() => {
                let moved = Moved::Known(Thing::from(&stat));
                Ok((stat.mode, Rename::new(End::Spot(spot), End::of(claim), moved)))
            }
            spot => {
                staged.spot = spot;
                Err(Error::io(
                    &claim.name().sent,
                    "lies on another file system than its root; an atomic batch stays on one",
                ))
            }
        }
    }
}
