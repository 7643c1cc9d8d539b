//! Runs in the worker: walks for functions that act on a folder as a whole. They visit every entry, denied ones too, so that the
//! visitor can refuse the whole folder. The first error ends the walk.
//! Does not trust what lies in the folder. Never follows a link.

use std::marker::PhantomData;

use super::{FolderVisitor, ListedFolder, WalkOrder, walk_alone};
use crate::{
    jail::{Call, Dir, NameList},
    sys::{Errno, fs::FileKind},
    wire::{Error, Result},
};

/// Handles each entry. Paths are relative to the folder that is walked, whose own path is empty.
pub(in crate::jail) trait WholeTreeVisitor {
    /// Called before the entries of a folder, and again for each further pass over a folder with very many names.
    fn enter(&mut self, _folder: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Called for anything but a folder.
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], kind: FileKind) -> Result<()>;

    /// Whether to go into a folder.
    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool>;

    /// Called after everything in a folder, but not for the folder that is walked.
    fn leave(&mut self, _folder: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Walks the tree until its end, the first error, or the call's deadline.
pub(in crate::jail) fn walk_whole_tree<V: WholeTreeVisitor>(top: &Dir, call: &Call, visitor: &mut V) -> Result<()> {
    walk_alone(call.clock(), top, WalkOrder::DepthFirst, WholeTree { top, visitor: PhantomData }, visitor).map(drop)
}

struct WholeTree<'t, V> {
    top: &'t Dir,
    visitor: PhantomData<V>,
}

impl<'v, V: WholeTreeVisitor> FolderVisitor for WholeTree<'_, &'v mut V> {
    type ThreadData = &'v mut V;
    type StopReason = Error;
    const CALLS_LEAVE: bool = true;

    fn filter_names(&self, visitor: &mut &'v mut V, listed: ListedFolder<'_>, names: &mut NameList) -> Result<()> {
        let ListedFolder { dir, below, .. } = listed;
        visitor.enter(below)?;
        let mut failed = None;
        names.retain(|name, kind| {
            let is_entered = match kind {
                _ if failed.is_some() => return false,
                FileKind::Dir => visitor.descends(dir, below, name),
                _ => visitor.entry(dir, below, name, kind).map(|()| false),
            };
            is_entered.unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        failed.map_or(Ok(()), Err)
    }

    fn report_unopened(&self, _: &mut &'v mut V, _: &[u8], errno: Errno) -> Result<()> {
        Err(self.top.list_error(errno))
    }

    fn leave(&self, visitor: &mut &'v mut V, below: &[u8]) -> Result<()> {
        visitor.leave(below)
    }
}
