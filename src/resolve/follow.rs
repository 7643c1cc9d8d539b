//! Links that stay beneath their root, for roots whose policy follows them: found by walking, read, never followed by
//! the kernel. What comes out is a path without links. It is opened with links refused, so a link that somebody puts
//! there meanwhile ends the question and leads nowhere; and the deny globs have seen exactly the path that is opened.

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
/// Names walked after the first link. Forty targets of four kilobytes hold eighty thousand, and everybody waits.
const MAX_NAMES_BEHIND_LINKS: usize = 512;

/// Folders on the way that are held open, the last ones. Descriptors are everybody's, and a path has up to two thousand names.
const MAX_HELD_FOLDERS: usize = 128;

/// What is done about a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafLinkRule {
    Follow,
    /// Writing acts on the link itself.
    Keep,
}

/// The path below `root` that `rel` leads to. Every name behind a link is tested with `is_denied` before it is looked
/// at: the answer for a denied name must not depend on what it is.
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

/// `None` at an end that is no link, or none to follow: whoever opens it will see what it is, and whether it is there.
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
