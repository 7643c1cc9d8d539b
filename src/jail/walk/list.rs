//! One folder of a walk: opened, read, and everything left out that the rules leave out.

use std::{ops::ControlFlow, sync::Arc};

use super::{Hand, LeftOut, Met, Unfinished, Visitor, Walk, folder::Folder, ignore, slice::Slice};
use crate::{
    jail::{Dir, DirEntry, Halt, Names, Seen, Unopened},
    path::MAX_PATH_BYTES,
    sys::{Errno, fs::Kind},
    text::order,
    wire::Result,
};

/// Entries between two looks at the clock.
const CHECK_EVERY: u32 = 1024;

/// The names of one pass over a folder, before the slower rules.
#[derive(Default)]
struct Pass {
    names: Names,
    /// Names above this one did not fit.
    ceiling: Option<Vec<u8>>,
    has_rules: [bool; ignore::FILES.len()],
}

impl<V: Visitor> Walk<V> {
    pub(super) fn open(&self, folder: &Folder) -> Result<Dir, Errno> {
        match order::below(folder.path.rel(), self.top.path().rel()) {
            Some(below) => self.jail.open_below(&self.top, below),
            None => self.top.open_again(),
        }
    }

    /// Lists a folder from after a name on; nothing if there is nothing to visit or enter.
    pub(super) fn enter(
        &self,
        hand: &mut Hand<V::Local>,
        folder: Arc<Folder>,
        after: Option<Vec<u8>>,
    ) -> Result<Option<Arc<Slice>>, Unfinished> {
        let listed = self.open(&folder).and_then(|dir| {
            Ok(match self.read(hand, &folder, &dir, after.as_deref())? {
                Ok(pass) => Ok(self.choose(hand, &folder, dir, pass)),
                Err(halt) => Err(halt),
            })
        });
        let unfinished = |halt| Unfinished { halt, reached: folder.path_of(after.as_deref()) };
        match listed {
            // A visitor that ran out of time has not looked at all entries.
            Ok(Ok(listed)) => self.clock.check().map(|()| listed).map_err(unfinished),
            Ok(Err(halt)) => Err(unfinished(halt)),
            Err(errno) => {
                self.count_unopened(hand, errno);
                Ok(None)
            }
        }
    }

    pub(super) fn count_unopened(&self, hand: &mut Hand<V::Local>, errno: Errno) {
        match Unopened::from(errno) {
            Unopened::Changed => {}
            Unopened::Special => self.visitor.left_out(&mut hand.local, LeftOut::Special),
            Unopened::Unreadable => self.visitor.left_out(&mut hand.local, LeftOut::Unreadable),
        }
    }

    fn read(
        &self,
        hand: &mut Hand<V::Local>,
        folder: &Folder,
        dir: &Dir,
        after: Option<&[u8]>,
    ) -> Result<Result<Pass, Halt>, Errno> {
        let mut pass = Pass::default();
        let mut room = self.stock.room();
        let mut seen = 0u32;
        let first = self.rules.from.as_deref().and_then(|from| folder.first_name(from));
        let end = dir.read_entries(&mut hand.entries, |entry| {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(CHECK_EVERY)
                && let Err(halt) = self.clock.check()
            {
                return ControlFlow::Break(halt);
            }
            if self.rules.ignore_files
                && let Some(file) = ignore::FILES.iter().position(|file| *file == entry.name)
            {
                pass.has_rules[file] = entry.kind == Kind::File;
            }
            let is_outside = after.is_some_and(|after| entry.name <= after)
                || first.is_some_and(|first| entry.name < first)
                || pass.ceiling.as_deref().is_some_and(|ceiling| entry.name > ceiling);
            if !is_outside && let Some(kind) = self.shows(folder, dir, &entry) {
                pass.names.push(entry.name, kind);
                // One name always fits, so that every pass gets further.
                if pass.names.bytes() > room {
                    let half = pass.names.len().div_ceil(2);
                    pass.ceiling = pass.names.keep_smallest(half).or(pass.ceiling.take());
                    room = room.max(pass.names.bytes());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(match end {
            ControlFlow::Continue(()) => Ok(pass),
            ControlFlow::Break(halt) => Err(halt),
        })
    }

    /// What a name alone decides. None: left out.
    fn shows(&self, folder: &Folder, dir: &Dir, entry: &DirEntry<'_>) -> Option<Kind> {
        let is_hidden = self.rules.no_hidden && entry.name.first() == Some(&b'.');
        if is_hidden || self.jail.denied_names().has(&self.jail.denied, &folder.path, entry.name) {
            return None;
        }
        match entry.kind {
            // A file system that does not say.
            Kind::Unknown => match dir.stat_entry(entry.name)? {
                Seen::Entry(stat) => Some(stat.kind),
                Seen::MountPoint => Some(Kind::Dir),
            },
            kind => Some(kind),
        }
    }

    /// Shows the visitor what the rules leave, and keeps what is to be visited or entered.
    fn choose(
        &self,
        hand: &mut Hand<V::Local>,
        folder: &Arc<Folder>,
        dir: Dir,
        Pass { mut names, ceiling, has_rules }: Pass,
    ) -> Option<Arc<Slice>> {
        if self.rules.ignore_files && !folder.knows_rules() {
            folder.set_rules(self.read_rules(folder, &dir, has_rules));
        }
        let Hand { local, path, .. } = hand;
        path.clear();
        path.extend_from_slice(folder.path.rel());
        if !path.is_empty() {
            path.push(b'/');
        }
        let prefix = path.len();
        names.retain(|name, kind| {
            path.truncate(prefix);
            path.extend_from_slice(name);
            self.keeps(local, folder, &dir, Met { path, name, kind, depth: folder.depth + 1 })
        });
        if names.is_empty() && ceiling.is_none() {
            return None;
        }
        Some(Arc::new(Slice::new(&self.stock, Arc::clone(folder), names, ceiling, dir)))
    }

    fn read_rules<const N: usize>(
        &self,
        folder: &Folder,
        dir: &Dir,
        has_rules: [bool; N],
    ) -> [Option<crate::text::ignore::IgnoreRules>; N] {
        std::array::from_fn(|at| {
            let file = ignore::FILES[at];
            let may_read = has_rules[at] && !self.jail.is_denied(&folder.path.join(file));
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
        let path = || folder.path.join(entry.name);
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
