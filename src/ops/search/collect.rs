//! Collects hits, file by file: little more than a page of them, whatever the tree holds.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::plan::{SearchPlan, SearchResultKind};
use crate::{
    text::{
        order,
        search::{MatchedLines, ScanCut, ScanOutcome},
    },
    wire::types::search::{SearchSort, Skipped},
};

/// When a file was changed: seconds since 1970, and nanoseconds. Zero in a search that is sorted by path.
pub(super) type ModifiedAt = (i64, u32);

/// The place of a file in the order of replies: the newest first, then by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileKey {
    pub(super) changed: ModifiedAt,
    /// Absolute.
    pub(super) path: Vec<u8>,
}

impl Ord for FileKey {
    fn cmp(&self, other: &Self) -> Ordering {
        other.changed.cmp(&self.changed).then_with(|| order::by_component(&self.path, &other.path))
    }
}

impl PartialOrd for FileKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The hits of one file.
#[derive(Debug, Default)]
pub(super) struct FileHits {
    pub(super) has_path: bool,
    pub(super) content: ScanOutcome,
    pub(super) etag: Option<String>,
}

impl FileHits {
    fn has_content(&self) -> bool {
        self.content.count > 0 || self.content.cut == Some(ScanCut::Page)
    }
}

/// The space in a reply that some of the hits need.
#[derive(Debug, Clone, Copy, Default)]
struct HitTotals {
    content: u64,
    paths: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct SearchCollectorState {
    files: BTreeMap<FileKey, FileHits>,
    totals: HitTotals,
    skipped: Skipped,
}

#[derive(Debug)]
pub(super) struct SearchCollector {
    result_kind: SearchResultKind,
    max_matches: u64,
    budget_bytes: u64,
    sort: SearchSort,
    state: Mutex<SearchCollectorState>,
    is_full: AtomicBool,
}

/// Bytes of the budget that a match needs: its path, its text and its context lines.
pub(super) fn match_cost(path: &[u8], found: &MatchedLines) -> u64 {
    let context = found.before.iter().chain(&found.after).map(String::len).sum::<usize>();
    (path.len() + found.shown.text.len() + context) as u64
}

impl SearchCollector {
    pub(super) fn new(plan: &SearchPlan) -> Self {
        Self {
            result_kind: plan.result_kind,
            max_matches: plan.max_matches,
            budget_bytes: plan.budget_bytes,
            sort: plan.sort,
            state: Mutex::default(),
            is_full: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, SearchCollectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file's path and its content may come one after the other, and a file of two overlapping folders twice.
    pub(super) fn add(&self, key: FileKey, hits: FileHits) {
        let mut state = self.state();
        let mut known = state.files.remove(&key).unwrap_or_default();
        let before = self.totals_of(&key, &known);
        known.has_path |= hits.has_path;
        if hits.has_content() {
            known.content = hits.content;
            known.etag = hits.etag;
        }
        let after = self.totals_of(&key, &known);
        state.totals = state.totals.less(before).plus(after);
        state.files.insert(key, known);
        self.shrink(&mut state);
    }

    fn totals_of(&self, key: &FileKey, hits: &FileHits) -> HitTotals {
        let path = key.path.len() as u64;
        let paths = u64::from(hits.has_path);
        if self.result_kind != SearchResultKind::Matches {
            let is_hit = u64::from(hits.has_content() || hits.has_path);
            return HitTotals { content: is_hit, paths: 0, bytes: is_hit * path };
        }
        let found = &hits.content.found;
        let bytes: u64 = found.iter().map(|found| match_cost(&key.path, found)).sum();
        HitTotals { content: found.len() as u64, paths, bytes: bytes + paths * path }
    }

    fn exceeds_page(&self, sum: HitTotals) -> bool {
        sum.content > self.max_matches || sum.paths > self.max_matches || sum.bytes > self.budget_bytes
    }

    /// Drops the last file as long as the others are more than a page without it.
    fn shrink(&self, state: &mut SearchCollectorState) {
        while let Some((key, hits)) = state.files.last_key_value() {
            let without = state.totals.less(self.totals_of(key, hits));
            if !self.exceeds_page(without) {
                break;
            }
            state.totals = without;
            state.files.pop_last();
        }
        if self.exceeds_page(state.totals) {
            self.is_full.store(true, Relaxed);
        }
    }

    /// True if a page is full and this path comes after it.
    pub(super) fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        if !self.is_full.load(Relaxed) || self.sort != SearchSort::Path {
            return false;
        }
        let state = self.state();
        state.files.last_key_value().is_some_and(|(last, _)| order::by_component(&path(), &last.path).is_gt())
    }

    /// A page is full, and this file comes behind it.
    pub(super) fn is_behind_page(&self, key: &FileKey) -> bool {
        self.is_full.load(Relaxed) && self.state().files.last_key_value().is_some_and(|(last, _)| key > last)
    }

    pub(super) fn count_skipped(&self, more: Skipped) {
        let skipped = &mut self.state().skipped;
        skipped.binary += more.binary;
        skipped.unreadable += more.unreadable;
        skipped.special += more.special;
        skipped.too_deep += more.too_deep;
        skipped.long_line += more.long_line;
        skipped.too_large += more.too_large;
        skipped.ignored += more.ignored;
    }

    /// In order.
    pub(super) fn take(&self) -> (BTreeMap<FileKey, FileHits>, Skipped) {
        let mut state = self.state();
        (std::mem::take(&mut state.files), state.skipped)
    }
}

impl HitTotals {
    fn plus(self, other: Self) -> Self {
        Self { content: self.content + other.content, paths: self.paths + other.paths, bytes: self.bytes + other.bytes }
    }

    fn less(self, other: Self) -> Self {
        Self { content: self.content - other.content, paths: self.paths - other.paths, bytes: self.bytes - other.bytes }
    }
}
