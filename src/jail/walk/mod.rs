//! Runs in the worker, on the call's thread and on its helpers: visits every folder of a tree once. The only code there that goes
//! through trees: `find` and `search` by their rules (`ruled`), `tree` level by level, and changes of whole folders.
//! Trusts: the folder it was given. Does not trust: names, and what lies on disk.
//! Never follows a link, never opens what is not a folder, and holds at most 64 descriptors at any width and depth.
//!
//! The walker opens and lists folders, within bounds of memory and time; the visitor decides what happens to their entries. Several
//! threads work near the front of the order at the same time. A visitor that has enough names the path from which on nothing is
//! needed, and then holds exactly what one thread would have found.

mod excludes;
mod folder;
mod ignore;
mod pass;
mod ruled;
mod schedule;
mod slice;
#[cfg(test)]
mod tests;
mod whole;

use std::{
    cell::OnceCell,
    fmt,
    ops::{ControlFlow, Deref, Range},
    sync::Arc,
};

pub(super) use self::whole::{EachEntry, walk_whole};
pub use self::{
    excludes::Excludes,
    folder::Folder,
    pass::Pass,
    ruled::{End, LeftOut, Rules, Visitor},
    schedule::Order,
};
use self::{
    schedule::{Schedule, Task},
    slice::{Slice, Stock},
};
use super::{Clock, Crew, Dir, DirEntry, Halt, Jail, Names, Seen, Work, crew::Invitation};
use crate::{
    sys::{Errno, fs::Kind},
    text::order,
    wire::Error,
};

/// Tasks that the call's own thread does before it invites helpers: most walks end sooner.
const ALONE_TASKS: u32 = 4;
/// Most threads of one walk. Each holds a folder and a file open, in addition to `slice::KEPT_FOLDERS`.
const MAX_THREADS: usize = 12;

/// An entry as a walk meets it.
#[derive(Debug, Clone, Copy)]
pub struct Met<'a> {
    /// Below the root.
    pub path: &'a [u8],
    pub name: &'a [u8],
    pub kind: Kind,
    /// Levels below the walk's own folder; its entries are at 1.
    pub depth: u32,
}

/// A folder that was opened and read.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a> {
    pub dir: &'a Dir,
    pub folder: &'a Folder,
    /// Its path below the walk's own folder, which is empty for that one.
    pub below: &'a [u8],
    /// How many of its names `Visitor::lists` wanted, also of those that did not fit.
    pub total: u64,
}

/// Why a walk ends before it is complete.
pub trait Stop {
    fn halted(halt: Halt, clock: &Clock) -> Self;
}

impl Stop for Halt {
    fn halted(halt: Halt, _: &Clock) -> Self {
        halt
    }
}

impl Stop for Error {
    fn halted(halt: Halt, clock: &Clock) -> Self {
        clock.error(halt)
    }
}

/// Decides what happens to the folders of a walk. All its threads share one.
pub trait FolderVisitor {
    /// Data of one thread.
    type Local;
    type Stop: Stop;
    /// Whether `leave` is called. Only for walks with one thread: otherwise another thread may still work below the folder.
    const LEAVES: bool = false;

    /// Opens a folder by its path below the walk's top folder. None means the top folder itself, whose open descriptor can be used.
    fn open<'t>(&self, top: &'t Dir, below: Option<&[u8]>) -> Result<Opened<'t>, Errno> {
        Opened::plain(top, below)
    }

    /// Called before a folder is opened and read. Returns how many of its names are needed and how many bytes of memory they may
    /// take. None: all names, slice by slice.
    fn begin(&self, _: &mut Self::Local, _: &Folder) -> Option<(usize, usize)> {
        None
    }

    /// Called for every name of a folder while it is read. None leaves it out. `is_taken` is false for a name that does not
    /// belong to this pass: it is only counted.
    fn lists(
        &self,
        _: &mut Self::Local,
        _: &Folder,
        dir: &Dir,
        entry: &DirEntry<'_>,
        _is_taken: bool,
    ) -> Option<Kind> {
        known_kind(dir, entry)
    }

    /// Called after a folder was read. Removes from `names`, which are in no order, all names that are neither to be visited nor
    /// entered.
    fn list(&self, local: &mut Self::Local, listed: Listed<'_>, names: &mut Names) -> Result<(), Self::Stop>;

    /// Called for each entry that `list` left in `names`, in order.
    fn visit(&self, _: &mut Self::Local, _: &Dir, _: Met<'_>) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Whether nothing from this path on, in the order of the walk, is needed.
    fn is_beyond(&self, _: impl FnOnce() -> Vec<u8>) -> bool {
        false
    }

    /// Called for a folder that could not be opened or read, with its path below the top folder.
    fn unopened(&self, local: &mut Self::Local, below: &[u8], errno: Errno) -> Result<(), Self::Stop>;

    /// Called after everything in a folder, but not for the top folder.
    fn leave(&self, _: &mut Self::Local, _below: &[u8]) -> Result<(), Self::Stop> {
        Ok(())
    }
}

/// The kind of an entry, with a stat if the listing does not contain it. None if the entry is gone.
pub fn known_kind(dir: &Dir, entry: &DirEntry<'_>) -> Option<Kind> {
    match entry.kind {
        Kind::Unknown => match dir.stat_entry(entry.name)? {
            Seen::Entry(stat) => Some(stat.kind),
            // The open will fail because something is mounted there.
            Seen::MountPoint => Some(Kind::Dir),
        },
        kind => Some(kind),
    }
}

/// `a` and `b` become `a/b`; an empty folder and `b` become `b`.
pub fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// A folder that is open for one listing.
#[derive(Debug)]
pub enum Opened<'t> {
    /// The top folder, which was open before.
    Top(&'t Dir),
    Own(Dir),
}

impl<'t> Opened<'t> {
    /// Opens a folder; from an inner root on the way its rules hold.
    pub fn nested(jail: &Jail, top: &'t Dir, below: Option<&[u8]>) -> Result<Self, Errno> {
        match below {
            Some(below) => jail.open_below(top, below).map(Self::Own),
            None => Self::plain(top, None),
        }
    }

    /// Opens a folder under the rules of the top folder.
    pub(super) fn plain(top: &'t Dir, below: Option<&[u8]>) -> Result<Self, Errno> {
        match below {
            Some(below) => top.open_below(below).map(Self::Own),
            None => top.rewind().map(|()| Self::Top(top)),
        }
    }
}

impl Deref for Opened<'_> {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        match self {
            Self::Top(dir) => dir,
            Self::Own(dir) => dir,
        }
    }
}

/// `T` is the top folder, shared with other threads or borrowed.
pub struct Walk<V: FolderVisitor, T> {
    top: T,
    clock: Clock,
    visitor: V,
    schedule: Schedule<V::Stop>,
    stock: Arc<Stock>,
}

/// The result of one pass over a folder: names, the largest of them if there are more, and how many there are in all.
type ReadPass = (Names, Option<Vec<u8>>, u64);

/// Buffers and data of one thread.
struct Hand<L> {
    local: L,
    entries: Vec<u8>,
    path: Vec<u8>,
}

/// Why a task was abandoned, and where.
struct Unfinished<S> {
    stop: S,
    reached: Vec<u8>,
}

/// Walks with one thread, and returns its `local`. The clock is the call's own or an earlier one.
pub fn walk_alone<V: FolderVisitor>(
    clock: &Clock,
    top: &Dir,
    order: Order,
    visitor: V,
    local: V::Local,
) -> Result<V::Local, V::Stop> {
    let first = Folder::new(top.path().clone(), 0, None);
    let schedule = Schedule::new(1, order, V::LEAVES, first);
    let walk = Walk { top, clock: clock.clone(), visitor, schedule, stock: Arc::default() };
    let (local, _) = walk.work(local, None, || false);
    // Without helpers only the visitor can end the walk early.
    match walk.schedule.wait_for_end().and_then(|(stop, _)| stop) {
        Some(stop) => Err(stop),
        None => Ok(local),
    }
}

impl<V: FolderVisitor, T: Deref<Target = Dir>> Walk<V, T> {
    /// Works on tasks until none is left. Returns whether the thread left before the end.
    fn work(
        &self,
        local: V::Local,
        host: Option<&Host<'_, V::Stop>>,
        is_wanted_elsewhere: impl Fn() -> bool,
    ) -> (V::Local, bool) {
        let mut hand = Hand { local, entries: Vec::new(), path: Vec::new() };
        let is_beyond = |slice: &Slice, at| self.visitor.is_beyond(|| slice.path_at(at));
        let mut next = self.schedule.take(is_beyond);
        let mut done = 0u32;
        while let Some(task) = next {
            let listed = match self.run_task(&mut hand, task) {
                Ok(listed) => listed,
                Err(Unfinished { stop, reached }) => {
                    self.schedule.halt(stop, reached);
                    break;
                }
            };
            done = done.saturating_add(1);
            if done == ALONE_TASKS
                && let Some(host) = host
            {
                host.invite();
            }
            if is_wanted_elsewhere() {
                self.schedule.finish(listed);
                return (hand.local, true);
            }
            next = self.schedule.finish_and_take(listed, is_beyond);
        }
        (hand.local, false)
    }

    fn run_task(
        &self,
        hand: &mut Hand<V::Local>,
        task: Task,
    ) -> Result<Option<Arc<Slice>>, Unfinished<V::Stop>> {
        self.clock.check().map_err(|halt| Unfinished {
            stop: V::Stop::halted(halt, &self.clock),
            reached: task.first_path(),
        })?;
        match task {
            Task::Enter { slice, at } => self.enter(hand, Arc::new(slice.folder_at(at)), None),
            Task::List { folder, after } => self.enter(hand, folder, after),
            Task::Visit { slice, range } => self.visit(hand, &slice, range).map(|()| None),
            Task::Leave { folder } => self
                .visitor
                .leave(&mut hand.local, self.below(&folder).unwrap_or_default())
                .map(|()| None)
                .map_err(|stop| Unfinished { stop, reached: folder.path_of(None) }),
        }
    }

    /// The path below the top folder; None for the top folder itself.
    fn below<'f>(&self, folder: &'f Folder) -> Option<&'f [u8]> {
        order::below(folder.path().rel(), self.top.path().rel())
    }

    fn open(&self, folder: &Folder) -> Result<Opened<'_>, Errno> {
        self.visitor.open(&self.top, self.below(folder))
    }

    /// Lists a folder, beginning after a name. None if there is nothing to visit or enter.
    fn enter(
        &self,
        hand: &mut Hand<V::Local>,
        folder: Arc<Folder>,
        after: Option<Vec<u8>>,
    ) -> Result<Option<Arc<Slice>>, Unfinished<V::Stop>> {
        let below = self.below(&folder).unwrap_or_default();
        let unfinished = |stop| Unfinished { stop, reached: folder.path_of(after.as_deref()) };
        let page = self.visitor.begin(&mut hand.local, &folder);
        let read = self.open(&folder).and_then(|dir| {
            let read = self.read(hand, &folder, &dir, after.clone(), page)?;
            Ok((dir, read))
        });
        let (dir, (mut names, rest, total)) = match read {
            Ok((dir, Ok(read))) => (dir, read),
            Ok((_, Err(halt))) => return Err(unfinished(V::Stop::halted(halt, &self.clock))),
            Err(errno) => {
                self.visitor.unopened(&mut hand.local, below, errno).map_err(unfinished)?;
                return Ok(None);
            }
        };
        let listed = Listed { dir: &dir, folder: &folder, below, total };
        self.visitor.list(&mut hand.local, listed, &mut names).map_err(unfinished)?;
        if names.is_empty() && rest.is_none() {
            if V::LEAVES && !below.is_empty() {
                self.visitor.leave(&mut hand.local, below).map_err(unfinished)?;
            }
            return Ok(None);
        }
        let own = match dir {
            Opened::Own(dir) => Some(dir),
            Opened::Top(_) => None,
        };
        Ok(Some(Arc::new(Slice::new(&self.stock, Arc::clone(&folder), names, rest, own))))
    }

    /// One pass over a folder.
    fn read(
        &self,
        hand: &mut Hand<V::Local>,
        folder: &Folder,
        dir: &Dir,
        after: Option<Vec<u8>>,
        page: Option<(usize, usize)>,
    ) -> Result<Result<ReadPass, Halt>, Errno> {
        let (needed, max_bytes) = page.unwrap_or_else(|| (usize::MAX, self.stock.room()));
        let mut pass = Pass::new(after, needed, max_bytes);
        let mut total = 0;
        let Hand { local, entries, .. } = hand;
        let end = dir.read_entries(&self.clock, entries, |entry| {
            let is_taken = pass.takes(entry.name);
            if let Some(kind) = self.visitor.lists(local, folder, dir, &entry, is_taken) {
                total += 1;
                if is_taken {
                    pass.push(entry.name, kind);
                }
            }
            ControlFlow::Continue(())
        })?;
        let (names, rest) = pass.end();
        // A page has no further slices.
        Ok(end.map(|()| (names, rest.filter(|_| page.is_none()), total)))
    }

    fn visit(
        &self,
        hand: &mut Hand<V::Local>,
        slice: &Slice,
        range: Range<usize>,
    ) -> Result<(), Unfinished<V::Stop>> {
        let unfinished = |at: usize| move |stop| Unfinished { stop, reached: slice.path_at(at) };
        let reopened;
        let dir = match slice.dir() {
            Some(dir) => dir,
            None => match self.open(slice.folder()) {
                Ok(dir) => {
                    reopened = dir;
                    &*reopened
                }
                Err(errno) => {
                    let below = self.below(slice.folder()).unwrap_or_default();
                    for at in range {
                        self.visitor.unopened(&mut hand.local, below, errno).map_err(unfinished(at))?;
                    }
                    return Ok(());
                }
            },
        };
        for at in range {
            let entry = slice.entry(at, &mut hand.path);
            self.visitor.visit(&mut hand.local, dir, entry).map_err(unfinished(at))?;
        }
        Ok(())
    }
}

impl<V: FolderVisitor, T: fmt::Debug> fmt::Debug for Walk<V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("top", &self.top).finish_non_exhaustive()
    }
}

/// The part of the call's own thread. When it is dropped, no further thread can join the walk, even after a panic.
struct Host<'a, S> {
    crew: &'a Arc<dyn Crew>,
    work: Arc<dyn Work>,
    schedule: &'a Schedule<S>,
    invitation: OnceCell<Invitation>,
}

impl<S> Host<'_, S> {
    fn invite(&self) {
        if self.crew.size() > 0 {
            self.invitation.get_or_init(|| Invitation::send(self.crew, Arc::clone(&self.work)));
        }
    }
}

impl<S> Drop for Host<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.schedule.fail();
        }
    }
}
