//! A whole folder, entry by entry: for what acts on folders as a whole. Bounded by the call's deadline; holds three
//! descriptors at any depth, and memory for the names of folders still to come.

use std::ops::ControlFlow;

use super::{Call, Dir, DirEntry, Seen};
use crate::{
    sys::fs::Kind,
    wire::{Error, Result},
};

/// What a walk does with what it meets. Paths are below the folder that is walked; its own is empty.
pub(super) trait Visitor {
    /// Before the entries of a folder.
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

/// `a` and `b` → `a/b`; nothing and `b` → `b`.
pub(super) fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

enum Next {
    Enter(Vec<u8>),
    Leave(Vec<u8>),
}

pub(super) fn walk(top: &Dir, call: &Call, visitor: &mut impl Visitor) -> Result<()> {
    let mut next: Vec<Next> = visit_folder(top, b"", call, visitor)?;
    while let Some(step) = next.pop() {
        call.checkpoint()?;
        match step {
            Next::Leave(folder) => visitor.leave(&folder)?,
            Next::Enter(folder) => {
                let dir = top.open_dir(&folder, top.sent().to_owned())?;
                let inside = visit_folder(&dir, &folder, call, visitor)?;
                next.push(Next::Leave(folder));
                next.extend(inside);
            }
        }
    }
    Ok(())
}

/// Visits the entries of one folder; the folders among them are still to be entered.
fn visit_folder(dir: &Dir, folder: &[u8], call: &Call, visitor: &mut impl Visitor) -> Result<Vec<Next>> {
    visitor.enter(folder)?;
    let (mut folders, mut failed) = (Vec::new(), None::<Error>);
    dir.for_each(call, |entry| match visit(dir, folder, entry, visitor) {
        Ok(is_entered) => {
            folders.extend(is_entered.then(|| Next::Enter(below(folder, entry.name))));
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(folders), Err)
}

fn visit(dir: &Dir, folder: &[u8], entry: DirEntry<'_>, visitor: &mut impl Visitor) -> Result<bool> {
    let kind = match entry.kind {
        Kind::Unknown => match dir.stat_entry(entry.name) {
            Some(Seen::Entry(stat)) => stat.kind,
            // Opening it will say that something is mounted there.
            Some(Seen::MountPoint) => Kind::Dir,
            None => return Ok(false),
        },
        known => known,
    };
    if kind == Kind::Dir {
        visitor.descends(dir, folder, entry.name)
    } else {
        visitor.entry(dir, folder, entry.name, kind).map(|()| false)
    }
}
