//! Runs in the worker: a list of the changes that earlier entries of a batch will make, and lookups in it. Atomic batches and
//! dry runs resolve names through it, because nothing is on disk yet. Pure: no disk.
//! Trusts earlier claims. Never reports a name as present that is neither on disk nor made by an entry.

use std::sync::Arc;

use crate::{jail::Claim, path::JailPath, sys::fs::FileKind};

/// The changes so far, the oldest first. A clone is cheap; bounded by `max_batch_entries` and the folders above each name.
#[derive(Debug, Clone, Default)]
pub struct ForeseenChanges(Arc<Vec<(RootedPath, ForeseenChange)>>);

/// A path below a root, as its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jail) struct RootedPath {
    pub(in crate::jail) root: u16,
    pub(in crate::jail) rel: Vec<u8>,
}

#[derive(Debug, Clone)]
enum ForeseenChange {
    /// A file or an empty folder that is not on disk yet.
    Made(ForeseenEntry),
    Removed,
    /// The file or folder, with its content, that was at this other name before the change.
    MovedFrom(RootedPath),
    /// A copy of that.
    CopyOf(RootedPath),
    /// An entry that was not dry has changed it on disk: earlier plans for it no longer hold.
    ChangedOnDisk,
}

/// A file or folder that is not on disk yet.
#[derive(Debug, Clone)]
pub struct ForeseenEntry {
    pub kind: FileKind,
    pub mode: u32,
    /// Of a file, where a later entry may need it.
    pub content: Option<Arc<Vec<u8>>>,
}

/// Where the content of a new file comes from.
#[derive(Debug, Clone, Copy)]
pub enum ContentSource<'a> {
    Bytes(&'a [u8]),
    /// It is the same as what this name has.
    Copy(&'a JailPath),
    /// An edit of what is there. The caller itself keeps the new content for later edits.
    Edit,
}

/// What a name stands for once the changes were made.
#[derive(Debug)]
pub(in crate::jail) enum ForeseenView {
    /// What lies on disk under this name, if anything: the same name, or the one it will have come from.
    OnDisk(RootedPath),
    /// A copy of what lies on disk under this name.
    CopyOf(RootedPath),
    Made(ForeseenEntry),
    Absent,
    /// A name above it will be a file.
    BelowFile,
}

impl ForeseenEntry {
    fn folder(mode: u32) -> Self {
        Self { kind: FileKind::Dir, mode, content: None }
    }
}

impl RootedPath {
    /// The path of `self` relative to `above`; None if it does not lie at or below it.
    fn below<'n>(&'n self, above: &Self) -> Option<&'n [u8]> {
        if self.root != above.root {
            return None;
        }
        match self.rel.strip_prefix(above.rel.as_slice())? {
            rest if rest.is_empty() || above.rel.is_empty() => Some(rest),
            rest => rest.strip_prefix(b"/"),
        }
    }

    fn join(&self, rest: &[u8]) -> Self {
        let rel = if rest.is_empty() { self.rel.clone() } else { crate::jail::walk::join_path(&self.rel, rest) };
        Self { root: self.root, rel }
    }

    /// The folders above it, outermost first, without the root.
    pub(in crate::jail) fn above(&self) -> impl Iterator<Item = Self> {
        let slashes = memchr::memchr_iter(b'/', &self.rel);
        slashes.map(|slash| Self { root: self.root, rel: self.rel[..slash].to_vec() })
    }
}

impl From<&JailPath> for RootedPath {
    fn from(path: &JailPath) -> Self {
        Self { root: path.root(), rel: path.rel().to_vec() }
    }
}

impl ForeseenChanges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::jail) fn view(&self, name: &RootedPath) -> ForeseenView {
        let (mut name, mut is_copy) = (name.clone(), false);
        let on_disk = |name, is_copy| if is_copy { ForeseenView::CopyOf(name) } else { ForeseenView::OnDisk(name) };
        // Goes from the newest change to the oldest. Where a name came from another, the search continues with that name among the
        // older changes.
        for (at, change) in self.0.iter().rev() {
            let Some(rest) = name.below(at) else { continue };
            match change {
                ForeseenChange::ChangedOnDisk => return on_disk(name, is_copy),
                ForeseenChange::Removed => return ForeseenView::Absent,
                ForeseenChange::Made(node) if rest.is_empty() => return ForeseenView::Made(node.clone()),
                ForeseenChange::Made(node) if node.kind == FileKind::Dir => return ForeseenView::Absent,
                ForeseenChange::Made(_) => return ForeseenView::BelowFile,
                ForeseenChange::MovedFrom(source) => name = source.join(rest),
                ForeseenChange::CopyOf(source) => (name, is_copy) = (source.join(rest), true),
            }
        }
        on_disk(name, is_copy)
    }

    /// Whether a name that lies on disk will be gone.
    pub(in crate::jail) fn is_gone(&self, path: &JailPath) -> bool {
        matches!(self.view(&path.into()), ForeseenView::Absent)
    }

    /// Whether anything is planned for this name, above it or below it.
    pub(in crate::jail) fn touches(&self, name: &RootedPath) -> bool {
        self.0.iter().any(|(at, _)| name.below(at).is_some() || at.below(name).is_some())
    }

    /// Paths below `folder` that the batch will add.
    pub(in crate::jail) fn added_below(&self, folder: &RootedPath) -> Vec<Vec<u8>> {
        let mut added: Vec<Vec<u8>> = Vec::new();
        for (at, _) in self.0.iter() {
            let Some(rest) = at.below(folder).filter(|rest| !rest.is_empty()) else { continue };
            let is_there = match self.view(at) {
                ForeseenView::OnDisk(on_disk) => on_disk != *at,
                ForeseenView::Made(_) | ForeseenView::CopyOf(_) => true,
                ForeseenView::Absent | ForeseenView::BelowFile => false,
            };
            if is_there && !added.iter().any(|known| known == rest) {
                added.push(rest.to_vec());
            }
        }
        added
    }

    fn push(&mut self, name: RootedPath, change: ForeseenChange) {
        Arc::make_mut(&mut self.0).push((name, change));
    }

    fn push_parents(&mut self, claim: &Claim) {
        let root = claim.path().root();
        for rel in &claim.folders_to_make {
            self.push(
                RootedPath { root, rel: rel.clone() },
                ForeseenChange::Made(ForeseenEntry::folder(super::plan::FOLDER_MODE)),
            );
        }
    }

    pub(in crate::jail) fn add_entry(&mut self, claim: &Claim, node: ForeseenEntry) {
        self.push_parents(claim);
        self.push(claim.path().into(), ForeseenChange::Made(node));
    }

    pub(in crate::jail) fn add_folder(&mut self, claim: &Claim, mode: u32) {
        self.add_entry(claim, ForeseenEntry::folder(mode));
    }

    /// Adds a new file, which may replace an old one. `keeps`: whether to keep its bytes, because a later entry may read them.
    pub(in crate::jail) fn add_file(&mut self, claim: &Claim, mode: u32, source: ContentSource<'_>, keeps: bool) {
        match source {
            ContentSource::Edit => {}
            ContentSource::Bytes(bytes) => {
                let content = keeps.then(|| Arc::new(bytes.to_vec()));
                self.add_entry(claim, ForeseenEntry { kind: FileKind::File, mode, content });
            }
            ContentSource::Copy(from) => {
                self.push_parents(claim);
                self.push(claim.path().into(), ForeseenChange::CopyOf(from.into()));
            }
        }
    }

    pub(in crate::jail) fn add_removal(&mut self, claim: &Claim) {
        self.push(claim.path().into(), ForeseenChange::Removed);
    }

    pub(in crate::jail) fn add_rename(&mut self, from: &Claim, to: &Claim) {
        self.push_parents(to);
        self.push(to.path().into(), ForeseenChange::MovedFrom(from.path().into()));
        self.push(from.path().into(), ForeseenChange::Removed);
    }

    /// Whether the file or folder that will be at `from` has already had the name `to` in this batch. Recovery infers from the
    /// places of the files how many steps were done, so no file may have one name twice.
    pub(in crate::jail) fn returns_to(&self, from: &JailPath, to: &JailPath) -> bool {
        let (mut name, to) = (RootedPath::from(from), RootedPath::from(to));
        for (at, change) in self.0.iter().rev() {
            if let (Some(rest), ForeseenChange::MovedFrom(source)) = (name.below(at), change) {
                name = source.join(rest);
                if name == to {
                    return true;
                }
            }
        }
        false
    }

    /// Drops what was foreseen for this name: an entry that is not dry changes it on disk.
    pub fn forget(&mut self, path: &JailPath) {
        if self.touches(&path.into()) {
            self.push(path.into(), ForeseenChange::ChangedOnDisk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(rel: &str) -> RootedPath {
        RootedPath { root: 0, rel: rel.into() }
    }

    fn seen(foreseen: &ForeseenChanges, rel: &str) -> String {
        match foreseen.view(&name(rel)) {
            ForeseenView::OnDisk(at) => String::from_utf8(at.rel).unwrap(),
            ForeseenView::CopyOf(at) => format!("copy of {}", String::from_utf8(at.rel).unwrap()),
            ForeseenView::Made(node) => format!("{:?}", node.kind),
            ForeseenView::Absent => "-".into(),
            ForeseenView::BelowFile => "below a file".into(),
        }
    }

    fn moved(planned: &mut ForeseenChanges, from: &str, to: &str) {
        planned.push(name(to), ForeseenChange::MovedFrom(name(from)));
        planned.push(name(from), ForeseenChange::Removed);
    }

    #[test]
    fn a_chain_of_moves_leads_back_to_what_is_on_disk() {
        let mut planned = ForeseenChanges::default();
        moved(&mut planned, "a", "b");
        moved(&mut planned, "b", "c/d");
        for (rel, stands_for) in
            [("a", "-"), ("a/x", "-"), ("b", "-"), ("c/d", "a"), ("c/d/x/y", "a/x/y"), ("cc", "cc"), ("c", "c")]
        {
            assert_eq!(seen(&planned, rel), stands_for, "{rel}");
        }
    }

    #[test]
    fn a_file_that_comes_back_is_noticed_also_with_its_folder() {
        let mut planned = ForeseenChanges::default();
        moved(&mut planned, "d", "e");
        moved(&mut planned, "e/x", "y");
        let path = |rel: &str| crate::path::RootTable::new(vec![root()]).check(0, rel.as_bytes()).unwrap();
        for (to, is_back) in [("d/x", true), ("e/x", true), ("z", false), ("d/y", false)] {
            assert_eq!(planned.returns_to(&path("y"), &path(to)), is_back, "{to}");
        }
    }

    fn root() -> crate::path::Root {
        crate::path::Root {
            path: "/r".into(),
            mode: crate::path::Mode::Rw,
            symlinks: crate::path::Symlinks::Refuse,
            cross_mounts: false,
            hardlinks: crate::path::Hardlinks::Allow,
            access_times: crate::path::AccessTimes::OwnerOnly,
        }
    }

    #[test]
    fn a_swap_by_a_third_name_is_a_swap() {
        let mut planned = ForeseenChanges::default();
        moved(&mut planned, "a", "t");
        moved(&mut planned, "b", "a");
        moved(&mut planned, "t", "b");
        assert_eq!(["a", "b", "t", "a/x"].map(|rel| seen(&planned, rel)), ["b", "a", "-", "b/x"]);
    }

    #[test]
    fn what_left_a_folder_before_it_was_moved_does_not_come_along() {
        let mut planned = ForeseenChanges::default();
        moved(&mut planned, "d/x", "x");
        moved(&mut planned, "d", "e");
        assert_eq!(["e/x", "e/y", "x", "d/y"].map(|rel| seen(&planned, rel)), ["-", "d/y", "d/x", "-"]);
    }

    #[test]
    fn made_folders_are_empty_and_files_hold_no_names() {
        let mut planned = ForeseenChanges::default();
        planned.push(name("d"), ForeseenChange::Made(ForeseenEntry::folder(0o755)));
        planned
            .push(name("f"), ForeseenChange::Made(ForeseenEntry { kind: FileKind::File, mode: 0o644, content: None }));
        planned.push(name("d/in"), ForeseenChange::Made(ForeseenEntry::folder(0o755)));
        assert_eq!(
            ["d", "d/x", "d/in", "f", "f/x"].map(|rel| seen(&planned, rel)),
            ["Dir", "-", "Dir", "File", "below a file"]
        );
        assert_eq!(planned.added_below(&name("d")), [b"in"]);
        assert_eq!(planned.added_below(&name("")).len(), 3);
    }

    #[test]
    fn a_copy_is_not_what_it_was_copied_from() {
        let mut planned = ForeseenChanges::default();
        planned.push(name("b"), ForeseenChange::CopyOf(name("a")));
        moved(&mut planned, "b", "c");
        assert_eq!(["a", "b", "c", "c/x"].map(|rel| seen(&planned, rel)), ["a", "-", "copy of a", "copy of a/x"]);
    }

    #[test]
    fn a_real_change_ends_what_was_planned() {
        let mut planned = ForeseenChanges::default();
        planned.push(name("a"), ForeseenChange::Removed);
        planned.push(name("a"), ForeseenChange::ChangedOnDisk);
        assert_eq!((seen(&planned, "a").as_str(), seen(&planned, "a/b").as_str()), ("a", "a/b"));
    }

    #[test]
    fn names_above_are_listed_from_the_outermost() {
        let above: Vec<Vec<u8>> = name("a/b/c").above().map(|name| name.rel).collect();
        assert_eq!(above, [b"a".to_vec(), b"a/b".to_vec()]);
        assert_eq!(name("a").above().count(), 0);
    }
}
