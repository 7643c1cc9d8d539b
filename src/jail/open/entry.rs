//! A name that has been opened beneath its parent, as itself: links are not followed, nothing is read yet.

use std::os::fd::{AsFd, OwnedFd};

use super::{
    super::{Call, Jail, Located},
    Dir, File, refusal,
};
use crate::{
    broker::{Intent, Parent},
    path::{Hardlinks, JailPath, Symlinks},
    sys::{
        Errno,
        fs::{self, Beneath, Held, Kind, Stat, Walk},
    },
    wire::{Error, Result},
};

/// Exactly the named thing, and what it is.
#[derive(Debug)]
pub struct Entry {
    name: Located,
    intent: Intent,
    parent: Parent,
    /// Where it really is, once links were followed.
    real: JailPath,
    how: Beneath,
    /// Names that are to be read are only looked at: their content is opened at once.
    held: Option<Held>,
    stat: Stat,
}

/// A descriptor for content or entries, and its fstat.
type Opened = std::result::Result<(OwnedFd, Stat), Errno>;

impl Entry {
    pub(in crate::jail) fn open(jail: &Jail, name: &Located, intent: Intent, parent: Parent) -> Result<Self> {
        let (how, real) = (jail.how(&name.path), jail.real_path(name, &parent)?);
        let failed = |errno| refusal::open_error(jail, name, errno);
        let (held, stat) = Self::look(intent, &parent, how).map_err(failed)?;
        Ok(Self { name: name.clone(), intent, parent, real, how, held, stat })
    }

    fn look(
        intent: Intent,
        parent: &Parent,
        how: Beneath,
    ) -> std::result::Result<(Option<Held>, Stat), Errno> {
        if intent == Intent::Read && how.walk == Walk::Kernel && !parent.leaf.is_empty() && !follows_links() {
            return Ok((None, fs::look(parent.dir.as_fd(), &parent.leaf, how.mounts)?));
        }
        let held = if parent.leaf.is_empty() {
            Held::folder(&parent.dir)
        } else {
            fs::hold(parent.dir.as_fd(), &parent.leaf, how)?
        };
        let stat = held.stat()?;
        Ok((Some(held), stat))
    }

    /// From here on it is called by the name that it will have once the planned changes are made.
    pub(in crate::jail) fn stand_for(&mut self, name: Located, real: JailPath) {
        (self.name, self.real) = (name, real);
    }

    pub fn kind(&self) -> Kind {
        self.stat.kind
    }

    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Where it really is, once links were followed.
    pub fn path(&self) -> &JailPath {
        &self.real
    }

    pub fn name(&self) -> &Located {
        &self.name
    }

    /// What a link says, as bytes. Of the very link that was looked at.
    pub fn link_target(&self) -> Result<Vec<u8>> {
        let target = match &self.held {
            Some(held) => held.target(),
            None => fs::read_link(self.parent.dir.as_fd(), &self.parent.leaf),
        };
        target.map_err(|errno| refusal::io(&self.name.sent, errno))
    }

    /// C210 unless this is a regular file, C215 for a link: nothing else is ever opened for content, because
    /// opening a device or FIFO can act or hang.
    pub fn check_content(&self, jail: &Jail, call: &Call) -> Result<()> {
        check_content(jail, &self.name, &self.stat)
            .inspect_err(|error| jail.report_escape(call, &self.name, error))
    }

    /// C210 unless this is a folder, C215 for a link.
    pub fn check_dir(&self, jail: &Jail, call: &Call) -> Result<()> {
        match self.stat.kind {
            Kind::Dir => Ok(()),
            Kind::Symlink => {
                let error = link_error(jail, &self.name);
                jail.report_escape(call, &self.name, &error);
                Err(error)
            }
            _ => Err(Error::bad_input(format!(
                "{}: not a directory; read a file with coder::read-file",
                self.name.sent
            ))),
        }
    }

    /// The file for reading: the same inode that was looked at.
    pub fn open_content(self, jail: &Jail, call: &Call) -> Result<File> {
        let (entry, (fd, stat)) = self.reopen(jail, call, Self::check_content, Self::try_content)?;
        Ok(File::new(fd, stat, entry.name.into_sent()))
    }

    /// The folder for listing.
    pub fn open_dir(self, jail: &Jail, call: &Call) -> Result<Dir> {
        let (entry, (fd, _)) = self.reopen(jail, call, Self::check_dir, Self::try_dir)?;
        Ok(Dir::new(fd, entry.name.into_sent(), entry.real, entry.how))
    }

    // Between the look and the open the name can change hands, and Landlock can lose the folder (moved out of the
    // root: EACCES). Both deserve exactly one fresh resolve: it tells a vanished name (C211) and plain permissions
    // (C216) from a race (C222). More would let somebody who keeps renaming hold the call. A folder that is outside at
    // both opens and inside at the resolve between them looks like a permission, but for the file's own mode.
    fn reopen(
        self,
        jail: &Jail,
        call: &Call,
        check: impl Fn(&Self, &Jail, &Call) -> Result<()>,
        open: impl Fn(&Self) -> Opened,
    ) -> Result<(Self, (OwnedFd, Stat))> {
        check(&self, jail, call)?;
        let first = match open(&self) {
            Ok(opened) => return Ok((self, opened)),
            Err(errno) if is_race(errno) => errno,
            Err(errno) => return Err(refusal::io(&self.name.sent, errno)),
        };
        call.checkpoint()?;
        let again = jail.open_afresh(call, &self.name, self.intent)?;
        check(&again, jail, call)?;
        match open(&again) {
            Ok(opened) => Ok((again, opened)),
            Err(Errno::ACCESS)
                if first == Errno::ACCESS
                    && self.has_parent_of(&again)
                    && !again.stat.is_surely_readable_by(jail.settings.uid) =>
            {
                Err(Error::io(&self.name.sent, "permission denied"))
            }
            Err(errno) if is_race(errno) => Err(Error::busy(&self.name.sent)),
            Err(errno) => Err(refusal::io(&self.name.sent, errno)),
        }
    }

    fn try_content(&self) -> Opened {
        self.check_same(fs::open_to_read(self.parent.dir.as_fd(), &self.parent.leaf, self.how)?)
    }

    // By name, as for files: through its own descriptor (".") a folder would need to be searchable to be listed.
    // The root has no name, so there that is the only way.
    fn try_dir(&self) -> Opened {
        let name: &[u8] = if self.parent.leaf.is_empty() { b"." } else { &self.parent.leaf };
        self.check_same(fs::open_to_list(self.parent.dir.as_fd(), name, self.how)?)
    }

    fn check_same(&self, fd: OwnedFd) -> Opened {
        let now = fs::stat(&fd)?;
        if now.is_same_file(&self.stat) { Ok((fd, now)) } else { Err(Errno::STALE) }
    }

    fn has_parent_of(&self, other: &Self) -> bool {
        match (fs::stat(&*self.parent.dir), fs::stat(&*other.parent.dir)) {
            (Ok(mine), Ok(theirs)) => mine.is_same_file(&theirs),
            _ => false,
        }
    }
}

/// Whether what was looked at may be opened for content.
pub(in crate::jail) fn check_content(jail: &Jail, name: &Located, stat: &Stat) -> Result<()> {
    let root = jail.roots.root(&name.path);
    match stat.kind {
        Kind::File if root.hardlinks == Hardlinks::Refuse && stat.nlink > 1 => {
            Err(refusal::several_links(name))
        }
        Kind::File => Ok(()),
        Kind::Symlink => Err(link_error(jail, name)),
        Kind::Dir => Err(Error::bad_input(format!(
            "{}: not a regular file but a folder; list it with coder::list-folder or coder::tree",
            name.sent
        ))),
        _ => Err(Error::bad_input(format!(
            "{}: not a regular file; FIFOs, sockets and devices are never opened",
            name.sent
        ))),
    }
}

// Where links are followed, the supervisor has followed this one already: a leaf that is a link now has just
// become one.
fn link_error(jail: &Jail, name: &Located) -> Error {
    match jail.roots.root(&name.path).symlinks {
        Symlinks::Refuse => refusal::link(&jail.roots, name),
        Symlinks::Beneath => Error::busy(&name.sent),
    }
}

/// In test builds whose checks are off: every way of opening a name leads to wherever a link does.
pub(in crate::jail) fn follows_links() -> bool {
    #[cfg(feature = "weakened")]
    return crate::sys::weakened::is_off(crate::sys::weakened::CHECKS);
    #[cfg(not(feature = "weakened"))]
    false
}

/// Errnos of an open that a change since the look can explain. STALE is ours: another inode has the name now.
fn is_race(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ACCESS
            | Errno::STALE
            | Errno::NOENT
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::XDEV
            | Errno::NXIO
            | Errno::AGAIN
    )
}
