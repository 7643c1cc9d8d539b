//! Runs in the worker: walks for functions that act on a folder as a whole. They visit every entry, denied ones too, so that the
//! visitor can refuse the whole folder. The first error ends the walk.
//! Does not trust what lies in the folder. Never follows a link.

use std::marker::PhantomData;

use super::{FolderVisitor, Listed, Order, walk_alone};
use crate::{
    jail::{Call, Dir, Names},
    sys::{Errno, fs::Kind},
    wire::{Error, Result},
};

/// Handles each entry. Paths are relative to the folder that is walked, whose own path is empty.
pub(in crate::jail) trait EachEntry {
    /// Called before the entries of a folder, and again for each further pass over a folder with very many names.
    fn enter(&mut self, _folder: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Called for anything but a folder.
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], kind: Kind) -> Result<()>;

    /// Whether to go into a folder.
    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool>;

    /// Called after everything in a folder, but not for the folder that is walked.
    fn leave(&mut self, _folder: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Walks the tree until its end, the first error, or the call's deadline.
pub(in crate::jail) fn walk_whole<V: EachEntry>(top: &Dir, call: &Call, visitor: &mut V) -> Result<()> {
    walk_alone(call.clock(), top, Order::DepthFirst, Whole { top, visitor: PhantomData }, visitor).map(drop)
}

struct Whole<'t, V> {
    top: &'t Dir,
    visitor: PhantomData<V>,
}

impl<'v, V: EachEntry> FolderVisitor for Whole<'_, &'v mut V> {
    type Local = &'v mut V;
    type Stop = Error;
    const LEAVES: bool = true;

    fn list(&self, visitor: &mut &'v mut V, listed: Listed<'_>, names: &mut Names) -> Result<()> {
        let Listed { dir, below, .. } = listed;
        visitor.enter(below)?;
        let mut failed = None;
        names.retain(|name, kind| {
            let is_entered = match kind {
                _ if failed.is_some() => return false,
                Kind::Dir => visitor.descends(dir, below, name),
                _ => visitor.entry(dir, below, name, kind).map(|()| false),
            };
            is_entered.unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        failed.map_or(Ok(()), Err)
    }

    fn unopened(&self, _: &mut &'v mut V, _: &[u8], errno: Errno) -> Result<()> {
        Err(self.top.failed(errno))
    }

    fn leave(&self, visitor: &mut &'v mut V, below: &[u8]) -> Result<()> {
        visitor.leave(below)
    }
}
