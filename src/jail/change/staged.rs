//! Runs in the worker: writes a new file before it gets its name: complete, with its mode, owner and attributes, and synced if the
//! policy says so.
//! Trusts the claim and the jail's settings. Changes no user's name; if something fails, nothing is left behind.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::{
    plan::{MovedEntry, Rename, RenameEnd, StepChange},
    planning::{PlanMode, Planning},
};
use crate::{
    jail::{
        Call, Claim, Dir, Jail, JailFile,
        state::journal::{FileIdentity, JournalRecord, NameLocation},
        state::workspace::{TemporaryName, retry_while_taken},
    },
    sys::{
        Errno, change,
        fs::{self, FileKind, FileStat},
    },
    wire::Result,
};

/// Prefix of temporary names beside a user's files.
pub(in crate::jail) const TEMPORARY_PREFIX: &str = ".stockade-tmp-";

/// An access list contains the mode, so it is not copied if the request gives another mode.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Properties of a new file besides its content.
#[derive(Debug, Clone, Copy)]
pub struct FileProperties<'a> {
    /// The nine permission bits; never setuid, setgid or sticky.
    pub mode: u32,
    /// The file it replaces: its owner and attributes are kept as far as the kernel allows.
    pub replaced: Option<&'a JailFile>,
}

#[derive(Debug)]
pub struct Staged {
    /// The descriptor of a regular file.
    pub(in crate::jail) fd: Option<OwnedFd>,
    pub(in crate::jail) stat: FileStat,
    /// Its name of our own: if the file system has no O_TMPFILE, or once the file was named for an exchange.
    pub(in crate::jail) temporary_name: Option<TemporaryName>,
    pub(in crate::jail) owner_changed: bool,
    pub(in crate::jail) lost_attributes: Vec<String>,
}

/// Takes the content of a new file, piece by piece.
#[derive(Debug)]
pub struct ContentWriter<'a> {
    /// None in a dry run: the content is read and counted, and goes nowhere.
    fd: Option<BorrowedFd<'a>>,
    call: &'a Call,
    offset: u64,
    failed: Option<Errno>,
}

/// Bytes between two checks of the deadline.
const WRITE_BYTES: usize = 1 << 20;

impl ContentWriter<'_> {
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(WRITE_BYTES) {
            self.call.checkpoint()?;
            if let (Some(fd), None) = (self.fd, self.failed) {
                self.failed = change::write_all_at(fd, piece, self.offset).err();
            }
            self.offset += piece.len() as u64;
        }
        Ok(())
    }
}

impl Claim {
    /// A new file with these bytes.
    #[cfg(test)]
    pub fn stage(&self, jail: &Jail, call: &Call, like: FileProperties<'_>, bytes: &[u8]) -> Result<Staged> {
        self.stage_with(jail, call, like, |fill| fill.write(bytes))
    }

    /// Stages a new file whose content `fill` writes in pieces.
    pub fn stage_with(
        &self,
        jail: &Jail,
        call: &Call,
        like: FileProperties<'_>,
        fill: impl FnOnce(&mut ContentWriter<'_>) -> Result<()>,
    ) -> Result<Staged> {
        call.checkpoint()?;
        let failed = |errno| self.change_error(jail, call, errno);
        let (fd, spot) = self.new_file(jail, call, like.mode & 0o777).map_err(failed)?;
        let stat = fs::stat(&fd).map_err(failed)?;
        // From here on dropping `staged` after an error removes the name, if it has one.
        let mut staged =
            Staged { fd: None, stat, temporary_name: spot, owner_changed: false, lost_attributes: Vec::new() };
        let mut sink = ContentWriter { fd: Some(fd.as_fd()), call, offset: 0, failed: None };
        fill(&mut sink)?;
        sink.failed.map_or(Ok(()), Err).map_err(failed)?;
        if let Some(old) = like.replaced {
            staged.copy_properties(fd.as_fd(), old, like.mode);
        }
        if jail.settings.durable {
            change::sync(fd.as_fd()).map_err(failed)?;
        }
        staged.fd = Some(fd);
        Ok(staged)
    }

    // Makes the file in the folder where it will lie, or in the nearest one that exists: there it inherits group and access list
    // like every new file.
    fn new_file(
        &self,
        jail: &Jail,
        call: &Call,
        mode: u32,
    ) -> std::result::Result<(OwnedFd, Option<TemporaryName>), Errno> {
        match change::create_unnamed(self.dir(), mode, self.open_rules) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
            other => return other.map(|fd| (fd, None)),
        }
        retry_while_taken(|| {
            let spot = TemporaryName::beside(self, jail, call)?;
            let fd = change::create(spot.dir.as_fd(), &spot.name, mode, self.open_rules)?;
            Ok((fd, Some(spot)))
        })
    }
}

impl Staged {
    fn copy_properties(&mut self, new: BorrowedFd<'_>, old: &JailFile, mode: u32) {
        let was = old.stat();
        if (was.uid, was.gid) != (self.stat.uid, self.stat.gid) {
            let owner = change::set_owner(new, was.uid, was.gid)
                // If user and group cannot both be set, the group alone may be: an unprivileged process can choose among its
                // groups.
                .or_else(|_| change::set_owner(new, self.stat.uid, was.gid));
            let _ = owner;
            let now = fs::stat(new).unwrap_or(self.stat);
            self.owner_changed = (now.uid, now.gid) != (was.uid, was.gid);
        }
        let keeps_mode = was.mode == mode;
        for name in change::attribute_names(old.fd()).unwrap_or_default() {
            if name == ACCESS_LIST && !keeps_mode {
                continue;
            }
            if change::copy_attribute(old.fd(), new, &name).is_err()
                && !change::has_same_attribute(old.fd(), new, &name)
            {
                self.lost_attributes.push(String::from_utf8_lossy(&name).into_owned());
            }
        }
    }

    /// Like `stage_with` in a dry run: reads the content and makes nothing.
    pub(in crate::jail) fn stage_dry_run(
        call: &Call,
        (kind, mode): (FileKind, u32),
        fill: impl FnOnce(&mut ContentWriter<'_>) -> Result<()>,
    ) -> Result<Self> {
        call.checkpoint()?;
        let mut sink = ContentWriter { fd: None, call, offset: 0, failed: None };
        fill(&mut sink)?;
        let stat = FileStat::planned(kind, mode & 0o777, sink.offset);
        Ok(Self { fd: None, stat, temporary_name: None, owner_changed: false, lost_attributes: Vec::new() })
    }

    /// A folder or link that was made under a name of our own.
    pub(in crate::jail) fn from_temporary_name(spot: TemporaryName) -> std::result::Result<Self, Errno> {
        let stat = spot.stat()?.ok_or(Errno::NOENT)?;
        Ok(Self { fd: None, stat, temporary_name: Some(spot), owner_changed: false, lost_attributes: Vec::new() })
    }

    /// Opens the staged folder.
    pub(in crate::jail) fn open_dir(&self) -> std::result::Result<Dir, Errno> {
        let spot = self.temporary_name.as_ref().ok_or(Errno::NOENT)?;
        let fd = fs::open_to_list(spot.dir.as_fd(), &spot.name, spot.open_rules)?;
        Ok(Dir::new(fd, String::new(), spot.root.clone(), spot.open_rules))
    }

    /// The stat of the file as it is now.
    pub fn stat_now(&self) -> FileStat {
        self.fd.as_ref().and_then(|fd| fs::stat(fd).ok()).unwrap_or(self.stat)
    }

    pub fn owner_changed(&self) -> bool {
        self.owner_changed
    }

    pub fn lost_attributes(&self) -> &[String] {
        &self.lost_attributes
    }

    /// Gives the file a name of our own, because only a file with a name can be exchanged with another.
    pub(in crate::jail) fn give_temporary_name(
        &mut self,
        claim: &Claim,
        jail: &Jail,
        call: &Call,
    ) -> std::result::Result<(), Errno> {
        let Some(fd) = self.fd.as_ref().filter(|_| self.temporary_name.is_none()) else { return Ok(()) };
        let link =
            |spot: TemporaryName| change::link_unnamed(fd.as_fd(), spot.dir.as_fd(), &spot.name).map(|()| Some(spot));
        let in_own_folder = match jail.workspaces.open(jail, call, claim.real_path.root()) {
            Some(workspace) => retry_while_taken(|| link(workspace.new_temporary_name())),
            None => Err(Errno::XDEV),
        };
        self.temporary_name = match in_own_folder {
            // There is no workspace, or it lies on another file system or in another quota project.
            Err(Errno::XDEV) => retry_while_taken(|| link(TemporaryName::beside(claim, jail, call)?))?,
            other => other?,
        };
        Ok(())
    }
}

impl Staged {
    /// The change that gives it the claimed name, which is free.
    pub(in crate::jail) fn into_change(mut self, claim: &Claim) -> Result<StepChange> {
        if let Some((spot, moved)) = self.take_temporary_name() {
            return Ok(Rename::new(RenameEnd::Temporary(spot), RenameEnd::of_claim(claim), moved).into());
        }
        let file = self.fd.take().ok_or_else(|| claim.changed_error())?;
        Ok(StepChange::Link { file, to: claim.path().rel().to_vec() })
    }

    /// Takes its name of our own, if it has one, and what lies there.
    pub(in crate::jail) fn take_temporary_name(&mut self) -> Option<(TemporaryName, MovedEntry)> {
        let spot = self.temporary_name.take()?;
        let known = MovedEntry::Existing(FileIdentity::from(&self.stat));
        Some((spot, self.fd.take().map_or(known, |file| MovedEntry::NewFile(file, self.stat))))
    }
}

impl Planning {
    /// See `Claim::stage`.
    pub fn stage(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        like: FileProperties<'_>,
        bytes: &[u8],
    ) -> Result<Staged> {
        self.stage_with(jail, call, claim, like, |fill| fill.write(bytes))
    }

    /// See `Claim::stage_with`.
    pub fn stage_with(
        &self,
        jail: &Jail,
        call: &Call,
        claim: &Claim,
        like: FileProperties<'_>,
        fill: impl FnOnce(&mut ContentWriter<'_>) -> Result<()>,
    ) -> Result<Staged> {
        match self.mode {
            PlanMode::DryRun { .. } => Staged::stage_dry_run(call, (FileKind::File, like.mode), fill),
            _ => claim.stage_with(jail, call, like, fill),
        }
    }

    /// See `Claim::stage_link`.
    pub fn stage_link(&self, jail: &Jail, call: &Call, claim: &Claim, target: &[u8]) -> Result<Staged> {
        match self.mode {
            PlanMode::DryRun { .. } => Staged::stage_dry_run(call, (FileKind::Symlink, 0o777), |_| Ok(())),
            _ => claim.stage_link(jail, call, target),
        }
    }
}

/// A staged file that no plan has taken is removed.
impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(spot) = self.temporary_name.take() {
            spot.remove();
        }
    }
}

impl TemporaryName {
    /// A temporary name in the folder of a claim. It is written to a note before it exists, if the worker has a workspace.
    pub(in crate::jail) fn beside(claim: &Claim, jail: &Jail, call: &Call) -> std::result::Result<Self, Errno> {
        let name = format!("{TEMPORARY_PREFIX}{}", change::random_name()?);
        let note = match jail.workspaces.open(jail, call, claim.real_path.root()) {
            Some(workspace) => {
                let record =
                    JournalRecord::Temporary { folder: claim.folder_path().into(), name: name.as_bytes().into() };
                Some(workspace.write_note(&record)?)
            }
            None => None,
        };
        let path = crate::jail::walk::join_path(claim.folder_path(), name.as_bytes());
        Ok(Self {
            dir: Arc::clone(&claim.parent.dir),
            name: name.into_bytes(),
            open_rules: claim.open_rules,
            root: claim.real_path.clone(),
            journal_location: Some(NameLocation::Path(path[..].into())),
            note,
        })
    }
}
