//! The worker's own folder in each root it writes: `.stockade/UID/work/ID`, 0700, made when it is first needed.
//! Old and new content change places through it, so that no name of ours ever lies among a user's files; where that
//! cannot be (another file system), such a name is journalled here before it exists.
//!
//! A folder belongs to the worker that holds the lock of its journal. One whose lock is free is what a killed worker
//! left: see `recovery`.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Call, Jail, Located};
use crate::{
    broker::Intent,
    path::PRIVATE_FOLDER,
    sys::{
        Errno, change,
        fs::{self, Beneath, Kind, OFlags, Stat},
    },
};

/// Folder of the workers' folders, below the one of the uid.
pub(super) const WORK: &[u8] = b"work";
pub(super) const JOURNAL: &[u8] = b"journal";
/// Nothing of ours is anybody's source.
const IGNORE_FILE: (&[u8], &[u8]) = (b".gitignore", b"*\n");
/// Nobody but this user.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Somebody else may be removing the folders that we make.
const TRIES: usize = 8;

/// A name of our own: in the workspace, or beside a file.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) name: Vec<u8>,
}

impl Spot {
    pub(super) fn at(&self) -> (BorrowedFd<'_>, &[u8]) {
        (self.dir.as_fd(), &self.name)
    }

    pub(super) fn stat(&self, how: Beneath) -> Result<Option<Stat>, Errno> {
        match fs::hold(self.dir.as_fd(), &self.name, how) {
            Err(Errno::NOENT) => Ok(None),
            other => other?.stat().map(Some),
        }
    }

    pub(super) fn remove(self) {
        // What cannot be removed now is removed by the next recovery.
        let _ = change::remove_file(self.dir.as_fd(), &self.name);
    }
}

#[derive(Debug)]
pub(super) struct Workspace {
    dir: Arc<OwnedFd>,
    /// Above it, and its own name there: for the orderly end.
    work: OwnedFd,
    id: String,
    journal: Mutex<Journal>,
    next: AtomicU64,
}

/// Only ever grows while something is under way. Locked as long as it is open.
#[derive(Debug)]
struct Journal {
    fd: OwnedFd,
    end: u64,
}

/// One per root, opened by the first call that needs it and kept for the connection.
#[derive(Debug)]
pub(super) struct Workspaces {
    roots: Vec<Mutex<State>>,
    /// Read by every change while it runs, written by the end of the process.
    running: RwLock<()>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unopened,
    Open(Arc<Workspace>),
    /// The folder cannot be made, or is not ours.
    Unusable,
}

impl Workspaces {
    pub(super) fn for_roots(count: usize) -> Self {
        Self { roots: (0..count).map(|_| Mutex::default()).collect(), running: RwLock::default() }
    }

    /// None where there cannot be one.
    pub(super) fn open(&self, jail: &Jail, call: &Call, root: u16) -> Option<Arc<Workspace>> {
        let mut state = self.state(root);
        if let State::Unopened = *state {
            *state = match Workspace::make(jail, call, root) {
                Some(workspace) => State::Open(Arc::new(workspace)),
                None => State::Unusable,
            };
        }
        match &*state {
            State::Open(workspace) => Some(Arc::clone(workspace)),
            _ => None,
        }
    }

    fn state(&self, root: u16) -> MutexGuard<'_, State> {
        self.roots[usize::from(root)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while names change: the process does not end in the middle by its own will.
    pub(super) fn begin_change(&self) -> RwLockReadGuard<'_, ()> {
        self.running.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for changes that run, lets no more begin, and leaves nothing behind.
    pub(super) fn close(&self) {
        std::mem::forget(self.running.write().unwrap_or_else(PoisonError::into_inner));
        for root in &self.roots {
            let state =
                std::mem::replace(&mut *root.lock().unwrap_or_else(PoisonError::into_inner), State::Unusable);
            if let State::Open(workspace) = state {
                workspace.leave();
            }
        }
    }
}

impl Workspace {
    fn make(jail: &Jail, call: &Call, root: u16) -> Option<Self> {
        let path = jail.roots.check(root, b"").ok()?;
        let how = jail.how(&path);
        let top = Located { path, sent: String::new() };
        let parent = jail.ask_afresh(call, &top, Intent::Look).ok()?;
        (0..TRIES).find_map(|_| Self::try_make(parent.dir.as_fd(), jail.settings.uid, how).ok()).flatten()
    }

    /// `Ok(None)` where a second try would find the same.
    fn try_make(top: BorrowedFd<'_>, uid: u32, how: Beneath) -> Result<Option<Self>, Errno> {
        let Some(private) = own_folder(top, PRIVATE_FOLDER.as_bytes(), uid, how)? else { return Ok(None) };
        if let Ok(file) = change::create(private.as_fd(), IGNORE_FILE.0, FILE_MODE, how) {
            // Only git is told; without it nothing else is lost.
            let _ = change::write_all_at(file.as_fd(), IGNORE_FILE.1, 0);
        }
        let Some(own) = own_folder(private.as_fd(), uid.to_string().as_bytes(), uid, how)? else {
            return Ok(None);
        };
        let Some(work) = own_folder(own.as_fd(), WORK, uid, how)? else { return Ok(None) };
        let id = change::random_name()?;
        change::make_dir(work.as_fd(), id.as_bytes(), FOLDER_MODE)?;
        let Some(dir) = own_folder(work.as_fd(), id.as_bytes(), uid, how)? else { return Ok(None) };
        let journal = Journal::make(dir.as_fd(), how)?;
        Ok(Some(Self { dir: Arc::new(dir), work, id, journal: Mutex::new(journal), next: AtomicU64::new(1) }))
    }

    /// A name in it that is not used.
    pub(super) fn spot(&self) -> Spot {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        Spot { dir: Arc::clone(&self.dir), name: name.into_bytes() }
    }

    /// Not synced: it has to survive us, not the machine.
    pub(super) fn journal_temporary(&self, folder: &[u8], name: &[u8]) -> Result<(), Errno> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.append(&super::journal::Record::temporary(folder, name))
    }

    fn leave(&self) {
        let _ = change::remove_file(self.dir.as_fd(), JOURNAL);
        let _ = change::remove_dir(self.work.as_fd(), self.id.as_bytes());
    }
}

impl Journal {
    /// Locked before it has a name: nobody ever finds one of a living worker unlocked.
    fn make(dir: BorrowedFd<'_>, how: Beneath) -> Result<Self, Errno> {
        let fd = match change::create_unnamed(dir, FILE_MODE, how) {
            Ok(fd) => {
                lock(fd.as_fd())?;
                change::link_unnamed(fd.as_fd(), dir, JOURNAL)?;
                fd
            }
            Err(_) => {
                let fd = change::create(dir, JOURNAL, FILE_MODE, how)?;
                lock(fd.as_fd())?;
                fd
            }
        };
        let mut journal = Self { fd, end: 0 };
        let folder = fs::stat(dir)?;
        journal.append(&super::journal::Record::header(&folder))?;
        Ok(journal)
    }

    fn append(&mut self, record: &super::journal::Record) -> Result<(), Errno> {
        let line = record.to_line();
        change::write_all_at(self.fd.as_fd(), &line, self.end)?;
        self.end += line.len() as u64;
        Ok(())
    }
}

fn lock(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    if change::try_lock(fd)? { Ok(()) } else { Err(Errno::AGAIN) }
}

/// A folder that is ours alone, made if it is not there. None for anything else under that name: what a repository
/// brought along is not our state.
pub(super) fn own_folder(
    above: BorrowedFd<'_>,
    name: &[u8],
    uid: u32,
    how: Beneath,
) -> Result<Option<OwnedFd>, Errno> {
    match change::make_dir(above, name, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(Errno::NOENT) => return Err(Errno::NOENT),
        Err(_) => return Ok(None),
    }
    open_own_folder(above, name, uid, how)
}

pub(super) fn open_own_folder(
    above: BorrowedFd<'_>,
    name: &[u8],
    uid: u32,
    how: Beneath,
) -> Result<Option<OwnedFd>, Errno> {
    let folder = match fs::open_beneath(above, name, fs::FOLDER | OFlags::NOFOLLOW, how) {
        Err(Errno::NOENT) => return Err(Errno::NOENT),
        Err(_) => return Ok(None),
        Ok(folder) => folder,
    };
    let stat = fs::stat(&folder)?;
    let is_ours = stat.kind == Kind::Dir && stat.uid == uid && stat.mode & 0o077 == 0;
    Ok(is_ours.then_some(folder))
}
