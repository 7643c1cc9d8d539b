//! Runs in the worker: claims a name that a call is going to change. A claim holds the parent folder, a handle of what has the name
//! now and, unless the call only plans, a lease, which keeps other clients of the supervisor from changing the name until the claim
//! is dropped.
//! Trusts the supervisor's answers. Does not trust what lies on disk: it can change after it was examined. Changes nothing.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::{folders::ResolvedFolders, foreseen::ForeseenEntry};
use crate::{
    broker::{Answer, Caller, Intent, Lease, Parent, Refusal},
    jail::{BATCH_PARENTS, Call, Dir, ForeseenChanges, Jail, JailFile, Located, entry, refusal},
    path::JailPath,
    sys::{
        Errno,
        fs::{self, FileKind, FileStat, NameHandle, OpenRules, ResolveMethod},
    },
    wire::{Code, Error, Result},
};

#[derive(Debug)]
pub struct Claim {
    pub(in crate::jail) name: Located,
    /// The call that holds the claim, for the audit.
    caller: Caller,
    pub(in crate::jail) intent: Intent,
    pub(in crate::jail) parent: Parent,
    /// The real path: links are followed.
    pub(in crate::jail) real_path: JailPath,
    pub(in crate::jail) open_rules: OpenRules,
    /// Folders before the last name that do not exist yet, outermost first.
    pub(in crate::jail) missing_folders: Vec<Vec<u8>>,
    /// Folders that have to be made for the name, as paths below the root: the missing ones, unless earlier entries of the
    /// batch change that.
    pub(in crate::jail) folders_to_make: Vec<Vec<u8>>,
    /// What earlier entries of the batch will have changed.
    pub(in crate::jail) foreseen: ForeseenChanges,
    entry: Option<ClaimedEntry>,
}

/// What has the name now. The handle stays open as long as the claim, so that the kernel cannot give the inode number to another
/// file.
#[derive(Debug)]
struct ClaimedEntry {
    location: EntryLocation,
    stat: FileStat,
}

#[derive(Debug)]
enum EntryLocation {
    Disk(NameHandle),
    /// On disk, but under another name until the planned changes are made.
    UnderOtherName(NameHandle),
    /// An earlier entry of the batch will have made it as a copy of this.
    CopyOf(NameHandle),
    /// An earlier entry of the batch will make it.
    Foreseen(ForeseenEntry),
}

/// Stats `name` in `dir` without following links; None if there is nothing. Keeps no handle, so use it only for comparisons.
pub(in crate::jail) fn stat_in(
    dir: BorrowedFd<'_>,
    name: &[u8],
    how: OpenRules,
) -> std::result::Result<Option<FileStat>, Errno> {
    let found = if how.method == ResolveMethod::Openat2 && !entry::follows_links() {
        fs::stat_name_fresh(dir, name, how.mounts)
    } else {
        fs::open_handle(dir, name, how).and_then(|held| held.stat())
    };
    match found {
        Err(Errno::NOENT) => Ok(None),
        other => other.map(Some),
    }
}

impl Jail {
    /// Claims one name. Waits for its lease within the call's deadline; C221 in a read-only root, before anything else.
    pub fn claim(&self, call: &mut Call, name: &Located, intent: Intent) -> Result<Claim> {
        let answer = self.ask(call, std::slice::from_ref(name), intent).pop();
        self.claim_answered(call, name, intent, answer.unwrap_or(Err(Refusal::Busy)))
    }

    /// Claims a name whose parent was asked for with others.
    pub fn claim_answered(&self, call: &Call, name: &Located, intent: Intent, answer: Answer) -> Result<Claim> {
        debug_assert!(intent.changes(), "nothing is claimed to be looked at");
        match answer {
            Ok(parent) => {
                Claim::open(self, call, name, intent, parent).inspect_err(|error| self.report_escape(call, name, error))
            }
            // Also if the deadline passed while another call held the lease: the client can retry that.
            Err(Refusal::Busy) => Err(refusal::taken(&name.sent)),
            Err(Refusal::Unsettled) => Err(refusal::unsettled(&name.sent)),
            Err(refusal) => {
                // After the deadline the client gets C220 instead of the refusal.
                call.checkpoint()?;
                Err(refusal::error(self, name, refusal))
            }
        }
    }

    /// Takes the leases of many names, sorted by real path. Also returns the folders of the names, as many as `Folders` can hold.
    /// If a name cannot be leased, it returns no folders: every step then asks for its own names and fails with the reason.
    pub fn lease_all(&self, call: &mut Call, names: &[(Located, Intent)]) -> (Vec<Arc<Lease>>, ResolvedFolders) {
        let mut order: Vec<&(Located, Intent)> = names.iter().filter(|(_, intent)| intent.changes()).collect();
        order.sort_by_cached_key(|(name, _)| self.roots.absolute(&name.path));
        let (mut leases, mut folders, mut is_refused) = (Vec::new(), ResolvedFolders::default(), false);
        for chunk in order.chunks(BATCH_PARENTS) {
            let questions = chunk.iter().map(|(name, intent)| name.question(*intent)).collect();
            for ((name, _), answer) in chunk.iter().zip(self.ask_questions(call, questions)) {
                is_refused |= answer.is_err();
                let Ok(parent) = answer else { continue };
                folders.add_answered(name.path.root(), &parent);
                leases.extend(parent.lease);
            }
        }
        (leases, if is_refused { ResolvedFolders::default() } else { folders })
    }

    /// One answer per name, in order. The leases are taken in the order of the real names, whatever the order they are
    /// asked in: two calls that want the same names then never wait for each other.
    pub fn ask_to_change(&self, call: &mut Call, names: &[(Located, Intent)]) -> Vec<Answer> {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_cached_key(|index| self.roots.absolute(&names[*index].0.path));
        let questions = order.iter().map(|index| names[*index].0.question(names[*index].1)).collect();
        let mut answers: Vec<Option<Answer>> = names.iter().map(|_| None).collect();
        for (index, answer) in order.into_iter().zip(self.ask_questions(call, questions)) {
            answers[index] = Some(answer);
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Err(Refusal::Busy))).collect()
    }
}

impl Claim {
    fn open(jail: &Jail, call: &Call, name: &Located, intent: Intent, parent: Parent) -> Result<Self> {
        let how = jail.open_rules(&name.path);
        let real = jail.real_path(name, &parent)?;
        // Second layer: the supervisor refuses this, too.
        if jail.denied.is_root_name(real.root(), real.rel()) {
            return Err(Error::not_found(&name.sent));
        }
        if let Some(rule) = jail.protected_by(&real) {
            return Err(refusal::protected(&name.sent, rule));
        }
        let names = parent.path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let before_leaf = names.len() - 1;
        let missing = names[before_leaf - parent.missing.min(before_leaf)..before_leaf].to_vec();
        let mut claim = Self {
            name: name.clone(),
            caller: call.caller(),
            intent,
            parent,
            real_path: real,
            open_rules: how,
            missing_folders: missing,
            folders_to_make: Vec::new(),
            foreseen: ForeseenChanges::default(),
            entry: None,
        };
        let mut path = claim.folder_path().to_vec();
        for name in &claim.missing_folders {
            path = crate::jail::walk::join_path(&path, name);
            claim.folders_to_make.push(path.clone());
        }
        claim.check_parents_unprotected(jail)?;
        claim.entry = claim.examine().map_err(|errno| refusal::open_error(jail, name, errno))?;
        Ok(claim)
    }

    fn examine(&self) -> std::result::Result<Option<ClaimedEntry>, Errno> {
        if !self.missing_folders.is_empty() {
            return Ok(None);
        }
        let held = if self.parent.leaf.is_empty() {
            NameHandle::of_folder(&self.parent.dir)
        } else {
            match fs::open_handle(self.dir(), self.leaf(), self.open_rules) {
                Err(Errno::NOENT) => return Ok(None),
                other => other?,
            }
        };
        let stat = held.stat()?;
        Ok(Some(ClaimedEntry { location: EntryLocation::Disk(held), stat }))
    }

    /// Gives the claim the name that its file will have after the foreseen changes.
    pub(in crate::jail) fn set_foreseen_name(&mut self, name: Located, real: JailPath, is_copy: bool) {
        (self.name, self.real_path) = (name, real);
        self.entry = self.entry.take().map(|found| match found.location {
            EntryLocation::Disk(held) if is_copy => ClaimedEntry { location: EntryLocation::CopyOf(held), ..found },
            EntryLocation::Disk(held) => ClaimedEntry { location: EntryLocation::UnderOtherName(held), ..found },
            _ => found,
        });
    }

    /// Records what earlier entries of the batch will have put here, or that nothing will be here.
    pub(in crate::jail) fn set_foreseen_entry(&mut self, node: Option<ForeseenEntry>) {
        self.entry = node.map(|node| {
            let size_bytes = node.content.as_ref().map_or(0, |content| content.len() as u64);
            let stat = FileStat::planned(node.kind, node.mode, size_bytes);
            ClaimedEntry { location: EntryLocation::Foreseen(node), stat }
        });
    }

    /// The content that an earlier entry of the same batch gives the file, if one does.
    pub fn foreseen_content(&self) -> Option<&[u8]> {
        match &self.entry.as_ref()?.location {
            EntryLocation::Foreseen(ForeseenEntry { content: Some(content), .. }) => Some(content),
            _ => None,
        }
    }

    /// Whether nothing is on disk yet, because an earlier entry of the batch will make it.
    pub fn is_only_foreseen(&self) -> bool {
        matches!(&self.entry, Some(ClaimedEntry { location: EntryLocation::Foreseen(_), .. }))
    }

    /// Whether it has no inode yet, because an earlier entry of the batch will make or copy it.
    pub(in crate::jail) fn is_new(&self) -> bool {
        matches!(
            &self.entry,
            Some(ClaimedEntry { location: EntryLocation::Foreseen(_) | EntryLocation::CopyOf(_), .. })
        )
    }

    /// `stat`, or None if an earlier step renames the file first, which changes its times.
    pub(in crate::jail) fn stat_on_disk(&self, stat: &FileStat) -> Option<FileStat> {
        match &self.entry {
            Some(ClaimedEntry { location: EntryLocation::Disk(_), .. }) => Some(*stat),
            _ => None,
        }
    }

    pub fn name(&self) -> &Located {
        &self.name
    }

    /// The real path: links are followed.
    pub fn path(&self) -> &JailPath {
        &self.real_path
    }

    /// The stat of what has the name; None for a free name.
    pub fn stat(&self) -> Option<&FileStat> {
        self.entry.as_ref().map(|found| &found.stat)
    }

    /// The stat of the file on disk that has the name; None if an earlier entry of the batch makes or renames what will be there.
    pub fn disk_stat(&self) -> Option<&FileStat> {
        self.entry.as_ref().filter(|entry| matches!(entry.location, EntryLocation::Disk(_))).map(|entry| &entry.stat)
    }

    pub fn kind(&self) -> Option<FileKind> {
        self.stat().map(|stat| stat.kind)
    }

    /// C211 for a missing name, C210 for anything but a regular file, C215 for a link.
    pub fn check_content(&self, jail: &Jail) -> Result<()> {
        let stat = self.stat().ok_or_else(|| Error::not_found(&self.name.sent))?;
        entry::check_content(jail, &self.name, stat)
            .inspect_err(|error| jail.report_escape_of(self.caller, &self.name, error))
    }

    /// Opens the regular file for reading. A replace later expects to find what `File::stat` returns here.
    pub fn open_content(&self, jail: &Jail) -> Result<JailFile> {
        self.check_content(jail)?;
        let fd = fs::open_to_read(self.dir(), self.leaf(), self.open_rules).map_err(|errno| self.read_error(errno))?;
        let stat = fs::stat(&fd).map_err(|errno| refusal::io(&self.name.sent, errno))?;
        match self.stat() {
            Some(found) if found.is_same_file(&stat) => Ok(JailFile::new(fd, stat, self.name.sent.clone())),
            _ => Err(Error::busy(&self.name.sent)),
        }
    }

    /// Opens the folder for listing.
    pub fn open_dir(&self) -> Result<Dir> {
        let fd = fs::open_to_list(self.dir(), self.leaf(), self.open_rules).map_err(|errno| self.read_error(errno))?;
        Ok(Dir::new(fd, self.name.sent.clone(), self.real_path.clone(), self.open_rules))
    }

    /// Reads the target of the link.
    pub fn link_target(&self) -> Result<Vec<u8>> {
        let found = self.entry.as_ref().ok_or_else(|| Error::not_found(&self.name.sent))?;
        let (EntryLocation::Disk(held) | EntryLocation::UnderOtherName(held) | EntryLocation::CopyOf(held)) =
            &found.location
        else {
            return Err(Error::not_found(&self.name.sent));
        };
        held.link_target().map_err(|errno| refusal::io(&self.name.sent, errno))
    }

    fn read_error(&self, errno: Errno) -> Error {
        match errno {
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::STALE => Error::busy(&self.name.sent),
            Errno::ACCESS => Error::io(&self.name.sent, "permission denied"),
            other => refusal::io(&self.name.sent, other),
        }
    }

    /// The parent folder of the name, or of the first missing folder above it.
    pub(in crate::jail) fn dir(&self) -> BorrowedFd<'_> {
        self.parent.dir.as_fd()
    }

    /// The path of `dir` below the root.
    pub(in crate::jail) fn folder_path(&self) -> &[u8] {
        let below = self.missing_folders.iter().map(|name| name.len() + 1).sum::<usize>() + self.leaf().len();
        let path = self.real_path.rel();
        path[..path.len().saturating_sub(below)].strip_suffix(b"/").unwrap_or_default()
    }

    pub(in crate::jail) fn leaf(&self) -> &[u8] {
        &self.parent.leaf
    }

    /// C222: another process has changed the name since this call read it.
    pub(in crate::jail) fn changed_error(&self) -> Error {
        refusal::changed(&self.name.sent)
    }

    /// C211 where a folder is missing and may not be made.
    pub fn check_parents(&self, may_make: bool) -> Result<()> {
        if self.folders_to_make.is_empty() || may_make { Ok(()) } else { Err(Error::not_found(&self.name.sent)) }
    }

    /// The error for a change that the kernel refused; see `Jail::change_error`.
    pub(in crate::jail) fn change_error(&self, jail: &Jail, call: &Call, errno: Errno) -> Error {
        jail.change_error(call, (&self.name, self.intent), &self.parent.dir, errno)
    }
}

impl Jail {
    /// The error for a change of a name in the folder `dir` that the kernel refused. EACCES and ENOENT have two meanings: plain
    /// permissions, and a folder that was moved out of the root or removed since it was resolved. One fresh resolve tells them apart.
    pub(in crate::jail) fn change_error(
        &self,
        call: &Call,
        (name, intent): (&Located, Intent),
        dir: &OwnedFd,
        errno: Errno,
    ) -> Error {
        match errno {
            Errno::ACCESS | Errno::NOENT | Errno::PERM => {
                let answer = self.ask_afresh(call, name, intent);
                match self.claim_answered(call, name, intent, answer) {
                    Err(error) if error.code != Code::NotFound => error,
                    Ok(again) if errno != Errno::NOENT && is_same_folder(dir, &again.parent.dir) => {
                        Error::io(&name.sent, "permission denied")
                    }
                    _ => Error::busy(&name.sent),
                }
            }
            Errno::EXIST => refusal::exists(&name.sent),
            Errno::AGAIN | Errno::STALE => Error::busy(&name.sent),
            other => refusal::io(&name.sent, other),
        }
    }
}

pub(in crate::jail) fn is_same_folder(a: &OwnedFd, b: &OwnedFd) -> bool {
    matches!((fs::stat(a), fs::stat(b)), (Ok(a), Ok(b)) if a.is_same_file(&b))
}
