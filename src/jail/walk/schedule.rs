//! What is still to be done, and who is at it.
//!
//! One list of slices for all threads: its top is next in order, so whoever is free takes the earliest work there is.
//! Stacks of their own, with threads that steal from the far end of another's, would send the second thread to the end of
//! the tree, and all it does there is lost when a page is full. The lock is taken once per folder or batch of files.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{folder::Folder, slice::Slice};
use crate::text::order;

/// Files handed to a thread at a time, at most.
const BATCH_FILES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By path: what a folder holds comes before the names after it.
    DepthFirst,
    /// All folders of a level before those of the next.
    ByLevel,
}

pub(super) enum Task {
    /// A folder's first slice, or the one after that name.
    List {
        folder: Arc<Folder>,
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
    /// Everything in the folder was dealt with.
    Leave {
        folder: Arc<Folder>,
    },
}

impl Task {
    /// Where the walk goes on if this is not done.
    pub(super) fn first_path(&self) -> Vec<u8> {
        match self {
            Self::List { folder, after } => folder.path_of(after.as_deref()),
            Self::Enter { slice, at } => slice.path_at(*at),
            Self::Visit { slice, range } => slice.path_at(range.start),
            Self::Leave { folder } => folder.path_of(None),
        }
    }
}

struct Level {
    slice: Arc<Slice>,
    next: usize,
}

struct State<S> {
    first: Option<Task>,
    order: Order,
    /// Whether a folder that is dealt with makes a `Task::Leave`.
    leaves: bool,
    /// Slices that have tasks left. The next one is at the end of it, or by level at its beginning.
    slices: VecDeque<Level>,
    /// Threads that are at a task.
    active: usize,
    /// Threads that wait for one.
    waiting: usize,
    /// Helpers that are here at all.
    helpers: usize,
    has_ended: bool,
    has_failed: bool,
    halt: Option<S>,
    /// The earliest place where somebody gave up.
    reached: Option<Vec<u8>>,
}

pub(super) struct Schedule<S> {
    threads: usize,
    state: Mutex<State<S>>,
    changed: Condvar,
}

impl<S> Schedule<S> {
    /// Begins with the folder `first`.
    pub(super) fn new(threads: usize, order: Order, leaves: bool, first: Folder) -> Self {
        let state = State {
            first: Some(Task::List { folder: Arc::new(first), after: None }),
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

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The earliest task; waits while others may still find some. None: there is nothing left for this thread.
    pub(super) fn take(&self, is_beyond: impl Fn(&Slice, usize) -> bool) -> Option<Task> {
        self.take_from(self.state(), is_beyond)
    }

    pub(super) fn finish_and_take(
        &self,
        listed: Option<Arc<Slice>>,
        is_beyond: impl Fn(&Slice, usize) -> bool,
    ) -> Option<Task> {
        let mut state = self.state();
        self.finish_in(&mut state, listed);
        self.take_from(state, is_beyond)
    }

    pub(super) fn finish(&self, listed: Option<Arc<Slice>>) {
        self.finish_in(&mut self.state(), listed);
    }

    fn finish_in(&self, state: &mut State<S>, listed: Option<Arc<Slice>>) {
        state.active -= 1;
        let is_new = listed.is_some();
        state.slices.extend(listed.map(|slice| Level { slice, next: 0 }));
        // The thread that finishes takes something itself; whether there is more, the next one finds out.
        if state.waiting > 0 && (is_new || state.active == 0) {
            self.changed.notify_all();
        }
    }

    fn take_from<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<S>>,
        is_beyond: impl Fn(&Slice, usize) -> bool,
    ) -> Option<Task> {
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

    /// A thread gives up its task: all others stop, too.
    pub(super) fn halt(&self, halt: S, reached: Vec<u8>) {
        let mut state = self.state();
        state.active -= 1;
        state.halt.get_or_insert(halt);
        state.note(reached);
        self.changed.notify_all();
    }

    /// A thread was lost in the middle of something.
    pub(super) fn fail(&self) {
        let mut state = self.state();
        (state.has_failed, state.has_ended) = (true, true);
        self.changed.notify_all();
    }

    /// For a helper; None if it comes too late or is one too many.
    pub(super) fn join(&self, most: usize) -> Option<Present<'_, S>> {
        let mut state = self.state();
        let is_open = !state.has_ended && state.halt.is_none() && state.helpers + 1 < most;
        state.helpers += usize::from(is_open);
        is_open.then(|| Present(self))
    }

    /// After all helpers have left: why the walk was halted, and what was not dealt with begins where. None: it failed.
    pub(super) fn wait_for_end(&self) -> Option<(Option<S>, Option<Vec<u8>>)> {
        let mut state = self.state();
        while state.helpers > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let left: Vec<Vec<u8>> = state.slices.iter().map(Level::first_path).collect();
        left.into_iter().for_each(|path| state.note(path));
        let reached = state.reached.take();
        (!state.has_failed).then(|| (state.halt.take(), reached))
    }
}

impl<S> State<S> {
    fn next(&mut self, threads: usize, is_beyond: &impl Fn(&Slice, usize) -> bool) -> Option<Task> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while let Some(level) = self.front() {
            let slice = &level.slice;
            if level.next == slice.len() {
                let (folder, rest) = (Arc::clone(slice.folder()), slice.rest().map(<[u8]>::to_vec));
                self.drop_front();
                match rest {
                    Some(after) => return Some(Task::List { folder, after: Some(after) }),
                    None if self.leaves && folder.depth() > 0 => return Some(Task::Leave { folder }),
                    None => continue,
                }
            }
            // What follows in this slice, and the slices after it, is even further away.
            if is_beyond(slice, level.next) {
                self.drop_front();
                continue;
            }
            return Some(level.advance(threads));
        }
        None
    }

    fn front(&mut self) -> Option<&mut Level> {
        match self.order {
            Order::DepthFirst => self.slices.back_mut(),
            Order::ByLevel => self.slices.front_mut(),
        }
    }

    fn drop_front(&mut self) {
        match self.order {
            Order::DepthFirst => self.slices.pop_back(),
            Order::ByLevel => self.slices.pop_front(),
        };
    }

    fn note(&mut self, path: Vec<u8>) {
        if self.reached.as_ref().is_none_or(|reached| order::by_component(&path, reached).is_lt()) {
            self.reached = Some(path);
        }
    }
}

impl Level {
    fn advance(&mut self, threads: usize) -> Task {
        let (slice, from) = (Arc::clone(&self.slice), self.next);
        if slice.is_dir(from) {
            self.next += 1;
            return Task::Enter { slice, at: from };
        }
        // Small enough that the others get something of a folder with a few large files.
        let most = ((slice.len() - from) / (2 * threads)).clamp(1, BATCH_FILES);
        let end = (from + 1..slice.len().min(from + most)).find(|at| slice.is_dir(*at));
        self.next = end.unwrap_or(slice.len().min(from + most));
        Task::Visit { slice, range: from..self.next }
    }

    /// Where the walk goes on if nothing more is taken from here.
    fn first_path(&self) -> Vec<u8> {
        if self.next < self.slice.len() {
            self.slice.path_at(self.next)
        } else {
            self.slice.folder().path_of(self.slice.rest())
        }
    }
}

/// A helper, while it is here.
pub(super) struct Present<'a, S>(&'a Schedule<S>);

impl<S> Drop for Present<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
        self.0.state().helpers -= 1;
        self.0.changed.notify_all();
    }
}
