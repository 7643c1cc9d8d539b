//! The one way in which content gets a name. Never through an inode that exists: a hard link to an outside file is never
//! written through, and a reader sees the old file or the new one, whole.

use std::os::fd::AsFd;

use super::{rename::rename_to_free, staged::Staged};
use crate::{
    jail::{
        Call, Claim, Jail, refusal,
        state::journal::{At, Step, Thing},
    },
    sys::{
        Errno,
        change::{self, Taken},
        fs::Stat,
    },
    wire::{Error, Result},
};

/// A file that has its name.
#[derive(Debug)]
// Only tests look at what was written.
#[cfg_attr(not(test), expect(dead_code))]
pub struct Written {
    pub stat: Stat,
    /// The kernel did not let us keep the owner or the group.
    pub owner_changed: bool,
    /// Names of attributes that it did not let us keep.
    pub lost_attributes: Vec<String>,
}

impl Claim {
    /// Gives a staged file the name, which is free: C217 if it no longer is. Missing folders are made.
    pub fn place(&self, jail: &Jail, call: &Call, mut staged: Staged) -> Result<Written> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        let parents = self.make_parents(jail, call)?;
        let dir = parents.dir.as_fd();
        let there = (dir, self.leaf());
        let mut done = match (&staged.spot, &staged.fd) {
            (Some(spot), _) => rename_to_free(spot.at(), there, self.how),
            (None, Some(fd)) => change::link_unnamed(fd.as_fd(), dir, self.leaf()),
            (None, None) => Err(Errno::NOENT),
        };
        if done.is_ok() && jail.settings.durable {
            done = parents.sync();
            if done.is_err() {
                // Not acknowledged, so not there. A folder goes with the name that it had before.
                let _ = match &staged.spot {
                    Some(spot) => rename_to_free(there, spot.at(), self.how),
                    None => change::remove_file(dir, self.leaf()),
                };
            }
        }
        match done {
            Ok(()) => {
                staged.spot = None;
                Ok(staged.into())
            }
            Err(errno) => {
                parents.undo();
                Err(self.change_error(jail, call, errno))
            }
        }
    }

    /// Puts a staged file in the place of what was `read` there. C222 if that is no longer what lies there.
    pub fn replace(&self, jail: &Jail, call: &Call, mut staged: Staged, read: &Stat) -> Result<Written> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        let failed = |errno| self.change_error(jail, call, errno);
        staged.name(self, jail, call).map_err(failed)?;
        if !self.stat_now().map_err(failed)?.is_some_and(|now| now.is_unchanged(read)) {
            return Err(self.changed());
        }
        match self.exchange(jail, call, &mut staged, read) {
            Ok(true) => {}
            Ok(false) => return Err(self.changed()),
            // The file system cannot exchange: what lies there is lost with the rename, so nothing comes after it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.overwrite(&mut staged).map_err(failed)?
            }
            Err(Errno::NOENT) => return Err(self.changed()),
            Err(errno) => return Err(failed(errno)),
        }
        if jail.settings.durable
            && let Err(errno) = change::sync_folder(self.dir(), self.how)
        {
            // Not acknowledged, so not there.
            let is_back = self.exchange_back(jail, call, &mut staged, read).is_ok();
            let error = failed(errno);
            return Err(if is_back { error } else { refusal::left_over(error) });
        }
        Ok(staged.into())
    }

    // An exchange and not a plain rename: what came away can be looked at. A file that somebody put there after our last
    // look goes back, and so does the old one if the folder cannot be synced. False if it was not what was read.
    fn exchange(
        &self,
        jail: &Jail,
        call: &Call,
        staged: &mut Staged,
        read: &Stat,
    ) -> std::result::Result<bool, Errno> {
        let Some(spot) = &staged.spot else { return Err(Errno::INVAL) };
        change::rename(spot.at(), (self.dir(), self.leaf()), Taken::Exchange)?;
        // The exchange itself is a change of both, so their change times do not count.
        let displaced = spot.stat();
        if matches!(&displaced, Ok(Some(displaced)) if displaced.is_same_content(read)) {
            return Ok(true);
        }
        self.exchange_back(jail, call, staged, read)?;
        displaced.map(|_| false)
    }

    /// What cannot go back now is written down: it must not be destroyed with the staged file whose place it has taken.
    fn exchange_back(
        &self,
        jail: &Jail,
        call: &Call,
        staged: &mut Staged,
        read: &Stat,
    ) -> std::result::Result<(), Errno> {
        let Some(spot) = &staged.spot else { return Ok(()) };
        let here = (self.dir(), self.leaf());
        let errno = match change::rename(spot.at(), here, Taken::Exchange) {
            // Somebody has taken our file away meanwhile.
            Err(Errno::NOENT) => match change::rename(spot.at(), here, Taken::Refuse) {
                // And put another there: the newest wins.
                Ok(()) | Err(Errno::EXIST) => return Ok(()),
                Err(errno) => errno,
            },
            Err(errno) => errno,
            Ok(()) => return Ok(()),
        };
        let (to, moved) = (At::Path(self.real.rel().into()), Thing::from(&staged.stat_now()));
        if let Some(spot) = staged.spot.take() {
            let displaced = Some(Thing::from(read));
            let step = |from| Step::Rename { from, to, moved, displaced };
            jail.workspaces.leave_to_recovery(jail, call, (spot, errno), step);
        }
        Err(errno)
    }

    fn overwrite(&self, staged: &mut Staged) -> std::result::Result<(), Errno> {
        let Some(spot) = &staged.spot else { return Err(Errno::INVAL) };
        change::rename(spot.at(), (self.dir(), self.leaf()), Taken::Replace)?;
        staged.spot = None;
        Ok(())
    }

    pub(in crate::jail) fn changed(&self) -> Error {
        refusal::changed(&self.name.sent)
    }
}

impl From<Staged> for Written {
    fn from(mut staged: Staged) -> Self {
        Self {
            stat: staged.stat,
            owner_changed: staged.owner_changed,
            lost_attributes: std::mem::take(&mut staged.lost_attributes),
        }
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
