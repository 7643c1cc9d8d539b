//! Paths as bytes: removing `..`, and finding out whether one path is beneath another. Pure, and exact because no link is
//! ever followed.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use super::Root;

pub(super) struct CollapsedPath {
    /// Absolute, no trailing slash; empty = `/`.
    pub(super) path: Vec<u8>,
    /// Shortest length the path had on the way.
    pub(super) min_len: usize,
}

/// Lexical, which is exact: symlinks are never followed on the way. Bounded by `MAX_PATH_BYTES` of `tail`.
pub(super) fn collapse(anchor: &[u8], tail: &[u8]) -> CollapsedPath {
    // In one piece: what follows is at most the tail and a slash.
    let mut path = Vec::with_capacity(anchor.len() + 1 + tail.len());
    path.extend_from_slice(anchor);
    let mut walk = CollapsedPath { path, min_len: anchor.len() };
    for component in tail.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                let parent = memchr::memrchr(b'/', &walk.path).unwrap_or(0);
                walk.path.truncate(parent);
                walk.min_len = walk.min_len.min(parent);
            }
            name => {
                walk.path.push(b'/');
                walk.path.extend_from_slice(name);
            }
        }
    }
    walk
}

/// The part of `path` after `dir`, by whole components: `/a/bc` is not beneath `/a/b`. Both must be normalised.
pub(super) fn beneath<'a>(path: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(dir)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// The path of a service file relative to a root, if it is inside the root.
pub(super) fn relative_to(path: &OsStr, root: &Root) -> Option<Vec<u8>> {
    let path = collapse(b"", path.as_bytes()).path;
    let root = collapse(b"", root.path.as_os_str().as_bytes()).path;
    beneath(&path, &root).map(<[u8]>::to_vec)
}
