//! When a change happens: at once, or together with the others of its batch.

use super::{Call, Claim, Jail, Renamed, Staged, Transaction};
use crate::{sys::fs::Stat, wire::Result};

/// Handed to the code of a function, which need not know which of the two it is.
#[derive(Debug)]
pub enum Commit<'t> {
    Now,
    /// As this entry of the batch.
    Together(&'t mut Transaction, usize),
}

impl Commit<'_> {
    pub fn is_together(&self) -> bool {
        matches!(self, Self::Together(..))
    }

    /// See `Claim::place`.
    pub fn place(&mut self, jail: &Jail, call: &Call, claim: &Claim, staged: Staged) -> Result<()> {
        match self {
            Self::Now => claim.place(jail, call, staged).map(drop),
            Self::Together(all, entry) => all.place(jail, call, *entry, claim, staged),
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
    ) -> Result<()> {
        match self {
            Self::Now => claim.replace(jail, call, staged, read).map(drop),
            Self::Together(all, entry) => all.replace(jail, call, *entry, claim, staged, read),
        }
    }

    pub fn make_dir(&mut self, jail: &Jail, call: &Call, claim: &Claim, mode: u32) -> Result<()> {
        match self {
            Self::Now => claim.make_dir(jail, call, mode),
            Self::Together(all, entry) => all.make_dir(jail, call, *entry, claim, mode),
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
        }
    }

    /// A folder with all it holds.
    pub fn remove_tree(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<()> {
        match self {
            Self::Now => claim.remove_tree(jail, call, expect),
            Self::Together(all, entry) => {
                claim.check_tree(jail, call, "deleted", None)?;
                all.remove(jail, call, *entry, claim, expect, false)
            }
        }
    }

    /// Anything, into the trash; its id there.
    pub fn discard(&mut self, jail: &Jail, call: &Call, claim: &Claim, expect: &Stat) -> Result<String> {
        claim.check_movable()?;
        let bin = claim.bin(jail, call)?;
        match self {
            Self::Now => claim.discard(jail, call, bin, expect),
            Self::Together(all, entry) => all.discard(jail, call, *entry, claim, bin, expect),
        }
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
        }
    }
}
