//! One folder's walk: which entries are hits.

use std::{ops::RangeInclusive, sync::Arc};

use super::collect::{Collector, Hit};
use crate::{
    jail::{
        Dir, Halt, Seen,
        walk::{LeftOut, Met, Visitor},
    },
    ops::scope::Globs,
    sys::fs::Kind,
    wire::types::find::{FindKind, FindSkipped, FindSort},
};

/// Hits that a thread keeps to itself before it hands them over.
const HELD: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Filters {
    pub(super) kind: FindKind,
    /// Only files have one.
    pub(super) size: Option<RangeInclusive<u64>>,
    pub(super) after: Option<i64>,
    pub(super) before: Option<i64>,
}

impl Filters {
    fn takes(&self, kind: Kind) -> bool {
        match self.kind {
            FindKind::Any => true,
            FindKind::File => kind == Kind::File,
            FindKind::Dir => kind == Kind::Dir,
        }
    }

    fn need_a_look(&self) -> bool {
        self.size.is_some() || self.after.is_some() || self.before.is_some()
    }

    fn take(&self, hit: &Hit) -> bool {
        self.takes(hit.kind)
            && self.size.as_ref().is_none_or(|size| hit.kind == Kind::File && size.contains(&hit.size))
            && self.after.is_none_or(|after| hit.mtime > after)
            && self.before.is_none_or(|before| hit.mtime < before)
    }
}

pub(super) struct Finding {
    pub(super) collector: Arc<Collector>,
    pub(super) filters: Filters,
    /// For paths below the walk's folder; None: all.
    pub(super) globs: Option<Globs>,
    pub(super) max_depth: Option<u32>,
    /// Absolute path of the root with a final slash.
    pub(super) root: Vec<u8>,
    /// Bytes of a root-relative path before what the globs look at.
    pub(super) prefix: usize,
}

#[derive(Default)]
pub(super) struct Held {
    hits: Vec<Hit>,
    skipped: FindSkipped,
}

impl Finding {
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        [&self.root, path].concat()
    }

    fn hit(&self, dir: &Dir, entry: Met<'_>) -> Option<Hit> {
        let is_wanted = self.filters.takes(entry.kind)
            && self.globs.as_ref().is_none_or(|globs| globs.has(&entry.path[self.prefix..]));
        if !is_wanted {
            return None;
        }
        let mut hit = Hit::unseen(self.absolute(entry.path), entry.kind);
        if self.filters.need_a_look() || self.collector.order.sort == FindSort::Mtime {
            hit.see(&dir.stat_entry(entry.name)?);
        }
        self.filters.take(&hit).then_some(hit)
    }

    /// A file that was named itself.
    pub(super) fn add(&self, path: &[u8], seen: &Seen) {
        let mut hit = Hit::unseen(self.absolute(path), Kind::Unknown);
        hit.see(seen);
        if self.filters.take(&hit) {
            self.collector.add(&mut vec![hit]);
        }
    }
}

impl Visitor for Finding {
    type Local = Held;

    fn local(&self) -> Held {
        Held::default()
    }

    fn meet(&self, held: &mut Held, dir: &Dir, entry: Met<'_>) -> bool {
        held.hits.extend(self.hit(dir, entry));
        if held.hits.len() >= HELD {
            self.collector.add(&mut held.hits);
        }
        // All that is to be known about it is known.
        false
    }

    fn enters(&self, folder: Met<'_>) -> bool {
        self.max_depth.is_none_or(|deepest| folder.depth < deepest)
    }

    fn visit(&self, _: &mut Held, _: &Dir, _: Met<'_>) -> Result<(), Halt> {
        Ok(())
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.collector.is_beyond(|| self.absolute(&path()))
    }

    fn left_out(&self, held: &mut Held, why: LeftOut) {
        match why {
            LeftOut::Unreadable => held.skipped.unreadable += 1,
            LeftOut::TooDeep => held.skipped.too_deep += 1,
            // It is listed, which is all that find promises.
            LeftOut::Special => {}
        }
    }

    fn leave(&self, mut held: Held) {
        self.collector.add(&mut held.hits);
        self.collector.count_skipped(held.skipped);
    }
}
