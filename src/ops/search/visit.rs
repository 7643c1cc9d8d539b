//! One folder's walk: which files are read, and what is found in them.

use std::sync::{Arc, Mutex};

use super::{
    collect::{FileHits, FileKey, ModifiedAt, SearchCollector},
    file::{self, FileBuffers, UnsearchedReason},
    plan::SearchPlan,
    root_prefix,
};
use crate::{
    jail::{
        Dir, EntryOpenError, EntryStat, HaltReason, Jail, JailFile,
        walk::{LeftOut, Visitor, WalkEntry},
    },
    ops::scope::FolderGlobs,
    path::JailPath,
    sys::fs::{FileKind, FileStat},
    text::search::{EngineBuffers, ScanOptions, Scanner},
    wire::types::search::{SearchSort, Skipped},
};

pub(super) struct SearchVisitor {
    plan: Arc<SearchPlan>,
    collector: Arc<SearchCollector>,
    jail: Jail,
    /// Absolute path of the root with a final slash.
    root: Vec<u8>,
    /// For paths below the walk's folder, besides those of the request.
    globs: Option<FolderGlobs>,
    prefix_bytes: usize,
    /// Held by the one thread that needs a large buffer: lines and files for whole matches may have megabytes.
    large_buffer_lock: Mutex<()>,
}

/// Buffers of one thread.
pub(super) struct SearchBuffers {
    scratch: EngineBuffers,
    file_buffers: FileBuffers,
    scan_options: ScanOptions,
    skipped: Skipped,
}

impl SearchVisitor {
    pub(super) fn new(
        jail: &Jail,
        plan: &Arc<SearchPlan>,
        collector: &Arc<SearchCollector>,
        top: &JailPath,
        globs: Option<FolderGlobs>,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            collector: Arc::clone(collector),
            jail: jail.clone(),
            root: root_prefix(jail, top),
            globs,
            prefix_bytes: if top.is_root() { 0 } else { top.rel().len() + 1 },
            large_buffer_lock: Mutex::new(()),
        }
    }

    pub(super) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        [&self.root, path].concat()
    }

    /// `changed`: when the file was changed; None if it is gone.
    pub(super) fn match_path(
        &self,
        buffers: &mut SearchBuffers,
        path: &[u8],
        changed: impl FnOnce() -> Option<ModifiedAt>,
    ) {
        // A folder is met in one go, and a slow regex may take all the time there is for its names: then the walk, which
        // looks at the clock behind each folder, goes back to its beginning.
        let is_late = || self.plan.pattern.literal_len().is_none() && self.plan.clock.check().is_err();
        if !self.plan.searches_paths
            || is_late()
            || self.plan.pattern.matches(&mut buffers.scratch, path) == self.plan.is_inverted
        {
            return;
        }
        let Some(changed) = self.plan.time_in_order(changed) else { return };
        let key = FileKey { changed, path: self.absolute(path) };
        let is_shown = self.plan.resume_point_in(&key.path).is_some_and(|from| from.in_content);
        if self.plan.is_remaining(&key) && !is_shown {
            self.collector.add(key, FileHits { has_path: true, ..FileHits::default() });
        }
    }

    pub(super) fn search_file(
        &self,
        buffers: &mut SearchBuffers,
        path: &[u8],
        file: Result<JailFile, EntryOpenError>,
        lines: &[(u64, u64)],
    ) -> Result<(), HaltReason> {
        let file = match file {
            Ok(file) => file,
            Err(EntryOpenError::Changed) => return Ok(()),
            Err(EntryOpenError::Special) => {
                buffers.skipped.special += 1;
                return Ok(());
            }
            Err(EntryOpenError::Unreadable) => {
                buffers.skipped.unreadable += 1;
                return Ok(());
            }
        };
        let changed = self.plan.time_in_order(|| Some(changed_at(file.stat()))).unwrap_or_default();
        if self.plan.sort == SearchSort::Mtime {
            let key = FileKey { changed, path: self.absolute(path) };
            if !self.plan.is_remaining(&key) || self.collector.is_behind_page(&key) {
                return Ok(());
            }
        }
        if let Some(from) = &self.plan.resume_point {
            let from_path = &from.key.path;
            let is_here = from_path.len() == self.root.len() + path.len() && from_path.ends_with(path);
            buffers.scan_options.after_offset = from.after_offset.filter(|_| is_here);
        }
        buffers.scan_options.match_overhead_bytes = (self.root.len() + path.len()) as u64;
        if buffers.scan_options.lines != lines {
            buffers.scan_options.lines = lines.to_vec();
        }
        let mut scanner = Scanner::new(&self.plan.pattern, &mut buffers.scratch, &buffers.scan_options);
        let searched =
            file::search(&self.plan, &file, &mut scanner, &mut buffers.file_buffers, &self.large_buffer_lock)?;
        let content = scanner.finish();
        buffers.skipped.count(searched.unsearched);
        // Only the files of which the reply shows lines are hashed.
        let whole = searched.whole.filter(|_| self.plan.wants_etags && !content.found.is_empty());
        let etag = whole.map(|whole| buffers.file_buffers.etag(&whole));
        if content.count > 0 || content.cut.is_some() {
            self.collector
                .add(FileKey { changed, path: self.absolute(path) }, FileHits { has_path: false, content, etag });
        }
        Ok(())
    }
}

impl Visitor for SearchVisitor {
    type ThreadData = SearchBuffers;

    fn new_thread_data(&self) -> SearchBuffers {
        let clock = self.plan.clock.clone();
        SearchBuffers {
            scratch: self.plan.pattern.scratch(move || clock.check().is_err()),
            file_buffers: FileBuffers::default(),
            scan_options: self.plan.scan_options.clone(),
            skipped: Skipped::default(),
        }
    }

    fn admit(&self, buffers: &mut SearchBuffers, dir: &Dir, entry: WalkEntry<'_>) -> bool {
        let is_special = match entry.kind {
            FileKind::File => false,
            FileKind::Fifo | FileKind::Socket | FileKind::Device => true,
            FileKind::Dir | FileKind::Symlink | FileKind::Unknown => return false,
        };
        if !self.plan.files.has_file(entry.name, entry.path, self.prefix_bytes)
            || !self.globs.as_ref().is_none_or(|globs| globs.has(&entry.path[self.prefix_bytes..]))
        {
            return false;
        }
        if is_special {
            buffers.skipped.special += u64::from(self.plan.searches_content);
            return false;
        }
        self.match_path(buffers, entry.path, || match dir.stat_entry(entry.name)? {
            EntryStat::Entry(stat) => Some(changed_at(&stat)),
            EntryStat::MountPoint => None,
        });
        self.plan.searches_content
    }

    fn enters(&self, folder: WalkEntry<'_>) -> bool {
        !self.plan.files.excludes_folder(folder.name, folder.path, self.prefix_bytes)
    }

    fn visit(&self, buffers: &mut SearchBuffers, dir: &Dir, entry: WalkEntry<'_>) -> Result<(), HaltReason> {
        self.search_file(buffers, entry.path, self.jail.open_file(dir, entry.name), &[])
    }

    fn is_beyond(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        self.collector.is_beyond(|| self.absolute(&path()))
    }

    fn count_left_out(&self, buffers: &mut SearchBuffers, why: LeftOut) {
        match why {
            LeftOut::Unreadable => buffers.skipped.unreadable += 1,
            LeftOut::Special => buffers.skipped.special += 1,
            LeftOut::TooDeep => buffers.skipped.too_deep += 1,
            LeftOut::Ignored => buffers.skipped.ignored += 1,
        }
    }

    fn finish_thread(&self, buffers: SearchBuffers) {
        self.collector.count_skipped(buffers.skipped);
    }
}

pub(super) fn changed_at(stat: &FileStat) -> ModifiedAt {
    (stat.mtime, stat.mtime_ns)
}

impl Skipped {
    fn count(&mut self, unsearched: Option<UnsearchedReason>) {
        match unsearched {
            None => {}
            Some(UnsearchedReason::Binary) => self.binary += 1,
            Some(UnsearchedReason::Unreadable) => self.unreadable += 1,
            Some(UnsearchedReason::LongLine) => self.long_line += 1,
            Some(UnsearchedReason::TooLarge) => self.too_large += 1,
        }
    }
}
