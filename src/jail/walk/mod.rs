//! Runs in the worker, on the call's thread and on those it borrows: every entry below a folder, once.
//! Trusts: the folder it was given. Does not trust: names, and what lies on disk.
//! Never follows a link, never enters what is denied or mounted, never opens what is not a regular file, and holds at
//! most 64 descriptors at any width and depth.
//!
//! The order is depth first, by name. One thread keeps it exactly; several keep to it roughly, all of them near the
//! front, so that a visitor who has enough can say from where on nothing matters any more, and what it holds then is
//! what one thread would have found.

mod folder;
mod ignore;
mod list;
mod pass;
mod schedule;
mod slice;
#[cfg(test)]
mod tests;

use std::{cell::OnceCell, fmt, ops::Range, sync::Arc};

pub use self::pass::Pass;
use self::{
    folder::Folder,
    schedule::{Schedule, Task},
    slice::{Slice, Stock},
};
use super::{Call, Clock, Crew, Dir, Halt, Jail, Work, crew::Invitation};
use crate::{
    sys::fs::Kind,
    text::order,
    wire::{Code, Error, Result},
};

/// Tasks that the call's own thread has done before it asks for help: most walks are over by then.
const ALONE_TASKS: u32 = 4;
/// Threads on one walk. Each holds a folder and a file; `slice::KEPT_FOLDERS` come on top.
const MAX_THREADS: usize = 12;

/// What is left out besides what is denied.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Leave out what the policy's `default_exclude_globs` name.
    pub excludes: bool,
    /// Folders that are entered although they are excluded: the caller has named them.
    pub entered: Vec<Vec<u8>>,
    /// Leave out names that begin with a dot.
    pub no_hidden: bool,
    /// Leave out folders of this name.
    pub never: Option<&'static str>,
    /// Obey ignore files.
    pub ignore_files: bool,
    /// Leave out everything before this path: root-relative, in the order of the walk.
    pub from: Option<Vec<u8>>,
}

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

/// What is done with the entries. Shared by all threads of a walk.
pub trait Visitor: Send + Sync + 'static {
    /// What each thread has for itself.
    type Local;

    fn local(&self) -> Self::Local;

    /// An entry was listed, in no order within its folder. True: `visit` will see it, in order. For a folder the answer
    /// does not matter, see `enters`.
    fn meet(&self, local: &mut Self::Local, dir: &Dir, entry: Met<'_>) -> bool;

    /// Whether what lies in a folder is looked at.
    fn enters(&self, _: Met<'_>) -> bool {
        true
    }

    /// An entry that `meet` wanted.
    fn visit(&self, local: &mut Self::Local, dir: &Dir, entry: Met<'_>) -> Result<(), Halt>;

    /// From this path on, in the order of the walk, nothing matters any more.
    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool;

    /// Something that the caller should know was not looked at.
    fn left_out(&self, local: &mut Self::Local, why: LeftOut);

    /// The thread's part of the walk is over.
    fn leave(&self, local: Self::Local);
}

/// Why a folder or another entry was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    Unreadable,
    /// FIFO, socket, device, or something is mounted there.
    Special,
    /// Its path is longer than any call could name.
    TooDeep,
}

/// How a walk ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// The deadline passed. All before this path, root-relative and in the order of the walk, was dealt with.
    Deadline {
        reached: Vec<u8>,
    },
}

pub struct Walk<V: Visitor> {
    jail: Jail,
    top: Arc<Dir>,
    rules: Rules,
    clock: Clock,
    visitor: Arc<V>,
    schedule: Schedule,
    stock: Arc<Stock>,
}

/// One thread's own room.
struct Hand<L> {
    local: L,
    entries: Vec<u8>,
    path: Vec<u8>,
}

/// Where a task was given up.
struct Unfinished {
    halt: Halt,
    reached: Vec<u8>,
}

impl<V: Visitor> Walk<V> {
    /// Everything below `top`. The clock is the call's own or an earlier one.
    pub fn run(
        jail: &Jail,
        call: &mut Call,
        clock: &Clock,
        top: Arc<Dir>,
        rules: Rules,
        visitor: &Arc<V>,
    ) -> Result<End> {
        Self::run_with(jail, call, clock, top, rules, visitor, Stock::default())
    }

    fn run_with(
        jail: &Jail,
        call: &mut Call,
        clock: &Clock,
        top: Arc<Dir>,
        rules: Rules,
        visitor: &Arc<V>,
        stock: Stock,
    ) -> Result<End> {
        let path = top.path().clone();
        let is_before = |from: &Vec<u8>| {
            order::by_component(path.rel(), from).is_lt() && order::below(from, path.rel()).is_none()
        };
        if jail.hides_content(&path) || rules.from.as_ref().is_some_and(is_before) {
            return Ok(End::Complete);
        }
        let above = if rules.ignore_files { ignore::above(jail, call, &path)? } else { None };
        let first = Folder::new(path, 0, above);
        let walk = Arc::new(Self {
            jail: jail.clone(),
            top,
            rules,
            clock: clock.clone(),
            visitor: Arc::clone(visitor),
            schedule: Schedule::new(
                call.crew().size() + 1,
                Task::List { folder: Arc::new(first), after: None },
            ),
            stock: Arc::new(stock),
        });
        let host = Host {
            crew: call.crew(),
            work: walk.clone(),
            schedule: &walk.schedule,
            invitation: OnceCell::new(),
        };
        walk.work(Some(&host), || false);
        drop(host);
        walk.end()
    }

    fn end(&self) -> Result<End> {
        match self.schedule.wait_for_end() {
            None => {
                Err(Error::new(Code::C216, "internal error; the call was given up, the connection is sound"))
            }
            Some((None, _)) | Some((Some(Halt::Deadline), None)) => Ok(End::Complete),
            Some((Some(Halt::Deadline), Some(reached))) => Ok(End::Deadline { reached }),
            Some((Some(Halt::Cancelled), _)) => Err(self.clock.error(Halt::Cancelled)),
        }
    }

    /// One thread's part. True if it left before the end.
    fn work(&self, host: Option<&Host<'_>>, is_wanted_elsewhere: impl Fn() -> bool) -> bool {
        let mut hand = Hand { local: self.visitor.local(), entries: Vec::new(), path: Vec::new() };
        let is_beyond = |slice: &Slice, at| self.visitor.is_beyond(|| slice.path_at(at));
        let mut next = self.schedule.take(is_beyond);
        let mut done = 0u32;
        while let Some(task) = next {
            let listed = match self.run_task(&mut hand, task) {
                Ok(listed) => listed,
                Err(Unfinished { halt, reached }) => {
                    self.schedule.halt(halt, reached);
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
                self.visitor.leave(hand.local);
                return true;
            }
            next = self.schedule.finish_and_take(listed, is_beyond);
        }
        self.visitor.leave(hand.local);
        false
    }

    fn run_task(&self, hand: &mut Hand<V::Local>, task: Task) -> Result<Option<Arc<Slice>>, Unfinished> {
        self.clock.check().map_err(|halt| Unfinished { halt, reached: task.first_path() })?;
        match task {
            Task::Enter { slice, at } => self.enter(hand, Arc::new(slice.folder_at(at)), None),
            Task::List { folder, after } => self.enter(hand, folder, after),
            Task::Visit { slice, range } => self.visit(hand, &slice, range).map(|()| None),
        }
    }

    fn visit(&self, hand: &mut Hand<V::Local>, slice: &Slice, range: Range<usize>) -> Result<(), Unfinished> {
        let reopened;
        let dir = match slice.dir() {
            Some(dir) => dir,
            None => match self.open(slice.folder()) {
                Ok(dir) => {
                    reopened = dir;
                    &reopened
                }
                Err(errno) => {
                    range.for_each(|_| self.count_unopened(hand, errno));
                    return Ok(());
                }
            },
        };
        for at in range {
            let entry = slice.entry(at, &mut hand.path);
            if let Err(halt) = self.visitor.visit(&mut hand.local, dir, entry) {
                return Err(Unfinished { halt, reached: slice.path_at(at) });
            }
        }
        Ok(())
    }
}

impl<V: Visitor> fmt::Debug for Walk<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("top", &self.top).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl<V: Visitor> Work for Walk<V> {
    fn help(&self, crew: &dyn Crew) -> bool {
        let Some(_present) = self.schedule.join(MAX_THREADS) else { return false };
        self.work(None, || crew.is_wanted_elsewhere())
    }
}

/// The call's own thread. However its part ends, nobody comes to a walk that its call has left.
struct Host<'a> {
    crew: &'a Arc<dyn Crew>,
    work: Arc<dyn Work>,
    schedule: &'a Schedule,
    invitation: OnceCell<Invitation>,
}

impl Host<'_> {
    fn invite(&self) {
        if self.crew.size() > 0 {
            self.invitation.get_or_init(|| Invitation::send(self.crew, Arc::clone(&self.work)));
        }
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.schedule.fail();
        }
    }
}
