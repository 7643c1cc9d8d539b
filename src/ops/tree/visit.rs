//! Runs in the worker: decides about the folders that the walk lists, all of a level before the next, so that a reply whose budget
//! ends shows the top of the tree completely instead of one branch of it.
//!
//! Nodes lie in one list in the order they were found, which is also the order in which the walk enters folders. So there is no
//! recursion, and no descriptor is open but the top folder's and that of the folder being read.

use std::{cell::Cell, collections::VecDeque};

use crate::{
    jail::{
        Call, Dir, DirEntry, Jail, ListDenied, Names, Seen, unlisted,
        walk::{Folder, FolderVisitor, Listed, Opened, Order, below, known_kind, walk_alone},
    },
    ops::{
        folder::{self, Facts},
        names::shown,
    },
    sys::{Errno, fs::Kind},
    wire::{
        Error, Result,
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

/// A node that may still be opened.
struct Item {
    node: TreeNode,
    /// Only a folder that is still to be opened has one.
    unopened: Option<Unopened>,
}

struct Unopened {
    /// Its place in the list of nodes.
    at: usize,
    /// From the walk's own folder, which is empty.
    below: Vec<u8>,
    /// Bytes of the budget that are reserved for the note that the folder was not opened.
    reserved: u64,
}

/// Tells whether an entry of the folder that the walk is at is denied.
type DeniedTest<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// The reply while it is built.
pub(super) struct Reply<'a> {
    budget: Budget,
    nodes: Vec<TreeNode>,
    /// Opened folders: their place, and that of their first child. Children lie together.
    opened: Vec<(usize, usize)>,
    /// In the order in which the walk enters them.
    unopened: VecDeque<Unopened>,
    /// The folder that the walk reads now.
    current: Option<Unopened>,
    is_denied: DeniedTest<'a>,
}

pub(super) struct Growth<'a> {
    jail: &'a Jail,
    call: &'a Call,
    options: Options,
    hints: Hints,
    is_used_up: Cell<bool>,
}

impl<'a> Growth<'a> {
    pub(super) fn new(jail: &'a Jail, call: &'a Call, options: Options, hints: Hints) -> Self {
        Self { jail, call, options, hints, is_used_up: Cell::new(false) }
    }

    /// `dir` is the folder of the node `root`.
    pub(super) fn run(self, dir: &Dir, budget: Budget, root: TreeNode) -> Result<TreeNode> {
        let mut reply = Reply {
            budget,
            nodes: Vec::new(),
            opened: Vec::new(),
            unopened: VecDeque::new(),
            current: None,
            is_denied: Box::new(|_| true),
        };
        let root = self.classify(root, Vec::new(), 0, false);
        // The reply always has its first node, even beyond the budget.
        reply.budget.insist(root.reserved());
        if reply.push(root) {
            reply = walk_alone(self.call.clock(), dir, Order::ByLevel, &self, reply)?;
        }
        while let Some(folder) = reply.unopened.pop_front() {
            reply.budget.give_back(folder.reserved);
            reply.close(&folder, self.hints.budget(&folder.below));
        }
        Ok(reply.assemble())
    }

    /// Whether a folder will be opened, and if not, why not. `is_excluded` goes before depth, as the contract says.
    fn classify(&self, mut node: TreeNode, below: Vec<u8>, depth: u32, is_excluded: bool) -> Item {
        let is_closed = node.mount_point || node.non_accessible || node.truncated.is_some();
        if node.kind != EntryKind::Dir || is_closed {
            return Item { node, unopened: None };
        }
        if is_excluded {
            node.truncated = Some(self.hints.default_exclude(&below));
        } else if depth >= self.options.max_depth {
            node.truncated = Some(self.hints.max_depth(&below));
        } else {
            let reserved = cost(&self.hints.budget(&below));
            return Item { node, unopened: Some(Unopened { at: 0, below, reserved }) };
        }
        Item { node, unopened: None }
    }

    /// Bytes of the longest note that this folder can need: the numbers in it can only become smaller.
    fn longest_note(&self, below: &[u8], total: u64) -> u64 {
        let limit = self.options.per_folder_limit;
        match total {
            0 => 0,
            1.. if total > limit => cost(&self.hints.budget_within(below, total, total))
                .max(cost(&self.hints.per_folder_limit(below, limit, total))),
            _ => cost(&self.hints.budget_within(below, total, total)),
        }
    }

    /// Adds the note for a folder whose children begin at `first` in the list. `is_limited` is None if the budget ended before all
    /// names were shown.
    fn finish(
        &self,
        reply: &mut Reply<'_>,
        folder: &Unopened,
        first: usize,
        total: u64,
        is_limited: Option<bool>,
    ) {
        let shown = (reply.nodes.len() - first) as u64;
        let below = &folder.below;
        if shown == 0 && is_limited.is_none() {
            // No child fits: the reply looks as if the folder had not been opened.
            self.is_used_up.set(true);
            reply.close(folder, self.hints.budget(below));
            return;
        }
        reply.opened.push((folder.at, first));
        if shown < total {
            let note = match is_limited {
                Some(true) => self.hints.per_folder_limit(below, shown, total),
                _ => {
                    self.is_used_up.set(true);
                    self.hints.budget_within(below, shown, total)
                }
            };
            reply.budget.insist(cost(&note));
            reply.nodes[folder.at].truncated = Some(note);
        }
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
    fn child(&self, listed: Listed<'_>, name: &[u8], kind: Kind, is_denied: bool) -> Option<Item> {
        let was_dir = kind == Kind::Dir;
        let seen = listed.dir.stat_entry(name)?;
        let Facts { kind, size, mtime, non_accessible, mount_point } = Facts::new(seen, kind, is_denied);
        let (text, name_bytes) = shown(name);
        let is_dir = kind == EntryKind::Dir;
        let node = TreeNode {
            name: text,
            name_bytes,
            kind,
            size,
            mtime,
            non_accessible,
            mount_point,
            children: None,
            // The walk does not enter what was no folder when it was listed.
            truncated: (is_dir && !was_dir).then(hint::changed),
        };
        let is_excluded =
            self.options.excludes && is_dir && self.jail.excludes().has_folder(&listed.dir.path().join(name));
        Some(self.classify(node, below(listed.below, name), listed.folder.depth() + 1, is_excluded))
    }
}

impl<'a> FolderVisitor for &Growth<'a> {
    type Local = Reply<'a>;
    type Stop = Error;

    fn open<'t>(&self, top: &'t Dir, below: Option<&[u8]>) -> Result<Opened<'t>, Errno> {
        Opened::nested(self.jail, top, below)
    }

    /// The names to show, as far as they can matter: what cannot fit into the budget need not be held.
    fn begin(&self, reply: &mut Reply<'a>, folder: &Folder) -> Option<(usize, usize)> {
        reply.current = reply.unopened.pop_front();
        reply.budget.give_back(reply.current.as_ref().map_or(0, |current| current.reserved));
        reply.is_denied = Box::new(self.jail.denied_entries(folder.path().clone()));
        let most = reply.budget.left() / SHORTEST_NODE_BYTES + 1;
        Some(folder::room(self.options.per_folder_limit.min(most)))
    }

    fn lists(
        &self,
        reply: &mut Reply<'a>,
        folder: &Folder,
        dir: &Dir,
        entry: &DirEntry<'_>,
        is_taken: bool,
    ) -> Option<Kind> {
        let hides = self.jail.settings().list_denied == ListDenied::Hide;
        let is_left_out = self.jail.is_private_entry(folder.path(), entry.name)
            || (hides && (reply.is_denied)(entry.name))
            || (self.options.excludes && self.is_excluded_name(dir, entry));
        match is_left_out {
            true => None,
            false if is_taken => known_kind(dir, entry),
            false => Some(entry.kind),
        }
    }

    fn list(&self, reply: &mut Reply<'a>, listed: Listed<'_>, names: &mut Names) -> Result<()> {
        let Some(folder) = reply.current.take() else { return Ok(()) };
        names.sort();
        let first = reply.nodes.len();
        let is_limited = names.len() as u64 == self.options.per_folder_limit;
        // Kept until it is known whether a note is needed.
        let spare = self.longest_note(&folder.below, listed.total);
        let mut total = listed.total;
        let mut has_room = reply.budget.take(CHILDREN_BYTES, spare);
        let mut checked = Ok(());
        names.retain(|name, kind| {
            if has_room && checked.is_ok() {
                checked = self.call.checkpoint();
            }
            if !has_room || checked.is_err() {
                return false;
            }
            match self.child(listed, name, kind, (reply.is_denied)(name)) {
                None => {
                    total = total.saturating_sub(1);
                    false
                }
                Some(child) => {
                    has_room = reply.budget.take(child.bytes(), spare);
                    has_room && reply.push(child)
                }
            }
        });
        checked?;
        self.finish(reply, &folder, first, total, has_room.then_some(is_limited));
        Ok(())
    }

    fn is_beyond(&self, _: impl FnOnce() -> Vec<u8>) -> bool {
        self.is_used_up.get()
    }

    fn unopened(&self, reply: &mut Reply<'a>, below: &[u8], errno: Errno) -> Result<()> {
        if let Some(folder) = reply.current.take() {
            let error = unlisted(&String::from_utf8_lossy(&self.hints.name(below)), errno);
            reply.close(&folder, unreadable(&error, folder.reserved));
        }
        Ok(())
    }
}

impl Reply<'_> {
    /// Adds a node. True if the walk has to enter it.
    fn push(&mut self, item: Item) -> bool {
        let is_unopened = item.unopened.is_some();
        self.unopened.extend(item.unopened.map(|folder| Unopened { at: self.nodes.len(), ..folder }));
        self.nodes.push(item.node);
        is_unopened
    }

    /// Leaves the folder without children, and adds the note in the bytes that were reserved for it.
    fn close(&mut self, folder: &Unopened, why: Truncated) {
        self.budget.insist(cost(&why).min(folder.reserved));
        self.nodes[folder.at].truncated = Some(why);
    }

    /// From the last opened folder back to the first, each takes its children off the end of the list.
    fn assemble(mut self) -> TreeNode {
        for (at, first) in self.opened.drain(..).rev() {
            self.nodes[at].children = Some(self.nodes.split_off(first));
        }
        self.nodes.swap_remove(0)
    }
}

impl Item {
    fn reserved(&self) -> u64 {
        self.unopened.as_ref().map_or(0, |folder| folder.reserved)
    }

    /// Bytes of the node with its comma and with the note that it may need.
    fn bytes(&self) -> u64 {
        json_len(&self.node).saturating_add(1).saturating_add(self.reserved())
    }
}

fn cost(note: &Truncated) -> u64 {
    json_len(note).saturating_add(TRUNCATED_BYTES)
}

/// The note for a folder that cannot be read. If its text is longer than the reserved bytes, it becomes a short one.
fn unreadable(error: &Error, reserved: u64) -> Truncated {
    let note = hint::io_error(error);
    if cost(&note) <= reserved { note } else { Truncated { hint: "cannot be read".into(), ..note } }
}
