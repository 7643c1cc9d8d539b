//! Collects hits: little more than a page of them, whatever the tree holds.

use std::{
    cmp::Ordering,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use crate::{
    jail::{Dir, EntryStat},
    ops::cursor::RequestFingerprint,
    sys::fs::FileKind,
    text::order,
    wire::{
        Result,
        types::find::{FindSkipped, FindSort},
    },
};

/// Hits that wait beyond a page before the page is made again.
const MAX_EXTRA_HITS: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FindHit {
    /// Absolute.
    pub(super) path: Vec<u8>,
    pub(super) kind: FileKind,
    pub(super) size: u64,
    pub(super) mtime: i64,
    mtime_ns: u32,
    has_stat: bool,
}

impl FindHit {
    pub(super) fn without_stat(path: Vec<u8>, kind: FileKind) -> Self {
        Self { path, kind, size: 0, mtime: 0, mtime_ns: 0, has_stat: false }
    }

    pub(super) fn set_stat(&mut self, seen: &EntryStat) {
        self.has_stat = true;
        // A mount point has no stat.
        if let EntryStat::Entry(stat) = seen {
            (self.kind, self.size) = (stat.kind, stat.size_bytes);
            (self.mtime, self.mtime_ns) = (stat.mtime, stat.mtime_ns);
        }
    }
}

/// The order of the reply, and the place where it continues an earlier one.
#[derive(Debug)]
pub(super) struct FindOrder {
    pub(super) sort: FindSort,
    /// The last hit of the reply before.
    after: Option<FindHit>,
    /// The path in `after` was not examined yet, so this reply includes it.
    is_inclusive: bool,
}

impl FindOrder {
    pub(super) fn new(sort: FindSort, mark: RequestFingerprint, cursor: Option<&str>) -> Result<Self> {
        let Some(cursor) = cursor else { return Ok(Self { sort, after: None, is_inclusive: false }) };
        let ([seconds, nanos, is_inclusive], path) = mark.decode_cursor::<3>(cursor)?;
        let mut after = FindHit::without_stat(path, FileKind::Unknown);
        // Bit by bit, as it was written.
        (after.mtime, after.mtime_ns) = (seconds as i64, nanos as u32);
        Ok(Self { sort, after: Some(after), is_inclusive: is_inclusive != 0 })
    }

    /// A cursor for what follows this hit.
    pub(super) fn cursor(&self, mark: RequestFingerprint, last: &FindHit) -> String {
        mark.encode_cursor(&[last.mtime as u64, u64::from(last.mtime_ns), 0], &last.path)
    }

    /// A cursor for this path, which was not examined yet, and for what follows it.
    pub(super) fn cursor_at(&self, mark: RequestFingerprint, path: &[u8]) -> String {
        mark.encode_cursor(&[0, 0, 1], path)
    }

    /// In the order of paths, the replies before contain all hits before this path.
    pub(super) fn first_path(&self) -> Option<&[u8]> {
        self.after.as_ref().filter(|_| self.sort == FindSort::Path).map(|after| after.path.as_slice())
    }

    fn compare(&self, a: &FindHit, b: &FindHit) -> Ordering {
        let by_path = order::by_component(&a.path, &b.path);
        match self.sort {
            FindSort::Path => by_path,
            FindSort::Mtime => (b.mtime, b.mtime_ns).cmp(&(a.mtime, a.mtime_ns)).then(by_path),
        }
    }

    fn is_later(&self, hit: &FindHit) -> bool {
        let later = if self.is_inclusive { Ordering::is_ge } else { Ordering::is_gt };
        self.after.as_ref().is_none_or(|after| later(self.compare(hit, after)))
    }
}

#[derive(Debug)]
pub(super) struct FindCollector {
    pub(super) order: FindOrder,
    /// A page, and one more hit that shows that there is another page.
    max_hits: usize,
    state: Mutex<FindCollectorState>,
    is_full: AtomicBool,
}

#[derive(Debug, Default)]
struct FindCollectorState {
    hits: Vec<FindHit>,
    skipped: FindSkipped,
    /// In the order of paths, hits after this one do not matter.
    bound: Option<Vec<u8>>,
}

impl FindCollector {
    pub(super) fn new(order: FindOrder, limit: usize) -> Self {
        Self { order, max_hits: limit + 1, state: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, FindCollectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, hits: &mut Vec<FindHit>) {
        hits.retain(|hit| self.order.is_later(hit));
        let mut state = self.state();
        state.hits.append(hits);
        let is_first_page = self.order.sort == FindSort::Path && state.bound.is_none();
        if state.hits.len() > self.max_hits + MAX_EXTRA_HITS || (is_first_page && state.hits.len() >= self.max_hits) {
            self.shrink(&mut state);
        }
    }

    fn shrink(&self, state: &mut FindCollectorState) {
        state.hits.sort_unstable_by(|a, b| self.order.compare(a, b));
        // If the request names a folder and another one inside it, a hit occurs twice.
        state.hits.dedup_by(|a, b| a.path == b.path);
        state.hits.truncate(self.max_hits);
        if self.order.sort == FindSort::Path && state.hits.len() == self.max_hits {
            state.bound = state.hits.last().map(|last| last.path.clone());
            self.is_full.store(true, Relaxed);
        }
    }

    pub(super) fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.is_full.load(Relaxed)
            && self.state().bound.as_ref().is_some_and(|bound| order::by_component(&path(), bound).is_gt())
    }

    pub(super) fn count_skipped(&self, skipped: FindSkipped) {
        let mut state = self.state();
        state.skipped.unreadable += skipped.unreadable;
        state.skipped.too_deep += skipped.too_deep;
        state.skipped.ignored += skipped.ignored;
    }

    /// Reads the stat of the hits below this folder that have none yet, and drops those that no longer exist.
    pub(super) fn stat_hits(&self, top: &Dir, top_path: &[u8]) {
        let mut state = self.state();
        self.shrink(&mut state);
        state.hits.retain_mut(|hit| match order::below(&hit.path, top_path) {
            Some(below) if !hit.has_stat => top.stat_below(below).is_some_and(|seen| {
                hit.set_stat(&seen);
                true
            }),
            _ => true,
        });
    }

    /// Entries that ignore files hid so far.
    pub(super) fn ignored(&self) -> u64 {
        self.state().skipped.ignored
    }

    /// In order.
    pub(super) fn finish(&self) -> (Vec<FindHit>, FindSkipped) {
        let mut state = self.state();
        self.shrink(&mut state);
        (std::mem::take(&mut state.hits), state.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(sort: FindSort, limit: usize) -> FindCollector {
        FindCollector::new(FindOrder { sort, after: None, is_inclusive: false }, limit)
    }

    fn hit(path: String, mtime: i64) -> FindHit {
        FindHit { mtime, ..FindHit::without_stat(path.into_bytes(), FileKind::File) }
    }

    #[test]
    fn a_page_and_one_is_kept_of_any_number() {
        for sort in [FindSort::Path, FindSort::Mtime] {
            let collector = collector(sort, 10);
            for at in 0..10_000i64 {
                collector.add(&mut vec![hit(format!("/{:05}", at * 7919 % 10_000), at)]);
                assert!(collector.state().hits.len() <= 11 + MAX_EXTRA_HITS);
            }
            let (hits, _) = collector.finish();
            let expected = |at: i64| match sort {
                FindSort::Path => format!("/{at:05}"),
                FindSort::Mtime => format!("/{:05}", (9_999 - at) * 7919 % 10_000),
            };
            assert_eq!(hits.len(), 11);
            assert!((0..).zip(&hits).all(|(at, hit)| hit.path == expected(at).as_bytes()), "{hits:?}");
        }
    }

    #[test]
    fn what_lies_behind_a_full_page_is_beyond() {
        let collector = collector(FindSort::Path, 2);
        collector.add(&mut vec![hit("/c".into(), 0), hit("/a".into(), 0)]);
        assert!(!collector.is_beyond(|| b"/z".to_vec()));
        collector.add(&mut vec![hit("/b".into(), 0)]);
        assert!(collector.is_beyond(|| b"/d".to_vec()) && !collector.is_beyond(|| b"/c".to_vec()));
    }

    #[test]
    fn the_same_path_found_twice_is_one_hit() {
        let collector = collector(FindSort::Path, 2);
        collector.add(&mut vec![hit("/a".into(), 0), hit("/b".into(), 0), hit("/a".into(), 0), hit("/b".into(), 0)]);
        assert_eq!(collector.finish().0.len(), 2);
    }
}
