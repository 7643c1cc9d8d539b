//! `coder::list-folder`: one page of one folder. Names are collected compactly; only entries of the page are stat-ed.

mod page;

use std::{ops::ControlFlow, sync::Arc};

use super::{
    Handler,
    folder::EntryMetadata,
    names::{decode_path, encode_name, encode_path},
};
use crate::{
    broker::{Intent, Question},
    jail::{Call, DeniedInListings, Dir, Jail, NameList, stat_all},
    path::RawPath,
    wire::{
        Result,
        types::list_folder::{ListEntry, ListFolder, ListFolderRequest, ListFolderResponse},
    },
};
use page::ListPage;

impl Handler for ListFolder {
    fn questions(jail: &Jail, request: &ListFolderRequest) -> Vec<Question> {
        let folder = sent_folder(request).ok().and_then(|(name, base_dir)| jail.locate_early(&name, base_dir.as_ref()));
        folder.iter().map(|folder| folder.question(Intent::Read)).collect()
    }

    fn run(jail: &Jail, call: &mut Call, request: ListFolderRequest) -> Result<ListFolderResponse> {
        let page = request.page.unwrap_or(1).max(1);
        let limits = &call.limits;
        let page_size = request.page_size.unwrap_or(limits.list_default_page_size);
        let page_size = page_size.min(limits.list_max_page_size).max(1);

        let (name, base_dir) = sent_folder(&request)?;
        let folder = jail.locate(call, &name, base_dir.as_ref())?;
        let dir = jail.open(call, &folder, Intent::Read)?.open_dir(jail, call)?;
        let first = u64::from(page - 1) * u64::from(page_size);
        let (names, total) = collect_names(jail, call, &dir, ListPage::new(first, u64::from(page_size)))?;
        let (dir, names) = (Arc::new(dir), Arc::new(names));
        let is_denied = jail.denied_entries(dir.path().clone());
        let mut entries = Vec::with_capacity(names.len());
        stat_all(call, &dir, &names, |name, kind, seen| {
            entries.extend(seen.map(|seen| list_entry(name, EntryMetadata::new(seen, kind, is_denied(name)))));
        })?;
        let vanished = (names.len() - entries.len()) as u64;
        let (path, path_bytes) = encode_path(jail, &folder.path);
        Ok(ListFolderResponse {
            path,
            path_bytes,
            entries,
            total: total.saturating_sub(vanished),
            page,
            page_size,
            has_more: total > first + names.len() as u64 && !names.is_empty(),
        })
    }
}

fn sent_folder(request: &ListFolderRequest) -> Result<(RawPath, Option<RawPath>)> {
    let name = decode_path(request.path.as_deref(), request.path_bytes.as_deref())?;
    Ok((name.unwrap_or_else(|| RawPath::text(".")), request.base_dir.as_deref().map(RawPath::text)))
}

/// The names of the page and their kinds, sorted by bytes, and how many names the policy shows of the whole folder. Reads the
/// folder as often as its names need to fit into memory.
fn collect_names(jail: &Jail, call: &Call, dir: &Dir, mut page: ListPage) -> Result<(NameList, u64)> {
    let folder = dir.path();
    let hides = jail.settings().list_denied == DeniedInListings::Hide;
    let is_denied = jail.denied_entries(folder.clone());
    let is_left_out = |name: &[u8]| jail.is_private_entry(folder, name) || (hides && is_denied(name));
    let mut total = None;
    loop {
        let (mut pass, mut seen) = (page.pass(), 0);
        dir.for_each(call, |entry| {
            if !is_left_out(entry.name) {
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
            Some(names) => return Ok((names, total)),
        }
    }
}

fn list_entry(name: &[u8], facts: EntryMetadata) -> ListEntry {
    let EntryMetadata { kind, size, mtime, non_accessible, mount_point } = facts;
    let (name, name_bytes) = encode_name(name);
    ListEntry { name, name_bytes, kind, size, mtime, non_accessible, mount_point }
}

#[cfg(test)]
mod tests;
