//! Runs in the worker: examines a name beneath its parent, and opens it for content or for listing if its kind allows that.
//! Trusts the parent's descriptor. Does not trust the name: it can change between the examination and the open. Never follows a
//! link.

use std::os::fd::{AsFd, OwnedFd};

use super::{
    super::{Call, Jail, Located},
    Dir, JailFile, refusal,
};
use crate::{
    broker::{Intent, Parent},
    path::{Hardlinks, JailPath, Symlinks},
    sys::{
        Errno,
        fs::{self, FileKind, FileStat, NameHandle, OpenRules, ResolveMethod},
    },
    wire::{Error, Result},
};

/// What a name stands for, and its stat.
#[derive(Debug)]
pub struct JailEntry {
    name: Located,
    intent: Intent,
    parent: Parent,
    /// Where it really is, once links were followed.
    real_path: JailPath,
    open_rules: OpenRules,
    /// None for names that are to be read: these are only examined with statx, and their content is opened at once.
    handle: Option<NameHandle>,
    stat: FileStat,
}

/// A descriptor for content or entries, and its fstat.
type OpenResult = std::result::Result<(OwnedFd, FileStat), Errno>;

impl JailEntry {
    pub(in crate::jail) fn open(jail: &Jail, name: &Located, intent: Intent, parent: Parent) -> Result<Self> {
        let (how, real) = (jail.open_rules(&name.path), jail.real_path(name, &parent)?);
        let failed = |errno| refusal::open_error(jail, name, errno);
        let (held, stat) = Self::examine(intent, &parent, how).map_err(failed)?;
        Ok(Self { name: name.clone(), intent, parent, real_path: real, open_rules: how, handle: held, stat })
    }

    fn examine(
        intent: Intent,
        parent: &Parent,
        how: OpenRules,
    ) -> std::result::Result<(Option<NameHandle>, FileStat), Errno> {
        if intent == Intent::Read && how.method == ResolveMethod::Openat2 && !parent.leaf.is_empty() && !follows_links()
        {
            return Ok((None, fs::stat_name(parent.dir.as_fd(), &parent.leaf, how.mounts)?));
        }
        let held = if parent.leaf.is_empty() {
            NameHandle::of_folder(&parent.dir)
        } else {
            fs::open_handle(parent.dir.as_fd(), &parent.leaf, how)?
        };
        let stat = held.stat()?;
        Ok((Some(held), stat))
    }

    /// Gives the entry the name that it will have once the planned changes are made.
    pub(in crate::jail) fn set_foreseen_name(&mut self, name: Located, real: JailPath) {
        (self.name, self.real_path) = (name, real);
    }

    pub fn kind(&self) -> FileKind {
        self.stat.kind
    }

    pub fn stat(&self) -> &FileStat {
        &self.stat
    }

    /// Where it really is, once links were followed.
    pub fn path(&self) -> &JailPath {
        &self.real_path
    }

    pub fn name(&self) -> &Located {
        &self.name
    }

    /// Reads the target of the link, by the handle of the link that was examined.
    pub fn link_target(&self) -> Result<Vec<u8>> {
        let target = match &self.handle {
            Some(held) => held.link_target(),
            None => fs::read_link(self.parent.dir.as_fd(), &self.parent.leaf),
        };
        target.map_err(|errno| refusal::io(&self.name.sent, errno))
    }

    /// C210 unless this is a regular file, C215 for a link. Nothing else is ever opened for content, because opening a device or
    /// FIFO can have effects or block.
    pub fn check_content(&self, jail: &Jail, call: &Call) -> Result<()> {
        check_content(jail, &self.name, &self.stat).inspect_err(|error| jail.report_escape(call, &self.name, error))
    }

    /// C210 unless this is a folder, C215 for a link.
    pub fn check_dir(&self, jail: &Jail, call: &Call) -> Result<()> {
        match self.stat.kind {
            FileKind::Dir => Ok(()),
            FileKind::Symlink => {
                let error = link_error(jail, &self.name);
                jail.report_escape(call, &self.name, &error);
                Err(error)
            }
            _ => {
                Err(Error::bad_input(format!("{}: not a directory; read a file with coder::read-file", self.name.sent)))
            }
        }
    }

    /// Opens the file for reading. It is the inode that was examined.
    pub fn open_content(self, jail: &Jail, call: &Call) -> Result<JailFile> {
        let (entry, (fd, stat)) = self.reopen(jail, call, Self::check_content, Self::try_open_content)?;
        Ok(JailFile::new(fd, stat, entry.name.into_sent()))
    }

    /// Opens the folder for listing.
    pub fn open_dir(self, jail: &Jail, call: &Call) -> Result<Dir> {
        let (entry, (fd, _)) = self.reopen(jail, call, Self::check_dir, Self::try_open_dir)?;
        Ok(Dir::new(fd, entry.name.into_sent(), entry.real_path, entry.open_rules))
    }

    // Between the examination and the open, another process can give the name to another file, or move the folder out of the root,
    // where Landlock answers EACCES. Either gets exactly one fresh resolve, which distinguishes a name that is gone (C211) and
    // missing permissions (C216) from a race (C222). With more attempts a process that keeps renaming could delay the call. If the
    // folder is outside of the root at both opens and inside at the resolve between them, only the file's own mode shows that no
    // permission was missing.
    fn reopen(
        self,
        jail: &Jail,
        call: &Call,
        check: impl Fn(&Self, &Jail, &Call) -> Result<()>,
        open: impl Fn(&Self) -> OpenResult,
    ) -> Result<(Self, (OwnedFd, FileStat))> {
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

    fn try_open_content(&self) -> OpenResult {
        self.check_same_inode(fs::open_to_read(self.parent.dir.as_fd(), &self.parent.leaf, self.open_rules)?)
    }

    // Opens the folder by name, like a file: an open of "." through its own descriptor would need search permission in the folder.
    // The root has no name, so "." is the only way there.
    fn try_open_dir(&self) -> OpenResult {
        let name: &[u8] = if self.parent.leaf.is_empty() { b"." } else { &self.parent.leaf };
        self.check_same_inode(fs::open_to_list(self.parent.dir.as_fd(), name, self.open_rules)?)
    }

    fn check_same_inode(&self, fd: OwnedFd) -> OpenResult {
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

/// Checks whether what was examined may be opened for content.
pub(in crate::jail) fn check_content(jail: &Jail, name: &Located, stat: &FileStat) -> Result<()> {
    let root = jail.roots.root(&name.path);
    match stat.kind {
        FileKind::File if root.hardlinks == Hardlinks::Refuse && stat.nlink > 1 => Err(refusal::several_links(name)),
        FileKind::File => Ok(()),
        FileKind::Symlink => Err(link_error(jail, name)),
        FileKind::Dir => Err(Error::bad_input(format!(
            "{}: not a regular file but a folder; list it with coder::list-folder or coder::tree",
            name.sent
        ))),
        _ => Err(Error::bad_input(format!(
            "{}: not a regular file; FIFOs, sockets and devices are never opened",
            name.sent
        ))),
    }
}

// Where links are followed, the supervisor has followed this one already. So a leaf that is a link now has just become one.
fn link_error(jail: &Jail, name: &Located) -> Error {
    match jail.roots.root(&name.path).symlinks {
        Symlinks::Refuse => refusal::link(&jail.roots, name),
        Symlinks::Beneath => Error::busy(&name.sent),
    }
}

/// Whether links are followed: only in weakened test builds, where every open of a name follows them.
pub(in crate::jail) fn follows_links() -> bool {
    #[cfg(feature = "weakened")]
    return crate::sys::weakened::is_off(crate::sys::weakened::CHECKS);
    #[cfg(not(feature = "weakened"))]
    false
}

/// Whether a change of the name since its examination can explain this errno. ESTALE is our own: the name has another inode now.
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
