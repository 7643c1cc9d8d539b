//! An entry of a folder as replies show it, and the memory that a page of names may take. Shared by list-folder, which shows
//! one page, and tree, which shows the first one of every folder.

use crate::{jail::EntryStat, sys::fs::FileKind, wire::types::list_folder::EntryKind};

/// Bytes of names held at a time. A million ordinary names fit in one pass; the worst million takes a dozen.
const PASS_BYTES: usize = 24 << 20;
/// Offsets into the arena of the names are u32.
const MAX_PASS_BYTES: usize = u32::MAX as usize / 2;
/// Bytes that the longest name needs in the arena and its index.
const MAX_ENTRY_BYTES: u64 = 255 + 2 + 4;

/// The metadata of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryMetadata {
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) non_accessible: bool,
    pub(super) mount_point: bool,
}

impl EntryMetadata {
    /// `kind` comes from the directory entry and is used for mount points, which are not stat-ed. A denied entry shows only
    /// its kind.
    pub(super) fn new(seen: EntryStat, kind: FileKind, non_accessible: bool) -> Self {
        let (kind, size, mtime, mount_point) = match seen {
            EntryStat::Entry(stat) if non_accessible => (stat.kind, 0, 0, false),
            EntryStat::Entry(stat) => (stat.kind, stat.size_bytes, stat.mtime, false),
            EntryStat::MountPoint => (kind, 0, 0, !non_accessible),
        };
        Self { kind: wire_kind(kind), size, mtime, non_accessible, mount_point }
    }
}

pub(super) fn wire_kind(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::File => EntryKind::File,
        FileKind::Dir => EntryKind::Dir,
        FileKind::Symlink => EntryKind::Symlink,
        FileKind::Fifo | FileKind::Socket | FileKind::Device | FileKind::Unknown => EntryKind::Other,
    }
}

/// A page of `len` names as a pass takes it: how many names, and how many bytes for them.
pub(super) fn pass_capacity(len: u64) -> (usize, usize) {
    // Half a pass always holds a whole page, also where the policy allows enormous ones.
    let page_bytes = len.saturating_mul(2 * MAX_ENTRY_BYTES);
    let page_bytes = usize::try_from(page_bytes).unwrap_or(usize::MAX).min(MAX_PASS_BYTES);
    (usize::try_from(len).unwrap_or(usize::MAX), PASS_BYTES.max(page_bytes))
}
