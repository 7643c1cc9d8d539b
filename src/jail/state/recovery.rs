//! Recovery: undoes the unfinished changes of killed workers. Runs in a confined worker without a client, before the first
//! accept and after a worker was lost. First it undoes every unfinished batch and reports the names for which that failed;
//! then it removes temporary names among a user's files and the dead workers' folders, which may take long. Trusts a folder
//! only if the header of its journal has the folder's inode number. Leaves a folder alone whose journal is locked.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    journal::{self, JournalRecord, JournalStep, NameLocation},
    state_folder::{self, RootTop},
    workspace::{JOURNAL, NOTE_PREFIX, TemporaryName},
};
use crate::{
    broker::Intent,
    jail::{
        Call, Dir, Jail, JailFile, Located, change::engine::ChangeEngine, change::folders::ResolvedFolders,
        change::staged::TEMPORARY_PREFIX, change::undo::UndoError,
    },
    path::{JailPath, Mode, PRIVATE_WORK},
    sys::{
        Errno, change,
        fs::{self, OFlags, OpenRules},
    },
};

/// Most folders of dead workers, and most names in one, that one recovery handles. The next recovery handles the rest.
const MAX_ENTRIES: usize = 100_000;
/// How long to wait at the start for the locked journal of a workspace that describes an unfinished change. A worker that is
/// killed with its supervisor holds the lock until its last thread has ended, and the next supervisor can start before that.
/// A living worker of another service with the same root delays a start only while it makes a change with a note.
const DYING_WORKER_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for another recovery of the same root, by another profile or service.
const OTHER_RECOVERY_WAIT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A name that could not be put in order, and why. An empty path means the whole root: recovery could not read which names an
/// unfinished batch has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsettledName {
    pub root: u16,
    pub path: Vec<u8>,
    pub reason: String,
}

impl Jail {
    /// Undoes the unfinished changes in all writable roots. `waits`: wait for the locked journals of unfinished changes,
    /// because their workers may be dying. Calls `report` with the names that are not in order once all batches are handled, before it removes anything.
    pub fn recover(&self, call: &Call, waits: bool, report: impl FnOnce(Vec<UnsettledName>)) {
        let until = Instant::now() + if waits { DYING_WORKER_WAIT } else { Duration::ZERO };
        let (mut works, mut unsettled) = (Vec::new(), Vec::new());
        for (index, root) in (0u16..).zip(self.roots.roots()) {
            let Ok(path) = self.roots.check(index, b"") else { continue };
            if root.mode != Mode::Rw {
                continue;
            }
            let whole = |errno: Errno| {
                let reason = std::io::Error::from(errno).to_string();
                UnsettledName { root: index, path: Vec::new(), reason }
            };
            match self.open_worker_folders(call, &path) {
                Ok(found) => {
                    for work in found {
                        let settled = work.undo_batches(until, &mut unsettled);
                        unsettled.extend(settled.err().map(whole));
                        works.push(work);
                    }
                }
                Err(errno) => unsettled.push(whole(errno)),
            }
        }
        report(unsettled);
        works.iter().for_each(WorkerFolders::clear);
    }

    /// The folders of dead and living workers in every state folder of ours in a root.
    fn open_worker_folders<'a>(&'a self, call: &'a Call, root: &JailPath) -> Result<Vec<WorkerFolders<'a>>, Errno> {
        let (uid, how) = (self.settings.uid, self.open_rules(root));
        let mut works = Vec::new();
        for own in RootTop::of(self, call, root.root())?.open_all(call)? {
            match state_folder::open_service_folder(own.as_fd(), PRIVATE_WORK.as_bytes(), uid, how) {
                Ok(Some(folder)) => {
                    works.push(WorkerFolders {
                        jail: self,
                        call,
                        root: root.clone(),
                        open_rules: how,
                        state_folder: own,
                        work_folder: folder,
                    });
                }
                Ok(None) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(works)
    }
}

fn names(dir: BorrowedFd<'_>, call: &Call, how: OpenRules, root: &JailPath) -> Result<Vec<Vec<u8>>, Errno> {
    let fd = fs::open_to_list(dir, b".", how)?;
    let mut names = Vec::new();
    let listed = Dir::new(fd, String::new(), root.clone(), how).for_each(call, |entry| {
        names.push(entry.name.to_vec());
        if names.len() < MAX_ENTRIES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    listed.map(|()| names).map_err(|_| Errno::IO)
}

/// The folders of dead and living workers in one root.
struct WorkerFolders<'a> {
    jail: &'a Jail,
    call: &'a Call,
    root: JailPath,
    open_rules: OpenRules,
    state_folder: OwnedFd,
    work_folder: OwnedFd,
}

impl WorkerFolders<'_> {
    /// Undoes all unfinished batches. An error if some of them could not be read.
    fn undo_batches(&self, until: Instant, unsettled: &mut Vec<UnsettledName>) -> Result<(), Errno> {
        // Two recoveries at the same time would lock each other's journals, and take them for those of living workers.
        let alone = fs::open_to_list(self.work_folder.as_fd(), b".", self.open_rules)?;
        if !lock(alone.as_fd(), Instant::now() + OTHER_RECOVERY_WAIT)? {
            return Err(Errno::BUSY);
        }
        let mut settled = Ok(());
        for id in names(self.work_folder.as_fd(), self.call, self.open_rules, &self.root)? {
            let looked_at = match self.open_worker_folder(&id, until)? {
                Some(left) => left.recover_notes(unsettled),
                None => Ok(()),
            };
            settled = settled.and(looked_at);
        }
        settled
    }

    /// Removes the folders of dead workers that hold no note. Best effort: the next recovery retries the rest.
    fn clear(&self) {
        let ids = names(self.work_folder.as_fd(), self.call, self.open_rules, &self.root).unwrap_or_default();
        for id in ids {
            if let Ok(Some(left)) = self.open_worker_folder(&id, Instant::now())
                && left.clear().is_some()
            {
                let _ = change::remove_dir(self.work_folder.as_fd(), &id);
            }
        }
        // Succeeds only once the last worker's folder is gone.
        let _ = change::remove_dir(self.state_folder.as_fd(), PRIVATE_WORK.as_bytes());
    }

    fn open_worker_folder(&self, id: &[u8], until: Instant) -> Result<Option<WorkerFolder<'_>>, Errno> {
        let dir = match state_folder::open_service_folder(
            self.work_folder.as_fd(),
            id,
            self.jail.settings.uid,
            self.open_rules,
        ) {
            Ok(Some(dir)) => Arc::new(dir),
            Ok(None) | Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        Ok(Some(WorkerFolder { work: self, dir, until }))
    }
}

/// Waits for a lock. False if another process still holds it at `until`.
fn lock(fd: BorrowedFd<'_>, until: Instant) -> Result<bool, Errno> {
    lock_while(fd, until, || Ok(true))
}

/// Like `lock`, but also returns false as soon as `is_worthwhile` says that waiting has no purpose.
fn lock_while(
    fd: BorrowedFd<'_>,
    until: Instant,
    is_worthwhile: impl Fn() -> Result<bool, Errno>,
) -> Result<bool, Errno> {
    while !change::try_lock(fd)? {
        if Instant::now() >= until || !is_worthwhile()? {
            return Ok(false);
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    Ok(true)
}

/// The folder of a worker that may be dead.
struct WorkerFolder<'a> {
    work: &'a WorkerFolders<'a>,
    dir: Arc<OwnedFd>,
    /// How long to wait for the lock of its journal.
    until: Instant,
}

/// Owner of a worker's folder.
enum FolderOwner {
    /// A dead worker. We hold the lock of its journal as long as this file is open.
    Dead(JailFile),
    /// There is no journal: the worker died before it made one, or is making it now. Only an empty folder may be removed.
    Unknown,
    /// A living worker holds the lock, or the service did not make this folder.
    Other,
}

impl WorkerFolder<'_> {
    fn owner(&self) -> Result<FolderOwner, Errno> {
        // Some file systems lock only files that are open for writing. On a disk that became read-only, reading has to do.
        let opened = match self.open(JOURNAL, OFlags::RDWR) {
            Err(Errno::ROFS) => self.open(JOURNAL, OFlags::RDONLY),
            opened => opened,
        };
        let journal = match opened {
            Err(Errno::NOENT) => return Ok(FolderOwner::Unknown),
            Err(errno) if state_folder::is_foreign_errno(errno) => return Ok(FolderOwner::Other),
            other => other?,
        };
        let stat = fs::stat(&journal)?;
        let journal = JailFile::new(journal, stat, String::new());
        if !lock_while(journal.fd(), self.until, || self.describes_unfinished_change(&journal))? {
            return Ok(FolderOwner::Other);
        }
        let own = fs::stat(&*self.dir)?;
        let is_known =
            matches!(Self::read_records(&journal)?.first(), Some(JournalRecord::Header(id)) if id.is_inode_of(&own));
        Ok(if is_known { FolderOwner::Dead(journal) } else { FolderOwner::Other })
    }

    /// Whether there is something to undo if the owner of the locked journal is dying. If there is not, it needs no wait, because
    /// a killed process begins no change: at most the system call in which each thread was killed still ends. If that call
    /// creates a note, the note stays empty and describes no step. If it appends to the journal, `clear` or the next recovery
    /// finds the record.
    fn describes_unfinished_change(&self, journal: &JailFile) -> Result<bool, Errno> {
        let is_batch = |record: &JournalRecord| matches!(record, JournalRecord::Batch { .. });
        Ok(self.names()?.iter().any(|name| is_note(name)) || Self::read_records(journal)?.iter().any(is_batch))
    }

    fn names(&self) -> Result<Vec<Vec<u8>>, Errno> {
        names(self.dir.as_fd(), self.work.call, self.work.open_rules, &self.work.root)
    }

    /// Settles all notes and removes each as soon as it is settled. If the removal fails, the next recovery settles the note once
    /// more, which changes nothing.
    fn recover_notes(&self, unsettled: &mut Vec<UnsettledName>) -> Result<(), Errno> {
        let FolderOwner::Dead(journal) = self.owner()? else { return Ok(()) };
        self.recover_journal(&journal, unsettled)?;
        for note in self.names()?.iter().filter(|name| is_note(name)) {
            if self.recover_note(note, unsettled)? {
                let _ = change::remove_file(self.dir.as_fd(), note);
            }
        }
        Ok(())
    }

    /// Undoes the steps that a worker could not undo and wrote into its journal, because its disk was full. True if nothing of them is
    /// left to undo.
    fn recover_journal(&self, journal: &JailFile, unsettled: &mut Vec<UnsettledName>) -> Result<bool, Errno> {
        let mut is_settled = true;
        for record in Self::read_records(journal)? {
            if let JournalRecord::Batch { steps } = record {
                is_settled &= self.undo(&steps, unsettled);
            }
        }
        Ok(is_settled)
    }

    /// Empties the folder. `Some` if it can be removed now. `None` while a note says that something in it has to go back to its
    /// old name.
    fn clear(&self) -> Option<()> {
        // Checked before the journal is locked: another recovery would take a locked folder for that of a living worker, and its
        // names for settled.
        if self.has_notes()? {
            return None;
        }
        let journal = match self.owner().ok()? {
            FolderOwner::Dead(journal) => journal,
            FolderOwner::Unknown => return Some(()),
            FolderOwner::Other => return None,
        };
        let names = self.names().ok()?;
        if !self.recover_journal(&journal, &mut Vec::new()).ok()? || names.iter().any(|name| is_note(name)) {
            return None;
        }
        // The journal last: recovery does not clear a folder without a journal.
        for name in names.iter().filter(|name| *name != JOURNAL) {
            self.temporary_name(name).remove();
        }
        change::remove_file(self.dir.as_fd(), JOURNAL).ok()
    }

    fn has_notes(&self) -> Option<bool> {
        Some(self.names().ok()?.iter().any(|name| is_note(name)))
    }

    fn temporary_name(&self, name: &[u8]) -> TemporaryName {
        let (dir, root) = (Arc::clone(&self.dir), self.work.root.clone());
        TemporaryName {
            dir,
            name: name.to_vec(),
            open_rules: self.work.open_rules,
            root,
            journal_location: None,
            note: None,
        }
    }

    /// Reads the records of a journal or note. None from a file above `MAX_BYTES`, which no worker writes.
    fn read_records(file: &JailFile) -> Result<Vec<JournalRecord>, Errno> {
        // Not the length when it was opened: a dying worker may have written a record while recovery waited for its lock.
        let len = fs::stat(file.fd())?.size_bytes;
        if len > journal::MAX_BYTES {
            return Ok(Vec::new());
        }
        let mut text = vec![0; len as usize];
        let read = file.read_full_at(&mut text, 0).map_err(|_| Errno::IO)?;
        Ok(JournalRecord::read_all(&text[..read]))
    }

    fn open(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        fs::open_beneath(self.dir.as_fd(), name, flags | OFlags::NOFOLLOW, self.work.open_rules)
    }

    /// Undoes what a note describes. True if the note can be removed.
    fn recover_note(&self, name: &[u8], unsettled: &mut Vec<UnsettledName>) -> Result<bool, Errno> {
        let note = match self.open(name, OFlags::RDONLY) {
            Err(errno) if state_folder::is_foreign_errno(errno) => return Ok(false),
            note => note?,
        };
        let stat = fs::stat(&note)?;
        match &Self::read_records(&JailFile::new(note, stat, String::new()))?[..] {
            [JournalRecord::Batch { steps }] => Ok(self.undo(steps, unsettled)),
            [JournalRecord::Temporary { folder, name }] => Ok(self.remove_temporary(&folder.0, &name.0).is_some()),
            // The batch was complete, or was never begun.
            _ => Ok(true),
        }
    }

    fn undo(&self, steps: &[JournalStep], unsettled: &mut Vec<UnsettledName>) -> bool {
        let WorkerFolders { jail, call, root, state_folder: own, .. } = self.work;
        let (own, folders) = (Some(own.as_fd()), ResolvedFolders::default());
        let engine = ChangeEngine { jail, call, root: root.clone(), state_folder: own, folders };
        match engine.undo_noted_steps(steps) {
            Ok(()) => true,
            // Another process has removed or replaced the folder that an entry has to go back to, or the policy denies it by
            // now. Everything else is undone, and the entry is kept until the folder can be reached again.
            Err(failed) if failed.is_out_of_reach() => false,
            Err(UndoError { error, .. }) => {
                let reason = error.message.trim_start_matches(": ");
                unsettled.extend(paths(steps).map(|path| UnsettledName {
                    root: root.root(),
                    path: path.to_vec(),
                    reason: reason.to_owned(),
                }));
                false
            }
        }
    }

    /// Removes a temporary name beside a user's file. Ignores a note whose name does not have the form of a temporary name.
    fn remove_temporary(&self, folder: &[u8], name: &[u8]) -> Option<()> {
        if !name.starts_with(TEMPORARY_PREFIX.as_bytes()) || name.contains(&b'/') {
            return Some(());
        }
        let path = self.work.jail.roots().check(self.work.root.root(), folder).ok()?;
        let Ok(located) = Located::new(self.work.jail, path, "") else { return Some(()) };
        // The folder is gone, and the temporary file with it.
        let Ok(parent) = self.work.jail.ask_afresh(self.work.call, &located, Intent::Look) else {
            return Some(());
        };
        let dir = if parent.leaf.is_empty() {
            parent.dir
        } else {
            let flags = fs::FOLDER_FLAGS | OFlags::NOFOLLOW;
            Arc::new(fs::open_beneath(parent.dir.as_fd(), &parent.leaf, flags, self.work.open_rules).ok()?)
        };
        let (name, root) = (name.to_vec(), self.work.root.clone());
        TemporaryName { dir, name, open_rules: self.work.open_rules, root, journal_location: None, note: None }
            .remove();
        Some(())
    }
}

fn is_note(name: &[u8]) -> bool {
    name.starts_with(NOTE_PREFIX.as_bytes())
}

/// Every name below the root that the steps change.
fn paths(steps: &[JournalStep]) -> impl Iterator<Item = &[u8]> {
    let ends = steps.iter().flat_map(|step| match step {
        JournalStep::MakeDir { path, .. } => [Some(path), None],
        JournalStep::Rename { from, to, .. } => [from, to].map(|at| match at {
            NameLocation::Path(path) => Some(path),
            NameLocation::Own(_) => None,
        }),
    });
    ends.flatten().map(|path| path.0.as_slice())
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
