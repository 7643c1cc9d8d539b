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

pub(super) use self::whole::{WholeTreeVisitor, walk_whole_tree};
pub use self::{
    excludes::Excludes,
    folder::WalkFolder,
    ignore::RulesAbove,
    pass::Pass,
    ruled::{LeftOut, Visitor, WalkEnd, WalkRules},
    schedule::WalkOrder,
};
use self::{
    schedule::{Schedule, WalkTask},
    slice::{Slice, SliceBudget},
};
use super::{Clock, Crew, Dir, DirEntry, EntryStat, HaltReason, Jail, NameList, SharedWork, crew::Invitation};
use crate::{
    sys::{Errno, fs::FileKind},
    text::order,
    wire::Error,
};

/// Tasks that the call's own thread does before it invites helpers: most walks end sooner.
const ALONE_TASKS: u32 = 4;
/// Most threads of one walk. Each holds a folder and a file open, in addition to `slice::KEPT_FOLDERS`.
const MAX_THREADS: usize = 12;

/// An entry as a walk meets it.
#[derive(Debug, Clone, Copy)]
pub struct WalkEntry<'a> {
    /// Below the root.
    pub path: &'a [u8],
    pub name: &'a [u8],
    pub kind: FileKind,
    /// Levels below the walk's own folder; its entries are at 1.
    pub depth: u32,
}

/// A folder that was opened and read.
#[derive(Debug, Clone, Copy)]
pub struct ListedFolder<'a> {
    pub dir: &'a Dir,
    pub folder: &'a WalkFolder,
    /// Its path below the walk's own folder, which is empty for that one.
    pub below: &'a [u8],
    /// How many of its names `Visitor::select_name` wanted, also of those that did not fit.
    pub total: u64,
}

/// Why a walk ends before it is complete.
pub trait WalkStop {
    fn from_halt(halt: HaltReason, clock: &Clock) -> Self;
}

impl WalkStop for HaltReason {
    fn from_halt(halt: HaltReason, _: &Clock) -> Self {
        halt
    }
}

impl WalkStop for Error {
    fn from_halt(halt: HaltReason, clock: &Clock) -> Self {
        clock.error(halt)
    }
}

/// Decides what happens to the folders of a walk. All its threads share one.
pub trait FolderVisitor {
    /// Data of one thread.
    type ThreadData;
    type StopReason: WalkStop;
    /// Whether `leave` is called. Only for walks with one thread: otherwise another thread may still work below the folder.
    const CALLS_LEAVE: bool = false;

    /// Opens a folder by its path below the walk's top folder. None means the top folder itself, whose open descriptor can be used.
    fn open<'t>(&self, top: &'t Dir, below: Option<&[u8]>) -> Result<OpenedFolder<'t>, Errno> {
        OpenedFolder::open_plain(top, below)
    }

    /// Called before a folder is opened and read. Returns how many of its names are needed and how many bytes of memory they may
    /// take. None: all names, slice by slice.
    fn begin(&self, _: &mut Self::ThreadData, _: &WalkFolder) -> Option<(usize, usize)> {
        None
    }

    /// Called for every name of a folder while it is read. None leaves it out. `is_taken` is false for a name that does not
    /// belong to this pass: it is only counted.
    fn select_name(
        &self,
        _: &mut Self::ThreadData,
        _: &WalkFolder,
        dir: &Dir,
        entry: &DirEntry<'_>,
        _is_taken: bool,
    ) -> Option<FileKind> {
        entry_kind(dir, entry)
    }

    /// Called after a folder was read. Removes from `names`, which are in no order, all names that are neither to be visited nor
    /// entered.
    fn filter_names(
        &self,
        local: &mut Self::ThreadData,
        listed: ListedFolder<'_>,
        names: &mut NameList,
    ) -> Result<(), Self::StopReason>;

    /// Called for each entry that `filter_names` left in `names`, in order.
    fn visit(&self, _: &mut Self::ThreadData, _: &Dir, _: WalkEntry<'_>) -> Result<(), Self::StopReason> {
        Ok(())
    }

    /// Whether nothing from this path on, in the order of the walk, is needed.
    fn is_beyond(&self, _: impl FnOnce() -> Vec<u8>) -> bool {
        false
    }

    /// Called for a folder that could not be opened or read, with its path below the top folder.
    fn report_unopened(&self, local: &mut Self::ThreadData, below: &[u8], errno: Errno)
    -> Result<(), Self::StopReason>;

    /// Called after everything in a folder, but not for the top folder.
    fn leave(&self, _: &mut Self::ThreadData, _below: &[u8]) -> Result<(), Self::StopReason> {
        Ok(())
    }
}

/// The kind of an entry, with a stat if the listing does not contain it. None if the entry is gone.
pub fn entry_kind(dir: &Dir, entry: &DirEntry<'_>) -> Option<FileKind> {
    match entry.kind {
        FileKind::Unknown => match dir.stat_entry(entry.name)? {
            EntryStat::Entry(stat) => Some(stat.kind),
            // The open will fail because something is mounted there.
            EntryStat::MountPoint => Some(FileKind::Dir),
        },
        kind => Some(kind),
    }
}

/// `a` and `b` become `a/b`; an empty folder and `b` become `b`.
pub fn join_path(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// A folder that is open for one listing.
#[derive(Debug)]
pub enum OpenedFolder<'t> {
    /// The top folder, which was open before.
    Top(&'t Dir),
    Opened(Dir),
}

impl<'t> OpenedFolder<'t> {
    /// Opens a folder; from an inner root on the way its rules hold.
    pub fn open_nested(jail: &Jail, top: &'t Dir, below: Option<&[u8]>) -> Result<Self, Errno> {
        match below {
            Some(below) => jail.open_below(top, below).map(Self::Opened),
            None => Self::open_plain(top, None),
        }
    }

    /// Opens a folder under the rules of the top folder.
    pub(super) fn open_plain(top: &'t Dir, below: Option<&[u8]>) -> Result<Self, Errno> {
        match below {
            Some(below) => top.open_below(below).map(Self::Opened),
            None => top.rewind().map(|()| Self::Top(top)),
        }
    }
}

impl Deref for OpenedFolder<'_> {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        match self {
            Self::Top(dir) => dir,
            Self::Opened(dir) => dir,
        }
    }
}

/// `T` is the top folder, shared with other threads or borrowed.
pub struct TreeWalk<V: FolderVisitor, T> {
    top: T,
    clock: Clock,
    visitor: V,
    schedule: Schedule<V::StopReason>,
    budget: Arc<SliceBudget>,
}

/// The result of one pass over a folder: names, the largest of them if there are more, and how many there are in all.
type ReadPass = (NameList, Option<Vec<u8>>, u64);

/// Buffers and data of one thread.
struct ThreadBuffers<L> {
    data: L,
    entries: Vec<u8>,
    path: Vec<u8>,
}

/// Why a task was abandoned, and where.
struct UnfinishedTask<S> {
    stop: S,
    reached: Vec<u8>,
}

/// Walks with one thread, and returns its `data`. The clock is the call's own or an earlier one.
pub fn walk_alone<V: FolderVisitor>(
    clock: &Clock,
    top: &Dir,
    order: WalkOrder,
    visitor: V,
    local: V::ThreadData,
) -> Result<V::ThreadData, V::StopReason> {
    walk_alone_below(clock, top, RulesAbove::default(), order, visitor, local)
}

/// The same below folders with ignore rules, for a visitor that obeys them.
pub fn walk_alone_below<V: FolderVisitor>(
    clock: &Clock,
    top: &Dir,
    above: RulesAbove,
    order: WalkOrder,
    visitor: V,
    local: V::ThreadData,
) -> Result<V::ThreadData, V::StopReason> {
    let first = WalkFolder::new(top.path().clone(), 0, above.0);
    let schedule = Schedule::new(1, order, V::CALLS_LEAVE, first);
    let walk = TreeWalk { top, clock: clock.clone(), visitor, schedule, budget: Arc::default() };
    let (local, _) = walk.work(local, None, || false);
    // Without helpers only the visitor can end the walk early.
    match walk.schedule.wait_for_end().and_then(|(stop, _)| stop) {
        Some(stop) => Err(stop),
        None => Ok(local),
    }
}

impl<V: FolderVisitor, T: Deref<Target = Dir>> TreeWalk<V, T> {
    /// Works on tasks until none is left. Returns whether the thread left before the end.
    fn work(
        &self,
        local: V::ThreadData,
        host: Option<&CallThreadGuard<'_, V::StopReason>>,
        is_wanted_elsewhere: impl Fn() -> bool,
    ) -> (V::ThreadData, bool) {
        let mut hand = ThreadBuffers { data: local, entries: Vec::new(), path: Vec::new() };
        let is_beyond = |slice: &Slice, at| self.visitor.is_beyond(|| slice.path_at(at));
        let mut next = self.schedule.take(is_beyond);
        let mut done = 0u32;
        while let Some(task) = next {
            let listed = match self.run_task(&mut hand, task) {
                Ok(listed) => listed,
                Err(UnfinishedTask { stop, reached }) => {
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
                return (hand.data, true);
            }
            next = self.schedule.finish_and_take(listed, is_beyond);
        }
        (hand.data, false)
    }

    fn run_task(
        &self,
        hand: &mut ThreadBuffers<V::ThreadData>,
        task: WalkTask,
    ) -> Result<Option<Arc<Slice>>, UnfinishedTask<V::StopReason>> {
        self.clock.check().map_err(|halt| UnfinishedTask {
            stop: V::StopReason::from_halt(halt, &self.clock),
            reached: task.first_path(),
        })?;
        match task {
            WalkTask::Enter { slice, at } => self.enter(hand, Arc::new(slice.folder_at(at)), None),
            WalkTask::List { folder, after } => self.enter(hand, folder, after),
            WalkTask::Visit { slice, range } => self.visit(hand, &slice, range).map(|()| None),
            WalkTask::Leave { folder } => self
                .visitor
                .leave(&mut hand.data, self.below(&folder).unwrap_or_default())
                .map(|()| None)
                .map_err(|stop| UnfinishedTask { stop, reached: folder.path_of(None) }),
        }
    }

    /// The path below the top folder; None for the top folder itself.
    fn below<'f>(&self, folder: &'f WalkFolder) -> Option<&'f [u8]> {
        order::below(folder.path().rel(), self.top.path().rel())
    }

    fn open(&self, folder: &WalkFolder) -> Result<OpenedFolder<'_>, Errno> {
        self.visitor.open(&self.top, self.below(folder))
    }

    /// Lists a folder, beginning after a name. None if there is nothing to visit or enter.
    fn enter(
        &self,
        hand: &mut ThreadBuffers<V::ThreadData>,
        folder: Arc<WalkFolder>,
        after: Option<Vec<u8>>,
    ) -> Result<Option<Arc<Slice>>, UnfinishedTask<V::StopReason>> {
        let below = self.below(&folder).unwrap_or_default();
        let unfinished = |stop| UnfinishedTask { stop, reached: folder.path_of(after.as_deref()) };
        let page = self.visitor.begin(&mut hand.data, &folder);
        let read = self.open(&folder).and_then(|dir| {
            let read = self.read(hand, &folder, &dir, after.clone(), page)?;
            Ok((dir, read))
        });
        let (dir, (mut names, rest, total)) = match read {
            Ok((dir, Ok(read))) => (dir, read),
            Ok((_, Err(halt))) => return Err(unfinished(V::StopReason::from_halt(halt, &self.clock))),
            Err(errno) => {
                self.visitor.report_unopened(&mut hand.data, below, errno).map_err(unfinished)?;
                return Ok(None);
            }
        };
        let listed = ListedFolder { dir: &dir, folder: &folder, below, total };
        self.visitor.filter_names(&mut hand.data, listed, &mut names).map_err(unfinished)?;
        if names.is_empty() && rest.is_none() {
            if V::CALLS_LEAVE && !below.is_empty() {
                self.visitor.leave(&mut hand.data, below).map_err(unfinished)?;
            }
            return Ok(None);
        }
        let own = match dir {
            OpenedFolder::Opened(dir) => Some(dir),
            OpenedFolder::Top(_) => None,
        };
        Ok(Some(Arc::new(Slice::new(&self.budget, Arc::clone(&folder), names, rest, own))))
    }

    /// One pass over a folder.
    fn read(
        &self,
        hand: &mut ThreadBuffers<V::ThreadData>,
        folder: &WalkFolder,
        dir: &Dir,
        after: Option<Vec<u8>>,
        page: Option<(usize, usize)>,
    ) -> Result<Result<ReadPass, HaltReason>, Errno> {
        let (needed, max_bytes) = page.unwrap_or_else(|| (usize::MAX, self.budget.next_slice_bytes()));
        let mut pass = Pass::new(after, needed, max_bytes);
        let mut total = 0;
        let ThreadBuffers { data: local, entries, .. } = hand;
        let end = dir.read_entries(&self.clock, entries, |entry| {
            let is_taken = pass.takes(entry.name);
            if let Some(kind) = self.visitor.select_name(local, folder, dir, &entry, is_taken) {
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
        hand: &mut ThreadBuffers<V::ThreadData>,
        slice: &Slice,
        range: Range<usize>,
    ) -> Result<(), UnfinishedTask<V::StopReason>> {
        let unfinished = |at: usize| move |stop| UnfinishedTask { stop, reached: slice.path_at(at) };
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
                        self.visitor.report_unopened(&mut hand.data, below, errno).map_err(unfinished(at))?;
                    }
                    return Ok(());
                }
            },
        };
        for at in range {
            let entry = slice.entry(at, &mut hand.path);
            self.visitor.visit(&mut hand.data, dir, entry).map_err(unfinished(at))?;
        }
        Ok(())
    }
}

impl<V: FolderVisitor, T: fmt::Debug> fmt::Debug for TreeWalk<V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("top", &self.top).finish_non_exhaustive()
    }
}

/// The part of the call's own thread. When it is dropped, no further thread can join the walk, even after a panic.
struct CallThreadGuard<'a, S> {
    crew: &'a Arc<dyn Crew>,
    work: Arc<dyn SharedWork>,
    schedule: &'a Schedule<S>,
    invitation: OnceCell<Invitation>,
}

impl<S> CallThreadGuard<'_, S> {
    fn invite(&self) {
        if self.crew.size() > 0 {
            self.invitation.get_or_init(|| Invitation::send(self.crew, Arc::clone(&self.work)));
        }
    }
}

impl<S> Drop for CallThreadGuard<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.schedule.fail();
        }
    }
}
