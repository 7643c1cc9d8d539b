//! Runs in a confined worker that serves nobody, before the first accept and after a worker was lost: puts in order what
//! killed workers left. A batch that was not finished is undone, names of ours among a user's files are removed, and the
//! dead worker's folder goes. Trusts no folder whose journal does not know it, and none that somebody holds.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Call, Dir, File, Jail, Located,
    journal::{Id, Record},
    private,
    staged::TEMPORARY,
    steps::Steps,
    workspace::{JOURNAL, NOTE, Spot},
};
use crate::{
    broker::Intent,
    path::{JailPath, Mode, PRIVATE_WORK},
    sys::{
        change,
        fs::{self, Beneath, OFlags},
    },
};

/// A batch of the most entries, with the longest names, twice.
const MAX_NOTE_BYTES: usize = 64 << 20;
/// Folders of dead workers, and names in one, that one recovery looks at; the rest is for the next.
const MOST: usize = 100_000;
/// A worker that died with its supervisor holds its journal until its last thread is gone, and a new supervisor can be here
/// before that. One that lives on, of another service with the same root, delays a start by this much.
const DYING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl Jail {
    /// Best effort, root by root: what cannot be put in order stays as it is for the next time.
    pub fn recover(&self, call: &Call) {
        let until = Instant::now() + DYING;
        for (index, root) in (0u16..).zip(self.roots.roots()) {
            if root.mode == Mode::Rw
                && let Ok(path) = self.roots.check(index, b"")
            {
                let _ = self.recover_root(call, path, until);
            }
        }
    }

    fn recover_root(&self, call: &Call, root: JailPath, until: Instant) -> Option<()> {
        let how = self.how(&root);
        let top = Located::own(root.clone());
        let parent = self.ask_afresh(call, &top, Intent::Look).ok()?;
        let own = private::open(parent.dir.as_fd(), self.settings.uid, how).ok()??;
        let work = open(own.as_fd(), PRIVATE_WORK.as_bytes(), self.settings.uid, how)?;
        for id in names(work.as_fd(), call, how, &root)? {
            let Some(dir) = open(work.as_fd(), &id, self.settings.uid, how) else { continue };
            let left =
                Left { jail: self, call, root: &root, how, own: own.as_fd(), dir: Arc::new(dir), until };
            if left.settle().is_some() {
                let _ = change::remove_dir(work.as_fd(), &id);
            }
        }
        // Gone with the last of its folders.
        let _ = change::remove_dir(own.as_fd(), PRIVATE_WORK.as_bytes());
        Some(())
    }
}

fn open(above: BorrowedFd<'_>, name: &[u8], uid: u32, how: Beneath) -> Option<OwnedFd> {
    private::open_own_folder(above, name, uid, how).ok()?
}

fn names(dir: BorrowedFd<'_>, call: &Call, how: Beneath, root: &JailPath) -> Option<Vec<Vec<u8>>> {
    let fd = fs::open_beneath(dir, b".", OFlags::RDONLY | OFlags::DIRECTORY, how).ok()?;
    let mut names = Vec::new();
    let listed = Dir::new(fd, String::new(), root.clone(), how).for_each(call, |entry| {
        names.push(entry.name.to_vec());
        if names.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    listed.ok().map(|()| names)
}

/// The folder of a worker that may be dead.
struct Left<'a> {
    jail: &'a Jail,
    call: &'a Call,
    root: &'a JailPath,
    how: Beneath,
    own: BorrowedFd<'a>,
    dir: Arc<OwnedFd>,
    /// No longer than this for a journal that somebody holds.
    until: Instant,
}

impl Left<'_> {
    /// `Some` if the folder can go: it is empty now, or was from the start.
    fn settle(&self) -> Option<()> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW;
        let journal = match fs::open_beneath(self.dir.as_fd(), JOURNAL, flags, self.how) {
            // Its worker died before it had one, or is just making it: only an empty folder can go.
            Err(crate::sys::Errno::NOENT) => return Some(()),
            other => other.ok()?,
        };
        self.lock(journal.as_fd())?;
        let own = Record::Header(Id::from(&fs::stat(&*self.dir).ok()?));
        if self.read(journal)?.first() != Some(&own) {
            return None;
        }
        let names = || names(self.dir.as_fd(), self.call, self.how, self.root);
        for note in names()?.iter().filter(|name| name.starts_with(NOTE.as_bytes())) {
            self.settle_note(note)?;
        }
        // Once more, because undoing brings names back. The journal last: a folder without one would be nobody's.
        for name in names()?.iter().filter(|name| *name != JOURNAL) {
            self.spot(name).remove();
        }
        change::remove_file(self.dir.as_fd(), JOURNAL).ok()
    }

    fn lock(&self, journal: BorrowedFd<'_>) -> Option<()> {
        while !change::try_lock(journal).ok()? {
            if Instant::now() >= self.until {
                return None;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Some(())
    }

    fn spot(&self, name: &[u8]) -> Spot {
        let (dir, root) = (Arc::clone(&self.dir), self.root.clone());
        Spot { dir, name: name.to_vec(), how: self.how, root, note: None }
    }

    fn read(&self, fd: OwnedFd) -> Option<Vec<Record>> {
        let stat = fs::stat(&fd).ok()?;
        let len = usize::try_from(stat.size_bytes).ok().filter(|len| *len <= MAX_NOTE_BYTES)?;
        let mut text = vec![0; len];
        let read = File::new(fd, stat, String::new()).read_full_at(&mut text, 0).ok()?;
        Some(Record::read_all(&text[..read]))
    }

    fn settle_note(&self, name: &[u8]) -> Option<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        let fd = fs::open_beneath(self.dir.as_fd(), name, flags, self.how).ok()?;
        match &self.read(fd)?[..] {
            [Record::Batch { steps }] => {
                let doing = Steps { jail: self.jail, call: self.call, root: self.root, own: self.own };
                doing.undo(steps).ok()
            }
            [Record::Temporary { folder, name }] => self.remove_temporary(&folder.0, &name.0),
            // All was done, or nothing was begun.
            _ => Some(()),
        }
    }

    /// A name that is not of our making is left alone, whatever the note says.
    fn remove_temporary(&self, folder: &[u8], name: &[u8]) -> Option<()> {
        if !name.starts_with(TEMPORARY.as_bytes()) || name.contains(&b'/') {
            return Some(());
        }
        let path = self.jail.roots().check(self.root.root(), folder).ok()?;
        let located = Located::own(path);
        // The folder is gone, and what it held with it.
        let Ok(parent) = self.jail.ask_afresh(self.call, &located, Intent::Look) else { return Some(()) };
        let dir = if parent.leaf.is_empty() {
            parent.dir
        } else {
            let flags = fs::FOLDER | OFlags::NOFOLLOW;
            Arc::new(fs::open_beneath(parent.dir.as_fd(), &parent.leaf, flags, self.how).ok()?)
        };
        Spot { dir, name: name.to_vec(), how: self.how, root: self.root.clone(), note: None }.remove();
        Some(())
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
