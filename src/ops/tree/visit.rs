//! Decides which folders the walk lists: all of a level before the next, so that a reply whose budget ends shows the top of
//! the tree completely instead of one branch of it. Runs in the worker.
//!
//! Nodes are in one list, in the order in which they were found, which is also the order in which the walk enters folders. So
//! nothing recurses, and only the top folder and the folder being read are open.

use std::{cell::Cell, collections::VecDeque};

use crate::{
    jail::{
        Call, DeniedInListings, Dir, DirEntry, EntryStat, Jail, NameList, folder_list_error,
        walk::{
            FolderVisitor, ListedFolder, OpenedFolder, RulesAbove, WalkFolder, WalkOrder, entry_kind, join_path,
            walk_alone_below,
        },
    },
    ops::{
        folder::{self, EntryMetadata},
        names::encode_name,
    },
    sys::{Errno, fs::FileKind},
    wire::{
        Error, Result,
        types::{
            list_folder::EntryKind,
            tree::{TreeNode, Truncated},
        },
    },
};

use super::{
    budget::{CHILDREN_BYTES, SHORTEST_NODE_BYTES, TRUNCATED_BYTES, TreeBudget, json_len},
    hint::{self, Hints},
};

#[derive(Debug, Clone, Copy)]
pub(super) struct TreeOptions {
    pub(super) max_depth: u32,
    pub(super) per_folder_limit: u64,
    pub(super) excludes: bool,
    pub(super) obeys_ignore_files: bool,
}

/// A node that may still be opened.
struct TreeItem {
    node: TreeNode,
    /// Only a folder that is still to be opened has one.
    unopened: Option<UnopenedFolder>,
}

struct UnopenedFolder {
    /// Its index in the list of nodes.
    node_index: usize,
    /// The path from the walk's own folder, whose path is empty.
    below: Vec<u8>,
    /// Bytes of the budget that are reserved for the note that the folder was not opened.
    reserved_bytes: u64,
}

/// True for a denied entry of the folder that the walk reads.
type DeniedTest<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// The reply while it is built.
pub(super) struct TreeBuilder<'a> {
    budget: TreeBudget,
    nodes: Vec<TreeNode>,
    /// Opened folders: the index of their node, and of their first child. The children of a folder are adjacent.
    opened: Vec<(usize, usize)>,
    /// In the order in which the walk enters them.
    unopened: VecDeque<UnopenedFolder>,
    /// The folder that the walk reads now.
    current: Option<UnopenedFolder>,
    /// Entries that ignore files hid.
    ignored: u64,
    is_denied: DeniedTest<'a>,
}

pub(super) struct TreeVisitor<'a> {
    jail: &'a Jail,
    call: &'a Call,
    options: TreeOptions,
    hints: Hints,
    is_used_up: Cell<bool>,
}

impl<'a> TreeVisitor<'a> {
    pub(super) fn new(jail: &'a Jail, call: &'a Call, options: TreeOptions, hints: Hints) -> Self {
        Self { jail, call, options, hints, is_used_up: Cell::new(false) }
    }

    /// `dir` is the folder of the node `root`, and `above` the ignore rules above it. Returns the node, and how many entries ignore
    /// files hid.
    pub(super) fn run(
        self,
        dir: &Dir,
        above: RulesAbove,
        budget: TreeBudget,
        root: TreeNode,
    ) -> Result<(TreeNode, u64)> {
        let mut builder = TreeBuilder {
            budget,
            nodes: Vec::new(),
            opened: Vec::new(),
            unopened: VecDeque::new(),
            current: None,
            ignored: 0,
            is_denied: Box::new(|_| true),
        };
        let root = self.classify(root, Vec::new(), 0, false);
        // The reply always has its first node, even beyond the budget.
        builder.budget.take_anyway(root.reserved_bytes());
        if builder.push(root) {
            builder = walk_alone_below(self.call.clock(), dir, above, WalkOrder::ByLevel, &self, builder)?;
        }
        while let Some(folder) = builder.unopened.pop_front() {
            builder.budget.give_back(folder.reserved_bytes);
            builder.close_folder(&folder, self.hints.budget(&folder.below));
        }
        let ignored = builder.ignored;
        Ok((builder.assemble(), ignored))
    }

    /// Decides whether a folder will be opened, and gives the reason if not. The contract puts `is_excluded` before the
    /// depth.
    fn classify(&self, mut node: TreeNode, below: Vec<u8>, depth: u32, is_excluded: bool) -> TreeItem {
        let is_closed = node.mount_point || node.non_accessible || node.truncated.is_some();
        if node.kind != EntryKind::Dir || is_closed {
            return TreeItem { node, unopened: None };
        }
        if is_excluded {
            node.truncated = Some(self.hints.default_exclude(&below));
        } else if depth >= self.options.max_depth {
            node.truncated = Some(self.hints.max_depth(&below));
        } else {
            let reserved_bytes = note_bytes(&self.hints.budget(&below));
            return TreeItem { node, unopened: Some(UnopenedFolder { node_index: 0, below, reserved_bytes }) };
        }
        TreeItem { node, unopened: None }
    }

    /// Bytes of the longest note that this folder can need: the numbers in it can only become smaller.
    fn longest_note(&self, below: &[u8], total: u64) -> u64 {
        let limit = self.options.per_folder_limit;
        match total {
            0 => 0,
            1.. if total > limit => note_bytes(&self.hints.budget_within(below, total, total))
                .max(note_bytes(&self.hints.per_folder_limit(below, limit, total))),
            _ => note_bytes(&self.hints.budget_within(below, total, total)),
        }
    }

    /// Adds the note for a folder whose children begin at `first` in the list. `is_limited` is None if the budget ended before all
    /// names were shown.
    fn finish_folder(
        &self,
        builder: &mut TreeBuilder<'_>,
        folder: &UnopenedFolder,
        first: usize,
        total: u64,
        is_limited: Option<bool>,
    ) {
        let shown = (builder.nodes.len() - first) as u64;
        let below = &folder.below;
        if shown == 0 && is_limited.is_none() {
            // No child fits, so the reply shows the folder as if it had not been opened.
            self.is_used_up.set(true);
            builder.close_folder(folder, self.hints.budget(below));
            return;
        }
        builder.opened.push((folder.node_index, first));
        if shown < total {
            let note = match is_limited {
                Some(true) => self.hints.per_folder_limit(below, shown, total),
                _ => {
                    self.is_used_up.set(true);
                    self.hints.budget_within(below, shown, total)
                }
            };
            builder.budget.take_anyway(note_bytes(&note));
            builder.nodes[folder.node_index].truncated = Some(note);
        }
    }

    /// Hidden by ignore files, and counted as such.
    fn is_ignored(&self, builder: &mut TreeBuilder<'a>, folder: &WalkFolder, dir: &Dir, entry: &DirEntry<'_>) -> bool {
        let is_dir = entry_kind(dir, entry) == Some(FileKind::Dir);
        let is_ignored = folder.hides_entry(self.jail, dir, entry.name, is_dir);
        builder.ignored += u64::from(is_ignored);
        is_ignored
    }

    /// True for an excluded entry that is no folder. It is left out without a note.
    fn is_excluded_name(&self, dir: &Dir, entry: &DirEntry<'_>) -> bool {
        let is_dir = || match entry.kind {
            // The file system does not report the kind. This is rare, so the kind is read only for names that match.
            FileKind::Unknown => {
                matches!(dir.stat_entry(entry.name), Some(EntryStat::Entry(stat)) if stat.kind == FileKind::Dir)
            }
            kind => kind == FileKind::Dir,
        };
        self.jail.excludes().has_name(&dir.path().join(entry.name)) && !is_dir()
    }

    /// The node of an entry. `None` if it was removed meanwhile, or may not be stat-ed.
    fn child(&self, listed: ListedFolder<'_>, name: &[u8], kind: FileKind, is_denied: bool) -> Option<TreeItem> {
        let was_dir = kind == FileKind::Dir;
        let seen = listed.dir.stat_entry(name)?;
        let EntryMetadata { kind, size, mtime, non_accessible, mount_point } =
            EntryMetadata::new(seen, kind, is_denied);
        let (text, name_bytes) = encode_name(name);
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
            // The walk does not enter an entry that was no folder when it was listed.
            truncated: (is_dir && !was_dir).then(hint::changed),
        };
        let is_excluded =
            self.options.excludes && is_dir && self.jail.excludes().has_folder(&listed.dir.path().join(name));
        Some(self.classify(node, join_path(listed.below, name), listed.folder.depth() + 1, is_excluded))
    }
}

impl<'a> FolderVisitor for &TreeVisitor<'a> {
    type ThreadData = TreeBuilder<'a>;
    type StopReason = Error;

    fn open<'t>(&self, top: &'t Dir, below: Option<&[u8]>) -> Result<OpenedFolder<'t>, Errno> {
        OpenedFolder::open_nested(self.jail, top, below)
    }

    /// Returns how many names to hold, and how many bytes for them: no more names than can fit into the budget.
    fn begin(&self, builder: &mut TreeBuilder<'a>, folder: &WalkFolder) -> Option<(usize, usize)> {
        builder.current = builder.unopened.pop_front();
        builder.budget.give_back(builder.current.as_ref().map_or(0, |current| current.reserved_bytes));
        builder.is_denied = Box::new(self.jail.denied_entries(folder.path().clone()));
        let most = builder.budget.remaining() / SHORTEST_NODE_BYTES + 1;
        Some(folder::pass_capacity(self.options.per_folder_limit.min(most)))
    }

    fn select_name(
        &self,
        builder: &mut TreeBuilder<'a>,
        folder: &WalkFolder,
        dir: &Dir,
        entry: &DirEntry<'_>,
        is_taken: bool,
    ) -> Option<FileKind> {
        let hides = self.jail.settings().list_denied == DeniedInListings::Hide;
        let is_left_out = self.jail.is_private_entry(folder.path(), entry.name)
            || (hides && (builder.is_denied)(entry.name))
            || (self.options.excludes && self.is_excluded_name(dir, entry))
            || (self.options.obeys_ignore_files && self.is_ignored(builder, folder, dir, entry));
        match is_left_out {
            true => None,
            false if is_taken => entry_kind(dir, entry),
            false => Some(entry.kind),
        }
    }

    fn filter_names(
        &self,
        builder: &mut TreeBuilder<'a>,
        listed: ListedFolder<'_>,
        names: &mut NameList,
    ) -> Result<()> {
        let Some(folder) = builder.current.take() else { return Ok(()) };
        names.sort();
        let first = builder.nodes.len();
        let is_limited = names.len() as u64 == self.options.per_folder_limit;
        // Kept until it is known whether a note is needed.
        let spare = self.longest_note(&folder.below, listed.total);
        let mut total = listed.total;
        let mut has_room = builder.budget.take(CHILDREN_BYTES, spare);
        let mut checked = Ok(());
        names.retain(|name, kind| {
            if has_room && checked.is_ok() {
                checked = self.call.checkpoint();
            }
            if !has_room || checked.is_err() {
                return false;
            }
            match self.child(listed, name, kind, (builder.is_denied)(name)) {
                None => {
                    total = total.saturating_sub(1);
                    false
                }
                Some(child) => {
                    has_room = builder.budget.take(child.bytes(), spare);
                    has_room && builder.push(child)
                }
            }
        });
        checked?;
        self.finish_folder(builder, &folder, first, total, has_room.then_some(is_limited));
        Ok(())
    }

    fn is_beyond(&self, _: impl FnOnce() -> Vec<u8>) -> bool {
        self.is_used_up.get()
    }

    fn report_unopened(&self, builder: &mut TreeBuilder<'a>, below: &[u8], errno: Errno) -> Result<()> {
        if let Some(folder) = builder.current.take() {
            let error = folder_list_error(&String::from_utf8_lossy(&self.hints.name(below)), errno);
            builder.close_folder(&folder, unreadable_note(&error, folder.reserved_bytes));
        }
        Ok(())
    }
}

impl TreeBuilder<'_> {
    /// Adds a node. True if the walk has to enter it.
    fn push(&mut self, item: TreeItem) -> bool {
        let is_unopened = item.unopened.is_some();
        self.unopened.extend(item.unopened.map(|folder| UnopenedFolder { node_index: self.nodes.len(), ..folder }));
        self.nodes.push(item.node);
        is_unopened
    }

    /// Leaves the folder without children, and adds the note in the bytes that were reserved for it.
    fn close_folder(&mut self, folder: &UnopenedFolder, why: Truncated) {
        self.budget.take_anyway(note_bytes(&why).min(folder.reserved_bytes));
        self.nodes[folder.node_index].truncated = Some(why);
    }

    /// Builds the tree from the list: from the last opened folder back to the first, each takes its children off the end of
    /// the list.
    fn assemble(mut self) -> TreeNode {
        for (at, first) in self.opened.drain(..).rev() {
            self.nodes[at].children = Some(self.nodes.split_off(first));
        }
        self.nodes.swap_remove(0)
    }
}

impl TreeItem {
    fn reserved_bytes(&self) -> u64 {
        self.unopened.as_ref().map_or(0, |folder| folder.reserved_bytes)
    }

    /// Bytes of the node with its comma and with the note that it may need.
    fn bytes(&self) -> u64 {
        json_len(&self.node).saturating_add(1).saturating_add(self.reserved_bytes())
    }
}

fn note_bytes(note: &Truncated) -> u64 {
    json_len(note).saturating_add(TRUNCATED_BYTES)
}

/// The note for a folder that cannot be read. If its text is longer than the reserved bytes, it becomes a short one.
fn unreadable_note(error: &Error, reserved: u64) -> Truncated {
    let note = hint::io_error(error);
    if note_bytes(&note) <= reserved { note } else { Truncated { hint: "cannot be read".into(), ..note } }
}
