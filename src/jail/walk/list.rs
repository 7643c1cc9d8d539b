//! One folder of a walk: opened, read, and everything left out that the rules leave out.

use std::{ops::ControlFlow, sync::Arc};

use super::{Hand, LeftOut, Met, Pass, Unfinished, Visitor, Walk, folder::Folder, ignore, slice::Slice};
use crate::{
    jail::{Dir, DirEntry, Halt, Names, Seen, Unopened},
    path::MAX_PATH_BYTES,
    sys::{Errno, fs::Kind},
    text::order,
    wire::Result,
};

/// The names of one pass over a folder, before the slower rules.
struct Listed {
    names: Names,
    /// The folder has more names than these: the largest of them.
    rest: Option<Vec<u8>>,
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
            Ok(match self.read(hand, &folder, &dir, after.clone())? {
                Ok(listed) => Ok(self.choose(hand, &folder, dir, listed)),
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
        after: Option<Vec<u8>>,
    ) -> Result<Result<Listed, Halt>, Errno> {
        let mut pass = Pass::new(after, usize::MAX, self.stock.room());
        let mut has_rules = [false; ignore::FILES.len()];
        let first = self.rules.from.as_deref().and_then(|from| folder.first_name(from));
        let end = dir.read_entries(&self.clock, &mut hand.entries, |entry| {
            if self.rules.ignore_files
                && let Some(file) = ignore::FILES.iter().position(|file| *file == entry.name)
            {
                has_rules[file] = entry.kind == Kind::File;
            }
            if pass.takes(entry.name)
                && first.is_none_or(|first| entry.name >= first)
                && let Some(kind) = self.shows(folder, dir, &entry)
            {
                pass.push(entry.name, kind);
            }
            ControlFlow::Continue(())
        })?;
        let (names, rest) = pass.end();
        Ok(end.map(|()| Listed { names, rest, has_rules }))
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
        Listed { mut names, rest, has_rules }: Listed,
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
        if names.is_empty() && rest.is_none() {
            return None;
        }
        Some(Arc::new(Slice::new(&self.stock, Arc::clone(folder), names, rest, dir)))
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
