//! Runs in the worker: its own folder in each root that it writes to: `work/ID` in the service's state there (see `private`), mode
//! 0700, made when it is first needed.
//! Old and new content are exchanged through it, so that no temporary name appears among a user's files. That is impossible on
//! another file system; the worker then writes the temporary name to a note here before it makes it.
//!
//! A folder belongs to the worker that holds the lock of its journal. If the lock is free, its worker was killed: see `recovery`.
//! Trusts only names that this process chose. Never removes a folder whose notes recovery still needs.

use std::{
    hash::{BuildHasher, RandomState},
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    journal::{InodeId, JournalRecord, MAX_BYTES, NameLocation},
    state_folder::{self, KnownStateFolders, RootTop},
    trash::VerifiedIds,
};
use crate::{
    jail::{
        Call, Dir, Jail,
        change::claim::{is_same_folder, stat_in},
    },
    path::{JailPath, PRIVATE_WORK},
    sys::{
        Errno,
        change::{self, IfNameTaken},
        fs::{self, FileStat, OpenRules},
    },
};

pub(in crate::jail) const JOURNAL: &[u8] = b"journal";
/// Space in a journal for one record that no longer fits on the disk: a step with two paths of the greatest length, in base64.
const JOURNAL_RESERVE_BYTES: usize = 12 << 10;
/// Prefix of the names of notes, which describe unfinished changes.
pub(in crate::jail) const NOTE_PREFIX: &str = "note-";
/// Attempts to make a folder or file while another process removes our folders or takes our names.
const TRIES: usize = 8;

/// A name of our own: in the workspace, or beside a file.
#[derive(Debug)]
pub(in crate::jail) struct TemporaryName {
    pub(in crate::jail) dir: Arc<OwnedFd>,
    pub(in crate::jail) name: Vec<u8>,
    pub(in crate::jail) open_rules: OpenRules,
    pub(in crate::jail) root: JailPath,
    /// The name as a journal holds it.
    pub(in crate::jail) journal_location: Option<NameLocation>,
    /// For a name beside a user's file: its note, which exists as long as this value.
    pub(in crate::jail) note: Option<Note>,
}

impl TemporaryName {
    pub(in crate::jail) fn dir_and_name(&self) -> (BorrowedFd<'_>, &[u8]) {
        (self.dir.as_fd(), &self.name)
    }

    pub(in crate::jail) fn stat(&self) -> Result<Option<FileStat>, Errno> {
        stat_in(self.dir.as_fd(), &self.name, self.open_rules)
    }

    /// Whether it lies in our own state, not beside a user's file.
    pub(in crate::jail) fn is_in_state(&self) -> bool {
        matches!(self.journal_location, Some(NameLocation::Own(_)))
    }
}

#[derive(Debug)]
pub(in crate::jail) struct Workspace {
    dir: Arc<OwnedFd>,
    /// The folders above it, and its own name there. `remove_folders` removes them.
    state_folder: OwnedFd,
    work_folder: OwnedFd,
    id: String,
    dev: u64,
    /// The open journal, whose descriptor holds the lock, and the offset of the next record.
    journal: Mutex<(OwnedFd, u64)>,
    /// The journal has no name any more, so no new change may rely on it.
    has_lost_journal: AtomicBool,
    next: AtomicU64,
    /// Hashes numbers into names that other processes cannot predict, and so cannot take first.
    names: RandomState,
    supports_exchange: OnceLock<bool>,
    open_rules: OpenRules,
    root: JailPath,
}

/// A file that describes a change while it runs. Recovery undoes the change if the worker is killed.
#[derive(Debug)]
pub(in crate::jail) struct Note {
    dir: Arc<OwnedFd>,
    name: Vec<u8>,
    is_kept: bool,
    fd: OwnedFd,
    end: u64,
    /// Where the line `Committed` begins, if it was written.
    committed_at: Option<u64>,
}

/// Adds a line to a journal or note. EFBIG if recovery would not read the file any more.
fn append(file: BorrowedFd<'_>, line: &[u8], end: &mut u64) -> Result<(), Errno> {
    let new_end = *end + line.len() as u64;
    if new_end > MAX_BYTES {
        return Err(Errno::FBIG);
    }
    change::write_all_at(file, line, *end)?;
    *end = new_end;
    Ok(())
}

impl Note {
    fn add(&mut self, record: &JournalRecord) -> Result<(), Errno> {
        append(self.fd.as_fd(), &record.to_line(), &mut self.end)
    }

    /// Says that all steps are done.
    pub(in crate::jail) fn commit(&mut self) -> Result<(), Errno> {
        self.committed_at = Some(self.end);
        self.add(&JournalRecord::Committed)
    }

    /// Blanks the line `Committed` before steps are undone after all. Otherwise recovery would take a batch that is half undone
    /// for a complete one. None if the disk refuses that; the note is then removed.
    pub(in crate::jail) fn retract(mut self) -> Option<Self> {
        let Some(at) = self.committed_at.take() else { return Some(self) };
        let blank = vec![b' '; JournalRecord::Committed.to_line().len()];
        change::write_all_at(self.fd.as_fd(), &blank, at).ok().map(|()| self)
    }

    pub(in crate::jail) fn sync(&self) -> Result<(), Errno> {
        change::sync(self.fd.as_fd())
    }

    /// Keeps the file: the change could be neither completed nor undone, and recovery tries again.
    pub(in crate::jail) fn keep(mut self) {
        self.is_kept = true;
    }
}

/// The change is complete or undone, so recovery needs no note of it.
impl Drop for Note {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = change::remove_file(self.dir.as_fd(), &self.name);
        }
    }
}

/// The workspaces of all roots. Each is opened by the first call that needs it and kept for the connection.
#[derive(Debug)]
pub(in crate::jail) struct Workspaces {
    roots: Vec<RootState>,
    /// Every change holds it for reading while it runs; `close` takes it for writing.
    running: RwLock<()>,
}

/// What a worker keeps of its state in one root from call to call.
#[derive(Debug, Default)]
struct RootState {
    workspace: Mutex<WorkspaceState>,
    known_folders: KnownStateFolders,
    verified_ids: Mutex<VerifiedIds>,
}

#[derive(Debug, Default)]
enum WorkspaceState {
    #[default]
    Unopened,
    Open(Arc<Workspace>),
    /// The folder cannot be made, or is not ours.
    Unusable,
}

impl Workspaces {
    pub(in crate::jail) fn for_roots(count: usize) -> Self {
        Self { roots: (0..count).map(|_| RootState::default()).collect(), running: RwLock::default() }
    }

    /// The workspace of a root, made if necessary. `None` if it cannot be made.
    pub(in crate::jail) fn open(&self, jail: &Jail, call: &Call, root: u16) -> Option<Arc<Workspace>> {
        let mut state = self.state(root);
        if matches!(&*state, WorkspaceState::Open(workspace) if workspace.is_unusable()) {
            *state = WorkspaceState::Unopened;
        }
        if let WorkspaceState::Unopened = *state {
            *state = match Workspace::make(jail, call, root, self.known_folders(root)) {
                Ok(Some(workspace)) => WorkspaceState::Open(Arc::new(workspace)),
                Ok(None) => WorkspaceState::Unusable,
                // For example a full disk. The next call tries again.
                Err(_) => WorkspaceState::Unopened,
            };
        }
        match &*state {
            WorkspaceState::Open(workspace) => Some(Arc::clone(workspace)),
            _ => None,
        }
    }

    fn state(&self, root: u16) -> MutexGuard<'_, WorkspaceState> {
        self.roots[usize::from(root)].workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state folders of a root, as far as this worker knows them.
    pub(in crate::jail) fn known_folders(&self, root: u16) -> &KnownStateFolders {
        &self.roots[usize::from(root)].known_folders
    }

    /// The entries of a root's trash that this worker has verified.
    pub(in crate::jail) fn verified_ids(&self, root: u16) -> MutexGuard<'_, VerifiedIds> {
        self.roots[usize::from(root)].verified_ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hold the guard while names change: `close` waits for it, so that the worker does not exit in the middle.
    pub(in crate::jail) fn begin_change(&self) -> RwLockReadGuard<'_, ()> {
        self.running.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for running changes, blocks new ones for good, and removes the worker's folders.
    pub(in crate::jail) fn close(&self) {
        std::mem::forget(self.running.write().unwrap_or_else(PoisonError::into_inner));
        for root in &self.roots {
            let mut state = root.workspace.lock().unwrap_or_else(PoisonError::into_inner);
            if let WorkspaceState::Open(workspace) = std::mem::replace(&mut *state, WorkspaceState::Unusable) {
                workspace.remove_folders();
            }
        }
    }
}

impl Workspace {
    fn make(jail: &Jail, call: &Call, root: u16, known: &KnownStateFolders) -> Result<Option<Self>, Errno> {
        let top = RootTop::of(jail, call, root)?;
        let path = jail.roots.check(root, b"").map_err(|_| Errno::INVAL)?;
        for _ in 0..TRIES {
            let Some(own) = top.open_state(call, known)? else { return Ok(None) };
            match Self::make_in(own, jail.settings.uid, jail.open_rules(&path), &path) {
                // Another process removes what we make, or recovery has taken our folder for that of a dead worker.
                Err(Errno::NOENT | Errno::EXIST | Errno::AGAIN) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// `Ok(None)` if a later attempt would fail in the same way.
    fn make_in(own: OwnedFd, uid: u32, how: OpenRules, root: &JailPath) -> Result<Option<Self>, Errno> {
        let Some(work) = state_folder::open_or_make_folder(own.as_fd(), PRIVATE_WORK.as_bytes(), uid, how)? else {
            return Ok(None);
        };
        let id = change::random_name()?;
        let Some(dir) = state_folder::open_or_make_folder(work.as_fd(), id.as_bytes(), uid, how)? else {
            return Ok(None);
        };
        // Removes the folder again, so that failed attempts do not fill the disk.
        let journal = make_journal(dir.as_fd(), how).inspect_err(|_| {
            let _ = change::remove_file(dir.as_fd(), JOURNAL);
            let _ = change::remove_dir(work.as_fd(), id.as_bytes());
        })?;
        let (dev, next, exchanges) = (fs::stat(&dir)?.dev, AtomicU64::new(1), OnceLock::new());
        let (dir, root) = (Arc::new(dir), root.clone());
        let (names, journal) = (RandomState::new(), Mutex::new(journal));
        let has_lost_journal = AtomicBool::new(false);
        Ok(Some(Self {
            dir,
            state_folder: own,
            work_folder: work,
            id,
            dev,
            journal,
            has_lost_journal,
            next,
            names,
            supports_exchange: exchanges,
            open_rules: how,
            root,
        }))
    }

    /// An unused name in the workspace.
    pub(in crate::jail) fn new_temporary_name(&self) -> TemporaryName {
        self.temporary_name(self.new_name().as_bytes())
    }

    fn new_name(&self) -> String {
        format!("{:016x}", self.names.hash_one(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn temporary_name(&self, name: &[u8]) -> TemporaryName {
        let (dir, root) = (Arc::clone(&self.dir), self.root.clone());
        let path = [PRIVATE_WORK.as_bytes(), b"/", self.id.as_bytes(), b"/", name].concat();
        let at = Some(NameLocation::Own(path[..].into()));
        TemporaryName { dir, name: name.to_vec(), open_rules: self.open_rules, root, journal_location: at, note: None }
    }

    /// Whether `state_folder` is the same state folder.
    pub(in crate::jail) fn is_in(&self, own: &OwnedFd) -> bool {
        is_same_folder(own, &self.state_folder)
    }

    /// Whether another process has removed it, for example `git clean -x`, or recovery would not read its notes.
    fn is_unusable(&self) -> bool {
        self.has_lost_journal.load(Ordering::Relaxed) || fs::stat(&*self.dir).is_ok_and(|dir| dir.nlink == 0)
    }

    /// Whether `folder` is on the same file system, so that a rename between the two is possible. It can still fail for other
    /// reasons.
    pub(in crate::jail) fn is_on(&self, folder: &FileStat) -> bool {
        self.dev == folder.dev
    }

    /// Whether this file system can exchange two names. Tried once, on two files in the workspace.
    pub(in crate::jail) fn can_exchange(&self) -> bool {
        *self.supports_exchange.get_or_init(|| {
            let spots = [self.new_temporary_name(), self.new_temporary_name()];
            let made = spots.iter().all(|spot| {
                change::create(self.dir.as_fd(), &spot.name, state_folder::FILE_MODE, self.open_rules).is_ok()
            });
            let exchanged =
                made && change::rename(spots[0].dir_and_name(), spots[1].dir_and_name(), IfNameTaken::Exchange).is_ok();
            spots.into_iter().for_each(TemporaryName::remove);
            exchanged
        })
    }

    /// Writes a note of a change that is about to begin. Dropping the note removes the file.
    pub(in crate::jail) fn write_note(&self, record: &JournalRecord) -> Result<Note, Errno> {
        let (name, fd) = retry_while_taken(|| {
            let name = format!("{NOTE_PREFIX}{}", self.new_name()).into_bytes();
            change::create(self.dir.as_fd(), &name, state_folder::FILE_MODE, self.open_rules).map(|fd| (name, fd))
        })?;
        let mut note = Note { dir: Arc::clone(&self.dir), name, is_kept: false, fd, end: 0, committed_at: None };
        note.add(record)?;
        Ok(note)
    }

    /// Writes down steps that could not be undone, for recovery. On a full disk no new file can be made: the record then goes into
    /// the room that the journal has kept since it was made. If even that fails, the folder loses its journal, because recovery
    /// clears no folder without one. False in that case: recovery cannot undo the steps, but destroys nothing either.
    pub(in crate::jail) fn leave_to_recovery(&self, record: &JournalRecord) -> bool {
        if let Ok(note) = self.write_note(record) {
            note.keep();
            return true;
        }
        let line = record.to_line();
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, end) = &mut *journal;
        if append(file.as_fd(), &line, end).is_err() {
            let _ = change::remove_file(self.dir.as_fd(), JOURNAL);
            self.has_lost_journal.store(true, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Flushes a note and its folders, so that the note survives a power cut.
    pub(in crate::jail) fn sync(&self, note: &Note) -> Result<(), Errno> {
        change::sync(note.fd.as_fd())?;
        change::sync_folder(self.dir.as_fd(), self.open_rules)?;
        // The first time the folders above are new, too. Later this call has nothing to flush.
        change::sync_folder(self.work_folder.as_fd(), self.open_rules)
    }

    // A folder that still holds something keeps its journal, because recovery clears no folder without one.
    fn remove_folders(&self) {
        if self.holds_more_than_its_journal() {
            return;
        }
        let _ = change::remove_file(self.dir.as_fd(), JOURNAL);
        let _ = change::remove_dir(self.work_folder.as_fd(), self.id.as_bytes());
        let _ = change::remove_dir(self.state_folder.as_fd(), PRIVATE_WORK.as_bytes());
    }

    fn holds_more_than_its_journal(&self) -> bool {
        let Ok(fd) = fs::open_to_list(self.dir.as_fd(), b".", self.open_rules) else { return true };
        let mut more = false;
        let dir = Dir::new(fd, String::new(), self.root.clone(), self.open_rules);
        let listed = dir.for_each(&Call::for_cleanup(), |entry| {
            more |= entry.name != JOURNAL;
            if more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        more || listed.is_err()
    }
}

/// Ends the process after a change that could be neither completed nor undone. The supervisor then counts the worker as lost:
/// no client reads the names that it holds before recovery has undone the change. A reply to the client would come too
/// early, because names are in order only after recovery, and recovery leaves the folders of living workers alone.
pub(in crate::jail) fn exit_for_recovery() -> ! {
    std::process::exit(crate::broker::LEFT_TO_RECOVERY)
}

/// Repeats an attempt with a new random name while the name is taken, which only happens if another process planted it.
/// EAGAIN after `TRIES` attempts.
pub(in crate::jail) fn retry_while_taken<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..TRIES {
        match attempt() {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Makes the journal and locks it before it gets a name, so that no process finds the journal of a living worker unlocked. Fills it
/// up with space for one record. Also returns the offset of that space.
fn make_journal(dir: BorrowedFd<'_>, how: OpenRules) -> Result<(OwnedFd, u64), Errno> {
    let (fd, is_named) = match change::create_unnamed(dir, state_folder::FILE_MODE, how) {
        Ok(fd) => (fd, false),
        Err(_) => (change::create(dir, JOURNAL, state_folder::FILE_MODE, how)?, true),
    };
    lock(fd.as_fd())?;
    let mut text = JournalRecord::Header(InodeId::from(&fs::stat(dir)?)).to_line();
    let end = text.len() as u64;
    text.resize(text.len() + JOURNAL_RESERVE_BYTES, b' ');
    change::write_all_at(fd.as_fd(), &text, 0)?;
    if !is_named {
        change::link_unnamed(fd.as_fd(), dir, JOURNAL)?;
    }
    Ok((fd, end))
}

fn lock(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    if change::try_lock(fd)? { Ok(()) } else { Err(Errno::AGAIN) }
}
