//! Runs in the worker: walks of find and search. Applies the rules of the policy and of the request to each entry.
//! Trusts the jail's globs. Does not trust names. Never enters a denied folder or a mount point.

use std::{cell::OnceCell, sync::Arc};

use super::{
    Folder, FolderVisitor, Host, Listed, MAX_THREADS, Met, Opened, Order, Walk, ignore, known_kind,
    schedule::Schedule, slice::Stock,
};
use crate::{
    jail::{Call, Clock, Crew, Dir, DirEntry, Halt, Jail, Names, Unopened, Work},
    path::MAX_PATH_BYTES,
    sys::{Errno, fs::Kind},
    text::{ignore::IgnoreRules, order},
    wire::{Code, Error, Result},
};

/// What the walk leaves out in addition to denied names.
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

/// Handles the entries. All threads of a walk share one.
pub trait Visitor: Send + Sync + 'static {
    /// Data of one thread.
    type Local;

    fn local(&self) -> Self::Local;

    /// Called for each listed entry, in no order within its folder. True if `visit` is to be called for it, in order. For a folder
    /// the result does not matter, see `enters`.
    fn meet(&self, local: &mut Self::Local, dir: &Dir, entry: Met<'_>) -> bool;

    /// Whether the walk enters a folder.
    fn enters(&self, _: Met<'_>) -> bool {
        true
    }

    /// Called for each entry for which `meet` returned true.
    fn visit(&self, local: &mut Self::Local, dir: &Dir, entry: Met<'_>) -> Result<(), Halt>;

    /// Whether nothing from this path on, in the order of the walk, is needed.
    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool;

    /// Counts an entry that was left out and that the client is told about.
    fn left_out(&self, local: &mut Self::Local, why: LeftOut);

    /// Takes the data of a thread that has finished its part.
    fn leave(&self, local: Self::Local);
}

/// Why a folder or another entry was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    Unreadable,
    /// The entry is a FIFO, socket or device, or something is mounted there.
    Special,
    /// The path is longer than a call can name.
    TooDeep,
}

/// How a walk ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// The deadline passed. Everything before this path, which is root-relative and in the order of the walk, was visited.
    Deadline {
        reached: Vec<u8>,
    },
}

/// Passes the entries that the rules leave to a visitor.
#[derive(Debug)]
pub struct Ruled<V> {
    jail: Jail,
    rules: Rules,
    clock: Clock,
    visitor: Arc<V>,
}

/// Buffers and data of one thread.
#[derive(Debug)]
pub struct RuledLocal<L> {
    visitor: L,
    path: Vec<u8>,
    /// Which ignore files the current folder has.
    has_rules: [bool; ignore::FILES.len()],
}

impl<V: Visitor> Walk<Ruled<V>, Arc<Dir>> {
    /// Walks through everything below `top`. The clock is the call's own or an earlier one.
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

    pub(super) fn run_with(
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
        let schedule = Schedule::new(call.crew().size() + 1, Order::DepthFirst, false, first);
        let visitor = Ruled { jail: jail.clone(), rules, clock: clock.clone(), visitor: Arc::clone(visitor) };
        let walk = Arc::new(Self { top, clock: clock.clone(), visitor, schedule, stock: Arc::new(stock) });
        let host = Host {
            crew: call.crew(),
            work: walk.clone(),
            schedule: &walk.schedule,
            invitation: OnceCell::new(),
        };
        let (local, _) = walk.work(walk.visitor.local(), Some(&host), || false);
        walk.visitor.visitor.leave(local.visitor);
        drop(host);
        walk.end()
    }

    fn end(&self) -> Result<End> {
        match self.schedule.wait_for_end() {
            None => {
                Err(Error::new(Code::Io, "internal error; the call was given up, the connection is sound"))
            }
            Some((None, _)) | Some((Some(Halt::Deadline), None)) => Ok(End::Complete),
            Some((Some(Halt::Deadline), Some(reached))) => Ok(End::Deadline { reached }),
            Some((Some(Halt::Cancelled), _)) => Err(self.clock.error(Halt::Cancelled)),
        }
    }
}

impl<V: Visitor> Work for Walk<Ruled<V>, Arc<Dir>> {
    fn help(&self, crew: &dyn Crew) -> bool {
        let Some(_present) = self.schedule.join(MAX_THREADS) else { return false };
        let (local, has_left) = self.work(self.visitor.local(), None, || crew.is_wanted_elsewhere());
        self.visitor.visitor.leave(local.visitor);
        has_left
    }
}

impl<V: Visitor> FolderVisitor for Ruled<V> {
    type Local = RuledLocal<V::Local>;
    type Stop = Halt;

    // The top folder is opened again, because a descriptor has only one offset for reading.
    fn open<'t>(&self, top: &'t Dir, below: Option<&[u8]>) -> Result<Opened<'t>, Errno> {
        let opened = match below {
            Some(below) => self.jail.open_below(top, below),
            None => top.open_again(),
        };
        opened.map(Opened::Own)
    }

    fn begin(&self, local: &mut Self::Local, _: &Folder) -> Option<(usize, usize)> {
        local.has_rules = Default::default();
        None
    }

    /// Applies the rules that a name alone decides.
    #[inline]
    fn lists(
        &self,
        local: &mut Self::Local,
        folder: &Folder,
        dir: &Dir,
        entry: &DirEntry<'_>,
        is_taken: bool,
    ) -> Option<Kind> {
        if self.rules.ignore_files
            && let Some(file) = ignore::FILES.iter().position(|file| *file == entry.name)
        {
            local.has_rules[file] = entry.kind == Kind::File;
        }
        let first = || self.rules.from.as_deref().and_then(|from| folder.first_name(from));
        let is_hidden = || self.rules.no_hidden && entry.name.first() == Some(&b'.');
        let is_left_out = !is_taken
            || first().is_some_and(|first| entry.name < first)
            || is_hidden()
            || self.jail.denied_names().has(&self.jail.denied, folder.path(), entry.name);
        if is_left_out { None } else { known_kind(dir, entry) }
    }

    /// Passes the entries that the rules leave to the visitor, and keeps those that are to be visited or entered.
    fn list(&self, local: &mut Self::Local, listed: Listed<'_>, names: &mut Names) -> Result<(), Halt> {
        let Listed { dir, folder, .. } = listed;
        if self.rules.ignore_files && !folder.knows_rules() {
            folder.set_rules(self.read_rules(folder, dir, local.has_rules));
        }
        let RuledLocal { visitor, path, .. } = local;
        path.clear();
        path.extend_from_slice(folder.path().rel());
        if !path.is_empty() {
            path.push(b'/');
        }
        let prefix = path.len();
        names.retain(|name, kind| {
            path.truncate(prefix);
            path.extend_from_slice(name);
            self.keeps(visitor, folder, dir, Met { path, name, kind, depth: folder.depth() + 1 })
        });
        // If the deadline has passed, the visitor may have skipped entries.
        self.clock.check()
    }

    fn visit(&self, local: &mut Self::Local, dir: &Dir, entry: Met<'_>) -> Result<(), Halt> {
        self.visitor.visit(&mut local.visitor, dir, entry)
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.visitor.is_beyond(path)
    }

    fn unopened(&self, local: &mut Self::Local, _: &[u8], errno: Errno) -> Result<(), Halt> {
        match Unopened::from(errno) {
            Unopened::Changed => {}
            Unopened::Special => self.visitor.left_out(&mut local.visitor, LeftOut::Special),
            Unopened::Unreadable => self.visitor.left_out(&mut local.visitor, LeftOut::Unreadable),
        }
        Ok(())
    }
}

impl<V: Visitor> Ruled<V> {
    fn local(&self) -> RuledLocal<V::Local> {
        RuledLocal { visitor: self.visitor.local(), path: Vec::new(), has_rules: Default::default() }
    }

    fn read_rules<const N: usize>(
        &self,
        folder: &Folder,
        dir: &Dir,
        has_rules: [bool; N],
    ) -> [Option<IgnoreRules>; N] {
        std::array::from_fn(|at| {
            let file = ignore::FILES[at];
            let may_read = has_rules[at] && !self.jail.is_denied(&folder.path().join(file));
            if may_read { ignore::read(&self.jail, dir, file) } else { None }
        })
    }

    fn keeps(&self, local: &mut V::Local, folder: &Folder, dir: &Dir, entry: Met<'_>) -> bool {
        let is_dir = entry.kind == Kind::Dir;
        if self.is_excluded(entry) || (self.rules.ignore_files && folder.ignores(entry.path, is_dir)) {
            return false;
        }
        if entry.path.len() > MAX_PATH_BYTES {
            self.visitor.left_out(local, LeftOut::TooDeep);
            return false;
        }
        let is_wanted = self.visitor.meet(local, dir, entry);
        if !is_dir {
            return is_wanted;
        }
        let path = || folder.path().join(entry.name);
        !self.jail.denied_names().has_all_of(&self.jail.denied, entry.name, path)
            && self.visitor.enters(entry)
    }

    fn is_excluded(&self, entry: Met<'_>) -> bool {
        let excludes = || self.jail.excludes();
        if entry.kind != Kind::Dir {
            return self.rules.excludes && excludes().has_met(entry.name, entry.path);
        }
        let is_never = self.rules.never.is_some_and(|never| never.as_bytes() == entry.name);
        let is_named = || self.rules.entered.iter().any(|name| name == entry.name);
        is_never || (self.rules.excludes && excludes().has_met_folder(entry.name, entry.path) && !is_named())
    }
}
