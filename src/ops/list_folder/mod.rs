//! `coder::list-folder`: one page of one folder. Names are collected compactly; only the page is looked at.

mod page;

use std::ops::ControlFlow;

use super::{
    Handler,
    names::{named, shown, shown_path},
};
use crate::{
    broker::{Intent, Question},
    jail::{Call, Dir, Jail, ListDenied, Located, Seen},
    path::RawPath,
    sys::fs::Kind,
    wire::{
        Result,
        types::list_folder::{EntryKind, ListEntry, ListFolder, ListFolderRequest, ListFolderResponse},
    },
};
use page::{Page, Pass};

impl Handler for ListFolder {
    fn questions(jail: &Jail, request: &ListFolderRequest) -> Vec<Question> {
        locate(jail, request).iter().map(|folder| folder.question(Intent::Read)).collect()
    }

    fn run(jail: &Jail, call: &mut Call, request: ListFolderRequest) -> Result<ListFolderResponse> {
        let page = request.page.unwrap_or(1).max(1);
        let limits = &call.limits;
        let page_size = request.page_size.unwrap_or(limits.list_default_page_size);
        let page_size = page_size.min(limits.list_max_page_size).max(1);

        let folder = locate(jail, &request)?;
        let dir = jail.open(call, &folder, Intent::Read)?.open_dir(jail, call)?;
        let first = u64::from(page - 1) * u64::from(page_size);
        let found = collect(jail, call, &dir, first, u64::from(page_size))?;
        let entries: Vec<ListEntry> =
            found.page.iter().filter_map(|(name, kind)| entry(jail, &dir, name, *kind)).collect();
        let vanished = (found.page.len() - entries.len()) as u64;
        let (path, path_bytes) = shown_path(jail, &folder.path);
        Ok(ListFolderResponse {
            path,
            path_bytes,
            entries,
            total: found.total - vanished,
            page,
            page_size,
            has_more: found.total > first + found.page.len() as u64 && !found.page.is_empty(),
        })
    }
}

fn locate(jail: &Jail, request: &ListFolderRequest) -> Result<Located> {
    let name = named(request.path.as_deref(), request.path_bytes.as_deref())?;
    let base_dir = request.base_dir.as_deref().map(RawPath::text);
    jail.locate(&name.unwrap_or_else(|| RawPath::text(".")), base_dir.as_ref())
}

struct Found {
    page: Vec<(Vec<u8>, Kind)>,
    total: u64,
}

/// Reads the folder, as often as its names need to fit into memory, until the page is known.
fn collect(jail: &Jail, call: &Call, dir: &Dir, first: u64, len: u64) -> Result<Found> {
    let folder = dir.path();
    let hides = jail.settings().list_denied == ListDenied::Hide;
    let is_left_out =
        |name: &[u8]| jail.is_private_entry(folder, name) || (hides && jail.is_denied(&folder.join(name)));
    let mut page = Page::new(first, len);
    let mut total = None;
    loop {
        let mut seen = 0;
        dir.for_each(call, |entry| {
            if !is_left_out(entry.name) {
                seen += 1;
                page.push(entry.name, entry.kind);
            }
            ControlFlow::Continue(())
        })?;
        // Later passes may see a folder that has changed; the first one is what this page is about.
        let total = *total.get_or_insert(seen);
        match page.end_pass() {
            Pass::Again => call.checkpoint()?,
            Pass::Done(page) => return Ok(Found { page, total }),
        }
    }
}

/// None when the entry has gone meanwhile, or may not be looked at.
fn entry(jail: &Jail, dir: &Dir, name: &[u8], kind: Kind) -> Option<ListEntry> {
    let seen = dir.stat_entry(name)?;
    let (shown_name, name_bytes) = shown(name);
    let (kind, size, mtime, mount_point) = match seen {
        Seen::Entry(stat) => (stat.kind, stat.size_bytes, stat.mtime, false),
        Seen::MountPoint => (kind, 0, 0, true),
    };
    Some(ListEntry {
        name: shown_name,
        name_bytes,
        kind: wire_kind(kind),
        size,
        mtime,
        non_accessible: jail.is_denied(&dir.path().join(name)),
        mount_point,
    })
}

fn wire_kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::File => EntryKind::File,
        Kind::Dir => EntryKind::Dir,
        Kind::Symlink => EntryKind::Symlink,
        Kind::Fifo | Kind::Socket | Kind::Device | Kind::Unknown => EntryKind::Other,
    }
}

#[cfg(test)]
mod tests;
