//! Runs in the worker: walks of find and search. Applies the rules of the policy and of the request to each entry.
//! Trusts the jail's globs. Does not trust names. Never enters a denied folder or a mount point.

use std::{cell::OnceCell, sync::Arc};

use super::{
    CallThreadGuard, FolderVisitor, ListedFolder, MAX_THREADS, OpenedFolder, TreeWalk, WalkEntry, WalkFolder,
    WalkOrder, entry_kind, ignore, schedule::Schedule, slice::SliceBudget,
};
use crate::{
    jail::{Call, Clock, Crew, Dir, DirEntry, EntryOpenError, HaltReason, Jail, NameList, SharedWork},
    path::MAX_PATH_BYTES,
    sys::{Errno, fs::FileKind},
    text::order,
    wire::{Code, Error, Result},
};

/// What the walk leaves out in addition to denied names.
#[derive(Debug, Clone, Default)]
pub struct WalkRules {
    /// Leave out what the policy's `default_exclude_globs` name.
    pub uses_excludes: bool,
    /// Folders that are entered although they are excluded: the caller has named them.
    pub entered_folders: Vec<Vec<u8>>,
    /// Leave out names that begin with a dot.
    pub skips_hidden: bool,
    /// Leave out folders of this name.
    pub skipped_folder: Option<&'static str>,
    /// Obey ignore files.
    pub uses_ignore_files: bool,
    /// Leave out everything before this path: root-relative, in the order of the walk.
    pub start_path: Option<Vec<u8>>,
}

/// Handles the entries. All threads of a walk share one.
pub trait Visitor: Send + Sync + 'static {
    /// Data of one thread.
    type ThreadData;

    fn new_thread_data(&self) -> Self::ThreadData;

    /// Called for each listed entry, in no order within its folder. True if `visit` is to be called for it, in order. For a folder
    /// the result does not matter, see `enters`.
    fn admit(&self, local: &mut Self::ThreadData, dir: &Dir, entry: WalkEntry<'_>) -> bool;

    /// Whether the walk enters a folder.
    fn enters(&self, _: WalkEntry<'_>) -> bool {
        true
    }

    /// Called for each entry for which `admit` returned true.
    fn visit(&self, local: &mut Self::ThreadData, dir: &Dir, entry: WalkEntry<'_>) -> Result<(), HaltReason>;

    /// Whether nothing from this path on, in the order of the walk, is needed.
    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool;

    /// Counts an entry that was left out and that the client is told about.
    fn count_left_out(&self, local: &mut Self::ThreadData, why: LeftOut);

    /// Takes the data of a thread that has finished its part.
    fn finish_thread(&self, local: Self::ThreadData);
}

/// Why a folder or another entry was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    Unreadable,
    /// The entry is a FIFO, socket or device, or something is mounted there.
    Special,
    /// The path is longer than a call can name.
    TooDeep,
    /// Ignore files hide it. A folder counts as one entry, because it is not entered.
    Ignored,
}

/// How a walk ended.
#[derive(Debug, PartialEq, Eq)]
pub enum WalkEnd {
    Complete,
    /// The deadline passed. Everything before this path, which is root-relative and in the order of the walk, was visited.
    Deadline {
        reached: Vec<u8>,
    },
}

/// Calls the inner visitor only for entries that the rules do not exclude.
#[derive(Debug)]
pub struct RuledVisitor<V> {
    jail: Jail,
    rules: WalkRules,
    clock: Clock,
    visitor: Arc<V>,
}

/// Buffers and data of one thread.
#[derive(Debug)]
pub struct RuledThreadData<L> {
    visitor: L,
    path: Vec<u8>,
    /// Which ignore files the current folder has.
    has_rules: [bool; ignore::IGNORE_FILES.len()],
}

impl<V: Visitor> TreeWalk<RuledVisitor<V>, Arc<Dir>> {
    /// Walks through everything below `top`. The clock is the call's own or an earlier one.
    pub fn run(
        jail: &Jail,
        call: &mut Call,
        clock: &Clock,
        top: Arc<Dir>,
        rules: WalkRules,
        visitor: &Arc<V>,
    ) -> Result<WalkEnd> {
        Self::run_with(jail, call, clock, top, rules, visitor, SliceBudget::default())
    }

    pub(super) fn run_with(
        jail: &Jail,
        call: &mut Call,
        clock: &Clock,
        top: Arc<Dir>,
        rules: WalkRules,
        visitor: &Arc<V>,
        stock: SliceBudget,
    ) -> Result<WalkEnd> {
        let path = top.path().clone();
        let is_before =
            |from: &Vec<u8>| order::by_component(path.rel(), from).is_lt() && order::below(from, path.rel()).is_none();
        if jail.hides_content(&path) || rules.start_path.as_ref().is_some_and(is_before) {
            return Ok(WalkEnd::Complete);
        }
        let above = if rules.uses_ignore_files { ignore::read_above(jail, call, &path)? } else { None };
        let first = WalkFolder::new(path, 0, above);
        let schedule = Schedule::new(call.crew().size() + 1, WalkOrder::DepthFirst, false, first);
        let visitor = RuledVisitor { jail: jail.clone(), rules, clock: clock.clone(), visitor: Arc::clone(visitor) };
        let walk = Arc::new(Self { top, clock: clock.clone(), visitor, schedule, budget: Arc::new(stock) });
        let host = CallThreadGuard {
            crew: call.crew(),
            work: walk.clone(),
            schedule: &walk.schedule,
            invitation: OnceCell::new(),
        };
        let (local, _) = walk.work(walk.visitor.local(), Some(&host), || false);
        walk.visitor.visitor.finish_thread(local.visitor);
        drop(host);
        walk.end()
    }

    fn end(&self) -> Result<WalkEnd> {
        match self.schedule.wait_for_end() {
            None => Err(Error::new(Code::Io, "internal error; the call was given up, the connection is sound")),
            Some((None, _)) | Some((Some(HaltReason::Deadline), None)) => Ok(WalkEnd::Complete),
            Some((Some(HaltReason::Deadline), Some(reached))) => Ok(WalkEnd::Deadline { reached }),
            Some((Some(HaltReason::Cancelled), _)) => Err(self.clock.error(HaltReason::Cancelled)),
        }
    }
}

impl<V: Visitor> SharedWork for TreeWalk<RuledVisitor<V>, Arc<Dir>> {
    fn help(&self, crew: &dyn Crew) -> bool {
        let Some(_present) = self.schedule.join(MAX_THREADS) else { return false };
        let (local, has_left) = self.work(self.visitor.local(), None, || crew.is_needed_elsewhere());
        self.visitor.visitor.finish_thread(local.visitor);
        has_left
    }
}

impl<V: Visitor> FolderVisitor for RuledVisitor<V> {
    type ThreadData = RuledThreadData<V::ThreadData>;
    type StopReason = HaltReason;

    // The top folder is opened again, because a descriptor has only one offset for reading.
    fn open<'t>(&self, top: &'t Dir, below: Option<&[u8]>) -> Result<OpenedFolder<'t>, Errno> {
        let opened = match below {
            Some(below) => self.jail.open_below(top, below),
            None => top.open_again(),
        };
        opened.map(OpenedFolder::Opened)
    }

    fn begin(&self, local: &mut Self::ThreadData, _: &WalkFolder) -> Option<(usize, usize)> {
        local.has_rules = Default::default();
        None
    }

    /// Applies the rules that a name alone decides.
    #[inline]
    fn select_name(
        &self,
        local: &mut Self::ThreadData,
        folder: &WalkFolder,
        dir: &Dir,
        entry: &DirEntry<'_>,
        is_taken: bool,
    ) -> Option<FileKind> {
        if self.rules.uses_ignore_files
            && let Some(file) = ignore::IGNORE_FILES.iter().position(|file| *file == entry.name)
        {
            local.has_rules[file] = entry.kind == FileKind::File;
        }
        let first = || self.rules.start_path.as_deref().and_then(|from| folder.first_name(from));
        let is_hidden = || self.rules.skips_hidden && entry.name.first() == Some(&b'.');
        let is_left_out = !is_taken
            || first().is_some_and(|first| entry.name < first)
            || is_hidden()
            || self.jail.denied_names().is_denied(&self.jail.denied, folder.path(), entry.name);
        if is_left_out { None } else { entry_kind(dir, entry) }
    }

    /// Passes the entries that the rules leave to the visitor, and keeps those that are to be visited or entered.
    fn filter_names(
        &self,
        local: &mut Self::ThreadData,
        listed: ListedFolder<'_>,
        names: &mut NameList,
    ) -> Result<(), HaltReason> {
        let ListedFolder { dir, folder, .. } = listed;
        if self.rules.uses_ignore_files && !folder.knows_rules() {
            folder.set_rules(ignore::read_own(&self.jail, folder, dir, local.has_rules));
        }
        let RuledThreadData { visitor, path, .. } = local;
        path.clear();
        path.extend_from_slice(folder.path().rel());
        if !path.is_empty() {
            path.push(b'/');
        }
        let prefix = path.len();
        names.retain(|name, kind| {
            path.truncate(prefix);
            path.extend_from_slice(name);
            self.keeps(visitor, folder, dir, WalkEntry { path, name, kind, depth: folder.depth() + 1 })
        });
        // If the deadline has passed, the visitor may have skipped entries.
        self.clock.check()
    }

    fn visit(&self, local: &mut Self::ThreadData, dir: &Dir, entry: WalkEntry<'_>) -> Result<(), HaltReason> {
        self.visitor.visit(&mut local.visitor, dir, entry)
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.visitor.is_beyond(path)
    }

    fn report_unopened(&self, local: &mut Self::ThreadData, _: &[u8], errno: Errno) -> Result<(), HaltReason> {
        match EntryOpenError::from(errno) {
            EntryOpenError::Changed => {}
            EntryOpenError::Special => self.visitor.count_left_out(&mut local.visitor, LeftOut::Special),
            EntryOpenError::Unreadable => self.visitor.count_left_out(&mut local.visitor, LeftOut::Unreadable),
        }
        Ok(())
    }
}

impl<V: Visitor> RuledVisitor<V> {
    fn local(&self) -> RuledThreadData<V::ThreadData> {
        RuledThreadData { visitor: self.visitor.new_thread_data(), path: Vec::new(), has_rules: Default::default() }
    }

    fn keeps(&self, local: &mut V::ThreadData, folder: &WalkFolder, dir: &Dir, entry: WalkEntry<'_>) -> bool {
        let is_dir = entry.kind == FileKind::Dir;
        if self.is_excluded(entry) {
            return false;
        }
        if self.rules.uses_ignore_files && folder.ignores(entry.path, is_dir) {
            self.visitor.count_left_out(local, LeftOut::Ignored);
            return false;
        }
        if entry.path.len() > MAX_PATH_BYTES {
            self.visitor.count_left_out(local, LeftOut::TooDeep);
            return false;
        }
        let is_wanted = self.visitor.admit(local, dir, entry);
        if !is_dir {
            return is_wanted;
        }
        let path = || folder.path().join(entry.name);
        !self.jail.denied_names().hides_content(&self.jail.denied, entry.name, path) && self.visitor.enters(entry)
    }

    fn is_excluded(&self, entry: WalkEntry<'_>) -> bool {
        let excludes = || self.jail.excludes();
        if entry.kind != FileKind::Dir {
            return self.rules.uses_excludes && excludes().has_walked_name(entry.name, entry.path);
        }
        let is_never = self.rules.skipped_folder.is_some_and(|never| never.as_bytes() == entry.name);
        let is_named = || self.rules.entered_folders.iter().any(|name| name == entry.name);
        is_never || (self.rules.uses_excludes && excludes().has_walked_folder(entry.name, entry.path) && !is_named())
    }
}
