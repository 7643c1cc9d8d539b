//! Walks of functions that act on a folder as a whole: every entry, also what is denied, so that the visitor can refuse the
//! whole. The first error ends the walk.

use std::marker::PhantomData;

use super::{FolderVisitor, Listed, Order, walk_alone};
use crate::{
    jail::{Call, Dir, Names},
    sys::{Errno, fs::Kind},
    wire::{Error, Result},
};

/// What is done with each entry. Paths are below the folder that is walked; its own is empty.
pub(in crate::jail) trait EachEntry {
    /// Before the entries of a folder. Called again where a folder with very many names is read in several passes.
    fn enter(&mut self, _folder: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Anything but a folder.
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], kind: Kind) -> Result<()>;

    /// Whether to go into a folder.
    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool>;

    /// After everything in a folder, but not for the one that is walked.
    fn leave(&mut self, _folder: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Ends at the latest with the call's deadline.
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
