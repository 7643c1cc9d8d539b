//! One folder, as listings see it: which names are on a page, and what a look at each finds. Shared by list-folder,
//! which shows a page, and tree, which shows the first one of every folder.

mod page;

use std::ops::ControlFlow;

use crate::{
    jail::{Call, Dir, DirEntry, Jail, ListDenied, Names, Seen},
    sys::fs::Kind,
    wire::{Result, types::list_folder::EntryKind},
};
use page::Page;
pub(super) use page::room;

/// Names and kinds, sorted by bytes, and how many the whole folder has.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) page: Names,
    pub(super) total: u64,
}

/// What a look at an entry found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) non_accessible: bool,
    pub(super) mount_point: bool,
}

impl Facts {
    /// `kind` comes from the directory entry and is used for mount points, which are not stat-ed. A denied entry shows only
    /// its kind.
    pub(super) fn new(seen: Seen, kind: Kind, non_accessible: bool) -> Self {
        let (kind, size, mtime, mount_point) = match seen {
            Seen::Entry(stat) if non_accessible => (stat.kind, 0, 0, false),
            Seen::Entry(stat) => (stat.kind, stat.size_bytes, stat.mtime, false),
            Seen::MountPoint => (kind, 0, 0, !non_accessible),
        };
        Self { kind: wire_kind(kind), size, mtime, non_accessible, mount_point }
    }
}

/// The `len` names after the first `skip` of those that `keep` wants and the policy shows. Reads the folder as often as
/// its names need to fit into memory.
pub(super) fn collect(
    jail: &Jail,
    call: &Call,
    dir: &Dir,
    (skip, len): (u64, u64),
    keep: impl Fn(&DirEntry<'_>) -> bool,
) -> Result<Found> {
    let folder = dir.path();
    let hides = jail.settings().list_denied == ListDenied::Hide;
    let is_denied = jail.denied_entries(folder.clone());
    let is_left_out = |name: &[u8]| jail.is_private_entry(folder, name) || (hides && is_denied(name));
    let mut page = Page::new(skip, len);
    let mut total = None;
    loop {
        let (mut pass, mut seen) = (page.pass(), 0);
        dir.for_each(call, |entry| {
            if !is_left_out(entry.name) && keep(&entry) {
                seen += 1;
                if pass.takes(entry.name) {
                    pass.push(entry.name, entry.kind);
                }
            }
            ControlFlow::Continue(())
        })?;
        // Later passes may see a folder that has changed; the first one is what this page is about.
        let total = *total.get_or_insert(seen);
        match page.end_pass(pass) {
            None => call.checkpoint()?,
            Some(page) => return Ok(Found { page, total }),
        }
    }
}

pub(super) fn wire_kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::File => EntryKind::File,
        Kind::Dir => EntryKind::Dir,
        Kind::Symlink => EntryKind::Symlink,
        Kind::Fifo | Kind::Socket | Kind::Device | Kind::Unknown => EntryKind::Other,
    }
}
