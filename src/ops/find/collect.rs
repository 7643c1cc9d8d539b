//! What was found so far: never more than a page and one, whatever the tree holds.

use std::{
    cmp::Ordering,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use crate::{
    jail::{Dir, Seen},
    ops::cursor::Mark,
    sys::fs::Kind,
    text::order,
    wire::{
        Result,
        types::find::{FindSkipped, FindSort},
    },
};

/// Hits that wait beyond a page before the page is made again.
const SLACK: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Absolute.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) mtime: i64,
    mtime_ns: u32,
    is_seen: bool,
}

impl Hit {
    pub(super) fn unseen(path: Vec<u8>, kind: Kind) -> Self {
        Self { path, kind, size: 0, mtime: 0, mtime_ns: 0, is_seen: false }
    }

    pub(super) fn see(&mut self, seen: &Seen) {
        self.is_seen = true;
        // A mount point is not looked at.
        if let Seen::Entry(stat) = seen {
            (self.kind, self.size) = (stat.kind, stat.size_bytes);
            (self.mtime, self.mtime_ns) = (stat.mtime, stat.mtime_ns);
        }
    }
}

/// The order of the reply, and where it goes on.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) sort: FindSort,
    /// Where the reply before ended.
    after: Option<Hit>,
    /// That one itself was not looked at.
    is_inclusive: bool,
}

impl Order {
    pub(super) fn new(sort: FindSort, mark: Mark, cursor: Option<&str>) -> Result<Self> {
        let Some(cursor) = cursor else { return Ok(Self { sort, after: None, is_inclusive: false }) };
        let ([seconds, nanos, is_inclusive], path) = mark.read::<3>(cursor)?;
        let mut after = Hit::unseen(path, Kind::Unknown);
        // Bit by bit, as it was written.
        (after.mtime, after.mtime_ns) = (seconds as i64, nanos as u32);
        Ok(Self { sort, after: Some(after), is_inclusive: is_inclusive != 0 })
    }

    /// What follows this hit.
    pub(super) fn cursor(&self, mark: Mark, last: &Hit) -> String {
        mark.write(&[last.mtime as u64, u64::from(last.mtime_ns), 0], &last.path)
    }

    /// This path, which nobody has looked at, and what follows it.
    pub(super) fn cursor_at(&self, mark: Mark, path: &[u8]) -> String {
        mark.write(&[0, 0, 1], path)
    }

    /// By path, a reply leaves out nothing before this one.
    pub(super) fn first_path(&self) -> Option<&[u8]> {
        self.after.as_ref().filter(|_| self.sort == FindSort::Path).map(|after| after.path.as_slice())
    }

    fn compare(&self, a: &Hit, b: &Hit) -> Ordering {
        let by_path = order::by_component(&a.path, &b.path);
        match self.sort {
            FindSort::Path => by_path,
            FindSort::Mtime => (b.mtime, b.mtime_ns).cmp(&(a.mtime, a.mtime_ns)).then(by_path),
        }
    }

    fn is_later(&self, hit: &Hit) -> bool {
        let later = if self.is_inclusive { Ordering::is_ge } else { Ordering::is_gt };
        self.after.as_ref().is_none_or(|after| later(self.compare(hit, after)))
    }
}

#[derive(Debug)]
pub(super) struct Collector {
    pub(super) order: Order,
    /// A page, and one more that tells that there is more.
    most: usize,
    state: Mutex<State>,
    is_full: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    hits: Vec<Hit>,
    skipped: FindSkipped,
    /// By path: hits behind this one do not matter.
    bound: Option<Vec<u8>>,
}

impl Collector {
    pub(super) fn new(order: Order, limit: usize) -> Self {
        Self { order, most: limit + 1, state: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, hits: &mut Vec<Hit>) {
        hits.retain(|hit| self.order.is_later(hit));
        let mut state = self.state();
        state.hits.append(hits);
        let is_first_page = self.order.sort == FindSort::Path && state.bound.is_none();
        if state.hits.len() > self.most + SLACK || (is_first_page && state.hits.len() >= self.most) {
            self.shrink(&mut state);
        }
    }

    fn shrink(&self, state: &mut State) {
        state.hits.sort_unstable_by(|a, b| self.order.compare(a, b));
        // Folders that lie in one another were both asked for.
        state.hits.dedup_by(|a, b| a.path == b.path);
        state.hits.truncate(self.most);
        if self.order.sort == FindSort::Path && state.hits.len() == self.most {
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
    }

    /// Looks at the hits below this folder that nobody has looked at, and drops those that have gone.
    pub(super) fn look(&self, top: &Dir, top_path: &[u8]) {
        let mut state = self.state();
        self.shrink(&mut state);
        state.hits.retain_mut(|hit| match order::below(&hit.path, top_path) {
            Some(below) if !hit.is_seen => top.stat_below(below).is_some_and(|seen| {
                hit.see(&seen);
                true
            }),
            _ => true,
        });
    }

    /// In order.
    pub(super) fn finish(&self) -> (Vec<Hit>, FindSkipped) {
        let mut state = self.state();
        self.shrink(&mut state);
        (std::mem::take(&mut state.hits), state.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(sort: FindSort, limit: usize) -> Collector {
        Collector::new(Order { sort, after: None, is_inclusive: false }, limit)
    }

    fn hit(path: String, mtime: i64) -> Hit {
        Hit { mtime, ..Hit::unseen(path.into_bytes(), Kind::File) }
    }

    #[test]
    fn a_page_and_one_is_kept_of_any_number() {
        for sort in [FindSort::Path, FindSort::Mtime] {
            let collector = collector(sort, 10);
            for at in 0..10_000i64 {
                collector.add(&mut vec![hit(format!("/{:05}", at * 7919 % 10_000), at)]);
                assert!(collector.state().hits.len() <= 11 + SLACK);
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
        collector.add(&mut vec![
            hit("/a".into(), 0),
            hit("/b".into(), 0),
            hit("/a".into(), 0),
            hit("/b".into(), 0),
        ]);
        assert_eq!(collector.finish().0.len(), 2);
    }
}
