//! Moving within one root: a rename, checked on both sides and taken back if it cannot be kept.

use std::os::fd::{AsFd, BorrowedFd};

use crate::{
    jail::{Call, Claim, Jail, refusal},
    sys::{
        Errno,
        change::{self, Taken},
        fs::{self, Beneath, Stat},
    },
    wire::Result,
};

/// What became of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamed {
    Done,
    /// Source and destination are not on one file system; nothing has changed.
    OtherFileSystem,
}

/// EEXIST unless the name is free. Where the file system has no such rename a second name does it, which never
/// overwrites either; and where there are no second names, a look: the lease keeps our own clients away.
pub(in crate::jail) fn rename_to_free(
    from: (BorrowedFd<'_>, &[u8]),
    to: (BorrowedFd<'_>, &[u8]),
    how: Beneath,
) -> std::result::Result<(), Errno> {
    match change::rename(from, to, Taken::Refuse) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        other => return other,
    }
    match change::link(from, to) {
        Ok(()) => return change::remove_file(from.0, from.1),
        Err(Errno::EXIST) => return Err(Errno::EXIST),
        Err(_) => {}
    }
    match fs::hold(to.0, to.1, how) {
        Err(Errno::NOENT) => change::rename(from, to, Taken::Replace),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

impl Claim {
    /// Gives what lies here, which must be `expect`, the name `to`. That name is free, or with `overwrite` it is replaced.
    pub fn rename(
        &self,
        jail: &Jail,
        call: &Call,
        to: &Claim,
        expect: &Stat,
        overwrite: bool,
    ) -> Result<Renamed> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        self.check_unchanged(jail, call, expect)?;
        let parents = to.make_parents(jail, call)?;
        let (here, there) = ((self.dir(), self.leaf()), (parents.dir.as_fd(), to.leaf()));
        let renamed = if overwrite {
            change::rename(here, there, Taken::Replace)
        } else {
            rename_to_free(here, there, to.how)
        };
        let kept = renamed.and_then(|()| {
            let moved = fs::hold(there.0, there.1, to.how).and_then(|held| held.stat());
            if !moved.is_ok_and(|moved| moved.is_same_file(expect)) {
                return Err(Errno::STALE);
            }
            if jail.settings.durable {
                parents.sync()?;
                change::sync_folder(self.dir(), self.how)?;
            }
            Ok(())
        });
        let Err(errno) = kept else { return Ok(Renamed::Done) };
        if renamed.is_ok() {
            let _ = rename_to_free(there, here, self.how);
        }
        parents.undo();
        match errno {
            Errno::XDEV => Ok(Renamed::OtherFileSystem),
            Errno::STALE => Err(self.changed()),
            Errno::EXIST | Errno::NOTEMPTY => Err(refusal::exists(&to.name.sent)),
            errno => Err(to.change_error(jail, call, errno)),
        }
    }

    /// A folder here; C217 if the name has been taken meanwhile.
    pub fn make_dir(&self, jail: &Jail, call: &Call, mode: u32) -> Result<()> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        let parents = self.make_parents(jail, call)?;
        let dir = parents.dir.as_fd();
        let mut made = change::make_dir(dir, self.leaf(), mode & 0o777);
        if made.is_ok() && jail.settings.durable {
            made = parents.sync();
            if made.is_err() {
                let _ = change::remove_dir(dir, self.leaf());
            }
        }
        made.map_err(|errno| {
            parents.undo();
            self.change_error(jail, call, errno)
        })
    }
}
