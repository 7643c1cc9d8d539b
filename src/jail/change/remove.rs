//! Runs in the worker: empties folders, and destroys what lies under names of our own. A user's folder is taken away whole first,
//! so that it is never half deleted; only then it is destroyed, where no other process works.
//! Trusts nothing in a folder: tests every entry under the path that it had. Never follows a link.

use std::os::fd::{AsFd, BorrowedFd};

use super::{check::EntryRule, folders};
use crate::{
    jail::{
        Call, Dir, Jail, Located, refusal,
        state::workspace::TemporaryName,
        walk::{self, WholeTreeVisitor},
    },
    path::JailPath,
    sys::{
        Errno, change,
        fs::{self, FileKind, OpenRules},
    },
    wire::{Error, Result},
};

/// Rounds in which to empty a folder while another process adds entries to it. After that the call fails.
const TRIES: usize = 8;

/// Removes everything inside a folder, wherever it lies now. Tests entries for denied and protected names by their old paths.
pub(super) fn destroy_content(
    jail: &Jail,
    call: &Call,
    (old, real): (&Located, &JailPath),
    (dir, name): (BorrowedFd<'_>, &[u8]),
    how: OpenRules,
) -> Result<()> {
    let top = open_folder(dir, name, how, &old.sent, real)?;
    let rule = EntryRule { jail, call, name: old, verb: "deleted", to: None, is_copy: false };
    for _ in 0..TRIES {
        let mut destroy = TreeDestroyer { top: &top, rule: Some(rule), sent: &old.sent, is_incomplete: false };
        walk::walk_whole_tree(&top, call, &mut destroy)?;
        if !destroy.is_incomplete {
            return Ok(());
        }
    }
    Err(Error::busy(&old.sent))
}

/// Whether the folder is empty. False also if it cannot be read.
pub(super) fn is_empty_folder(call: &Call, name: &folders::NameInFolder, root: &JailPath) -> bool {
    let Ok(dir) = open_folder(name.dir.as_fd(), &name.leaf, name.open_rules, "", root) else { return false };
    let mut is_empty = true;
    let listed = dir.for_each(call, |_| {
        is_empty = false;
        std::ops::ControlFlow::Break(())
    });
    listed.is_ok() && is_empty
}

pub(in crate::jail) fn open_folder(
    dir: BorrowedFd<'_>,
    name: &[u8],
    how: OpenRules,
    sent: &str,
    real: &JailPath,
) -> Result<Dir> {
    let fd = fs::open_to_list(dir, name, how).map_err(|errno| refusal::io_in_tree(sent, errno))?;
    Ok(Dir::new(fd, sent.to_owned(), real.clone(), how))
}

/// Empties a folder from the inside out.
struct TreeDestroyer<'a> {
    top: &'a Dir,
    /// None for what lies under a name of our own: it was tested before it came there, or the service made it.
    rule: Option<EntryRule<'a>>,
    sent: &'a str,
    /// An entry was left, because it appeared after its folder was read.
    is_incomplete: bool,
}

impl TreeDestroyer<'_> {
    fn check(&self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<()> {
        self.rule.map_or(Ok(()), |rule| rule.check(dir, folder, name))
    }
}

impl WholeTreeVisitor for TreeDestroyer<'_> {
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], _: FileKind) -> Result<()> {
        self.check(dir, folder, name)?;
        match change::remove_file(dir.fd(), name) {
            // The entry has become a folder: the next round removes it as one.
            Err(Errno::ISDIR | Errno::PERM) if is_folder(dir, name) => self.is_incomplete = true,
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refusal::io_in_tree(self.sent, errno)),
        }
        Ok(())
    }

    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool> {
        self.check(dir, folder, name).map(|()| true)
    }

    fn leave(&mut self, folder: &[u8]) -> Result<()> {
        let removed = match memchr::memrchr(b'/', folder) {
            None => change::remove_dir(self.top.fd(), folder),
            Some(slash) => {
                let above = self.top.open_dir(&folder[..slash], self.sent.to_owned())?;
                change::remove_dir(above.fd(), &folder[slash + 1..])
            }
        };
        match removed {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.is_incomplete = true,
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refusal::io_in_tree(self.sent, errno)),
        }
        Ok(())
    }
}

fn is_folder(dir: &Dir, name: &[u8]) -> bool {
    matches!(dir.stat_entry(name), Some(crate::jail::EntryStat::Entry(stat)) if stat.kind == FileKind::Dir)
}

impl TemporaryName {
    /// Destroys what has this name. If that fails, the next recovery destroys it.
    pub(in crate::jail) fn remove(self) {
        if matches!(change::remove_file(self.dir.as_fd(), &self.name), Err(Errno::ISDIR | Errno::PERM)) {
            let _ = self.remove_tree(&Call::for_cleanup());
        }
    }

    pub(in crate::jail) fn remove_tree(&self, call: &Call) -> Result<()> {
        let top = open_folder(self.dir.as_fd(), &self.name, self.open_rules, "", &self.root)?;
        let mut destroy = TreeDestroyer { top: &top, rule: None, sent: "", is_incomplete: false };
        walk::walk_whole_tree(&top, call, &mut destroy)?;
        change::remove_dir(self.dir.as_fd(), &self.name).map_err(|errno| refusal::io("", errno))
    }
}
