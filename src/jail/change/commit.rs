//! When a change happens: at once, together with the others of its batch, or, in a dry run, never.

use super::{
    foreseen::Node,
    transaction::{check_does_not_return, check_nothing_added_below, check_on_disk, other_root},
};
use crate::{
    jail::{
        Call, Claim, Copied, Dir, Fill, Foreseen, Jail, Like, Located, Renamed, Source, Staged, Transaction,
        walk::{self, EachEntry},
    },
    path::JailPath,
    sys::fs::{Kind, Stat},
    wire::{Error, Result},
};

/// How a function commits its changes. The function's code is the same for all three.
#[derive(Debug)]
pub enum Commit<'t> {
    Now,
    /// As this entry of the batch.
    Together(&'t mut Transaction, usize),
    /// All checks and no change.
    Dry(&'t mut DryRun),
}

/// What a dry run would have changed so far. Its entries see each other's effects, as those of a real run do.
#[derive(Debug, Default)]
pub struct DryRun {
    foreseen: Foreseen,
    /// It stands for an atomic batch, which refuses more than single entries do.
    atomic: bool,
    root: Option<u16>,
    /// Ids of things in the trash.
    restored: Vec<String>,
}

impl DryRun {
    pub fn new(atomic: bool) -> Self {
        Self { atomic, ..Self::default() }
    }

    /// Drops what was foreseen for this name: an entry that is not dry changes it on disk.
    pub fn forget(&mut self, path: &JailPath) {
        self.foreseen.forget(path);
    }

    /// Refuses what `Transaction` would refuse.
    fn check(&mut self, claim: &Claim) -> Result<()> {
        if !self.atomic {
            return Ok(());
        }
        let root = claim.path().root();
        if *self.root.get_or_insert(root) != root { Err(other_root(claim)) } else { check_on_disk(claim) }
    }
}

/// How many entries a folder holds, at most `MAX_COUNTED`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub entries: u64,
    /// There are more than were counted.
    pub more: bool,
}

/// Counting stops here: a dry run need not walk a huge tree to the end.
const MAX_COUNTED: u64 = 100_000;

impl Commit<'_> {
    /// What earlier entries of the batch will have changed that is not on disk yet.
    pub fn foreseen(&self) -> Option<&Foreseen> {
        match self {
            Self::Now => None,
            Self::Together(all, _) => Some(all.foreseen()),
            Self::Dry(run) => Some(&run.foreseen),
        }
        .filter(|foreseen| !foreseen.is_empty())
    }

    /// Whether changes are applied only after the last entry, or never.
    pub fn is_deferred(&self) -> bool {
        !matches!(self, Self::Now)
    }

    /// C210 for a move to another root in an atomic batch.
    pub fn check_same_root(&self, from: &Claim, to: &Claim) -> Result<()> {
        let is_atomic = match self {
            Self::Now => false,
            Self::Together(..) => true,
            Self::Dry(run) => run.atomic,
        };
        if is_atomic && from.path().root() != to.path().root() { Err(other_root(to)) } else { Ok(()) }
    }

    pub fn is_dry(&self) -> bool {
        matches!(self, Self::Dry(_))
    }

    /// See `Claim::stage`.
    pub fn stage(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        like: Like<'_>,
        bytes: &[u8],
    ) -> Result<Staged> {
        self.stage_with(jail, call, claim, like, |fill| fill.write(bytes))
    }

    /// See `Claim::stage_with`.
    pub fn stage_with(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        like: Like<'_>,
        fill: impl FnOnce(&mut Fill<'_>) -> Result<()>,
    ) -> Result<Staged> {
        match self {
            Self::Dry(_) => Staged::dry(call, (Kind::File, like.mode), fill),
            _ => claim.stage_with(jail, call, like, fill),
        }
    }

    /// See `Claim::stage_link`.
    pub fn stage_link(&self, jail: &Jail, call: &Call, claim: &Claim, target: &[u8]) -> Result<Staged> {
        match self {
            Self::Dry(_) => Staged::dry(call, (Kind::Symlink, 0o777), |_| Ok(())),
            _ => claim.stage_link(jail, call, target),
        }
    }

    /// See `Claim::stage_tree`. `path` is where the folder `source` will be by then.
    pub fn stage_tree(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        (from, path): (&Located, &JailPath),
        source: &Dir,
    ) -> Result<(Staged, Copied)> {
        self.check_added(jail, (&from.sent, path), claim, "copied")?;
        match self {
            Self::Dry(_) => {
                let copied = claim.measure_tree(jail, call, from, source)?;
                Ok((Staged::dry(call, (Kind::Dir, 0o755), |_| Ok(()))?, copied))
            }
            _ => claim.stage_tree(jail, call, from, source),
        }
    }

    /// The same for a folder that only earlier entries of the batch will make.
    pub fn stage_planned_tree(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        (from, path): (&Located, &JailPath),
    ) -> Result<Staged> {
        self.check_added(jail, (&from.sent, path), claim, "copied")?;
        match self {
            Self::Dry(_) => Staged::dry(call, (Kind::Dir, 0o755), |_| Ok(())),
            _ => Err(Error::not_found(&from.sent)),
        }
    }

    /// Whether earlier entries of the batch put something into this folder that is not there yet.
    pub fn adds_below(&self, folder: &JailPath) -> bool {
        self.foreseen().is_some_and(|foreseen| !foreseen.added_below(&folder.into()).is_empty())
    }

    /// What earlier entries put into a folder goes with it: an atomic batch refuses that (C210), a dry run of single entries
    /// checks the names that it will get.
    fn check_added(&self, jail: &Jail, from: (&str, &JailPath), to: &Claim, verb: &str) -> Result<()> {
        let (sent, path) = from;
        match self {
            Self::Now => Ok(()),
            Self::Together(all, _) => check_nothing_added_below(all.foreseen(), sent, path),
            Self::Dry(run) if run.atomic => check_nothing_added_below(&run.foreseen, sent, path),
            Self::Dry(run) => {
                let added = run.foreseen.added_below(&path.into());
                let sent = (sent, to.name().sent.as_str());
                added.iter().try_for_each(|below| jail.check_new_entry(sent, to.path(), below, verb))
            }
        }
    }

    /// See `Claim::place`.
    pub fn place(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        staged: Staged,
        source: Source<'_>,
    ) -> Result<()> {
        match self {
            Self::Now => claim.place(jail, call, staged).map(drop),
            Self::Together(all, entry) => all.place(jail, call, *entry, claim, staged, source),
            Self::Dry(run) => run.write(claim, &staged, source),
        }
    }

    /// See `Claim::replace`.
    pub fn replace(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        staged: Staged,
        read: &Stat,
        source: Source<'_>,
    ) -> Result<()> {
        match self {
            Self::Now => claim.replace(jail, call, staged, read).map(drop),
            Self::Together(all, entry) => all.replace(jail, call, *entry, claim, (staged, source), read),
            Self::Dry(run) => run.write(claim, &staged, source),
        }
    }

    pub fn make_dir(&mut self, jail: &Jail, call: &Call, claim: &Claim, mode: u32) -> Result<()> {
        match self {
            Self::Now => claim.make_dir(jail, call, mode),
            Self::Together(all, entry) => all.make_dir(jail, call, *entry, claim, mode),
            Self::Dry(run) => {
                run.check(claim)?;
                run.foreseen.make_folder(claim, mode & 0o777);
                Ok(())
            }
        }
    }

    /// Anything but a folder.
    pub fn remove(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<()> {
        match self {
            Self::Now => claim.remove(jail, call, expect),
            Self::Together(all, entry) => {
                claim.check_movable()?;
                all.remove(jail, call, *entry, claim, expect, false)
            }
            Self::Dry(run) => {
                if run.atomic {
                    claim.check_movable()?;
                }
                run.remove(claim)
            }
        }
    }

    /// An empty folder.
    pub fn remove_folder(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<()> {
        match self {
            Self::Now => claim.remove_folder(jail, call),
            Self::Together(all, entry) => {
                claim.check_empty(call)?;
                all.remove(jail, call, *entry, claim, expect, true)
            }
            Self::Dry(run) => {
                claim.check_empty(call)?;
                run.remove(claim)
            }
        }
    }

    /// A folder with all it holds. Returns how many entries that is.
    pub fn remove_tree(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<u64> {
        if let Self::Now = self {
            return claim.remove_tree(jail, call, expect);
        }
        let entries = claim.check_tree(jail, call, "deleted", None)?;
        match self {
            Self::Now => {}
            Self::Together(all, entry) => all.remove(jail, call, *entry, claim, expect, false)?,
            Self::Dry(run) => run.remove(claim)?,
        }
        Ok(entries)
    }

    /// Moves a file or folder into the trash. Returns its id there, or None in a dry run, and the number of entries of a folder.
    pub fn discard(
        &mut self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        expect: &Stat,
    ) -> Result<(Option<String>, Option<u64>)> {
        claim.check_movable()?;
        if let Self::Dry(run) = self {
            let content = claim.check_bin(jail, call)?;
            return run.remove(claim).map(|()| (None, content.entries));
        }
        let bin = claim.bin(jail, call)?;
        let entries = bin.entries();
        let id = match self {
            Self::Together(all, entry) => all.discard(jail, call, *entry, claim, bin, expect),
            _ => claim.discard(jail, call, bin, expect),
        };
        id.map(|id| (Some(id), entries))
    }

    /// What lies at `from`, which is `expect`, gets the name `to`. What lies there already is replaced.
    pub fn rename(
        &mut self,
        jail: &Jail,
        call: &Call,
        from: &Claim,
        to: &Claim,
        expect: &Stat,
    ) -> Result<Renamed> {
        if expect.kind == Kind::Dir {
            self.check_added(jail, (&from.name().sent, from.path()), to, "moved")?;
        }
        match self {
            Self::Now if to.stat().is_none() => from.rename(jail, call, to, expect, false),
            Self::Now => {
                // Two steps that belong together: the two change places, then the old one goes.
                let mut both = Transaction::default();
                match both.rename(jail, call, 0, from, to, expect) {
                    Ok(()) => both.commit(jail, call).map(|()| Renamed::Done).map_err(|undone| undone.error),
                    // Without a folder of our own the kernel's plain rename has to do.
                    Err(_) => from.rename(jail, call, to, expect, true),
                }
            }
            Self::Together(all, entry) => {
                all.rename(jail, call, *entry, from, to, expect).map(|()| Renamed::Done)
            }
            Self::Dry(run) => {
                run.check(from)?;
                run.check(to)?;
                if run.atomic {
                    check_does_not_return(&run.foreseen, from, to)?;
                }
                run.foreseen.rename(from, to);
                Ok(Renamed::Done)
            }
        }
    }
}

impl DryRun {
    fn write(&mut self, claim: &Claim, staged: &Staged, source: Source<'_>) -> Result<()> {
        self.check(claim)?;
        self.foreseen.write(claim, staged.stat_now().mode, source, !self.atomic);
        Ok(())
    }

    pub(in crate::jail) fn foreseen(&self) -> &Foreseen {
        &self.foreseen
    }

    pub(in crate::jail) fn has_restored(&self, id: &str) -> bool {
        self.restored.iter().any(|restored| restored == id)
    }

    pub(in crate::jail) fn restore(&mut self, claim: &Claim, id: &str, item: &Stat) {
        self.foreseen.make(claim, Node { kind: item.kind, mode: item.mode, content: None });
        self.restored.push(id.to_owned());
    }

    fn remove(&mut self, claim: &Claim) -> Result<()> {
        self.check(claim)?;
        self.foreseen.remove(claim);
        Ok(())
    }
}

impl Claim {
    /// The entries of the folder that lies here, at any depth: what a dry run says will go.
    pub fn count_entries(&self, call: &Call) -> Result<Counted> {
        let mut count = Count { foreseen: &self.foreseen, counted: Counted::default() };
        walk::walk_whole(&self.open_dir()?, call, &mut count)?;
        Ok(count.counted)
    }
}

struct Count<'a> {
    /// Entries that will be gone by then do not count.
    foreseen: &'a Foreseen,
    counted: Counted,
}

impl Count<'_> {
    fn add(&mut self, dir: &Dir, name: &[u8]) -> bool {
        if !self.foreseen.is_empty() && self.foreseen.is_gone(&dir.path().join(name)) {
            return false;
        }
        self.counted.more |= self.counted.entries == MAX_COUNTED;
        self.counted.entries = (self.counted.entries + 1).min(MAX_COUNTED);
        !self.counted.more
    }
}

impl EachEntry for Count<'_> {
    fn entry(&mut self, dir: &Dir, _: &[u8], name: &[u8], _: Kind) -> Result<()> {
        self.add(dir, name);
        Ok(())
    }

    fn descends(&mut self, dir: &Dir, _: &[u8], name: &[u8]) -> Result<bool> {
        Ok(self.add(dir, name))
    }
}
