//! Deleting. Runs in the worker. First moves the whole entry into the worker's own folder with one rename, so that it is never
//! half deleted, and can be checked and moved back. Only then destroys it there, where no other process works.

use std::os::fd::{AsFd, BorrowedFd};

use super::{foreseen::Name, rename::rename_to_free};
use crate::{
    jail::{
        Call, Claim, Dir, Foreseen, Jail, Located, refusal,
        state::journal::{At, Step, Thing},
        state::workspace::{Spot, untaken},
        walk::{self, EachEntry},
    },
    path::JailPath,
    sys::{
        Errno,
        change::{self, Taken},
        fs::{self, Beneath, Kind, Stat},
    },
    wire::{Error, Result},
};

/// Entries that appear in a folder while it is being emptied; whoever keeps adding wins in the end.
const TRIES: usize = 8;

impl Claim {
    /// Anything but a folder; `expect` is what it must be.
    pub fn remove(&self, jail: &Jail, call: &Call, expect: &Stat) -> Result<()> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        match self.take(jail, call, expect)? {
            Some(spot) => {
                spot.remove();
                Ok(())
            }
            None => {
                self.check_unchanged(jail, call, expect)?;
                self.removed(jail, call, change::remove_file(self.dir(), self.leaf()))
            }
        }
    }

    /// An empty folder: the kernel refuses any other.
    pub fn remove_folder(&self, jail: &Jail, call: &Call) -> Result<()> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        match change::remove_dir(self.dir(), self.leaf()) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(refusal::not_empty(&self.name.sent)),
            other => self.removed(jail, call, other),
        }
    }

    /// A folder with all it holds; C211 if it holds something denied, C221 if something protected. Returns how many entries it held.
    pub fn remove_tree(&self, jail: &Jail, call: &Call, expect: &Stat) -> Result<u64> {
        let entries = self.check_tree(jail, call, "deleted", None)?;
        let _running = jail.workspaces.begin_change();
        let Some(spot) = self.take(jail, call, expect)? else {
            // No folder of our own on this file system: in place, from the inside out.
            self.destroy(jail, call, self.dir(), self.leaf())?;
            return self.removed(jail, call, change::remove_dir(self.dir(), self.leaf())).map(|()| entries);
        };
        let destroyed = self.destroy(jail, call, spot.dir.as_fd(), &spot.name);
        match destroyed {
            Ok(()) => {
                spot.remove();
                Ok(entries)
            }
            Err(error) => {
                // What is left of it goes back to where it was.
                let is_back = self.put_back(jail, call, spot, expect);
                Err(if is_back { error } else { refusal::left_over(error) })
            }
        }
    }

    fn removed(&self, jail: &Jail, call: &Call, result: std::result::Result<(), Errno>) -> Result<()> {
        let synced =
            |()| if jail.settings.durable { change::sync_folder(self.dir(), self.how) } else { Ok(()) };
        result.and_then(synced).map_err(|errno| self.change_error(jail, call, errno))
    }

    pub(in crate::jail) fn check_unchanged(&self, jail: &Jail, call: &Call, expect: &Stat) -> Result<()> {
        let now = self.stat_now().map_err(|errno| self.change_error(jail, call, errno))?;
        if now.is_some_and(|now| now.is_unchanged(expect)) { Ok(()) } else { Err(self.changed()) }
    }

    /// Moves it into our own folder. None where there is none on this file system.
    fn take(&self, jail: &Jail, call: &Call, expect: &Stat) -> Result<Option<Spot>> {
        let Some(workspace) = jail.workspaces.open(jail, call, self.real.root()) else { return Ok(None) };
        let failed = |errno| self.change_error(jail, call, errno);
        let here = (self.dir(), self.leaf());
        let taken = untaken(|| {
            let spot = workspace.spot();
            change::rename(here, spot.at(), Taken::Refuse).map(|()| spot)
        });
        let spot = match taken {
            Ok(spot) => spot,
            Err(Errno::NOENT) => return Err(self.changed()),
            // Another file system; one without such renames; a folder whose own mode forbids it another parent.
            Err(Errno::XDEV | Errno::INVAL | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let is_expected = spot.stat().ok().flatten().is_some_and(|stat| is_same(&stat, expect));
        let synced = if is_expected && jail.settings.durable {
            change::sync_folder(self.dir(), self.how)
        } else {
            Ok(())
        };
        if is_expected && synced.is_ok() {
            return Ok(Some(spot));
        }
        let is_back = self.put_back(jail, call, spot, expect);
        let error = synced.map_err(failed).err().unwrap_or_else(|| self.changed());
        Err(if is_back { error } else { refusal::left_over(error) })
    }

    /// What was taken goes back to where it was. If that cannot be now it is written down for the next recovery; where
    /// somebody has put something else there meanwhile, the newest stays.
    fn put_back(&self, jail: &Jail, call: &Call, spot: Spot, expect: &Stat) -> bool {
        let errno = match rename_to_free(spot.at(), (self.dir(), self.leaf()), self.how) {
            Ok(()) => return true,
            Err(Errno::EXIST) => {
                spot.remove();
                return true;
            }
            Err(errno) => errno,
        };
        let (from, moved) = (At::Path(self.real.rel().into()), Thing::from(expect));
        let step = |to| Step::Rename { from, to, moved, displaced: None };
        jail.workspaces.leave_to_recovery(jail, call, (spot, errno), step);
        false
    }

    /// Removes everything inside a folder, wherever it lies now. Tests entries for denied and protected names by their old paths.
    fn destroy(&self, jail: &Jail, call: &Call, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let top = open_folder(dir, name, self.how, &self.name.sent, &self.real)?;
        let rule = EntryRule { jail, call, name: &self.name, verb: "deleted", to: None, stays: false };
        for _ in 0..TRIES {
            let mut destroy = Destroy { top: &top, rule: Some(rule), sent: &self.name.sent, again: false };
            walk::walk_whole(&top, call, &mut destroy)?;
            if !destroy.again {
                return Ok(());
            }
        }
        Err(Error::busy(&self.name.sent))
    }

    /// C210 for what can be deleted in its place alone: to move is to make a name, and Landlock lets nobody make such a one.
    pub(in crate::jail) fn check_movable(&self) -> Result<()> {
        match self.kind() {
            None | Some(Kind::File | Kind::Dir | Kind::Symlink) => Ok(()),
            Some(_) => Err(Error::bad_input(format!(
                "{}: a FIFO, socket or device can only be deleted for good and by itself; send it without atomic and trash",
                self.name.sent
            ))),
        }
    }

    /// C216 unless the folder that lies there is empty.
    pub fn check_empty(&self, call: &Call) -> Result<()> {
        if self.is_empty(call)? { Ok(()) } else { Err(refusal::not_empty(&self.name.sent)) }
    }

    pub fn is_empty(&self, call: &Call) -> Result<bool> {
        if !self.foreseen.added_below(&Name::from(&self.real)).is_empty() {
            return Ok(false);
        }
        if self.is_only_foreseen() {
            return Ok(true);
        }
        let will_be_gone =
            |name: &[u8]| !self.foreseen.is_empty() && self.foreseen.is_gone(&self.real.join(name));
        let mut is_empty = true;
        self.open_dir()?.for_each(call, |entry| match will_be_gone(entry.name) {
            true => std::ops::ControlFlow::Continue(()),
            false => {
                is_empty = false;
                std::ops::ControlFlow::Break(())
            }
        })?;
        Ok(is_empty)
    }

    /// C211 if the folder holds an entry that is denied here or would be at `to`, C221 if one is protected, C215 if something
    /// is mounted in it.
    /// Returns how many entries it holds, without those that will be gone by then.
    pub fn check_tree(
        &self,
        jail: &Jail,
        call: &Call,
        verb: &'static str,
        to: Option<&Claim>,
    ) -> Result<u64> {
        if self.is_only_foreseen() {
            return Ok(0);
        }
        let to = to.map(|to| (&to.real, to.name.sent.as_str()));
        let foreseen = Some(&self.foreseen).filter(|foreseen| !foreseen.is_empty());
        self.open_dir()?
            .check_tree(EntryRule { jail, call, name: &self.name, verb, to, stays: false }, foreseen)
    }
}

/// A folder's times change with what it holds, and taking it changes it itself; what it is stays.
fn is_same(taken: &Stat, expect: &Stat) -> bool {
    if expect.kind == Kind::Dir { taken.is_same_file(expect) } else { taken.is_same_content(expect) }
}

pub(in crate::jail) fn open_folder(
    dir: BorrowedFd<'_>,
    name: &[u8],
    how: Beneath,
    sent: &str,
    real: &JailPath,
) -> Result<Dir> {
    let fd = fs::open_to_list(dir, name, how).map_err(|errno| refusal::io_in_tree(sent, errno))?;
    Ok(Dir::new(fd, sent.to_owned(), real.clone(), how))
}

/// The rule for the entries of a folder that is moved, copied, deleted or restored as a whole: no entry may be denied under its
/// old or its new path, nor protected under its new path or, unless it `stays`, its old one.
#[derive(Clone, Copy)]
pub(in crate::jail) struct EntryRule<'a> {
    pub(in crate::jail) jail: &'a Jail,
    pub(in crate::jail) call: &'a Call,
    /// The folder, as the caller named it.
    pub(in crate::jail) name: &'a Located,
    /// For the error text: what cannot be done.
    pub(in crate::jail) verb: &'static str,
    /// The folder's new path and how the caller named that. None if nothing gets a new name.
    pub(in crate::jail) to: Option<(&'a JailPath, &'a str)>,
    /// The folder is copied, so its old entries do not change.
    pub(in crate::jail) stays: bool,
}

impl EntryRule<'_> {
    /// `folder` is the path of `dir` below the folder that is walked.
    pub(in crate::jail) fn check(&self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<()> {
        let Self { jail, verb, .. } = *self;
        let sent = &self.name.sent;
        let here = dir.path().join(name);
        if jail.denied.is_denied_in_tree(&here) {
            return Err(self.reported(refusal::holds_denied(sent, verb)));
        }
        let below = || walk::below(folder, name);
        if let Some(rule) = jail.protected_by(&here).filter(|_| !self.stays) {
            return Err(self.reported(refusal::holds_protected(sent, &below(), rule, verb)));
        }
        match self.to {
            Some((to, to_sent)) => jail
                .check_new_entry((sent, to_sent), to, &below(), verb)
                .map_err(|error| self.reported(error)),
            None => Ok(()),
        }
    }

    /// For a link that gets a new name with its folder.
    pub(in crate::jail) fn check_link(&self, folder: &[u8], name: &[u8]) -> Result<()> {
        let Some((to, _)) = self.to else { return Ok(()) };
        self.jail.check_new_link(self.call, self.name, &to.join(&walk::below(folder, name)))
    }

    fn reported(&self, error: Error) -> Error {
        self.jail.broker.report(self.call.caller(), error.code, self.name.sent.as_bytes());
        error
    }
}

impl Jail {
    /// C211 or C221 for an entry `below` a folder that would get a denied or protected name. `sent` and `to_sent` are the
    /// folder's names as the caller wrote them.
    pub(in crate::jail) fn check_new_entry(
        &self,
        (sent, to_sent): (&str, &str),
        to: &JailPath,
        below: &[u8],
        verb: &str,
    ) -> Result<()> {
        let there = to.join(below);
        if self.denied.is_denied_in_tree(&there) {
            return Err(refusal::would_be_denied(sent, to_sent, verb));
        }
        match self.protected_by(&there) {
            Some(rule) => Err(refusal::would_be_protected(sent, to_sent, below, rule, verb)),
            None => Ok(()),
        }
    }
}

impl Dir {
    /// Tests everything in this folder. Returns how many entries it holds that are not `foreseen` to be gone.
    pub(in crate::jail) fn check_tree(
        &self,
        rule: EntryRule<'_>,
        foreseen: Option<&Foreseen>,
    ) -> Result<u64> {
        let mut check = Check { rule, foreseen, entries: 0 };
        walk::walk_whole(self, rule.call, &mut check)
            .inspect_err(|error| rule.jail.report_escape(rule.call, rule.name, error))?;
        Ok(check.entries)
    }
}

struct Check<'a> {
    rule: EntryRule<'a>,
    foreseen: Option<&'a Foreseen>,
    entries: u64,
}

impl Check<'_> {
    fn check(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<()> {
        let is_gone = |foreseen: &Foreseen| foreseen.is_gone(&dir.path().join(name));
        self.entries += u64::from(!self.foreseen.is_some_and(is_gone));
        self.rule.check(dir, folder, name)
    }
}

impl EachEntry for Check<'_> {
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], kind: Kind) -> Result<()> {
        self.check(dir, folder, name)?;
        if kind == Kind::Symlink { self.rule.check_link(folder, name) } else { Ok(()) }
    }

    fn descends(&mut self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<bool> {
        self.check(dir, folder, name).map(|()| true)
    }
}

/// Empties a folder from the inside out.
struct Destroy<'a> {
    top: &'a Dir,
    /// None in our own folder, where nothing is denied.
    rule: Option<EntryRule<'a>>,
    sent: &'a str,
    /// Something is left that was not there when its folder was read.
    again: bool,
}

impl Destroy<'_> {
    fn check(&self, dir: &Dir, folder: &[u8], name: &[u8]) -> Result<()> {
        self.rule.map_or(Ok(()), |rule| rule.check(dir, folder, name))
    }
}

impl EachEntry for Destroy<'_> {
    fn entry(&mut self, dir: &Dir, folder: &[u8], name: &[u8], _: Kind) -> Result<()> {
        self.check(dir, folder, name)?;
        match change::remove_file(dir.fd(), name) {
            // A folder by now: the next round sees it as one.
            Err(Errno::ISDIR | Errno::PERM) if is_folder(dir, name) => self.again = true,
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
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.again = true,
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refusal::io_in_tree(self.sent, errno)),
        }
        Ok(())
    }
}

fn is_folder(dir: &Dir, name: &[u8]) -> bool {
    matches!(dir.stat_entry(name), Some(crate::jail::Seen::Entry(stat)) if stat.kind == Kind::Dir)
}

impl Spot {
    /// Destroys what lies there. What cannot be now is by the next recovery.
    pub(in crate::jail) fn remove(self) {
        if matches!(change::remove_file(self.dir.as_fd(), &self.name), Err(Errno::ISDIR | Errno::PERM)) {
            let _ = self.remove_own_tree(&Call::tidying());
        }
    }

    pub(in crate::jail) fn remove_own_tree(&self, call: &Call) -> Result<()> {
        let top = open_folder(self.dir.as_fd(), &self.name, self.how, "", &self.root)?;
        let mut destroy = Destroy { top: &top, rule: None, sent: "", again: false };
        walk::walk_whole(&top, call, &mut destroy)?;
        change::remove_dir(self.dir.as_fd(), &self.name).map_err(|errno| refusal::io("", errno))
    }
}
