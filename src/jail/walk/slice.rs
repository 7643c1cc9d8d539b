//! Runs in the worker: the sorted names of a folder that a walk has to visit or enter. A folder with very many names comes in
//! several slices, so that neither its size nor the depth of the tree increases the memory of a walk.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{WalkEntry, folder::WalkFolder};
use crate::{
    jail::{Dir, NameList},
    sys::fs::FileKind,
};

/// Approximate bytes of names that all slices of a walk hold together.
const NAMES_BYTES: usize = 16 << 20;
/// Bytes that a slice gets even if the others hold all of `NAMES_BYTES`. A path has at most 4,096 bytes, so at most 2,048 slices
/// are nested.
const MIN_SLICE_BYTES: usize = 8 << 10;
/// Folders that slices keep open until their files are read; other folders are opened again.
const KEPT_FOLDERS: usize = 32;

/// The bytes that the slices of one walk hold, and their limit.
#[derive(Debug)]
pub(super) struct SliceBudget {
    max_bytes: usize,
    names_bytes: AtomicUsize,
    folders: AtomicUsize,
}

impl Default for SliceBudget {
    fn default() -> Self {
        Self::new(NAMES_BYTES)
    }
}

impl SliceBudget {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { max_bytes: most_bytes, names_bytes: AtomicUsize::new(0), folders: AtomicUsize::new(0) }
    }

    /// Bytes of names for the next slice: half of what is left, because a large folder can hold another large folder.
    pub(super) fn next_slice_bytes(&self) -> usize {
        let left = self.max_bytes.saturating_sub(self.names_bytes.load(Ordering::Relaxed));
        (left / 2).max(MIN_SLICE_BYTES.min(self.max_bytes))
    }
}

pub(super) struct Slice {
    folder: Arc<WalkFolder>,
    names: NameList,
    /// The largest name of this slice, if the folder has more names.
    rest: Option<Vec<u8>>,
    dir: Option<Dir>,
    names_bytes: usize,
    budget: Arc<SliceBudget>,
}

impl Slice {
    pub(super) fn new(
        stock: &Arc<SliceBudget>,
        folder: Arc<WalkFolder>,
        mut names: NameList,
        rest: Option<Vec<u8>>,
        dir: Option<Dir>,
    ) -> Self {
        names.shrink();
        names.sort();
        let has_files = (0..names.len()).any(|at| names.kind(at) != FileKind::Dir);
        // Two threads may both take the last descriptor; the limit on descriptors allows for that.
        let dir = dir.filter(|_| has_files && stock.folders.load(Ordering::Relaxed) < KEPT_FOLDERS);
        let names_bytes = names.bytes();
        stock.names_bytes.fetch_add(names_bytes, Ordering::Relaxed);
        stock.folders.fetch_add(usize::from(dir.is_some()), Ordering::Relaxed);
        Self { folder, names, rest, dir, names_bytes, budget: Arc::clone(stock) }
    }

    pub(super) fn folder(&self) -> &Arc<WalkFolder> {
        &self.folder
    }

    pub(super) fn dir(&self) -> Option<&Dir> {
        self.dir.as_ref()
    }

    pub(super) fn rest(&self) -> Option<&[u8]> {
        self.rest.as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn is_dir(&self, at: usize) -> bool {
        self.names.kind(at) == FileKind::Dir
    }

    pub(super) fn folder_at(&self, at: usize) -> WalkFolder {
        self.folder.child(self.names.name(at))
    }

    pub(super) fn path_at(&self, at: usize) -> Vec<u8> {
        self.folder.path_of(Some(self.names.name(at)))
    }

    /// `path` is a buffer for the entry's path.
    pub(super) fn entry<'a>(&'a self, at: usize, path: &'a mut Vec<u8>) -> WalkEntry<'a> {
        let name = self.names.name(at);
        path.clear();
        path.extend_from_slice(self.folder.path().rel());
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        WalkEntry { path, name, kind: self.names.kind(at), depth: self.folder.depth() + 1 }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.budget.names_bytes.fetch_sub(self.names_bytes, Ordering::Relaxed);
        self.budget.folders.fetch_sub(usize::from(self.dir.is_some()), Ordering::Relaxed);
    }
}
