//! One folder's walk: which entries are hits.

use std::{ops::RangeInclusive, sync::Arc};

use super::{
    collect::{FindCollector, FindHit},
    missing::MissingNames,
};
use crate::{
    jail::{
        Dir, EntryStat, HaltReason,
        walk::{LeftOut, Visitor, WalkEntry},
    },
    ops::scope::FolderGlobs,
    sys::fs::FileKind,
    wire::types::find::{FindKind, FindSkipped, FindSort},
};

/// Hits that a thread keeps to itself before it hands them over.
const MAX_BUFFERED_HITS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct FindFilters {
    pub(super) kind: FindKind,
    /// Only files have one.
    pub(super) size: Option<RangeInclusive<u64>>,
    pub(super) after: Option<i64>,
    pub(super) before: Option<i64>,
}

impl FindFilters {
    fn accepts_kind(&self, kind: FileKind) -> bool {
        match self.kind {
            FindKind::Any => true,
            FindKind::File => kind == FileKind::File,
            FindKind::Dir => kind == FileKind::Dir,
        }
    }

    fn need_stat(&self) -> bool {
        self.size.is_some() || self.after.is_some() || self.before.is_some()
    }

    fn accepts(&self, hit: &FindHit) -> bool {
        self.accepts_kind(hit.kind)
            && self.size.as_ref().is_none_or(|size| hit.kind == FileKind::File && size.contains(&hit.size))
            && self.after.is_none_or(|after| hit.mtime > after)
            && self.before.is_none_or(|before| hit.mtime < before)
    }
}

pub(super) struct FindVisitor {
    pub(super) collector: Arc<FindCollector>,
    pub(super) filters: FindFilters,
    /// For paths below the walk's folder; None: all.
    pub(super) globs: Option<FolderGlobs>,
    pub(super) max_depth: Option<u32>,
    /// Absolute path of the root with a final slash.
    pub(super) root: Vec<u8>,
    /// Bytes at the beginning of a root-relative path that the globs do not see.
    pub(super) prefix_bytes: usize,
    /// Names that are looked for at any depth.
    pub(super) missing_names: Option<Arc<MissingNames>>,
}

#[derive(Default)]
pub(super) struct FindBuffer {
    hits: Vec<FindHit>,
    skipped: FindSkipped,
}

impl FindVisitor {
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        [&self.root, path].concat()
    }

    fn hit(&self, dir: &Dir, entry: WalkEntry<'_>) -> Option<FindHit> {
        let is_wanted = self.filters.accepts_kind(entry.kind)
            && self.globs.as_ref().is_none_or(|globs| globs.has(&entry.path[self.prefix_bytes..]));
        if !is_wanted {
            return None;
        }
        let mut hit = FindHit::without_stat(self.absolute(entry.path), entry.kind);
        if self.filters.need_stat() || self.collector.order.sort == FindSort::Mtime {
            hit.set_stat(&dir.stat_entry(entry.name)?);
        }
        self.filters.accepts(&hit).then_some(hit)
    }

    /// A file that was named itself.
    pub(super) fn add(&self, path: &[u8], seen: &EntryStat) {
        let mut hit = FindHit::without_stat(self.absolute(path), FileKind::Unknown);
        hit.set_stat(seen);
        if self.filters.accepts(&hit) {
            self.collector.add(&mut vec![hit]);
        }
    }
}

impl Visitor for FindVisitor {
    type ThreadData = FindBuffer;

    fn new_thread_data(&self) -> FindBuffer {
        FindBuffer::default()
    }

    fn admit(&self, buffer: &mut FindBuffer, dir: &Dir, entry: WalkEntry<'_>) -> bool {
        if let Some(missing) = &self.missing_names {
            missing.compare(entry.name, &entry.path[self.prefix_bytes..]);
        }
        buffer.hits.extend(self.hit(dir, entry));
        if buffer.hits.len() >= MAX_BUFFERED_HITS {
            self.collector.add(&mut buffer.hits);
        }
        // All that is to be known about it is known.
        false
    }

    fn enters(&self, folder: WalkEntry<'_>) -> bool {
        self.max_depth.is_none_or(|deepest| folder.depth < deepest)
    }

    fn visit(&self, _: &mut FindBuffer, _: &Dir, _: WalkEntry<'_>) -> Result<(), HaltReason> {
        Ok(())
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.collector.is_beyond(|| self.absolute(&path()))
    }

    fn count_left_out(&self, buffer: &mut FindBuffer, why: LeftOut) {
        match why {
            LeftOut::Unreadable => buffer.skipped.unreadable += 1,
            LeftOut::TooDeep => buffer.skipped.too_deep += 1,
            // It is listed, which is all that find promises.
            LeftOut::Special => {}
            LeftOut::Ignored => buffer.skipped.ignored += 1,
        }
    }

    fn finish_thread(&self, mut buffer: FindBuffer) {
        self.collector.add(&mut buffer.hits);
        self.collector.count_skipped(buffer.skipped);
    }
}
