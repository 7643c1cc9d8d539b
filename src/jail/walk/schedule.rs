//! Runs in the worker: the tasks of a walk that are left, and which threads work on them. Pure, except for its lock.
//!
//! All threads share one list of slices, whose top is next in order, so that a free thread takes the earliest task. With a list per
//! thread and work stealing, the second thread would start at the far end of the tree, and its work would be wasted when a page is
//! full. The lock is taken once per folder or batch of files.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{folder::WalkFolder, slice::Slice};
use crate::text::order;

/// Files handed to a thread at a time, at most.
const BATCH_FILES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkOrder {
    /// By path: what a folder holds comes before the names after it.
    DepthFirst,
    /// All folders of a level before those of the next.
    ByLevel,
}

pub(super) enum WalkTask {
    /// List a folder: from its first name, or after this one.
    List {
        folder: Arc<WalkFolder>,
        after: Option<Vec<u8>>,
    },
    Enter {
        slice: Arc<Slice>,
        at: usize,
    },
    Visit {
        slice: Arc<Slice>,
        range: Range<usize>,
    },
    /// Everything in the folder is done.
    Leave {
        folder: Arc<WalkFolder>,
    },
}

impl WalkTask {
    /// The path from which the walk has to continue if this task is not done.
    pub(super) fn first_path(&self) -> Vec<u8> {
        match self {
            Self::List { folder, after } => folder.path_of(after.as_deref()),
            Self::Enter { slice, at } => slice.path_at(*at),
            Self::Visit { slice, range } => slice.path_at(range.start),
            Self::Leave { folder } => folder.path_of(None),
        }
    }
}

struct SliceCursor {
    slice: Arc<Slice>,
    next: usize,
}

struct ScheduleState<S> {
    first: Option<WalkTask>,
    order: WalkOrder,
    /// Whether a finished folder makes a `WalkTask::Leave`.
    leaves: bool,
    /// Slices with tasks left. The next one is the last, or by level the first.
    slices: VecDeque<SliceCursor>,
    /// Threads that work on a task.
    active: usize,
    /// Threads that wait for a task.
    waiting: usize,
    /// Helpers that have joined.
    helpers: usize,
    has_ended: bool,
    has_failed: bool,
    halt: Option<S>,
    /// The earliest path at which a thread abandoned its task.
    reached: Option<Vec<u8>>,
}

pub(super) struct Schedule<S> {
    threads: usize,
    state: Mutex<ScheduleState<S>>,
    changed: Condvar,
}

impl<S> Schedule<S> {
    /// Begins with the folder `first`.
    pub(super) fn new(threads: usize, order: WalkOrder, leaves: bool, first: WalkFolder) -> Self {
        let state = ScheduleState {
            first: Some(WalkTask::List { folder: Arc::new(first), after: None }),
            order,
            leaves,
            slices: VecDeque::new(),
            active: 0,
            waiting: 0,
            helpers: 0,
            has_ended: false,
            has_failed: false,
            halt: None,
            reached: None,
        };
        Self { threads, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, ScheduleState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the earliest task. Waits while other threads may still add some. None if nothing is left for this thread.
    pub(super) fn take(&self, is_beyond: impl Fn(&Slice, usize) -> bool) -> Option<WalkTask> {
        self.take_from(self.state(), is_beyond)
    }

    pub(super) fn finish_and_take(
        &self,
        listed: Option<Arc<Slice>>,
        is_beyond: impl Fn(&Slice, usize) -> bool,
    ) -> Option<WalkTask> {
        let mut state = self.state();
        self.finish_in(&mut state, listed);
        self.take_from(state, is_beyond)
    }

    pub(super) fn finish(&self, listed: Option<Arc<Slice>>) {
        self.finish_in(&mut self.state(), listed);
    }

    fn finish_in(&self, state: &mut ScheduleState<S>, listed: Option<Arc<Slice>>) {
        state.active -= 1;
        let is_new = listed.is_some();
        state.slices.extend(listed.map(|slice| SliceCursor { slice, next: 0 }));
        // This thread takes the next task itself. The waiting threads find out whether there are more.
        if state.waiting > 0 && (is_new || state.active == 0) {
            self.changed.notify_all();
        }
    }

    fn take_from<'s>(
        &'s self,
        mut state: MutexGuard<'s, ScheduleState<S>>,
        is_beyond: impl Fn(&Slice, usize) -> bool,
    ) -> Option<WalkTask> {
        loop {
            if state.has_ended || state.halt.is_some() {
                return None;
            }
            if let Some(task) = state.next(self.threads, &is_beyond) {
                state.active += 1;
                return Some(task);
            }
            if state.active == 0 {
                state.has_ended = true;
                self.changed.notify_all();
                return None;
            }
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// A thread abandons its task: all others stop, too.
    pub(super) fn halt(&self, halt: S, reached: Vec<u8>) {
        let mut state = self.state();
        state.active -= 1;
        state.halt.get_or_insert(halt);
        state.note(reached);
        self.changed.notify_all();
    }

    /// A thread panicked while it worked on a task.
    pub(super) fn fail(&self) {
        let mut state = self.state();
        (state.has_failed, state.has_ended) = (true, true);
        self.changed.notify_all();
    }

    /// Lets a helper join. None after the end, or if `most` threads are at work.
    pub(super) fn join(&self, most: usize) -> Option<JoinedHelper<'_, S>> {
        let mut state = self.state();
        let is_open = !state.has_ended && state.halt.is_none() && state.helpers + 1 < most;
        state.helpers += usize::from(is_open);
        is_open.then(|| JoinedHelper(self))
    }

    /// Waits until all helpers have left. Returns why the walk was halted, and the first path that was not done. None if a thread
    /// failed.
    pub(super) fn wait_for_end(&self) -> Option<(Option<S>, Option<Vec<u8>>)> {
        let mut state = self.state();
        while state.helpers > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let left: Vec<Vec<u8>> = state.slices.iter().map(SliceCursor::first_path).collect();
        left.into_iter().for_each(|path| state.note(path));
        let reached = state.reached.take();
        (!state.has_failed).then(|| (state.halt.take(), reached))
    }
}

impl<S> ScheduleState<S> {
    fn next(&mut self, threads: usize, is_beyond: &impl Fn(&Slice, usize) -> bool) -> Option<WalkTask> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while let Some(level) = self.front() {
            let slice = &level.slice;
            if level.next == slice.len() {
                let (folder, rest) = (Arc::clone(slice.folder()), slice.rest().map(<[u8]>::to_vec));
                self.drop_front();
                match rest {
                    Some(after) => return Some(WalkTask::List { folder, after: Some(after) }),
                    None if self.leaves && folder.depth() > 0 => return Some(WalkTask::Leave { folder }),
                    None => continue,
                }
            }
            // Everything that follows in this slice, and in the slices after it, is not needed either.
            if is_beyond(slice, level.next) {
                self.drop_front();
                continue;
            }
            return Some(level.advance(threads));
        }
        None
    }

    fn front(&mut self) -> Option<&mut SliceCursor> {
        match self.order {
            WalkOrder::DepthFirst => self.slices.back_mut(),
            WalkOrder::ByLevel => self.slices.front_mut(),
        }
    }

    fn drop_front(&mut self) {
        match self.order {
            WalkOrder::DepthFirst => self.slices.pop_back(),
            WalkOrder::ByLevel => self.slices.pop_front(),
        };
    }

    fn note(&mut self, path: Vec<u8>) {
        if self.reached.as_ref().is_none_or(|reached| order::by_component(&path, reached).is_lt()) {
            self.reached = Some(path);
        }
    }
}

impl SliceCursor {
    fn advance(&mut self, threads: usize) -> WalkTask {
        let (slice, from) = (Arc::clone(&self.slice), self.next);
        if slice.is_dir(from) {
            self.next += 1;
            return WalkTask::Enter { slice, at: from };
        }
        // Small enough that other threads get a share of a folder with a few large files.
        let most = ((slice.len() - from) / (2 * threads)).clamp(1, BATCH_FILES);
        let end = (from + 1..slice.len().min(from + most)).find(|at| slice.is_dir(*at));
        self.next = end.unwrap_or(slice.len().min(from + most));
        WalkTask::Visit { slice, range: from..self.next }
    }

    /// The path from which the walk has to continue if nothing more is taken from this slice.
    fn first_path(&self) -> Vec<u8> {
        if self.next < self.slice.len() {
            self.slice.path_at(self.next)
        } else {
            self.slice.folder().path_of(self.slice.rest())
        }
    }
}

/// A helper that has joined. Dropping it makes the helper leave.
pub(super) struct JoinedHelper<'a, S>(&'a Schedule<S>);

impl<S> Drop for JoinedHelper<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
        self.0.state().helpers -= 1;
        self.0.changed.notify_all();
    }
}
