//! Folders that a new name needs and that do not exist yet: made one by one, each opened beneath the one before.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use crate::{
    jail::{Call, Claim, Jail},
    sys::{
        Errno, change,
        fs::{self, Beneath, OFlags},
    },
    wire::{Error, Result},
};

/// What every other program gives a folder.
pub(in crate::jail) const MODE: u32 = 0o755;

/// The folder of a new name, and those that were made for it.
#[derive(Debug)]
pub(in crate::jail) struct Parents {
    pub(in crate::jail) dir: Arc<OwnedFd>,
    made: Vec<(Arc<OwnedFd>, Vec<u8>)>,
    how: Beneath,
}

impl Claim {
    /// C211 where a folder is missing and may not be made.
    pub fn check_parents(&self, may_make: bool) -> Result<()> {
        if self.parents.is_empty() || may_make { Ok(()) } else { Err(Error::not_found(&self.name.sent)) }
    }

    pub(in crate::jail) fn make_parents(&self, jail: &Jail, call: &Call) -> Result<Parents> {
        let mut parents = Parents { dir: Arc::clone(&self.parent.dir), made: Vec::new(), how: self.how };
        for name in &self.missing {
            if let Err(errno) = parents.make(name) {
                parents.undo();
                return Err(self.change_error(jail, call, errno));
            }
        }
        Ok(parents)
    }
}

impl Parents {
    fn make(&mut self, name: &[u8]) -> std::result::Result<(), Errno> {
        match change::make_dir(self.dir.as_fd(), name, MODE) {
            Ok(()) => self.made.push((Arc::clone(&self.dir), name.to_vec())),
            // Somebody was faster: as good, if it is a folder.
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let opened = fs::open_beneath(self.dir.as_fd(), name, fs::FOLDER | OFlags::NOFOLLOW, self.how);
        // What is no folder now was nothing a moment ago.
        let raced = |errno| if matches!(errno, Errno::NOTDIR | Errno::LOOP) { Errno::STALE } else { errno };
        self.dir = Arc::new(opened.map_err(raced)?);
        Ok(())
    }

    pub(in crate::jail) fn sync(&self) -> std::result::Result<(), Errno> {
        for (above, _) in &self.made {
            change::sync_folder(above.as_fd(), self.how)?;
        }
        change::sync_folder(self.dir.as_fd(), self.how)
    }

    /// Takes the made folders away again, unless somebody uses them by now.
    pub(in crate::jail) fn undo(self) {
        for (above, name) in self.made.iter().rev() {
            if change::remove_dir(above.as_fd(), name).is_err() {
                return;
            }
        }
    }
}
