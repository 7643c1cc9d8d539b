//! The walk: folder after folder, all of a level before the next, so that a reply whose budget ends has the top of the
//! tree whole instead of one branch of it.
//!
//! Nodes lie in one list in the order they were found, which is also the order in which folders are opened: no
//! recursion, no queue, and no descriptor but the walk's own and that of the folder being read.

use crate::{
    jail::{Call, Dir, DirEntry, Jail, Seen},
    ops::{
        folder::{self, Facts, Found},
        names::shown,
    },
    sys::fs::Kind,
    wire::{
        Code, Error, Result,
        types::{
            list_folder::EntryKind,
            tree::{TreeNode, Truncated},
        },
    },
};

use super::{
    budget::{Budget, CHILDREN_BYTES, SHORTEST_NODE_BYTES, TRUNCATED_BYTES, json_len},
    hint::{self, Hints},
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) max_depth: u32,
    pub(super) per_folder_limit: u64,
    pub(super) excludes: bool,
}

/// A node of the reply in the making.
struct Item {
    node: TreeNode,
    /// Only a folder that is still to be opened has one.
    unopened: Option<Unopened>,
}

struct Unopened {
    /// From the walk's own folder, which is empty.
    below: Vec<u8>,
    depth: u32,
    /// Bytes of the budget that are kept for saying that it was not opened.
    reserved: u64,
}

pub(super) struct Walk<'a> {
    jail: &'a Jail,
    call: &'a Call,
    dir: Dir,
    options: Options,
    hints: Hints,
    budget: Budget,
    is_used_up: bool,
    items: Vec<Item>,
    /// Opened folders: their place, and that of their first child. Children lie together.
    opened: Vec<(usize, usize)>,
}

impl<'a> Walk<'a> {
    /// `dir` is the walk's own folder.
    pub(super) fn new(
        jail: &'a Jail,
        call: &'a Call,
        dir: Dir,
        options: Options,
        hints: Hints,
        budget: Budget,
    ) -> Self {
        let (items, opened) = (Vec::new(), Vec::new());
        Self { jail, call, dir, options, hints, budget, is_used_up: false, items, opened }
    }

    pub(super) fn run(mut self, root: TreeNode) -> Result<TreeNode> {
        let root = self.classify(root, Vec::new(), 0, false);
        // The reply has its first node whatever the budget says.
        self.budget.insist(root.reserved());
        self.items.push(root);
        let mut at = 0;
        while at < self.items.len() {
            if let Some(folder) = self.items[at].unopened.take() {
                self.call.checkpoint()?;
                self.visit(at, folder)?;
            }
            at += 1;
        }
        Ok(self.assemble())
    }

    /// Whether a folder will be opened, and if not, why not. `is_excluded` goes before depth, as the contract says.
    fn classify(&self, mut node: TreeNode, below: Vec<u8>, depth: u32, is_excluded: bool) -> Item {
        let is_closed = node.mount_point || node.non_accessible;
        if node.kind != EntryKind::Dir || is_closed {
            return Item { node, unopened: None };
        }
        if is_excluded {
            node.truncated = Some(self.hints.default_exclude(&below));
        } else if depth >= self.options.max_depth {
            node.truncated = Some(self.hints.max_depth(&below));
        } else {
            let reserved = cost(&self.hints.budget(&below));
            return Item { node, unopened: Some(Unopened { below, depth, reserved }) };
        }
        Item { node, unopened: None }
    }

    fn visit(&mut self, at: usize, folder: Unopened) -> Result<()> {
        self.budget.give_back(folder.reserved);
        if self.is_used_up {
            self.close(at, &folder, self.hints.budget(&folder.below));
            return Ok(());
        }
        match self.show(at, &folder) {
            Err(error) if error.code == Code::C220 => return Err(error),
            Err(error) => self.close(at, &folder, unreadable(&error, folder.reserved)),
            Ok(()) => {}
        }
        Ok(())
    }

    /// The folder stays without children, in the bytes that were kept for that.
    fn close(&mut self, at: usize, folder: &Unopened, why: Truncated) {
        self.budget.insist(cost(&why).min(folder.reserved));
        self.items[at].node.truncated = Some(why);
    }

    fn show(&mut self, at: usize, folder: &Unopened) -> Result<()> {
        let opened = match folder.below.as_slice() {
            [] => None,
            below => {
                let sent = String::from_utf8_lossy(&self.hints.name(below)).into_owned();
                Some(self.jail.open_dir_below(&self.dir, below, sent)?)
            }
        };
        let found = self.collect(opened.as_ref().unwrap_or(&self.dir))?;
        let first = self.items.len();
        let is_limited = found.page.len() as u64 == self.options.per_folder_limit;
        // Kept until it is known whether a note is needed.
        let spare = self.longest_note(&folder.below, found.total);
        let mut total = found.total;
        let mut has_room = self.budget.take(CHILDREN_BYTES, spare);
        let (jail, path) = (self.jail, opened.as_ref().unwrap_or(&self.dir).path().clone());
        let is_denied = jail.denied_entries(&path);
        for (name, kind) in found.page.iter() {
            if !has_room {
                break;
            }
            self.call.checkpoint()?;
            let dir = opened.as_ref().unwrap_or(&self.dir);
            match self.child(dir, folder, name, kind, is_denied(name)) {
                None => total = total.saturating_sub(1),
                Some(child) => {
                    has_room = self.budget.take(child.bytes(), spare);
                    self.items.extend(has_room.then_some(child));
                }
            }
        }
        self.finish(at, folder, first, total, has_room.then_some(is_limited));
        Ok(())
    }

    /// Bytes of what may have to be said about a folder that was opened: the numbers in it only become smaller.
    fn longest_note(&self, below: &[u8], total: u64) -> u64 {
        let limit = self.options.per_folder_limit;
        match total {
            0 => 0,
            1.. if total > limit => cost(&self.hints.budget_within(below, total, total))
                .max(cost(&self.hints.per_folder_limit(below, limit, total))),
            _ => cost(&self.hints.budget_within(below, total, total)),
        }
    }

    /// What is said about a folder whose children from `first` on are in the list. `is_limited` is None if the budget
    /// ended before the names did.
    fn finish(&mut self, at: usize, folder: &Unopened, first: usize, total: u64, is_limited: Option<bool>) {
        let shown = (self.items.len() - first) as u64;
        let below = &folder.below;
        if shown == 0 && is_limited.is_none() {
            // Not even one: as if it had not been opened.
            self.is_used_up = true;
            self.close(at, folder, self.hints.budget(below));
            return;
        }
        self.opened.push((at, first));
        if shown < total {
            let note = match is_limited {
                Some(true) => self.hints.per_folder_limit(below, shown, total),
                _ => self.hints.budget_within(below, shown, total),
            };
            self.is_used_up |= is_limited != Some(true);
            self.budget.insist(cost(&note));
            self.items[at].node.truncated = Some(note);
        }
    }

    /// The names to show, as far as they can matter: what cannot fit into the budget need not be held.
    fn collect(&self, dir: &Dir) -> Result<Found> {
        let most = self.budget.left() / SHORTEST_NODE_BYTES + 1;
        let page = (0, self.options.per_folder_limit.min(most));
        folder::collect(self.jail, self.call, dir, page, |entry| {
            !self.options.excludes || !self.is_excluded_name(dir, entry)
        })
    }

    /// Excluded and not a folder: left out altogether.
    fn is_excluded_name(&self, dir: &Dir, entry: &DirEntry<'_>) -> bool {
        let is_dir = || match entry.kind {
            // A file system that does not say; rare, so only asked for names that match.
            Kind::Unknown => {
                matches!(dir.stat_entry(entry.name), Some(Seen::Entry(stat)) if stat.kind == Kind::Dir)
            }
            kind => kind == Kind::Dir,
        };
        self.jail.excludes().has_name(&dir.path().join(entry.name)) && !is_dir()
    }

    /// None when the entry has gone meanwhile, or may not be looked at.
    fn child(&self, dir: &Dir, folder: &Unopened, name: &[u8], kind: Kind, is_denied: bool) -> Option<Item> {
        let Facts { kind, size, mtime, non_accessible, mount_point } =
            folder::look(dir, name, kind, is_denied)?;
        let (text, name_bytes) = shown(name);
        let node = TreeNode {
            name: text,
            name_bytes,
            kind,
            size,
            mtime,
            non_accessible,
            mount_point,
            children: None,
            truncated: None,
        };
        let below =
            if folder.below.is_empty() { name.to_vec() } else { [&folder.below, &b"/"[..], name].concat() };
        let is_excluded = self.options.excludes
            && kind == EntryKind::Dir
            && self.jail.excludes().has_folder(&dir.path().join(name));
        Some(self.classify(node, below, folder.depth + 1, is_excluded))
    }

    /// From the last opened folder back to the first, each takes its children off the end of the list.
    fn assemble(mut self) -> TreeNode {
        let mut nodes: Vec<TreeNode> = self.items.drain(..).map(|item| item.node).collect();
        for (at, first) in self.opened.drain(..).rev() {
            nodes[at].children = Some(nodes.split_off(first));
        }
        nodes.swap_remove(0)
    }
}

impl Item {
    fn reserved(&self) -> u64 {
        self.unopened.as_ref().map_or(0, |folder| folder.reserved)
    }

    /// With its comma, and with what may have to be said about it later.
    fn bytes(&self) -> u64 {
        json_len(&self.node).saturating_add(1).saturating_add(self.reserved())
    }
}

fn cost(note: &Truncated) -> u64 {
    json_len(note).saturating_add(TRUNCATED_BYTES)
}

/// Within the bytes that were kept: a text that is longer than those gives way to a short one.
fn unreadable(error: &Error, reserved: u64) -> Truncated {
    let note = hint::io_error(error);
    if cost(&note) <= reserved { note } else { Truncated { hint: "cannot be read".into(), ..note } }
}
