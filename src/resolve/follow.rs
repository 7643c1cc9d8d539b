//! Follows links beneath a root, for roots whose policy allows it. The kernel never follows a link: this code reads each link
//! and walks on. The result is a path without links, which is then opened with links refused. So a link that another process
//! creates in the meantime makes the question fail, and the deny globs are tested against exactly the path that is opened.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::stepwise::{ResolvedName, open_name};
use crate::{
    broker::Refusal,
    path::{MAX_PATH_BYTES, Root},
    sys::{Errno, fs},
};

/// The kernel's own number.
const MAX_LINKS: usize = 40;
/// Names that are walked after the first link. Forty links of four kilobytes could hold eighty thousand names, and all
/// clients would wait for them.
const MAX_NAMES_BEHIND_LINKS: usize = 512;

/// Folders of the walk that stay open, the last ones. The limit of descriptors is shared by all clients, and a path has up to
/// two thousand names.
const MAX_HELD_FOLDERS: usize = 128;

/// What to do with a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafLinkRule {
    Follow,
    /// Writing acts on the link itself.
    Keep,
}

/// Resolves `rel` below `root` to a path without links. Tests every name behind a link with `is_denied` before it examines
/// the name, because the answer for a denied name must not depend on its kind.
pub fn follow_links(
    root: BorrowedFd<'_>,
    rel: &[u8],
    rules: &Root,
    leaf: LeafLinkRule,
    is_denied: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Refusal> {
    // Names still to walk, the next one last, and whether a link brought them in.
    let mut ahead: Vec<(Vec<u8>, bool)> = reversed_names(rel, false).collect();
    // The names so far, and their folders: held, so that `..` in a target is where we came from.
    let (mut held, mut real) = (VecDeque::<OwnedFd>::new(), Vec::<Vec<u8>>::new());
    let (mut links, mut behind) = (0, 0);
    while let Some((name, from_link)) = ahead.pop() {
        behind += usize::from(links > 0);
        if behind > MAX_NAMES_BEHIND_LINKS {
            return Err(Refusal::Escape);
        }
        match &name[..] {
            b"" | b"." => continue,
            b".." => {
                held.pop_back().ok_or(Refusal::Escape)?;
                real.pop();
                // Further up than what is held: the root is no substitute for a folder below it.
                if held.is_empty() && !real.is_empty() {
                    return Err(Refusal::Escape);
                }
                continue;
            }
            _ => real.push(name.clone()),
        }
        if links > 0 && is_denied(&real.join(&b'/')) {
            return Err(Refusal::Denied);
        }
        let here = held.back().map_or(root, AsFd::as_fd);
        match resolve_name(here, &name, rules, ahead.is_empty().then_some(leaf)) {
            Ok(None) => {}
            Ok(Some(ResolvedName::Directory(fd))) => {
                held.push_back(fd);
                if held.len() > MAX_HELD_FOLDERS {
                    held.pop_front();
                }
            }
            Ok(Some(ResolvedName::Link(target))) => {
                real.pop();
                links += 1;
                if links > MAX_LINKS || target.starts_with(b"/") {
                    return Err(Refusal::Escape);
                }
                ahead.extend(reversed_names(&target, true));
            }
            // Missing as asked for, and perhaps about to be made. Behind a dangling link nothing is made.
            Err(Refusal::NotFound) if !from_link => {
                real.extend(ahead.drain(..).rev().map(|(name, _)| name));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    let path = real.join(&b'/');
    if links > 0 && is_denied(&path) {
        return Err(Refusal::Denied);
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(Refusal::Io(Errno::NAMETOOLONG.raw_os_error()));
    }
    Ok(path)
}

/// Opens the name, or reads it if it is a link. `None` for the last name if it is no link, or a link that is not followed:
/// the code that opens it finds out its kind, and whether it exists.
fn resolve_name(
    here: BorrowedFd<'_>,
    name: &[u8],
    rules: &Root,
    leaf: Option<LeafLinkRule>,
) -> Result<Option<ResolvedName>, Refusal> {
    match leaf {
        None => open_name(here, name, rules).map(Some),
        Some(LeafLinkRule::Keep) => Ok(None),
        Some(LeafLinkRule::Follow) => Ok(fs::read_link(here, name).ok().map(ResolvedName::Link)),
    }
}

fn reversed_names(path: &[u8], from_link: bool) -> impl Iterator<Item = (Vec<u8>, bool)> {
    path.rsplit(|byte| *byte == b'/').map(move |name| (name.to_vec(), from_link))
}
