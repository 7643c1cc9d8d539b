//! Runs in the worker: counts the entries of a folder for a dry run that would delete it. Changes nothing.

use super::foreseen::ForeseenChanges;
use crate::{
    jail::{
        Call, Claim, Dir,
        walk::{self, WholeTreeVisitor},
    },
    sys::fs::FileKind,
    wire::Result,
};

/// How many entries a folder holds, at most `MAX_COUNTED`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryCount {
    pub entries: u64,
    /// There are more than were counted.
    pub is_partial: bool,
}

/// Counting stops here: a dry run need not walk a huge tree to the end.
const MAX_COUNTED: u64 = 100_000;

impl Claim {
    /// Counts the entries of the folder at any depth: a dry run reports how many a delete would remove.
    pub fn count_entries(&self, call: &Call) -> Result<EntryCount> {
        let mut count = EntryCounter { foreseen: &self.foreseen, counted: EntryCount::default() };
        walk::walk_whole_tree(&self.open_dir()?, call, &mut count)?;
        Ok(count.counted)
    }
}

struct EntryCounter<'a> {
    /// Entries that earlier entries of the batch remove do not count.
    foreseen: &'a ForeseenChanges,
    counted: EntryCount,
}

impl EntryCounter<'_> {
    fn add(&mut self, dir: &Dir, name: &[u8]) -> bool {
        if !self.foreseen.is_empty() && self.foreseen.is_gone(&dir.path().join(name)) {
            return false;
        }
        self.counted.is_partial |= self.counted.entries == MAX_COUNTED;
        self.counted.entries = (self.counted.entries + 1).min(MAX_COUNTED);
        !self.counted.is_partial
    }
}

impl WholeTreeVisitor for EntryCounter<'_> {
    fn entry(&mut self, dir: &Dir, _: &[u8], name: &[u8], _: FileKind) -> Result<()> {
        self.add(dir, name);
        Ok(())
    }

    fn descends(&mut self, dir: &Dir, _: &[u8], name: &[u8]) -> Result<bool> {
        Ok(self.add(dir, name))
    }
}
