//! Runs in the worker: turns an entry of a call into a plan. The same functions serve a single change, an entry of an atomic batch
//! and a dry run; these differ in how content is staged and in what they refuse.
//! Trusts claims. Never changes a user's name: it makes only staged content, prepared entries of the trash and our own folder.

use std::sync::Arc;

use super::{
    check::{check_does_not_return, check_on_disk, other_root},
    foreseen::ForeseenEntry,
    plan::{ChangePlan, InPlaceChange, MovedEntry, RemovedTree, Rename, RenameEnd, StepChange},
};
use crate::{
    jail::{
        Call, Claim, ContentSource, ForeseenChanges, Jail, Staged,
        state::journal::FileIdentity,
        state::trash::RootTrash,
        state::workspace::{TemporaryName, Workspace},
    },
    path::JailPath,
    sys::fs::{FileKind, FileStat},
    wire::{Error, Result},
};

/// When the plan of an entry is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanMode {
    /// At once, before the next entry is planned.
    Single,
    /// Together with the plans of all other entries.
    Atomic,
    /// Never. `atomic`: the dry run stands for an atomic batch, which refuses more than single entries do.
    DryRun { atomic: bool },
}

/// Plans the entries of one call. Each sees what those before it have changed or, if that is not on disk yet, will have changed.
#[derive(Debug)]
pub struct Planning {
    pub(super) mode: PlanMode,
    pub(super) foreseen: ForeseenChanges,
    /// The root of an atomic batch, which has to stay in one root.
    root: Option<u16>,
    workspace: Option<Arc<Workspace>>,
    /// Ids in the trash that a dry run has restored.
    restored_ids: Vec<String>,
}

impl Planning {
    pub fn new(mode: PlanMode) -> Self {
        Self { mode, foreseen: ForeseenChanges::default(), root: None, workspace: None, restored_ids: Vec::new() }
    }

    /// What earlier entries of the batch will have changed that is not on disk yet.
    pub fn foreseen(&self) -> Option<&ForeseenChanges> {
        Some(&self.foreseen).filter(|foreseen| !foreseen.is_empty())
    }

    /// Drops what was foreseen for this name: an entry that is not dry changes it on disk.
    pub fn forget(&mut self, path: &JailPath) {
        self.foreseen.forget(path);
    }

    /// Whether plans are executed only after the last entry, or never.
    pub fn is_deferred(&self) -> bool {
        self.mode != PlanMode::Single
    }

    pub fn is_dry(&self) -> bool {
        matches!(self.mode, PlanMode::DryRun { .. })
    }

    fn is_atomic(&self) -> bool {
        matches!(self.mode, PlanMode::Atomic | PlanMode::DryRun { atomic: true })
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
        source: ContentSource<'_>,
    ) -> Result<ChangePlan> {
        let mut plan = ChangePlan::default();
        match self.mode {
            PlanMode::DryRun { .. } => self.add_foreseen_file(claim, &staged, source)?,
            PlanMode::Single => {
                plan.push_parents(claim);
                plan.push(claim, staged.into_change(claim)?);
            }
            PlanMode::Atomic => {
                let (mode, rename) = self.stage_in_workspace(jail, call, claim, staged)?;
                plan.push_parents(claim);
                plan.push(claim, rename.into());
                self.foreseen.add_file(claim, mode, source, false);
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
        read: &FileStat,
        source: ContentSource<'_>,
    ) -> Result<ChangePlan> {
        let mut plan = ChangePlan::default();
        let (displaced, must_be_empty) = (Some(FileIdentity::from(read)), read.kind == FileKind::Dir);
        match self.mode {
            PlanMode::DryRun { .. } => self.add_foreseen_file(claim, &staged, source)?,
            PlanMode::Single => {
                staged.give_temporary_name(claim, jail, call).map_err(|errno| claim.change_error(jail, call, errno))?;
                let (from, moved) = staged.take_temporary_name().ok_or_else(|| claim.changed_error())?;
                let otherwise = Some((InPlaceChange::Overwrite, None));
                let expect = [None, Some(*read)];
                let rename = Rename::new(RenameEnd::Temporary(from), RenameEnd::of_claim(claim), moved);
                plan.push(
                    claim,
                    Rename { displaced, expected_stats: expect, must_be_empty, fallback: otherwise, ..rename }.into(),
                );
            }
            PlanMode::Atomic => {
                check_on_disk(claim)?;
                let (mode, rename) = self.stage_in_workspace(jail, call, claim, staged)?;
                let expect = [None, claim.stat_on_disk(read)];
                plan.push(claim, Rename { displaced, expected_stats: expect, must_be_empty, ..rename }.into());
                self.foreseen.add_file(claim, mode, source, false);
            }
        }
        Ok(plan)
    }

    /// Plans to make a folder.
    pub fn make_dir(&mut self, jail: &Jail, call: &Call, claim: &Claim, mode: u32) -> Result<ChangePlan> {
        let (mut plan, mode) = (ChangePlan::default(), mode & 0o777);
        match self.mode {
            PlanMode::DryRun { .. } => self.check_dry_run(claim)?,
            PlanMode::Single => {}
            PlanMode::Atomic => drop(self.workspace(jail, call, claim)?),
        }
        if self.is_deferred() {
            self.foreseen.add_folder(claim, mode);
        }
        if !self.is_dry() {
            plan.push_parents(claim);
            let path = claim.path().rel().to_vec();
            plan.push(claim, StepChange::MakeDir { path, mode, is_parent: false });
        }
        Ok(plan)
    }

    /// Plans to delete anything but a folder; `expect` is its stat.
    pub fn remove(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &FileStat) -> Result<ChangePlan> {
        if self.is_atomic() {
            claim.check_movable()?;
        }
        self.take(jail, call, claim, expect, InPlaceChange::RemoveFile)
    }

    /// Plans to delete an empty folder.
    pub fn remove_folder(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &FileStat) -> Result<ChangePlan> {
        if self.is_deferred() {
            claim.check_empty(call)?;
        }
        self.take(jail, call, claim, expect, InPlaceChange::RemoveFolder)
    }

    /// Plans to delete a folder with all it holds; C211 if it holds something denied, C221 if something protected. Returns how many
    /// entries it holds.
    pub fn remove_tree(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        expect: &FileStat,
    ) -> Result<(ChangePlan, u64)> {
        let entries = claim.check_tree(jail, call, "deleted", None)?;
        let mut plan = self.take(jail, call, claim, expect, InPlaceChange::RemoveTree)?;
        if self.mode == PlanMode::Single {
            plan.removed_tree = Some(RemovedTree { name: claim.name().clone(), real_path: claim.path().clone() });
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
        expect: &FileStat,
        otherwise: InPlaceChange,
    ) -> Result<ChangePlan> {
        let mut plan = ChangePlan::default();
        let taken = |spot| {
            Rename::new(
                RenameEnd::of_claim(claim),
                RenameEnd::Temporary(spot),
                MovedEntry::Existing(FileIdentity::from(expect)),
            )
        };
        match self.mode {
            PlanMode::DryRun { .. } => {
                self.check_dry_run(claim)?;
                self.foreseen.add_removal(claim);
            }
            PlanMode::Atomic => {
                let must_be_empty = otherwise == InPlaceChange::RemoveFolder;
                let rename = taken(self.workspace(jail, call, claim)?.new_temporary_name());
                plan.push(claim, Rename { expected_stats: [Some(*expect), None], must_be_empty, ..rename }.into());
                self.foreseen.add_removal(claim);
            }
            PlanMode::Single => {
                let workspace = match otherwise {
                    InPlaceChange::RemoveFolder => None,
                    _ => jail.workspaces.open(jail, call, claim.path().root()),
                };
                let path = claim.path().rel().to_vec();
                let expect = Some(*expect).filter(|_| otherwise == InPlaceChange::RemoveFile);
                plan.push(
                    claim,
                    match workspace {
                        Some(workspace) => {
                            let otherwise = Some((otherwise, expect));
                            Rename { fallback: otherwise, ..taken(workspace.new_temporary_name()) }.into()
                        }
                        None => StepChange::InPlace { how: otherwise, path, expect },
                    },
                );
            }
        }
        Ok(plan)
    }

    /// Plans to move a file or folder into the trash. Also returns its id there, or None in a dry run, and the number of entries of
    /// a folder.
    pub fn move_to_trash(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        expect: &FileStat,
    ) -> Result<(ChangePlan, Option<String>, Option<u64>)> {
        claim.check_movable()?;
        let mut plan = ChangePlan::default();
        if self.is_dry() {
            let content = claim.check_trashable(jail, call)?;
            self.check_dry_run(claim)?;
            self.foreseen.add_removal(claim);
            return Ok((plan, None, content.entries));
        }
        let bin = claim.prepare_trash_slot(jail, call)?;
        if self.mode == PlanMode::Atomic {
            if !self.workspace(jail, call, claim)?.is_in(bin.state_folder()) {
                return Err(Error::io(
                    &claim.name().sent,
                    "the service's state in this root was replaced since this connection began; connect again",
                ));
            }
            self.foreseen.add_removal(claim);
        }
        let (id, entries) = (bin.id().to_owned(), bin.entries());
        let rename = Rename::new(
            RenameEnd::of_claim(claim),
            RenameEnd::TrashSlot(bin),
            MovedEntry::Existing(FileIdentity::from(expect)),
        );
        plan.push(claim, Rename { expected_stats: [Some(*expect), None], ..rename }.into());
        Ok((plan, Some(id), entries))
    }

    /// Plans to move an item of the trash back to its old name. What lies there is replaced.
    pub(in crate::jail) fn restore(
        &mut self,
        claim: &Claim,
        (trash, id): (RootTrash, &str),
        (spot, item): (TemporaryName, &FileStat),
    ) -> ChangePlan {
        let mut plan = ChangePlan::default();
        if self.is_dry() {
            self.foreseen.add_entry(claim, ForeseenEntry { kind: item.kind, mode: item.mode, content: None });
            self.restored_ids.push(id.to_owned());
            return plan;
        }
        plan.push_parents(claim);
        let displaced = claim.stat().map(FileIdentity::from);
        let must_be_empty = claim.kind() == Some(FileKind::Dir);
        let rename = Rename::new(
            RenameEnd::TrashedItem(spot),
            RenameEnd::of_claim(claim),
            MovedEntry::Existing(FileIdentity::from(item)),
        );
        plan.push(claim, Rename { displaced, must_be_empty, ..rename }.into());
        plan.restored_item = Some((trash, id.to_owned()));
        plan
    }

    /// Whether this dry run has already restored the entry of the trash.
    pub(in crate::jail) fn has_restored(&self, id: &str) -> bool {
        self.restored_ids.iter().any(|restored| restored == id)
    }

    /// Plans to rename `from`, whose stat is `expect`, to `to`. What lies there already is replaced.
    pub fn rename(
        &mut self,
        jail: &Jail,
        call: &Call,
        from: &Claim,
        to: &Claim,
        expect: &FileStat,
    ) -> Result<ChangePlan> {
        if expect.kind == FileKind::Dir {
            self.check_added_entries(jail, (&from.name().sent, from.path()), to, "moved")?;
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
            self.foreseen.add_rename(from, to);
        }
        if self.is_dry() {
            return Ok(ChangePlan::default());
        }
        let workspace = match (self.mode, to.stat()) {
            (PlanMode::Single, None) => None,
            // Without a folder of our own there is only the plain rename, which destroys what it replaces.
            (PlanMode::Single, Some(_)) => {
                jail.workspaces.open(jail, call, from.path().root()).filter(|workspace| workspace.can_exchange())
            }
            _ => Some(self.workspace(jail, call, from)?),
        };
        Ok(Self::exchange(from, to, expect, workspace.as_deref()))
    }

    /// One rename if the destination is free. Otherwise two steps: exchange the two, then take the old one away.
    fn exchange(from: &Claim, to: &Claim, expect: &FileStat, workspace: Option<&Workspace>) -> ChangePlan {
        let mut plan = ChangePlan::default();
        plan.hold_lease(from);
        plan.push_parents(to);
        let replaced = to.stat().and_then(|there| to.stat_on_disk(there));
        let rename = Rename::new(
            RenameEnd::of_claim(from),
            RenameEnd::of_claim(to),
            MovedEntry::Existing(FileIdentity::from(expect)),
        );
        let rename = Rename { expected_stats: [from.stat_on_disk(expect), replaced], ..rename };
        match (to.stat(), workspace) {
            (None, _) => plan.push(to, rename.into()),
            (Some(_), None) => plan.push(to, Rename { overwrites: true, ..rename }.into()),
            (Some(old), Some(workspace)) => {
                let displaced = FileIdentity::from(old);
                plan.push(to, Rename { displaced: Some(displaced), ..rename }.into());
                let away = Rename::new(
                    RenameEnd::of_claim(from),
                    RenameEnd::Temporary(workspace.new_temporary_name()),
                    MovedEntry::Existing(displaced),
                );
                plan.push(to, Rename { must_be_empty: old.kind == FileKind::Dir, ..away }.into());
            }
        }
        plan
    }

    /// Refuses in a dry run what a real run would refuse.
    fn check_dry_run(&mut self, claim: &Claim) -> Result<()> {
        self.check_root(claim)?;
        if self.is_atomic() { check_on_disk(claim) } else { Ok(()) }
    }

    fn add_foreseen_file(&mut self, claim: &Claim, staged: &Staged, source: ContentSource<'_>) -> Result<()> {
        self.check_dry_run(claim)?;
        let keeps = !self.is_atomic();
        self.foreseen.add_file(claim, staged.stat_now().mode, source, keeps);
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
        staged.give_temporary_name(claim, jail, call).map_err(|errno| claim.change_error(jail, call, errno))?;
        match staged.temporary_name.take() {
            Some(spot) if spot.is_in_state() => {
                let moved = MovedEntry::Existing(FileIdentity::from(&stat));
                Ok((stat.mode, Rename::new(RenameEnd::Temporary(spot), RenameEnd::of_claim(claim), moved)))
            }
            spot => {
                staged.temporary_name = spot;
                Err(Error::io(
                    &claim.name().sent,
                    "lies on another file system than its root; an atomic batch stays on one",
                ))
            }
        }
    }
}
